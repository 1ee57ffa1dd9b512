"""Writing at indices: an array with other elements there; the array itself stays as it is.

The parameter `index` says axis by axis what is written to. None is the whole axis, `(start, stop, step)` a slice with
0 <= start <= stop <= size, and "at" the indices that the next operand of integers gives. The part that is written to
has first the common shape of those operands, then the sizes of the slices, in order of axes; values broadcast to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, ShapeError, VerifyError
from plica.ir.op import Array, Op, sample
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType
from plica.ops.indexing import checked_indices
from plica.ops.rules import broadcast, require_equal_sizes, require_kind, require_same_dtype, shape_text
from plica.ops.slices import checked_slice, slice_size

AT = "at"
AxisIndex = str | tuple[Dim, Dim, Dim] | None

# mode: the function of the old element and the value that makes the new one (None: the value itself); kinds of dtype
_MODES: Mapping[str, tuple[np.ufunc | None, tuple[str, ...]]] = {
    "set": (None, ("bool", "int", "float", "complex")),
    "add": (np.add, ("int", "float", "complex")),
    "multiply": (np.multiply, ("int", "float", "complex")),
    "min": (np.minimum, ("int", "float")),
    "max": (np.maximum, ("int", "float")),
}
MODES = tuple(_MODES)


def indexed_dims(x: ArrayType, indices: Sequence[ArrayType], index: Sequence[AxisIndex]) -> tuple[Dim, ...]:
    """The shape of what `index` describes.

    Raises:
        VerifyError: `index` does not have an entry for each axis, or not an operand for each "at".
        ShapeError: A slice does not lie within its axis, or operands do not broadcast.
    """
    if len(index) != len(x.shape) or sum(entry == AT for entry in index) != len(indices):
        raise VerifyError(f"update of {x} at {index} takes an entry for each axis and an operand for each {AT!r}.")
    dims = list(broadcast(*(type_.shape for type_ in indices)))
    for axis, entry in enumerate(index):
        if isinstance(entry, tuple):
            dims.append(slice_size(x, axis, *entry))
        elif entry is None:
            dims.append(x.shape[axis])
        elif entry != AT:
            raise VerifyError(
                f"axis {axis} is updated at {entry!r}, which is none of None, (start, stop, step), {AT!r}."
            )
    return tuple(dims)


def _update_type(
    x: ArrayType, values: ArrayType, *indices: ArrayType, mode: str, index: tuple[AxisIndex, ...]
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
        f"values of shape {shape_text(values.shape)} do not broadcast to {shape_text(dims)}, "
        f"the part of {x} that is updated."
    )
    if len(values.shape) > len(dims):
        raise ShapeError(message)
    for given, wanted in zip(reversed(values.shape), reversed(dims), strict=False):
        if given != 1:
            require_equal_sizes(wanted, given, message)
    return x


def _update(x: Array, values: Array, *indices: Array, mode: str, index: tuple[Any, ...]) -> Any:
    result = np.array(x)
    rest = iter(indices)
    slices: list[Any] = []
    positions, axes = [], []
    for axis, entry in enumerate(index):
        slices.append(checked_slice(axis, x.shape[axis], *entry) if isinstance(entry, tuple) else slice(None))
        if entry == AT:
            positions.append(checked_indices(next(rest), axis, x.shape[axis]))
            axes.append(axis)
    part = np.moveaxis(result[(*slices, ...)], axes, range(len(axes)))  # a view of the result
    combine, _ = _MODES[mode]
    if combine is None:
        part[tuple(positions) or ...] = values
    elif positions:
        combine.at(part, tuple(positions), values)
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
