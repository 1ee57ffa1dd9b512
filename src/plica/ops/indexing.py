"""Reading arrays at indices. Every index must lie within its axis: none wraps, none is clipped.

The namespaces and the lowering guard what comes from data; a backend may check, and the interpreter does.
"""

from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import normal_axis, require_kind, require_same_dtype

_X = np.arange(6.0, dtype="float32").reshape(2, 3)


def _check(indices: Array, size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        bad = indices.min() if indices.min() < 0 else indices.max()
        raise InputError(f"index {bad} does not lie within an axis of size {size}.")


def _take_type(x: ArrayType, indices: ArrayType, *, axis: int) -> ArrayType:
    require_kind([indices], ("int",))
    place = normal_axis(axis, len(x.shape))
    if len(indices.shape) != 1:
        raise ShapeError(f"take reads along one axis with indices of one dimension, found {indices}.")
    return array_type((*x.shape[:place], indices.shape[0], *x.shape[place + 1 :]), x.dtype)


def _take(x: Array, indices: Array, *, axis: int) -> Any:
    _check(indices, x.shape[axis])
    return np.take(x, indices, axis=axis)


def _along_type(x: ArrayType, indices: ArrayType, *, axis: int) -> ArrayType:
    require_kind([indices], ("int",))
    place = normal_axis(axis, len(x.shape))
    others = [index for index in range(len(x.shape)) if index != place]
    if len(indices.shape) != len(x.shape) or any(x.shape[i] != indices.shape[i] for i in others):
        raise ShapeError(f"indices {indices} do not match {x} outside axis {place}.")
    return array_type(indices.shape, x.dtype)


def _along(x: Array, indices: Array, *, axis: int) -> Any:
    _check(indices, x.shape[axis])
    return np.take_along_axis(x, indices, axis=axis)


def _lookup_type(table: ArrayType, index: ArrayType) -> ArrayType:
    require_kind([index], ("int",))
    if len(table.shape) != 3 or len(index.shape) != 2 or table.shape[0] != index.shape[0]:
        raise ShapeError(f"lookup takes a table (F, K, C) and an index (F, B), found {table} and {index}.")
    folds, units, _ = table.shape
    return array_type((folds, index.shape[1], units), table.dtype)


def _lookup(table: Array, index: Array) -> Any:
    _check(index, table.shape[2])
    folds = np.arange(table.shape[0])[:, None]
    return table[folds, :, index]


def _search_type(table: ArrayType, rows: ArrayType, uniforms: ArrayType) -> ArrayType:
    require_kind([rows], ("int",))
    require_kind([table], ("float",))
    if len(table.shape) != 3 or rows.shape != uniforms.shape or table.shape[:1] != rows.shape[:1]:
        raise ShapeError(
            "search_cumulative takes a table (F, K, C), rows (F, B) and uniforms (F, B), "
            f"found {table}, {rows} and {uniforms}."
        )
    if table.dtype != uniforms.dtype:
        raise DTypeError(f"search_cumulative: the table is {table.dtype.value}, the uniforms {uniforms.dtype.value}.")
    require_same_dtype(table, uniforms)
    return array_type(rows.shape, DType.INT64)


def _search(table: Array, rows: Array, uniforms: Array) -> Any:
    _check(rows, table.shape[1])
    chosen = table[np.arange(table.shape[0])[:, None], rows]
    found = np.sum(chosen <= uniforms[:, :, None] * chosen[:, :, -1:], axis=-1)
    return np.minimum(found, table.shape[2] - 1)


def _search_samples() -> list[Sample]:
    table = np.cumsum(np.asarray([[[0.2, 0.0, 0.5, 0.3], [0.0, 1.0, 1.0, 0.0]]]), axis=-1)
    rows = np.asarray([[0, 0, 0, 1, 1, 1]])
    uniforms = np.asarray([[0.0, 0.2, 0.999, 0.0, 0.5, 0.75]])
    return [sample(table, rows, uniforms), sample(table.astype("float32"), rows, uniforms.astype("float32"))]


INDEXING = (
    Op("take", _take_type, _take, lambda: [sample(_X, np.asarray([2, 0, 0]), axis=1), sample(_X, [1], axis=0)]),
    Op("take_along_axis", _along_type, _along, lambda: [sample(_X, np.asarray([[2], [0]]), axis=1)]),
    Op("lookup", _lookup_type, _lookup, lambda: [sample(_X.reshape(1, 2, 3), np.asarray([[0, 2, 2, 1]]))]),
    Op("search_cumulative", _search_type, _search, _search_samples),
)
