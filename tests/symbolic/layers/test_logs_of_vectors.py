"""Normal vectors of which some entries are logarithms of variables: beside SciPy, numerical integrals and searches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import plica
import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.learn import FullEM, fit
from plica.queries import covariance, mean, mpe, posterior, quantile, sample, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, HadamardLayer, MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.semirings import SEMIRINGS, Params
from tests.harness.learned_circuits import evaluated, leaf
from tests.harness.native_circuits import native_file
from tests.harness.operator_rules import applied

Array = Any
LOG = SEMIRINGS["lse-sum"]
LOGS = np.array([True, False, True])
MEAN = np.array([[0.5, -1.0, 1.0], [0.0, 1.0, -0.5]])
FACTOR = np.array([[[0.5, 0, 0], [0.5, 0.3, 0], [-0.7, 0.3, 0.4]], [[0.3, 0, 0], [-0.3, 0.2, 0], [0.1, 0.2, 0.7]]])
WEIGHT = np.array([0.3, 0.7])
EDGES = np.array(
    [
        [0.0, 1.0, 1.0],
        [-0.0, 1.0, 1.0],
        [-3.0, 1.0, 1.0],
        [1.0, 1.0, -1e-30],
        [np.inf, 1.0, 1.0],
        [-np.inf, 1.0, 1.0],
        [1.0, -np.inf, 1.0],
    ]
)


def constant(value: Any) -> Parameter:
    return Parameter.from_input(ConstantParameter(*np.shape(value), value=np.asarray(value)))


def vectors(**settings: Any) -> MultivariateGaussianLayer:
    given = {"mean": constant(MEAN), "scale_tril": constant(FACTOR), "logs": LOGS.tolist()} | settings
    return MultivariateGaussianLayer([0, 1, 2], 2, **given)


def mixture(*layers: Any) -> Circuit:
    """The average of mixtures of two units."""
    sums = {SumLayer(2, 1, weight=constant(WEIGHT[None])): layer for layer in layers}
    average = SumLayer(1, 1, len(sums), weight=constant(np.full((1, len(sums)), 1 / len(sums))))
    edges: dict[Any, list[Any]] = {one: [layer] for one, layer in sums.items()}
    return Circuit([*layers, *sums, average], {**edges, average: list(sums)}, [average])


def compiled(circuit: Circuit, dtype: str = "float64") -> Any:
    return TorchCompiler(dtype=dtype).compile(circuit)


def log_densities(x: Array, marked: Array = LOGS) -> Array:
    """The log-density of what is known of a row, by unit."""
    known = ~np.isnan(x)
    if np.isinf(x).any() or (x[known & marked] <= 0).any():
        return np.full(2, -np.inf)
    z = np.where(known & marked, np.log(np.where(known & marked, x, 1)), x)
    covariances = FACTOR @ FACTOR.transpose(0, 2, 1)
    return np.array(
        [
            stats.multivariate_normal(one[known], spread[np.ix_(known, known)]).logpdf(z[known])
            - z[known & marked].sum()
            if known.any()
            else 0.0
            for one, spread in zip(MEAN, covariances, strict=True)
        ]
    )


def rows(number: int = 8, seed: int = 0) -> Array:
    """Rows with each pattern of holes."""
    z = np.random.default_rng(seed).normal(size=(number, 3))
    x = np.where(LOGS, np.exp(z), z)
    masks = np.array(np.meshgrid(*[[False, True]] * 3)).reshape(3, -1).T
    return np.where(np.resize(masks, x.shape), np.nan, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_mask_of_a_row_gives_the_marginal_density_of_the_rest(dtype: str) -> None:
    x = np.concatenate([rows(), EDGES])
    x[-1, 0] = np.nan
    answers = compiled(mixture(vectors()), dtype)(torch.tensor(x))[:, 0, 0].double().detach().numpy()
    expected = [np.logaddexp.reduce(np.log(WEIGHT) + log_densities(row)) for row in x]
    np.testing.assert_allclose(answers, expected, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-6)
    assert np.isneginf(answers[8:]).all()


def test_tiny_and_huge_values_have_the_density_of_their_logarithms() -> None:
    x = np.array([[1e-300, 1.0, 1e300], [5e-324, 0.0, np.nan], [1e300, np.nan, 1e-10]])
    answers = compiled(mixture(vectors()))(torch.tensor(x))[:, 0, 0].detach().numpy()
    expected = [np.logaddexp.reduce(np.log(WEIGHT) + log_densities(row)) for row in x]
    np.testing.assert_allclose(answers, expected, rtol=1e-9)


def rule(column: str, *arrays: Any, layer: Any = None) -> Any:
    """A column of the row as a function of the parameters."""
    layer = layer or vectors()

    def apply(location: Any, factor: Any) -> Any:
        params = Params.of(pnp, {"mean": location, "scale_tril": factor})
        row: Any = LAYER_ROWS[MultivariateGaussianLayer]
        if column in ("mean", "variance", "covariance", "mode"):
            return getattr(row, column)(pnp, layer, params)
        return LOG.to_log(pnp, getattr(row, column)(pnp, LOG, layer, params, *arrays))

    return apply


@pytest.mark.full
def test_derivatives_are_limits_of_differences() -> None:
    leaves = [torch.tensor(one[None], requires_grad=True) for one in (MEAN, FACTOR)]
    z = np.random.default_rng(0).normal(size=(1, 5, 3))
    x = torch.tensor(np.where(LOGS, np.exp(z), z), requires_grad=True)
    missing = torch.tensor(np.random.default_rng(1).random((1, 5, 3)) < 0.5)
    for column, arrays in (("body", (x,)), ("partial", (x, missing)), ("partial_maximum", (x, missing))):
        assert torch.autograd.gradcheck(
            lambda mean, factor, x, column=column, arrays=arrays: rule(column, x, *arrays[1:])(mean, factor),
            [*leaves, x],
        )
    for column in ("maximum", "mode", "mean", "variance", "covariance"):
        assert torch.autograd.gradcheck(rule(column), leaves)
    assert torch.autograd.gradgradcheck(rule("partial", x.detach(), missing), leaves, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values_that_cannot_be_have_derivatives_of_zero(dtype: torch.dtype) -> None:
    leaves = [torch.tensor(one[None], dtype=dtype, requires_grad=True) for one in (MEAN, FACTOR)]
    x = torch.tensor(EDGES[None], dtype=dtype, requires_grad=True)
    known = torch.zeros(x.shape, dtype=torch.bool)
    for column, arrays in (("body", ()), ("partial", (known,)), ("partial_maximum", (known,))):
        answers = rule(column, x, *arrays)(*leaves)
        assert answers.isneginf().all()
        for slope in torch.autograd.grad(answers.sum(), [x, *leaves]):
            assert not slope.any()
    hidden = torch.ones(x.shape, dtype=torch.bool)  # what is in place of missing entries is not read
    assert rule("partial", x, hidden)(*leaves).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nothing_overflows_to_infinity(dtype: torch.dtype) -> None:
    scale = torch.tensor([[[1.0]], [[30.0]], [[1e4]], [[1e4]]], dtype=dtype)
    location = torch.tensor([0.0, 900.0, -2000.0, 2000.0], dtype=dtype)[:, None].expand(4, 3)
    factor = scale * torch.tensor(FACTOR[0], dtype=dtype)
    leaves = [one[None].clone().requires_grad_() for one in (location, factor)]
    layer = MultivariateGaussianLayer([0, 1, 2], 4, logs=LOGS.tolist())
    missing = torch.tensor([[[True, True, True], [True, False, False], [False, True, True]]])
    x = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 1e5, 1e30], [1e-30, 0.0, 0.0]]], dtype=dtype)
    columns = [(name, ()) for name in ("mean", "variance", "covariance", "mode", "maximum")]
    for column, arrays in [*columns, ("partial_maximum", (x, missing)), ("partial", (x, missing))]:
        answers = rule(column, *arrays, layer=layer)(*leaves)
        assert answers.isfinite().all(), column
        for slope in torch.autograd.grad(answers.sum(), leaves, allow_unused=True):
            assert slope is None or not slope.isnan().any(), column
    wide = layer.with_params(
        {name: constant(one.detach()[0].numpy()) for name, one in zip(layer.params, leaves, strict=True)}
    )
    mix = SumLayer(4, 1, weight=constant(np.full((1, 4), 0.25)))
    drawn = sample(compiled(Circuit([wide, mix], {mix: [wide]}, [mix]), str(dtype).split(".")[1]), 200, seed=0)
    assert drawn.isfinite().all()
    assert (drawn[:, LOGS] > 0).all()


def marginal(variable: int, marked: bool) -> list[Any]:
    """SciPy's distribution of a variable under each unit."""
    spread = np.sqrt((FACTOR**2).sum(-1))[:, variable]
    centre = MEAN[:, variable]
    return [
        stats.lognorm(s, scale=np.exp(m)) if marked else stats.norm(m, s) for m, s in zip(centre, spread, strict=True)
    ]


