"""Jacobi's method: rotations of pairs of rows or columns, N / 2 disjoint pairs at once, in the order of a tournament.

For even N each of the N - 1 rounds pairs all numbers, so that any two numbers are a pair in exactly one round. For odd
N an extra number takes part, whose partner rests.

Source: Brent and Luk: The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays
(SIAM J. Sci. Stat. Comput. 6, 1985); Hestenes: Inversion of matrices by biorthogonalization (J. SIAM 6, 1958).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plica.backend.native.decompositions.loops import repeat, while_
from plica.backend.native.decompositions.matrices import (
    column_numbers,
    conjugated,
    epsilon,
    finite_part,
    is_complex,
    largest,
    lesser,
    or_nan,
    real,
    rescaled,
    squared,
    transposed,
)
from plica.backend.native.decompositions.orthogonal import qr

SWEEPS = 40
"""The most sweeps. 10 make matrices of any size diagonal to rounding; convergence is not proven for all matrices."""


def _partners(xp: Any, size: Any, turn: Any) -> Any:
    """The partner in a round of each row number below `size`; a number that rests is its own partner."""
    players = xp.arange(size)
    num_players = size + size % 2
    last = num_players - 1
    opposite = xp.remainder(turn - players, last)
    opposite = xp.where(opposite == players, last, opposite)
    opposite = xp.where(players == last, xp.remainder(turn * (num_players // 2), last), opposite)
    return xp.where(opposite == size, players, opposite)


def _sweeps(xp: Any, size: Any, turn: Callable[..., Any], *start: Any) -> Any:
    """The values after sweeps of all pairs, until a sweep rotates none.

    `turn(partners, *values)` returns whether it rotated a pair, and the new values.
    """

    def sweep(count: Any, moved: Any, *values: Any) -> Any:
        del moved

        def round_(index: Any, moved: Any, *values: Any) -> Any:
            again, *after = turn(_partners(xp, size, index), *values)
            return moved | again, *after

        rounds = size + size % 2 - 1
        moved, *after = repeat(rounds, round_, xp.asarray(False), *values)
        return count + 1, moved, *after

    _, _, *last = while_(
        lambda count, moved, *_: moved & (count < SWEEPS), sweep, xp.asarray(0), xp.asarray(True), *start
    )
    return last


def _rotation(xp: Any, is_lesser: Any, difference: Any, product: Any, is_rotated: Any) -> tuple[Any, Any]:
    """For each number the cosine of its rotation, and the factor of its partner's row.

    Args:
        xp: The array namespace.
        is_lesser: Whether it is the lesser number of its pair.
        difference: The diagonal entry of the greater number of a pair, minus that of the lesser one.
        product: The entry in the row of the number and the column of its partner.
        is_rotated: Whether the pair is rotated.
    """
    size = xp.abs(product)
    safe = xp.where(is_rotated, size, xp.ones_like(size))
    ratio = difference / (2 * safe)
    tangent = xp.where(ratio < 0, -xp.ones_like(ratio), xp.ones_like(ratio)) / (
        xp.abs(ratio) + xp.hypot(ratio, xp.ones_like(ratio))
    )
    tangent = xp.where(is_rotated, tangent, xp.zeros_like(tangent))
    cosine = 1 / xp.sqrt(1 + xp.square(tangent))
    sine = xp.where(is_lesser, -tangent, tangent) * cosine
    if not is_complex(product):
        return cosine, xp.where(product < 0, -sine, sine)
    return cosine, xp.astype(sine / safe, product.dtype) * product


def _columns(xp: Any, x: Any, partners: Any, cosine: Any, factor: Any) -> Any:
    """`x` with its columns rotated."""
    cosine = xp.astype(cosine, x.dtype) if is_complex(x) else cosine
    partner_columns = xp.take(x, partners, axis=-1, nonnegative=True)
    return x * cosine[..., None, :] + partner_columns * conjugated(xp, factor)[..., None, :]


def eigh(xp: Any, x: Any) -> tuple[Any, Any]:
    """The eigenvalues, ascending, and the eigenvectors, in columns, of Hermitian matrices; the lower triangle is read.

    NaN where a matrix is not finite, its upper triangle too.
    """
    finite, x = finite_part(xp, x)
    lower = xp.tril(x)
    strict = xp.tril(x, k=-1)
    if is_complex(x):
        lower = strict + xp.astype(real(xp, lower - strict), x.dtype)
    work, scale = rescaled(xp, lower + transposed(xp, strict))
    unit = xp.broadcast_to(xp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    if x.dims[-1] != 0:
        work, unit = _sweeps(xp, x.shape[-1], lambda *state: _two_sided(xp, *state), work, unit)
    values = real(xp, xp.linalg.diagonal(work))
    order = xp.argsort(values, axis=-1)
    values = xp.take_along_axis(values, order, axis=-1, nonnegative=True) * scale[..., 0]
    return or_nan(xp, finite[..., 0], values), or_nan(xp, finite, _ordered(xp, unit, order))


def _ordered(xp: Any, x: Any, order: Any) -> Any:
    """The columns of each matrix in the order that `order` gives for it."""
    return xp.take_along_axis(x, xp.broadcast_to(order[..., None, :], x.shape), axis=-1, nonnegative=True)


def _two_sided(xp: Any, partners: Any, x: Any, vectors: Any) -> Any:
    """One round, which makes the entries of pairs zero: J^H x J and vectors J, after whether a pair was rotated."""
    numbers = column_numbers(xp, x)
    diagonal = real(xp, xp.linalg.diagonal(x))
    pair_entries = xp.take_along_axis(
        x, xp.broadcast_to(partners[:, None], (*x.shape[:-1], 1)), axis=-1, nonnegative=True
    )
    pair_entries = pair_entries[..., 0]
    partner_diagonal = xp.take(diagonal, partners, axis=-1, nonnegative=True)
    is_lesser = numbers < partners
    sizes = xp.sqrt(xp.sum(squared(xp, x), axis=(-2, -1), keepdims=True))[..., 0]
    is_rotated = (partners != numbers) & (xp.abs(pair_entries) > sizes * (epsilon(x) / 4))
    cosine, factor = _rotation(
        xp,
        is_lesser,
        xp.where(is_lesser, partner_diagonal - diagonal, diagonal - partner_diagonal),
        pair_entries,
        is_rotated,
    )
    wide = xp.astype(cosine, x.dtype) if is_complex(x) else cosine
    rotated = x * wide[..., None] + xp.take(x, partners, axis=-2, nonnegative=True) * factor[..., None]
    rotated = _columns(xp, rotated, partners, cosine, factor)
    done = is_rotated[..., None] & (numbers == partners[:, None])  # but for roundings
    rotated = xp.where(done, xp.zeros_like(rotated), rotated)
    return xp.any(is_rotated), rotated, _columns(xp, vectors, partners, cosine, factor)


def _one_sided(xp: Any, partners: Any, x: Any, vectors: Any) -> Any:
    """One round, which makes columns of pairs orthogonal: x J and vectors J, after whether a pair was rotated."""
    numbers = column_numbers(xp, x)
    sizes = xp.sum(squared(xp, x), axis=-2)
    partner_sizes = xp.take(sizes, partners, axis=-1, nonnegative=True)
    product = xp.sum(conjugated(xp, x) * xp.take(x, partners, axis=-1, nonnegative=True), axis=-2)
    most = xp.max(sizes, axis=-1, keepdims=True)
    is_lesser = numbers < partners
    # columns as small as the rounding of the largest one count as zeros
    threshold = epsilon(x) * xp.sqrt(sizes) * xp.sqrt(partner_sizes) + (epsilon(x) * epsilon(x)) * most
    is_rotated = (partners != numbers) & (xp.abs(product) > threshold)
    cosine, factor = _rotation(
        xp, is_lesser, xp.where(is_lesser, partner_sizes - sizes, sizes - partner_sizes), product, is_rotated
    )
    return (
        xp.any(is_rotated),
        _columns(xp, x, partners, cosine, factor),
        _columns(xp, vectors, partners, cosine, factor),
    )


def svd(xp: Any, x: Any, *, full_matrices: bool) -> tuple[Any, Any, Any]:
    """The left singular vectors in columns, the singular values, descending, and the right singular vectors in rows.

    Rotations give V with x V = U diag(values), whose columns are orthogonal. U is the orthogonal factor of x V, which
    also has columns for values of 0. NaN where a matrix is not finite.
    """
    num_rows, num_columns = x.shape[-2:]
    if (
        isinstance(num_rows, int) and isinstance(num_columns, int) and num_columns > num_rows
    ):  # the shorter side is rotated
        left, values, right = svd(xp, transposed(xp, x), full_matrices=full_matrices)
        return transposed(xp, right), values, transposed(xp, left)
    count = lesser(xp, num_rows, num_columns)
    finite, work = finite_part(xp, x)
    work, scale = rescaled(xp, work)
    unit = xp.broadcast_to(xp.eye(num_columns, dtype=x.dtype), (*x.shape[:-2], num_columns, num_columns))
    if x.dims[-1] != 0 and x.dims[-2] != 0:
        work, unit = _sweeps(xp, num_columns, lambda *state: _one_sided(xp, *state), work, unit)
    sizes = xp.sqrt(xp.sum(squared(xp, work), axis=-2))
    order = xp.argsort(sizes, axis=-1, descending=True)
    values = xp.take_along_axis(sizes, order, axis=-1, nonnegative=True)[..., :count] * scale[..., 0]
    unit = _ordered(xp, unit, order)
    products = _ordered(xp, work, order)[..., :count]
    left, triangle = qr(xp, products, mode="complete" if full_matrices else "reduced")
    left = left * _turns(xp, left, triangle)
    right = transposed(xp, unit if full_matrices else unit[..., :count])
    return or_nan(xp, finite, left), or_nan(xp, finite[..., 0], values), or_nan(xp, finite, right)


def _turns(xp: Any, left: Any, triangle: Any) -> Any:
    """For each column the phase of the triangle's diagonal entry, 1 where that is 0 or there is none: (..., 1, K)."""
    diagonal = xp.linalg.diagonal(triangle)
    zero = diagonal == 0
    phases = xp.where(zero, xp.ones_like(diagonal), xp.sign(diagonal))
    missing = left.shape[-1] - diagonal.shape[-1]
    more = xp.ones((*diagonal.shape[:-1], missing), dtype=diagonal.dtype)
    return xp.concat([phases, more], axis=-1)[..., None, :]


