"""All queries of random circuits, against the flat mixtures that these are."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from plica import queries
from plica.backend.torch import huge_pages
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery, SamplingQuery
from plica.constants.rewrites import states
from plica.errors import InputError
from plica.lower import cascade
from plica.symbolic.semirings import Bound
from tests.harness.flat_mixtures import Drawn, Mixture, draw
from tests.harness.flat_units import MOST_STATES, Table, Unit

SEMIRINGS = ("lse-sum", "sum-product", "max-sum", "signed-lse-sum", "complex-lse-sum")
LOGARITHMIC = {"lse-sum", "signed-lse-sum", "complex-lse-sum"}
MOST_SAMPLES = 400


class Case:
    """A random circuit, compiled in a random way, and rows of which some entries are missing."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.drawn: Drawn = draw(rng, int(rng.choice([3, 5, 12])))
        self.mixture: Mixture = self.drawn.mixture
        self.single = rng.random() < 0.25
        self.semiring = str(rng.choice(SEMIRINGS))
        flags: dict[str, Any] = {name: bool(rng.integers(2)) for name in ("fold", "optimize")}
        dtype = "float32" if self.single else "float64"
        self.compiled = TorchCompiler(self.semiring, dtype=dtype, **flags).compile(self.drawn.circuit)
        self.compiled.train(bool(rng.integers(2)))
        self.full = self.mixture.draws(rng, int(rng.choice([0, 1, 2, 5]))).astype(dtype)
        self.x = np.where(rng.random(self.full.shape) < rng.choice([0, 0.5, 0.8]), np.nan, self.full).astype(dtype)
        if rng.random() < 0.5:
            self.x[:1] = np.nan
        self.rows = torch.from_numpy(self.x)
        self.variables = sorted(self.drawn.families)

    def close(self, found: Any, expected: Any, factor: float = 1.0) -> None:
        """They differ by rounding; `factor` times what a score may."""
        limit = factor * (3e-4 if self.single else 1e-9)
        np.testing.assert_allclose(found.detach().numpy().astype(float), expected, rtol=limit, atol=limit)

    def up_to(self, row: Any, variable: int, end: float) -> float:
        """The probability that a variable is at most a number, given the rest of a row `(1, D)`."""
        ends = np.array([-np.inf]), np.array([end])
        rest = row.copy()
        rest[:, variable] = np.nan
        return float(self.mixture.of_units(rest, variable, lambda unit: float(unit.share(*ends).item()))[0])


def check_likelihoods(case: Case) -> None:
    rng, x, mixture = case.rng, case.x, case.mixture
    case.close(queries.log_likelihood(case.compiled, case.rows), mixture.log_likelihood(x))
    given = rng.random(x.shape) < 0.5
    expected = mixture.log_likelihood(x) - mixture.log_likelihood(np.where(given, x, np.nan))
    case.close(queries.conditional_log_likelihood(case.compiled, case.rows, torch.from_numpy(given)), expected, 10)
    hidden = rng.random(x.shape) < 0.5
    held = np.where(hidden, rng.choice([np.nan, 1e9, -3.5, np.inf], x.shape), x).astype(x.dtype)
    found = IntegrateQuery(case.compiled)(torch.from_numpy(held), integrate_vars=torch.from_numpy(hidden))[:, 0, 0]
    if case.semiring in LOGARITHMIC:
        logs = logsumexp(mixture.logs(np.where(hidden, np.nan, x)), axis=1)
        case.close(found.real if found.is_complex() else found, logs)


def check_gradients(case: Case) -> None:
    case.compiled.zero_grad()
    given = torch.from_numpy(case.rng.random(case.x.shape) < 0.5)
    with torch.enable_grad():
        scores = queries.conditional_log_likelihood(case.compiled, case.rows, given)
        (scores.sum() + queries.log_likelihood(case.compiled, case.rows).sum()).backward()
    assert all(one.grad is None or bool(one.grad.isfinite().all()) for one in case.compiled.parameters())


def check_boxes(case: Case) -> None:
    other = case.mixture.draws(case.rng, len(case.full)).astype(case.full.dtype).reshape(case.full.shape)
    low, high = np.minimum(other, case.full), np.maximum(other, case.full)
    kind = case.rng.integers(0, 5, low.shape)
    low, high = np.where(kind == 0, -np.inf, low), np.where(kind == 1, np.inf, high)
    none = np.where(kind == 0, np.nan, low)
    found = queries.probability(case.compiled, torch.from_numpy(none), torch.from_numpy(high))
    case.close(found, case.mixture.box(low, high), 10)
    case.close(
        queries.cdf(case.compiled, torch.from_numpy(high)), case.mixture.box(np.full_like(high, -np.inf), high), 10
    )


