"""Normal densities of vectors with holes: each row beside the row alone, and one factorization for each pattern."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import plica
from plica.backend.torch.multivariate import (
    conditional_factor,
    conditional_moments,
    log_multivariate_normal,
    regression_matrix,
)
from plica.queries import conditional_log_likelihood, latent_posterior, mean, quantile
from plica.symbolic.layers import DiagonalGaussianLayer, GaussianLayer, HadamardLayer, SumLayer

FOLDS, UNITS, SIZE = 2, 3, 4


def arrays(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(FOLDS, rows, UNITS, SIZE, generator=generator, dtype=torch.float64)
    factor = torch.randn(FOLDS, UNITS, SIZE, SIZE, generator=generator, dtype=torch.float64).tril(-1)
    return scores.to(dtype), (factor + torch.eye(SIZE, dtype=torch.float64)).to(dtype)


def holes(rows: int, share: float) -> Tensor:
    return torch.rand(FOLDS, rows, SIZE, generator=torch.Generator().manual_seed(1)) < share


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_each_row_has_the_density_of_what_it_knows(rows: int, share: float) -> None:
    scores, factor = arrays(rows)
    missing = holes(rows, share)
    found = log_multivariate_normal(scores.masked_fill(missing[:, :, None], 1e30), factor, missing)
    for fold, row, unit in np.ndindex(FOLDS, rows, UNITS):
        known = ~missing[fold, row].numpy()
        covariance = (factor @ factor.mT)[fold, unit].numpy()[np.ix_(known, known)]
        kind = stats.multivariate_normal(np.zeros(known.sum()), covariance) if known.any() else None
        expected = 0.0 if kind is None else kind.logpdf(scores[fold, row, unit].numpy()[known])
        np.testing.assert_allclose(found[fold, row, unit], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [3, 40])
def test_what_does_not_look_at_the_data_finds_the_same(rows: int) -> None:
    scores, factor = (one.requires_grad_() for one in arrays(rows))
    missing = holes(rows, 0.4)

    def gradients(found: Tensor) -> Any:
        return torch.autograd.grad((found * torch.arange(rows)[:, None]).sum(), [scores, factor])

    looked = log_multivariate_normal(scores, factor, missing)
    blind = torch.func.vmap(log_multivariate_normal)(scores[None], factor[None], missing[None])[0]
    torch.testing.assert_close(blind, looked)
    torch.testing.assert_close(gradients(blind), gradients(looked))


@pytest.mark.parametrize("matrices", [regression_matrix, conditional_factor])
@pytest.mark.parametrize("rows", [3, 40])
def test_what_completes_rows_is_found_without_a_look_too(matrices: Any, rows: int) -> None:
    factor, missing = arrays(rows)[1].requires_grad_(), holes(rows, 0.4)
    looked, blind = matrices(factor, missing), torch.func.vmap(matrices)(factor[None], missing[None])[0]
    torch.testing.assert_close(blind, looked)
    weights = torch.randn(looked.shape, dtype=torch.float64)
    one, other = (torch.autograd.grad((found * weights).sum(), factor)[0] for found in (looked, blind))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("matrices", [regression_matrix, conditional_factor])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 5, 30])
@pytest.mark.parametrize("near", [1.0, 0.1, 1e-3])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_matrices_without_derivatives_are_those_with_them(
    matrices: Any, dtype: torch.dtype, size: int, near: float, share: float
) -> None:
    """By precisions, and by orthogonal matrices where derivatives are needed or a variable nearly depends on others."""
    generator = torch.Generator().manual_seed(size)
    factor = torch.randn(FOLDS, UNITS, size, size, generator=generator, dtype=torch.float64).tril(-1) / size**0.5
    factor = factor + torch.eye(size, dtype=torch.float64)
    factor[..., -1, -1] *= near
    factor[:, 1] *= -1.0  # diagonals may be negative
    missing = torch.rand(FOLDS, 9, size, generator=generator) < share
    alone = matrices(factor.to(dtype), missing)
    traced = matrices(factor.to(dtype).requires_grad_(), missing)
    assert alone.dtype == dtype
    assert not alone.requires_grad
    tolerance = 1e-10 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(alone, traced.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("with_gradients", [False, True])
@pytest.mark.parametrize(("share", "most"), [(0.0, 0), (0.4, 2**SIZE * FOLDS)])
def test_factorizations_are_made_for_patterns_and_not_for_rows(
    share: float, most: int, with_gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, factor = arrays(500)
    matrices: list[int] = []

    def counted(factorize: Any, x: Tensor, **keywords: Any) -> Any:
        matrices.append(x.shape[:-2].numel())
        return factorize(x, **keywords)

    for name in ("qr", "cholesky"):
        monkeypatch.setattr(torch.linalg, name, partial(counted, getattr(torch.linalg, name)))
    log_multivariate_normal(scores, factor.requires_grad_(with_gradients), holes(500, share))
    assert sum(matrices) == most * UNITS


@pytest.mark.parametrize("near", [1.0, 1e-3])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_moments_of_missing_entries_are_those_of_their_matrices(share: float, near: float) -> None:
    """By precisions, and by orthogonal matrices where a variable is nearly a function of others."""
    scores, factor = arrays(40)
    factor[..., -1, -1] *= near
    missing, weights = holes(40, share), torch.rand(FOLDS, 40, UNITS, dtype=torch.float64)
    completed, covariances = conditional_moments(
        scores.masked_fill(missing[:, :, None], 1e30), factor, missing, weights
    )
    known = scores.masked_fill(missing[:, :, None], 0.0)
    expected = (regression_matrix(factor, missing) @ known[..., None])[..., 0]
    torch.testing.assert_close(completed, expected, rtol=1e-9, atol=1e-9)
    left = conditional_factor(factor, missing)
    torch.testing.assert_close(
        covariances, torch.einsum("fbk,fbkij,fbklj->fkil", weights, left, left), rtol=1e-9, atol=1e-9
    )


def test_densities_with_and_without_gradients_agree() -> None:
    scores, factor = arrays(40)
    missing = holes(40, 0.4)
    without = log_multivariate_normal(scores, factor, missing)
    torch.testing.assert_close(
        log_multivariate_normal(scores, factor.requires_grad_(), missing), without, rtol=1e-11, atol=1e-11
    )


def test_no_rows_and_float32() -> None:
    scores, factor = arrays(0)
    assert log_multivariate_normal(scores, factor, holes(0, 0.5)).shape == (FOLDS, 0, UNITS)
    scores, factor = arrays(5, torch.float32)
    missing = holes(5, 0.4)
    found = log_multivariate_normal(scores, factor, missing)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), log_multivariate_normal(scores.double(), factor.double(), missing))


@pytest.mark.parametrize("semiring", ["max-sum", "max-product", "min-plus"])
def test_questions_of_probability_sum_out_parts_of_a_vector_whatever_the_semiring(semiring: str) -> None:
    inputs, product, mixture = (
        [DiagonalGaussianLayer([0, 1], 2), GaussianLayer([2], 2)],
        HadamardLayer(2),
        SumLayer(2, 1),
    )
    circuit = plica.Circuit([*inputs, product, mixture], {product: inputs, mixture: [product]}, [mixture])
    summing, choosing = (plica.compile(circuit, semiring=name, dtype="float64") for name in ("lse-sum", semiring))
    choosing.load_state_dict(summing.state_dict())
    x = torch.tensor([[np.nan, 0.3, 0.2], [0.1, np.nan, np.nan]], dtype=torch.float64)
    given = torch.tensor([True, True, False])
    for ask in (
        lambda one: conditional_log_likelihood(one, x, given),
        lambda one: quantile(one, 2, 0.5, x),
        lambda one: latent_posterior(one, x)[3],
    ):
        torch.testing.assert_close(ask(choosing), ask(summing))
    torch.testing.assert_close(mean(choosing, x), mean(summing, x))
    assert choosing(x).isfinite().all()
