"""Searches whose number of results is known only at run time: the first result of each row is that number."""

from typing import Any

import numpy as np

from plica.errors import ShapeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.op import Array, Op, sample
from plica.ir.sizes import Size
from plica.ir.types import SCALAR_SIZE, ArrayType, OutDBIdx, array_type

_COUNT = Size.of(OutDBIdx(0))
PARTS = ("values", "indices", "inverse", "counts")


def _nonzero_type(x: ArrayType) -> tuple[ArrayType, ...]:
    if not x.shape:
        raise ShapeError(f"nonzero of the scalar {x}; give it an axis with reshape(x, (1,)).")
    return (SCALAR_SIZE, *[array_type((_COUNT,), DType.INT64)] * len(x.shape))


def _nonzero(x: Array) -> Any:
    indices = np.nonzero(x)
    return (np.int64(len(indices[0])), *indices)


def _unique_type(x: ArrayType, *, parts: tuple[str, ...]) -> tuple[ArrayType, ...]:
    if "values" not in parts or any(part not in PARTS for part in parts):
        raise VerifyError(f"unique returns 'values' and possibly others of {PARTS}, found {parts}.")
    types = {
        "values": array_type((_COUNT,), x.dtype),
        "indices": array_type((_COUNT,), DType.INT64),
        "inverse": array_type(x.shape, DType.INT64),
        "counts": array_type((_COUNT,), DType.INT64),
    }
    return (SCALAR_SIZE, *(types[part] for part in parts))


def _unique(x: Array, *, parts: tuple[str, ...]) -> Any:
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    results = {"values": values, "indices": indices, "inverse": inverse.reshape(x.shape), "counts": counts}
    return (np.int64(len(values)), *(results[part] for part in parts))


_X = np.asarray([[2.5, -1.0, 2.5], [0.0, 7.0, -1.0]], "float32")

SEARCH = (
    Op(
        "nonzero",
        _nonzero_type,
        _nonzero,
        lambda: [sample(_X[:, 1:] > 0), sample(_X.T), sample(np.asarray([0, 3, 0, 2]))],
    ),
    Op(
        "unique",
        _unique_type,
        _unique,
        lambda: [
            sample(_X, parts=PARTS),
            sample(_X, parts=("values",)),
            sample(np.asarray([3, 3, 1]), parts=("values", "inverse")),
            sample(np.asarray([True, True]), parts=("values", "counts")),
        ],
    ),
)
