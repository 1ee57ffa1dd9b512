"""Checks of the columns of a layer's row against the references of its case, traced and interpreted in float64.

COLUMNS[InputRow]["body"](case)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import plica.eager.namespace as eager
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError
from plica.lower.fold.settings import own_settings_of, padded_lengths
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS
from plica.symbolic.layers.rows import FusedRow, InputRow, ProductRow, SumRow, independent, with_sub_layers
from plica.symbolic.parameters import ConstantParameter, TensorParameter, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import SEMIRINGS, Params, Reduction, Semiring
from plica.tracing import namespace as xp
from tests.harness.case_circuits import UNITS
from tests.harness.layer_cases import InnerCase, InputCase, num_states
from tests.harness.oracle import evaluate
from tests.harness.run_rule import run_rule
from tests.harness.spaces import LINEAR, LOG, SPACES, WIDE

Array = Any
F, B = 2, 5
EXACT = 1e-11  # of rules in float64
REAL = [row for row in SEMIRINGS.values() if row.algebra.name == "real"]
SAMPLES = 20_000
LEAST = 1e-4  # the level of tests on samples, whose seeds are fixed


class Folds:
    """A layer with F sets of values of its tensors, as rows and as references see them."""

    def __init__(self, layer: Any, seed: int = 0) -> None:
        self.layer = layer
        rng = np.random.default_rng(seed)
        values = [{leaf: rng.normal(size=leaf.shape).astype(WIDE) for leaf in _tensors(layer)} for _ in range(F)]
        held = {
            f"{name}.{key}": value.detach().numpy().astype(WIDE)
            for name, module in layer.opaque.items()
            for key, value in module.state_dict().items()
        }
        self.params = [{name: evaluate(one, fold) for name, one in layer.all_params.items()} | held for fold in values]
        evaluated = [{name: evaluate(one, fold) for name, one in layer.all_evaluated_params.items()} for fold in values]
        self.stacked = {name: np.stack([fold[name] for fold in evaluated]).astype(float) for name in evaluated[0]}

    def run(self, rule: Callable[..., Any], *arrays: Array, batched: Mapping[int, int] | None = None) -> Array:
        """`rule(params, *arrays)` of a row, traced with a symbolic batch size."""
        names = list(self.stacked)

        def traced(*operands: Any) -> Any:
            values = operands[len(arrays) :]
            params = Params.of(xp, dict(zip(names, values, strict=True)))
            return rule(
                with_sub_layers(params, self.layer, lambda one: LAYER_ROWS[type(one)]), *operands[: len(arrays)]
            )

        return run_rule(traced, *arrays, *self.stacked.values(), batch_axis=dict(batched or {}))

    def values(self, semiring: Semiring, column: Callable[..., Any], *arrays: Array) -> Array:
        """What a column of a row gives for arrays `(F, B, ...)`, as ordinary numbers."""

        def rule(params: Any, *operands: Any) -> Any:
            return semiring.to_linear(xp, column(xp, semiring, self.layer, params, *operands))

        return self.run(rule, *arrays, batched=dict.fromkeys(range(len(arrays)), 1))


def _tensors(layer: Any) -> dict[Any, None]:
    leaves = (leaf for one in layer.all_params.values() for leaf in one.leaves)
    return dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, TensorParameter))


def input_layer(case: InputCase, units: int = UNITS) -> Any:
    """A layer of a case over the first variables."""
    return case.build(range(case.num_variables), units)


def close(found: Array, expected: Array) -> None:
    """Equal up to rounding, infinities included."""
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=EXACT, atol=1e-300)


# Input layers.


def check_reference(case: InputCase) -> None:
    """The reference is the distribution that SciPy has, times the total; what is missing is summed out."""
    layer = input_layer(case)
    for params in Folds(layer).params:
        x = np.asarray(case.draw(layer, np.random.default_rng(1), 7), WIDE)
        found = case.reference(LINEAR, layer, params, x)
        if not case.signed:
            close(np.exp(case.reference(LOG, layer, params, x)), found)
        if case.totals is None:
            continue
        totals = np.asarray(case.totals(layer, params), float)
        close(case.reference(LINEAR, layer, params, np.full_like(x, np.nan))[0], totals)
        if not case.num_variables:
            continue
        if case.distributions is not None:
            kinds = case.distributions(layer, params)
            values = case.encode(layer, x.astype(float))
            expected = [(one.pdf if hasattr(one, "pdf") else one.pmf)(values) for one in kinds]
            np.testing.assert_allclose(found.astype(float), np.stack(expected, 1) * totals, rtol=1e-9)
        if (states := num_states(layer)) is not None:
            every = np.stack(np.meshgrid(*[range(states)] * case.num_variables, indexing="ij"), -1)
            sums = case.reference(LINEAR, layer, params, every.reshape(-1, case.num_variables).astype(WIDE)).sum(axis=0)
            np.testing.assert_allclose(sums.astype(float), totals, rtol=1e-9)


def carriers(case: InputCase, rows: Iterable[Semiring]) -> list[Semiring]:
    """The semirings that carry the numbers of a layer."""
    return [row for row in rows if row.negative or not case.signed]


def check_input_body(case: InputCase) -> None:
    """The value at data, in every semiring, for folds."""
    layer = input_layer(case)
    folds = Folds(layer)
    x = np.stack([case.draw(layer, np.random.default_rng(fold), B) for fold in range(F)])
    for semiring in carriers(case, SEMIRINGS.values()):
        space = SPACES[semiring.algebra.name]
        expected = [case.reference(space, layer, folds.params[fold], x[fold].astype(WIDE)) for fold in range(F)]
        close(folds.values(semiring, case.row.body, x), np.stack(expected))


def check_marginal(case: InputCase) -> None:
    """The sum or integral over all variables."""
    layer = input_layer(case)
    folds = Folds(layer)
    expected = [case.totals(layer, params) for params in folds.params]
    for semiring in carriers(case, REAL):
        close(folds.values(semiring, case.row.marginal), np.stack(expected)[:, None])


def check_sample(case: InputCase) -> None:
    """Draws follow the distribution of the unit that is chosen: shares or quantiles, mean and variance."""
    layer = input_layer(case)
    folds, rng = Folds(layer), np.random.default_rng(2)
    units = rng.integers(0, UNITS, (F, SAMPLES))
    uniforms = rng.uniform(size=(F, SAMPLES, layer.num_uniforms))
    drawn = folds.run(
        lambda params, chosen, u: case.row.sample(xp, layer, params, chosen, u), units, uniforms, batched={0: 1, 1: 1}
    )
    assert drawn.shape == (F, SAMPLES, case.num_variables)
    for fold, params in enumerate(folds.params):
        for unit, kind in enumerate(case.distributions(layer, params)):
            values = case.encode(layer, np.asarray(drawn[fold, units[fold] == unit], float))
            follows(values, kind)


def follows(values: Array, kind: Any) -> None:
    """Draws follow a distribution of SciPy, by a test of their shares or quantiles, and in mean and variance.

    Draws of several variables, `(N, V)`: each variable does, and so does a sum of them.
    """
    if np.ndim(values) == 2:
        for direction in (*np.eye(values.shape[1]), np.arange(1.0, values.shape[1] + 1)):
            follows(values @ direction, kind.along(direction))
        return
    if hasattr(kind, "pmf"):
        places, counts = np.unique(values, return_counts=True)
        shares = kind.pmf(places)
        assert (shares > 0).all(), "an impossible value was drawn"
        many = shares * len(values) >= 5
        found = np.append(counts[many], counts[~many].sum())
        expected = np.append(shares[many], 1 - shares[many].sum()) * len(values)
        some = expected > 0.5  # the rest are too few to matter, and no share is left over where all are likely
        expected = expected[some] * found[some].sum() / expected[some].sum()
        assert len(expected) < 2 or stats.chisquare(found[some], expected).pvalue > LEAST
    else:
        assert stats.kstest(values, kind.cdf).pvalue > LEAST
    mean, variance = kind.mean(), kind.var()
    assert abs(values.mean() - mean) <= 5 * np.sqrt(variance / len(values)) + 1e-12
    assert abs(values.var() - variance) <= 0.25 * variance + 1e-12


def _modes(case: InputCase, layer: Any, params: Any) -> Array:
    """Where each unit is largest, `(K, V)`: among all states, or where SciPy's mean of a symmetric density is."""
    if case.modes is not None:
        return case.modes(layer, params)
    kinds = case.distributions(layer, params)
    states = num_states(layer)
    if states is None:
        return np.stack([case.decode(layer, [kind.mean()])[0] for kind in kinds])
    every = np.arange(states**case.num_variables)
    return np.stack([case.decode(layer, every)[int(np.argmax(kind.pmf(every)))] for kind in kinds])


