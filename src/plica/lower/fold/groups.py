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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plica.errors import UnsupportedError
from plica.graph.fold import FoldIndex, Groups, build_folded_graph, order_folds, schedule
from plica.passes.rewriting import Rewriting
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    LAYER_ROWS,
    FusedLayer,
    InnerLayer,
    InputLayer,
    Layer,
    LayerRow,
    ProductLayer,
)
from plica.symbolic.scope import Scope

Rows = Mapping[type[Layer], LayerRow]


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
    def layer_class(self) -> type[Layer]:
        """The class of the layers: `SumLayer`, `CategoricalLayer`, ..."""
        return type(self.representative)

    @property
    def kind(self) -> str:
        """`input`, `product`, `sum`, or `fused` for what the optimiser makes of sums (and the products below them)."""
        kinds = {InputLayer: "input", ProductLayer: "product", FusedLayer: "fused", InnerLayer: "sum"}
        return next(kind for base, kind in kinds.items() if isinstance(self.representative, base))

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
        groups: Of the layers that the outputs depend on, in topological order.
        out_fold_idx: For each output of the circuit, its group and fold.
        folds: Whether alike layers were to be one group.
        rows: The rows of layers that are not Plica's own.
        rewriting: By which rules its Programs are rewritten, where those are not Plica's own alone.
    """

    circuit: Circuit
    described: Circuit
    groups: tuple[FoldedLayer, ...]
    out_fold_idx: tuple[FoldIndex, ...]
    folds: bool
    rows: Rows
    rewriting: Rewriting | None = None

    def row(self, layer: Layer) -> LayerRow:
        """What computes a layer.

        Raises:
            UnsupportedError: The layer is of a class without a row.
        """
        found = self.rows.get(type(layer)) or LAYER_ROWS.get(type(layer))
        if found is None:
            raise UnsupportedError(
                f"{type(layer).__name__} has no row that says what it computes; write an InputRow, SumRow or "
                "ProductRow and give it to PipelineContext.add_layer_compilation_rule."
            )
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> "FoldedCircuit":
        """Itself: it is immutable, and compared by identity."""
        return self

    @property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return self.described.scope


def fold_circuit(circuit: Circuit, described: Circuit | None = None, rows: Rows | None = None) -> FoldedCircuit:
    """The circuit with layers of equal `fold_settings` computed together where their inputs allow it."""
    groups = schedule(circuit.live.layers, circuit.layer_inputs, lambda layer: layer.fold_settings())
    ordering = order_folds(groups, circuit.outputs, circuit.layer_inputs)
    return _folded(circuit, described, rows, ordering, folds=True)


def single_groups(circuit: Circuit, described: Circuit | None = None, rows: Rows | None = None) -> FoldedCircuit:
    """Every layer a group of its own."""
    return _folded(circuit, described, rows, tuple((layer,) for layer in circuit.live.layers), folds=False)


def _folded(
    circuit: Circuit, described: Circuit | None, rows: Rows | None, ordering: Groups[Layer], *, folds: bool
) -> FoldedCircuit:
    graph = build_folded_graph(ordering, circuit.outputs, circuit.layer_inputs, FoldedLayer)
    return FoldedCircuit(circuit, described or circuit, graph.nodes, graph.info.out_fold_idx, folds, rows or {})
