"""Normal densities of vectors, of which each row may lack some entries: one factorization for each pattern of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from plica.backend.torch.logs import is_abstract

_WIDE = torch.float64
_BITS = 62  # of a whole number
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
    if looks and not (wide.requires_grad or factors.requires_grad) and _is_far_from_singular(factors):
        return _by_precision(wide, factors, patterns).reshape(scores.shape[:3]).to(scores.dtype)
    ordered = _Ordered.of(factors, patterns, looks)
    roots = ordered.roots  # (P, K, V, V)
    wide = wide.gather(-1, ordered.order[patterns.of_rows][:, None].expand_as(wide))
    volumes = _volume(roots) + _HALF_LOG_TWO_PI * patterns.known.sum(-1, dtype=_WIDE)[:, None]  # (P, K)
    batches = _together(patterns) if looks else _alone(patterns)
    columns = wide[batches.rows].transpose(1, 2).contiguous().mT  # (C, K, V, c)
    white = torch.linalg.solve_triangular(roots[batches.patterns], columns, upper=False)
    squares = white.square().sum(2).mT.flatten(0, 1)[batches.slots]  # (F*B, K)
    densities: Tensor = (-0.5 * squares - volumes[patterns.of_rows]).reshape(scores.shape[:3])
    return densities.to(scores.dtype)


def conditional_moments(scores: Tensor, factor: Tensor, missing: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors with the means of missing entries given the others, and sums of the covariances of missing entries.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), weights (F, B, K), results (F, B, K, V) and
        (F, K, V, V).
    """
    looks = scores.is_cpu and not any(is_abstract(x) for x in (scores, factor, missing, weights))
    known = scores.masked_fill(missing[:, :, None], 0).to(_WIDE)
    factors = factor.to(_WIDE).tril()
    if not (looks and _is_far_from_singular(factors)):
        completed = (regression_matrix(factors, missing) @ known[..., None])[..., 0]
        left = conditional_factor(factors, missing)
        covariances = torch.einsum("fbk,fbkij,fbklj->fkil", weights.to(_WIDE), left, left)
        return completed.to(scores.dtype), covariances.to(scores.dtype)
    patterns = _found(missing.logical_not())
    holes = _Holes.of(factors, patterns)
    forces = holes.forces(known.flatten(0, 1), patterns.of_rows)[..., None]  # (F*B, K, q, 1)
    inverses = torch.cholesky_inverse(holes.roots) * holes.is_both[:, None]
    moves = -(inverses[patterns.of_rows] @ forces)[..., 0]
    places = holes.places[patterns.of_rows][:, None].expand_as(moves)
    completed = known.flatten(0, 1).scatter_add(-1, places, moves).reshape(scores.shape)
    by_pattern = weights.new_zeros(inverses.shape[:2], dtype=_WIDE)
    by_pattern = by_pattern.index_add(0, patterns.of_rows, weights.to(_WIDE).flatten(0, 1))
    size = factor.shape[-1]
    cells = holes.places[:, :, None] * size + holes.places[:, None]  # (P, q, q), among those of (V, V)
    units = patterns.folds[:, None] * factor.shape[1] + torch.arange(factor.shape[1])  # (P, K)
    flat = (units[..., None, None] * size**2 + cells[:, None]).flatten()
    covariances = weights.new_zeros(factor.numel(), dtype=_WIDE)
    covariances = covariances.index_add(0, flat, (by_pattern[..., None, None] * inverses).flatten())
    return completed.to(scores.dtype), covariances.reshape(factor.shape).to(scores.dtype)


def regression_matrix(factor: Tensor, missing: Tensor) -> Tensor:
    """Matrices that give expected vectors of covariance `factor @ factor.T` from their known entries, in float64.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """

    def by_order(ordered: _Ordered) -> Tensor:
        unit = torch.eye(factor.shape[-1], dtype=_WIDE, device=factor.device)
        inverse = torch.linalg.solve_triangular(ordered.roots, unit, upper=False)
        return unit.where(ordered.is_row, ordered.lower.where(ordered.is_column, 0) @ inverse)

    def by_holes(holes: _Holes, patterns: _Patterns) -> Tensor:
        # of missing entries m and known ones k, the precision P says - P_mm^-1 P_mk
        across = holes.precisions[patterns.folds[:, None], :, holes.places].transpose(1, 2)  # (P, K, q, V)
        across = across * (holes.is_hole[:, None, :, None] & patterns.known[:, None, None])
        slopes = torch.cholesky_solve(across, holes.roots)[patterns.of_rows]
        places = holes.places[patterns.of_rows][:, None, :, None].expand_as(slopes)
        matrices = torch.diag_embed(missing.logical_not().flatten(0, 1).to(_WIDE))[:, None]
        matrices = matrices.repeat(1, factor.shape[1], 1, 1)
        return matrices.scatter_add_(-2, places, slopes.neg_())

    return _by_pattern(by_order, by_holes, factor, missing)


