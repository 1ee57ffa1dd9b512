"""The Kronecker product layer: one unit for every choice of one unit from each input.

>>> KroneckerLayer(4, arity=3)
KroneckerLayer(arity=3, 4 -> 64)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from plica.symbolic.layers.base import FieldsLayer, ProductLayer, assign, check_power, positive
from plica.symbolic.layers.rows import ProductRow
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class KroneckerLayer(FieldsLayer, ProductLayer):
    """Products of every combination of units; the unit of the first input changes slowest.

    Args:
        num_input_units: K, the number of units of each input; the layer has K^H.
        arity: H, the number of inputs.
    """

    num_input_units: int
    arity: int

    def __init__(self, num_input_units: int, arity: int = 2) -> None:
        name = "KroneckerLayer"
        units, inputs = positive(name, "num_input_units", num_input_units), positive(name, "arity", arity)
        check_power(name, units, inputs)
        assign(self, num_input_units=units, arity=inputs)

    @property
    def num_output_units(self) -> int:
        """K^H."""
        return int(self.num_input_units**self.arity)


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: KroneckerLayer,  # noqa: ARG001
    params: Params,  # noqa: ARG001
    inputs: Sequence[Value],
) -> Value:
    product = inputs[0]
    for factor in inputs[1:]:
        product = semiring.outer(xp, product, factor)
    return product


def _route(xp: Namespace, layer: KroneckerLayer, units: Array) -> tuple[Array, ...]:
    # the digits of the unit's number in base K, the first input's digit leading
    base, last = layer.num_input_units, layer.arity - 1
    return tuple(xp.remainder(xp.floor_divide(units, base ** (last - index)), base) for index in range(layer.arity))


ROW = ProductRow(KroneckerLayer, body=_body, route=_route)
