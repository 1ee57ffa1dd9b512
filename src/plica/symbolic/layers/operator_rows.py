"""What an operator on circuits does to layers: rules by operator and classes of layers, and the blocks that they give.

A layer's file lists its rules as `OPERATORS`, beside its `ROW`. The traversals are in `plica.symbolic.operators`.

>>> from plica.symbolic.layers import EmbeddingLayer, HadamardLayer
>>> CircuitBlock.from_layer(EmbeddingLayer([0], 4)).inputs, CircuitBlock.from_layer(HadamardLayer(4, arity=2)).inputs
((), (HadamardLayer(arity=2, 4 -> 4),))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Protocol, TypeAlias, final

from plica.errors import GraphError
from plica.symbolic.layers.base import InnerLayer, Layer

OperatorKey: TypeAlias = tuple[str, tuple[type[Layer], ...]]
"""The operator, and the class of the layer of each operand."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CircuitBlock:
    """A part of a circuit with one output, which the rule of an operator returns.

    Args:
        layers: New layers; their parameters refer to those of the operands (`Layer.copyref`, `Parameter.ref`).
        in_layers: The inputs of inner layers among them. An inner layer that is left out is an input of the block: the
            traversal connects it.
        output: The layer whose units the block gives.

    Raises:
        GraphError: The output, or an input of a layer, is not among the layers.
    """

    layers: tuple[Layer, ...]
    in_layers: Mapping[Layer, Sequence[Layer]] = field(default_factory=dict)
    output: Layer = field(kw_only=True)

    def __post_init__(self) -> None:
        named = (self.output, *self.in_layers, *itertools.chain.from_iterable(self.in_layers.values()))
        for layer in named:
            if layer not in self.layers:
                raise GraphError(f"CircuitBlock: {layer!r} is not among its layers; add it to `layers`")

    @classmethod
    def from_layer(cls, layer: Layer) -> CircuitBlock:
        """One layer."""
        return cls((layer,), output=layer)

    @classmethod
    def from_layer_composition(cls, *layers: Layer) -> CircuitBlock:
        """A chain: each layer reads the one before it; the last is the output."""
        chain = {after: (before,) for before, after in itertools.pairwise(layers)}
        return cls(layers, chain, output=layers[-1])

    @classmethod
    def from_nary_layer(cls, layer: Layer, *inputs: Layer) -> CircuitBlock:
        """One layer and the layers that it reads, in order."""
        return cls((*dict.fromkeys(inputs), layer), {layer: inputs}, output=layer)

    @property
    def inputs(self) -> tuple[Layer, ...]:
        """The inner layers that the traversal connects, in order."""
        return tuple(layer for layer in self.layers if isinstance(layer, InnerLayer) and layer not in self.in_layers)


@final
@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A registry entry: the rule of an operator for layers of given classes.

    Args:
        operator: Its name: `multiply`, `integrate`, ...
        layers: The class of the layer of each operand.
        rule: Gives the layers of the result, a `CircuitBlock`, from those layers and the settings of the operator.
            It raises `UnsupportedError` for layers that it cannot take.
    """

    operator: str
    layers: tuple[type[Layer], ...]
    rule: Callable[..., CircuitBlock]


class OperatorRegistry(Protocol):
    """Where the rows of operators are found: the registry of a context, or the built-in table.

    >>> from plica.symbolic.circuit import Circuit
    >>> from plica.symbolic.functional import multiply
    >>> from plica.symbolic.layers import EmbeddingLayer
    >>> class NoRules(OperatorRegistry):
    ...     def find(self, key):
    ...         return None
    >>> coin = EmbeddingLayer([0], 1)
    >>> circuit = Circuit([coin], {}, [coin])
    >>> multiply(circuit, circuit, registry=NoRules())
    Traceback (most recent call last):
    plica.errors.UnsupportedError: multiply: there is no rule for the product of ...
    """

    def find(self, key: OperatorKey) -> OperatorRow | None:
        """The row for exactly these classes; None where there is none."""
        ...


def rule_of(registry: OperatorRegistry, operator: str, *layers: Layer) -> OperatorRow | None:
    """The row for some layers: that of their own classes, else that of the nearest classes above them.

    Pairs are tried by how far they are above the layers' own classes in total; of equally far ones, that comes first
    whose first class is nearest.
    """
    classes = [
        [base for base in type(layer).__mro__ if isinstance(base, type) and issubclass(base, Layer)] for layer in layers
    ]
    choices = itertools.product(*(range(len(bases)) for bases in classes))
    for distances in sorted(choices, key=lambda steps: (sum(steps), steps)):
        row = registry.find((operator, tuple(bases[step] for bases, step in zip(classes, distances, strict=True))))
        if row is not None:
            return row
    return None


def operators_of(values: Iterable[object]) -> list[OperatorRow]:
    """The rows in some values: the `operators` of a layer, and the `OPERATORS` of a module; sorted by their keys."""
    rows: list[OperatorRow] = []
    for value in values:
        if isinstance(value, type) and issubclass(value, Layer):
            rows += vars(value).get("operators", ())
        elif isinstance(value, ModuleType):
            rows += getattr(value, "OPERATORS", ())
    return sorted(rows, key=lambda row: (row.operator, [layer.__name__.casefold() for layer in row.layers]))


def operator_table(rows: Iterable[OperatorRow]) -> dict[OperatorKey, OperatorRow]:
    """The rows by operator and classes of layers.

    Raises:
        GraphError: Two rows for one operator and the same classes.
    """
    table: dict[OperatorKey, OperatorRow] = {}
    for row in rows:
        key = (row.operator, row.layers)
        if key in table:
            classes = ", ".join(layer.__name__ for layer in row.layers)
            raise GraphError(f"two rows for {row.operator}({classes}); leave one of them out")
        table[key] = row
    return table
