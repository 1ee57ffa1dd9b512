"""Samples of single input layers with extreme parameters, against SciPy's distributions."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    BinomialLayer,
    CategoricalLayer,
    ExponentialLayer,
    GammaLayer,
    GaussianLayer,
    GeometricLayer,
    HistogramLayer,
    InputLayer,
    LaplaceLayer,
    LogNormalLayer,
    NegativeBinomialLayer,
    PoissonLayer,
    RoundedLogisticLayer,
    StudentTLayer,
    UniformLayer,
    VonMisesLayer,
)
from plica.symbolic.parameters import ConstantParameter

COUNT, LEVEL = 4000, 1e-4
SHARES, EDGES = np.array([1e-9, 1.0, 0.0, 1e3]), np.array([-1.0, 0.0, 1e-3, 4.0, 1e3])
MANY = np.random.default_rng(0).normal(size=3000) * 3


def one(value: float) -> ConstantParameter:
    return ConstantParameter(1, value=[value])


def unit(layer: Any, **values: float) -> InputLayer:
    settings = {name: values.pop(name) for name in ("total_count",) if layer is BinomialLayer}
    return layer([0], 1, **settings, **{name: one(value) for name, value in values.items()})


def many_states() -> InputLayer:
    return CategoricalLayer([0], 1, num_categories=len(MANY), logits=ConstantParameter(1, len(MANY), value=MANY[None]))


def bins() -> InputLayer:
    return HistogramLayer([0], 1, edges=EDGES, probs=ConstantParameter(1, 4, value=SHARES[None]))


def rounded_logistic(loc: float, scale: float) -> Any:
    numbers = np.arange(-int(40 * scale) - 2, int(40 * scale) + 3)
    masses = np.diff(stats.logistic(loc, scale).cdf(np.append(numbers - 0.5, np.inf)))
    return stats.rv_discrete(values=(numbers, masses / masses.sum()))


CASES: tuple[tuple[InputLayer, Any], ...] = (
    *((unit(BernoulliLayer, probs=p), stats.bernoulli(p)) for p in (1e-3, 0.999, 0.0, 1.0)),
    *(
        (unit(BinomialLayer, total_count=n, probs=p), stats.binom(n, p))
        for n in (1000, 1_000_000)
        for p in (1e-7, 0.3, 1 - 2.0**-20)
    ),
    *((unit(GeometricLayer, probs=p), stats.geom(p, -1)) for p in (1e-6, 0.999, 1 - 2.0**-20)),
    *((unit(PoissonLayer, rate=r), stats.poisson(r)) for r in (1e-3, 1e6)),
    *(
        (unit(NegativeBinomialLayer, total_count=r, probs=p), stats.nbinom(r, p))
        for r in (0.5, 1e6)
        for p in (1e-4, 0.75)
    ),
    *((unit(RoundedLogisticLayer, loc=0.25, scale=s), rounded_logistic(0.25, s)) for s in (0.1, 20.0)),
    *((unit(GaussianLayer, mean=0.0, stddev=s), stats.norm(0, s)) for s in (1e-6, 1e6)),
    *((unit(LaplaceLayer, loc=0.0, scale=s), stats.laplace(0, s)) for s in (1e-6, 1e6)),
    *((unit(StudentTLayer, df=d, loc=0.0, scale=1e6), stats.t(d, 0, 1e6)) for d in (0.1, 0.5, 1e6, 1e12)),
    *((unit(ExponentialLayer, rate=r), stats.expon(scale=1 / r)) for r in (1e-6, 1e6)),
    *((unit(GammaLayer, concentration=a, rate=1e6), stats.gamma(a, scale=1e-6)) for a in (0.1, 1e6)),
    *((unit(BetaLayer, alpha=a, beta=b), stats.beta(a, b)) for a, b in ((0.1, 1.0), (1.0, 1e6), (1e4, 1e6))),
    (unit(LogNormalLayer, loc=0.5, scale=20.0), stats.lognorm(20, scale=np.exp(0.5))),
    *((unit(VonMisesLayer, loc=0.0, concentration=k), stats.vonmises(k)) for k in (1e-6, 1e3)),
    (UniformLayer([0], 1, low=-1e6, high=1e6), stats.uniform(-1e6, 2e6)),
    (many_states(), stats.rv_discrete(values=(np.arange(len(MANY)), np.exp(MANY) / np.exp(MANY).sum()))),
    (bins(), stats.rv_histogram((SHARES, EDGES), density=False)),
)
DTYPES = ("float32", "float64")
USUAL = [
    pytest.param(place, dtype, marks=() if place % 4 == 0 and dtype == "float32" else pytest.mark.full)
    for place in range(len(CASES))
    for dtype in DTYPES
]


def of_cells(drawn: Any, wanted: Any) -> float:
    """The p-value of counts in cells of about equal probability."""
    ends = np.unique(wanted.ppf(np.linspace(0.05, 0.95, 19)))
    expected = COUNT * np.diff([0.0, *wanted.cdf(ends[:-1]), 1.0])  # the last cell has what is above
    found = np.bincount(np.searchsorted(ends[:-1], drawn), minlength=len(ends))
    assert not found[expected < 1e-9].any(), "a state of probability zero was drawn"
    rare = expected < 5
    assert (found[rare] <= expected[rare] + 20).all()
    some = ~rare
    if some.sum() < 2:
        return 1.0
    return float(stats.chi2.sf(((found[some] - expected[some]) ** 2 / expected[some]).sum(), some.sum() - 1))


@pytest.mark.parametrize(("place", "dtype"), USUAL)
def test_samples_follow_their_distribution(place: int, dtype: str) -> None:
    layer, wanted = CASES[place]
    compiled = TorchCompiler(dtype=dtype).compile(Circuit([layer], {}, [layer]))
    rows = sample(compiled, COUNT, seed=place)
    with torch.no_grad():
        assert compiled(rows).isfinite().all(), "samples lie in the support"
    drawn = rows.numpy().ravel().astype(float)
    found = of_cells(drawn, wanted) if layer.domain.whole else stats.kstest(drawn, wanted.cdf).pvalue
    assert found > LEVEL
