"""Rules of operators for the histogram layer: products of layers of equal bins, and integrals.

>>> from plica.symbolic.layers import HistogramLayer
>>> _multiply(HistogramLayer([0], 4, num_bins=3), HistogramLayer([0], 2, num_bins=3)).output
HistogramLayer(scope={0}, 8)
"""

from typing import Any

import numpy as np

from plica.errors import UnsupportedError
from plica.symbolic.layers.blocks import check_equal_scopes, total_of_table
from plica.symbolic.layers.histogram import HistogramLayer
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.states import StateTable
from plica.symbolic.parameters import (
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    LogParameter,
    Parameter,
    Shape,
    SumParameter,
    dereferenced,
)
from plica.symbolic.scope import Scope


def _integrals(layer: HistogramLayer) -> StateTable:
    """The integrals of units over bins, as a table."""
    parameter = layer.probs if layer.logits is None else layer.logits
    assert parameter is not None, "a layer has logits or probs"
    return StateTable(parameter.ref(), log_space=layer.logits is not None)


def _multiply(first: HistogramLayer, second: HistogramLayer) -> CircuitBlock:
    """Densities multiply within bins: the integral of the product is that of both, divided by the width of the bin."""
    check_equal_scopes(first, second)
    if not _are_equal(first.edges, second.edges):
        raise UnsupportedError(
            f"multiply: {first!r} times {second!r}: their bins are not known to be equal; give both layers the same "
            "constant edges, or one parameter of edges."
        )
    table = _integrals(first).times(_integrals(second))
    shape = table.numbers.shape
    log_density = _log_inverse_widths(first.edges.ref(), shape)
    parameter: dict[str, Any]
    if table.log_space:
        parameter = {"logits": Parameter.from_binary(SumParameter(shape, shape), table.numbers, log_density)}
    else:
        density = Parameter.from_unary(ExpParameter(shape), log_density)
        parameter = {"probs": Parameter.from_binary(HadamardParameter(shape, shape), table.numbers, density)}
    product = HistogramLayer(first.scope, shape[0], num_bins=shape[1], edges=first.edges.ref(), **parameter)
    return CircuitBlock.from_layer(product)


def _are_equal(edges: Parameter, other_edges: Parameter) -> bool:
    """Whether two parameters of edges are one leaf, or equal constants."""
    first, second = (dereferenced(parameter.output) for parameter in (edges, other_edges))
    if isinstance(first, ConstantParameter) and isinstance(second, ConstantParameter):
        numbers, others = (np.broadcast_to(leaf.value, leaf.shape) for leaf in (first, second))
        return np.array_equal(numbers, others)
    return first is second


def _log_inverse_widths(edges: Parameter, shape: Shape) -> Parameter:
    """The logarithms of 1 / width of the bins `(N,)`, for each unit: `(K, N)`."""
    units, bins = shape
    ends = [
        Parameter.from_unary(IndexParameter(edges.shape, indices=range(start, start + bins), axis=0), edges)
        for start in (0, 1)
    ]
    size, minus = (bins,), ConstantParameter(bins, value=-1.0)
    low = Parameter.from_binary(HadamardParameter(size, size), ends[0], minus)
    width = Parameter.from_binary(SumParameter(size, size), ends[1], low)
    logs = Parameter.from_unary(LogParameter(size), width)
    spread = EinsumParameter((units,), size, equation="k,n->kn")
    return Parameter.from_binary(spread, ConstantParameter(units, value=-1.0), logs)


def _integrate(layer: HistogramLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG001 - the variable of the layer
    return total_of_table(_integrals(layer))


OPERATORS = (
    OperatorRow("multiply", (HistogramLayer, HistogramLayer), _multiply),
    OperatorRow("integrate", (HistogramLayer,), _integrate),
)
