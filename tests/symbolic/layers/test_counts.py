"""Layers of counts and states where numbers are large, small or impossible; elsewhere their cases test them."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import cdf, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    BernoulliLayer,
    BinomialLayer,
    DiscretizedLogisticLayer,
    GeometricLayer,
    HistogramLayer,
    InputLayer,
    NegativeBinomialLayer,
    PoissonLayer,
    UniformLayer,
    histogram_edges,
)
from plica.symbolic.layers.binomial import MOST_TABLED
from plica.symbolic.layers.trials import evaluated_successes
from plica.symbolic.parameters import Parameter, SigmoidParameter, TensorParameter
from plica.symbolic.semirings import SEMIRINGS, Params
from plica.tracing import namespace as xp
from tests.harness.run_rule import run_rule

LN_TWO_PI = Decimal("1.8378770664093454835606594728112352797228")
LARGE = (1_000, 1_000_000, 1_000_000_000)


def learned(values: Any) -> Parameter:
    array = np.asarray(values, float)
    return Parameter.from_input(TensorParameter(*array.shape, initializer=ConstantTensorInitializer(array)))


def compiled_layer(layer: InputLayer, dtype: torch.dtype) -> Any:
    return TorchCompiler(dtype=dtype).compile(Circuit([layer], {}, [layer]))


def log_gamma(z: Decimal) -> Decimal:
    """By Stirling's series, of numbers so large that three terms are more than float64 holds."""
    assert z >= 800
    return (z - Decimal("0.5")) * z.ln() - z + LN_TWO_PI / 2 + 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5)


def log_poisson(x: int, rate: float) -> float:
    with localcontext(prec=40):
        return float(x * Decimal(rate).ln() - Decimal(rate) - log_gamma(Decimal(x + 1)))


def log_binomial(x: int, total: int, p: float) -> float:
    with localcontext(prec=40):
        ways = log_gamma(Decimal(total + 1)) - log_gamma(Decimal(x + 1)) - log_gamma(Decimal(total - x + 1))
        return float(ways + x * Decimal(p).ln() + (total - x) * (1 - Decimal(p)).ln())


def log_negative_binomial(x: int, total: float, p: float) -> float:
    with localcontext(prec=40):
        ways = log_gamma(Decimal(x) + Decimal(total)) - log_gamma(Decimal(x + 1)) - log_gamma(Decimal(total))
        return float(ways + Decimal(total) * Decimal(p).ln() + x * (1 - Decimal(p)).ln())


def log_masses(layer: InputLayer, x: list[int], dtype: torch.dtype) -> Any:
    with torch.no_grad():
        return compiled_layer(layer, dtype)(torch.tensor(x)[:, None])[:, 0].double().numpy()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 4e-15), (torch.float32, 2e-6)], ids=str)
