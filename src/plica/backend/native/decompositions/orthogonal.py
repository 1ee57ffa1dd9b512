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
    real,
    row_numbers,
    squared,
    transposed,
)


def qr(xp: Any, x: Any, *, mode: str) -> tuple[Any, Any]:
    """An orthogonal matrix and an upper triangle whose product is `x`; the signs are those of LAPACK."""
    high, count = x.shape[-2], least(xp, x)
    work, taus = reflected(xp, x)
    below, inner = row_numbers(xp, x), high if mode == "complete" else count

    def accumulate(place: Any, found: Any) -> Any:
        vector = _vector(xp, column(xp, work, place), below, place)
        return found - entry(xp, taus, place) * vector * xp.matmul(transposed(xp, vector), found)

    unit = xp.broadcast_to(xp.eye(high, inner, dtype=x.dtype), (*x.shape[:-2], high, inner))
    return countdown(count, accumulate, unit), xp.triu(work[..., :inner, :])


def least(xp: Any, x: Any) -> Any:
    """The lesser of the sizes of matrices."""
    high, wide = x.shape[-2:]
    return min(high, wide) if isinstance(high, int) and isinstance(wide, int) else xp.minimum(high, wide)


def reflected(xp: Any, x: Any) -> tuple[Any, Any]:
    """The triangle, in the upper part of matrices, and the vectors of reflections below; the tau of each, (..., K).

    Each reflection I - tau v v^H, with v 1 at its place and 0 above, makes a column zero below the diagonal; v stands
    where it made zeros.
    """
    count = least(xp, x)
    below, right, places = row_numbers(xp, x), column_numbers(xp, x), xp.arange(count)
    taus = xp.zeros((*x.shape[:-2], count), dtype=x.dtype)
    if x.dims[-2] == 0 or x.dims[-1] == 0:
        return x, taus

    def reflect(place: Any, work: Any, taus: Any) -> Any:
        now = column(xp, work, place)
        alpha = entry(xp, work[..., place], place)
        beta, tau = _reflection(xp, xp.where(below > place, now, xp.zeros_like(now)), alpha)
        divisor = xp.where(tau == 0, xp.ones_like(alpha), alpha - beta)
        vector = _vector(xp, now / divisor, below, place)
        shadow = conjugated(xp, tau) * vector * xp.matmul(transposed(xp, vector), work)
        after = xp.where(below > place, vector, xp.where(below == place, beta, now))
        work = xp.where(right == place, after, xp.where(right > place, work - shadow, work))
        return work, xp.where(places == place, tau[..., 0], taus)

    found: tuple[Any, Any] = repeat(count, reflect, x, taus)
    return found


def _reflection(xp: Any, tail: Any, alpha: Any) -> tuple[Any, Any]:
    """What the diagonal entry becomes, and tau, for an entry and what is below it."""
    whole = xp.concat([tail, alpha], axis=-2)
    _, scale = xp.rescale(xp.max(xp.abs(whole), axis=-2, keepdims=True) * 0.25)
    wide = xp.astype(scale, tail.dtype) if is_complex(tail) else scale
    norm = scale * xp.sqrt(xp.sum(squared(xp, whole / wide), axis=-2, keepdims=True))
    norm = xp.astype(xp.where(real(xp, alpha) < 0, norm, -norm), tail.dtype)
    kept = xp.all(tail == 0, axis=-2, keepdims=True)
    kept = kept & (xp.imag(alpha) == 0) if is_complex(tail) else kept
    tau = xp.where(kept, xp.zeros_like(alpha), (norm - alpha) / xp.where(kept, xp.ones_like(norm), norm))
    return xp.where(kept, alpha, norm), tau


def _vector(xp: Any, entries: Any, below: Any, place: Any) -> Any:
    """`entries` below a place, 1 there and 0 above."""
    return xp.where(below > place, entries, xp.astype(below == place, entries.dtype))
