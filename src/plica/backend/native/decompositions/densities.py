"""Normal densities of vectors with missing entries, and the distribution of missing entries given the others."""

from __future__ import annotations

import math
from typing import Any

from plica.backend.native.decompositions.loops import repeat
from plica.backend.native.decompositions.matrices import entry, row_numbers
from plica.backend.native.decompositions.orthogonal import reflected

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_multivariate_normal(xp: Any, scores: Any, factor: Any, *missing: Any) -> Any:
    """The logarithms of densities of mean 0 and covariance `factor @ factor.T`, in float64.

    Let A be the rows of the factor for known entries, and E the rows of the identity for missing entries. Then R of
    (A E)' = Q R is a factor of the covariance of the known entries.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), result (F, B, K).
    """
    wide, lower = xp.astype(scores, "float64"), xp.tril(xp.astype(factor, "float64"))[:, None]
    if missing:
        known = ~missing[0][:, :, None]
        wide = xp.where(known, wide, 0.0)
        is_known = xp.expand_dims(known, axis=-1)
        unit = xp.where(is_known, 0.0, xp.eye(scores.shape[-1], dtype="float64"))
        rows = xp.broadcast_to(xp.where(is_known, lower, 0.0), (*scores.shape, scores.shape[-1]))
        beside = xp.concat([rows, xp.broadcast_to(unit, rows.shape)], axis=-1)
        triangle, _ = reflected(xp, xp.matrix_transpose(beside))
        lower = xp.matrix_transpose(triangle[..., : scores.shape[-1], :])
        number = xp.astype(xp.sum(known, axis=-1), "float64")
    else:
        number = scores.shape[-1]
    white = _substituted(xp, lower, xp.expand_dims(wide, axis=-1))
    volume = xp.sum(xp.log(xp.abs(xp.linalg.diagonal(lower))), axis=-1)
    squares = xp.sum(xp.square(white), axis=(-2, -1))
    return xp.astype(squares * -0.5 - volume - number * _HALF_LOG_TWO_PI, scores.dtype)


def regression_matrix(xp: Any, factor: Any, missing: Any) -> Any:
    """The matrices M for which M x is the expected vector given its known entries, for covariance `factor @ factor.T`.

    x has 0 for missing entries. Computed in float64.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """
    lower, order, known = _known_first(xp, factor, missing)
    is_row, is_column = xp.expand_dims(known, axis=-1), xp.expand_dims(known, axis=-2)
    unit = xp.broadcast_to(xp.eye(factor.shape[-1], dtype="float64"), lower.shape)
    inverse = _substituted(xp, xp.where(is_row & is_column, lower, unit), unit)
    matrix = xp.where(is_row, unit, xp.matmul(xp.where(is_column, lower, 0.0), inverse))
    return xp.astype(_reordered(xp, matrix, order), factor.dtype)


def conditional_factor(xp: Any, factor: Any, missing: Any) -> Any:
    """The factors of covariances of missing entries given the known ones; shapes as in `regression_matrix`."""
    lower, order, known = _known_first(xp, factor, missing)
    signs = xp.where(xp.linalg.diagonal(lower) < 0, -1.0, 1.0)
    hidden = ~(xp.expand_dims(known, axis=-1) | xp.expand_dims(known, axis=-2))
    conditional = xp.where(hidden, lower * xp.expand_dims(signs, axis=-2), 0.0)
    return xp.astype(_reordered(xp, conditional, order), factor.dtype)


def _known_first(xp: Any, factor: Any, missing: Any) -> tuple[Any, Any, Any]:
    """Lower triangles of covariances with known entries first, the order as a permutation, and which entries are known.

    The triangle is L of P A = L Q, where A is the factor and P the permutation.

    Shapes: (F, B, K, V, V), (F, B, 1, V, V), (F, B, 1, V).
    """
    lower, size = xp.tril(xp.astype(factor, "float64"))[:, None], factor.shape[-1]
    known = xp.astype(~missing, "int64")
    count = xp.sum(known, axis=-1, keepdims=True)
    after = count + xp.cumulative_sum(1 - known, axis=-1)
    position = xp.where(missing, after, xp.cumulative_sum(known, axis=-1)) - 1  # (F, B, V)
    numbers = xp.arange(size)
    order = xp.astype(xp.expand_dims(position, axis=-2) == xp.expand_dims(numbers, axis=-1), "float64")[:, :, None]
    triangle, _ = reflected(xp, xp.matrix_transpose(xp.matmul(order, lower)))
    return xp.tril(xp.matrix_transpose(triangle)), order, (numbers < count)[:, :, None]


def _reordered(xp: Any, matrices: Any, order: Any) -> Any:
    """Matrices with the permutation of their rows and columns undone."""
    return xp.matmul(xp.matmul(xp.matrix_transpose(order), matrices), order)


def _substituted(xp: Any, lower: Any, x: Any) -> Any:
    """The solution y of L y = x, by forward substitution: L the lower triangle, x and y matrices (..., V, N)."""
    below = row_numbers(xp, x)

    def substitute(index: Any, remainder: Any) -> Any:
        value = remainder[..., index, :] / entry(xp, lower[..., index, :], index)[..., 0]
        later = remainder - xp.expand_dims(lower[..., index], axis=-1) * xp.expand_dims(value, axis=-2)
        return xp.where(below == index, xp.expand_dims(value, axis=-2), xp.where(below > index, later, remainder))

    return repeat(x.shape[-2], substitute, x)
