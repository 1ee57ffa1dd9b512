"""The outer product layer: one unit for every choice of one unit from each input, whose widths may differ.

>>> OuterProductLayer((4, 3))
OuterProductLayer(arity=2, 4 and 3 -> 12)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import ClassVar, final

from plica.arguments import elements
from plica.errors import ShapeError
from plica.symbolic.layers.base import MAX_BITS, FieldsLayer, ProductLayer, assign, positive
from plica.symbolic.layers.rows import ProductRow
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class OuterProductLayer(FieldsLayer, ProductLayer):
    """Products of every combination of units; the unit of the first input changes slowest.

    With inputs of one width it computes what a `KroneckerLayer` does.

    Args:
        sizes: The number of units of each input; the layer has as many as their product.

    Raises:
        ShapeError: There is no input, or more units than can be counted.
    """

    input_range: ClassVar[tuple[int, int | None]] = (1, None)
    sizes: tuple[int, ...]

    def __init__(self, sizes: Sequence[int]) -> None:
        name = "OuterProductLayer"
        checked = tuple(positive(name, "each size", size) for size in elements(name, "sizes", sizes))
        if not checked:
            raise ShapeError(f"{name}: there are no sizes; give the number of units of each input, at least one")
        if sum(map(log2, checked)) > MAX_BITS:
            raise ShapeError(
                f"{name}: one unit for every choice from inputs of {' and '.join(map(str, checked))} units is more "
                "than can be counted; use fewer inputs or units"
            )
        assign(self, sizes=checked)

    @property
    def num_input_units(self) -> int:
        """The largest number of units of an input; `input_widths` has them all."""
        return max(self.sizes)

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The number of units of each input."""
        return self.sizes

    @property
    def num_output_units(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @property
    def arity(self) -> int:
        """The number of inputs."""
        return len(self.sizes)


def outer_body(
    xp: Namespace,
    semiring: Semiring,
    layer: ProductLayer,  # noqa: ARG001
    params: Params,  # noqa: ARG001
    inputs: Sequence[Value],
) -> Value:
    """The products of every combination of units."""
    product = inputs[0]
    for factor in inputs[1:]:
        product = semiring.outer(xp, product, factor)
    return product


def outer_route(xp: Namespace, layer: ProductLayer, units: Array) -> tuple[Array, ...]:
    """The unit of each input: the digits of a unit's number in a base for each, that of the first input leading."""
    sizes = layer.input_widths
    steps = [prod(sizes[index + 1 :]) for index in range(len(sizes))]
    return tuple(xp.remainder(xp.floor_divide(units, step), size) for step, size in zip(steps, sizes, strict=True))


ROW = ProductRow(OuterProductLayer, body=outer_body, route=outer_route)
