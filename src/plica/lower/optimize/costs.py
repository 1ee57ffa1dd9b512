"""Estimates of work: multiply-adds and numbers written, for each row of data and for each evaluation of parameters.

A cost rule compares estimates at `ROWS` rows; reports show savings at so many rows. A layer without an entry here
costs nothing: its rules report no saving.

>>> from plica.symbolic.layers import KroneckerLayer, SumLayer, TuckerLayer
>>> before, after = layer_cost(KroneckerLayer(4)) + layer_cost(SumLayer(16, 4)), layer_cost(TuckerLayer(4, 4))
>>> before.row, after.row
((80, 20), (80, 4))
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from plica.symbolic.layers import (
    CPTLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    OuterProductLayer,
    SparseSumLayer,
    SumLayer,
    TensorDotLayer,
    TransposeLayer,
    TuckerLayer,
    held_layers,
)
from plica.symbolic.parameters import EinsumParameter, MatMulParameter, ParameterOp

ROWS = 128
"""The batch size that estimates are for."""

BYTES = 4
"""The size of a number in estimates: float32."""

WRITING = 8
"""How many multiply-adds take as long as writing a number and reading it again, where arrays leave the caches."""

Work = tuple[int, int]
"""Multiply-adds, and numbers written for the next reader."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of layers.

    Args:
        row: For each row of data.
        once: For each evaluation of the parameters, whatever the number of rows.
    """

    row: Work = (0, 0)
    once: Work = (0, 0)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(_add(self.row, other.row), _add(self.once, other.once))

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(_add(self.row, other.row, -1), _add(self.once, other.once, -1))

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds at `ROWS` rows."""
        return self.row[0] * ROWS + self.once[0]

    @property
    def work(self) -> int:
        """Multiply-adds and numbers written as one figure, in multiply-adds at `ROWS` rows."""
        return self.multiply_adds + WRITING * (self.row[1] * ROWS + self.once[1])

    @property
    def flops(self) -> int:
        """Floating-point operations at `ROWS` rows: two for each multiply-add."""
        return 2 * self.multiply_adds

    @property
    def bytes(self) -> int:
        """Bytes written at `ROWS` rows in float32."""
        return BYTES * (self.row[1] * ROWS + self.once[1])


def layer_cost(layer: Layer) -> Cost:
    """The cost of a layer and of the parameters that it reads."""
    return layers_cost([layer])


def layers_cost(layers: Iterable[Layer]) -> Cost:
    """The cost of layers together, sub-layers among them; a node that several parameters read counts once."""
    cost, nodes = Cost(), dict[Any, None]()
    for layer in layers:
        for _, part in held_layers(layer):
            rule: Callable[[Any], Work] | None = _LAYERS.get(type(part))
            cost = cost if rule is None else cost + Cost(row=rule(part))
            nodes.update((node, None) for parameter in part.evaluated_params.values() for node in parameter.nodes)
    return cost + nodes_cost(nodes)


def nodes_cost(nodes: Iterable[Any]) -> Cost:
    """The cost of nodes of parameters together."""
    return total(map(node_cost, nodes))


def node_cost(node: Any) -> Cost:
    """The cost of one node of a parameter; a leaf costs nothing."""
    if not isinstance(node, ParameterOp):
        return Cost()
    rule: Callable[[Any], int] | None = _OPERATIONS.get(type(node))
    written = prod(node.shape)
    return Cost(once=(written if rule is None else rule(node), written))


def total(costs: Iterable[Cost]) -> Cost:
    """The sum of costs."""
    result = Cost()
    for cost in costs:
        result = result + cost
    return result


def _add(first: Work, second: Work, sign: int = 1) -> Work:
    return (first[0] + sign * second[0], first[1] + sign * second[1])


def _sum(layer: SumLayer) -> Work:
    columns = layer.arity if layer.mixing else layer.arity * layer.num_input_units
    return (layer.num_output_units * columns, layer.num_output_units)


def _kronecker(layer: KroneckerLayer) -> Work:
    products = sum(layer.num_input_units**power for power in range(2, layer.arity + 1))
    return (products, products)


def _outer_product(layer: OuterProductLayer) -> Work:
    products = sum(prod(layer.sizes[:count]) for count in range(2, layer.arity + 1))
    return (products, products)


def _tucker(layer: TuckerLayer) -> Work:
    # inputs are contracted one after another, each leaving a tensor with one axis less
    contractions = sum(layer.num_input_units**power for power in range(1, layer.arity + 1))
    return (layer.num_output_units * contractions, layer.num_output_units)


def _tensor_dot(layer: TensorDotLayer) -> Work:
    return (layer.num_output_units * layer.num_summed, layer.num_output_units)


def _sparse_sum(layer: SparseSumLayer) -> Work:
    # the first term is gathered and weighted; each of the others is added as well, which was measured: 128 rows of 64
    # to 512 units, float32
    sums, terms = layer.num_output_units, len(layer.terms)
    return (sums * terms, sums * (2 + 20 * (terms - 1)))


def _einsum(op: EinsumParameter) -> int:
    letters = dict(zip(op.equation.partition("->")[0].replace(",", ""), (*op.in_shape1, *op.in_shape2), strict=True))
    return prod(letters.values())


_LAYERS: dict[type[Layer], Callable[[Any], Work]] = {
    HadamardLayer: lambda layer: (layer.num_input_units * (layer.arity - 1), layer.num_output_units),
    KroneckerLayer: _kronecker,
    OuterProductLayer: _outer_product,
    SumLayer: _sum,
    SparseSumLayer: _sparse_sum,
    TuckerLayer: _tucker,
    CPTLayer: lambda layer: (
        layer.num_input_units * (layer.arity - 1 + layer.num_output_units),
        layer.num_output_units,
    ),
    TensorDotLayer: _tensor_dot,
    TransposeLayer: lambda layer: (0, layer.num_output_units),
}

_OPERATIONS: dict[type[ParameterOp], Callable[[Any], int]] = {
    MatMulParameter: lambda op: prod(op.shape) * op.in_shape1[1],
    EinsumParameter: _einsum,
}
