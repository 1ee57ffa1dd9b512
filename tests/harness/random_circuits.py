"""Random circuits at the corners of what can be described, each with data for it, from one seed.

A *family* says what its draws are made of, so that what breaks in one family points to its cause. Circuits have layers
that several read, shared parameters, products of 1 to 4 inputs, sums of 1 to 4, several outputs and interior ones.

    draw = draw_circuit("tiny weights", 17)
    draw.circuit, draw.x, draw.dtype
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    SumLayer,
    TransposeLayer,
)
from plica.symbolic.parameters import MixingWeightParameter, Parameter
from tests.harness.layer_cases import num_states
from tests.harness.random_parameters import INPUTS, REAL, WEIGHTS

Array = Any
Shape = tuple[int, ...]

MILD = (
    "softmax",
    "mixed softmax",
    "exp",
    "direct",
    "constant",
    "kronecker",
    "softplus",
    "sigmoid",
    "square",
    "identity",
    "wrapped",
)
STATES = ("logits", "log-softmax logits", "log logits", "probs", "softmax probs", "exp probs")
NORMAL = ("gaussian", "gaussian with log_partition")
WHOLE = ("int64", "int32", "uint8", "float32", "float64")


@dataclass(frozen=True)
class Family:
    """What draws are made of; every entry of a tuple is as likely as any other.

    Args:
        weights: The kinds of sum weights, names of `WEIGHTS`.
        inputs: The kinds of input layers, names of `INPUTS`.
        scales: What logits and means, standard normal otherwise, are multiplied by.
        data: The dtypes of the data.
        states: The numbers of states of a variable.
        missing: The share of entries that are missing, where the data is floating.
        special: Real values that the data holds beside normal ones.
        dead: Whether there are layers that no output reads, of other states and of higher variables.
        structured: Whether circuits are smooth and decomposable.
        signed: Whether weights are also negative: ordinary numbers alone can carry the values.
        repeats: How often the rows of the data are repeated.
        nested: How likely a sum reads one sum that nobody else reads.
        several: How likely a sum reads several layers that nobody else reads: sums, outer products, or some of each.
        transposed: How likely a Kronecker product is read by a transpose layer, and that by another.
    """

    weights: tuple[str, ...] = MILD
    inputs: tuple[str, ...] = STATES + NORMAL
    scales: tuple[float, ...] = (1.0,)
    data: tuple[str, ...] = WHOLE
    states: tuple[int, ...] = (2, 3)
    missing: float = 0.0
    special: tuple[float, ...] = (0.0, -6.0)
    dead: bool = False
    structured: bool = True
    signed: bool = False
    repeats: int = 1
    nested: float = 0.25
    several: float = 0.0
    transposed: float = 0.0


LOGITS = ("softmax", "log-softmax")
EXTREME = ("logits", "log-softmax logits", "softmax probs")
FAMILIES = {
    "mild": Family(),
    "missing": Family(data=("float32", "float64"), missing=0.4),
    "several variables": Family(inputs=("joint", *STATES)),
    "several variables, missing": Family(inputs=("joint", *STATES), data=("float32", "float64"), missing=0.4),
    "logits of 30": Family(weights=LOGITS, scales=(30.0, 60.0), inputs=EXTREME, states=(2, 8), missing=0.1),
    "logits of 1000": Family(weights=LOGITS, scales=(1000.0,), inputs=EXTREME, states=(2, 8), missing=0.1),
    "tiny weights": Family(
        weights=("tiny", "tiny constant", "tiny constant", "tiny constant"),
        inputs=("logits", "tiny probs", "gaussian"),
        scales=(1.0, 30.0),
        nested=0.6,
    ),
    "zeros": Family(weights=("zeros", "softmax"), inputs=("zero probs", "logits", "gaussian"), missing=0.1),
    "subnormals": Family(weights=("subnormal", "direct"), inputs=("subnormal probs", "probs")),
    "far data": Family(weights=("direct", "zeros"), inputs=NORMAL, scales=(1.0, 1000.0), special=(1e3, -1e4, 1e6)),
    "infinite data": Family(inputs=(*NORMAL, "logits"), data=("float32", "float64"), special=(np.inf, -np.inf)),
    "infinite means": Family(inputs=("gaussian", "infinite mean")),
    "short floats": Family(
        data=("float16", "float16", "bfloat16"), states=(257, 2049), inputs=("logits", "softmax probs")
    ),
    "unsigned data": Family(data=("uint16", "uint32", "uint64", "bool")),
    "dead layers": Family(dead=True, missing=0.1),
    "unstructured": Family(structured=False),
    "negative weights": Family(weights=("signed", "softmax"), signed=True, missing=0.1),
    "sums of several": Family(
        weights=(*LOGITS, "kronecker", "constant"),
        scales=(1.0, 30.0, 1000.0),
        inputs=(*EXTREME, "gaussian"),
        nested=0.1,
        several=0.8,
    ),
    "sums of several, negative weights": Family(weights=("signed", "softmax"), signed=True, nested=0.1, several=0.8),
    "transposes": Family(nested=0.1, transposed=0.8, missing=0.1),
    "many rows": Family(weights=("softmax", "exp", "zeros"), scales=(1.0, 30.0), missing=0.1, repeats=1500),
}


@dataclass(frozen=True)
class Draw:
    """A circuit, the dtype of its parameters, and rows of data that it accepts.

    Args:
        name: What it is called.
        seed: By which tests choose what they choose at random.
        circuit: The circuit.
        dtype: The dtype of its parameters.
        x: The data.
        repeats: How often the first rows of the data are repeated.
        signed: Whether weights may be negative.
    """

    name: str
    seed: int
    circuit: Circuit
    dtype: torch.dtype
    x: torch.Tensor
    repeats: int = 1
    signed: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.circuit!r}, {self.dtype}, data {self.x.dtype}"


def draw_circuit(family: str, seed: int, settings: Family | None = None) -> Draw:
    """The draw of one seed from a family of the table, or from another with settings of its own."""
    settings = settings or FAMILIES[family]
    rng = np.random.default_rng([seed, *family.encode()])
    dtype = np.float32 if rng.random() < 0.5 else np.float64
    writer = _Writer(rng, settings, dtype)
    circuit = writer.circuit()
    data = str(rng.choice(settings.data))
    x = _data(rng, settings, circuit, data)
    name = f"draw {seed} of {family!r}"
    return Draw(name, seed, circuit, getattr(torch, dtype.__name__), x, settings.repeats, settings.signed)


class _Writer:
    """Writes one circuit from the outputs down."""

    def __init__(self, rng: np.random.Generator, family: Family, dtype: Any) -> None:
        self._rng, self._family, self._dtype = rng, family, dtype
        self._scale = float(rng.choice(family.scales))
        self._edges: dict[Any, list[Any]] = {}
        self._pool: dict[tuple[Shape, int], list[Any]] = {}  # layers by variables and units
        self._weights: dict[Shape, list[Parameter]] = {}
        number = int(rng.integers(1, 6))
        self._variables = tuple(int(v) for v in np.sort(rng.choice(number + 2, number, replace=False)))
        real = set(self._kinds(REAL)) and bool(self._kinds(REAL))
        finite = bool(self._kinds([kind for kind in INPUTS if kind not in REAL]))
        states = rng.choice(family.states) if self._has("joint") else None  # alike for variables of one table
        self._states = {
            v: None if real and (not finite or rng.random() < 0.4) else int(states or rng.choice(family.states))
            for v in self._variables
        }

    def circuit(self) -> Circuit:
        """The circuit."""
        rng, units = self._rng, int(self._rng.integers(1, 4))
        outputs = [self._layer(self._variables, units, 3 if self._family.structured else 2)]
        if rng.random() < 0.4:
            outputs.append(self._layer(self._subset(), units, 2))
        if rng.random() < 0.3:
            interior = [one for (_, size), layers in self._pool.items() if size == units for one in layers]
            outputs += [interior[place] for place in rng.integers(len(interior), size=2)]
        if rng.random() < 0.2:
            outputs.append(outputs[0])
        layers = list(self._edges)
        if self._family.dead:
            layers = [*layers, *self._dead()]
        inner = {layer: inputs for layer, inputs in self._edges.items() if inputs}
        return Circuit(layers, inner, outputs)

    def _dead(self) -> list[Any]:
        """Layers that no output reads: of fewer states, of more, of a real variable, and of a higher variable."""
        made = [
            CategoricalLayer([int(self._rng.choice(self._variables))], 2, num_categories=int(self._rng.integers(1, 6))),
            GaussianLayer([int(self._rng.choice(self._variables))], 2),
            CategoricalLayer([max(self._variables) + int(self._rng.integers(1, 3))], 2, num_categories=2),
        ]
        chosen = [one for one in made if self._rng.random() < 0.6] or made[:1]
        total = SumLayer(2, 1, 1)
        self._edges[total] = [chosen[0]]
        return [*chosen, total]

    def _layer(self, scope: Shape, units: int, depth: int) -> Any:
        rng, known = self._rng, self._pool.setdefault((scope, units), [])
        if known and rng.random() < 0.35:
            return known[rng.integers(len(known))]
        layer, inputs = self._new(scope, units, depth)
        self._edges[layer] = inputs
        known.append(layer)
        return layer

    def _new(self, scope: Shape, units: int, depth: int) -> tuple[Any, list[Any]]:
        rng = self._rng
        if len(scope) <= 3 and self._has("joint") and rng.random() < 0.3 and all(self._states[v] for v in scope):
            return self._input(scope, units), []
        if depth > 0 and rng.random() < (0.55 if len(scope) > 1 else 0.4):
            return self._sum(scope, units, depth)
        if len(scope) > 1:
            arity = int(rng.integers(2, min(len(scope), 4) + 1))
            return HadamardLayer(units, arity), [
                self._layer(part, units, depth - 1) for part in self._parts(scope, arity)
            ]
        if depth > 0 and rng.random() < 0.1:
            return HadamardLayer(units, 1), [self._layer(scope, units, depth - 1)]
        return self._input(scope, units), []

    def _sum(self, scope: Shape, units: int, depth: int) -> tuple[Any, list[Any]]:
        rng = self._rng
        arity = int(rng.choice([1, 1, 2, 3, 4]))
        kind = rng.random()
        if depth > 0 and self._family.several and rng.random() < self._family.several:
            inputs = self._several(scope, depth)
        elif kind < self._family.nested:
            inputs = [self._alone(*self._sum(scope, int(rng.integers(1, 5)), depth - 1))]
        elif kind < self._family.nested + 0.25 and len(scope) > 1:
            inputs = [self._outer(scope, depth)]
        else:
            width = units if rng.random() < 0.5 else int(rng.integers(1, 4))
            inputs = [self._layer(self._beside(scope), width, depth - 1) for _ in range(arity)]
        width = inputs[0].num_output_units
        if width == units and rng.random() < 0.3:
            shape = (units, len(inputs))
            weight = Parameter.from_unary(MixingWeightParameter(shape), self._weight(shape))
        else:
            weight = self._weight((units, len(inputs) * width))
        return SumLayer(width, units, len(inputs), weight), inputs

    def _several(self, scope: Shape, depth: int) -> list[Any]:
        """Two to four layers of one width: outer products, or sums of one width of inputs, and maybe another layer."""
        rng, arity = self._rng, int(self._rng.integers(2, 5))
        if len(scope) > 1 and rng.random() < 0.5:
            units = int(rng.integers(2, 4))
            return [self._outer(scope, depth, 2, units) for _ in range(arity)]
        width, below = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        inputs = [self._layer(self._beside(scope), below, depth - 1) for _ in range(2)]
        made: list[Any] = []
        for _ in range(arity):
            read = [inputs[place] for place in rng.integers(2, size=int(rng.integers(1, 3)))]
            weight = self._weight((width, len(read) * below))
            made.append(self._alone(SumLayer(below, width, len(read), weight), read))
        if rng.random() < 0.3:
            made[0] = self._layer(scope, width, depth - 1)
        return made

    def _outer(self, scope: Shape, depth: int, arity: int | None = None, units: int | None = None) -> Any:
        """A Kronecker product, at most 16 units wide unless they are given."""
        if arity is None:
            arity = int(self._rng.integers(2, min(len(scope), 4) + 1))
        if units is None:
            units = int(self._rng.integers(1, 4)) if arity == 2 else int(self._rng.integers(1, 3))
        inputs = [self._layer(part, units, depth - 1) for part in self._parts(scope, arity)]
        product = self._alone(KroneckerLayer(units, arity), inputs)
        while self._family.transposed and self._rng.random() < self._family.transposed:
            sizes = [units] * arity if self._rng.random() < 0.9 else [units**arity, 1]
            order = [int(axis) for axis in self._rng.permutation(len(sizes))]
            product = self._alone(TransposeLayer(sizes, order), [product])
        return product

    def _alone(self, layer: Any, inputs: list[Any]) -> Any:
        """A layer that only the layer under construction reads."""
        self._edges[layer] = inputs
        return layer

    def _input(self, scope: Shape, units: int) -> InputLayer:
        states = self._states[scope[0]]
        if len(scope) > 1:
            kinds = ["joint"]
        else:
            kinds = [kind for kind in self._family.inputs if (kind in REAL) == (states is None)]
        make = INPUTS[str(self._rng.choice(kinds))]
        return make(self._rng, scope, units, states, self._scale, self._dtype)

    def _weight(self, shape: Shape) -> Parameter:
        """A new weight, or one that shares the tensors of another."""
        known = self._weights.setdefault(shape, [])
        if known and self._rng.random() < 0.25:
            return known[self._rng.integers(len(known))].ref()
        kind = str(self._rng.choice(self._family.weights))
        known.append(WEIGHTS[kind](self._rng, shape, self._scale, self._dtype))
        return known[-1]

    def _parts(self, scope: Shape, arity: int) -> Iterable[Shape]:
        """The scopes of the inputs of a product."""
        shuffled = self._rng.permutation(scope)
        cuts = np.sort(self._rng.choice(np.arange(1, len(scope)), arity - 1, replace=False))
        parts = [tuple(sorted(int(v) for v in part)) for part in np.split(shuffled, cuts)]
        return [self._beside(part) for part in parts]

    def _beside(self, scope: Shape) -> Shape:
        """The scope, or another where circuits need not be smooth and decomposable."""
        return scope if self._family.structured or self._rng.random() < 0.7 else self._subset()

    def _subset(self) -> Shape:
        size = int(self._rng.integers(1, len(self._variables) + 1))
        return tuple(sorted(int(v) for v in self._rng.choice(self._variables, size, replace=False)))

    def _has(self, kind: str) -> bool:
        return kind in self._family.inputs

    def _kinds(self, among: Iterable[str]) -> list[str]:
        return [kind for kind in self._family.inputs if kind in among]


def _data(rng: Any, family: Family, circuit: Circuit, dtype: str) -> torch.Tensor:
    """Rows of the states and numbers that the layers read by an output take."""
    rows = int(rng.choice([0, 1, 2, 5, 9])) if family.repeats == 1 else 5
    whole = not dtype.startswith(("float", "bfloat"))
    x = rng.integers(0, 2, (rows, max(circuit.scope) + 1)).astype(float)  # what nobody reads may be anything
    for layer in circuit.subgraph(*circuit.outputs).input_layers:
        for v in layer.scope:
            if num_states(layer) is None:
                near = rng.integers(0, 2, rows) if whole else rng.normal(size=rows)
                x[:, v] = near if whole else np.where(rng.random(rows) < 0.2, rng.choice(family.special, rows), near)
            else:
                most = 2 if dtype == "bool" else num_states(layer) or 0
                edge = np.where(rng.random(rows) < 0.3, most - 1, rng.integers(0, most, rows))
                x[:, v] = edge
    if not whole and family.structured:
        x = np.where(rng.random(x.shape) < family.missing, np.nan, x)
    x = np.concatenate(list(itertools.repeat(x, family.repeats)))
    return torch.from_numpy(x).to(getattr(torch, dtype))
