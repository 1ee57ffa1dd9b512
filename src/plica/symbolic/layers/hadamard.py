"""The Hadamard product layer: unit k multiplies unit k of every input.

>>> HadamardLayer(8, arity=3)
HadamardLayer(arity=3, 8 -> 8)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from plica.symbolic.layers.base import FieldsLayer, ProductLayer, assign, positive
from plica.symbolic.layers.rows import ProductRow
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class HadamardLayer(FieldsLayer, ProductLayer):
    """Products of units: unit k is the product of unit k of each input.

    Args:
        num_input_units: K, the number of units of each input and of the layer.
        arity: H, the number of inputs.
    """

    num_input_units: int
    arity: int

    def __init__(self, num_input_units: int, arity: int = 2) -> None:
        name = "HadamardLayer"
        units, inputs = positive(name, "num_input_units", num_input_units), positive(name, "arity", arity)
        assign(self, num_input_units=units, arity=inputs)

    @property
    def num_output_units(self) -> int:
        """The number of units of each input."""
        return self.num_input_units


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: HadamardLayer,  # noqa: ARG001
    params: Params,  # noqa: ARG001
    inputs: Sequence[Value],
) -> Value:
    product = inputs[0]
    for factor in inputs[1:]:
        product = semiring.product(xp, product, factor)
    return product


def _route(xp: Namespace, layer: HadamardLayer, units: Array) -> tuple[Array, ...]:  # noqa: ARG001
    return (units,) * layer.arity


ROW = ProductRow(HadamardLayer, body=_body, route=_route)
