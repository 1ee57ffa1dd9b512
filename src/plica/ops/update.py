"""Writing at indices: an array with other elements at some places; the array itself stays as it is.

What is written to is said axis by axis in `index`: None is the whole axis, `(start, stop, step)` a slice with
0 <= start <= stop <= size, and "at" the places that the next operand of integers gives. The indexed part has the
common shape of those operands first and then the sizes of the slices, in order of axes, and the values broadcast to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, ShapeError, VerifyError
from plica.ir.op import Array, Op, sample
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType
from plica.ops.indexing import checked_indices
from plica.ops.rules import broadcast, require_equal_sizes, require_kind, require_same_dtype
from plica.ops.slices import checked_slice, slice_size

AT = "at"
Place = str | tuple[Dim, Dim, Dim] | None

# mode: what makes a new element of the old one and the value (None: the value alone), the kinds of dtype that it takes
_MODES: Mapping[str, tuple[np.ufunc | None, tuple[str, ...]]] = {
    "set": (None, ("bool", "int", "float", "complex")),
    "add": (np.add, ("int", "float", "complex")),
    "multiply": (np.multiply, ("int", "float", "complex")),
    "min": (np.minimum, ("int", "float")),
    "max": (np.maximum, ("int", "float")),
}
MODES = tuple(_MODES)


def indexed_dims(x: ArrayType, indices: Sequence[ArrayType], index: Sequence[Place]) -> tuple[Dim, ...]:
    """The shape of what `index` describes.

    Raises:
        VerifyError: `index` does not have an entry for each axis, or not an operand for each "at".
        ShapeError: A slice does not lie within its axis, or operands do not broadcast.
    """
    if len(index) != len(x.shape) or sum(place == AT for place in index) != len(indices):
        raise VerifyError(f"update of {x} at {index} takes an entry for each axis and an operand for each {AT!r}.")
    found = list(broadcast(*(one.shape for one in indices)))
    for axis, place in enumerate(index):
        if isinstance(place, tuple):
            found.append(slice_size(x, axis, *place))
        elif place is None:
            found.append(x.shape[axis])
        elif place != AT:
            raise VerifyError(
                f"axis {axis} is updated at {place!r}, which is none of None, (start, stop, step), {AT!r}."
            )
    return tuple(found)


def _update_type(
    x: ArrayType, values: ArrayType, *indices: ArrayType, mode: str, index: tuple[Place, ...]
) -> ArrayType:
    if mode not in _MODES:
        raise VerifyError(f"there is no update {mode!r}; there are {', '.join(_MODES)}.")
    require_kind(indices, ("int",))
    require_kind([x], _MODES[mode][1])
    if x.dtype != values.dtype:
        raise DTypeError(f"update of {x} with {values}: the dtypes differ; convert with astype.")
    require_same_dtype(x, values)
    dims = indexed_dims(x, indices, index)
    message = (
        f"values of shape {_text(values.shape)} do not broadcast to {_text(dims)}, the part of {x} that is updated."
    )
    if len(values.shape) > len(dims):
        raise ShapeError(message)
    for given, wanted in zip(reversed(values.shape), reversed(dims), strict=False):
        if given != 1:
            require_equal_sizes(wanted, given, message)
    return x


def _text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, shape))})"


def _update(x: Array, values: Array, *indices: Array, mode: str, index: tuple[Any, ...]) -> Any:
    result = np.array(x)
    rest = iter(indices)
    slices: list[Any] = []
    places, axes = [], []
    for axis, place in enumerate(index):
        slices.append(checked_slice(axis, x.shape[axis], *place) if isinstance(place, tuple) else slice(None))
        if place == AT:
            places.append(checked_indices(next(rest), axis, x.shape[axis]))
            axes.append(axis)
    part = np.moveaxis(result[(*slices, ...)], axes, range(len(axes)))  # a view of the result
    combine, _ = _MODES[mode]
    if combine is None:
        part[tuple(places) or ...] = values
    elif places:
        combine.at(part, tuple(places), values)
    else:
        part[...] = combine(part, values)
    return result


_X = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
_V = np.asarray([0.5, -0.25, 1.5], "float32")
_I = np.asarray([2, 0, 2])

UPDATE = (
    Op(
        "update",
        _update_type,
        _update,
        lambda: [
            sample(_X, np.float32(9.5), mode="set", index=((0, 1, 1), None, (1, 4, 2))),
            sample(_X[0], _V, np.int64(-1), mode="set", index=(None, AT)),
            sample(_X[0], _V[:, None], _I, mode="add", index=(AT, None)),
            sample(_X, _V[:, None], _I, np.asarray([[-1], [0]]), mode="add", index=((1, 2, 1), AT, AT)),
            *(sample(_X[0], _V[:2], mode=mode, index=((1, 3, 1), (0, 4, 3))) for mode in MODES),
            *(sample(_X[0] - 3, _V[:, None], _I, mode=mode, index=(AT, None)) for mode in MODES if mode != "set"),
        ],
    ),
)
