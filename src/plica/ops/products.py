"""Products of stacks of matrices together with what is done to their factors or to them.

Queries weigh tables by flows: matrices of both are taken in another order and multiplied, and products of matrices are
multiplied by what is there already. Each alone would write an array that only the next reads.
"""

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import require_equal_sizes, require_kind, require_same_dtype


def _matmul_taken_type(a: ArrayType, b: ArrayType, index: ArrayType) -> ArrayType:
    require_kind([a, b], ("float",))
    require_kind([index], ("int",))
    message = f"matmul_taken multiplies (F, M, K) by (G, K, N), those at an index (H,), found {a}, {b} and {index}."
    if (len(a.shape), len(b.shape), len(index.shape)) != (3, 3, 1):
        raise ShapeError(message)
    require_equal_sizes(a.shape[2], b.shape[1], message)
    return array_type((index.shape[0], a.shape[1], b.shape[2]), require_same_dtype(a, b))


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


PRODUCTS = (
    Op(
        "matmul_taken",
        _matmul_taken_type,
        lambda a, b, index: np.matmul(a[index], b[index]),
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
)
