"""Small circuits of every input layer, rows at the ends of what it takes, and their values by NumPy and SciPy alone.

made = swept_circuit(np.random.default_rng(0), np.float32)
made.scores(rows), made.best(rows)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.symbolic import layers
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import MixingWeightParameter, Parameter
from tests.harness.layer_cases.numbers import RATE
from tests.harness.swept_inputs import FAMILIES, JOINT, Array, Input, Sweeper, Values, log_of


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
        return np.where(self.is_wrong(rows)[:, None, None], np.nan, self._of_the_dtype(found))

    def best(self, rows: Array) -> Array:
        """`(B,)`."""
        found = self.tops[0].best(rows.astype(np.float64))[:, 0]
        return np.where(self.is_wrong(rows), np.nan, self._of_the_dtype(found))

    def _of_the_dtype(self, logs: Array) -> Array:
        """Logarithms as the dtype has them: infinite beyond its largest number."""
        with np.errstate(over="ignore"):
            return logs.astype(self.dtype).astype(np.float64)

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
        names.append(str(rng.choice(list(JOINT))))
        scopes.append(tuple(range(len(scopes), len(scopes) + JOINT[names[-1]].num_variables)))
    inputs: dict[tuple[int, ...], list[Input]] = {scope: [] for scope in scopes}
    edges: dict[Any, list[Any]] = {}
    known: dict[tuple[Any, int], list[Node]] = {}
    weights: list[tuple[Any, Array]] = []

    def leaf(place: int, k: int) -> Node:
        scope, name = scopes[place], names[place]
        for node in known.get((frozenset({place}), k), []):
            if rng.random() < 0.5:
                return node
        one = w.input((FAMILIES | JOINT)[name], scope, k)
        while inputs[scope] and one.layer.domain != inputs[scope][0].layer.domain:  # of as many states
            one = w.input((FAMILIES | JOINT)[name], scope, k)
        inputs[scope].append(one)

        def values(rows: Array, missing: Array) -> Array:
            x = rows[:, list(scope)]
            gone = np.isnan(x)
            found = one.scores(np.where(~gone & np.isin(x, one.wrong), one.points[0], x))
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
            p, a = w.leaf(RATE.draw(w.rng, (k,), 1.0))
            layer: Any = layers.ConstantValueLayer(k, value=p)
            value = np.log(a)
        else:
            name = str(rng.choice(["gaussian", "poisson", "categorical by probs", "student-t", "gamma"]))
            one = w.input(FAMILIES[name], [900], k)
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
        logs = log_of(full)

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
        dead = w.input(FAMILIES["gaussian"], [0], 2).layer
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
