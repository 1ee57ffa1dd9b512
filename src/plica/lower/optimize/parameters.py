"""Rules on the graphs of parameters, each under its equation, and common subexpressions.

A rule that holds for some numbers alone fires only where the operations say that there are no others.

>>> from plica.symbolic.parameters import LogParameter, softmax_normal
>>> slow = Parameter.from_unary(LogParameter((2, 3)), softmax_normal((2, 3)))
>>> result = optimize_graph(parameter_view(slow), PARAMETER_RULES)
>>> [type(node).__name__ for node in result.nodes]
['TensorParameter', 'LogSoftmaxParameter']
"""

from collections.abc import Callable, Hashable
from math import inf
from string import ascii_lowercase
from typing import Any

import numpy as np

from plica.graph.match import GraphOptMatch, GraphView
from plica.graph.optimize import ORDINARY, Replacement, Rule, optimize_graph
from plica.graph.pattern import Entry, Pattern
from plica.lower.optimize.ranges import known_range, never_negative
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    LogParameter,
    LogSoftmaxParameter,
    OuterProductParameter,
    Parameter,
    ParameterOp,
    ReduceSumParameter,
    ReferenceParameter,
    SoftmaxParameter,
    SumParameter,
    setting_key,
)

__all__ = ["PARAMETER_RULES", "optimize_graph", "parameter_view", "share_nodes"]

Match = GraphOptMatch[Any]
New = Replacement[Any]


def parameter_view(parameter: Parameter) -> GraphView[Any]:
    """A parameter as the engine sees it."""
    return GraphView(parameter.nodes, parameter.outputs, parameter.node_inputs, describe=_describe)


def _describe(node: Any) -> str:
    return f"{type(node).__name__}{node.shape}"


def _log_softmax(match: Match) -> New:
    softmax = match["softmax"]
    return Replacement.chain([match["x"]], LogSoftmaxParameter(softmax.in_shape, axis=softmax.axis))


def _may_be_negative(match: Match) -> str | None:
    if never_negative(match["x"], match.graph.inputs):
        return None
    return f"the logarithm's argument may be negative: {_describe(match['x'])}"


def _einsum_of_outer(match: Match) -> New:
    outer, reduced = match["outer"], match["reduced"]
    axes, at = len(outer.in_shape1), outer.axis % len(outer.in_shape1)
    summed = reduced.axis % axes
    first, second = list(ascii_lowercase[:axes]), list(ascii_lowercase[:axes])
    second[at] = ascii_lowercase[axes]
    inputs = (match["x"], match["y"])
    if summed == at:  # sum over (m, n) of x[m] y[n] = (sum over m of x[m]) (sum over n of y[n])
        result = "".join(letter for place, letter in enumerate(first) if place != at)
        return Replacement.chain(inputs, _einsum(outer, first, second, result))
    pairs = [*first[: at + 1], second[at], *first[at + 1 :]]
    result = "".join(letter for letter in pairs if letter != first[summed])
    start = result.index(first[at])
    einsum = _einsum(outer, first, second, result)
    return Replacement.chain(inputs, einsum, FlattenParameter(einsum.shape, start=start, end=start + 1))


def _einsum(outer: OuterProductParameter, first: list[str], second: list[str], result: str) -> EinsumParameter:
    equation = f"{''.join(first)},{''.join(second)}->{result}"
    return EinsumParameter(outer.in_shape1, outer.in_shape2, equation=equation)


def _folded(match: Match) -> New:
    """The constant that an operation on two constants gives; one number stays one number."""
    op = match["op"]
    first, second = (_wide(match[name].value) for name in ("first", "second"))
    value = first + second if isinstance(op, SumParameter) else first * second
    return Replacement.chain([], ConstantParameter(*op.shape, value=value))


def _wide(value: Any) -> Any:
    """A constant's numbers with 64 bits for each real part, as one number or as an array."""
    array = np.asarray(value)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return wide if wide.ndim else wide.item()


def _all(number: float) -> Callable[[Any], bool]:
    """The predicate that a constant has no other entry."""
    return lambda value: bool((np.asarray(value) == number).all())


def _is_real(dtype: DataType) -> bool:
    """Whether an operation with such a constant leaves real numbers real."""
    return dtype != DataType.COMPLEX


def _not_redundant(match: Match) -> str | None:
    clamp = match["clamp"]
    low, high = known_range(match["x"], match.graph.inputs)
    if (clamp.vmin is None or low >= clamp.vmin) and (clamp.vmax is None or high <= clamp.vmax):
        return None
    return f"the clamp may change a number: its argument lies between {low} and {high}"


def _one_clamp(match: Match) -> New:
    inner, outer = match["inner"], match["outer"]
    low = -inf if inner.vmin is None else inner.vmin
    high = inf if inner.vmax is None else inner.vmax
    bounds = [min(max(bound, _or(outer.vmin, -inf)), _or(outer.vmax, inf)) for bound in (low, high)]
    vmin, vmax = (None if abs(bound) == inf else bound for bound in bounds)
    return Replacement.chain([match["x"]], ClampParameter(inner.in_shape, vmin=vmin, vmax=vmax))


def _or(bound: float | None, other: float) -> float:
    return other if bound is None else bound


def _wraps(outer: type, inner: type) -> Pattern:
    """`outer(inner(x))`; others may read the inner node."""
    return Pattern(Entry("outer", outer, ("inner",)), Entry("inner", inner, ("x",), kept=True))