def test_totals_and_moments_are_integrals_of_the_density() -> None:
    model = compiled(mixture(vectors(), vectors(logs=None)))
    points, weights = np.polynomial.legendre.leggauss(80)
    ends = np.array([-6.0, -2.0, 0.0, 0.2, 0.6, 1.0, 2.0, 4.0, 20.0, 100.0])
    half = (np.diff(ends) / 2)[:, None]
    x = (ends[:-1, None] + half * (1 + points)).ravel()
    rows_of_one = torch.tensor(np.stack([x, *np.full((2, len(x)), np.nan)], axis=1))
    density = model(rows_of_one)[:, 0, 0].detach().exp().numpy() * (half * weights).ravel()
    first, second = (density * x).sum(), (density * x**2).sum()
    np.testing.assert_allclose(density.sum(), 1.0, rtol=1e-7)
    nothing = torch.full((1, 3), torch.nan, dtype=torch.float64)
    np.testing.assert_allclose(float(mean(model, nothing)[0, 0]), first, rtol=1e-7)
    np.testing.assert_allclose(float(variance(model, nothing)[0, 0]), second - first**2, rtol=1e-6)


def test_moments_given_others_are_those_of_samples() -> None:
    model = compiled(mixture(vectors(), vectors(logs=None)))
    given = torch.tensor([[torch.nan, 0.3, torch.nan], [1.2, torch.nan, torch.nan]], dtype=torch.float64)
    number = 40_000
    drawn = sample(model, number, given=given, seed=0).reshape(2, number, 3).numpy()
    spread = drawn.std(axis=1) / np.sqrt(number)
    assert (np.abs(drawn.mean(axis=1) - posterior(model, given).mean.numpy()) <= 4 * spread + 1e-9).all()
    pair = np.stack([np.cov(one[:, [0, 2]].T) for one in drawn])
    np.testing.assert_allclose(covariance(model, [0, 2], given).numpy(), pair, rtol=0.06, atol=1e-12)


