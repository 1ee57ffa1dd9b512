"""Quantiles of counts over the whole range of their parameters and levels, beside SciPy and sums of masses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import quantile
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import COUNTS
from plica.symbolic.layers import (
    LAYER_ROWS,
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    GeometricLayer,
    HadamardLayer,
    InputLayer,
    NegativeBinomialLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter
from tests.symbolic.layers.test_counts import learned, log_binomial, log_poisson

LEVELS = (1e-300, 1e-30, 1e-9, 1e-3, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9)
Tails = Callable[[int], tuple[float, float]]  # of a count: P(X <= x), P(X > x)


@dataclass(frozen=True)
class Law:
    """Units of a layer, and their tails.

    Args:
        layer: The layer.
        tails: Of each unit.
    """

    layer: InputLayer
    tails: tuple[Tails, ...]


def by_scipy(distribution: Any, *parameters: float, loc: int = 0) -> Tails:
    return lambda x: (float(distribution.cdf(x, *parameters, loc)), float(distribution.sf(x, *parameters, loc)))


def by_sums(log_mass: Callable[[int], float], ratio: Callable[[Any], Any], mean: float) -> Tails:
    """Tails by sums of masses outwards, each from the one before; `ratio(x)` is mass(x + 1) / mass(x)."""
    width = int(12 * mean**0.5)

    @cache
    def tails(x: int) -> tuple[float, float]:
        if abs(x - mean) > 4 * width:  # where masses underflow
            return (0.0, 1.0) if x < mean else (1.0, 0.0)
        if x < mean:
            below = np.exp(log_mass(x)) * (1 + np.cumprod(1 / ratio(x - 1.0 - np.arange(width))).sum())
            return below, 1 - below
        above = np.exp(log_mass(x)) * np.cumprod(ratio(x + np.arange(float(width)))).sum()
        return 1 - above, above

    return tails


def rounded(values: Any) -> list[float]:
    """Parameters that float32 has, too."""
    return [float(np.float32(value)) for value in values]


RATES = rounded([1e-30, 1e-3, 0.5, 1, 3.7, 20, 1e3, 1e6])
LARGE_RATES = [2.0**24 - 1, 1e8, 1e9]
CHANCES = rounded([1e-8, 1e-3, 0.3, 0.5, 0.999, 1 - 1e-6])
WAITS = rounded([1e-15, 1e-8, 1e-5, 0.1, 0.5, 0.999])
FAILURES = [(total, p) for total in rounded([1e-3, 30, 1e8]) for p in rounded([1e-8, 0.5, 0.999])]


def poisson_sums(rate: float) -> Tails:
    return by_sums(lambda x: log_poisson(x, rate), lambda x: rate / (x + 1), rate)


def binomial_sums(total: int, p: float) -> Tails:
    return by_sums(lambda x: log_binomial(x, total, p), lambda x: (total - x) / (x + 1) * (p / (1 - p)), total * p)


LAWS: dict[str, Law] = {
    "poisson": Law(
        PoissonLayer([0], len(RATES), rate=learned(RATES)), tuple(by_scipy(stats.poisson, one) for one in RATES)
    ),
    "poisson of large rates": Law(
        PoissonLayer([0], len(LARGE_RATES), rate=learned(LARGE_RATES)), tuple(map(poisson_sums, LARGE_RATES))
    ),
    "geometric": Law(
        GeometricLayer([0], len(WAITS), probs=learned(WAITS)),
        tuple(by_scipy(stats.geom, one, loc=-1) for one in WAITS),
    ),
    "negative binomial": Law(
        NegativeBinomialLayer(
            [0],
            len(FAILURES),
            total_count=learned([total for total, _ in FAILURES]),
            probs=learned([p for _, p in FAILURES]),
        ),
        tuple(by_scipy(stats.nbinom, *one) for one in FAILURES),
    ),
    "bernoulli": Law(
        BernoulliLayer([0], len(CHANCES), probs=learned(CHANCES)),
        tuple(by_scipy(stats.bernoulli, one) for one in CHANCES),
    ),
    "binomial of a billion": Law(
        BinomialLayer([0], 2, total_count=10**9, probs=learned([0.25, 0.5])),
        tuple(binomial_sums(10**9, one) for one in (0.25, 0.5)),
    ),
} | {
    f"binomial of {total}": Law(
        BinomialLayer([0], len(CHANCES), total_count=total, probs=learned(CHANCES)),
        tuple(by_scipy(stats.binom, total, one) for one in CHANCES),
    )
    for total in (1, 5, 100, 1024, 1025, 10**5)
}


def law_circuit(layer: InputLayer) -> Circuit:
    """Variable 0 follows the unit that variable 1 names, each as often as any other."""
    units = layer.num_output_units
    names = CategoricalLayer(
        [1], units, num_categories=units, probs=ConstantParameter(units, units, value=np.eye(units))
    )
    both, mixed = (
        HadamardLayer(units),
        SumLayer(units, 1, weight=ConstantParameter(1, units, value=np.full((1, units), 1 / units))),
    )
    return Circuit([layer, names, both, mixed], {both: [layer, names], mixed: [both]}, [mixed])


def check(tails: Tails, answers: list[int], eps: float) -> None:
    """Each answer suffices and the count before does not, but for roundings of parameters and tails."""
    for level, answer in zip(LEVELS, answers, strict=True):
        slack = 8 * eps * min(1 - level, level * (1 - np.log(level)))
        slack += 1e-11 * min(level, 1 - level) + 2e-13 * level  # of tails, and of tables of 1024 trials
        below, above = tails(answer)
        assert below >= level - slack or above <= 1 - level + slack, (level, answer, below, above)
        if answer:
            step = max(1, int(np.spacing(float(answer))))
            below, above = tails(answer - step)
            assert below < level + slack or above > 1 - level - slack, (level, answer, below, above)


def test_all_layers_of_counts_are_asked() -> None:
    unbounded = {row for row in LAYER_ROWS if issubclass(row, InputLayer) and makes_counts(row)}
    assert unbounded <= {type(law.layer) for law in LAWS.values()}


def makes_counts(layer: Any) -> bool:
    try:
        return layer([0], 1).domain == COUNTS
    except Exception:
        return False


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=pytest.mark.full if (place + turn) % 4 else [])
        for place, name in enumerate(LAWS)
        for turn, dtype in enumerate((torch.float32, torch.float64))
    ],
    ids=str,
)
def test_quantiles_of_counts_are_the_first_that_suffice(name: str, dtype: torch.dtype) -> None:
    """Of each unit, which the rest of a row names, and of their mixture, where it does not."""
    law = LAWS[name]
    units = len(law.tails)
    rows = torch.tensor([[np.nan, unit] for unit in [*range(units), np.nan]], dtype=dtype)
    answers = quantile(TorchCompiler(dtype=dtype).compile(law_circuit(law.layer)), 0, LEVELS, rows)
    assert answers.dtype == torch.int64
    for tails, found in zip((*law.tails, mixed(law.tails)), answers.tolist(), strict=True):
        check(tails, found, torch.finfo(dtype).eps)


def mixed(tails: tuple[Tails, ...]) -> Tails:
    def both(x: int) -> tuple[float, float]:
        below, above = np.mean([one(x) for one in tails], axis=0)
        return float(below), float(above)

    return both
