"""Functions that decompositions of matrices share: conjugates, scales, and matrices that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_complex(x: Any) -> bool:
    """Whether entries are complex numbers."""
    return bool(x.dtype.kind == "complex")


def conjugated(xp: Any, x: Any) -> Any:
    """The conjugates."""
    return xp.conj(x) if is_complex(x) else x


def transposed(xp: Any, x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return conjugated(xp, xp.matrix_transpose(x))


def real(xp: Any, x: Any) -> Any:
    """The real parts."""
    return xp.real(x) if is_complex(x) else x


def squared(xp: Any, x: Any) -> Any:
    """The squares of absolute values, in real numbers."""
    return xp.square(xp.real(x)) + xp.square(xp.imag(x)) if is_complex(x) else xp.square(x)


def epsilon(x: Any) -> float:
    """The distance from 1 to the next number of the dtype of `x`, or of its parts."""
    return float(np.finfo(x.dtype.numpy).eps)


def lesser(xp: Any, first: Any, second: Any) -> Any:
    """The lesser of two sizes, known or not."""
    return min(first, second) if isinstance(first, int) and isinstance(second, int) else xp.minimum(first, second)


def row_numbers(xp: Any, x: Any) -> Any:
    """The numbers of the rows of matrices (..., M, N): (M, 1)."""
    return xp.expand_dims(xp.arange(x.shape[-2]), axis=1)


def column_numbers(xp: Any, x: Any) -> Any:
    """The numbers of the columns of matrices (..., M, N): (N,)."""
    return xp.arange(x.shape[-1])


def column(xp: Any, x: Any, index: Any) -> Any:
    """One column of matrices: (..., M, 1)."""
    return xp.expand_dims(x[..., index], axis=-1)


def row(xp: Any, x: Any, index: Any) -> Any:
    """One row of matrices: (..., 1, N)."""
    return xp.expand_dims(x[..., index, :], axis=-2)


def entry(xp: Any, x: Any, index: Any) -> Any:
    """One entry of vectors (..., N), or of the diagonals of matrices: (..., 1, 1)."""
    return xp.expand_dims(xp.expand_dims(x[..., index], axis=-1), axis=-1)


def largest(xp: Any, x: Any) -> Any:
    """The largest absolute value of each matrix, 0 if it has no entry: (..., 1, 1)."""
    sizes = xp.abs(x)
    flat = xp.reshape(sizes, (*sizes.shape[:-2], sizes.shape[-2] * sizes.shape[-1]))
    zero = xp.zeros((*sizes.shape[:-2], 1), dtype=sizes.dtype)
    return xp.expand_dims(xp.max(xp.concat([flat, zero], axis=-1), axis=-1, keepdims=True), axis=-1)


def rescaled(xp: Any, x: Any) -> tuple[Any, Any]:
    """Matrices divided by a power of two, so that squares neither overflow nor vanish, and that power (..., 1, 1)."""
    _, scale = xp.rescale(largest(xp, x) * 0.25)  # a quarter: the power above the largest number may be infinite
    return x / (xp.astype(scale, x.dtype) if is_complex(x) else scale), scale


def finite_part(xp: Any, x: Any) -> tuple[Any, Any]:
    """Which matrices are finite, (..., 1, 1), and the matrices, with zeros instead of those that are not."""
    finite = xp.all(xp.isfinite(x), axis=(-2, -1), keepdims=True)
    return finite, xp.where(finite, x, xp.zeros_like(x))


def or_nan(xp: Any, truths: Any, x: Any) -> Any:
    """`x` where `truths` hold, NaN elsewhere."""
    return xp.where(truths, x, xp.full_like(x, float("nan")))
