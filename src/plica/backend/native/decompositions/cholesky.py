"""The Cholesky factor, column by column, of all matrices of a batch at once."""

from __future__ import annotations

from typing import Any

from plica.backend.native.decompositions.loops import repeat
from plica.backend.native.decompositions.matrices import (
    column,
    column_numbers,
    conjugated,
    entry,
    or_nan,
    real,
    row_numbers,
    transposed,
)


def cholesky(xp: Any, x: Any, *, upper: bool) -> Any:
    """The triangle whose product with its transpose is `x`, of which one triangle is read; NaN where there is none.

    Column j is that of what is left, divided by the root of its diagonal entry; what is left then loses its square.
    """
    below, right = row_numbers(xp, x), column_numbers(xp, x)

    def eliminate(place: Any, rest: Any, definite: Any) -> Any:
        now = column(xp, rest, place)
        pivot = real(xp, entry(xp, rest[..., place, :], place))
        definite = definite & (pivot > 0)
        root = xp.astype(xp.sqrt(pivot), x.dtype)
        found = xp.where(below > place, now / root, xp.where(below == place, root, xp.zeros_like(now)))
        square = found * transposed(xp, found)
        return xp.where(right == place, found, xp.where(right > place, rest - square, rest)), definite

    lower = transposed(xp, x) if upper else x
    definite = xp.all(xp.ones_like(real(xp, x)) > 0, axis=(-2, -1), keepdims=True)
    factor, definite = repeat(x.shape[-1], eliminate, lower, definite)
    return or_nan(xp, definite, conjugated(xp, xp.matrix_transpose(factor)) if upper else factor)
