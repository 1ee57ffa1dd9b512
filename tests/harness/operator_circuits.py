"""Random circuits for operators from circuit to circuit, rules of input layers for them, and their values in numpy.

Two circuits of a pair are drawn from one tree of variables, each in its own way: with other orders, arities, widths and
numbers of variables, with products taken apart or nested, and with parts from other trees.

    first, second = pair(7)
    leaves = numbers(np.random.default_rng(7), first, second)
    values(circuit, leaves, x)    # (B, outputs, units), of any circuit that shares the tensors
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import (
    OPERATOR_ROWS,
    CategoricalLayer,
    CircuitBlock,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    Layer,
    OperatorKey,
    OperatorRow,
    OuterProductLayer,
    SumLayer,
    TransposeLayer,
)
from plica.symbolic.parameters import (
    ExpParameter,
    IndexParameter,
    OuterProductParameter,
    Parameter,
    ReduceSumParameter,
    TensorParameter,
    mixing_weight_factory,
    normal,
)
from tests.harness.oracle import Oracle, keys

Array = Any
Tree = Any  # a variable, or a list of trees
STATES = (2, 3, 2, 4, 2, 3, 2, 2)
"""The number of states of each variable."""


# Rules of input layers: tables of numbers.


def _table(layer: Any) -> Parameter:
    if isinstance(layer, EmbeddingLayer):
        return layer.weight.ref()
    if layer.probs is not None:
        return layer.probs.ref()
    return Parameter.from_unary(ExpParameter(layer.logits.shape), layer.logits.ref())


def _multiply(first: Any, second: Any) -> CircuitBlock:
    tables = _table(first), _table(second)
    weight = Parameter.from_binary(OuterProductParameter(*(table.shape for table in tables), axis=0), *tables)
    units = first.num_output_units * second.num_output_units
    return CircuitBlock.from_layer(EmbeddingLayer(first.scope, units, num_states=tables[0].shape[1], weight=weight))


def _integrate(layer: Any, *, scope: Any) -> CircuitBlock:
    assert scope == layer.scope
    table = _table(layer)
    value = Parameter.from_unary(ReduceSumParameter(table.shape), table)
    return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, value=value))


def _constant(layer: EvidenceLayer) -> CircuitBlock:
    table, state = _table(layer.layer), int(np.asarray(getattr(layer.observation.output, "value")).item())  # noqa: B009
    column = Parameter.from_sequence(table, IndexParameter(table.shape, indices=[state]))
    value = Parameter.from_unary(ReduceSumParameter(column.shape), column)
    return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, value=value))


_TABLES = (CategoricalLayer, EmbeddingLayer)


@dataclass
class TableRules:
    """The built-in rules, and those of tables where there are none."""

    own: dict[OperatorKey, OperatorRow] = field(
        default_factory=lambda: (
            {
                ("multiply", (one, other)): OperatorRow("multiply", (one, other), _multiply)
                for one in _TABLES
                for other in _TABLES
            }
            | {("integrate", (one,)): OperatorRow("integrate", (one,), _integrate) for one in _TABLES}
            | {("constant", (EvidenceLayer,)): OperatorRow("constant", (EvidenceLayer,), _constant)}
        )
    )

    def find(self, key: OperatorKey) -> OperatorRow | None:
        return self.own.get(key) or OPERATOR_ROWS.get(key)


class NoRules:
    """A registry without any rule, so that operators do what they do by default."""

    def find(self, key: OperatorKey) -> OperatorRow | None:  # noqa: ARG002
        return None


RULES = TableRules()
NO_RULES = NoRules()


# Values.


def numbers(rng: np.random.Generator, *circuits: Circuit) -> dict[TensorParameter, Array]:
    """A draw for each tensor of some circuits."""
    leaves: dict[TensorParameter, Array] = {}
    for circuit in circuits:
        for leaf in keys(circuit):
            if leaf not in leaves:
                draw = rng.normal(size=leaf.shape)
                is_complex = leaf.dtype == DataType.COMPLEX
                leaves[leaf] = draw + 1j * rng.normal(size=leaf.shape) if is_complex else draw
    return leaves


def values(circuit: Circuit, leaves: dict[TensorParameter, Array], x: Array) -> Array:
    """The values `(B, outputs, units)` of a circuit, layer by layer in numpy; variables that are NaN are summed out."""
    return Oracle(circuit, {key: leaves[leaf] for leaf, key in keys(circuit).items()}).linear(x)


def rows(rng: np.random.Generator, count: int = 5) -> Array:
    """Random states of all variables, `(count, variables)`."""
    return np.stack([rng.integers(0, states, count) for states in STATES], axis=1)


def products(first: Array, second: Array) -> Array:
    """The products of all pairs of outputs and of units, those of the first slowest."""
    pairs = first[:, :, None, :, None] * second[:, None, :, None, :]  # (B, O, P, I, J)
    batch, outputs, others, units, more = pairs.shape
    return pairs.reshape(batch, outputs * others, units * more)


def close(found: Array, expected: Array) -> None:
    """Equal to 1e-9 of the largest of the expected numbers."""
    scale = max(float(np.abs(expected).max(initial=0)), 1e-300)
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.asarray(found / scale, complex), np.asarray(expected / scale, complex), atol=1e-9)


# Random circuits.


def tree_of(rng: np.random.Generator, variables: Sequence[int]) -> Tree:
    """A random tree of variables."""
    if len(variables) == 1:
        return variables[0]
    order = [int(variable) for variable in rng.permutation(variables)]
    parts = int(rng.integers(2, min(3, len(order)) + 1))
    cuts = sorted(rng.choice(np.arange(1, len(order)), parts - 1, replace=False).tolist())
    return [tree_of(rng, order[low:high]) for low, high in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def variables_of(tree: Tree) -> list[int]:
    """The variables of a tree."""
    return [tree] if isinstance(tree, int) else [variable for part in tree for variable in variables_of(part)]


def restricted(tree: Tree, variables: Sequence[int]) -> Tree | None:
    """The tree of some of its variables; None for none."""
    if isinstance(tree, int):
        return tree if tree in variables else None
    parts = [part for part in (restricted(part, variables) for part in tree) if part is not None]
    return parts[0] if len(parts) == 1 else parts or None


@dataclass
class Draw:
    """A circuit under construction.

    Args:
        rng: Where it is drawn from.
        other_trees: How often a region takes another tree.
    """

    rng: np.random.Generator
    other_trees: float = 0.0
    edges: dict[Layer, tuple[Layer, ...]] = field(default_factory=dict)
    regions: dict[tuple[str, int], list[Layer]] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def add(self, layer: Layer, *inputs: Layer) -> Layer:
        self.edges[layer] = inputs
        return layer

    def region(self, tree: Tree, units: int) -> Layer:
        """A layer over the variables of a tree; sometimes one that is read already."""
        known = self.regions.setdefault((str(sorted(variables_of(tree))), units), [])
        if known and self.chance(0.3):
            return known[int(self.rng.integers(len(known)))]
        known.append(self._input(tree, units) if isinstance(tree, int) else self._sum(tree, units))
        return known[-1]

    def _input(self, variable: int, units: int) -> Layer:
        if self.chance(0.3):
            width, arity = int(self.rng.integers(1, 3)), int(self.rng.integers(1, 3))
            return self._weighted(units, [self._leaf(variable, width) for _ in range(arity)])
        return self._leaf(variable, units)

    def _leaf(self, variable: int, units: int) -> Layer:
        states = STATES[variable]
        if self.chance(0.5):
            return self.add(EmbeddingLayer([variable], units, num_states=states))
        settings: dict[str, Any] = {"logits_factory": normal} if self.chance(0.5) else {"probs_factory": normal}
        return self.add(CategoricalLayer([variable], units, num_categories=states, **settings))

    def _sum(self, tree: Tree, units: int) -> Layer:
        """A sum of products, or one product."""
        if self.chance(0.15):
            return self._product(tree, units)
        arity = int(self.rng.integers(1, 4))
        width = units if self.chance(0.4) else int(self.rng.choice([1, 2, 3, 4, 6]))
        terms = [
            self.region(tree, width) if self.chance(0.1) else self._product(self._tree(tree), width)
            for _ in range(arity)
        ]
        return self._weighted(units, terms)

    def _weighted(self, units: int, terms: Sequence[Layer]) -> Layer:
        width = terms[0].num_output_units
        weight: Any = normal
        if width == units and self.chance(0.3):
            weight = lambda shape: mixing_weight_factory(shape, param_factory=normal)  # noqa: E731
        return self.add(SumLayer(width, units, len(terms), weight_factory=weight), *terms)

    def _tree(self, tree: Tree) -> Tree:
        """The tree, some of its parts taken apart, some joined; or another one."""
        if self.chance(self.other_trees):
            return tree_of(self.rng, variables_of(tree))
        if isinstance(tree, int):
            return tree
        parts: list[Tree] = []
        for part in tree:
            parts += part if isinstance(part, list) and self.chance(0.25) else [part]
        return [parts[at] for at in self.rng.permutation(len(parts))]

    def _product(self, tree: Tree, units: int) -> Layer:
        """A product over the parts of a tree."""
        if isinstance(tree, int):
            return self.region(tree, units)
        if len(tree) > 2 and self.chance(0.3):  # a product of products
            return self._of_parts([tree[:2], *tree[2:]], units, nested=True)
        return self._of_parts(tree, units)

    def _of_parts(self, parts: Sequence[Tree], units: int, *, nested: bool = False) -> Layer:
        factors = _factors(units, len(parts))
        kind = self.rng.choice(["hadamard", "outer", "transposed"])
        if kind == "hadamard" or factors is None:
            widths = [units] * len(parts)
        else:
            widths = [int(width) for width in self.rng.permutation(factors)]
        layers = [
            self._product(part, width) if nested and at == 0 else self.region(part, width)
            for at, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        if kind == "hadamard" or factors is None:
            return self.add(HadamardLayer(units, len(layers)), *layers)
        alike = len(dict.fromkeys(widths)) == 1
        layer = self.add(KroneckerLayer(widths[0], len(widths)) if alike else OuterProductLayer(widths), *layers)
        if kind == "transposed":
            order = [int(axis) for axis in self.rng.permutation(len(widths))]
            layer = self.add(TransposeLayer(widths, order), layer)
        return layer

    def circuit(self, *outputs: Layer) -> Circuit:
        layers = list(self.edges)
        shuffled = [layers[at] for at in self.rng.permutation(len(layers))]
        return Circuit(shuffled, {layer: inputs for layer, inputs in self.edges.items() if inputs}, outputs)


def _factors(units: int, count: int) -> list[int] | None:
    """Widths whose product is a number of units."""
    splits = {1: [1], 2: [2], 3: [3], 4: [2, 2], 6: [2, 3]}.get(units)
    if splits is None or len(splits) > count:
        return None
    return splits + [1] * (count - len(splits))


def circuit(rng: np.random.Generator, tree: Tree, *, other_trees: float = 0.0) -> Circuit:
    """A random circuit over the variables of a tree, with one or two outputs; the second may be an interior layer."""
    draw = Draw(rng, other_trees)
    units = int(rng.integers(1, 3))
    outputs = [draw.region(tree, units) for _ in range(int(rng.integers(1, 3)))]
    if not isinstance(tree, int) and draw.chance(0.2):
        outputs.append(draw.region(tree[0], units))
    if draw.chance(0.2):
        draw.region(tree, 2)  # layers that no output reads
    return draw.circuit(*outputs)


def pair(seed: int, variables: int = 5, other_trees: float = 0.4) -> tuple[Circuit, Circuit]:
    """Two random circuits."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, variables + 1))
    tree = tree_of(rng, [int(variable) for variable in rng.permutation(len(STATES))[:count]])
    both = []
    for _ in range(2):
        kept = variables_of(tree)
        if rng.random() < 0.4 and len(kept) > 1:
            kept = [kept[at] for at in rng.permutation(len(kept))[: int(rng.integers(1, len(kept)))]]
        part = restricted(tree, kept)
        both.append(circuit(rng, part, other_trees=other_trees if rng.random() < 0.6 else 0.0))
    return both[0], both[1]


def leaf(variable: int, units: int) -> InputLayer:
    """A table of numbers of one variable."""
    return EmbeddingLayer([variable], units, num_states=STATES[variable])
