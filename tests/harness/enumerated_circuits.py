"""Small random circuits of states, whose answers come from a table of all assignments, in ordinary numbers of float64.

    circuit = EnumeratedCircuit(seed)
    joint = circuit.joint(compiled.state_dict())  # what each assignment is worth
    joint.log_likelihood(rows), joint.mean(rows), ...

The table is what the oracle says of each assignment. Layers are read by several others, tensors by several layers,
weights are zero here and there, and circuits are not normalized.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    EmbeddingLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
)
from plica.symbolic.parameters import (
    ExpParameter,
    Parameter,
    SigmoidParameter,
    SoftmaxParameter,
    SquareParameter,
    TensorParameter,
)
from tests.harness.oracle import Oracle

Array = Any
Values = Mapping[str, Array]


class EnumeratedCircuit:
    """A circuit drawn from a seed, of at most four variables of two or three states.

    Args:
        seed: Of the draw.
        zeros: The share of weights that are 0.
    """

    def __init__(self, seed: int, zeros: float = 0.2) -> None:
        self.rng, self.zeros = np.random.default_rng(seed), zeros
        self.num_states = [int(number) for number in self.rng.integers(2, 4, self.rng.integers(1, 5))]
        self.edges: dict[Any, list[Any]] = {}
        self._tensors: dict[tuple[int, ...], list[TensorParameter]] = {}
        self._layers: dict[tuple[tuple[int, ...], int], list[Any]] = {}
        self._names = itertools.count()
        scope = tuple(range(len(self.num_states)))
        top = self._sum([self._region(scope, 2) for _ in range(self.rng.integers(1, 4))], 1)
        self.circuit = Circuit([*self.edges], {layer: ins for layer, ins in self.edges.items() if ins}, [top])
        self.assignments = np.array(list(itertools.product(*map(range, self.num_states))), float)

    def joint(self, state: Mapping[str, Any]) -> "Joint":
        """The table of all assignments, under a state dict."""
        return Joint(self, {key: np.asarray(value.numpy(), float) for key, value in state.items()})

    def rows(self, number: int, missing: float) -> Array:
        """Rows of data `(B, D)`, NaN where an entry is missing; the first lacks everything if any may."""
        found = np.stack([self.rng.integers(0, count, number) for count in self.num_states], axis=1).astype(float)
        found[self.rng.random(found.shape) < missing] = np.nan
        if missing and number:
            found[0] = np.nan
        return found

    # Layers: each has `units` units.

    def _region(self, scope: tuple[int, ...], units: int) -> Any:
        known = self._layers.setdefault((scope, units), [])
        if known and self.rng.random() < 0.4:
            return known[self.rng.integers(len(known))]
        layer = self._input(scope[0], units) if len(scope) == 1 else self._product(scope, units)
        if self.rng.random() < 0.5:
            others = [layer, *(self._region(scope, units) for _ in range(self.rng.integers(0, 2)))]
            layer = self._sum(others, units)
        known.append(layer)
        return layer

    def _product(self, scope: tuple[int, ...], units: int) -> Any:
        order = self.rng.permutation(scope)
        number = 2 if len(scope) == 2 or self.rng.random() < 0.7 else 3
        cuts = np.sort(self.rng.choice(np.arange(1, len(scope)), number - 1, replace=False))
        parts = [tuple(sorted(int(v) for v in part)) for part in np.split(order, cuts)]
        if number == 2 and self.rng.random() < 0.4:
            inputs = [self._region(part, units) for part in parts]
            product = KroneckerLayer(units, 2)
            self.edges[product] = inputs
            return self._sum([product], units)
        inputs = [self._region(part, units) for part in parts]
        layer = HadamardLayer(units, len(parts))
        self.edges[layer] = inputs
        return layer

    def _sum(self, inputs: list[Any], units: int) -> Any:
        shape = (units, len(inputs) * inputs[0].num_output_units)
        kind = [None, None, SoftmaxParameter, ExpParameter, SquareParameter, SigmoidParameter][self.rng.integers(6)]
        weight = self._parameter(shape, kind)
        layer = SumLayer(inputs[0].num_output_units, units, arity=len(inputs), weight=weight)
        self.edges[layer] = inputs
        return layer

    def _input(self, variable: int, units: int) -> Any:
        count = self.num_states[variable]
        kinds = ["probs", "logits", "embedding", "binomial", *(["bernoulli"] if count == 2 else [])]
        kind = kinds[self.rng.integers(len(kinds))]
        if kind in ("probs", "logits", "embedding"):
            unary = None if kind == "logits" else [None, SoftmaxParameter][self.rng.integers(2)]
            parameter = self._parameter((units, count), unary)
            if kind == "embedding":
                layer: Any = EmbeddingLayer([variable], units, num_states=count, weight=parameter)
            else:
                given: dict[str, Any] = {kind: parameter}
                layer = CategoricalLayer([variable], units, num_categories=count, **given)
        else:
            parameter = self._parameter((units,), SigmoidParameter)
            kind_of = BernoulliLayer if kind == "bernoulli" else BinomialLayer
            settings = {} if kind == "bernoulli" else {"total_count": count - 1}
            layer = kind_of([variable], units, probs=parameter, **settings)
        self.edges[layer] = []
        return layer

    def _parameter(self, shape: tuple[int, ...], kind: type | None) -> Parameter:
        """A tensor, perhaps one that another layer has too, behind an operation or none."""
        known = self._tensors.setdefault(shape, [])
        if known and self.rng.random() < 0.3:
            tensor = known[self.rng.integers(len(known))]
        else:
            start, name = self.rng.gamma(1.5, size=shape), f"tensor_{next(self._names)}"
            zero = self.rng.random(shape) < self.zeros
            zero[..., :1] = False
            tensor = TensorParameter(
                *shape, initializer=ConstantTensorInitializer(np.where(zero, 0.0, start)), name=name
            )
            known.append(tensor)
        if kind is None:
            return Parameter.from_input(tensor)
        return Parameter.from_unary(kind(shape, axis=-1) if kind is SoftmaxParameter else kind(shape), tensor)


class Joint:
    """What each assignment of an `EnumeratedCircuit` is worth, for values of its tensors."""

    def __init__(self, drawn: EnumeratedCircuit, values: Values) -> None:
        self.drawn = drawn
        oracle = Oracle(drawn.circuit, values)
        self.worth = oracle.linear(drawn.assignments)[:, 0, 0].astype(float)
        self.largest = np.exp(oracle.largest(drawn.assignments))[:, 0, 0].astype(float)

    def agrees(self, rows: Array) -> Array:
        """Which assignments agree with which rows, `(B, A)`."""
        known = ~np.isnan(rows)
        return ((rows[:, None] == self.drawn.assignments) | ~known[:, None]).all(axis=-1)

    def mass(self, rows: Array) -> Array:
        """The circuit's own value at rows, missing entries summed out."""
        return self.agrees(rows) @ self.worth

    def share(self, rows: Array) -> Array:
        """The probability of each assignment given each row, `(B, A)`; NaN for impossible rows."""
        with np.errstate(all="ignore"):
            return self.agrees(rows) * self.worth / self.mass(rows)[:, None]

    def log_likelihood(self, rows: Array) -> Array:
        """Of what is known of each row."""
        with np.errstate(all="ignore"):
            return np.log(self.mass(rows) / self.worth.sum())

    def conditional(self, rows: Array, given: Array) -> Array:
        """The logarithm of the rest of each row given a part of it."""
        with np.errstate(all="ignore"):
            return np.log(self.mass(rows) / self.mass(np.where(given, rows, np.nan)))

    def box(self, low: Array, high: Array) -> Array:
        """The probability of boxes; NaN is no end."""
        x = self.drawn.assignments
        inside = (np.isnan(low)[:, None] | (x >= low[:, None])) & (np.isnan(high)[:, None] | (x <= high[:, None]))
        return inside.all(axis=-1) @ self.worth / self.worth.sum()

    def mean(self, rows: Array) -> Array:
        """Of each variable given each row."""
        return self.share(rows) @ self.drawn.assignments

    def variance(self, rows: Array) -> Array:
        """Of each variable given each row."""
        return self.share(rows) @ self.drawn.assignments**2 - self.mean(rows) ** 2

    def covariance(self, rows: Array) -> Array:
        """Of all variables given each row, `(B, D, D)`."""
        x, mean = self.drawn.assignments, self.mean(rows)
        return np.einsum("ba,ai,aj->bij", self.share(rows), x, x) - mean[:, :, None] * mean[:, None]

    def posterior(self, rows: Array) -> Array:
        """The probability of each state of each variable given each row, `(B, D, C)`."""
        states = np.arange(max(self.drawn.num_states))
        return np.einsum("ba,adc->bdc", self.share(rows), self.drawn.assignments[:, :, None] == states)

    def at_most(self, rows: Array, variable: int, states: Array) -> Array:
        """The probability that a variable is at most a state, for rows that do not know it: `(B, len(states))`."""
        hidden = np.array(rows)
        hidden[:, variable] = np.nan
        return self.share(hidden) @ (self.drawn.assignments[:, variable, None] <= states)

    def best(self, rows: Array) -> tuple[Array, Array]:
        """The largest value of an assignment with one choice at each sum, and that of an assignment as it is."""
        agrees = self.agrees(rows)
        return (agrees * self.largest).max(axis=1), (agrees * self.worth).max(axis=1)