def test_samples_have_the_distribution_of_the_variable() -> None:
    drawn = sample(compiled(mixture(vectors())), 5000, seed=1).numpy()
    assert (drawn[:, LOGS] > 0).all()
    for variable, marked in enumerate(LOGS):
        kinds = marginal(variable, bool(marked))
        test = stats.kstest(
            drawn[:, variable], lambda x, kinds=kinds: sum(w * k.cdf(x) for w, k in zip(WEIGHT, kinds, strict=True))
        )
        assert test.pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_of_mixtures_with_both_scales(dtype: str) -> None:
    model = compiled(mixture(vectors(), vectors(logs=None)), dtype)
    levels = np.array([1e-3, 0.02, 0.3, 0.5, 0.9, 0.999])
    answer = quantile(model, 0, levels).double().numpy()
    assert (answer < 0).any(), "the plain scale has numbers below 0"
    kinds = [*marginal(0, True), *marginal(0, False)]
    shares = sum(w * kind.cdf(answer) for w, kind in zip(np.tile(WEIGHT / 2, 2), kinds, strict=True))
    np.testing.assert_allclose(shares, levels, rtol=1e-4 if dtype == "float32" else 1e-10)
    positive = compiled(mixture(vectors()), dtype)
    tails = np.array([1e-12, 1e-5, 1 - 1e-5])
    answer = quantile(positive, 2, tails).double().numpy()
    shares = sum(w * kind.cdf(answer) for w, kind in zip(WEIGHT, marginal(2, True), strict=True))
    np.testing.assert_allclose(shares, tails, rtol=1e-3 if dtype == "float32" else 1e-9)


