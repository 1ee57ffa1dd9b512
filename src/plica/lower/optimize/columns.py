"""Columns of weights: those that multiply some inputs of a sum layer, and weights joined along an axis.

Columns of joined weights are columns of the weights that were joined. So rules that take a weight apart and rules that
put it together leave no operation behind.

>>> from plica.symbolic.parameters import softmax_normal
>>> first, second = softmax_normal((2, 3)), softmax_normal((2, 4))
>>> both = joined([first, second])
>>> both.shape, columns(both, range(3)).output is first.output, columns(both, [4, 6]).shape
((2, 7), True, (2, 2))
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.symbolic.layers import SumLayer
from plica.symbolic.parameters import (
    ConcatParameter,
    ConstantParameter,
    IndexParameter,
    MixingWeightParameter,
    Parameter,
    dereferenced,
)


def columns(weight: Parameter, chosen: Sequence[int]) -> Parameter:
    """Columns of a matrix, in the order in which they are given."""
    output, (rows, width) = weight.output, weight.shape
    if tuple(chosen) == tuple(range(width)):
        return weight
    if isinstance(output, ConcatParameter) and output.axis in (-1, 1):
        first, second = map(weight.subgraph, weight.node_inputs(output))
        split_at = first.shape[1]
        if max(chosen) < split_at:
            return columns(first, chosen)
        if min(chosen) >= split_at:
            return columns(second, [column - split_at for column in chosen])
    if isinstance(output, IndexParameter) and output.axis in (-1, 1):
        (source,) = map(weight.subgraph, weight.node_inputs(output))
        return columns(source, [output.indices[column] for column in chosen])
    if isinstance(output, ConstantParameter) and np.ndim(output.value) == 0:
        return Parameter.from_input(ConstantParameter(rows, len(chosen), value=output.value))
    return Parameter.from_unary(IndexParameter(weight.shape, indices=chosen, axis=1), weight)


def of_inputs(layer: SumLayer, positions: Sequence[int]) -> Parameter:
    """The weight of some inputs of a sum layer: `(K, 1)` of each for a mixing layer, else `(O, I)`."""
    weight = layer.evaluated_params["weight"]
    if len(positions) == layer.arity == 1:
        return weight
    width = weight.shape[1] // layer.arity
    return columns(weight, [position * width + column for position in positions for column in range(width)])


def joined(weights: Sequence[Parameter], axis: int = 1) -> Parameter:
    """Matrices joined along an axis; constants of one and the same number become one constant."""
    if len(weights) == 1:
        return weights[0]
    half = len(weights) // 2
    first, second = joined(weights[:half], axis), joined(weights[half:], axis)
    concatenation = ConcatParameter(first.shape, second.shape, axis=axis)
    numbers = [only_number(weight) for weight in (first, second)]
    if numbers[0] is not None and numbers[0] == numbers[1]:
        return Parameter.from_input(ConstantParameter(*concatenation.shape, value=numbers[0]))
    return Parameter.from_binary(concatenation, first, second)


def added(units: int, count: int) -> SumLayer:
    """The layer that adds up inputs, unit by unit."""
    ones = ConstantParameter(units, count, value=1.0)
    return SumLayer(units, units, count, Parameter.from_unary(MixingWeightParameter(ones.shape), ones))


def constant(node: Any) -> NDArray[Any] | None:
    """The array of a constant leaf; None for any other node."""
    target = dereferenced(node)
    return np.broadcast_to(target.value, target.shape) if isinstance(target, ConstantParameter) else None


def only_number(weight: Parameter) -> Any:
    """The number that is every entry of a constant weight; None of any other weight."""
    value = constant(weight.output)
    return None if value is None or (value != value.flat[0]).any() else value.flat[0].item()
