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
    """The triangle L with L L^H = x (with `upper`: U^H U = x), from one triangle of `x`; NaN if there is none.

    Step j divides column j of the remainder by the root of its diagonal entry: this is column j of the factor. Then it
    subtracts the product of that column and its transpose from the remainder.
    """
    below, right = row_numbers(xp, x), column_numbers(xp, x)

    def eliminate(index: Any, remainder: Any, definite: Any) -> Any:
        current = column(xp, remainder, index)
        pivot = real(xp, entry(xp, remainder[..., index, :], index))
        definite = definite & (pivot > 0)
        root = xp.astype(xp.sqrt(pivot), x.dtype)
        factor_column = xp.where(below > index, current / root, xp.where(below == index, root, xp.zeros_like(current)))
        square = factor_column * transposed(xp, factor_column)
        return xp.where(right == index, factor_column, xp.where(right > index, remainder - square, remainder)), definite

    lower = transposed(xp, x) if upper else x
    definite = xp.all(xp.ones_like(real(xp, x)) > 0, axis=(-2, -1), keepdims=True)
    factor, definite = repeat(x.shape[-1], eliminate, lower, definite)
    return or_nan(xp, definite, conjugated(xp, xp.matrix_transpose(factor)) if upper else factor)
