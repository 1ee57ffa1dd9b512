"""Small circuits of every input layer, rows at the ends of what it takes, and their values by NumPy and SciPy alone.

made = swept_circuit(np.random.default_rng(0), np.float32)
made.scores(rows), made.best(rows)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from plica.symbolic import layers
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import MixingWeightParameter, Parameter, TensorParameter

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
        total=np.log(a.sum(1)) if a.sum(1).all() else _log(a.sum(1)),
    )


def _log(x: Array) -> Array:
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
        bernoulli, binomial, categorical, embedding, discretized, poisson, geometric, negative_binomial, gaussian,
        laplace, student, log_normal, gamma, exponential, beta, uniform, von_mises, histogram,
    )
}  # fmt: skip
JOINT = {one.__name__: one for one in (diagonal, multivariate)}


@dataclass(frozen=True)
class Node:
    """A layer, and the logarithms of its units: summed, and where sums take their largest term."""

    layer: Any
    scores: Values
    best: Values


@dataclass(frozen=True)
class Swept:
    """A circuit, and what it answers.

    Args:
        circuit: The circuit.
        inputs: Its input layers by their variables.
        tops: The outputs.
    """

    circuit: Circuit
    inputs: dict[tuple[int, ...], list[Input]]
    tops: Sequence[Node]
    rng: np.random.Generator
    dtype: Any

    def scores(self, rows: Array) -> Array:
        """`(B, outputs, units)`; NaN where a row has a number that is no value of its variable."""
        found = np.stack([one.scores(rows.astype(np.float64)) for one in self.tops], 1)
        return np.where(self.is_wrong(rows)[:, None, None], np.nan, found)

    def best(self, rows: Array) -> Array:
        """`(B,)`."""
        found = self.tops[0].best(rows.astype(np.float64))[:, 0]
        return np.where(self.is_wrong(rows), np.nan, found)

    def is_wrong(self, rows: Array) -> Array:
        """Rows with a number that is no value of its variable, `(B,)`."""
        found = np.zeros(len(rows), bool)
        for scope, made in self.inputs.items():
            for one in made:
                for v in scope:
                    found |= np.isin(rows[:, v], np.asarray(one.wrong, rows.dtype)) if len(one.wrong) else False
        return found

    def is_half(self, rows: Array) -> Array:
        """Rows that have some of the variables of a layer over several, and not all, `(B,)`."""
        found = np.zeros(len(rows), bool)
        for scope in self.inputs:
            count = np.isnan(rows[:, list(scope)]).sum(1)
            found |= (count > 0) & (count < len(scope))
        return found

    def rows(self, count: int, missing: float = 0.2, wrong: float = 0.0, dtype: Any = None) -> Array:
        """Legal rows, some of whose entries are NaN or no values."""
        rows = np.zeros((count, 1 + max(v for scope in self.inputs for v in scope)))
        for scope, made in self.inputs.items():
            points = np.concatenate([one.points for one in made])
            if len(made) > 1 or len(scope) == 1:  # what all of them take
                for one in made:
                    points = points[~np.isin(points, one.wrong).any(1)]
            rows[:, list(scope)] = points[self.rng.integers(len(points), size=count)]
            if len(made[0].wrong):
                at = self.rng.random(count) < wrong
                rows[:, scope[0]] = np.where(at, self.rng.choice(made[0].wrong, count), rows[:, scope[0]])
        rows = np.where(self.rng.random(rows.shape) < missing, np.nan, rows)
        with np.errstate(over="ignore"):
            return rows.astype(dtype or self.dtype)


def swept_circuit(
    rng: np.random.Generator,
    dtype: Any,
    families: Sequence[str] = (),
    joint: bool = True,
    outputs: int = 1,
    units: int | None = None,
    wild: float = 0.0,
) -> Swept:
    """A random smooth and decomposable circuit over random families.

    Args:
        rng: Random numbers.
        dtype: The dtype of parameters.
        families: Of each variable; random ones by default.
        joint: Whether there may be layers over several variables.
        outputs: How many.
        units: Of each layer.
        wild: How often parameters are larger or smaller than usual.
    """
    w = Sweeper(rng, dtype, wild)
    names = list(families) or [str(rng.choice(list(FAMILIES))) for _ in range(rng.integers(1, 6))]
    scopes: list[tuple[int, ...]] = [(v,) for v in range(len(names))]
    if joint and rng.random() < 0.5:
        scopes.append(tuple(range(len(names), len(names) + int(rng.integers(1, 4)))))
        names.append(str(rng.choice(list(JOINT))))
    inputs: dict[tuple[int, ...], list[Input]] = {scope: [] for scope in scopes}
    edges: dict[Any, list[Any]] = {}
    known: dict[tuple[Any, int], list[Node]] = {}
    weights: list[tuple[Any, Array]] = []

    def leaf(place: int, k: int) -> Node:
        scope, name = scopes[place], names[place]
        for node in known.get((frozenset({place}), k), []):
            if rng.random() < 0.5:
                return node
        one = FAMILIES[name](w, scope[0], k) if name in FAMILIES else JOINT[name](w, scope, k)
        if name in ("categorical", "binomial", "embedding", "discretized") and inputs[scope]:  # of as many states
            want = len(inputs[scope][0].points)
            while len(one.points) != want:
                one = FAMILIES[name](w, scope[0], k)
        inputs[scope].append(one)

        def values(rows: Array, missing: Array) -> Array:
            x = rows[:, list(scope)]
            gone = np.isnan(x)
            safe = np.where(gone | np.isin(x, one.wrong), one.points[0], x)
            found = one.scores(safe) if one.partial is None else one.partial(x)
            return np.where(gone.all(1)[:, None], missing, found)

        node = Node(
            one.layer,
            lambda rows: values(rows, one.total),
            lambda rows: values(rows, one.best),
        )
        known.setdefault((frozenset({place}), k), []).append(node)
        edges.setdefault(one.layer, [])
        return node

    def free(k: int) -> Node:
        if rng.random() < 0.5:
            p, a = w.positive(k)
            layer: Any = layers.ConstantValueLayer(k, value=p)
            value = np.log(a)
        else:
            name = str(rng.choice(["gaussian", "poisson", "categorical", "student", "gamma"]))
            one = FAMILIES[name](w, 900, k)
            finite = [point for point in one.points if np.isfinite(one.scores(point[None])).all()]
            point = finite[0] if finite else one.points[0]
            layer, value = layers.EvidenceLayer(one.layer, observation=float(point[0])), one.scores(point[None])[0]
        edges[layer] = []
        return Node(layer, lambda rows: value + np.zeros((len(rows), 1)), lambda rows: value + np.zeros((len(rows), 1)))

    def weight(o: int, n: int) -> tuple[Any, Array]:
        same = [one for one in weights if one[1].shape == (o, n)]
        if same and rng.random() < 0.3:
            p, a = same[int(rng.integers(len(same)))]
            return p.ref(), a
        a = rng.dirichlet(np.ones(n), o) if rng.random() < 0.6 else rng.uniform(0, 3, (o, n))
        a = np.where(rng.random((o, n)) < 0.15, 0.0, a)
        found = w.leaf(a)
        weights.append(found)
        return found

    def summed(parts: Sequence[Node], size: int) -> Node:
        k = parts[0].layer.num_output_units
        if k == size and rng.random() < 0.3:
            p, a = weight(size, len(parts))
            shape = (size, len(parts))
            layer = layers.SumLayer(k, size, len(parts), Parameter.from_unary(MixingWeightParameter(shape), p))
            full = np.zeros((size, len(parts) * k))
            for h in range(len(parts)):
                full[np.arange(size), h * k + np.arange(size)] = a[:, h]
        else:
            p, full = weight(size, len(parts) * k)
            layer = layers.SumLayer(k, size, len(parts), p)
        edges[layer] = [one.layer for one in parts]
        logs = _log(full)

        def scores(rows: Array) -> Array:
            x = np.concatenate([one.scores(rows) for one in parts], 1)
            return _logsumexp(x[:, None] + logs)

        def best(rows: Array) -> Array:
            x = np.concatenate([one.best(rows) for one in parts], 1)
            return np.max(x[:, None] + logs, axis=-1)

        return Node(layer, scores, best)

    def product(places: Sequence[int], k: int) -> Node:
        if len(places) == 1:
            return leaf(places[0], k)
        arity = int(rng.integers(2, min(len(places), 4) + 1))
        mixed = rng.permutation(places)
        cuts = np.sort(rng.choice(np.arange(1, len(places)), arity - 1, replace=False))
        parts = [region(part.tolist(), k) for part in np.split(mixed, cuts)]
        if rng.random() < 0.15:
            parts.append(free(k))
        outer = k ** len(parts) <= 64 and rng.random() < 0.4
        layer = (layers.KroneckerLayer if outer else layers.HadamardLayer)(k, len(parts))
        edges[layer] = [one.layer for one in parts]

        def joined(values: Sequence[Array]) -> Array:
            found = values[0]
            for one in values[1:]:
                if outer:
                    pairs = found[:, :, None] + one[:, None]
                    found = pairs.reshape(len(found), found.shape[1] * one.shape[1])
                else:
                    found = found + one
            return found

        node = Node(
            layer,
            lambda rows: joined([one.scores(rows) for one in parts]),
            lambda rows: joined([one.best(rows) for one in parts]),
        )
        return summed([node], k) if outer else node

    def region(places: Sequence[int], k: int, size: int | None = None) -> Node:
        key = (frozenset(places), k if size is None else size)
        if size is None and key in known and rng.random() < 0.4:
            return known[key][int(rng.integers(len(known[key])))]
        if size is None and rng.random() < 0.35:
            return product(places, k)
        inner = k if rng.random() < 0.6 else int(rng.integers(1, 5))
        found = summed([product(places, inner) for _ in range(int(rng.integers(1, 4)))], k if size is None else size)
        known.setdefault(key, []).append(found)
        return found

    k = units or int(rng.integers(1, 6))
    places = list(range(len(scopes)))
    tops = [region(places, k, 1 if outputs == 1 else 2) for _ in range(outputs)]
    nodes: dict[Any, None] = {}
    for layer, below in edges.items():
        nodes.update(dict.fromkeys(below))
        nodes[layer] = None
    if outputs > 1 and rng.random() < 0.5:  # what nobody reads
        dead = FAMILIES["gaussian"](w, 0, 2).layer
        if names[0] == "gaussian":
            nodes[dead] = None
    inner = {layer: below for layer, below in edges.items() if below}
    circuit = Circuit(_ordered(nodes, inner), inner, [one.layer for one in tops])
    return Swept(circuit, inputs, tops, rng, dtype)


def _ordered(nodes: dict[Any, None], edges: dict[Any, list[Any]]) -> list[Any]:
    """What is read before what reads it."""
    found: dict[Any, None] = {}

    def visit(node: Any) -> None:
        if node not in found:
            for below in edges.get(node, []):
                visit(below)
            found[node] = None

    for node in nodes:
        visit(node)
    return list(found)


def _logsumexp(x: Array) -> Array:
    top = np.max(x, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = np.log(np.sum(np.exp(x - safe), axis=-1)) + safe[..., 0]
    return np.where(np.isposinf(top[..., 0]), np.inf, found)
