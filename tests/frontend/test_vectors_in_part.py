"""Queries of rows that have any part of a vector of normal variables, beside the formulas of conditional normals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError
from plica.queries import covariance, mean, mpe, mpe_bounds, posterior, quantile, sample, variance
from plica.symbolic.layers import (
    DiagonalGaussianLayer,
    GaussianLayer,
    HadamardLayer,
    MultivariateGaussianLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.scope import Scope
from tests.harness.own_layers import PAIRS_FILLED_IN_PART, PairLayer

ROWS, DRAWS = 6, 3000


def constant(value: Any) -> Parameter:
    return Parameter.from_input(ConstantParameter(*np.shape(value), value=np.asarray(value)))


@dataclass(frozen=True)
class Mixture:
    """A mixture of normal vectors, of one variable outside the vector, and rows of it with holes."""

    circuit: plica.Circuit
    variables: list[int]
    weights: Any
    means: Any
    covariances: Any
    x: Any
    full: Any

    def given(self, row: int) -> tuple[Any, Any, Any, list[tuple[Any, Any]]]:
        """What is hidden, log-densities of what is known, by unit, and mean and covariance of the rest."""
        full, known = self.full[row], ~np.isnan(self.x[row, self.variables])
        logs, rest = np.log(self.weights), []
        for unit, (centre, spread) in enumerate(zip(self.means, self.covariances, strict=True)):
            among, across = spread[np.ix_(known, known)], spread[np.ix_(known, ~known)]
            slopes, away = np.linalg.solve(among, across).T, (full - centre)[known]
            logs[unit] -= 0.5 * (away @ np.linalg.solve(among, away) + np.linalg.slogdet(2 * np.pi * among)[1])
            rest.append((centre[~known] + slopes @ away, spread[np.ix_(~known, ~known)] - slopes @ across))
        return ~known, logs, np.exp(logs - np.logaddexp.reduce(logs)), rest


def mixture(layer: Any, seed: int) -> Mixture:
    rng = np.random.default_rng(seed)
    size, units = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    order = rng.permutation(6)
    vector, other = sorted(order[:size].tolist()), int(order[size])
    scales = 10.0 ** rng.integers(-2, 3, size)
    diagonal = rng.choice([-1, 1], (units, size)) * rng.uniform(0.2, 2, (units, size))
    factors = (np.tril(rng.normal(size=(units, size, size)), -1) + diagonal[:, :, None] * np.eye(size)) * scales[
        :, None
    ]
    if layer is DiagonalGaussianLayer:
        factors = np.abs(factors) * np.eye(size)
        spread = {"stddev": constant(np.diagonal(factors, axis1=1, axis2=2))}
    else:
        spread = {"scale_tril": constant(factors)}
    centres, alone, spreads = (
        rng.normal(size=(units, size)) * scales * 3,
        rng.normal(size=units),
        rng.uniform(1, 2, units),
    )
    weights = rng.dirichlet(np.ones(units))
    inputs = [
        layer(vector, units, mean=constant(centres), **spread),
        GaussianLayer([other], units, mean=constant(alone), stddev=constant(spreads)),
    ]
    product, total = HadamardLayer(units), SumLayer(units, 1, weight=constant(weights[None]))
    covariances = np.zeros((units, size + 1, size + 1))
    covariances[:, :size, :size] = factors @ factors.transpose(0, 2, 1)
    covariances[:, size, size] = spreads**2
    means, variables = np.concatenate([centres, alone[:, None]], axis=1), [*vector, other]
    drawn = rng.integers(0, units, ROWS)
    full = np.stack([rng.multivariate_normal(means[unit], covariances[unit]) for unit in drawn])
    x = np.full((ROWS, max(variables) + 1), np.nan)
    x[:, variables] = np.where(rng.random(full.shape) < 0.5, full, np.nan)
    circuit = plica.Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    return Mixture(circuit, variables, weights, means, covariances, x, full)


LAYERS: tuple[Any, ...] = (MultivariateGaussianLayer, DiagonalGaussianLayer)
EACH = pytest.mark.parametrize("layer", LAYERS)


def near(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(found, float), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("layer", "seed", "semiring"),
    [
        pytest.param(layer, seed, semiring, marks=[] if seed < 3 and (turn + place + seed) % 2 else pytest.mark.full)
        for turn, layer in enumerate(LAYERS)
        for place, semiring in enumerate(("lse-sum", "max-sum"))
        for seed in range(8)
    ],
)
def test_moments_and_explanations_are_those_given_the_rest(layer: Any, seed: int, semiring: str) -> None:
    case = mixture(layer, seed)
    fold, optimize = bool(seed % 2), bool(seed % 3)
    compiled = plica.compile(case.circuit, semiring=semiring, dtype="float64", fold=fold, optimize=optimize)
    x, places = torch.tensor(case.x), np.array(case.variables)
    asked = mean(compiled, x), variance(compiled, x), covariance(compiled, case.variables, x)
    means, variances, covariances = (one.numpy() for one in asked)
    found, (rows, values), bounds = posterior(compiled, x), mpe(compiled, x), mpe_bounds(compiled, x)
    largest = plica.compile(case.circuit, semiring="max-sum", dtype="float64")(x)[:, 0, 0]
    torch.testing.assert_close(largest, values)
    for row in range(ROWS):
        hidden, logs, shares, rest = case.given(row)
        known = np.flatnonzero(~hidden)
        assert means[row, places[known]].tolist() == case.full[row][known].tolist()
        assert not variances[row, places[known]].any()
        assert not covariances[row, known].any()
        assert rows[row, places[known]].tolist() == case.full[row][known].tolist()
        peaks = logs - [0.5 * np.linalg.slogdet(2 * np.pi * spread)[1] for _, spread in rest]
        near(values[row], peaks.max())
        near(bounds.upper[row], np.logaddexp.reduce(peaks))
        if not hidden.any():
            continue
        centres = np.stack([centre for centre, _ in rest])
        expected = shares @ centres
        spread = sum(
            share * (one + np.outer(centre - expected, centre - expected))
            for share, (centre, one) in zip(shares, rest, strict=True)
        )
        stddev, here = np.sqrt(np.diag(spread)), places[hidden]
        near(means[row, here] / stddev, expected / stddev)
        near(found.mean.numpy()[row, here] / stddev, expected / stddev)
        near(found.stddev.numpy()[row, here] / stddev, 1.0)
        near(variances[row, here] / stddev**2, 1.0)
        near(covariances[row][np.ix_(hidden, hidden)] / np.outer(stddev, stddev), spread / np.outer(stddev, stddev))
        near(rows.numpy()[row, here] / stddev, centres[peaks.argmax()] / stddev)


def mixed(shares: Any, kinds: list[Any]) -> Callable[[Any], Any]:
    return lambda t: sum(share * kind.cdf(t) for share, kind in zip(shares, kinds, strict=True))


@pytest.mark.parametrize(
    ("layer", "seed"),
    [
        pytest.param(layer, seed, marks=[] if (turn + seed) % 2 else pytest.mark.full)
        for turn, layer in enumerate(LAYERS)
        for seed in range(3)
    ],
)
def test_samples_follow_the_distribution_given_the_rest(layer: Any, seed: int) -> None:
    case, rng = mixture(layer, seed), np.random.default_rng(seed)
    compiled = plica.compile(case.circuit, dtype="float64")
    x, chances = torch.tensor(case.x), []
    drawn = sample(compiled, DRAWS, x, seed=seed).reshape(ROWS, DRAWS, -1).numpy()
    alone = sample(compiled, DRAWS, x[:1], seed=seed + 100).numpy()  # of one row, which is computed in another way
    for row, draws in [*enumerate(drawn), (0, alone)]:
        hidden, _, shares, rest = case.given(row)
        whole = draws[:, case.variables]
        assert (whole[:, ~hidden] == case.full[row][~hidden]).all()
        if hidden.any():
            for direction in (*np.eye(hidden.sum()), rng.normal(size=hidden.sum()) / np.sqrt(np.diag(rest[0][1]))):
                kinds = [stats.norm(one @ direction, np.sqrt(direction @ two @ direction)) for one, two in rest]
                chances.append(stats.kstest(whole[:, hidden] @ direction, mixed(shares, kinds)).pvalue)
    assert min(chances) > 1e-4


def test_a_quantile_of_independent_variables_is_that_given_the_rest() -> None:
    case = mixture(DiagonalGaussianLayer, 1)
    compiled = plica.compile(case.circuit, dtype="float64")
    for row in range(ROWS):
        hidden, _, shares, rest = case.given(row)
        for place, number in enumerate(np.flatnonzero(hidden)):
            found = quantile(compiled, case.variables[number], 0.3, torch.tensor(case.x[row : row + 1]))
            kinds = [stats.norm(centre[place], np.sqrt(spread[place, place])) for centre, spread in rest]
            near(mixed(shares, kinds)(float(found)), 0.3, 1e-7)


@EACH
def test_float32_and_a_row_of_everything_or_nothing(layer: Any) -> None:
    case = mixture(layer, 3)
    wide, narrow = (plica.compile(case.circuit, dtype=dtype) for dtype in ("float64", "float32"))
    x = torch.tensor(np.concatenate([case.x, np.full_like(case.x[:1], np.nan)]))
    scales = np.sqrt(np.diagonal(case.covariances, axis1=1, axis2=2)).max(0)
    for ask in (mean, lambda one, rows: mpe(one, rows)[0], lambda one, rows: variance(one, rows).sqrt()):
        found, expected = (ask(one, x.to(one.dtype))[:, case.variables].double().numpy() for one in (narrow, wide))
        near(found / scales, expected / scales, 2e-4)
    assert mean(wide, x[:0]).shape == mpe(wide, x[:0])[0].shape == (0, x.shape[1])
    assert sample(wide, 2, x[:0]).shape == (0, x.shape[1])


def test_a_layer_of_ones_own_fills_in_a_part_of_its_variables() -> None:
    table = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.0, 0.5, 0.1]])
    pair = PairLayer(Scope([0, 2]), 2, 2, constant(table))
    total = SumLayer(2, 1, weight=constant([[0.25, 0.75]]))
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(PAIRS_FILLED_IN_PART)
    compiled = compiler.compile(plica.Circuit([pair, total], {total: [pair]}, [total]))
    x = torch.tensor([[0.0, 0.0, torch.nan], [torch.nan, 0.0, 1.0]], dtype=torch.float64)
    joint = (np.array([0.25, 0.75]) @ table).reshape(2, 2)
    drawn = sample(compiled, 20_000, x, seed=0).reshape(2, 20_000, 3)
    assert abs(drawn[0, :, 2].double().mean() - joint[0, 1] / joint[0].sum()) < 0.02
    assert abs(drawn[1, :, 0].double().mean() - joint[1, 1] / joint[:, 1].sum()) < 0.02
    rows, values = mpe(compiled, x)
    assert rows.tolist() == [[0, 0, 0], [1, 0, 1]]
    near(values.exp(), [0.75 * 0.4, 0.4 * 0.25])


def test_quantiles_of_normal_vectors_are_those_of_mixtures_of_conditional_normals() -> None:
    rng = np.random.default_rng(0)
    mean, factor = rng.normal(size=(3, 2)), np.tril(rng.normal(size=(3, 2, 2)), -1) + np.eye(2)
    weight = np.array([[0.2, 0.3, 0.5]])
    vectors = MultivariateGaussianLayer([0, 1], 3, mean=constant(mean), scale_tril=constant(factor))
    mixture = SumLayer(3, 1, weight=constant(weight))
    circuit = plica.compile(plica.Circuit([vectors, mixture], {mixture: [vectors]}, [mixture])).double()
    covariance = factor @ factor.transpose(0, 2, 1)
    given, levels = torch.tensor([[torch.nan, 0.7], [torch.nan, torch.nan]], dtype=torch.float64), [0.05, 0.5, 0.9]
    answer = quantile(circuit, 0, levels, given=given).numpy()
    slope = covariance[:, 0, 1] / covariance[:, 1, 1]
    rest = np.sqrt(covariance[:, 0, 0] - slope * covariance[:, 0, 1])
    shares = weight[0] * stats.norm.pdf(0.7, mean[:, 1], np.sqrt(covariance[:, 1, 1]))
    for row, (flow, middle, spread) in enumerate(
        [
            (shares / shares.sum(), mean[:, 0] + slope * (0.7 - mean[:, 1]), rest),
            (weight[0], mean[:, 0], np.sqrt(covariance[:, 0, 0])),
        ]
    ):
        shares_up_to = (flow * stats.norm.cdf((answer[row][:, None] - middle) / spread)).sum(1)
        np.testing.assert_allclose(shares_up_to, levels, atol=1e-12)


@pytest.mark.parametrize("level", [1e-300, 1e-17, 1e-12, 1e-5, 0.9])
def test_quantiles_of_tails(level: float) -> None:
    vectors = MultivariateGaussianLayer(
        [0, 1], 1, mean=constant(np.zeros((1, 2))), scale_tril=constant(np.eye(2)[None])
    )
    circuit = plica.compile(plica.Circuit([vectors], {}, [vectors])).double()
    np.testing.assert_allclose(float(quantile(circuit, 0, level)), stats.norm.ppf(level), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_quantiles_are_refused_where_float32_does_not_hold_variances(scale: float) -> None:
    vectors = MultivariateGaussianLayer(
        [0, 1], 1, mean=constant(np.zeros((1, 2))), scale_tril=constant(scale * np.eye(2)[None])
    )
    circuit = plica.compile(plica.Circuit([vectors], {}, [vectors]))
    with pytest.raises(InputError, match=r"which torch.float32 does not hold; compute in float64, or rescale"):
        quantile(circuit, 0, 0.9)
    np.testing.assert_allclose(float(quantile(circuit.double(), 0, 0.9)), scale * stats.norm.ppf(0.9), rtol=1e-6)