def check_mode(case: InputCase) -> None:
    """Where each unit has its largest value."""
    layer = input_layer(case)
    folds = Folds(layer)
    found = folds.run(lambda params: case.row.mode(xp, layer, params))
    close(found, np.stack([_modes(case, layer, params) for params in folds.params]))


def check_maximum(case: InputCase) -> None:
    """The largest value of each unit."""
    layer = input_layer(case)
    folds = Folds(layer)
    for semiring in SEMIRINGS.values():
        space, expected = SPACES[semiring.algebra.name], []
        for params in folds.params:
            x = np.asarray(_modes(case, layer, params), WIDE)
            expected.append(np.diag(case.reference(space, layer, params, x))[None])
        close(folds.values(semiring, case.row.maximum), np.stack(expected))


def check_partial(case: InputCase) -> None:
    """The value where some variables are missing."""
    layer, partial = input_layer(case), case.row.partial
    assert partial is not None, "asked of rows that have it"
    folds, rng = Folds(layer), np.random.default_rng(3)
    x = np.stack([case.draw(layer, rng, B) for _ in range(F)])
    missing = rng.random(x.shape) < 0.5
    expected = [
        case.reference(LINEAR, layer, folds.params[fold], np.where(missing[fold], np.nan, x[fold]).astype(WIDE))
        for fold in range(F)
    ]
    for semiring in REAL:
        close(folds.values(semiring, partial, x, missing), np.stack(expected))


