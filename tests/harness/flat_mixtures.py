"""Random small circuits as the flat mixtures that they are, one term for each way through their sums.

A second oracle for queries, which shares nothing with the compiler nor with `oracle.py`: each way picks one unit of one
layer for each variable, so that every query is a formula of the distributions of SciPy of these.

    drawn = draw(np.random.default_rng(3))
    drawn.circuit, drawn.mixture.log_likelihood(rows)
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    ExponentialLayer,
    GammaLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    LaplaceLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import MixingWeightParameter, Parameter, TensorParameter

Array = Any
MOST_WAYS = 3000
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


@dataclass(frozen=True)
class Way:
    """One way through the sums.

    Args:
        log_weight: The logarithm of the product of its weights.
        units: The unit of each variable.
        terms: The sum layers that it comes by, with the term that it takes.
    """

    log_weight: float
    units: dict[int, Unit]
    terms: dict[Any, int]


@dataclass
class Mixture:
    """What a circuit of one output unit is: the sum of its ways.

    Args:
        ways: The ways.
        width: The number of columns of data.
    """

    ways: Sequence[Way]
    width: int

    def logs(self, x: Array) -> Array:
        """The logarithm of each way at rows `(B, D)`, NaN summed out: `(B, W)`."""
        found = np.zeros((len(x), len(self.ways)))
        known: dict[int, Array] = {}
        for number, way in enumerate(self.ways):
            found[:, number] = way.log_weight
            for variable, unit in way.units.items():
                key = id(unit)
                if key not in known:
                    missing = np.isnan(x[:, variable])
                    with np.errstate(divide="ignore"):
                        score = unit.log(np.where(missing, 0.5 if not unit.whole else 0, x[:, variable]))
                    known[key] = np.where(missing, unit.log_total, score)
                found[:, number] += known[key]
        return found

    def log_likelihood(self, x: Array) -> Array:
        """Of rows."""
        with np.errstate(divide="ignore"):
            nothing = np.full((1, self.width), np.nan)
            return logsumexp(self.logs(x), axis=1) - logsumexp(self.logs(nothing), axis=1)

    def shares(self, x: Array) -> Array:
        """How probable each way is, given rows: `(B, W)`."""
        logs = self.logs(x)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def of_units(self, x: Array, variable: int, number: Callable[[Unit], Any]) -> Array:
        """The mean of a number of the units of a variable, given the rest of each row."""
        known: dict[int, Any] = {}
        numbers = []
        for way in self.ways:
            unit = way.units[variable]
            if id(unit) not in known:
                known[id(unit)] = number(unit)
            numbers.append(known[id(unit)])
        return self.shares(x) @ np.array(numbers, float)

    def box(self, low: Array, high: Array) -> Array:
        """The probability of boxes without missing ends."""
        share = self.shares(np.full((1, self.width), np.nan))[0]
        found = np.zeros(len(low))
        known: dict[int, Array] = {}
        for number, way in enumerate(self.ways):
            inside = np.ones(len(low))
            for variable, unit in way.units.items():
                if id(unit) not in known:
                    known[id(unit)] = unit.share(low[:, variable], high[:, variable])
                inside = inside * known[id(unit)]
            found += share[number] * inside
        return found

    def latent(self, x: Array, layer: Any, count: int) -> Array:
        """How probable each term of a sum layer is."""
        shares = self.shares(x)
        found = np.zeros((len(x), count))
        for number, way in enumerate(self.ways):
            if layer in way.terms:
                found[:, way.terms[layer]] += shares[:, number]
        return found

    def draws(self, rng: Any, rows: int) -> Array:
        """Rows that it draws."""
        share = self.shares(np.full((1, self.width), np.nan))[0]
        x = np.zeros((rows, self.width))
        for row in range(rows):
            for variable, unit in self.ways[rng.choice(len(share), p=share / share.sum())].units.items():
                if isinstance(unit.kind, Table):
                    x[row, variable] = rng.choice(unit.kind.states, p=unit.kind.pmf(unit.kind.states))
                else:
                    x[row, variable] = unit.kind.rvs(random_state=rng)
        return x


@dataclass
class Drawn:
    """A circuit and its mixture.

    Args:
        circuit: The circuit.
        mixture: The same.
        families: The family of each variable.
    """

    circuit: Circuit
    mixture: Mixture
    families: dict[int, str]


def _leaf(values: Array) -> Parameter:
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
            layer: Any = CategoricalLayer([variable], units, num_categories=count, probs=_leaf(table))
        elif kind == 1:
            layer = EmbeddingLayer([variable], units, num_states=count, weight=_leaf(table))
        else:
            logs = rng.normal(size=(units, count)) * rng.choice([1, 5]) + rng.choice([0, 0, UNDERFLOWS])
            layer = CategoricalLayer([variable], units, num_categories=count, logits=_leaf(logs))
        return layer, [Unit(Table(one), float(logsumexp(one)), count) for one in logs]

    return make


def _bernoulli(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
    logits = rng.normal(size=units)
    tables = [np.array([-np.logaddexp(0, one), -np.logaddexp(0, -one)]) for one in logits]
    return BernoulliLayer([variable], units, logits=_leaf(logits)), [Unit(Table(one), 0.0, 2) for one in tables]


def _density(layer: Any, names: Sequence[str], of_scipy: Callable[..., Any], draw: Callable[[Any, int], Array]) -> Any:
    def make(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
        values = [draw(rng, units) for _ in names]
        given = {name: _leaf(one) for name, one in zip(names, values, strict=True)}
        kinds = [of_scipy(*one) for one in zip(*values, strict=True)]
        return layer([variable], units, **given), [Unit(kind) for kind in kinds]

    return make


def _gaussian(rng: Any, variable: int, units: int) -> tuple[Any, list[Unit]]:
    mean, deviation = rng.normal(size=units) * 3, rng.uniform(0.3, 2, units)
    logs = rng.normal(size=units) if rng.random() < 0.3 else np.zeros(units)
    given: dict[str, Any] = {"log_partition": _leaf(logs)} if logs.any() else {}
    layer = GaussianLayer([variable], units, mean=_leaf(mean), stddev=_leaf(deviation), **given)
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


@dataclass
class _Builder:
    rng: Any
    families: dict[int, str]
    edges: dict[Any, list[Any]] = field(default_factory=dict)
    layers: list[Any] = field(default_factory=list)
    ways: dict[Any, list[list[Way]]] = field(default_factory=dict)  # of each unit of each layer
    pool: dict[Any, list[Any]] = field(default_factory=dict)
    weights: dict[Any, list[tuple[Parameter, Array]]] = field(default_factory=dict)

    def layer(self, scope: tuple[int, ...], units: int, depth: int) -> Any:
        known = self.pool.setdefault((scope, units), [])
        if known and self.rng.random() < 0.35:
            return known[self.rng.integers(len(known))]
        layer = self._new(scope, units, depth)
        known.append(layer)
        return layer

    def _new(self, scope: tuple[int, ...], units: int, depth: int) -> Any:
        if depth > 0 and self.rng.random() < 0.5:
            return self.sum(scope, units, depth)
        if len(scope) > 1:
            return self._product(scope, units, depth)
        layer, of_scipy = FAMILIES[self.families[scope[0]]](self.rng, scope[0], units)
        return self._add(layer, [], [[Way(0.0, {scope[0]: unit}, {})] for unit in of_scipy])

    def _add(self, layer: Any, inputs: list[Any], ways: list[list[Way]]) -> Any:
        self.layers.append(layer)
        if inputs:
            self.edges[layer] = inputs
        if sum(map(len, ways)) > MOST_WAYS:
            raise OverflowError
        self.ways[layer] = ways
        return layer

    def _product(self, scope: tuple[int, ...], units: int, depth: int) -> Any:
        rng, arity = self.rng, int(self.rng.integers(2, min(len(scope), 3) + 1))
        shuffled = rng.permutation(scope)
        cuts = np.sort(rng.choice(np.arange(1, len(scope)), arity - 1, replace=False))
        parts = [tuple(sorted(int(v) for v in part)) for part in np.split(shuffled, cuts)]
        root = round(units ** (1 / arity))
        kronecker = root**arity == units and rng.random() < 0.5
        inputs = [self.layer(part, root if kronecker else units, depth - 1) for part in parts]
        if rng.random() < 0.1:
            constant = rng.uniform(0.1, 2, root if kronecker else units)
            if not kronecker:
                inputs.append(
                    self._add(
                        ConstantValueLayer(units, value=_leaf(constant)),
                        [],
                        [[Way(float(np.log(one)), {}, {})] for one in constant],
                    )
                )
        picked = (
            itertools.product(range(root), repeat=arity)
            if kronecker
            else ((unit,) * len(inputs) for unit in range(units))
        )
        ways = [
            [
                _joined(ways)
                for ways in itertools.product(*(self.ways[one][k] for one, k in zip(inputs, places, strict=True)))
            ]
            for places in picked
        ]
        make = KroneckerLayer(root, arity) if kronecker else HadamardLayer(units, len(inputs))
        return self._add(make, inputs, ways)

    def sum(self, scope: tuple[int, ...], units: int, depth: int) -> Any:
        rng, arity = self.rng, int(self.rng.choice([1, 1, 2, 3]))
        width = units if rng.random() < 0.5 else int(rng.choice([1, 2, 4]))
        inputs = [self.layer(scope, width, depth - 1) for _ in range(arity)]
        mixing = width == units and rng.random() < 0.3
        shape = (units, arity if mixing else arity * width)
        weight, values = self._weight(shape)
        if mixing:
            weight = Parameter.from_unary(MixingWeightParameter(shape), weight)
        layer = SumLayer(width, units, arity, weight)
        ways: list[list[Way]] = []
        for unit in range(units):
            found = []
            for place, column in itertools.product(range(arity), range(width)):
                number = values[unit, place] * (column == unit) if mixing else values[unit, place * width + column]
                if number > 0:
                    term = place if mixing else place * width + column
                    found += [
                        Way(one.log_weight + float(np.log(number)), one.units, {**one.terms, layer: term})
                        for one in self.ways[inputs[place]][column]
                    ]
            ways.append(found)
        return self._add(layer, inputs, ways)

    def _weight(self, shape: tuple[int, int]) -> tuple[Parameter, Array]:
        known = self.weights.setdefault(shape, [])
        if known and self.rng.random() < 0.25:
            weight, values = known[self.rng.integers(len(known))]
            return weight.ref(), values
        values = self.rng.uniform(0.1, 2, shape)
        values[self.rng.random(shape) < 0.1] = 0
        values[:, 0] = np.maximum(values[:, 0], 0.1)
        known.append((_leaf(values), values))
        return known[-1]


def _joined(ways: Sequence[Way]) -> Way:
    units = {variable: unit for way in ways for variable, unit in way.units.items()}
    terms = {layer: term for way in ways for layer, term in way.terms.items()}
    return Way(sum(way.log_weight for way in ways), units, terms)


def draw(rng: Any, most_variables: int = 6) -> Drawn:
    """A random circuit of 1 to some variables, of one output of one unit."""
    while True:
        variables = sorted(int(v) for v in rng.choice(most_variables + 1, rng.integers(1, most_variables + 1), False))
        families = {variable: str(rng.choice(list(FAMILIES))) for variable in variables}
        builder = _Builder(rng, families)
        try:
            output = builder.sum(tuple(variables), 1, int(rng.integers(1, 5)))
        except OverflowError:
            continue
        read = Circuit(builder.layers, builder.edges, [output])
        live = read.subgraph(output) if len(read.layers) else read
        return Drawn(live, Mixture(builder.ways[output][0], max(variables) + 1), families)