def conditional_factor(factor: Tensor, missing: Tensor) -> Tensor:
    """Factors of covariances of missing entries, given the others, of vectors of covariance `factor @ factor.T`.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """

    def by_order(ordered: _Ordered) -> Tensor:
        signs = torch.where(ordered.lower.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(_WIDE)
        return (ordered.lower * signs[..., None, :]).where((ordered.is_row | ordered.is_column).logical_not(), 0)

    def by_holes(holes: _Holes, patterns: _Patterns) -> Tensor:
        left = holes.conditional_factors()
        size, rows = factor.shape[-1], patterns.of_rows
        cells = (holes.places[:, :, None] * size + holes.places[:, None]).flatten(1)  # of (V, V)
        matrices = left.new_zeros(len(rows), factor.shape[1], size**2)
        return matrices.scatter_add_(-1, cells[rows][:, None].expand(-1, factor.shape[1], -1), left.flatten(2)[rows])

    return _by_pattern(by_order, by_holes, factor, missing)


def _by_pattern(
    by_order: Callable[[_Ordered], Tensor],
    by_holes: Callable[[_Holes, _Patterns], Tensor],
    factor: Tensor,
    missing: Tensor,
) -> Tensor:
    """Matrices `(F, B, K, V, V)` that depend on which entries of a row are known, its *pattern*.

    Args:
        by_order: Makes those of patterns, `(P, K, V, V)`; they are put back in the order of the variables.
        by_holes: Makes those of rows, `(F*B, K, V, V)`, where precisions may be used and no derivatives are needed.
        factor: Factors of covariances, `(F, K, V, V)`.
        missing: Which entries of each row are missing, `(F, B, V)`.
    """
    looks = missing.is_cpu and not (is_abstract(factor) or is_abstract(missing))
    known, factors = missing.logical_not(), factor.to(_WIDE).tril()
    patterns = _found(known) if looks else _possible(known)
    if looks and not factors.requires_grad and _is_far_from_singular(factors):
        matrices = by_holes(_Holes.of(factors, patterns), patterns)
        return matrices.to(factor.dtype).reshape(*missing.shape[:2], *factor.shape[1:])
    ordered = _Ordered.of(factors, patterns, looks)
    matrices = by_order(ordered)
    back = ordered.order.argsort(dim=-1)
    matrices = _at(_at(matrices, back, -2), back, -1).to(factor.dtype)
    return matrices[patterns.of_rows].reshape(*missing.shape[:2], *factor.shape[1:])


class _Ordered(NamedTuple):
    """Factors of covariances whose variables are in another order for each pattern: known ones first.

    They are the triangle R of A' = Q R, A the reordered factor. The covariances themselves, which are squares, would
    lose what variables differ by that are nearly functions of others.

    Args:
        order: The variables in this order, `(P, V)`.
        lower: The triangular factors, `(P, K, V, V)`; entries of the diagonal may be negative.
        is_row: Which variables in this order are known, `(P, 1, V, 1)`.
        is_column: The same, `(P, 1, 1, V)`.
    """

    order: Tensor
    lower: Tensor
    is_row: Tensor
    is_column: Tensor

    @staticmethod
    def of(factors: Tensor, patterns: _Patterns, looks: bool) -> _Ordered:
        """The factors `(F, K, V, V)` in the order of each pattern; `looks` says that no transformation is traced."""
        order = patterns.known.logical_not().to(torch.int8).argsort(dim=-1, stable=True)
        is_first = patterns.known.gather(-1, order)[:, None]
        moved = _at(factors[patterns.folds], order, -2).mT
        # without Q it takes half the time, and has no derivatives
        mode = "r" if looks and not moved.requires_grad else "reduced"
        return _Ordered(order, torch.linalg.qr(moved, mode=mode).R.mT, is_first[..., None], is_first[..., None, :])

    @property
    def roots(self) -> Tensor:
        """The factors `(P, K, V, V)` of the covariances of what is known, beside ones of what is not."""
        unit = torch.eye(self.lower.shape[-1], dtype=_WIDE, device=self.lower.device)
        return self.lower.where(self.is_row & self.is_column, unit)


def _at(matrices: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The rows (axis -2) or columns (-1) of `matrices (P, K, V, V)` at `indices (P, V)`."""
    indices = indices[:, None, :, None] if axis == -2 else indices[:, None, None, :]
    return matrices.gather(axis, indices.expand_as(matrices))


_LEAST_RATIO = 1e-2  # of the diagonal of a factor to its row, from which precisions lose four digits at most


def _is_far_from_singular(factors: Tensor) -> bool:
    """Whether covariances may be inverted: no variable is nearly a function of those before it."""
    ratios = factors.diagonal(0, -2, -1).abs() / factors.norm(dim=-1)
    return bool((ratios > _LEAST_RATIO).all())


class _Holes(NamedTuple):
    """The precisions of what each pattern lacks: the block of the inverse covariance of missing entries.

    Its inverse is their covariance given the others, and its determinant times that of the covariance is that of the
    covariance of what is known. Rows lack few entries, as a rule, so that blocks are small.

    Args:
        places: The missing variables of each pattern, before known ones that fill the place, `(P, q)`.
        is_hole: Which of these are missing, `(P, q)`.
        precisions: Of all variables, `(F, K, V, V)`.
        blocks: Those of missing entries, with ones where there is no hole, `(P, K, q, q)`.
        roots: Factors of the blocks.
    """

    places: Tensor
    is_hole: Tensor
    precisions: Tensor
    blocks: Tensor
    roots: Tensor

    @staticmethod
    def of(factors: Tensor, patterns: _Patterns) -> _Holes:
        """The blocks of factors `(F, K, V, V)`."""
        most = max(1, int(patterns.known.logical_not().sum(-1).max())) if len(patterns.known) else 1
        places = patterns.known.to(torch.int8).argsort(dim=-1, stable=True)[:, :most]
        is_hole = patterns.known.gather(-1, places).logical_not()
        precisions = torch.cholesky_inverse(factors)
        numbers = patterns.folds[:, None, None], places[:, :, None], places[:, None]
        blocks = precisions.permute(0, 2, 3, 1)[numbers].permute(0, 3, 1, 2)  # (P, K, q, q)
        both = (is_hole[:, :, None] & is_hole[:, None])[:, None]
        unit = torch.eye(most, dtype=_WIDE)
        blocks = blocks.where(both, unit)
        return _Holes(places, is_hole, precisions, blocks, torch.linalg.cholesky(blocks))

    def forces(self, known: Tensor, of_rows: Tensor) -> Tensor:
        """The precision times vectors `(F*B, K, V)`, 0 where entries are missing, at these entries: `(F*B, K, q)`."""
        folds, units = self.precisions.shape[:2]
        by_fold = known.reshape(folds, len(known) // folds, *known.shape[1:]).transpose(1, 2)  # (F, K, B, V)
        products = (by_fold @ self.precisions).transpose(1, 2).flatten(0, 1)
        places = self.places[of_rows][:, None].expand(-1, units, -1)
        forces: Tensor = products.gather(-1, places) * self.is_hole[of_rows][:, None]
        return forces

    def conditional_factors(self) -> Tensor:
        """Factors of the covariances of missing entries given the others, 0 elsewhere: lower triangles, `(P, K, q, q)`.

        The precision in reverse order is M M'. So the precision is U U' with an upper triangle U, and the covariance
        is L L' with L the inverse of U'.
        """
        reverse = torch.linalg.cholesky(self.blocks.flip(-2, -1))
        unit = torch.eye(self.places.shape[1], dtype=_WIDE)
        lower = torch.linalg.solve_triangular(reverse.flip(-2, -1).mT, unit, upper=False)
        factors: Tensor = lower * self.is_both[:, None]
        return factors

    @property
    def is_both(self) -> Tensor:
        """Which pairs of places are holes, `(P, q, q)`."""
        return self.is_hole[:, :, None] & self.is_hole[:, None]


def _by_precision(wide: Tensor, factors: Tensor, patterns: _Patterns) -> Tensor:
    """Log-densities `(F*B, K)` of vectors `(F*B, K, V)` that are 0 where entries are missing."""
    holes = _Holes.of(factors, patterns)
    by_fold = wide.reshape(len(factors), len(wide) // len(factors), *wide.shape[1:]).permute(0, 2, 3, 1)  # (F, K, V, B)
    white = torch.linalg.solve_triangular(factors, by_fold, upper=False)
    squares = white.square().sum(2).mT.flatten(0, 1)  # of all entries, (F*B, K)
    forces = holes.forces(wide, patterns.of_rows)
    lost = torch.linalg.solve_triangular(holes.roots[patterns.of_rows], forces[..., None], upper=False)
    squares = squares - lost[..., 0].square().sum(-1)
    volumes = _volume(factors)[patterns.folds] + _volume(holes.roots)
    volumes = volumes + _HALF_LOG_TWO_PI * patterns.known.sum(-1, dtype=_WIDE)[:, None]  # (P, K)
    densities: Tensor = -0.5 * squares - volumes[patterns.of_rows]
    return densities


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


def _found(known: Tensor) -> _Patterns:
    """The patterns that there are; this waits for them."""
    folds, rows, size = known.shape
    if size + folds.bit_length() <= _BITS:  # numbers are told apart faster than vectors
        codes = (known.to(torch.int64) << torch.arange(size)).sum(-1) + (torch.arange(folds)[:, None] << size)
        distinct, of_rows = torch.unique(codes.flatten(), return_inverse=True)
        return _Patterns(distinct >> size, (distinct[:, None] >> torch.arange(size) & 1).to(torch.bool), of_rows)
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