def _with_holes(case: InputCase, layer: Any) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    x = np.stack([case.draw(layer, rng, B) for _ in range(F)])
    return x, rng.random(x.shape) < 0.5


def check_partial_maximum(case: InputCase) -> None:
    """The largest value, whatever is in place of what is missing: that at the mode of it given the rest."""
    layer, partial = input_layer(case), case.row.partial_maximum
    assert partial is not None, "asked of rows that have it"
    assert case.given is not None, "the case says what is missing given the rest"
    folds, (x, missing) = Folds(layer), _with_holes(case, layer)
    for semiring in SEMIRINGS.values():
        if semiring.algebra.reduction is Reduction.INTEGRATE:
            continue
        space, expected = SPACES[semiring.algebra.name], np.zeros((F, B, UNITS))
        for fold, row in np.ndindex(F, B):
            params, hidden, completed = folds.params[fold], missing[fold, row], x[fold, row].astype(WIDE)
            for unit, rest in enumerate(case.given(layer, params, x[fold, row], hidden)):
                completed[hidden] = rest.mode
                expected[fold, row, unit] = case.reference(space, layer, params, completed[None])[0, unit]
        np.testing.assert_allclose(folds.values(semiring, partial, x, missing), expected, rtol=1e-9)


def check_conditional(case: InputCase) -> None:
    """Mean, mode, variance and covariance of what is missing, given the rest; samples follow them (their tests)."""
    layer, conditional = input_layer(case), case.row.conditional
    assert conditional is not None, "asked of rows that have it"
    folds, (x, missing) = Folds(layer), _with_holes(case, layer)
    if conditional is independent:
        rows = np.eye(case.num_variables, dtype=bool)
        for params in folds.params:
            assert case.covariances is not None, "asked of layers of several normal variables"
            assert not np.asarray(case.covariances(layer, params))[:, ~rows].any()
        return
    assert case.given is not None, "the case says what is missing given the rest"

    def moment(name: str) -> Array:
        def rule(params: Any, data: Any, absent: Any) -> Any:
            given = conditional(xp, layer, params, data, absent)
            return getattr(case.row, name)(xp, layer, given)

        found = folds.run(rule, x, missing, batched={0: 1, 1: 1})
        return found.reshape(F, B, *found.shape[1:])

    means, modes, variances, covariances = (moment(name) for name in ("mean", "mode", "variance", "covariance"))
    for fold, row in np.ndindex(F, B):
        hidden = missing[fold, row]
        for unit, rest in enumerate(case.given(layer, folds.params[fold], x[fold, row], hidden)):
            for found, expected in (
                (means[fold, row, unit][hidden], rest.mean),
                (modes[fold, row, unit][hidden], rest.mode),
                (variances[fold, row, unit][hidden], np.diag(rest.covariance)),
                (covariances[fold, row, unit][np.ix_(hidden, hidden)], rest.covariance),
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def _moments(case: InputCase, moment: str) -> Callable[[Any, Any], Array]:
    """What SciPy says of each unit of a layer of one variable, `(K, 1)`; the case's own word for several."""
    return lambda layer, params: np.asarray([getattr(kind, moment)() for kind in case.distributions(layer, params)])


def _check_moment(case: InputCase, column: str, of_scipy: str) -> None:
    layer = input_layer(case)
    folds = Folds(layer)
    expected = getattr(case, column + "s") or _moments(case, of_scipy)
    found = folds.run(lambda params: getattr(case.row, column)(xp, layer, params))
    shape = (F, UNITS, *[case.num_variables] * (2 if column == "covariance" else 1))
    assert found.shape == shape
    # SciPy sums or integrates some of them
    wanted = np.stack([np.asarray(expected(layer, params), float) for params in folds.params]).reshape(shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-12)


MOMENTS = ("mean", "variance")


def check_mean(case: InputCase) -> None:
    """The mean of each unit."""
    _check_moment(case, "mean", "mean")


def check_variance(case: InputCase) -> None:
    """The variance of each unit."""
    _check_moment(case, "variance", "var")


def check_covariance(case: InputCase) -> None:
    """The covariance matrix of each unit of a layer of several variables, which the case gives."""
    _check_moment(case, "covariance", "cov")


def check_normal(case: InputCase) -> None:
    """A row that says so has normal or log-normal densities of each variable, of these means and variances."""
    normal = case.row.normal
    if normal is None:
        return
    layer = input_layer(case)
    folds, rng = Folds(layer), np.random.default_rng(10)
    means, variances = (
        folds.run(lambda params, rule=rule: rule(xp, layer, params)) for rule in (normal.mean, normal.variance)
    )
    for fold, params in enumerate(folds.params):
        for variable in range(case.num_variables):
            x = np.full((B, case.num_variables), np.nan, dtype=WIDE)
            total = case.reference(LOG, layer, params, x)
            x[:, variable] = case.draw(layer, rng, B)[:, variable]
            mean, stddev = means[fold][:, variable], np.sqrt(variances[fold][:, variable])
            kind = stats.norm(mean, stddev)
            if normal.are_logs(layer)[variable]:
                kind = stats.lognorm(stddev, scale=np.exp(mean))
            expected = kind.logpdf(x[:, variable, None].astype(float))
            found = (case.reference(LOG, layer, params, x) - total).astype(float)
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def _share(kind: Any, low: Array, high: Array) -> Array:
    """What a distribution of SciPy has from `low` to `high`, both ends included."""
    before = np.ceil(low) - 1 if hasattr(kind, "pmf") else low
    return np.where(low <= high, np.maximum(kind.cdf(high) - kind.cdf(before), 0), 0)


def check_interval(case: InputCase) -> None:
    """The share between two ends, one of them or both infinite in some rows, and none where they are crossed."""
    assert case.num_variables == 1 or case.shares is not None, "the case says what a box of its variables holds"
    layer = input_layer(case)
    folds, rng = Folds(layer), np.random.default_rng(8)
    ends = np.stack([[case.draw(layer, rng, B) for _ in range(2)] for _ in range(F)]).astype(float)
    low, high = np.minimum(ends[:, 0], ends[:, 1]), np.maximum(ends[:, 0], ends[:, 1])  # (F, B, V)
    low[:, 0], high[:, 1] = -np.inf, np.inf
    low[:, 2], high[:, 2] = -np.inf, np.inf
    low[:, 3], high[:, 3] = high[:, 3] + 1, low[:, 3]
    expected = []
    for fold, params in enumerate(folds.params):
        if case.shares is not None:
            shares = case.shares(layer, params, low[fold], high[fold])
        else:
            kinds = case.distributions(layer, params)
            shares = np.stack([_share(kind, low[fold, :, 0], high[fold, :, 0]) for kind in kinds], axis=1)
        expected.append(np.asarray(shares, float) * np.asarray(case.totals(layer, params), float))
    for semiring in REAL:
        found = folds.values(semiring, case.row.interval, low, high)
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-9, atol=1e-13)


