"""Products of stacks of matrices together with what is done to their factors or to them.

Queries weigh tables by flows: matrices of both are taken in another order and multiplied, and products of matrices are
multiplied by what is there already. Each alone would write an array that only the next reads. What a core of Tucker's
hands on to both of its vectors, `einsum("fbi,foij,fbj->fbo", x, core, y)` followed backwards, begins with one product.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import ShapeError
from plica.ir.op import Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.indexing import checked_indices
from plica.ops.rules import require_equal_sizes, require_kind, require_same_dtype


def _matmul_taken_type(a: ArrayType, b: ArrayType, index: ArrayType) -> ArrayType:
    require_kind([a, b], ("float",))
    require_kind([index], ("int",))
    message = f"matmul_taken multiplies (F, M, K) by (G, K, N), those at an index (H,), found {a}, {b} and {index}."
    if (len(a.shape), len(b.shape), len(index.shape)) != (3, 3, 1):
        raise ShapeError(message)
    require_equal_sizes(a.shape[2], b.shape[1], message)
    return array_type((index.shape[0], a.shape[1], b.shape[2]), require_same_dtype(a, b))


def _matmul_taken(a: NDArray[Any], b: NDArray[Any], index: NDArray[Any]) -> Any:
    return np.matmul(*(one[checked_indices(index, 0, one.shape[0])] for one in (a, b)))


def _multiply_matmul_type(x: ArrayType, a: ArrayType, b: ArrayType) -> ArrayType:
    require_kind([x, a, b], ("float",))
    message = f"multiply_matmul multiplies (F, M, N) by products of (F, M, K) and (F, K, N), found {x}, {a} and {b}."
    if any(len(one.shape) != 3 for one in (x, a, b)):
        raise ShapeError(message)
    (folds, rows, units), inner = x.shape, a.shape[2]
    for one, expected in ((a, (folds, rows, inner)), (b, (folds, inner, units))):
        for size, wanted in zip(one.shape, expected, strict=True):
            require_equal_sizes(size, wanted, message)
    return array_type(x.shape, require_same_dtype(x, a, b))


def _tucker_type(change: ArrayType, core: ArrayType, x: ArrayType, y: ArrayType) -> tuple[ArrayType, ArrayType]:
    types = (change, core, x, y)
    require_kind(types, ("float",))
    message = f"tucker_derivatives takes (F, B, O), a core (F, O, I, J), (F, B, I) and (F, B, J), found {types}."
    if [len(one.shape) for one in types] != [3, 4, 3, 3]:
        raise ShapeError(message)
    (folds, rows, units), (_, _, first, second) = change.shape, core.shape
    wanted = ((folds, units, first, second), (folds, rows, first), (folds, rows, second))
    for one, shape in zip(types[1:], wanted, strict=True):
        for size, expected in zip(one.shape, shape, strict=True):
            require_equal_sizes(expected, size, message)
    dtype = require_same_dtype(*types)
    return array_type(x.shape, dtype), array_type(y.shape, dtype)


def _tucker(change: NDArray[Any], core: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> Any:
    return np.einsum("fbo,foij,fbj->fbi", change, core, y), np.einsum("fbo,foij,fbi->fbj", change, core, x)


def _tucker_decomposed(xp: Any, change: Any, core: Any, x: Any, y: Any) -> Any:
    pairs = xp.einsum("fbo,foij->fbij", change, core)
    return xp.einsum("fbij,fbj->fbi", pairs, y), xp.einsum("fbij,fbi->fbj", pairs, x)


def _samples() -> list[Sample]:
    a = np.arange(1.0, 13.0, dtype="float32").reshape(3, 2, 2) / 4
    b = np.asarray([[[0.5, -2.0, 1.0], [3.0, 0.0, 0.25]], [[1.0, 1.0, 0.0], [-1.0, 2.0, 4.0]]], dtype="float32")
    return [
        sample(a[:2], b, [1, 0, 0]),
        sample(a, b, [1, 0, 1]),
        sample(a.astype("float64"), b.astype("float64"), [0]),
    ]


def _multiplied_samples() -> list[Sample]:
    a = np.arange(1.0, 13.0, dtype="float32").reshape(2, 3, 2) / 4
    b = np.asarray([[[0.5, -2.0], [3.0, 0.0]], [[1.0, 1.0], [-1.0, 2.0]]], dtype="float32")
    return [sample(a - 1, a, b), sample(a.astype("float64"), a.astype("float64"), b.astype("float64"))]


def _tucker_samples() -> list[Sample]:
    core = np.arange(12.0, dtype="float32").reshape(1, 2, 2, 3) - 5
    change, x = np.asarray([[[1.0, -2.0]]], dtype="float32"), np.asarray([[[0.5, 3.0]]], dtype="float32")
    y = np.asarray([[[1.0, 0.0, -1.0]]], dtype="float32")
    return [sample(change, core, x, y), sample(*(one.astype("float64") for one in (change, core, x, y)))]


PRODUCTS = (
    Op(
        "matmul_taken",
        _matmul_taken_type,
        _matmul_taken,
        _samples,
        lambda xp, a, b, index: xp.matmul(xp.take(a, index, axis=0), xp.take(b, index, axis=0)),
    ),
    Op(
        "multiply_matmul",
        _multiply_matmul_type,
        lambda x, a, b: x * np.matmul(a, b),
        _multiplied_samples,
        lambda xp, x, a, b: xp.multiply(x, xp.matmul(a, b)),
    ),
    Op("tucker_derivatives", _tucker_type, _tucker, _tucker_samples, _tucker_decomposed),
)
