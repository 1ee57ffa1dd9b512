"""Checks of every query of the table against the oracle, on a small circuit around a layer, by name of function.

    QUERY_CHECKS["cdf"](Asked(circuit, compiled, cases))

Every query is linear in what the layers of one variable come to, so that the oracle answers all of them: a check tells
it what units come to between two ends, or the mean of each times its total, where the reference would score data.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any

import numpy as np
import pytest
import torch

from plica import queries
from plica.backend.torch.queries import IntegrateQuery
from plica.errors import InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.symbolic.semirings import LSE_SUM
from tests.harness.case_circuits import data_of
from tests.harness.layer_cases import InputCase, LayerCase, references
from tests.harness.oracle import Oracle, numbers
from tests.harness.row_checks import _modes, _share
from tests.harness.spaces import LINEAR, LOG_SPACES, WIDE
from tests.harness.tables.queries import NEEDS

Array = Any
# (layer, params) -> what units come to, (B or 1, K), in place of their score; None for layers that score data
Told = Callable[[Any, Any], Array | None]
ROWS = 7


@dataclass(frozen=True)
class Asked:
    """A compiled circuit that is asked, and what its oracle is made of.

    Args:
        circuit: With one output of one unit.
        compiled: Of that.
        cases: The cases of its layers.
    """

    circuit: Circuit
    compiled: Any
    cases: Iterable[LayerCase]
    inputs: Mapping[type, InputCase] = field(init=False)

    def __post_init__(self) -> None:
        found = {case.row.layer: case for case in self.cases if isinstance(case, InputCase)}
        object.__setattr__(self, "inputs", found)

    @property
    def tolerance(self) -> float:
        """What answers may differ by."""
        return 1e-9 if self.compiled.dtype == torch.float64 else 2e-4

    def data(self, missing: float, seed: int = 0, rows: int = ROWS) -> Array:
        """Possible rows of data with some missing; the first lacks everything that may be missing, if any do."""
        drawn = data_of(self.circuit, list(self.cases), 50 * rows, 0.0, seed)
        drawn = drawn.astype(str(self.compiled.dtype).removeprefix("torch."))
        x = drawn[self.values(drawn) > 0][:rows]
        assert len(x) == rows, "the case draws nothing but what is impossible"
        if missing:
            lacking = data_of(self.circuit, list(self.cases), rows, missing, seed)
            x[np.isnan(lacking)] = np.nan
            for layer in self.circuit.input_layers:
                if self.inputs[type(layer)].totals is not None:
                    x[:1, list(layer.scope)] = np.nan
        return x

    def values(self, x: Array, told: Told = lambda layer, params: None) -> Array:  # noqa: ARG005
        """The circuit's values `(B,)` in ordinary numbers, some of its layers told what they come to."""
        return self._oracle(told).linear(x)[:, 0, 0]

    def _oracle(self, told: Told) -> Oracle:
        def reference_of(case: InputCase) -> Callable[..., Array]:
            def reference(space: Any, layer: Any, params: Any, x: Array) -> Array:
                found = told(layer, params)
                if found is None:
                    return case.reference(space, layer, params, x)
                return space.from_linear(np.broadcast_to(np.asarray(found, WIDE), (len(x), layer.num_output_units)))

            return reference

        own = references(self.cases) | {layer: reference_of(case) for layer, case in self.inputs.items()}
        return Oracle(self.circuit, numbers(self.compiled), own)

    def oracle(self) -> Oracle:
        """The oracle of the circuit."""
        return Oracle(self.circuit, numbers(self.compiled), references(self.cases))

    def between(self, low: Array, high: Array) -> Told:
        """What units have between ends `(B, D)`, NaN where there are none."""
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

        def told(layer: Any, params: Any) -> Array:
            case, scope = self.inputs[type(layer)], list(layer.scope)
            totals = np.asarray(case.totals(layer, params))
            if case.shares is not None:
                return case.shares(layer, params, low[:, scope], high[:, scope]) * totals
            kinds = case.distributions(layer, params)
            shares = np.stack([_share(kind, low[:, scope[0]], high[:, scope[0]]) for kind in kinds], 1)
            return shares * totals

        return told

    def mean_of(self, x: Array, variable: int, number: Callable[[Any], Any]) -> Array:
        """The mean `(B,)` of what `number` says of the distribution of a variable's units, given the rest of rows."""
        rows = np.array(x)
        rows[:, variable] = np.nan

        def told(layer: Any, params: Any) -> Array | None:
            if variable not in layer.scope:
                return None
            case = self.inputs[type(layer)]
            kinds = case.distributions(layer, params)
            return (np.array([number(kind) for kind in kinds]) * np.asarray(case.totals(layer, params)))[None]

        return self.values(rows, told) / self.values(rows)

    def close(self, found: Any, expected: Array, tolerance: float | None = None) -> None:
        """An answer is what the oracle says."""
        limit = self.tolerance if tolerance is None else tolerance
        np.testing.assert_allclose(found.detach().numpy().astype(float), expected.astype(float), rtol=limit, atol=limit)


