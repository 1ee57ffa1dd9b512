"""Reading arrays at indices. Every index must lie within its axis: none is clipped.

In `index` and `gather` negative indices count from the end; in the other operations none wraps. The namespaces and the
lowering guard what comes from data; a backend may check, and the interpreter does.
"""

from functools import partial
from typing import Any

import numpy as np

from plica.errors import BoundsError, DTypeError, ShapeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Derivative, Memory, Op, Sample, View, sample
from plica.ir.ranges import as_first
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, normal_axis, require_equal_sizes, require_kind, require_same_dtype

_X = np.arange(6.0, dtype="float32").reshape(2, 3)


def _check(indices: Array, size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        bad = indices.min() if indices.min() < 0 else indices.max()
        raise BoundsError(f"index {bad} does not lie within an axis of size {size}.")


def checked_indices(indices: Array, axis: int, size: int) -> Array:
    """`indices` counted from the front.

    Raises:
        BoundsError: An index does not lie within the axis.
    """
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        raise BoundsError(outside_message(outside.flat[0], axis, size))
    return np.where(indices < 0, indices.astype(np.int64) + size, indices.astype(np.int64))


def outside_message(index: object, axis: int, size: object) -> str:
    """The error text for an index beyond the end of its axis."""
    return f"index {index} does not lie within axis {axis} of size {size}; indices are -{size} <= i < {size}."


def _index_type(x: ArrayType, position: ArrayType, *, axis: int) -> ArrayType:
    if position.shape or position.dtype != DType.INT64:
        raise DTypeError(f"index reads at a scalar i64[], found {position}.")
    without = normal_axis(axis, len(x.shape))
    return array_type([size for at, size in enumerate(x.shape) if at != without], x.dtype)


def _index(x: Array, position: Array, *, axis: int) -> Any:
    return np.take(x, checked_indices(position, axis, x.shape[axis]), axis=axis)


def _gather_type(x: ArrayType, *indices: ArrayType, axes: tuple[int, ...]) -> ArrayType:
    require_kind(indices, ("int",))
    if not indices or len(axes) != len(indices):
        raise VerifyError(f"gather takes one array of indices for each of the axes {axes}, found {len(indices)}.")
    read = [normal_axis(axis, len(x.shape)) for axis in axes]
    if len(set(read)) != len(read):
        raise ShapeError(f"gather reads an axis twice: {axes}.")
    common = broadcast(*(type_.shape for type_ in indices))
    return array_type((*common, *(size for axis, size in enumerate(x.shape) if axis not in read)), x.dtype)


def _gather(x: Array, *indices: Array, axes: tuple[int, ...]) -> Any:
    moved = np.moveaxis(x, axes, range(len(axes)))
    return moved[
        tuple(checked_indices(array, axis, size) for array, axis, size in zip(indices, axes, moved.shape, strict=False))
    ]


def _take_type(x: ArrayType, indices: ArrayType, *, axis: int) -> ArrayType:
    require_kind([indices], ("int",))
    along = normal_axis(axis, len(x.shape))
    if len(indices.shape) != 1:
        raise ShapeError(f"take reads along one axis with indices of one dimension, found {indices}.")
    return array_type((*x.shape[:along], indices.shape[0], *x.shape[along + 1 :]), x.dtype)


def _take(x: Array, indices: Array, *, axis: int) -> Any:
    _check(indices, x.shape[axis])
    return np.take(x, indices, axis=axis)


def _along_type(x: ArrayType, indices: ArrayType, *, axis: int) -> ArrayType:
    require_kind([indices], ("int",))
    along = normal_axis(axis, len(x.shape))
    message = f"indices {indices} do not match {x} outside axis {along}."
    if len(indices.shape) != len(x.shape):
        raise ShapeError(message)
    for other_axis in (axis for axis in range(len(x.shape)) if axis != along):
        require_equal_sizes(x.shape[other_axis], indices.shape[other_axis], message)
    return array_type(indices.shape, x.dtype)


def _along(x: Array, indices: Array, *, axis: int) -> Any:
    _check(indices, x.shape[axis])
    return np.take_along_axis(x, indices, axis=axis)


def _lookup_type(table: ArrayType, index: ArrayType) -> ArrayType:
    require_kind([index], ("int",))
    message = f"lookup takes a table (F, K, C) and an index (F, B), found {table} and {index}."
    if len(table.shape) != 3 or len(index.shape) != 2:
        raise ShapeError(message)
    require_equal_sizes(table.shape[0], index.shape[0], message)
    folds, units, _ = table.shape
    return array_type((folds, index.shape[1], units), table.dtype)


def _lookup(table: Array, index: Array) -> Any:
    _check(index, table.shape[2])
    folds = np.arange(table.shape[0])[:, None]
    return table[folds, :, index]


def _search_type(table: ArrayType, rows: ArrayType, uniforms: ArrayType) -> ArrayType:
    require_kind([rows], ("int",))
    require_kind([table], ("float",))
    message = (
        "search_cumulative takes a table (F, K, C), rows (F, B) and uniforms (F, B), "
        f"found {table}, {rows} and {uniforms}."
    )
    if len(table.shape) != 3 or len(rows.shape) != 2 or len(uniforms.shape) != 2:
        raise ShapeError(message)
    for first, second in ((table.shape[0], rows.shape[0]), *zip(rows.shape, uniforms.shape, strict=True)):
        require_equal_sizes(first, second, message)
    if table.dtype != uniforms.dtype:
        raise DTypeError(f"search_cumulative: the table is {table.dtype.value}, the uniforms {uniforms.dtype.value}.")
    require_same_dtype(table, uniforms)
    return array_type(rows.shape, DType.INT64)


def _search(table: Array, rows: Array, uniforms: Array) -> Any:
    _check(rows, table.shape[1])
    cumulative = table[np.arange(table.shape[0])[:, None], rows]
    total = cumulative[:, :, -1:]
    # uniform * total may round up to the total, as for subnormals; then the first entry that reaches the total is drawn
    count = np.sum((cumulative <= uniforms[:, :, None] * total) & (cumulative < total), axis=-1)
    return np.minimum(count, table.shape[2] - 1)


def _search_samples() -> list[Sample]:
    table = np.cumsum(np.asarray([[[0.2, 0.0, 0.5, 0.3], [0.0, 1.0, 1.0, 0.0]]]), axis=-1)
    rows = np.asarray([[0, 0, 0, 1, 1, 1]])
    uniforms = np.asarray([[0.0, 0.2, 0.999, 0.0, 0.5, 0.75]])
    smallest = np.cumsum(np.asarray([[[0.0, 5e-324, 0.0], [5e-324, 5e-324, 0.0]]]), axis=-1)
    return [
        sample(table, rows, uniforms),
        sample(table.astype("float32"), rows, uniforms.astype("float32")),
        sample(smallest, np.asarray([[0, 0, 1, 1]]), np.asarray([[0.25, 0.75, 0.1, 0.999]])),
    ]


_I = np.asarray([[1, -1], [0, 1]])

_selected = partial(Op, range=as_first, view=View.SELECTED)

INDEXING = (
    _selected(
        "index",
        _index_type,
        _index,
        lambda: [sample(_X, np.int64(-2), axis=1), sample(_X, np.int64(1), axis=0)],
        memory=Memory.VIEW,
    ),
    _selected(
        "gather",
        _gather_type,
        _gather,
        lambda: [
            sample(_X, _I, axes=(0,)),
            sample(_X, _I[1], axes=(1,)),
            sample(_X.reshape(1, 2, 3), np.asarray([-3, 2]), _I, axes=(2, 1)),
        ],
        memory=Memory.COPY,
    ),
    _selected(
        "take",
        _take_type,
        _take,
        lambda: [sample(_X, np.asarray([2, 0, 0]), axis=1), sample(_X, [1], axis=0)],
        memory=Memory.COPY,
    ),
    _selected(
        "take_along_axis",
        _along_type,
        _along,
        lambda: [sample(_X, np.asarray([[2], [0]]), axis=1)],
    ),
    _selected(
        "lookup",
        _lookup_type,
        _lookup,
        lambda: [sample(_X.reshape(1, 2, 3), np.asarray([[0, 2, 2, 1]])), sample(_X.reshape(2, 1, 3), [[2], [0]])],
    ),
    Op("search_cumulative", _search_type, _search, _search_samples, derivative=Derivative.NONE),
)
