"""Normal densities of vectors, of which each row may lack some entries: one factorization for each pattern of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from plica.backend.torch.logs import is_abstract

_WIDE = torch.float64
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_multivariate_normal(scores: Tensor, factor: Tensor, missing: Tensor | None = None) -> Tensor:
    """The logarithms of normal densities of mean 0 and covariance `factor @ factor.T`, of what is not missing.

    It is computed in float64. On the CPU rows that lack the same entries are solved together; elsewhere, and where the
    data is not known yet, rows are solved alone, so that no call waits for the device.

    Args:
        scores: The vectors.
        factor: Matrices, of which the lower triangle is read.
        missing: Which entries of each row are missing; their numbers in `scores` are not read.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), result (F, B, K).
    """
    wide, factors = scores.to(_WIDE), factor.to(_WIDE).tril()
    looks = scores.is_cpu and not any(is_abstract(x) for x in (scores, factor, missing) if x is not None)
    if missing is None or (looks and not bool(missing.any())):
        columns = wide.transpose(1, 2).contiguous().mT  # (F, K, V, B), as LAPACK has them
        white = torch.linalg.solve_triangular(factors, columns, upper=False)
        exponent = -0.5 * white.square().sum(2) - _volume(factors)[..., None]
        density: Tensor = exponent.mT - scores.shape[-1] * _HALF_LOG_TWO_PI
        return density.to(scores.dtype)
    known = missing.logical_not()
    wide = wide.where(known[:, :, None], 0).flatten(0, 1)  # (F*B, K, V)
    patterns = _found(known) if looks else _possible(known)
    roots = _roots(factors[patterns.folds], patterns.known)  # (P, K, V, V)
    volumes = _volume(roots) + _HALF_LOG_TWO_PI * patterns.known.sum(-1, dtype=_WIDE)[:, None]  # (P, K)
    batches = _together(patterns) if looks else _alone(patterns)
    columns = wide[batches.rows].transpose(1, 2).contiguous().mT  # (C, K, V, c)
    white = torch.linalg.solve_triangular(roots[batches.patterns], columns, upper=False)
    squares = white.square().sum(2).mT.flatten(0, 1)[batches.slots]  # (F*B, K)
    densities: Tensor = (-0.5 * squares - volumes[patterns.of_rows]).reshape(scores.shape[:3])
    return densities.to(scores.dtype)


def regression_matrix(factor: Tensor, missing: Tensor) -> Tensor:
    """Matrices that give expected vectors of covariance `factor @ factor.T` from their known entries, in float64.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """

    def of_patterns(lower: Tensor, is_row: Tensor, is_column: Tensor) -> Tensor:
        unit = torch.eye(lower.shape[-1], dtype=_WIDE, device=lower.device)
        inverse = torch.linalg.solve_triangular(lower.where(is_row & is_column, unit), unit, upper=False)
        return unit.where(is_row, lower.where(is_column, 0) @ inverse)

    return _by_pattern(of_patterns, factor, missing)


def conditional_factor(factor: Tensor, missing: Tensor) -> Tensor:
    """Factors of covariances of missing entries, given the others, of vectors of covariance `factor @ factor.T`.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """

    def of_patterns(lower: Tensor, is_row: Tensor, is_column: Tensor) -> Tensor:
        signs = torch.where(lower.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(_WIDE)
        return (lower * signs[..., None, :]).where((is_row | is_column).logical_not(), 0)

    return _by_pattern(of_patterns, factor, missing)


def _by_pattern(of_patterns: Callable[[Tensor, Tensor, Tensor], Tensor], factor: Tensor, missing: Tensor) -> Tensor:
    """Matrices `(F, B, K, V, V)` that depend on which entries of a row are known, its *pattern*.

    For each pattern variables are ordered: known ones first. `of_patterns` gets the triangular factors `(P, K, V, V)`
    of covariances in that order. It also gets masks of known variables, as rows `(P, 1, V, 1)` and as columns
    `(P, 1, 1, V)`. Its matrices are put back in the order of the variables.
    """
    looks = missing.is_cpu and not (is_abstract(factor) or is_abstract(missing))
    known = missing.logical_not()
    patterns = _found(known) if looks else _possible(known)
    order = patterns.known.logical_not().to(torch.int8).argsort(dim=-1, stable=True)
    is_first = patterns.known.gather(-1, order)[:, None]
    factors = _at(factor.to(_WIDE).tril()[patterns.folds], order, -2)
    matrices = of_patterns(torch.linalg.qr(factors.mT).R.mT, is_first[..., None], is_first[..., None, :])
    back = order.argsort(dim=-1)
    matrices = _at(_at(matrices, back, -2), back, -1).to(factor.dtype)
    return matrices[patterns.of_rows].reshape(*missing.shape[:2], *factor.shape[1:])


def _at(matrices: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The rows (axis -2) or columns (-1) of `matrices (P, K, V, V)` at `indices (P, V)`."""
    indices = indices[:, None, :, None] if axis == -2 else indices[:, None, None, :]
    return matrices.gather(axis, indices.expand_as(matrices))