def _neutral(op: type, number: float) -> Pattern:
    """`x op constant`, in either order, where every entry of the constant is `number`."""
    return Pattern(
        Entry("op", op, ("x", "neutral"), commutative=True),
        Entry("neutral", ConstantParameter, (), config={"value": _all(number), "dtype": _is_real}, kept=True),
    )


def _of_constants(op: type) -> Pattern:
    return Pattern(
        Entry("op", op, ("first", "second")),
        Entry("first", ConstantParameter, (), kept=True),
        Entry("second", ConstantParameter, (), kept=True),
    )


PARAMETER_RULES: tuple[Rule, ...] = (
    # log(softmax(x)) -> log_softmax(x)
    Rule(
        "log-softmax",
        "log(softmax(x)) -> log_softmax(x)",
        Pattern(Entry("log", LogParameter, ("softmax",)), Entry("softmax", SoftmaxParameter, ("x",), kept=True)),
        _log_softmax,
        source="definition of the softmax; finite where the softmax underflows",
        laws=ORDINARY,
    ),
    # log(exp(x)) -> x
    Rule(
        "log-exp",
        "log(exp(x)) -> x",
        _wraps(LogParameter, ExpParameter),
        lambda match: Replacement.by(match["x"]),
        source="inverse functions; finite where exp(x) under- or overflows",
        laws=ORDINARY,
    ),
    # exp(log(x)) -> x   where x >= 0
    Rule(
        "exp-log",
        "exp(log(x)) -> x, x >= 0",
        _wraps(ExpParameter, LogParameter),
        lambda match: Replacement.by(match["x"]),
        _may_be_negative,
        source="inverse functions on the numbers that are not negative; elsewhere the logarithm is NaN",
        laws=ORDINARY,
    ),
    # sum_r outer(x, y) -> einsum(x, y)
    Rule(
        "einsum",
        "reduce_sum(outer_product(x, y)) -> flatten(einsum(x, y))",
        Pattern(Entry("reduced", ReduceSumParameter, ("outer",)), Entry("outer", OuterProductParameter, ("x", "y"))),
        _einsum_of_outer,
        source="distributivity: the outer product is never made",
        laws=ORDINARY,
    ),
    # clamp(clamp(x, a, b), c, d) -> clamp(x, clamp(a, c, d), clamp(b, c, d))
    Rule(
        "clamp-clamp",
        "clamp(clamp(x, a, b), c, d) -> clamp(x, clamp(a, c, d), clamp(b, c, d))",
        _wraps(ClampParameter, ClampParameter),
        _one_clamp,
        source="clamp(., c, d) is monotone",
        laws=ORDINARY,
    ),
    # clamp(x, a, b) -> x   where a <= x <= b
    Rule(
        "clamp",
        "clamp(x, a, b) -> x, a <= x <= b",
        Pattern(Entry("clamp", ClampParameter, ("x",))),
        lambda match: Replacement.by(match["x"]),
        _not_redundant,
        source="the range of the operation under the clamp",
        laws=ORDINARY,
    ),
    # c * d -> (c * d), computed now
    Rule(
        "constant-product",
        "constant * constant -> constant",
        _of_constants(HadamardParameter),
        _folded,
        source="both are known",
        laws=ORDINARY,
    ),
    # c + d -> (c + d), computed now
    Rule(
        "constant-sum",
        "constant + constant -> constant",
        _of_constants(SumParameter),
        _folded,
        source="both are known",
        laws=ORDINARY,
    ),
    # x * 1 -> x
    Rule(
        "times-one",
        "x * 1 -> x",
        _neutral(HadamardParameter, 1.0),
        lambda match: Replacement.by(match["x"]),
        source="neutral element",
        laws=ORDINARY,
    ),
    # x + 0 -> x
    Rule(
        "plus-zero",
        "x + 0 -> x",
        _neutral(SumParameter, 0.0),
        lambda match: Replacement.by(match["x"]),
        source="neutral element",
        laws=ORDINARY,
    ),
)


def share_nodes(parameter: Parameter) -> Parameter:
    """The parameter with one node for alike operations on alike inputs; itself where no two are alike."""
    if len(parameter.nodes) < 3:
        return parameter  # no two operations
    known: dict[Hashable, Any] = {}
    shared: dict[Any, Any] = {}
    for node in parameter.nodes:
        inputs = tuple(shared[child] for child in parameter.node_inputs(node))
        shared[node] = known.setdefault((_key(node), inputs), node)
    kept = [node for node in parameter.nodes if shared[node] is node]
    if len(kept) == len(parameter.nodes):
        return parameter
    in_nodes = {node: [shared[child] for child in parameter.node_inputs(node)] for node in kept}
    return Parameter(kept, in_nodes, [shared[output] for output in parameter.outputs])


def _key(node: Any) -> Hashable:
    """What alike nodes share beside their inputs; operations of one's own are alike if type and config are."""
    target = node.deref() if isinstance(node, ReferenceParameter) else node
    if isinstance(target, ConstantParameter):
        return (ConstantParameter, target.shape, setting_key(target.value))
    if not isinstance(target, ParameterOp):
        return target  # a leaf is like no other
    return (type(target), target.in_shapes, tuple((k, setting_key(v)) for k, v in sorted(target.config.items())))
