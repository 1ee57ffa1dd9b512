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
    """The sizes by which pivots are compared: of a complex number, the sum of the absolute values of its parts."""
    return xp.abs(xp.real(x)) + xp.abs(xp.imag(x)) if is_complex(x) else xp.abs(x)


def eliminated(xp: Any, x: Any) -> tuple[Any, Any]:
    """Matrices (..., N, N + K) with an upper triangle in the first N columns, and the signs of the row exchanges.

    The entries below the diagonal are undefined; read them as zeros.
    """
    below, right = row_numbers(xp, x), column_numbers(xp, x)

    def eliminate(index: Any, remainder: Any, sign: Any) -> Any:
        current = column(xp, remainder, index)
        candidates = xp.where(below >= index, _sizes(xp, current), xp.asarray(-1.0, dtype=sign.dtype))
        pivot_index = xp.argmax(candidates, axis=-2, keepdims=True)
        pivot_row = xp.sum(xp.where(below == pivot_index, remainder, xp.zeros_like(remainder)), axis=-2, keepdims=True)
        exchanged = xp.where(
            below == index, pivot_row, xp.where(below == pivot_index, row(xp, remainder, index), remainder)
        )
        pivot = column(xp, pivot_row, index)
        zero = xp.zeros_like(pivot)
        factors = xp.where((below > index) & (pivot != zero), column(xp, exchanged, index) / pivot, zero)
        sign = xp.where(pivot_index == index, sign, -sign)
        return xp.where((below > index) & (right > index), exchanged - factors * pivot_row, exchanged), sign

    sign = xp.ones((*x.shape[:-2], 1, 1), dtype=real(xp, x).dtype)
    if x.dims[-2] == 0:
        return x, sign
    triangle_and_sign: tuple[Any, Any] = repeat(x.shape[-2], eliminate, x, sign)
    return triangle_and_sign


def solve(xp: Any, a: Any, b: Any) -> Any:
    """The solution x of a x = b; NaN where `a` is singular."""
    batch = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size, wanted = a.shape[-1], b.shape[-1]
    left, right = xp.broadcast_to(a, (*batch, size, size)), xp.broadcast_to(b, (*batch, size, wanted))
    both, _ = eliminated(xp, xp.concat([left, right], axis=-1))
    upper, below = both[..., :size], row_numbers(xp, right)

    def substitute(index: Any, remainder: Any) -> Any:
        factors = column(xp, upper, index)
        value = row(xp, remainder, index) / entry(xp, upper[..., index, :], index)
        return xp.where(below == index, value, xp.where(below < index, remainder - factors * value, remainder))

    solution = countdown(size, substitute, both[..., size:])
    regular = xp.all(xp.linalg.diagonal(upper) != 0, axis=-1)
    return or_nan(xp, regular[..., None, None], solution)


def inv(xp: Any, x: Any) -> Any:
    """The inverses; NaN where there is none."""
    return solve(xp, x, xp.eye(x.shape[-1], dtype=x.dtype))


def slogdet(xp: Any, x: Any) -> tuple[Any, Any]:
    """The signs, or directions, of determinants and the logarithms of their absolute values."""
    upper, sign = eliminated(xp, x)
    diagonal = xp.linalg.diagonal(upper)
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
    """The determinants, by their logarithms, so that no intermediate product overflows."""
    sign, logs = slogdet(xp, x)
    return sign * (xp.astype(xp.exp(logs), x.dtype) if is_complex(x) else xp.exp(logs))
