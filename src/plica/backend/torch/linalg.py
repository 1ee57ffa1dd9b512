"""Factorizations of matrices as generated code calls them: a matrix without a result gives NaN, alone in its batch.

Which ones those are, `ops/factorizations.py` says. Where torch has a routine that does not wait for the device to ask
whether it failed, it is called here: in `cholesky`, `inv` and `solve`. `eigh` and `svd` wait.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Results = tuple[Tensor, ...]


def _if_done(result: Tensor, info: Tensor) -> Tensor:
    """`result`, NaN where LAPACK reports a failure."""
    return torch.where((info != 0)[..., None, None], math.nan, result)


def cholesky(x: Tensor, upper: bool) -> Tensor:
    """The triangular factor; NaN where `x` is not positive definite."""
    return _if_done(*torch.linalg.cholesky_ex(x, upper=upper))


def inv(x: Tensor) -> Tensor:
    """The inverse; NaN where `x` is singular."""
    return _if_done(*torch.linalg.inv_ex(x))


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The `x` with `a @ x = b`; NaN where `a` is singular.

    Shapes: a (..., M, M), b (..., M, K), result (..., M, K).
    """
    if b.ndim < a.ndim:  # torch might take `b` for a batch of vectors
        b = b.expand(*a.shape[: a.ndim - b.ndim], *b.shape)
    result, info = torch.linalg.solve_ex(a, b)
    return _if_done(result, info)


def _of_finite(function: Callable[[Tensor], Any], x: Tensor) -> Results:
    """The results of `function`, NaN for matrices that are not finite, which torch refuses."""
    finite = torch.isfinite(x).flatten(-2).all(-1)
    raw = function(torch.where(finite[..., None, None], x, 0))
    results = (raw,) if isinstance(raw, Tensor) else tuple(raw)
    return tuple(
        torch.where(finite.reshape(finite.shape + (1,) * (result.ndim - finite.ndim)), result, math.nan)
        for result in results
    )


def eigh(x: Tensor) -> Results:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which the lower triangle is read."""
    return _of_finite(torch.linalg.eigh, x)


def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues of `eigh`."""
    return _of_finite(torch.linalg.eigvalsh, x)[0]


def svd(x: Tensor, full_matrices: bool) -> Results:
    """Left singular vectors, singular values, descending, and conjugated right singular vectors as rows."""
    return _of_finite(lambda finite: torch.linalg.svd(finite, full_matrices=full_matrices), x)


def svdvals(x: Tensor) -> Tensor:
    """The singular values of `svd`."""
    return _of_finite(torch.linalg.svdvals, x)[0]


def matrix_rank(x: Tensor, rtol: Tensor | None = None) -> Tensor:
    """The number of singular values above `rtol` times the largest; 0 where `x` is not finite."""
    values = svdvals(x)
    relative = max(x.shape[-2:]) * torch.finfo(x.dtype).eps if rtol is None else rtol
    largest = values[..., 0] if values.shape[-1] else values.sum(-1)
    return (values > (largest * relative)[..., None]).sum(-1)


def pinv(x: Tensor, rtol: Tensor | None = None) -> Tensor:
    """The pseudo-inverse, with the derivative of matrices of one rank, which does not mind equal singular values."""
    if rtol is not None:
        batch = torch.broadcast_shapes(x.shape[:-2], rtol.shape)  # type: ignore[no-untyped-call]
        x, rtol = x.expand(*batch, *x.shape[-2:]), rtol.detach().expand(batch)
    return _of_finite(lambda finite: torch.linalg.pinv(finite, rtol=rtol), x)[0]


def qr(x: Tensor, mode: str) -> Results:
    """An orthonormal matrix and an upper triangular one."""
    return tuple(torch.linalg.qr(x, mode))


def slogdet(x: Tensor) -> Results:
    """The sign of the determinant and the logarithm of its size."""
    return tuple(torch.linalg.slogdet(x))


def cross(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """The vector product along `axis`, which is negative."""
    rank = max(a.ndim, b.ndim)  # torch wants it equal
    first, second = (vector[(None,) * (rank - vector.ndim)] for vector in (a, b))
    result: Tensor = torch.linalg.cross(first, second, dim=axis)
    return result


def vector_norm(x: Tensor, axis: tuple[int, ...], keepdims: bool, order: float) -> Tensor:
    """The norm of some order along `axis`, derivative 0 at 0; of no numbers it is 0."""
    if not axis:  # torch would reduce all of them
        return x.abs() if order else (x != 0).to(x.real.dtype)
    if order == math.inf and any(x.shape[summed] == 0 for summed in axis):
        return x.abs().sum(axis, keepdim=keepdims)
    result: Tensor = torch.linalg.vector_norm(x, order, axis, keepdims)
    return result