def eigvalsh(xp: Any, x: Any) -> Any:
    """The eigenvalues, ascending."""
    return eigh(xp, x)[0]


def svdvals(xp: Any, x: Any) -> Any:
    """The singular values, descending."""
    return svd(xp, x, full_matrices=False)[1]


def _cutoff(xp: Any, x: Any, values: Any, rtol: Any) -> Any:
    """The bound up to which singular values count as 0: (..., 1)."""
    num_rows, num_columns = x.shape[-2:]
    if rtol is None:
        are_known = isinstance(num_rows, int) and isinstance(num_columns, int)
        longest = max(num_rows, num_columns) if are_known else xp.maximum(num_rows, num_columns)
        rtol = xp.astype(xp.asarray(longest), values.dtype) * epsilon(x)
    return largest(xp, values[..., None])[..., 0] * rtol[..., None]


def pinv(xp: Any, x: Any, rtol: Any = None) -> Any:
    """The pseudoinverses."""
    left, values, right = svd(xp, x, full_matrices=False)
    dropped = values <= _cutoff(xp, x, values, rtol)
    unit = xp.ones_like(values)
    inverse = xp.where(dropped, xp.zeros_like(values), unit / xp.where(dropped, unit, values))[..., None, :]
    inverse = xp.astype(inverse, x.dtype) if is_complex(x) else inverse
    return xp.matmul(transposed(xp, right) * inverse, transposed(xp, left))


def matrix_rank(xp: Any, x: Any, rtol: Any = None) -> Any:
    """How many singular values count as more than 0."""
    values = svdvals(xp, x)
    return xp.sum(values > _cutoff(xp, x, values, rtol), axis=-1)