def check_expectations(case: Case) -> None:
    x, mixture = case.x, case.mixture
    found = queries.posterior(case.compiled, case.rows)
    mean, variance = queries.mean(case.compiled, case.rows), queries.variance(case.compiled, case.rows)
    assert (variance[:, case.variables] >= 0).all()
    for variable in case.variables:
        missing = np.isnan(x[:, variable])
        expected = mixture.of_units(x, variable, lambda unit: unit.kind.mean())
        squares = mixture.of_units(x, variable, lambda unit: unit.kind.var() + unit.kind.mean() ** 2)
        means = np.where(missing, expected, x[:, variable])
        spreads = np.where(missing, squares - expected**2, 0)
        # shares of units far away are rounded as their scores are
        far = max([1.0, *(abs(way.units[variable].kind.mean()) for way in mixture.ways)])
        case.close(mean[:, variable] / far, means / far, 10)
        case.close(variance[:, variable] / far**2, spreads / far**2, 50)
        states = mixture.ways[0].units[variable].states
        if states is None:
            case.close(found.mean[:, variable] / far, means / far, 10)
            case.close(found.stddev[:, variable] ** 2 / far**2, spreads / far**2, 50)
            assert not found.probabilities[:, variable].any()
        else:
            assert found.mean[torch.from_numpy(missing), variable].isnan().all()
            for state in np.unique(np.linspace(0, states - 1, min(states, MOST_STATES)).astype(int)):
                shares = mixture.of_units(x, variable, partial(_mass, state))
                expected = np.where(missing, shares, x[:, variable] == state)
                case.close(found.probabilities[:, variable, state], expected, 10)


def _mass(state: int, unit: Unit) -> float:
    return float(unit.kind.pmf(state))


def check_latents(case: Case) -> None:
    found = queries.latent_posterior(case.compiled, case.rows)
    for layer in case.drawn.circuit.sum_layers:
        terms = found[case.drawn.circuit.layer_index(layer)]
        case.close(terms, case.mixture.latent(case.x, layer, terms.shape[1]), 10)


def check_covariance(case: Case) -> None:
    asked = case.variables[:3]
    found, shares, ways = (
        queries.covariance(case.compiled, asked, case.rows),
        case.mixture.shares(case.x),
        case.mixture.ways,
    )
    assert torch.equal(found, found.transpose(1, 2))
    means = {one: np.array([way.units[one].kind.mean() for way in ways]) for one in asked}
    for i, one in enumerate(asked):
        for j, other in enumerate(asked):
            within = np.array([way.units[one].kind.var() for way in ways]) if one == other else 0
            expected = shares @ (means[one] * means[other] + within) - (shares @ means[one]) * (shares @ means[other])
            both = np.isnan(case.x[:, one]) & np.isnan(case.x[:, other])
            case.close(found[:, i, j], np.where(both, expected, 0), 50)


def check_quantile(case: Case) -> None:
    variable, levels = int(case.rng.choice(case.variables)), np.sort(case.rng.uniform(0.01, 0.99, 2))
    found = queries.quantile(case.compiled, variable, levels, case.rows).numpy().astype(float)
    assert found.shape == (len(case.x), 2)
    limit = 1e-2 if case.single else 1e-7
    for row, ends in zip(case.x, found, strict=True):
        for level, end in zip(levels, ends, strict=True):
            share = case.up_to(row[None], variable, end)
            assert share >= level - limit
            if case.mixture.ways[0].units[variable].whole:
                assert case.up_to(row[None], variable, end - 1) <= level + limit
            else:
                assert share <= level + limit


def check_mpe(case: Case) -> None:
    rows, values = queries.mpe(case.compiled, case.rows)
    bounds = queries.mpe_bounds(case.compiled, case.rows)
    completed = rows.numpy().astype(float)
    assert (np.isnan(case.x) | (completed == case.x)).all()
    logs = case.mixture.logs(completed)
    case.close(values, logs.max(axis=1), 10)
    case.close(bounds.found, logsumexp(logs, axis=1), 10)
    if all(isinstance(unit.kind, Table) for unit in case.mixture.ways[0].units.values()):
        best = np.stack([_largest(way, case.x) for way in case.mixture.ways], axis=1)
        case.close(values, best.max(axis=1), 10)
    drawn = queries.sample(case.compiled, 20, case.rows, seed=1).numpy().astype(float)
    others = logsumexp(case.mixture.logs(drawn), axis=1).reshape(len(case.x), 20)
    limits = (bounds.upper, bounds.found) if bounds.is_exact else (bounds.upper,)
    for limit in limits:
        assert (others <= limit.numpy()[:, None] + (1e-2 if case.single else 1e-8)).all()