def test_quantiles_given_others_are_those_of_conditional_log_normals() -> None:
    x, covariances = np.array([np.nan, 0.2, np.nan]), FACTOR @ FACTOR.transpose(0, 2, 1)
    answer = float(quantile(compiled(mixture(vectors())), 0, 0.7, given=torch.tensor(x[None])))
    flows = WEIGHT * np.exp(log_densities(x))
    slope = covariances[:, 0, 1] / covariances[:, 1, 1]
    middle = MEAN[:, 0] + slope * (0.2 - MEAN[:, 1])
    spread = np.sqrt(covariances[:, 0, 0] - slope * covariances[:, 0, 1])
    share = (flows / flows.sum() * stats.norm.cdf((np.log(answer) - middle) / spread)).sum()
    np.testing.assert_allclose(share, 0.7, rtol=1e-12)


@pytest.mark.parametrize("x", [[np.nan] * 3, [1.7, np.nan, np.nan], [np.nan, 0.4, np.nan], [np.nan, np.nan, 0.2]])
def test_modes_are_the_largest_densities_that_a_search_finds(x: list[float]) -> None:
    row = np.array(x)
    hidden = np.isnan(row)
    layer = MultivariateGaussianLayer(
        [0, 1, 2], 1, mean=constant(MEAN[:1]), scale_tril=constant(FACTOR[:1]), logs=LOGS.tolist()
    )
    completed, values = mpe(compiled(Circuit([layer], {}, [layer])), torch.tensor(row[None]))

    def loss(z: Array) -> float:
        whole = row.copy()
        whole[hidden] = np.where(LOGS[hidden], np.exp(np.where(LOGS[hidden], z, 0)), z)
        return -float(log_densities(whole)[0])

    best = optimize.minimize(
        loss, np.zeros(hidden.sum()), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}
    )
    found = np.where(LOGS[hidden], np.exp(np.where(LOGS[hidden], best.x, 0)), best.x)
    np.testing.assert_allclose(completed[0, hidden].numpy(), found, rtol=1e-4)
    np.testing.assert_allclose(float(values), -best.fun, rtol=1e-8)
    np.testing.assert_allclose(float(values), float(log_densities(completed[0].numpy())[0]), rtol=1e-10)


def learned(logs: Any, x: Array, epochs: int, pseudocount: float) -> tuple[Any, list[float]]:
    layer, mix = MultivariateGaussianLayer([0, 1, 2], 3, logs=logs, steps=[0.0, 0.0, 0.5]), SumLayer(3, 1)
    model = plica.compile(Circuit([layer, mix], {mix: [layer]}, [mix])).double()
    model.reset_parameters(seed=0)
    data, scores = torch.tensor(x), []
    for _ in range(epochs):
        scores.append(float(model(data).sum().detach()))
        fit(model, x, learner=FullEM(pseudocount=pseudocount), epochs=1)
    values = evaluated(model.symbolic, {key: value.numpy() for key, value in model.state_dict().items()})
    return values[layer] | values[mix], [*scores, float(model(data).sum().detach())]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pseudocount", [0.0, 1.0])
def test_expectation_maximization_is_that_of_the_logarithms(pseudocount: float) -> None:
    x = rows(64, seed=3)
    logs = np.where(LOGS, np.log(np.where(LOGS, x, 1)), x)
    own, scores = learned(LOGS.tolist(), x, 4, pseudocount)
    plain, plain_scores = learned(None, logs, 4, pseudocount)
    for name, value in own.items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scores, np.array(plain_scores) - np.nansum(logs[:, LOGS]), rtol=1e-10)
    if not pseudocount:
        assert (np.diff(scores) > 0).all()


def test_a_row_that_one_of_two_members_cannot_have_teaches_the_other_alone() -> None:
    x = rows(64, seed=3)
    with_zero = np.concatenate([x, [[0.0, 1.0, 2.0], [-1.0, np.nan, np.nan]]])
    tables = []
    for data in (x, with_zero):
        layers = [MultivariateGaussianLayer([0, 1, 2], 2, logs=logs) for logs in (None, LOGS.tolist())]
        sums = [SumLayer(2, 1) for _ in layers]
        average = SumLayer(1, 1, 2, weight=constant([[0.5, 0.5]]))
        edges: dict[Any, list[Any]] = {one: [layer] for one, layer in zip(sums, layers, strict=True)}
        model = plica.compile(Circuit([*layers, *sums, average], {**edges, average: list(sums)}, [average])).double()
        model.reset_parameters(seed=0)
        fit(model, data, learner=FullEM(apart=True, pseudocount=1.0), epochs=2)
        values = evaluated(model.symbolic, {key: value.numpy() for key, value in model.state_dict().items()})
        assert torch.isfinite(model(torch.tensor(with_zero))).all()
        tables.append([values[layer]["mean"] for layer in layers])
    assert np.isfinite(tables[1]).all()
    assert np.abs(tables[0][0] - tables[1][0]).max() > 1e-3
    np.testing.assert_allclose(tables[0][1], tables[1][1], rtol=1e-12)