def _masked(asked: Asked, seed: int) -> Array:
    """A mask of rows, all or none of the variables of a layer."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((ROWS, max(asked.circuit.scope) + 1), bool)
    for layer in asked.circuit.input_layers:
        mask[:, list(layer.scope)] = rng.random((ROWS, 1)) < 0.5
    return mask


def only(variable: int, told: Told) -> Told:
    """The layers of one variable are told, the others score data."""
    return lambda layer, params: told(layer, params) if variable in layer.scope else None


def _single(asked: Asked) -> list[int]:
    """The variables whose layers have one variable each."""
    several = [layer.scope for layer in asked.circuit.input_layers if layer.num_variables > 1]
    return [variable for variable in asked.circuit.scope if not any(variable in scope for scope in several)]


def check_log_likelihood(asked: Asked) -> None:
    """The logarithm of what is known, over the total."""
    x = asked.data(0.4)
    values = asked.values(x)
    asked.close(queries.log_likelihood(asked.compiled, torch.from_numpy(x)), np.log(values / values[0]))


def check_conditional_log_likelihood(asked: Asked) -> None:
    """Rows that differ in what they are conditioned on."""
    x, given = asked.data(0.2), _masked(asked, 1)
    expected = np.log(asked.values(x) / asked.values(np.where(given, x, np.nan)))
    found = queries.conditional_log_likelihood(asked.compiled, torch.from_numpy(x), torch.from_numpy(given))
    asked.close(found, expected)


def _ends(asked: Asked) -> tuple[Array, Array]:
    """Rows of lower and upper ends: some without one, some infinite, one crossed."""
    one, other = asked.data(0.0, 2), asked.data(0.0, 3)
    low, high = np.minimum(one, other), np.maximum(one, other)
    rng = np.random.default_rng(4)
    for ends, infinity in ((low, -np.inf), (high, np.inf)):
        kind = rng.integers(0, 4, ends.shape)
        ends[kind == 0], ends[kind == 1] = infinity, np.nan
    low[0], high[0] = np.nan, np.nan
    low[1, 0], high[1, 0] = one[1, 0] + 1, one[1, 0]
    return low, high


def check_cdf(asked: Asked) -> None:
    """All variables up to their ends, by SciPy's distribution functions."""
    _, high = _ends(asked)
    found = queries.cdf(asked.compiled, torch.from_numpy(high))
    total = asked.values(np.full_like(high[:1], np.nan))
    expected = asked.values(high, asked.between(np.full_like(high, np.nan), high)) / total
    asked.close(found, expected)


def check_probability(asked: Asked) -> None:
    """All variables between their ends."""
    low, high = _ends(asked)
    found = queries.probability(asked.compiled, torch.from_numpy(low), torch.from_numpy(high))
    total = asked.values(np.full_like(high[:1], np.nan))
    expected = asked.values(high, asked.between(low, high)) / total
    assert low[1, 0] > high[1, 0], "there is a crossed row, of which every unit of variable 0 has nothing"
    asked.close(found, expected)


