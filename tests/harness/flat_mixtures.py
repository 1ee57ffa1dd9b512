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
from scipy.special import logsumexp

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    ConstantValueLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
)
from plica.symbolic.parameters import MixingWeightParameter, Parameter
from tests.harness.flat_units import FAMILIES, Table, Unit, leaf

Array = Any
MOST_WAYS = 3000


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
                        ConstantValueLayer(units, value=leaf(constant)),
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
        known.append((leaf(values), values))
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
