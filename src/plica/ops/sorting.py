"""Sorting, and searching in sorted arrays. NaN comes after every number (before, in descending order)."""

from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, Sample, sample
from plica.ir.ranges import as_first
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import normal_axis, require_kind, require_same_dtype

_X = np.asarray([[2.0, -1.0, 2.5, -1.0], [0.0, 3.0, 1.5, 0.25]])


def _sort_type(x: ArrayType, *, axis: int, descending: bool) -> ArrayType:  # noqa: ARG001 - the type is the same
    require_kind([x], ("bool", "int", "float"))
    normal_axis(axis, len(x.shape))
    return x


def _argsort_type(x: ArrayType, *, axis: int, descending: bool) -> ArrayType:
    return array_type(_sort_type(x, axis=axis, descending=descending).shape, DType.INT64)


def _argsort(x: Array, *, axis: int, descending: bool) -> Any:
    """Equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backwards, axis)


def _sort(x: Array, *, axis: int, descending: bool) -> Any:
    result = np.sort(x, axis=axis)
    return np.flip(result, axis) if descending else result


def _sort_samples() -> list[Sample]:
    return [
        *(sample(_X, axis=axis, descending=descending) for axis in (0, -1) for descending in (False, True)),
        *(sample(_X.astype(dtype), axis=1, descending=True) for dtype in ("float32", "int32", "int64", "bool")),
        sample(np.asarray([np.nan, 1.0, np.inf, -np.inf, 0.0]), axis=0, descending=False),
        sample(np.asarray([np.nan, 1.0, np.inf, -np.inf, 0.0]), axis=0, descending=True),
        sample(_X[:0], axis=0, descending=True),
        sample(_X[:0], axis=1, descending=False),
    ]


def _search_type(ordered: ArrayType, values: ArrayType, *, side: str) -> ArrayType:
    require_kind([ordered], ("int", "float"))
    require_same_dtype(ordered, values)
    if len(ordered.shape) != 1:
        raise ShapeError(f"searchsorted looks into an array of one dimension, found {ordered}.")
    if side not in ("left", "right"):
        raise ShapeError(f"side is 'left' or 'right', found {side!r}.")
    return array_type(values.shape, DType.INT64)


def _search(ordered: Array, values: Array, *, side: Any) -> Any:
    return np.searchsorted(ordered, values, side=side)


def _search_samples() -> list[Sample]:
    ordered = np.asarray([-1.0, 0.5, 0.5, 2.0])
    strange = np.asarray([-np.inf, 0.0, np.inf, np.nan, np.nan])
    samples = []
    for side in ("left", "right"):
        samples += [
            sample(ordered, _X, side=side),
            sample(ordered.astype("float32"), np.float32(0.5), side=side),
            sample(np.asarray([1, 2, 2, 5]), np.asarray([0, 2, 9]), side=side),
            sample(strange, strange, side=side),
            sample(np.asarray([0.0, np.nan, np.nan, np.nan]), np.asarray([-1.0, 1.0]), side=side),
            sample(ordered[:0], ordered, side=side),
            sample(ordered, ordered[:0], side=side),
        ]
    return samples


SORTING = (
    Op("sort", _sort_type, _sort, _sort_samples, range=as_first),
    Op("argsort", _argsort_type, _argsort, _sort_samples),
    Op("searchsorted", _search_type, _search, _search_samples),
)