def test_masses_of_large_counts_are_right_to_rounding(dtype: torch.dtype, tolerance: float) -> None:
    """Far from the mean and at it, where terms of the size of 1e10 cancel to some units."""
    near = [count for large in LARGE for count in (large, large + int(2 * large**0.5), large - large // 8)]
    x = [int(np.float32(count)) for count in near]  # counts that float32 holds
    rates = [1000.0, 1e6, float(np.float32(1.1e9))]
    expected = np.array([[log_poisson(count, rate) for rate in rates] for count in x])
    found = log_masses(PoissonLayer([0], 3, rate=learned(rates)), x, dtype)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)

    total, shares = 2**31, [0.5, 2.0**-11, 2.0**-21]  # exact in both dtypes, and so are their complements
    expected = np.array([[log_binomial(count, total, share) for share in shares] for count in x])
    found = log_masses(BinomialLayer([0], 3, total_count=total, probs=learned(shares)), x, dtype)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)

    totals = [1024.0, 2.0**20, 2.0**30]
    expected = np.array(
        [[log_negative_binomial(count, one, share) for one, share in zip(totals, shares, strict=True)] for count in x]
    )
    layer = NegativeBinomialLayer([0], 3, total_count=learned(totals), probs=learned(shares))
    np.testing.assert_allclose(log_masses(layer, x, dtype), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("way", ["probs", "logits"])
@pytest.mark.parametrize("total", [1, 2, 9, 100, 255, 1000, MOST_TABLED])
def test_tables_of_binomials_are_right_to_their_bound(total: int, way: str) -> None:
    """2 eps (n + |log mass|), over all of a table, for probabilities from 1e-30 to 1 - 1e-6."""
    rng = np.random.default_rng(total)
    shares = np.concatenate([[1e-30, 1e-8, 1e-3, 0.5, 0.999], 1 - 2.0 ** np.arange(-20, -1), rng.uniform(size=9)])
    given = shares if way == "probs" else np.log(shares) - np.log1p(-shares)
    given = given.astype(np.float32).astype(float)
    x = sorted({*range(0, total + 1, max(1, total // 40)), total})
    settings: dict[str, Any] = {way: learned(given)}
    layer = BinomialLayer([0], len(given), total_count=total, **settings)
    with localcontext(prec=40):
        chances = [Decimal(one) if way == "probs" else 1 / (1 + (-Decimal(one)).exp()) for one in given.tolist()]
        logs = [(one.ln(), (1 - one).ln()) for one in chances]
        ways = [Decimal(math.comb(total, count)).ln() for count in x]
        expected = np.array(
            [[way + count * yes + (total - count) * no for yes, no in logs] for count, way in zip(x, ways, strict=True)]
        )
    for dtype in (torch.float64, torch.float32):
        found = log_masses(layer, x, dtype)
        errors = np.abs(np.vectorize(Decimal)(found) - expected).astype(float)
        assert (errors <= 2 * torch.finfo(dtype).eps * (total + np.abs(expected.astype(float)))).all()


def test_derivatives_of_large_counts() -> None:
    """d/dr of x log r - r - log x! is x / r - 1."""
    rates, x = np.array([1e3, 1e6, 1e9]), np.array([990, 1_002_000, 1_000_000_100])
    compiled = compiled_layer(PoissonLayer([0], 3, rate=learned(rates)), torch.float64)
    compiled(torch.tensor(x)[:, None])[:, 0].diagonal().sum().backward()
    (rate,) = compiled.parameters()
    np.testing.assert_allclose(rate.grad[0].numpy(), x / rates - 1, rtol=1e-9)


def drawn(layer: InputLayer, params: dict[str, list[float]], units: int, uniforms: Any) -> Any:
    row: Any = LAYER_ROWS[type(layer)]
    arrays = [np.array([one]) for one in params.values()]
    chosen = np.tile(np.arange(units), len(uniforms))[None]
    found = run_rule(
        lambda chosen, u, *given: row.sample(
            xp, layer, Params.of(xp, dict(zip(params, given, strict=True))), chosen, u
        ),
        chosen,
        np.repeat(uniforms, units)[None, :, None],
        *arrays,
        batch_axis={0: 1, 1: 1},
    )
    assert found.dtype == np.int64
    return found.reshape(len(uniforms), units)


@pytest.mark.parametrize(
    ("layer", "params", "kinds"),
    [
        (
            PoissonLayer([0], 5),
            {"rate": [1e-3, 0.5, 20.0, 1e3, 1e6]},
            lambda params: [stats.poisson(rate) for rate in params["rate"]],
        ),
        (
            NegativeBinomialLayer([0], 4),
            {"total_count": [1e-3, 1.0, 30.0, 1e4], "logits": [0.0, -9.0, -1.0, 2.0]},
            lambda params: [
                stats.nbinom(total, 1 / (1 + np.exp(-logit)))
                for total, logit in zip(params["total_count"], params["logits"], strict=True)
            ],
        ),
        (
            BinomialLayer([0], 3, total_count=1_000_000),
            {"probs": [0.5, 1e-3, 0.999]},
            lambda params: [stats.binom(1_000_000, p) for p in params["probs"]],
        ),
        (
            GeometricLayer([0], 3),
            {"probs": [0.5, 1e-6, 1.0]},
            lambda params: [stats.geom(p, loc=-1) for p in params["probs"]],
        ),
    ],
    ids=["poisson", "negative binomial", "binomial", "geometric"],
)
def test_samples_are_exact_quantiles(
    layer: InputLayer, params: dict[str, list[float]], kinds: Callable[[Any], Any]
) -> None:
    """The least count whose distribution function exceeds the uniform number, in the tails too."""
    uniforms = np.concatenate([np.random.default_rng(0).uniform(size=30), [1e-9, 1 - 1e-9]])
    found = drawn(layer, params, layer.num_output_units, uniforms)
    for unit, kind in enumerate(kinds(params)):
        with np.errstate(divide="ignore"):
            expected = np.maximum(kind.ppf(uniforms), 0)
        np.testing.assert_array_equal(found[:, unit], expected)


RARE = {
    "binomial": (lambda how: BinomialLayer([0], 1, total_count=1_000_000, **how), lambda p: stats.binom(1e6, p)),
    "negative binomial": (
        lambda how: NegativeBinomialLayer([0], 1, total_count=learned([1e6]), **how),
        lambda p: stats.nbinom(1e6, 1 - p),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("way", ["logits", "probs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_of_many_trials(name: str, way: str, dtype: torch.dtype) -> None:
    """What is almost certain, of which float32 knows 1 and its neighbours, happens a million times."""
    make, distribution = RARE[name]
    p = 0.7e-7 if name == "binomial" else float(1 - np.float32(1 - 1.6e-7))
    sign = 1 if name == "binomial" else -1
    chance = p if sign > 0 else 1 - p
    given = sign * (np.log(p) - np.log1p(-p)) if way == "logits" else chance
    compiled = compiled_layer(make({way: learned([given])}), dtype)
    wanted = distribution(p)
    drawn = sample(compiled, 20_000, seed=1).numpy().ravel()
    counts = np.bincount(drawn, minlength=3)
    expected = 20_000 * np.array([wanted.pmf(0), wanted.pmf(1), wanted.sf(1)])
    assert stats.chisquare([*counts[:2], counts[2:].sum()], expected).pvalue > 1e-3
    found = cdf(compiled, torch.tensor([[0.0], [1.0]])).double().numpy()
    assert np.allclose(found, wanted.cdf([0, 1]), rtol=1e-6)


def test_a_uniform_number_of_0_draws_a_possible_count() -> None:
    found = drawn(PoissonLayer([0], 3), {"rate": [0.0, 3.0, 1e30]}, 3, np.array([0.0, 0.5]))
    assert found[:, 0].tolist() == [0, 0]
    assert found[0, 1] == 0
    assert (found >= 0).all()
    found = drawn(GeometricLayer([0], 2), {"probs": [1e-300, 0.5]}, 2, np.array([0.0, 0.5]))
    assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == [2**62, 1]  # as far as counts are drawn


EXTREMES: dict[str, tuple[InputLayer, list[float]]] = {
    "bernoulli logits": (BernoulliLayer([0], 2, logits=learned([-100, 100])), [0, 1]),
    "bernoulli probs": (BernoulliLayer([0], 2, probs=learned([0, 1])), [0, 1]),
    "geometric logits": (GeometricLayer([0], 2, logits=learned([-100, 100])), [0, 1, 10**9]),
    "geometric probs": (GeometricLayer([0], 2, probs=learned([0, 1])), [0, 1, 10**9]),
    "poisson": (PoissonLayer([0], 3, rate=learned([0, 1e-30, 1e30])), [0, 1, 10**6]),
    "binomial logits": (BinomialLayer([0], 2, total_count=9, logits=learned([-100, 100])), [0, 1, 9]),
    "binomial probs": (BinomialLayer([0], 2, total_count=9, probs=learned([0, 1])), [0, 1, 9]),
    "binomial of many": (BinomialLayer([0], 2, total_count=10**6, probs=learned([0, 1])), [0, 1, 10**6]),
    "negative binomial": (
        NegativeBinomialLayer([0], 3, total_count=learned([1e-30, 1, 1e30]), logits=learned([-100, 100, 100])),
        [0, 1, 10**9],
    ),
    "negative binomial probs": (
        NegativeBinomialLayer([0], 2, total_count=learned([1, 2]), probs=learned([0, 1])),
        [0, 1, 10**9],
    ),
    "discretized logistic": (
        DiscretizedLogisticLayer([0], 3, num_states=256, mean=learned([-1e5, 3, 7]), scale=learned([1, 1e-6, 1e30])),
        [0, 1, 255],
    ),
    "histogram": (HistogramLayer([0], 1, edges=[0, 1, 2], probs=learned([[0, 1]])), [0, 1, 2, -1, np.inf, -np.inf]),
    "uniform": (UniformLayer([0], 2, low=learned([0, 1]), high=learned([1e-6, 1e30])), [0, 1, -5, np.inf]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_have_values_and_finite_derivatives(name: str, dtype: torch.dtype) -> None:
    layer, values = EXTREMES[name]
    compiled = compiled_layer(layer, dtype)
    whole = layer.domain.whole
    found = compiled(torch.tensor(values, dtype=torch.int64 if whole else dtype)[:, None])
    assert not found.isnan().any()
    found.sum().backward()
    for parameter in compiled.parameters():
        assert parameter.grad.isfinite().all(), parameter.grad


def test_what_is_impossible_is_minus_infinity() -> None:
    """Probabilities of 0 and 1, and numbers outside; what is certain has the logarithm 0."""
    expected = {
        "bernoulli probs": [[0, -np.inf], [-np.inf, 0]],
        "binomial probs": [[0, -np.inf], [-np.inf, -np.inf], [-np.inf, 0]],
        "binomial of many": [[0, -np.inf], [-np.inf, -np.inf], [-np.inf, 0]],
        "geometric probs": [[-np.inf, 0], [-np.inf, -np.inf], [-np.inf, -np.inf]],
        "negative binomial probs": [[-np.inf, 0], [-np.inf, -np.inf], [-np.inf, -np.inf]],
        "histogram": [[-np.inf], [0], [0], [-np.inf], [-np.inf], [-np.inf]],
    }
    for name, logs in expected.items():
        layer, values = EXTREMES[name]
        with torch.no_grad():
            found = compiled_layer(layer, torch.float64)(torch.tensor(values, dtype=torch.float64)[:, None])
        assert found[:, 0].tolist() == logs, name


def test_logistic_densities_of_one_and_two_states_are_their_ends() -> None:
    one = DiscretizedLogisticLayer([0], 1, num_states=1, mean=learned([5.0]), scale=learned([0.5]))
    assert log_masses(one, [0], torch.float64).tolist() == [[0.0]]
    two = DiscretizedLogisticLayer([0], 1, num_states=2, mean=learned([0.5]), scale=learned([0.25]))
    assert log_masses(two, [0, 1], torch.float64).tolist() == [[np.log(0.5)]] * 2


def test_states_far_from_a_logistic_density_have_their_masses() -> None:
    """log(s(a) - s(b)) is about x / scale there, where both are 1 in any float."""
    layer = DiscretizedLogisticLayer([0], 1, num_states=1000, mean=learned([0.0]), scale=learned([0.5]))
    found = log_masses(layer, [500, 998, 999], torch.float32)[:, 0]
    with np.errstate(over="ignore"):
        width = np.log(-np.expm1(-2.0))
    np.testing.assert_allclose(found, [-999 + width, -1995 + width, -1997], rtol=1e-6)


def test_intervals_keep_their_digits_in_the_tails() -> None:
    """As logarithms, where 1 minus the distribution function is 0 in any float."""

    def interval(layer: InputLayer, low: float, high: float, **params: float) -> float:
        row: Any = LAYER_ROWS[type(layer)]
        found = run_rule(
            lambda low, high, *given: row.interval(
                xp, SEMIRINGS["lse-sum"], layer, Params.of(xp, dict(zip(params, given, strict=True))), low, high
            ),
            *(np.array([[[float(end)]]]) for end in (low, high)),
            *(np.array([[value]]) for value in params.values()),
        )
        return float(found.squeeze())

    inf = np.inf
    p = 0.25
    for low, high, counts in ((60, inf, range(60, 4000)), (60, 70, range(60, 71)), (-inf, 0, [0]), (1.5, 3.5, [2, 3])):
        expected = np.log(sum((1 - p) ** x * p for x in counts))
        assert interval(GeometricLayer([0], 1), low, high, probs=p) == pytest.approx(expected, rel=1e-12)
    assert interval(PoissonLayer([0], 1), 100, inf, rate=2.0) == pytest.approx(stats.poisson.logsf(99, 2.0), rel=1e-9)
    few = interval(PoissonLayer([0], 1), -inf, 3, rate=500.0)
    assert few == pytest.approx(stats.poisson.logcdf(3, 500.0), rel=1e-9)
    one = interval(PoissonLayer([0], 1), 1e6, 1e6, rate=1e6)
    assert one == pytest.approx(log_poisson(1_000_000, 1e6), rel=1e-13)
    far = interval(NegativeBinomialLayer([0], 1), 2000, inf, total_count=3.0, probs=0.5)
    assert far == pytest.approx(stats.nbinom.logsf(1999, 3.0, 0.5), rel=1e-9)
    far = interval(BinomialLayer([0], 1, total_count=5000), 2900, inf, probs=0.5)
    assert far == pytest.approx(stats.binom.logsf(2899, 5000, 0.5), rel=1e-9)


def test_probabilities_that_are_a_sigmoid_keep_both_logarithms() -> None:
    """The sigmoid of 50 is 1 in float32, whose complement would be impossible."""
    sigmoid = Parameter.from_unary(SigmoidParameter((2,)), learned([50.0, -50.0]))
    layer = BernoulliLayer([0], 2, probs=sigmoid)
    assert list(evaluated_successes(layer)) == ["logits"]
    assert list(evaluated_successes(layer.copyref())) == ["logits"]
    np.testing.assert_allclose(log_masses(layer, [0, 1], torch.float32), [[-50, 0], [0, -50]], atol=1e-20)


def test_edges_of_histograms_follow_data() -> None:
    values = np.array([3.0, 1.0, 1.0, np.nan, 2.0, 9.0])
    assert histogram_edges(values, 4).tolist() == [1, 3, 5, 7, 9]
    assert histogram_edges(values, 4, by="quantile").tolist() == [1, 2, 3, 9]  # two quantiles are 1
    assert histogram_edges([-0.6, 0.1], 2).tolist() == [-0.6, -0.25, 0.1]  # the largest value is in a bin
    assert histogram_edges([5.0, 5.0], 8).tolist() == [4.5, 5.5]
    low, high = histogram_edges([1e300], 2)
    assert low < 1e300 < high