def check_states(case: InputCase) -> None:
    """The values at all states are those of the body at each."""
    layer = input_layer(case)
    folds, count = Folds(layer), layer.domain.num_states
    states = np.broadcast_to(np.arange(count), (F, count))[:, :, None].astype(float)
    for semiring in carriers(case, REAL):
        close(folds.values(semiring, case.row.states), folds.values(semiring, case.row.body, states))


def check_padding(case: InputCase) -> None:
    """Layers of other lengths of their parameters have one key for folding; the circuits below fold them."""
    layer = input_layer(case)
    assert bool(case.row.padding) == bool(layer.padded), "the row pads what the class does not name, or the reverse"
    assert all(name in case.row.padding for name in layer.padded), "nothing is said to fill them up"
    assert bool(padded_lengths(layer)) == bool(case.alike), "the case has no other builders for what is padded"
    others = [build(range(case.num_variables), UNITS) for build in case.alike]
    assert all(own_settings_of(other) == own_settings_of(layer) for other in others)


def check_distribution(case: InputCase) -> None:
    """By name, it makes the layer of the row, with factories for the parameters that it lists."""
    distribution = case.row.distribution
    layer = distribution.layer(Scope([0]), UNITS, **distribution.settings_for(3))
    assert type(layer) is case.row.layer
    assert layer.domain == distribution.domain(3)
    for name in distribution.parameters:
        asked: list[Any] = []

        def factory(shape: Any, asked: list[Any] = asked) -> Any:
            asked.append(shape)
            return normal(shape)

        made = distribution.layer(Scope([0]), UNITS, **distribution.settings_for(3), **{f"{name}_factory": factory})
        assert asked == [made.params[name].shape]


