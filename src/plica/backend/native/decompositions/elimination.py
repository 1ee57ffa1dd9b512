"""Gaussian elimination with partial pivoting: equations, inverses and determinants, a batch at once."""

from __future__ import annotations

from typing import Any

from plica.backend.native.decompositions.loops import countdown, repeat
from plica.backend.native.decompositions.matrices import (
    column,
    column_numbers,
    entry,
    is_complex,
    or_nan,
    real,
    row,
    row_numbers,
)


def _sizes(xp: Any, x: Any) -> Any:
    """What pivots are compared by: of a complex number, the sum of the absolute values of its parts."""
    return xp.abs(xp.real(x)) + xp.abs(xp.imag(x)) if is_complex(x) else xp.abs(x)


def eliminated(xp: Any, x: Any) -> tuple[Any, Any]:
    """Matrices (..., N, N + K) whose first N columns are made an upper triangle, and the signs of the exchanges of rows.

    Below the diagonal something is left that is to be read as zeros.
    """
    below, right = row_numbers(xp, x), column_numbers(xp, x)

    def eliminate(place: Any, rest: Any, sign: Any) -> Any:
        now = column(xp, rest, place)
        candidates = xp.where(below >= place, _sizes(xp, now), xp.asarray(-1.0, dtype=sign.dtype))
        chosen = xp.argmax(candidates, axis=-2, keepdims=True)
        other = xp.sum(xp.where(below == chosen, rest, xp.zeros_like(rest)), axis=-2, keepdims=True)
        moved = xp.where(below == place, other, xp.where(below == chosen, row(xp, rest, place), rest))
        pivot = column(xp, other, place)
        zero = xp.zeros_like(pivot)
        factors = xp.where((below > place) & (pivot != zero), column(xp, moved, place) / pivot, zero)
        sign = xp.where(chosen == place, sign, -sign)
        return xp.where((below > place) & (right > place), moved - factors * other, moved), sign

    sign = xp.ones((*x.shape[:-2], 1, 1), dtype=real(xp, x).dtype)
    if x.dims[-2] == 0:
        return x, sign
    found: tuple[Any, Any] = repeat(x.shape[-2], eliminate, x, sign)
    return found


def solve(xp: Any, a: Any, b: Any) -> Any:
    """What `a` times it is `b`; NaN where `a` is singular."""
    batch = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size, wanted = a.shape[-1], b.shape[-1]
    left, right = xp.broadcast_to(a, (*batch, size, size)), xp.broadcast_to(b, (*batch, size, wanted))
    both, _ = eliminated(xp, xp.concat([left, right], axis=-1))
    upper, below = both[..., :size], row_numbers(xp, right)

    def substitute(place: Any, rest: Any) -> Any:
        factors = column(xp, upper, place)
        value = row(xp, rest, place) / entry(xp, upper[..., place, :], place)
        return xp.where(below == place, value, xp.where(below < place, rest - factors * value, rest))

    found = countdown(size, substitute, both[..., size:])
    regular = xp.all(_diagonal(xp, upper) != 0, axis=-1)
    return or_nan(xp, regular[..., None, None], found)


def _diagonal(xp: Any, x: Any) -> Any:
    return xp.linalg.diagonal(x)


def inv(xp: Any, x: Any) -> Any:
    """The inverses; NaN where there is none."""
    return solve(xp, x, xp.eye(x.shape[-1], dtype=x.dtype))


def slogdet(xp: Any, x: Any) -> tuple[Any, Any]:
    """The signs, or directions, of determinants and the logarithms of their absolute values."""
    upper, sign = eliminated(xp, x)
    diagonal = _diagonal(xp, upper)
    sizes = xp.abs(diagonal)
    regular = xp.all(sizes != 0, axis=-1)
    if is_complex(x):
        turns = xp.prod(diagonal / xp.astype(xp.where(sizes == 0, xp.ones_like(sizes), sizes), x.dtype), axis=-1)
        total = turns * xp.astype(sign[..., 0, 0], x.dtype)
    else:
        total = xp.prod(xp.sign(diagonal), axis=-1) * sign[..., 0, 0]
    logs = xp.sum(xp.log(sizes), axis=-1)
    return xp.where(regular, total, xp.zeros_like(total)), xp.where(regular, logs, xp.full_like(logs, float("-inf")))


def det(xp: Any, x: Any) -> Any:
    """The determinants: by their logarithms, so that no product on the way overflows."""
    sign, logs = slogdet(xp, x)
    return sign * (xp.astype(xp.exp(logs), x.dtype) if is_complex(x) else xp.exp(logs))
