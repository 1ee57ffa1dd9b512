"""Random mixtures of normal vectors with holes, constant, equal and collinear columns, by hand in numpy."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.learn import FullEM, fit
from plica.symbolic.layers import MultivariateGaussianLayer, SumLayer
from plica.templates.normal_mixtures import normal_mixtures
from tests.harness.learned_circuits import evaluated


def random_rows(rng: Any) -> Any:
    count, size = int(rng.choice([2, 5, 30])), int(rng.integers(1, 6))
    rows = rng.normal(size=(count, size)) @ rng.normal(size=(size, size)) * rng.choice([1e-12, 1e-3, 1.0, 1e12], size)
    kind = rng.integers(4)
    if kind == 1:
        rows[:, 0] = rows[:, -1]
    if kind == 2:
        rows[:, 0] = rows[:, 1:].sum(1)
    if kind == 3:
        rows[:, 0] = 3.0
    rows[rng.random(rows.shape) < rng.choice([0.0, 0.3, 0.8])] = np.nan
    return rows


def of_unit(row: Any, mean: Any, factor: Any) -> tuple[float, Any, Any]:
    """The log-density of what is known of a row, the row with means of the rest, and the covariance of these."""
    covariance = factor @ factor.T
    stddev, known = np.sqrt(np.diag(covariance)), ~np.isnan(row)
    correlation = covariance / np.outer(stddev, stddev)
    inverse = np.linalg.inv(correlation[np.ix_(known, known)])
    score = ((row - mean) / stddev)[known]
    volume = np.linalg.slogdet(correlation[np.ix_(known, known)])[1] + 2 * np.log(stddev[known]).sum()
    slope = correlation[:, known] @ inverse
    spread = (correlation - slope @ correlation[known]) * ~known[:, None] * ~known * np.outer(stddev, stddev)
    log_density = -0.5 * (score @ inverse @ score + volume + known.sum() * np.log(2 * np.pi))
    return log_density, np.where(known, row, mean + stddev * (slope @ score)), spread


@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 200), marks=pytest.mark.full)], ids=["some", "many"]
)
def test_densities_and_means_of_a_step_are_those_by_hand(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = random_rows(rng)
        model: Any = plica.compile(
            normal_mixtures(rows, list(range(rows.shape[1])), members=(int(rng.integers(1, 4)),))
        )
        model.double().reset_parameters(seed=0)
        (layer,) = (x for x in model.symbolic.input_layers if isinstance(x, MultivariateGaussianLayer))
        mix = next(x for x in model.symbolic.layers if isinstance(x, SumLayer))
        values = evaluated(model.symbolic, {key: value.numpy().copy() for key, value in model.state_dict().items()})
        means, factors = values[layer]["mean"], np.tril(values[layer]["scale_tril"])
        weights = np.asarray(values[mix]["weight"]).reshape(-1)
        parts = [[of_unit(row, *unit) for unit in zip(means, factors, strict=True)] for row in rows]
        logs = np.log(weights) + np.array([[unit[0] for unit in row] for row in parts])
        total = np.logaddexp.reduce(logs, axis=1)
        np.testing.assert_allclose(model(torch.as_tensor(rows))[:, 0, 0].detach(), total, rtol=1e-9, atol=1e-9)
        flows = np.exp(logs - total[:, None]) * ~np.isnan(rows).all(1)[:, None]
        if not flows.any() or fit(model, rows, learner=FullEM(pseudocount=0.5), epochs=1).best_epoch == 0:
            continue
        completed = np.array([[unit[1] for unit in row] for row in parts])  # (N, K, V)
        sums, counts = np.einsum("nk,nkv->kv", flows, completed), flows.sum(0)
        expected = (sums + 0.5 * sums.sum(0) / counts.sum()) / (counts + 0.5)[:, None]
        values = evaluated(model.symbolic, {key: value.numpy() for key, value in model.state_dict().items()})
        stddev = np.sqrt((np.tril(values[layer]["scale_tril"]) ** 2).sum(-1))
        np.testing.assert_allclose(values[layer]["mean"] / stddev, expected / stddev, rtol=1e-8, atol=1e-8)