class _Patterns(NamedTuple):
    """The patterns of known entries.

    Args:
        folds: The fold of each pattern, `(P,)`.
        known: Its entries, `(P, V)`.
        of_rows: The pattern of each row, `(F*B,)`.
    """

    folds: Tensor
    known: Tensor
    of_rows: Tensor


class _Places(NamedTuple):
    """Rows of one pattern beside each other.

    Args:
        rows: The rows of each chunk, `(C, c)`; some stand there to fill it.
        patterns: The pattern of each chunk, `(C,)`.
        slots: Where each row is in the flat chunks, `(F*B,)`.
    """

    rows: Tensor
    patterns: Tensor
    slots: Tensor


def _volume(triangle: Tensor) -> Tensor:
    return triangle.diagonal(0, -2, -1).abs().log().sum(-1)


def _roots(factors: Tensor, known: Tensor) -> Tensor:
    """Factors `(P, K, V, V)` of the covariances of what is known, beside ones of what is not.

    They are the triangle R of (A E)' = Q R, A the rows of what is known, E those of the identity of what is not. The
    covariances themselves, which are squares, would lose what variables differ by that are nearly functions of others.
    """
    is_row = known[:, None, :, None]
    ones = torch.eye(known.shape[-1], dtype=_WIDE, device=known.device).where(is_row.logical_not(), 0)
    beside = torch.cat([factors.where(is_row, 0), ones.expand_as(factors)], -1)
    root: Tensor = torch.linalg.qr(beside.mT).R.mT
    return root


def _found(known: Tensor) -> _Patterns:
    """The patterns that there are; this waits for them."""
    folds, rows, _ = known.shape
    numbers = torch.arange(folds)[:, None, None].expand(folds, rows, 1)
    rows_of = torch.cat([numbers, known.to(torch.int64)], -1).flatten(0, 1)
    distinct, of_rows = torch.unique(rows_of, dim=0, return_inverse=True)
    return _Patterns(distinct[:, 0], distinct[:, 1:].to(torch.bool), of_rows)


def _possible(known: Tensor) -> _Patterns:
    """All patterns of so many entries or, where rows are fewer, that of each row."""
    folds, rows, size = known.shape
    number = torch.arange(folds, device=known.device)
    if 2**size >= rows:
        flat = torch.arange(folds * rows, device=known.device)
        return _Patterns(number.repeat_interleave(rows), known.flatten(0, 1), flat)
    bits = torch.arange(size, device=known.device)
    every = torch.arange(2**size, device=known.device)[:, None] >> bits & 1
    of_rows = (known.to(torch.int64) << bits).sum(-1) + 2**size * number[:, None]
    return _Patterns(number.repeat_interleave(2**size), every.to(torch.bool).repeat(folds, 1), of_rows.flatten())


def _together(patterns: _Patterns) -> _Places:
    """Chunks as long as there are rows for a pattern on average: they are at most twice as many as patterns."""
    of_rows, count = patterns.of_rows, len(patterns.folds)
    length = max(1, -(-len(of_rows) // max(1, count)))
    numbers = of_rows.bincount(minlength=count)
    chunks = (numbers + length - 1) // length
    order = of_rows.argsort(stable=True)
    before = torch.arange(len(order)) - (numbers.cumsum(0) - numbers)[of_rows[order]]  # rows of the pattern
    slots = torch.empty_like(order)
    slots[order] = (chunks.cumsum(0) - chunks)[of_rows[order]] * length + before
    rows = torch.zeros(int(chunks.sum()) * length, dtype=torch.int64)
    rows[slots] = torch.arange(len(order))
    return _Places(rows.reshape(-1, length), torch.arange(count).repeat_interleave(chunks), slots)


def _alone(patterns: _Patterns) -> _Places:
    rows = torch.arange(len(patterns.of_rows), device=patterns.of_rows.device)
    return _Places(rows[:, None], patterns.of_rows, rows)
