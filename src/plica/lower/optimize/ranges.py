"""Which numbers the nodes of a parameter can be: an interval for each, from its operation and those of its inputs.

>>> from plica.symbolic.parameters import ExpParameter, Parameter, normal
>>> weight = Parameter.from_unary(ExpParameter((2,)), normal((2,)))
>>> known_range(weight.output, weight.node_inputs), known_range(weight.nodes[0], weight.node_inputs)
((0.0, inf), (-inf, inf))
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from plica.graph.order import topological_order
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    MixingWeightParameter,
    OuterProductParameter,
    OuterSumParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    ReferenceParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
)

Range = tuple[float, float]
Rule = Callable[[Any, list[Range]], Range]
ANYTHING: Range = (-inf, inf)


def known_range(node: Any, inputs: Callable[[Any], Sequence[Any]]) -> Range:
    """The least and the largest number that an entry of `node` can be; not a statement on NaN."""
    ranges: dict[Any, Range] = {}
    for one in topological_order([node], inputs):
        rule = _RULES.get(type(one), _unknown)
        ranges[one] = rule(one, [ranges[child] for child in inputs(one)])
    return ranges[node]


def never_negative(node: Any, inputs: Callable[[Any], Sequence[Any]]) -> bool:
    """Whether no entry of `node` can be below zero."""
    return known_range(node, inputs)[0] >= 0


def underflow(node: Any, inputs: Callable[[Any], Sequence[Any]]) -> float:
    """How many smallest normal numbers an entry of `node` may lack because it or what it is made of underflowed.

    One for the entry itself; a product adds what its factors lack times the largest that the other can be. Factors
    without a known bound count as 1.
    """
    found: dict[Any, float] = {}
    for one in topological_order([node], inputs):
        found[one] = 1.0
        terms = _TERMS.get(type(one))
        if terms is not None:
            first, second = inputs(one)
            most = [abs(known_range(child, inputs)[1]) for child in (first, second)]
            each = found[first] * most[1] + found[second] * most[0] + 1.0
            found[one] = terms(one) * each if each < inf else 1.0
    return found[node]


# products of two: how many terms an entry sums
_TERMS: dict[type, Callable[[Any], int]] = {
    HadamardParameter: lambda _: 1,
    KroneckerParameter: lambda _: 1,
    OuterProductParameter: lambda _: 1,
    MatMulParameter: lambda node: int(node.in_shape1[1]),
}


def _unknown(_: Any, __: list[Range]) -> Range:
    return ANYTHING


def _constant(node: Any, _: list[Range]) -> Range:
    target = node.deref() if isinstance(node, ReferenceParameter) else node
    if not isinstance(target, ConstantParameter) or target.dtype == DataType.COMPLEX:
        return ANYTHING
    value = np.asarray(target.value)
    return (float(value.min()), float(value.max()))


def _clamp(node: ClampParameter, ranges: list[Range]) -> Range:
    low = -inf if node.vmin is None else node.vmin
    high = inf if node.vmax is None else node.vmax
    return (min(max(ranges[0][0], low), high), max(min(ranges[0][1], high), low))


def _non_negative(_: Any, ranges: list[Range]) -> Range:
    """Sums and products of what is not negative."""
    return (0.0, inf) if all(low >= 0 for low, _ in ranges) else ANYTHING


def _matmul(node: MatMulParameter, ranges: list[Range]) -> Range:
    """Sums of as many products as the matrices share columns; no less than zero where no factor is."""
    if any(low < 0 for low, _ in ranges):
        return ANYTHING
    return (0.0, node.in_shape1[1] * ranges[0][1] * ranges[1][1] if 0 not in (ranges[0][1], ranges[1][1]) else 0.0)


def _add(_: Any, ranges: list[Range]) -> Range:
    return (sum(low for low, _ in ranges), sum(high for _, high in ranges))


_RULES: dict[type, Rule] = {
    ConstantParameter: _constant,
    ReferenceParameter: _constant,
    SoftmaxParameter: lambda *_: (0.0, 1.0),
    LogSoftmaxParameter: lambda *_: (-inf, 0.0),
    MatMulParameter: _matmul,
    SigmoidParameter: lambda *_: (0.0, 1.0),
    ScaledSigmoidParameter: lambda node, _: (node.vmin, node.vmax),
    ExpParameter: lambda *_: (0.0, inf),
    SoftplusParameter: lambda *_: (0.0, inf),
    ClampParameter: _clamp,
    IndexParameter: lambda _, ranges: ranges[0],
    FlattenParameter: lambda _, ranges: ranges[0],
    SumParameter: _add,
    OuterSumParameter: _add,
    MixingWeightParameter: lambda _, ranges: (min(ranges[0][0], 0.0), max(ranges[0][1], 0.0)),
    **dict.fromkeys(
        (
            HadamardParameter,
            KroneckerParameter,
            OuterProductParameter,
            ReduceSumParameter,
            ReduceProductParameter,
            EinsumParameter,
        ),
        _non_negative,
    ),
}
