"""Random circuits of layers that hold layers, padded tables, and parameters that share nodes; and what they compute.

The values are computed in long double and without logarithms, straight from the symbolic circuit; those of parameters
by the oracle.
Derivatives come with them: along a direction `d`, from the imaginary part at `x + i h d` for a tiny h (Squire and
Trapp, "Using complex variables to estimate derivatives of real functions", 1998).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import Domain, finite
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, InputLayer, InputRow, KroneckerLayer, SumLayer
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import (
    ComposedParameter,
    ConcatParameter,
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    MixingWeightParameter,
    Parameter,
    ParameterOp,
    ReferenceParameter,
    SoftmaxParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope
from tests.harness.oracle import evaluate

STEP = np.longdouble("1e-60")


@dataclass(frozen=True, eq=False)
class Mixed(FieldsLayer, InputLayer):
    """A weighted sum of layers of one scope."""

    parts: tuple[InputLayer, ...]
    share: Parameter  # (K, parts)

    @property
    def scope(self) -> Scope:
        return self.parts[0].scope

    @property
    def domain(self) -> Domain:
        return self.parts[0].domain

    @property
    def num_output_units(self) -> int:
        return self.parts[0].num_output_units

    @property
    def sub_layers(self) -> dict[str, Any]:
        return {f"parts.{place}": part for place, part in enumerate(self.parts)}


@dataclass(frozen=True, eq=False)
class TwoTables(FieldsLayer, InputLayer):
    """The product of two tables, each padded."""

    scope: Scope
    num_output_units: int
    size: int
    left: Parameter  # (K, size)
    right: Parameter  # (K, size)

    @property
    def domain(self) -> Domain:
        return finite(self.size)

    @property
    def padded(self) -> dict[str, str]:
        return {"left": "size", "right": "size"}


@dataclass(frozen=True, eq=False, init=False)
class Product(ComposedParameter):
    """A matrix of low rank."""

    shape: tuple[int, ...]
    factors: tuple[Any, Any]

    def __init__(self, *shape: int, factors: tuple[Any, Any]) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "factors", factors)

    @property
    def config(self) -> dict[str, Any]:
        return {"factors": self.factors}

    def compose(self) -> Parameter:
        first, second = map(tensor, self.factors)
        return Parameter.from_binary(MatMulParameter(first.shape, second.shape), first, second)


def tensor(value: Any) -> TensorParameter:
    """A learnable tensor of given numbers."""
    return TensorParameter(*np.shape(value), initializer=ConstantTensorInitializer(value))


def _mixed(xp: Any, semiring: Any, layer: Mixed, params: Any, value: Callable[[Any], Any]) -> Any:
    terms = []
    for place, name in enumerate(layer.sub_layers):
        weight = params.weight("share").map(lambda share, at=place: xp.expand_dims(share[:, :, at], axis=1))
        terms.append(semiring.product(xp, value(params.sub_layers[name]), semiring.from_weight(xp, weight)))
    return semiring.total(xp, terms)


def _mixed_body(xp: Any, semiring: Any, layer: Mixed, params: Any, x: Any) -> Any:
    return _mixed(xp, semiring, layer, params, lambda one: one.row.body(xp, semiring, one.layer, one.params, x))


def _mixed_marginal(xp: Any, semiring: Any, layer: Mixed, params: Any) -> Any:
    return _mixed(xp, semiring, layer, params, lambda one: one.row.marginal(xp, semiring, one.layer, one.params))


def _tables_body(xp: Any, semiring: Any, _: TwoTables, params: Any, x: Any) -> Any:
    index = xp.astype(xp.squeeze(x, axis=-1), xp.int64)
    both = [params.weight(name).map(lambda table: xp.lookup(table, index)) for name in ("left", "right")]
    return semiring.product(xp, *(semiring.from_weight(xp, one) for one in both))


def _tables_marginal(xp: Any, semiring: Any, _: TwoTables, params: Any) -> Any:
    tables, states = [params.weight(name) for name in ("left", "right")], int(params["left"].shape[2])
    terms = []
    for state in range(states):  # as products of weights, not of numbers: where one underflows its logarithm does not
        both = [one.map(lambda table, at=state: xp.expand_dims(table[:, :, at], axis=1)) for one in tables]
        terms.append(semiring.product(xp, *(semiring.from_weight(xp, one) for one in both)))
    return semiring.total(xp, terms)


def _never(*_: Any) -> Any:
    raise AssertionError("nothing is sampled")


ROWS = (
    InputRow(Mixed, _mixed_body, _mixed_marginal, _never),
    InputRow(TwoTables, _tables_body, _tables_marginal, _never, padding={"left": 0.0, "right": 1.0}),
)

# Drawn


class Composer:
    """Draws one circuit, and rows of data for it.

    Args:
        seed: By which everything is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 9])
        self.scale = float(self.rng.choice([1.0, 5.0, 40.0]))
        self.states = [int(one) for one in self.rng.choice([2, 3, 5, 11], int(self.rng.integers(1, 6)))]
        self.edges: dict[Any, list[Any]] = {}
        self.layers: dict[Any, list[Any]] = {}
        self.leaves: dict[Any, list[Any]] = {}
        self.parameters: dict[Any, list[Parameter]] = {}
        self.operations: dict[Any, ParameterOp] = {}

    def circuit(self) -> Circuit:
        """The circuit, of one output or several."""
        units, variables = self._one_of(1, 2, 3), range(len(self.states))
        outputs = [self._layer(tuple(variables), units, 4)]
        while self._is_so(0.35):
            outputs.append(self._layer(tuple(one for one in variables if self._is_so(0.6)) or (0,), units, 3))
        outputs += outputs[:1] if self._is_so(0.15) else []
        return Circuit(list(self.edges), {layer: reads for layer, reads in self.edges.items() if reads}, outputs)

    def data(self) -> Any:
        """Rows of states, some of them missing, as floats."""
        rows = np.stack([self.rng.integers(0, states, 4) for states in self.states], axis=1).astype(float)
        return np.where(self.rng.random(rows.shape) < self._one_of(0.0, 0.3), np.nan, rows)

    def _is_so(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def _leaf(self, shape: tuple[int, ...]) -> Any:
        known = self.leaves.setdefault(shape, [])
        if known and self._is_so(0.3):
            leaf = self._one_of(*known)
            return leaf if self._is_so(0.5) or isinstance(leaf, ConstantParameter) else ReferenceParameter(leaf)
        known.append(self._new_leaf(shape))
        return known[-1]

    def _new_leaf(self, shape: tuple[int, ...]) -> Any:
        def normal(*sizes: int, scale: float = self.scale) -> Any:
            return (self.rng.normal(size=sizes) * scale).astype(np.float32).astype(np.float64)

        if self._is_so(0.15):
            rank, scale = self._one_of(1, 2), self.scale**0.5
            return Product(*shape, factors=(normal(shape[0], rank, scale=scale), normal(rank, shape[1], scale=scale)))
        return ConstantParameter(*shape, value=normal(*shape)) if self._is_so(0.15) else tensor(normal(*shape))

    def _operation(self, kind: type[Any], *shapes: tuple[int, ...], **config: Any) -> Any:
        """A new operation, or one that stands in another parameter."""
        key = (kind, shapes, tuple(config.items()))
        known = self.operations.get(key)
        self.operations[key] = known if known is not None and self._is_so(0.3) else kind(*shapes, **config)
        return self.operations[key]

    def _weight(self, shape: tuple[int, int], depth: int = 2) -> Parameter:
        """A parameter of numbers that are not negative."""
        known = self.parameters.setdefault(shape, [])
        if known and self._is_so(0.3):
            found = self._one_of(*known)
            return found if self._is_so(0.5) else found.ref()
        known.append(self._new_weight(shape, depth))
        return known[-1]

    def _new_weight(self, shape: tuple[int, int], depth: int) -> Parameter:
        (rows, columns), kind = shape, self.rng.random()
        if depth == 0 or kind < 0.5:
            return Parameter.from_unary(self._operation(SoftmaxParameter, shape), self._leaf(shape))
        if kind < 0.6:
            logs = Parameter.from_unary(self._operation(LogSoftmaxParameter, shape, axis=0), self._leaf(shape))
            return Parameter.from_unary(ExpParameter(shape), logs)
        if kind < 0.7:
            both = [self._weight(shape, depth - 1) for _ in range(2)]
            return _of_two(HadamardParameter(shape, shape), *both)
        if kind < 0.8:
            first, second = (rows, 3), (3, columns)
            op = MatMulParameter(first, second)
            return _of_two(op, self._weight(first, depth - 1), self._weight(second, depth - 1))
        if kind < 0.9:
            indices = tuple(int(one) for one in self.rng.integers(0, rows + 1, rows))
            op2 = IndexParameter((rows + 1, columns), indices=indices, axis=0)
            return Parameter.from_unary(op2, self._weight((rows + 1, columns), depth - 1))
        parts = [self._weight((rows, size), depth - 1) for size in (columns, 1)]
        joined = _of_two(ConcatParameter((rows, columns), (rows, 1)), *parts)
        last = IndexParameter((rows, columns + 1), indices=tuple(range(1, columns + 1)))
        return Parameter.from_unary(last, joined)

    def _layer(self, scope: tuple[int, ...], units: int, depth: int) -> Any:
        known = self.layers.setdefault((scope, units), [])
        if known and self._is_so(0.35):
            return self._one_of(*known)
        layer, reads = self._new_layer(scope, units, depth)
        self.edges[layer] = reads
        known.append(layer)
        return layer

    def _new_layer(self, scope: tuple[int, ...], units: int, depth: int) -> tuple[Any, list[Any]]:
        if depth > 0 and self._is_so(0.6):
            return self._sum(scope, units, depth)
        if len(scope) > 1:
            return HadamardLayer(units), [self._layer(part, units, depth - 1) for part in self._halves(scope)]
        return self._input(scope[0], units, 2), []

    def _halves(self, scope: tuple[int, ...]) -> list[tuple[int, ...]]:
        at = int(self.rng.integers(1, len(scope)))
        return [scope[:at], scope[at:]]

    def _sum(self, scope: tuple[int, ...], units: int, depth: int) -> tuple[Any, list[Any]]:
        arity, kind = self._one_of(1, 1, 2, 3), self.rng.random()
        if kind < 0.2:
            weight = Parameter.from_unary(MixingWeightParameter((units, arity)), self._weight((units, arity)))
            return SumLayer(units, units, arity, weight), [self._layer(scope, units, depth - 1) for _ in range(arity)]
        if kind < 0.3:
            eye = ConstantParameter(units, units, value=np.eye(units))
            return SumLayer(units, units, 1, eye), [self._layer(scope, units, depth - 1)]
        width = self._one_of(1, 2, 4)
        reads = [self._read(scope, width, depth) for _ in range(arity)]
        shape = (units, width * arity)
        if kind < 0.5 and shape[1] % 2 == 0:
            shapes = (1, shape[1] // 2), (units, 2)
            factors = [self._weight(one) for one in shapes]
            return SumLayer(width, units, arity, _of_two(KroneckerParameter(*shapes), *factors)), reads
        return SumLayer(width, units, arity, self._weight(shape)), reads

    def _read(self, scope: tuple[int, ...], width: int, depth: int) -> Any:
        """An input of a sum: any layer, or an outer product or another sum that nobody else reads."""
        if len(scope) > 1 and width == 4 and self._is_so(0.7):
            layer: Any = KroneckerLayer(2)
            self.edges[layer] = [self._layer(part, 2, depth - 1) for part in self._halves(scope)]
            return layer
        if depth > 1 and self._is_so(0.4):
            layer = SumLayer(2, width, 1, self._weight((width, 2)))
            self.edges[layer] = [self._layer(scope, 2, depth - 2)]
            return layer
        return self._layer(scope, width, depth - 1)

    def _input(self, variable: int, units: int, depth: int) -> InputLayer:
        states, kind = self.states[variable], self.rng.random()
        if depth and kind < 0.35:
            parts = tuple(self._input(variable, units, depth - 1) for _ in range(self._one_of(1, 2, 3)))
            return Mixed(parts, self._weight((units, len(parts))))
        shape = (units, states)
        if kind < 0.6:
            return TwoTables(Scope([variable]), units, states, self._weight(shape), self._weight(shape))
        if kind < 0.8:
            return CategoricalLayer([variable], units, num_categories=states, probs=self._weight(shape))
        logits = Parameter.from_unary(self._operation(LogSoftmaxParameter, shape), self._leaf(shape))
        return CategoricalLayer([variable], units, num_categories=states, logits=logits)


def _of_two(op: ParameterOp, first: Parameter, second: Parameter) -> Parameter:
    """An operation on two parameters: one object may not stand in two places of one parameter."""
    return Parameter.from_binary(op, first, second.ref())


# Computed


def _matmul(x: Any, y: Any) -> Any:
    return (x[:, :, None] * y[None]).sum(axis=1)  # what BLAS computes is no long double


def reference(circuit: Circuit, x: Any, directions: Mapping[TensorParameter, Any]) -> tuple[Any, Any]:
    """The values of the outputs, `(B, outputs, units)`, and the derivatives of their logarithms in a direction."""
    values: dict[Any, Any] = {}
    leaves = _leaves(circuit, directions)
    for layer in circuit.layers:
        inputs = [values[one] for one in circuit.layer_inputs(layer)]
        if isinstance(layer, InputLayer):
            values[layer] = _input_value(layer, x, leaves)
        elif isinstance(layer, HadamardLayer):
            values[layer] = inputs[0] * inputs[1]
        elif isinstance(layer, KroneckerLayer):
            values[layer] = (inputs[0][:, :, None] * inputs[1][:, None]).reshape(len(x), -1)
        else:
            assert isinstance(layer, SumLayer), "nothing else is drawn"
            values[layer] = _matmul(np.concatenate(inputs, axis=1), evaluate(layer.weight, leaves).T)
    stacked = np.stack([values[output] for output in circuit.outputs], axis=1)
    return stacked.real, stacked.imag / STEP / stacked.real


def _input_value(layer: Any, x: Any, leaves: Mapping[Any, Any]) -> Any:
    params = {name: evaluate(parameter, leaves) for name, parameter in layer.params.items()}
    if isinstance(layer, Mixed):
        return sum(_input_value(part, x, leaves) * params["share"][:, at] for at, part in enumerate(layer.parts))
    if isinstance(layer, TwoTables):
        table = params["left"] * params["right"]
    else:
        table = np.exp(params["logits"]) if "logits" in params else params["probs"]
    column = x[:, next(iter(layer.scope))]
    missing = np.isnan(column)
    known = table[:, np.where(missing, 0, column).astype(int)].T
    return np.where(missing[:, None], table.sum(axis=1), known)


def _leaves(circuit: Circuit, directions: Mapping[TensorParameter, Any]) -> dict[Any, Any]:
    """The values of all leaves but constants."""
    nodes = [one for layer in circuit.layers for parameter in layer.all_params.values() for one in parameter.nodes]
    found: dict[Any, Any] = {}
    for node in nodes:
        leaf: Any = node.deref() if isinstance(node, ReferenceParameter) else node
        if isinstance(leaf, Product):
            found[leaf] = _matmul(*(factor.astype(np.clongdouble) for factor in leaf.factors))
        elif isinstance(leaf, TensorParameter):
            found[leaf] = leaf.config["initializer"].value.astype(np.clongdouble) + 1j * STEP * directions[leaf]
    return found