def check_quantile(asked: Asked) -> None:
    """The first number whose probability, given the rest of the row, suffices."""
    x, levels = asked.data(0.4), np.array([0.02, 0.5, 0.93])
    for variable in {min(asked.circuit.scope), max(asked.circuit.scope)}:
        rows = np.array(x)
        for layer in asked.circuit.input_layers:
            if variable in layer.scope:
                rows[:, list(layer.scope)] = np.nan
        found = queries.quantile(asked.compiled, variable, levels, torch.from_numpy(rows)).numpy()
        assert found.shape == (ROWS, len(levels))

        def up_to(end: Array, rows: Array = rows, variable: int = variable) -> Array:
            high = np.full(rows.shape, np.nan)
            high[:, variable] = end
            told = asked.between(np.full_like(high, np.nan), high)
            return asked.values(rows, only(variable, told)) / asked.values(rows)

        for place, level in enumerate(levels):
            first = found[:, place]
            before = first - 1 if found.dtype == np.int64 else first - 1e-6 * (1 + np.abs(first))
            limit = 10 * asked.tolerance
            assert (up_to(first.astype(float)) >= level - limit).all()
            assert (up_to(before.astype(float)) <= level + max(limit, 1e-5)).all() or found.dtype != np.int64
            if found.dtype == np.int64:
                assert (up_to(before.astype(float)) < level + limit).all()


def check_sample(asked: Asked) -> None:
    """Shares of samples up to each of them, by the distribution function of each variable."""
    number = 1000
    found = queries.sample(asked.compiled, number, seed=5).numpy().astype(float)
    assert found.shape == (number, max(asked.circuit.scope) + 1)
    total = asked.values(np.full_like(found[:1], np.nan))
    for variable in _single(asked):
        points = np.unique(np.quantile(found[:, variable], np.linspace(0, 1, 20), method="nearest"))
        high = np.full((len(points), found.shape[1]), np.nan)
        high[:, variable] = points
        told = asked.between(np.full_like(high, np.nan), high)
        expected = asked.values(np.full_like(high, np.nan), only(variable, told)) / total
        shares = (found[:, variable, None] <= points).mean(axis=0)
        assert np.abs(shares - expected.astype(float)).max() < 2.5 / np.sqrt(number)


def _readable(asked: Asked, rows: Array) -> Array:
    """Rows as densities read them that may be infinite at an end of their domain: the next number inside stands for it.

    That is a number of float32, whatever the circuit's dtype is; at 0, its smallest normal one.
    """
    found = rows.astype(str(asked.compiled.dtype).removeprefix("torch."))
    for variable, domain in asked.circuit.domains.items():
        column = found[:, variable]
        for end, other in ((domain.least, np.inf), (domain.most, -np.inf)):
            if not domain.whole and np.isfinite(end):
                inner = np.finfo(np.float32).tiny if end == 0 else np.nextafter(np.float32(end), np.float32(other))
                column[column == end] = inner
    return found.astype(float)


def check_mpe(asked: Asked) -> None:
    """The value is that of the row that was found, with its choices, and no completion that is drawn has more."""
    x = asked.data(0.4)
    rows, logs = queries.mpe(asked.compiled, torch.from_numpy(x))
    assert (np.isnan(x) | (rows.numpy() == x)).all()
    oracle = asked.oracle()
    asked.close(logs, oracle.largest(_readable(asked, rows.numpy()))[:, 0, 0])
    drawn = queries.sample(asked.compiled, 20, torch.from_numpy(x), seed=6).numpy()
    others = oracle.largest(_readable(asked, drawn))[:, 0, 0].reshape(ROWS, 20)
    assert (others <= logs.numpy()[:, None] + asked.tolerance).all()