# Inner layers.


def check_inner_body(case: InnerCase) -> None:
    """The value from those of the inputs, in every semiring, for folds."""
    layer = case.build()
    folds, rng = Folds(layer), np.random.default_rng(4)
    inputs = [rng.uniform(0.1, 1, (F, B, width)) for width in layer.input_widths]
    for semiring in SEMIRINGS.values():
        space = SPACES[semiring.algebra.name]
        expected = [
            case.reference(space, layer, params, [space.from_linear(one[fold].astype(WIDE)) for one in inputs])
            for fold, params in enumerate(folds.params)
        ]

        def rule(params: Any, *arrays: Any, semiring: Any = semiring) -> Any:
            values = [semiring.from_linear(xp, array) for array in arrays]
            return semiring.to_linear(xp, case.row.body(xp, semiring, layer, params, values))

        close(folds.run(rule, *inputs, batched=dict.fromkeys(range(layer.arity), 1)), np.stack(expected))


def check_route(case: InnerCase) -> None:
    """A unit of a product is the product of the units that its route names."""
    layer, rng = case.build(), np.random.default_rng(5)
    inputs = [rng.uniform(size=(1, width)) for width in layer.input_widths]
    values = case.reference(LINEAR, layer, {}, inputs)[0]
    units = np.arange(layer.num_output_units)[None]
    routes = run_rule(lambda chosen: case.row.route(xp, layer, chosen), units)
    routes = routes if isinstance(routes, tuple) else (routes,)
    assert len(routes) == layer.arity
    close(np.prod([one[0][route[0]] for one, route in zip(inputs, routes, strict=True)], axis=0), values)


def check_choose(case: InnerCase) -> None:
    """The terms that a sum chooses among add up to it."""
    layer = case.build()
    folds, rng = Folds(layer), np.random.default_rng(6)
    inputs = [rng.uniform(size=(1, width)) for width in layer.input_widths]
    units = np.concatenate(inputs, axis=1)[0]
    logs = folds.run(lambda params: case.row.choose.log_weights(xp, layer, params))
    reads = np.broadcast_to(case.row.choose.reads(layer), logs.shape[1:])
    for fold in range(F):
        expected = case.reference(LINEAR, layer, folds.params[fold], [one.astype(WIDE) for one in inputs])[0]
        close((np.exp(logs[fold]) * units[reads]).sum(axis=1), expected)


