"""Units of input layers with the distributions of SciPy that they are, by family: what random mixtures are made of.

layer, units = FAMILIES["gaussian"](np.random.default_rng(0), 2, 3)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    CategoricalLayer,
    EmbeddingLayer,
    ExponentialLayer,
    GammaLayer,
    GaussianLayer,
    LaplaceLayer,
    PoissonLayer,
)
from plica.symbolic.parameters import Parameter, TensorParameter

Array = Any
UNDERFLOWS = -1000.0


@dataclass(frozen=True)
class Unit:
    """A unit of an input layer.

    Args:
        kind: Its distribution, of SciPy.
        log_total: The logarithm of what it comes to in all.
        states: How many states it has; None for numbers and counts.
    """

    kind: Any
    log_total: float = 0.0
    states: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is of integers."""
        return hasattr(self.kind, "pmf")

    def log(self, x: Array) -> Array:
        """The logarithm of what it is at numbers."""
        return self.log_total + (self.kind.logpmf(x) if self.whole else self.kind.logpdf(x))

    def share(self, low: Array, high: Array) -> Array:
        """The share between two ends, both included."""
        before = np.ceil(low) - 1 if self.whole else low
        return np.where(low <= high, np.maximum(self.kind.cdf(high) - self.kind.cdf(before), 0), 0)


class Table:
    """A distribution of states, with the methods of SciPy's that are needed here, right at zeros."""

    def __init__(self, logs: Array) -> None:
        with np.errstate(divide="ignore"):
            self.logs = logs - logsumexp(logs)
        self.states = np.arange(len(logs))

    def pmf(self, x: Array) -> Array:
        """Probabilities."""
        return np.exp(self.logpmf(x))

    def logpmf(self, x: Array) -> Array:
        """Their logarithms."""
        return self.logs[np.asarray(x, int)]

    def cdf(self, x: Array) -> Array:
        """Up to ends."""
        return np.exp(self.logs) @ (self.states[:, None] <= np.ravel(x)).astype(float)

    def mean(self) -> float:
        """The mean."""
        return float(np.exp(self.logs) @ self.states)

    def var(self) -> float:
        """The variance."""
        return float(np.exp(self.logs) @ (self.states - self.mean()) ** 2)


def leaf(values: Array) -> Parameter:
    """A tensor that is learned, of some values."""
    return Parameter.from_input(
        TensorParameter(*np.shape(values), initializer=ConstantTensorInitializer(np.asarray(values, float)))
    )


def _table(rng: Any, shape: tuple[int, int]) -> Array:
    """Positive numbers, not normalized, some of them zero, some rows tiny."""
    found = rng.uniform(0.05, 2, shape)
    found[rng.random(shape) < 0.15] = 0
    found[:, 0] = np.maximum(found[:, 0], 0.1)
    return found


def _states(count: int) -> Callable[..., tuple[Any, list[Unit]]]:
    def make(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
        kind = rng.integers(3)
        table = _table(rng, (units, count))
        with np.errstate(divide="ignore"):
            logs = np.log(table)
        if kind == 0:
            layer: Any = CategoricalLayer([variable], units, num_categories=count, probs=leaf(table))
        elif kind == 1:
            layer = EmbeddingLayer([variable], units, num_states=count, weight=leaf(table))
        else:
            logs = rng.normal(size=(units, count)) * rng.choice([1, 5]) + rng.choice([0, 0, UNDERFLOWS])
            layer = CategoricalLayer([variable], units, num_categories=count, logits=leaf(logs))
        return layer, [Unit(Table(one), float(logsumexp(one)), count) for one in logs]

    return make


def _bernoulli(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
    logits = rng.normal(size=units)
    tables = [np.array([-np.logaddexp(0, one), -np.logaddexp(0, -one)]) for one in logits]
    return BernoulliLayer([variable], units, logits=leaf(logits)), [Unit(Table(one), 0.0, 2) for one in tables]


def _density(layer: Any, names: Sequence[str], of_scipy: Callable[..., Any], draw: Callable[[Any, int], Array]) -> Any:
    def make(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
        values = [draw(rng, units) for _ in names]
        given = {name: leaf(one) for name, one in zip(names, values, strict=True)}
        kinds = [of_scipy(*one) for one in zip(*values, strict=True)]
        return layer([variable], units, **given), [Unit(kind) for kind in kinds]

    return make


def _gaussian(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
    mean, deviation = rng.normal(size=units) * 3, rng.uniform(0.3, 2, units)
    logs = rng.normal(size=units) if rng.random() < 0.3 else np.zeros(units)
    given: dict[str, Any] = {"log_partition": leaf(logs)} if logs.any() else {}
    layer = GaussianLayer([variable], units, mean=leaf(mean), stddev=leaf(deviation), **given)
    return layer, [Unit(stats.norm(*one[:2]), one[2]) for one in zip(mean, deviation, logs, strict=True)]


def _positive(rng: Any, units: int) -> Array:
    return rng.uniform(1.2, 4, units)


FAMILIES: dict[str, Callable[..., tuple[Any, list[Unit]]]] = {
    "two states": _states(2),
    "three states": _states(3),
    "seven states": _states(7),
    "bernoulli": _bernoulli,
    "gaussian": _gaussian,
    "laplace": _density(LaplaceLayer, ("loc", "scale"), stats.laplace, _positive),
    "poisson": _density(PoissonLayer, ("rate",), stats.poisson, _positive),
    "exponential": _density(ExponentialLayer, ("rate",), lambda rate: stats.expon(scale=1 / rate), _positive),
    "gamma": _density(
        GammaLayer, ("concentration", "rate"), lambda one, rate: stats.gamma(one, scale=1 / rate), _positive
    ),
    "beta": _density(BetaLayer, ("alpha", "beta"), stats.beta, _positive),
}
