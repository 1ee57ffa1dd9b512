"""Random circuits, random compositions of operators, and their values by definition: no rule of Plica is used.

A circuit is a function of rows. A product is the products of values, an integral is a sum over all states, a derivative
is the one of the polynomial through enough values, and a quotient is a division.

    case = Defined(7)                            # draws circuits and composes operators on them
    case.function.circuit                        # of Plica
    case.function.values(rows)                   # (B, outputs, units) in float64 or complex128
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.errors import PlicaError
from plica.symbolic import functional
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    OuterProductLayer,
    PolynomialLayer,
    SumLayer,
    TransposeLayer,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    MixingWeightParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
)

Array = Any
Rows = Mapping[int, Array]
"""A column of numbers for each variable; the key -1 has the number of rows in its length."""

Values = Callable[[Rows], Array]
Tree = Any  # a variable, or a list of trees

KINDS = ("positive", "signed", "complex")


@dataclass(frozen=True, eq=False)
class Function:
    """A circuit, and what it means.

    Args:
        circuit: The circuit.
        values: `(B, outputs, units)` of rows.
        states: The number of states of each variable; of a real one, 0.
        scopes: The variables of each output.
        powers: The highest power of a real variable.
        history: How the circuit was made.
    """

    circuit: Circuit
    values: Values
    states: dict[int, int]
    scopes: tuple[tuple[int, ...], ...]
    powers: int
    history: str
    quotient: bool = False

    @property
    def variables(self) -> list[int]:
        """The variables of any output."""
        return sorted({variable for scope in self.scopes for variable in scope})

    def rows(self, rng: np.random.Generator, count: int) -> dict[int, Array]:
        """Random rows of the variables."""
        columns = {
            variable: rng.normal(size=count) if not states else rng.integers(0, states, count).astype(float)
            for variable, states in self.states.items()
        }
        return {-1: np.zeros(count), **columns}

    def data(self, rows: Rows, rng: np.random.Generator) -> Array:
        """The rows as an array whose column v is variable v; other columns have arbitrary numbers."""
        width = max(self.circuit.data_scope, default=-1) + 1
        table = rng.integers(-5, 99, (len(rows[-1]), width)).astype(float)
        for variable in self.variables:
            table[:, variable] = rows[variable]
        return table


@dataclass
class _Node:
    layer: Layer
    values: Callable[[Rows], Array]  # (B, K)
    variables: tuple[int, ...]


class Draw:
    """Draws circuits over some variables; tensors have numbers in `leaves`."""

    def __init__(self, rng: np.random.Generator, kind: str, states: Mapping[int, int], *, zeros: bool = True) -> None:
        self.rng = rng
        self.kind = kind
        self.states = dict(states)
        self.zeros = zeros
        self.leaves: dict[TensorParameter, Array] = {}
        self.edges: dict[Layer, list[Layer]] = {}

    # Parameters.

    def number(self, *shape: int) -> Array:
        numbers = self.rng.normal(size=shape)
        if self.kind == "positive":
            numbers = np.abs(numbers) + 0.1
        if self.kind == "complex":
            numbers = numbers + 1j * self.rng.normal(size=shape)
        if self.zeros and self.rng.random() < 0.3:
            numbers = np.where(self.rng.random(shape) < 0.3, 0.0, numbers)
        return numbers

    def parameter(self, *shape: int) -> tuple[Any, Callable[[], Array]]:
        """A tensor or a constant, and its numbers."""
        numbers = self.number(*shape)
        if self.rng.random() < 0.2:
            return ConstantParameter(*shape, value=numbers), lambda: numbers
        return self.tensor(numbers)

    def tensor(self, numbers: Array) -> tuple[TensorParameter, Callable[[], Array]]:
        dtype: Any = {"dtype": DataType.COMPLEX} if np.iscomplexobj(numbers) else {}
        leaf = TensorParameter(*numbers.shape, initializer=ConstantTensorInitializer(numbers), **dtype)
        self.leaves[leaf] = numbers
        return leaf, lambda: self.leaves[leaf]

    def logits(self, *shape: int) -> tuple[TensorParameter, Callable[[], Array]]:
        return self.tensor(self.rng.normal(size=shape))

    # Layers.

    def input(self, variable: int, units: int) -> _Node:
        states = self.states[variable]
        if not states:
            degree = int(self.rng.integers(0, 3))
            leaf, numbers = self.parameter(units, degree + 1)
            layer: Layer = PolynomialLayer([variable], units, degree=degree, coeff=leaf)
            return self._input(
                layer, variable, lambda rows: rows[variable][:, None] ** np.arange(degree + 1) @ numbers().T
            )
        choice = int(self.rng.integers(0, 5))
        if choice == 0:
            leaf, numbers = self.logits(units, states)
            layer = CategoricalLayer([variable], units, num_categories=states, logits=leaf)
            table = lambda: np.exp(numbers())  # noqa: E731
        elif choice == 1 and self.kind == "positive":
            leaf, table = self.parameter(units, states)
            layer = CategoricalLayer([variable], units, num_categories=states, probs=leaf)
        elif choice == 2:
            leaf, numbers = self.logits(units)
            if states == 2 and self.rng.random() < 0.5:
                layer = BernoulliLayer([variable], units, logits=leaf)
            else:
                layer = BinomialLayer([variable], units, total_count=states - 1, logits=leaf)
            ways = np.array([math.comb(states - 1, one) for one in range(states)])

            def table() -> Array:
                p = 1.0 / (1.0 + np.exp(-numbers()))[:, None]
                return ways * p ** np.arange(states) * (1.0 - p) ** (states - 1 - np.arange(states))

        else:
            leaf, table = self.parameter(units, states)
            layer = EmbeddingLayer([variable], units, num_states=states, weight=leaf)
        return self._input(layer, variable, lambda rows: table().T[rows[variable].astype(int)])

    def _input(self, layer: Layer, variable: int, values: Values) -> _Node:
        self.edges[layer] = []
        return _Node(layer, values, (variable,))

    def constant(self, units: int) -> _Node:
        leaf, numbers = self.parameter(units)
        layer = ConstantValueLayer(units, value=leaf)
        self.edges[layer] = []
        return _Node(layer, lambda rows: np.broadcast_to(numbers(), (len(rows[-1]), units)), ())

    def sum(self, inputs: Sequence[_Node], units: int) -> _Node:
        width, arity = inputs[0].layer.num_output_units, len(inputs)
        chance = self.rng.random()
        if units == width and chance < 0.25:
            leaf, numbers = self.parameter(units, arity)
            weight = Parameter.from_unary(MixingWeightParameter((units, arity)), leaf)
            layer = SumLayer(width, units, arity, weight)

            def values(rows: Rows) -> Array:
                return sum(one.values(rows) * numbers()[:, at] for at, one in enumerate(inputs))

        else:
            if chance < 0.5:
                leaf, logits = self.logits(units, arity * width)
                weight = Parameter.from_unary(SoftmaxParameter(leaf.shape), leaf)

                def matrix() -> Array:
                    raw = np.exp(logits() - logits().max(1, keepdims=True))
                    return raw / raw.sum(1, keepdims=True)

            else:
                weight, matrix = self.parameter(units, arity * width)
            layer = SumLayer(width, units, arity, weight)

            def values(rows: Rows) -> Array:
                return np.concatenate([one.values(rows) for one in inputs], axis=1) @ matrix().T

        self.edges[layer] = [one.layer for one in inputs]
        return _Node(layer, values, inputs[0].variables)

    def product(self, inputs: Sequence[_Node]) -> _Node:
        widths = [one.layer.num_output_units for one in inputs]
        variables = tuple(sorted(variable for one in inputs for variable in one.variables))
        alike = len(set(widths)) == 1
        if alike and self.rng.random() < 0.5:
            layer: Layer = HadamardLayer(widths[0], len(inputs))

            def values(rows: Rows) -> Array:
                return np.prod([one.values(rows) for one in inputs], axis=0)

        else:
            layer = KroneckerLayer(widths[0], len(inputs)) if alike else OuterProductLayer(widths)

            def values(rows: Rows) -> Array:
                result = np.ones((len(rows[-1]), 1))
                for one in inputs:
                    result = (result[:, :, None] * one.values(rows)[:, None, :]).reshape(
                        len(result), math.prod(result.shape[1:]) * one.layer.num_output_units
                    )
                return result

        self.edges[layer] = [one.layer for one in inputs]
        node = _Node(layer, values, variables)
        return (
            self.transposed(node, widths) if not isinstance(layer, HadamardLayer) and self.rng.random() < 0.3 else node
        )

    def transposed(self, node: _Node, sizes: Sequence[int]) -> _Node:
        axes = self.rng.permutation(len(sizes)).tolist()
        layer = TransposeLayer(sizes, axes)
        self.edges[layer] = [node.layer]

        def values(rows: Rows) -> Array:
            numbers = node.values(rows)
            return (
                numbers.reshape(-1, *sizes)
                .transpose(0, *(axis + 1 for axis in axes))
                .reshape(len(numbers), math.prod(sizes))
            )

        return _Node(layer, values, node.variables)

    # Circuits.

    def region(self, tree: Tree, units: int) -> _Node:
        """A node of some units over a tree of variables."""
        if isinstance(tree, int):
            first = self.input(tree, int(self.rng.integers(1, 4)))
            if first.layer.num_output_units == units and self.rng.random() < 0.5:
                return first
            inputs = [first]
            if self.rng.random() < 0.3:
                inputs.append(self.input(tree, first.layer.num_output_units))
            return self.sum(inputs, units)
        inputs = []
        width = None
        for _ in range(int(self.rng.integers(1, 3))):
            product = self.product(self.parts(tree, int(self.rng.integers(1, 3))))
            if width is None:
                width = product.layer.num_output_units
            elif product.layer.num_output_units != width:
                product = self.sum([product], width)
            inputs.append(product)
        result = self.sum(inputs, units)
        if self.rng.random() < 0.15:  # a product read by two sums
            result = self.sum([result, self.sum([inputs[0]], units)], units)
        return result

    def parts(self, tree: Sequence[Tree], units: int) -> list[_Node]:
        widths = [units if self.rng.random() < 0.7 else int(self.rng.integers(1, 3)) for _ in tree]
        nodes = [self.region(part, width) for part, width in zip(tree, widths, strict=True)]
        if self.rng.random() < 0.1:
            nodes.append(self.constant(units))
        return [nodes[at] for at in self.rng.permutation(len(nodes))]

    def function(self, tree: Tree, outputs: int, units: int) -> Function:
        """A circuit over a tree: outputs of units; some are layers that other outputs read; some layers are dead."""
        self.edges = {}
        nodes = [self.region(tree, units) for _ in range(outputs)]
        if outputs > 1 and self.rng.random() < 0.5:
            nodes[-1] = self.sum([nodes[0], nodes[-1]], units)
        if self.rng.random() < 0.2:
            self.region(tree, units)  # dead
        powers = 2
        circuit = Circuit(list(self.edges), self.edges, [node.layer for node in nodes])

        def values(rows: Rows) -> Array:
            return np.stack([node.values(rows) for node in nodes], axis=1)

        scopes = tuple(node.variables for node in nodes)
        states = {variable: self.states[variable] for scope in scopes for variable in scope}
        return Function(circuit, values, states, scopes, powers, f"c{len(self.leaves)}")


# Operators, by definition.


def _kept(states: Mapping[int, int], scopes: Sequence[Sequence[int]]) -> dict[int, int]:
    return {variable: states[variable] for scope in scopes for variable in scope}


def product(first: Function, second: Function, circuit: Circuit, history: str) -> Function:
    def values(rows: Rows) -> Array:
        one, other = first.values(rows), second.values(rows)
        pairs = one[:, :, None, :, None] * other[:, None, :, None, :]
        batch, outputs, others, units, more = pairs.shape
        return pairs.reshape(batch, outputs * others, units * more)

    states = {
        variable: min([one.states[variable] for one in (first, second) if variable in one.states])
        for variable in {**first.states, **second.states}
    }
    scopes = tuple(tuple(sorted({*a, *b})) for a in first.scopes for b in second.scopes)
    return Function(
        circuit, values, states, scopes, first.powers + second.powers, history, first.quotient or second.quotient
    )


def sums(function: Function, gone: Sequence[int], circuit: Circuit, history: str) -> Function:
    """Sums over all states of some variables."""

    def values(rows: Rows) -> Array:
        count = len(rows[-1])
        total: Array = 0.0
        # an output that lacks a variable is not summed over it
        choices = list(itertools.product(*(range(function.states[one]) for one in gone)))
        for states in choices:
            columns = {one: np.full(count, float(state)) for one, state in zip(gone, states, strict=True)}
            total = total + function.values({**rows, **columns})
        for at, scope in enumerate(function.scopes):
            lacking = math.prod(function.states[one] for one in gone if one not in scope)
            total[:, at] = total[:, at] / lacking
        return total

    scopes = tuple(tuple(one for one in scope if one not in gone) for scope in function.scopes)
    return Function(
        circuit, values, _kept(function.states, scopes), scopes, function.powers, history, function.quotient
    )


def observed(function: Function, known: Mapping[int, float], circuit: Circuit, history: str) -> Function:
    def values(rows: Rows) -> Array:
        return function.values({**rows, **{one: np.full(len(rows[-1]), float(x)) for one, x in known.items()}})

    scopes = tuple(tuple(one for one in scope if one not in known) for scope in function.scopes)
    return Function(
        circuit, values, _kept(function.states, scopes), scopes, function.powers, history, function.quotient
    )


def quotient(function: Function, circuit: Circuit, history: str) -> Function:
    total = sums(function, function.variables, circuit, history)

    def values(rows: Rows) -> Array:
        below = total.values({-1: np.zeros(1)})
        with np.errstate(all="ignore"):
            if np.iscomplexobj(below):
                return function.values(rows) / below
            return np.where(below > 0, function.values(rows) / below, np.nan)

    return Function(circuit, values, function.states, function.scopes, function.powers, history, True)


def derivatives(function: Function, order: int, circuit: Circuit, history: str) -> Function:
    """Of the polynomial in one variable that goes through enough values."""
    nodes = np.cos(np.pi * (np.arange(function.powers + 1) + 0.5) / (function.powers + 1)) * 2.0
    inverse = np.linalg.inv(np.vander(nodes, increasing=True))

    def along(rows: Rows, variable: int, output: int) -> Array:
        at = [function.values({**rows, variable: np.full(len(rows[-1]), node)})[:, output] for node in nodes]
        coefficients = np.einsum("cn,nbk->cbk", inverse, np.stack(at))
        result = 0.0
        for power in range(order, len(nodes)):
            factor = math.perm(power, order) * rows[variable] ** (power - order)
            result = result + coefficients[power] * factor[:, None]
        return result + 0.0 * at[0]

    def values(rows: Rows) -> Array:
        whole, result = function.values(rows), []
        for output, scope in enumerate(function.scopes):
            result += [along(rows, variable, output) for variable in scope]
            result.append(whole[:, output])
        return np.stack(result, axis=1)

    scopes = tuple(scope for scope in function.scopes for _ in range(len(scope) + 1))
    return Function(circuit, values, function.states, scopes, function.powers, history, function.quotient)


# Compositions.

Refused = PlicaError
_whole: Any = np.int64  # users number variables by numpy's integers too


class Defined:
    """A composition of operators on random circuits, with its meaning."""

    def __init__(self, seed: int, *, depth: int = 3, kind: str | None = None, real: bool | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind = kind or KINDS[int(self.rng.integers(0, 3))]
        self.real = bool(self.rng.random() < 0.25) if real is None else real
        if self.real and self.kind == "positive":
            self.kind = "signed"
        count = int(self.rng.integers(1, 4))
        start = int(self.rng.choice([0, 0, 0, 97, 130]))
        names = sorted((self.rng.permutation(count + 2)[:count] + start).tolist())
        states = {name: 0 if self.real else int(self.rng.integers(2, 4)) for name in names}
        self.draw = Draw(self.rng, self.kind, states)
        self.tree = self._tree(names)
        self.pool = [self._fresh() for _ in range(2)]
        self.refusals: list[str] = []
        self.function = self.pool[0]
        for _ in range(int(self.rng.integers(1, depth + 1))):
            made = self._apply(self.function)
            if made is not None and len(made.scopes) <= 24 and made.circuit.outputs[0].num_output_units <= 24:
                self.function = made
                self.pool.append(made)

    @property
    def leaves(self) -> dict[TensorParameter, Array]:
        return self.draw.leaves

    def _tree(self, names: Sequence[int]) -> Tree:
        order = self.rng.permutation(names).tolist()
        if len(order) == 1:
            return order[0]
        if len(order) == 2 or self.rng.random() < 0.3:
            return order
        return [order[0], order[1:]] if self.rng.random() < 0.5 else [order[1:], order[0]]

    def _fresh(self) -> Function:
        tree = self.tree
        if isinstance(tree, list) and self.rng.random() < 0.3:  # fewer variables
            tree = tree[int(self.rng.integers(0, len(tree)))]
        return self.draw.function(tree, int(self.rng.integers(1, 3)), int(self.rng.integers(1, 3)))

    def _apply(self, f: Function) -> Function | None:
        operators = [self._multiply, self._square, self._conjugate, self._mixture, self._rename, self._concatenate]
        operators += [self._evidence, self._smooth, self._simplify]
        if self.real:
            operators += [self._differentiate, self._differentiate]
        else:
            operators += [self._integrate, self._marginal, self._multiply]
            if self.kind == "positive":
                operators += [self._condition, self._normalize]
        operator = operators[int(self.rng.integers(0, len(operators)))]
        try:
            return operator(f)
        except Refused as error:
            self.refusals.append(f"{operator.__name__} {f.history}: {type(error).__name__}: {error}")
            return None

    def _other(self) -> Function:
        return self.pool[int(self.rng.integers(0, len(self.pool)))]

    def _some(self, f: Function) -> list[int]:
        return [one for one in f.variables if self.rng.random() < 0.5]

    def _multiply(self, f: Function) -> Function:
        other = self._other()
        a, b = (f, other) if self.rng.random() < 0.5 else (other, f)
        return product(a, b, functional.multiply(a.circuit, b.circuit), f"({a.history} * {b.history})")

    def _square(self, f: Function) -> Function:
        return product(f, f, functional.power(f.circuit, _whole(2)), f"{f.history}^2")

    def _conjugate(self, f: Function) -> Function:
        circuit = functional.conjugate(f.circuit)
        return Function(
            circuit,
            lambda rows: np.conj(f.values(rows)),
            f.states,
            f.scopes,
            f.powers,
            f"conj({f.history})",
            f.quotient,
        )

    def _concatenate(self, f: Function) -> Function:
        other = self._other()
        circuit = functional.concatenate(one.circuit for one in (f, other))
        states = {
            one: min(g.states[one] for g in (f, other) if one in g.states) for one in {**f.states, **other.states}
        }

        def values(rows: Rows) -> Array:
            return np.concatenate([f.values(rows), other.values(rows)], axis=1)

        return Function(
            circuit,
            values,
            states,
            f.scopes + other.scopes,
            max(f.powers, other.powers),
            f"[{f.history}, {other.history}]",
            f.quotient or other.quotient,
        )

    def _mixture(self, f: Function) -> Function:
        other = self._other() if self.rng.random() < 0.5 else f
        units = f.circuit.outputs[0].num_output_units
        if self.rng.random() < 0.5:
            numbers = self.draw.number(2)
            weights: Any = numbers.tolist() if self.rng.random() < 0.5 else numbers
            table: Callable[[], Array] = lambda: np.broadcast_to(numbers, (units, 2))  # noqa: E731
        else:
            weights, table = self.draw.parameter(units, 2)
        circuit = functional.mixture((one.circuit for one in (f, other)), weights)

        def values(rows: Rows) -> Array:
            return f.values(rows) * table()[:, 0] + other.values(rows) * table()[:, 1]

        return Function(
            circuit,
            values,
            f.states,
            f.scopes,
            max(f.powers, other.powers),
            f"mix({f.history}, {other.history})",
            f.quotient or other.quotient,
        )

    def _rename(self, f: Function) -> Function:
        old = f.variables
        start = int(self.rng.integers(0, 4))
        new = [start + at for at in self.rng.permutation(len(old)).tolist()]
        mapping = dict(zip(old, new, strict=True))
        circuit = functional.rename(f.circuit, {_whole(a): _whole(b) for a, b in mapping.items()})

        def values(rows: Rows) -> Array:
            return f.values({-1: rows[-1], **{a: rows[b] for a, b in mapping.items() if b in rows}})

        states = {mapping[one]: states for one, states in f.states.items()}
        scopes = tuple(tuple(sorted(mapping[one] for one in scope)) for scope in f.scopes)
        return Function(circuit, values, states, scopes, f.powers, f"rename({f.history}, {mapping})", f.quotient)

    def _evidence(self, f: Function) -> Function:
        known = {one: self._value(f, one) for one in self._some(f)}
        circuit = functional.evidence(f.circuit, {_whole(one): value for one, value in known.items()})
        return observed(f, {one: float(value) for one, value in known.items()}, circuit, f"{f.history}|{known}")

    def _value(self, f: Function, variable: int) -> Any:
        states = f.states[variable]
        if not states:
            return float(self.rng.normal())
        value = self.rng.integers(0, states)
        return value if self.rng.random() < 0.5 else int(value)

    def _condition(self, f: Function) -> Function:
        known = {one: self._value(f, one) for one in self._some(f)}
        circuit = functional.condition(f.circuit, known)
        numbers = {one: float(value) for one, value in known.items()}
        return quotient(observed(f, numbers, circuit, ""), circuit, f"cond({f.history}, {known})")

    def _normalize(self, f: Function) -> Function:
        return quotient(f, functional.normalize(f.circuit), f"norm({f.history})")

    def _integrate(self, f: Function) -> Function:
        gone = self._some(f) if self.rng.random() < 0.7 else f.variables
        circuit = functional.integrate(f.circuit, (_whole(one) for one in gone))
        return sums(f, gone, circuit, f"int({f.history}, {gone})")

    def _marginal(self, f: Function) -> Function:
        kept = self._some(f)
        circuit = functional.marginal(f.circuit, (one for one in kept))
        return sums(f, [one for one in f.variables if one not in kept], circuit, f"marg({f.history}, {kept})")

    def _differentiate(self, f: Function) -> Function:
        order = int(self.rng.integers(1, 4))
        return derivatives(f, order, functional.differentiate(f.circuit, order), f"d{order}({f.history})")

    def _smooth(self, f: Function) -> Function:
        return Function(
            functional.smooth(f.circuit), f.values, f.states, f.scopes, f.powers, f"smooth({f.history})", f.quotient
        )

    def _simplify(self, f: Function) -> Function:
        return Function(
            functional.simplify(f.circuit), f.values, f.states, f.scopes, f.powers, f"simple({f.history})", f.quotient
        )