def check_increasing(case: InputCase) -> None:
    """Constants that are one number in float32 are refused there, and taken in float64."""
    layer = input_layer(case)
    params = {name: layer.params[name] for name in case.row.increasing}
    if not params:
        return
    steps = iter(1e9 + np.arange(1e3))
    numbers = {name: [float(next(steps)) for _ in range(one.shape[-1])] for name, one in params.items()}
    given = {name: ConstantParameter(len(one), value=one) for name, one in numbers.items()}
    other = type(layer)(**layer.config, **{**layer.params, **given})
    circuit = Circuit([other], {}, [other])
    TorchCompiler(dtype="float64").compile(circuit)
    with pytest.raises(InputError, match=f"its {' and '.join(params)} have 1000000000.0 and .*one number in float32"):
        TorchCompiler(dtype="float32").compile(circuit)


def check_closed_form(case: InputCase) -> None:
    """No numbers near those of the column make weighted rows more likely; missing rows do not count."""
    layer, rng = input_layer(case), np.random.default_rng(9)
    folds, form = Folds(layer), case.row.closed_form
    x = np.stack([case.draw(layer, rng, 4 * B) for _ in range(F)]).astype(float)
    flows, missing = rng.random((F, 4 * B, UNITS)), np.zeros(x.shape, bool)
    missing[:, 0] = True
    if form.expected is None:
        chosen = (x == np.arange(num_states(layer) or 0)) & ~missing  # (F, B, C)
        statistics = {"states": torch.from_numpy(np.swapaxes(flows, 1, 2) @ chosen)}
    else:
        params = Params.of(eager, {name: torch.from_numpy(array) for name, array in folds.stacked.items()})
        rows = (torch.from_numpy(array) for array in (np.where(missing, 0.0, x), missing, flows))
        statistics = form.expected(eager, layer, params, *rows)
    best = {name: array.numpy() for name, array in form.maximum(torch, layer, statistics, 0.0).items()}
    elsewhere = {name: array.to("meta") for name, array in statistics.items()}
    assert {array.device.type for array in form.maximum(torch, layer, elsewhere, 1.0).values()} == {"meta"}
    learned = [name for name in form.names if name in folds.params[0]]
    assert learned, "a parameter of the layer has a closed form"
    x[missing] = np.nan
    for fold, given in enumerate(folds.params):

        def likelihood(numbers: Mapping[str, Array], fold: int = fold, given: Any = given) -> Any:
            params = {**given, **{name: array.astype(WIDE) for name, array in numbers.items()}}
            totals = case.reference(LOG, layer, params, np.full_like(x[fold], np.nan, dtype=WIDE))
            return (flows[fold] * (case.reference(LOG, layer, params, x[fold].astype(WIDE)) - totals)).sum()

        found = {name: best[name][fold] for name in learned}
        most = likelihood(found)
        assert most >= likelihood({name: given[name] for name in learned})
        for _ in range(10):
            near = {name: array * (1 + 0.01 * rng.normal(size=array.shape)) for name, array in found.items()}
            assert not likelihood(near) > most + 1e-9, "numbers that are not allowed give NaN, and are not better"


# For each kind of row, what checks each of its columns; None where there is nothing to compute.
COLUMNS: dict[type, dict[str, Callable[[Any], None] | None]] = {
    InputRow: {
        "layer": None,
        "body": check_input_body,
        "marginal": check_marginal,
        "sample": check_sample,
        "padding": check_padding,
        "mode": check_mode,
        "maximum": check_maximum,
        "partial": check_partial,
        "partial_maximum": check_partial_maximum,
        "conditional": check_conditional,
        "distribution": check_distribution,
        "mean": check_mean,
        "variance": check_variance,
        "covariance": check_covariance,
        "interval": check_interval,
        "normal": check_normal,
        "states": check_states,
        "increasing": check_increasing,
        "closed_form": check_closed_form,
    },
    SumRow: {"layer": None, "body": check_inner_body, "choose": check_choose},
    ProductRow: {"layer": None, "body": check_inner_body, "route": check_route},
    FusedRow: {"layer": None, "body": check_inner_body, "route": None},
}