def test_leaves_that_layers_of_two_scales_share_have_no_closed_form() -> None:
    first = MultivariateGaussianLayer([0, 1], 2, mean=leaf(MEAN[:, :2]), scale_tril=leaf(FACTOR[:, :2, :2]))
    second = MultivariateGaussianLayer(
        [2, 3], 2, logs=[True, False], mean=first.mean.ref(), scale_tril=first.scale_tril.ref()
    )
    product, mix = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = Circuit([first, second, product, mix], {product: [first, second], mix: [product]}, [mix])
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=0)
    x = np.exp(np.random.default_rng(0).normal(size=(30, 4)))
    before = float(model(torch.tensor(x)).sum().detach())
    fit(model, x, learner=FullEM(), epochs=3)  # these leaves learn by gradients
    assert float(model(torch.tensor(x)).sum().detach()) > before


def test_files_keep_the_scale(tmp_path: Path) -> None:
    circuit = mixture(vectors(steps=[0.0, 1.0, 0.1]))
    save_model(tmp_path / "model.plica", circuit, {}, {})
    (loaded,) = load_model(tmp_path / "model.plica").circuit.input_layers
    assert (loaded.config["logs"], loaded.config["steps"]) == ((True, False, True), (0.0, 1.0, 0.1))


@pytest.mark.full
def test_native_files_score_as_torch(tmp_path: Path) -> None:
    model = compiled(mixture(vectors()), "float32")
    x = np.concatenate([rows(), EDGES]).astype("float32")
    x[-1, 0] = np.nan
    with native_file(tmp_path / "circuits.plicab", {"model": model}, ("log-likelihood",)) as module:
        with torch.no_grad():
            expected = model(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(module.model_log_likelihood(x), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.full
def test_native_files_complete_and_draw_as_torch(tmp_path: Path) -> None:
    model = compiled(mixture(vectors(), vectors(logs=None)), "float32")
    x = rows().astype("float32")
    with native_file(tmp_path / "circuits.plicab", {"model": model}, ("mpe", "conditional-sample")) as module:
        np.testing.assert_allclose(module.model_mpe(x)[0], mpe(model, torch.from_numpy(x))[0], rtol=2e-6)
        given = torch.from_numpy(x[[3]])
        drawn = module.model_conditional_sample(np.tile(x[[3]], (4000, 1)), seed=0)[0]
        torch_drawn = sample(model, 4000, given=given, seed=0).reshape(4000, 3).numpy()
        for variable in np.flatnonzero(np.isnan(x[3])):
            assert stats.ks_2samp(drawn[:, variable], torch_drawn[:, variable]).pvalue > 1e-3


def test_layers_of_different_scales_do_not_fold() -> None:
    keys = {vectors(logs=logs).fold_settings() for logs in (None, [True, False, True], [True, True, True])}
    assert len(keys) == 3
    assert vectors(logs=[False] * 3).logs is None
    assert vectors(logs=[False] * 3).fold_settings() in keys


def test_products_are_refused_by_name() -> None:
    for pair in ((vectors(), vectors()), (vectors(), vectors(logs=None)), (vectors(logs=None), vectors())):
        with pytest.raises(UnsupportedError, match=r"a variable is on a logarithmic scale.*take layers without logs"):
            applied("multiply", *pair)


@pytest.mark.parametrize(
    ("logs", "error", "message"),
    [
        ([True], ShapeError, "logs has 1 entries, expected one for each of 3 variables"),
        ([True, 0.5, False], DTypeError, "an entry of logs must be True or False"),
        (True, DTypeError, "logs must be a sequence"),
    ],
)
def test_logs_that_are_none_are_refused(logs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        vectors(logs=logs)
