"""The transpose layer: the units of its input in another order.

Units are laid out on axes, the last one fastest, and the axes are permuted. Products of Kronecker layers need it: their
units `(i, k, j, l)` belong in the order `(i, j, k, l)`.

>>> TransposeLayer((2, 3, 4), (0, 2, 1))
TransposeLayer(arity=1, 24 -> 24)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, final

from plica.arguments import elements, integer
from plica.errors import InputError
from plica.symbolic.layers.base import FieldsLayer, ProductLayer, assign, positive
from plica.symbolic.layers.rows import ProductRow
from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TransposeLayer(FieldsLayer, ProductLayer):
    """A product of one factor, whose units are laid out on axes that are permuted.

    Args:
        sizes: The sizes of the axes of the input's units, the last axis fastest.
        axes: A permutation: axis q of the layer's units is axis `axes[q]` of the input's.

    Raises:
        InputError: `axes` is no permutation of the axes.
    """

    input_range: ClassVar[tuple[int, int | None]] = (1, 1)
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    def __init__(self, sizes: Sequence[int], axes: Sequence[int]) -> None:
        name = "TransposeLayer"
        checked = tuple(positive(name, "each size", size) for size in elements(name, "sizes", sizes))
        order = tuple(integer(name, "each axis", axis) for axis in elements(name, "axes", axes))
        if sorted(order) != list(range(len(checked))) or not checked:
            raise InputError(
                f"{name}: axes must be a permutation of the {len(checked)} axis(es) of sizes {checked}, found {order}; "
                "name each axis once, counted from 0"
            )
        assign(self, sizes=checked, axes=order)

    @property
    def num_input_units(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @property
    def num_output_units(self) -> int:
        """The product of the sizes."""
        return prod(self.sizes)

    @property
    def arity(self) -> int:
        """One."""
        return 1


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: TransposeLayer,
    params: Params,  # noqa: ARG001
    inputs: Sequence[Value],
) -> Value:
    units = layer.num_input_units
    order = (0, 1, *(axis + 2 for axis in layer.axes))

    def fn(array: Array) -> Array:
        if array.shape[2] != units or units == 1:
            return array  # a part that all units share
        laid_out = xp.reshape(array, (*array.shape[:2], *layer.sizes))
        return xp.reshape(xp.permute_dims(laid_out, order), (*array.shape[:2], units))

    return semiring.map(xp, fn, inputs[0])


def _route(xp: Namespace, layer: TransposeLayer, units: Array) -> tuple[Array, ...]:
    steps = [prod(layer.sizes[axis + 1 :]) for axis in range(len(layer.sizes))]
    read, step = None, 1
    for axis in reversed(layer.axes):  # the digits of the unit's number, the fastest first
        digit = xp.remainder(xp.floor_divide(units, step), layer.sizes[axis]) * steps[axis]
        read, step = digit if read is None else read + digit, step * layer.sizes[axis]
    return (read,)


ROW = ProductRow(TransposeLayer, body=_body, route=_route)
