"""Folded circuits: groups of alike layers, and the index of who reads which fold of which group.

>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer
>>> x, y = (CategoricalLayer([variable], 4, num_categories=2) for variable in range(2))
>>> product = HadamardLayer(4)
>>> folded = fold_circuit(Circuit([x, y, product], {product: [x, y]}, [product]))
>>> folded.groups
(2 x CategoricalLayer(scope={0}, 4), 1 x HadamardLayer(arity=2, 4 -> 4))
>>> folded.groups[1].in_fold_idx
(((0, 0), (0, 1)),)
"""

from dataclasses import dataclass
from typing import Any

from plica.graph.fold import FoldedGraph, FoldIndex, build_folded_graph, fold_index
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import InputLayer, Layer
from plica.symbolic.scope import Scope


@dataclass(frozen=True, slots=True, eq=False)
class FoldedLayer:
    """Alike layers that are computed as one.

    Args:
        members: The layers, in the order of the fold axis.
        in_fold_idx: For each fold and each of its H inputs, the group and the fold to read; shape (F, H, 2).
    """

    members: tuple[Layer, ...]
    in_fold_idx: tuple[tuple[FoldIndex, ...], ...]

    @property
    def representative(self) -> Layer:
        """The layer whose config stands for all."""
        return self.members[0]

    @property
    def num_folds(self) -> int:
        """How many layers were folded."""
        return len(self.members)

    @property
    def scope_idx(self) -> tuple[tuple[int, ...], ...]:
        """For input layers, the variables of each fold; shape (F, num_variables)."""
        return tuple(tuple(layer.scope) for layer in self.members if isinstance(layer, InputLayer))

    def __repr__(self) -> str:
        first = self.representative
        return f"{self.num_folds} x {first!r}"


@dataclass(frozen=True, slots=True, eq=False)
class FoldedCircuit:
    """A circuit as groups in topological order.

    Args:
        circuit: What was folded.
        described: The circuit as it was described, before rules were applied; it names tensors and has the properties.
        groups: In topological order.
        out_fold_idx: For each output of the circuit, its group and fold.
        folds: Whether alike layers were to be one group.
    """

    circuit: Circuit
    described: Circuit
    groups: tuple[FoldedLayer, ...]
    out_fold_idx: tuple[FoldIndex, ...]
    folds: bool

    def __deepcopy__(self, memo: dict[int, Any]) -> "FoldedCircuit":
        """Itself: it is immutable, and compared by identity."""
        return self

    @property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return self.described.scope


def fold_circuit(circuit: Circuit, described: Circuit | None = None) -> FoldedCircuit:
    """The circuit with layers of equal `fold_settings` computed together where their inputs allow it."""
    graph = build_folded_graph(
        circuit.layers, circuit.outputs, circuit.layer_inputs, lambda layer: layer.fold_settings()
    )
    return _folded(circuit, described, graph, folds=True)


def single_groups(circuit: Circuit, described: Circuit | None = None) -> FoldedCircuit:
    """Every layer a group of its own."""
    groups = tuple((layer,) for layer in circuit.layers)
    graph = FoldedGraph(groups, fold_index(groups, circuit.outputs, circuit.layer_inputs))
    return _folded(circuit, described, graph, folds=False)


def _folded(circuit: Circuit, described: Circuit | None, graph: FoldedGraph[Layer], *, folds: bool) -> FoldedCircuit:
    groups = tuple(map(FoldedLayer, graph.groups, graph.info.in_fold_idx))
    return FoldedCircuit(circuit, described or circuit, groups, graph.info.out_fold_idx, folds)