def _largest(way: Any, x: Any) -> Any:
    """The largest value of one way at completions of rows of states."""
    found = np.full(len(x), way.log_weight)
    for variable, unit in way.units.items():
        missing = np.isnan(x[:, variable])
        at = unit.log(np.where(missing, 0, x[:, variable]))
        found = found + np.where(missing, unit.log_total + unit.kind.logs.max(), at)
    return found


def check_sample(case: Case) -> None:
    number, rows = MOST_SAMPLES, case.rows[:2]
    found = queries.sample(case.compiled, number, rows, seed=3)
    assert torch.equal(found, queries.sample(case.compiled, number, rows, seed=3))
    drawn = found.numpy().astype(float).reshape(len(rows), number, case.mixture.width)
    for row, own in zip(case.x, drawn, strict=False):
        assert (np.isnan(row) | (own == row)).all()
        assert np.isfinite(logsumexp(case.mixture.logs(own), axis=1)).all()
        for variable in case.variables:
            points = np.quantile(own[:, variable], np.linspace(0, 1, 9), method="nearest")
            if np.isnan(row[variable]):
                shares = [case.up_to(row[None], variable, point) for point in points]
                assert np.abs((own[:, variable, None] <= points).mean(axis=0) - shares).max() < 2.6 / np.sqrt(number)


def check_sampling_query(case: Case) -> None:
    _, chosen = SamplingQuery(case.compiled)(MOST_SAMPLES, generator=torch.Generator().manual_seed(4))
    nothing = np.full((1, case.mixture.width), np.nan)
    for layer in case.drawn.circuit.sum_layers:
        terms = chosen[case.drawn.circuit.layer_index(layer)].numpy()
        expected = case.mixture.latent(nothing, layer, layer.arity * layer.num_input_units)[0]
        found = (terms[:, None] == np.arange(len(expected))).mean(axis=0)
        assert np.abs(found - expected).max() < 2.6 / np.sqrt(MOST_SAMPLES)


def check_impossible(case: Case) -> None:
    """States at random, some of which no way has."""
    x = case.mixture.draws(case.rng, 5).astype(case.x.dtype)
    for variable in case.variables:
        states = case.mixture.ways[0].units[variable].states
        if states is not None:
            x[:, variable] = case.rng.integers(0, states, 5)
    rows, expected = torch.from_numpy(x), case.mixture.log_likelihood(x)
    with torch.no_grad():
        case.close(queries.log_likelihood(case.compiled, rows), expected)
    wrong = np.isneginf(expected)
    assert (queries.mpe(case.compiled, rows)[1].isneginf().numpy() == wrong).all()
    if wrong.any():
        for ask in (queries.posterior, queries.latent_posterior, queries.mean, queries.variance, _one_sample):
            with pytest.raises(InputError, match=rf"row {np.argmax(wrong)}: .* is -inf"):
                ask(case.compiled, rows)


def _one_sample(compiled: Any, rows: torch.Tensor) -> Any:
    return queries.sample(compiled, given=rows)


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_likelihoods,
    check_gradients,
    check_boxes,
    check_expectations,
    check_latents,
    check_covariance,
    check_quantile,
    check_mpe,
    check_sample,
    check_sampling_query,
    check_impossible,
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.full if seed % 2 else []) for seed in range(len(CHECKS))]
)
def test_one_query_of_a_random_circuit(seed: int) -> None:
    CHECKS[seed % len(CHECKS)](Case(seed))


def _assert_expected_in_both_ways(seed: int, patch: pytest.MonkeyPatch) -> None:
    """By derivatives and in logarithms, where everything is large and has states enough; results stay as they are."""
    patch.setattr(huge_pages, "LARGE", 1)
    patch.setattr(states, "_MIN_STATES", 1)
    case = Case(seed)
    held = []
    for first in (0, 2**60):
        patch.setitem(cascade.FROM, Bound.OF_ROWS, first)
        check_expectations(case)
        found = queries.posterior(case.compiled, case.rows)
        held += [(one, one.clone()) for one in (found.probabilities, queries.mean(case.compiled, case.rows))]
    for one, copy in held:
        torch.testing.assert_close(one, copy, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_expected_by_derivatives_and_in_logarithms(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _assert_expected_in_both_ways(2000 + seed, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(30, 55))
def test_more_is_expected_in_both_ways(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _assert_expected_in_both_ways(3000 + seed, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(50))
def test_every_query_of_a_random_circuit(seed: int) -> None:
    case = Case(1000 + seed)
    for check in CHECKS:
        check(case)
