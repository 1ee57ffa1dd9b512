"""Every input layer as it may be drawn, rows at the ends of what it takes, and its values by NumPy and SciPy alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from plica.symbolic import layers
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import Parameter, TensorParameter

Array = Any
Values = Callable[[Array], Array]  # logarithms of units, `(B, K)`, of rows `(B, D)`


@dataclass(frozen=True)
class Input:
    """An input layer.

    Args:
        layer: The layer.
        scores: Of rows of its variables, without NaN.
        best: The logarithms of the largest values of its units.
        total: The logarithms of what its units add up to.
        points: Legal rows of its variables, at the ends of what they may be too.
        wrong: Numbers that are no values of its variables.
        partial: Scores of rows of some of its variables; None where it has one.
    """

    layer: Any
    scores: Values
    best: Array
    points: Array
    total: Array
    wrong: Sequence[float] = ()
    partial: Values | None = None


@dataclass
class Sweeper:
    """What writes one circuit."""

    rng: np.random.Generator
    dtype: Any
    wild: float = 0.0
    count: int = 0

    def leaf(self, value: Array) -> tuple[Any, Array]:
        """A tensor of its own, and the number that it has in the dtype."""
        value = np.asarray(value, self.dtype)
        self.count += 1
        leaf = TensorParameter(
            *value.shape, initializer=ConstantTensorInitializer(value.astype(float)), name=f"p{self.count}"
        )
        return Parameter.from_input(leaf), value.astype(np.float64)

    def normal(self, *shape: int, scale: float = 1.0) -> tuple[Any, Array]:
        return self.leaf(self.rng.normal(size=shape) * scale * (10 if self.rng.random() < self.wild else 1))

    def positive(self, *shape: int, low: float = 0.2, high: float = 4.0) -> tuple[Any, Array]:
        spread = 10.0 if self.rng.random() < self.wild else 1.0
        return self.leaf(np.exp(self.rng.uniform(np.log(low / spread), np.log(high * spread), shape)))


def _input(layer: Any, scores: Values, best: Array, points: Array, wrong: Sequence[float] = (), **others: Any) -> Input:
    points, ends = (np.asarray(one, np.float32).astype(float) for one in (points, wrong))  # of either dtype
    best = np.asarray(best, float)
    others.setdefault("total", np.zeros_like(best))
    return Input(layer, scores, best, points if points.ndim == 2 else points[:, None], wrong=ends.tolist(), **others)


STATES_WRONG = (-1.0, 0.5, 1e6, np.inf, -np.inf, 1e30)


def _table(layer: Any, logs: Array, **others: Any) -> Input:
    """Of logarithms `(K, C)`."""
    number = logs.shape[1]
    return _input(
        layer,
        lambda x: logs.T[x[:, 0].astype(int)],
        logs.max(1),
        np.arange(number),
        (number, *STATES_WRONG),
        total=special.logsumexp(logs, 1),
        **others,
    )


def bernoulli(w: Sweeper, v: int, k: int) -> Input:
    if w.rng.random() < 0.5:
        p, a = w.normal(k, scale=3)
        return _table(layers.BernoulliLayer([v], k, logits=p), np.stack([-np.logaddexp(0, a), -np.logaddexp(0, -a)], 1))
    p, a = w.leaf(w.rng.choice([0.0, 1.0, 0.25, 1e-6, 0.5], k))
    with np.errstate(divide="ignore"):
        return _table(layers.BernoulliLayer([v], k, probs=p), np.stack([np.log1p(-a), np.log(a)], 1))


def binomial(w: Sweeper, v: int, k: int) -> Input:
    n = int(w.rng.choice([0, 1, 3, 12, 200]))
    n = max(n, 1)
    p, a = w.normal(k, scale=2)
    x = np.arange(n + 1)
    comb = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    logs = comb - x * np.logaddexp(0, -a)[:, None] - (n - x) * np.logaddexp(0, a)[:, None]
    return _table(layers.BinomialLayer([v], k, total_count=n, logits=p), logs)


def categorical(w: Sweeper, v: int, k: int) -> Input:
    n = int(w.rng.choice([1, 2, 5, 17]))
    if w.rng.random() < 0.5:
        p, a = w.normal(k, n)
        return _table(layers.CategoricalLayer([v], k, num_categories=n, logits=p), a)
    p, a = w.leaf(w.rng.dirichlet(np.ones(n), k) * (w.rng.random((k, n)) < 0.8))
    with np.errstate(divide="ignore"):
        return _table(layers.CategoricalLayer([v], k, num_categories=n, probs=p), np.log(a))


def embedding(w: Sweeper, v: int, k: int) -> Input:
    n = int(w.rng.choice([1, 2, 5]))
    p, a = w.positive(k, n)
    return _table(layers.EmbeddingLayer([v], k, num_states=n, weight=p), np.log(a))


def discretized(w: Sweeper, v: int, k: int) -> Input:
    n = int(w.rng.choice([1, 2, 6, 100]))
    (p, m), (q, s) = w.normal(k, scale=n), w.positive(k)
    x = np.arange(n)
    upper, lower = (x + 0.5 - m[:, None]) / s[:, None], (x - 0.5 - m[:, None]) / s[:, None]
    upper[:, -1], lower[:, 0] = np.inf, -np.inf
    # log(s(a) - s(b)) = log s(a) + log s(-b) + log(1 - exp(b - a))
    logs = -np.logaddexp(0, -upper) - np.logaddexp(0, lower) + np.log(-np.expm1(lower - upper))
    return _table(layers.DiscretizedLogisticLayer([v], k, num_states=n, mean=p, scale=q), logs)


def rounded(w: Sweeper, v: int, k: int) -> Input:
    (p, m), (q, s) = w.normal(k), w.positive(k)

    def logs(x: Array) -> Array:
        upper, lower = (x + 0.5 - m) / s, (x - 0.5 - m) / s
        return -np.logaddexp(0, -upper) - np.logaddexp(0, lower) + np.log(-np.expm1(-1 / s))

    return _input(
        layers.RoundedLogisticLayer([v], k, loc=p, scale=q),
        logs,
        logs(np.floor(m + 0.5)),
        (*COUNTS, -1, -40, -1e6),
        (0.5, np.inf, -np.inf, 1e30),
    )


COUNTS = (0, 1, 2, 5, 40, 1000, 1e6)
COUNTS_WRONG = (-1.0, 0.5, np.inf, -np.inf, 1e30)


def poisson(w: Sweeper, v: int, k: int) -> Input:
    p, r = w.positive(k)
    mode = np.floor(r)
    return _input(
        layers.PoissonLayer([v], k, rate=p),
        lambda x: x * np.log(r) - r - special.gammaln(x + 1),
        mode * np.log(r) - r - special.gammaln(mode + 1),
        COUNTS,
        COUNTS_WRONG,
    )


def geometric(w: Sweeper, v: int, k: int) -> Input:
    p, a = w.normal(k)
    return _input(
        layers.GeometricLayer([v], k, logits=p),
        lambda x: -np.logaddexp(0, -a) - x * np.logaddexp(0, a),
        -np.logaddexp(0, -a),
        COUNTS,
        COUNTS_WRONG,
    )


def negative_binomial(w: Sweeper, v: int, k: int) -> Input:
    (p, n), (q, a) = w.positive(k), w.normal(k)

    def scores(x: Array) -> Array:
        coefficient = -np.log(n + x) - special.betaln(n, x + 1)
        return coefficient - n * np.logaddexp(0, -a) - x * np.logaddexp(0, a)

    many = scores(np.arange(5000.0)[:, None])
    return _input(
        layers.NegativeBinomialLayer([v], k, total_count=p, logits=q), scores, many.max(0), COUNTS, COUNTS_WRONG
    )


REALS = (0, -0.0, 1, -2.5, 30, -1e3, 1e6, np.inf, -np.inf)


def gaussian(w: Sweeper, v: int, k: int) -> Input:
    (p, m), (q, s) = w.normal(k), w.positive(k)
    return _input(
        layers.GaussianLayer([v], k, mean=p, stddev=q),
        lambda x: stats.norm.logpdf(x, m, s),
        stats.norm.logpdf(0, 0, s),
        REALS,
    )


def laplace(w: Sweeper, v: int, k: int) -> Input:
    (p, m), (q, s) = w.normal(k), w.positive(k)
    return _input(
        layers.LaplaceLayer([v], k, loc=p, scale=q),
        lambda x: -np.abs(x - m) / s - np.log(2 * s),
        -np.log(2 * s),
        REALS,
    )


def student(w: Sweeper, v: int, k: int) -> Input:
    (o, d), (p, m), (q, s) = w.positive(k), w.normal(k), w.positive(k)
    return _input(
        layers.StudentTLayer([v], k, df=o, loc=p, scale=q),
        lambda x: stats.t.logpdf(x, d, m, s),
        stats.t.logpdf(0, d, 0, s),
        (*REALS, 1e30),
    )


def log_normal(w: Sweeper, v: int, k: int) -> Input:
    (p, m), (q, s) = w.normal(k), w.positive(k)

    def scores(x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(x), -np.inf, stats.norm.logpdf(np.log(x), m, s) - np.log(x))

    return _input(
        layers.LogNormalLayer([v], k, loc=p, scale=q),
        scores,
        scores(np.exp(m - s**2)[None])[0],
        (1e-30, 1e-3, 1, 3.7, 1e4, 1e30, np.inf),
        (0.0, -1.0, -np.inf),
    )


_TINY, _NEAR = 1.1754943508222875e-38, 1 - 2.0**-24


def gamma(w: Sweeper, v: int, k: int) -> Input:
    (p, a), (q, r) = w.positive(k), w.positive(k)

    def scores(x: Array) -> Array:
        x = np.maximum(x, _TINY)
        with np.errstate(invalid="ignore"):
            found = a * np.log(r) + (a - 1) * np.log(x) - r * x - special.gammaln(a)
        return np.where(np.isinf(x) | (x == _TINY) & (a > 1), -np.inf, found)

    return _input(
        layers.GammaLayer([v], k, concentration=p, rate=q),
        scores,
        scores((np.maximum(a - 1, 0) / r)[None])[0],
        (0, 1e-30, 1e-3, 1, 3.7, 100, 1e4, np.inf),
        (-1.0, -1e-30, -np.inf),
    )


def exponential(w: Sweeper, v: int, k: int) -> Input:
    p, r = w.positive(k)
    return _input(
        layers.ExponentialLayer([v], k, rate=p),
        lambda x: np.log(r) - r * x,
        np.log(r),
        (0, 1e-30, 1, 3.7, 1e4, np.inf),
        (-1.0, -1e-30, -np.inf),
    )


def beta(w: Sweeper, v: int, k: int) -> Input:
    (p, a), (q, b) = w.positive(k), w.positive(k)

    def scores(x: Array) -> Array:
        none = ((x == 0) & (a > 1)) | ((x == 1) & (b > 1))
        x = np.where(x == 0, _TINY, np.where(x == 1, _NEAR, x))
        return np.where(none, -np.inf, special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))

    ends = np.maximum(scores(np.array([[0.0]])), scores(np.array([[1.0]])))[0]
    inner = scores(np.where((a > 1) & (b > 1), (a - 1) / np.where(a + b > 2, a + b - 2, 1), 0.5)[None])[0]
    return _input(
        layers.BetaLayer([v], k, alpha=p, beta=q),
        scores,
        np.where((a > 1) & (b > 1), inner, ends),
        (0, 1e-30, 1e-3, 0.3, 0.999, _NEAR),
        (-1.0, 1.5, np.inf, -np.inf),
    )


def uniform(w: Sweeper, v: int, k: int) -> Input:
    low = np.asarray(w.rng.integers(-2, 1, k), float)
    high = low + w.rng.integers(1, 4, k)

    def scores(x: Array) -> Array:
        return np.where((x >= low) & (x <= high), -np.log(high - low), -np.inf)

    return _input(
        layers.UniformLayer([v], k, low=low, high=high), scores, -np.log(high - low), (-2, -1, 0, 0.5, 1, 3, np.inf, 99)
    )


def von_mises(w: Sweeper, v: int, k: int) -> Input:
    (p, m), (q, c) = w.normal(k), w.positive(k)

    def scores(x: Array) -> Array:
        return c * (np.cos(x - m) - 1) - np.log(2 * np.pi * special.i0e(c))

    return _input(
        layers.VonMisesLayer([v], k, loc=p, concentration=q),
        scores,
        -np.log(2 * np.pi * special.i0e(c)),
        (0, 1, -3.1, np.float32(np.pi), -np.float32(np.pi), 3),
        (3.2, -4.0, np.inf, -np.inf),
    )


def histogram(w: Sweeper, v: int, k: int) -> Input:
    n = int(w.rng.choice([1, 3, 8]))
    edges = np.cumsum(w.rng.integers(1, 4, n + 1)) / 2.0 - 2
    p, a = w.leaf(w.rng.dirichlet(np.ones(n), k) * (w.rng.random((k, n)) < 0.9))
    with np.errstate(divide="ignore"):
        logs = np.log(a) - np.log(np.diff(edges))

    def scores(x: Array) -> Array:
        place = np.searchsorted(edges, x[:, 0], side="right") - 1
        place = np.where(x[:, 0] == edges[-1], n - 1, place)
        inside = (place >= 0) & (place < n)
        return np.where(inside[:, None], logs.T[np.clip(place, 0, n - 1)], -np.inf)

    return _input(
        layers.HistogramLayer([v], k, edges=edges, probs=p),
        scores,
        logs.max(1),
        (*edges, edges[0] - 0.25, edges[-1] + 0.25, edges.mean(), np.inf, -np.inf),
        total=np.log(a.sum(1)) if a.sum(1).all() else log_of(a.sum(1)),
    )


def log_of(x: Array) -> Array:
    """The logarithm, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def diagonal(w: Sweeper, scope: Sequence[int], k: int) -> Input:
    (p, m), (q, s) = w.normal(k, len(scope)), w.positive(k, len(scope))

    def partial(x: Array) -> Array:
        each = stats.norm.logpdf(x[:, None], m, s)
        return np.where(np.isnan(x)[:, None], 0.0, each).sum(-1)

    return _input(
        layers.DiagonalGaussianLayer(scope, k, mean=p, stddev=q),
        partial,
        stats.norm.logpdf(0, 0, s).sum(-1),
        w.rng.choice([0.0, 1.0, -2.0, 30.0, np.inf, -1e3], (7, len(scope))),
        partial=partial,
    )


