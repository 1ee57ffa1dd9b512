"""Random averages of normal vectors of both scales: what queries answer beside numpy and SciPy."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import covariance, mean, mpe, quantile, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from tests.harness.vector_mixtures import Average, random_average, random_rows

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 60))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_averages_answer_as_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit, average = random_average(rng)
    model: Any = TorchCompiler(dtype="float64").compile(circuit)
    x = np.array([*random_rows(average, 6, rng)])
    rows, before = torch.from_numpy(x), x.copy()
    expected = np.array([special.logsumexp(average.log_densities(row)) for row in x])
    with torch.no_grad():
        np.testing.assert_allclose(model(rows)[:, 0, 0].numpy(), expected, rtol=1e-8, atol=1e-8)
    asked = (expected > -300) & np.isnan(x).any(axis=1)
    for row, given in zip(x[asked], rows[asked][:, None], strict=True):
        _check_row(model, average, row, given, rng)
    np.testing.assert_array_equal(x, before)
    drawn = sample(model, 500, seed=seed).numpy()
    for variable, cells in enumerate(drawn.T):
        test = stats.kstest(cells, lambda t, variable=variable: average.share(variable, t))
        assert test.pvalue > 1e-5, variable


def _check_row(model: Any, average: Average, row: Any, given: torch.Tensor, rng: np.random.Generator) -> None:
    hidden, rest = np.isnan(row), average.given(row)
    expected, spread = rest.moments()
    np.testing.assert_allclose(mean(model, given)[0].detach().numpy()[hidden], expected, rtol=1e-6, atol=1e-8)
    scale = np.sqrt(np.diag(spread) + expected**2)
    answer = covariance(model, np.flatnonzero(hidden).tolist(), given)[0].numpy()
    np.testing.assert_allclose(answer / np.outer(scale, scale), spread / np.outer(scale, scale), rtol=1e-5, atol=1e-7)
    position, level = int(rng.integers(hidden.sum())), float(rng.choice([1e-6, 0.05, 0.5, 0.9, 0.9999]))
    found = float(quantile(model, int(np.flatnonzero(hidden)[position]), level, given=given))
    np.testing.assert_allclose(rest.share(position, np.array(found)), level, rtol=1e-7)
    completed, value = mpe(model, given)
    best, completion = average.explained(row)
    np.testing.assert_allclose(float(value), best, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(completed[0].numpy(), completion, rtol=1e-5, atol=1e-8)
    drawn = sample(model, 20, given=given, seed=0).reshape(20, -1).numpy()
    np.testing.assert_array_equal(drawn[:, ~hidden], np.tile(row[~hidden], (20, 1)))
    assert all(np.isfinite(average.log_densities(one)).any() for one in drawn)


def test_a_unit_that_cannot_have_a_row_leaves_the_covariance_finite() -> None:
    def term(logs: list[bool], factor: list[list[float]]) -> MultivariateGaussianLayer:
        return MultivariateGaussianLayer(
            [0, 1, 2],
            1,
            mean=Parameter.from_input(ConstantParameter(1, 3, value=np.zeros((1, 3)))),
            scale_tril=Parameter.from_input(ConstantParameter(1, 3, 3, value=np.array([factor]))),
            logs=logs,
        )

    usual = term([False] * 3, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    # the logarithm of variable 1 is near 2,000 given 1,000 for variable 2, and variable 0 is never negative
    other = term([True, True, False], [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 0.1]])
    weight = Parameter.from_input(ConstantParameter(1, 2, value=np.full((1, 2), 0.5)))
    mixture = SumLayer(1, 1, 2, weight=weight)
    model: Any = TorchCompiler(dtype="float64").compile(
        Circuit([usual, other, mixture], {mixture: [usual, other]}, [mixture])
    )
    answer = covariance(model, [1], torch.tensor([[-1.0, torch.nan, 30.0]], dtype=torch.float64))
    far = covariance(model, [1], torch.tensor([[-1.0, torch.nan, 1000.0]], dtype=torch.float64))
    np.testing.assert_allclose(answer[0], [[1.0]], rtol=1e-12)
    np.testing.assert_allclose(far[0], [[1.0]], rtol=1e-12)
