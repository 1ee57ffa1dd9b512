"""The range of the numbers of each node of a parameter, from its operation and the ranges of its inputs.

>>> from plica.symbolic.parameters import ExpParameter, Parameter, normal
>>> weight = Parameter.from_unary(ExpParameter((2,)), normal((2,)))
>>> known_range(weight.output, weight.node_inputs), known_range(weight.nodes[0], weight.node_inputs)
((0.0, inf), (-inf, inf))
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from plica.graph.order import from_inputs
from plica.ir.ranges import ANYTHING, Range, excludes_negative, range_of_values
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ConstantParameter,
    CountedSoftmaxParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
    dereferenced,
)

Inputs = Callable[[Any], Sequence[Any]]


class Numbers(NamedTuple):
    """The kind and the range of a node's numbers.

    Args:
        kind: The widest kind that they may have: complex where nothing is known.
        range: Their range; None where they may be complex.
    """

    kind: DataType
    range: Range | None


def numbers(inputs: Inputs) -> Callable[[Any], Numbers]:
    """The function that gives the `Numbers` of nodes of a graph with these edges; it visits each node once."""
    return from_inputs(inputs, _numbers)


def _numbers(node: Any, inputs: list[Numbers]) -> Numbers:
    if inputs:
        ranges = [operand.range for operand in inputs]
        result_range = None if None in ranges else node.range(*ranges)
        kind = DataType.REAL if DataType.REAL in [operand.kind for operand in inputs] else DataType.INTEGER
        return _UNKNOWN if result_range is None else Numbers(kind, result_range)
    leaf = dereferenced(node)
    if type(leaf) is TensorParameter:
        return _LEAVES[leaf.dtype]
    result_range = range_of_values(np.asarray(leaf.value)) if type(leaf) is ConstantParameter else None
    return _UNKNOWN if result_range is None else Numbers(DataType.REAL, result_range)


_UNKNOWN = Numbers(DataType.COMPLEX, None)
_LEAVES = {
    DataType.INTEGER: Numbers(DataType.INTEGER, ANYTHING),
    DataType.REAL: Numbers(DataType.REAL, ANYTHING),
    DataType.COMPLEX: _UNKNOWN,
}


def known_range(node: Any, inputs: Inputs) -> Range:
    """The least and the largest number that an entry of `node` can be, unless it is NaN."""
    return numbers(inputs)(node).range or ANYTHING


def never_negative(node: Any, inputs: Inputs) -> bool:
    """Whether no entry of `node` can be below zero."""
    return excludes_negative(numbers(inputs)(node).range)


class Magnitude(NamedTuple):
    """How large and how exact the entries of a node are.

    Args:
        numbers: Their kind and range.
        underflow: A bound of the error that underflow causes in an entry, in multiples of the smallest normal number:
            one for the entry itself, and for a product the error of each factor times the largest value of the other.
            Infinite where nothing bounds it, 0 for leaves.
    """

    numbers: Numbers
    underflow: float

    @property
    def largest(self) -> float:
        """The largest number that an entry can be."""
        return (self.numbers.range or ANYTHING)[1]


def magnitude(node: Any, inputs: Inputs) -> Magnitude:
    """How large and how exact the entries of `node` are."""
    return from_inputs(inputs, _magnitude)(node)


def _magnitude(node: Any, inputs: list[Magnitude]) -> Magnitude:
    known = _numbers(node, [operand.numbers for operand in inputs])
    if not inputs:
        return Magnitude(known, 0.0 if _is_exact(node) else 1.0)

    def largest(position: int) -> float:
        return max(map(abs, inputs[position].numbers.range or ANYTHING))

    return Magnitude(known, node.underflow([operand.underflow for operand in inputs], largest))


def known_row_sum(parameter: Parameter) -> float:
    """An upper bound of the sum of the absolute values in a row; infinite where none is known.

    Assumes:
        The parameter is `(O, N)`, and computed in float32 or wider.
    """
    output = parameter.output
    if not isinstance(output, SoftmaxParameter | CountedSoftmaxParameter) or output.axis not in (
        -1,
        len(output.shape) - 1,
    ):
        return inf
    return 1.0 + _ROUNDING if output.shape[-1] <= _MAX_ENTRIES else inf


_ROUNDING = 2.0**-7
_MAX_ENTRIES = 2**15
"""Entries of a row of a softmax, each of which rounds relative to itself: in float32 they sum to 2**-7 more at most."""


def _is_exact(leaf: Any) -> bool:
    """Whether a leaf is a tensor, or a constant of zeros and numbers of normal size."""
    target = dereferenced(leaf)
    if type(target) is not ConstantParameter:
        return True
    value = np.abs(np.asarray(target.value))
    return not ((value > 0) & (value < _SMALLEST_NORMAL)).any()


_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
