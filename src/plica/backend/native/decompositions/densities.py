"""Normal densities of vectors, of which each row may lack some entries."""

from __future__ import annotations

import math
from typing import Any

from plica.backend.native.decompositions.loops import repeat
from plica.backend.native.decompositions.matrices import entry, row_numbers
from plica.backend.native.decompositions.orthogonal import reflected

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_multivariate_normal(xp: Any, scores: Any, factor: Any, *missing: Any) -> Any:
    """The logarithms of densities of mean 0 and covariance `factor @ factor.T`, in float64.

    The factor of the covariance of what a row knows is the triangle R of (A E)' = Q R: A the rows of the factor for
    what is known, E those of the identity for the rest.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), result (F, B, K).
    """
    wide, lower = xp.astype(scores, "float64"), xp.tril(xp.astype(factor, "float64"))[:, None]
    if missing:
        known = ~missing[0][:, :, None]
        wide = xp.where(known, wide, 0.0)
        kept = xp.expand_dims(known, axis=-1)
        unit = xp.where(kept, 0.0, xp.eye(scores.shape[-1], dtype="float64"))
        rows = xp.broadcast_to(xp.where(kept, lower, 0.0), (*scores.shape, scores.shape[-1]))
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


def _substituted(xp: Any, lower: Any, x: Any) -> Any:
    """What the lower triangle times it is `x`, vectors (..., V, 1)."""
    below = row_numbers(xp, x)

    def substitute(place: Any, rest: Any) -> Any:
        value = rest[..., place, :] / entry(xp, lower[..., place, :], place)[..., 0]
        later = rest - xp.expand_dims(lower[..., place], axis=-1) * xp.expand_dims(value, axis=-1)
        return xp.where(below == place, xp.expand_dims(value, axis=-1), xp.where(below > place, later, rest))

    return repeat(x.shape[-2], substitute, x)
