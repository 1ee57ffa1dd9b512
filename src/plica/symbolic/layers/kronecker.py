"""The Kronecker product layer: one unit for every choice of one unit from each input.

>>> KroneckerLayer(4, arity=3)
KroneckerLayer(arity=3, 4 -> 64)
"""

from dataclasses import dataclass
from typing import final

from plica.symbolic.layers.base import FieldsLayer, ProductLayer, assign, check_power, positive
from plica.symbolic.layers.outer_product import outer_body, outer_route
from plica.symbolic.layers.rows import ProductRow


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class KroneckerLayer(FieldsLayer, ProductLayer):
    """Products of every combination of units: an `OuterProductLayer` of equal widths.

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


ROW = ProductRow(KroneckerLayer, body=outer_body, route=outer_route)
