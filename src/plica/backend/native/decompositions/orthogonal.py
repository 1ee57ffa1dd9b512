"""Householder's factorization into an orthogonal and a triangular matrix, a batch at once."""

from __future__ import annotations

from typing import Any

from plica.backend.native.decompositions.loops import countdown, repeat
from plica.backend.native.decompositions.matrices import (
    column,
    column_numbers,
    conjugated,
    entry,
    is_complex,
    lesser,
    real,
    row_numbers,
    squared,
    transposed,
)


def qr(xp: Any, x: Any, *, mode: str) -> tuple[Any, Any]:
    """An orthogonal matrix and an upper triangle whose product is `x`; the signs are those of LAPACK."""
    num_rows, count = x.shape[-2], lesser(xp, *x.shape[-2:])
    work, taus = reflected(xp, x)
    below, inner = row_numbers(xp, x), num_rows if mode == "complete" else count

    def accumulate(index: Any, product: Any) -> Any:
        vector = _vector(xp, column(xp, work, index), below, index)
        return product - entry(xp, taus, index) * vector * xp.matmul(transposed(xp, vector), product)

    unit = xp.broadcast_to(xp.eye(num_rows, inner, dtype=x.dtype), (*x.shape[:-2], num_rows, inner))
    return countdown(count, accumulate, unit), xp.triu(work[..., :inner, :])


def reflected(xp: Any, x: Any) -> tuple[Any, Any]:
    """Matrices with the triangle in the upper part and the vectors of reflections below it, and their taus, (..., K).

    Reflection j is I - tau v v^H, where v is 1 at j and 0 above. It makes column j zero below the diagonal; the rest of
    v is stored instead of these zeros.
    """
    count = lesser(xp, *x.shape[-2:])
    below, right, numbers = row_numbers(xp, x), column_numbers(xp, x), xp.arange(count)
    taus = xp.zeros((*x.shape[:-2], count), dtype=x.dtype)
    if x.dims[-2] == 0 or x.dims[-1] == 0:
        return x, taus

    def reflect(index: Any, work: Any, taus: Any) -> Any:
        current = column(xp, work, index)
        alpha = entry(xp, work[..., index], index)
        beta, tau = _reflection(xp, xp.where(below > index, current, xp.zeros_like(current)), alpha)
        divisor = xp.where(tau == 0, xp.ones_like(alpha), alpha - beta)
        vector = _vector(xp, current / divisor, below, index)
        shadow = conjugated(xp, tau) * vector * xp.matmul(transposed(xp, vector), work)
        reflected_column = xp.where(below > index, vector, xp.where(below == index, beta, current))
        work = xp.where(right == index, reflected_column, xp.where(right > index, work - shadow, work))
        return work, xp.where(numbers == index, tau[..., 0], taus)

    work_and_taus: tuple[Any, Any] = repeat(count, reflect, x, taus)
    return work_and_taus


def _reflection(xp: Any, tail: Any, alpha: Any) -> tuple[Any, Any]:
    """The new diagonal entry and tau, from the diagonal entry `alpha` and the entries `tail` below it."""
    entries = xp.concat([tail, alpha], axis=-2)
    _, scale = xp.rescale(xp.max(xp.abs(entries), axis=-2, keepdims=True) * 0.25)
    wide = xp.astype(scale, tail.dtype) if is_complex(tail) else scale
    norm = scale * xp.sqrt(xp.sum(squared(xp, entries / wide), axis=-2, keepdims=True))
    norm = xp.astype(xp.where(real(xp, alpha) < 0, norm, -norm), tail.dtype)
    is_zero = xp.all(tail == 0, axis=-2, keepdims=True)
    is_zero = is_zero & (xp.imag(alpha) == 0) if is_complex(tail) else is_zero
    tau = xp.where(is_zero, xp.zeros_like(alpha), (norm - alpha) / xp.where(is_zero, xp.ones_like(norm), norm))
    return xp.where(is_zero, alpha, norm), tau


def _vector(xp: Any, entries: Any, below: Any, index: Any) -> Any:
    """The vector with `entries` below an index, 1 at it and 0 above."""
    return xp.where(below > index, entries, xp.astype(below == index, entries.dtype))