def check_mpe_bounds(asked: Asked) -> None:
    """What was found lies between its value with its choices and the bound, which no completion exceeds."""
    x = asked.data(0.4)
    found = queries.mpe_bounds(asked.compiled, torch.from_numpy(x))
    asked.close(found.found, np.log(asked.values(_readable(asked, found.rows.numpy()))))
    assert (found.log_values <= found.found + asked.tolerance).all()
    drawn = queries.sample(asked.compiled, 20, torch.from_numpy(x), seed=6).numpy()
    others = np.log(asked.values(_readable(asked, drawn))).reshape(ROWS, 20)
    assert (others <= found.upper.numpy()[:, None] + asked.tolerance).all()


def check_posterior(asked: Asked) -> None:
    """Probabilities of states; means and deviations of other variables."""
    x = asked.data(0.5)
    found = queries.posterior(asked.compiled, torch.from_numpy(x))
    for variable in _single(asked):
        missing = np.isnan(x[:, variable])
        states = asked.circuit.domains[variable].num_states
        if states is None:
            mean = asked.mean_of(x, variable, lambda kind: kind.mean())
            square = asked.mean_of(x, variable, lambda kind: kind.var() + kind.mean() ** 2)
            asked.close(found.mean[missing, variable], mean[missing])
            asked.close(found.stddev[missing, variable] ** 2, (square - mean**2)[missing])
        else:
            for state in range(states):
                expected = asked.mean_of(x, variable, methodcaller("pmf", state))
                asked.close(found.probabilities[missing, variable, state], expected[missing])


def check_mean(asked: Asked) -> None:
    """The mean of each missing variable; what is known is its own."""
    x = asked.data(0.5)
    found = queries.mean(asked.compiled, torch.from_numpy(x))
    for variable in _single(asked):
        expected = asked.mean_of(x, variable, lambda kind: kind.mean())
        asked.close(found[:, variable], np.where(np.isnan(x[:, variable]), expected, x[:, variable]))


def check_variance(asked: Asked) -> None:
    """The variance of each missing variable, and none of what is known."""
    x = asked.data(0.5)
    found = queries.variance(asked.compiled, torch.from_numpy(x))
    for variable in _single(asked):
        mean = asked.mean_of(x, variable, lambda kind: kind.mean())
        square = asked.mean_of(x, variable, lambda kind: kind.var() + kind.mean() ** 2)
        asked.close(found[:, variable], np.where(np.isnan(x[:, variable]), square - mean**2, 0))


def check_covariance(asked: Asked) -> None:
    """Pairs of means, and squares, of what units give."""
    variables = _single(asked)
    found = queries.covariance(asked.compiled, variables or list(asked.circuit.scope))
    nothing = np.full((1, max(asked.circuit.scope) + 1), np.nan)
    means = {one: asked.mean_of(nothing, one, lambda kind: kind.mean()) for one in variables}
    for (i, one), (j, other) in itertools.product(enumerate(variables), repeat=2):
        if one == other:
            products = asked.mean_of(nothing, one, lambda kind: kind.var() + kind.mean() ** 2)
        else:

            def told(layer: Any, params: Any, pair: tuple[int, int] = (one, other)) -> Array | None:
                if not any(variable in layer.scope for variable in pair):
                    return None
                case = asked.inputs[type(layer)]
                numbers = np.array([kind.mean() for kind in case.distributions(layer, params)])
                return (numbers * np.asarray(case.totals(layer, params)))[None]

            products = asked.values(nothing, told) / asked.values(nothing)
        asked.close(found[i, j][None], products - means[one] * means[other])


def check_latent_posterior(asked: Asked) -> None:
    """The terms of the output, each its weight times what it reads."""
    x, circuit = asked.data(0.4), asked.circuit
    (output,) = circuit.outputs
    found = queries.latent_posterior(asked.compiled, torch.from_numpy(x))
    assert set(found) >= {circuit.layer_index(layer) for layer in circuit.sum_layers}
    for terms in found.values():
        assert (terms >= 0).all()
    if isinstance(output, SumLayer):
        oracle = asked.oracle()
        values = oracle.layers(LINEAR, x)
        read = np.concatenate([values[one] for one in circuit.layer_inputs(output)], axis=1)
        terms = oracle.parameter(output.weight)[0] * read
        asked.close(found[circuit.layer_index(output)], terms / terms.sum(axis=1, keepdims=True))