def multivariate(w: Sweeper, scope: Sequence[int], k: int) -> Input:
    size = len(scope)
    (p, m) = w.normal(k, size)
    factor = np.tril(w.rng.normal(size=(k, size, size)), -1) + np.eye(size) * w.rng.uniform(0.4, 2, (k, 1, size))
    q, t = w.leaf(factor)
    t = np.tril(t)
    cov = t @ t.transpose(0, 2, 1)

    def partial(x: Array) -> Array:
        found = np.zeros((len(x), k))
        for row, one in enumerate(x):
            known = ~np.isnan(one)
            if np.isinf(one).any():
                found[row] = -np.inf
            elif known.any():
                for unit in range(k):
                    found[row, unit] = stats.multivariate_normal.logpdf(
                        one[known], m[unit][known], cov[unit][np.ix_(known, known)]
                    )
        return found

    best = -0.5 * size * np.log(2 * np.pi) - np.log(np.abs(np.diagonal(t, axis1=1, axis2=2))).sum(-1)
    return _input(
        layers.MultivariateGaussianLayer(scope, k, mean=p, scale_tril=q),
        partial,
        best,
        w.rng.choice([0.0, 1.0, -2.0, 30.0, np.inf], (7, size)),
        partial=partial,
    )


FAMILIES = {
    one.__name__: one
    for one in (
        bernoulli, binomial, categorical, embedding, discretized, rounded, poisson, geometric, negative_binomial,
        gaussian, laplace, student, log_normal, gamma, exponential, beta, uniform, von_mises, histogram,
    )
}  # fmt: skip
JOINT = {one.__name__: one for one in (diagonal, multivariate)}