def check_IntegrateQuery(asked: Asked) -> None:  # noqa: N802 - as the class is called
    """Hidden entries, whatever they hold, are reduced as the algebra says."""
    compiled, hidden = asked.compiled, _masked(asked, 7)
    x = asked.data(0.0)
    known = np.where(hidden, np.nan, x)
    x[hidden] = np.random.default_rng(8).choice([np.nan, 1e6, -1.5], x.shape)[hidden]
    query = IntegrateQuery(compiled)
    found = query(torch.from_numpy(x), integrate_vars=torch.from_numpy(hidden))
    expected = _in_algebra(asked, known)
    assert torch.equal(query(torch.from_numpy(x), observed=torch.from_numpy(~hidden)), found)
    if not compiled.semiring.logarithmic:  # ordinary numbers may underflow
        asked.close(found.real[:, 0, 0] if found.is_complex() else found[:, 0, 0], np.exp(expected))
        return
    logs = found.real if found.is_complex() else LSE_SUM.map_from(found.detach(), compiled.semiring)
    asked.close(logs[:, 0, 0], expected)


def _in_algebra(asked: Asked, x: Array) -> Array:
    """The logarithms `(B,)` of rows in the algebra of the circuit, with what is NaN reduced as it says."""
    algebra = asked.compiled.semiring.algebra.name
    if algebra == "real":
        return np.log(asked.values(x))

    def maximized(case: InputCase) -> Callable[..., Array]:
        def reference(space: Any, layer: Any, params: Any, x: Array) -> Array:
            missing = np.isnan(x[:, list(layer.scope)]).any(axis=1)
            rows = np.zeros((layer.num_output_units, x.shape[1]), WIDE)
            rows[:, list(layer.scope)] = _modes(case, layer, params)
            largest = np.diag(case.reference(space, layer, params, rows))
            score = case.reference(space, layer, params, np.where(np.isnan(x), rows[:1], x))
            return np.where(missing[:, None], largest, score)

        return reference

    own = references(asked.cases) | {layer: maximized(case) for layer, case in asked.inputs.items()}
    oracle = Oracle(asked.circuit, numbers(asked.compiled), own)
    values = oracle.layers(LOG_SPACES[algebra], np.asarray(x, WIDE))
    (output,) = asked.circuit.outputs
    return values[output][:, 0]


def check_impossible(asked: Asked, x: Array) -> None:
    """Rows that cannot be are so beside others that can; nothing follows from them, and no fault is found in others."""
    good = asked.data(0.0)
    rows = torch.from_numpy(np.concatenate([good[:1], x.astype(good.dtype), good[1:2]]))
    expected = np.array([True, *[False] * len(x), True])
    scores = queries.log_likelihood(asked.compiled, rows)
    assert (scores.isneginf().numpy() == ~expected).all()
    assert not scores.isnan().any()
    given = torch.ones(rows.shape, dtype=torch.bool)
    found = queries.conditional_log_likelihood(asked.compiled, rows, given)
    assert (found.isnan().numpy() == ~expected).all()
    assert (queries.mpe(asked.compiled, rows)[1].isneginf().numpy() == ~expected).all()
    for ask in (queries.posterior, queries.latent_posterior, queries.mean, queries.variance):
        with pytest.raises(InputError, match=r"row 1: the logarithm of the probability of the given values is -inf"):
            ask(asked.compiled, rows)
    with pytest.raises(InputError, match=r"row 1: the logarithm of the probability of the given values is -inf"):
        queries.sample(asked.compiled, 2, rows)


QUERY_CHECKS: Mapping[str, Callable[[Asked], None]] = {
    needs.function: globals()[f"check_{needs.function}"] for needs in NEEDS
}
