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

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plica.errors import GraphError, UnsupportedError
from plica.graph.fold import FoldIndex, FoldIndexInfo, Groups, InFoldIdx, build_folded_graph, order_folds, schedule
from plica.lower.fold.settings import LayerRows, fold_settings_of, padded_lengths
from plica.passes.rewriting import Rewriting
from plica.single_flight import Deferred
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

_KINDS = {InputLayer: "input", ProductLayer: "product", FusedLayer: "fused", InnerLayer: "sum"}


def layer_kind(layer: Layer) -> str:
    """`input`, `product`, `sum`, or `fused` for what the optimizer makes of sums (and the products below them)."""
    return next(kind for base, kind in _KINDS.items() if isinstance(layer, base))


@dataclass(frozen=True, slots=True, eq=False)
class FoldedLayer:
    """Layers of equal config and shapes that are computed as one.

    Args:
        members: The layers, in the order of the fold axis.
        in_fold_idx: For each fold and each of its H inputs, the group and the fold to read; shape (F, H, 2).

    Attributes:
        representative: The layer whose config stands for all: the first of those with the longest padded parameters.
        sub_layers: The sub-layers of the members, folded as they are, by name.
    """

    members: tuple[Layer, ...]
    in_fold_idx: InFoldIdx = ()
    representative: Layer = field(init=False)
    sub_layers: dict[str, "FoldedLayer"] = field(init=False)

    def __post_init__(self) -> None:
        first = self.members[0]
        longest = max(self.members, key=padded_lengths) if padded_lengths(first) else first
        object.__setattr__(self, "representative", longest)
        sub_layers = {
            name: FoldedLayer(tuple(member.sub_layers[name] for member in self.members)) for name in first.sub_layers
        }
        object.__setattr__(self, "sub_layers", sub_layers)

    @property
    def layer_class(self) -> type[Layer]:
        """The class of the layers: `SumLayer`, `CategoricalLayer`, ..."""
        return type(self.representative)

    @property
    def kind(self) -> str:
        """The `layer_kind` of the layers."""
        return layer_kind(self.representative)

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
        circuit: The circuit that was folded.
        described: The circuit as it was described, before rules were applied; it names tensors and has the properties.
        groups: The groups of the layers that the outputs depend on, in topological order.
        info: The (index in `modules`, fold) of each layer of the optimized circuit, and the layer of each fold.
        folds: Whether alike layers are folded.
        rows: The registry entries of custom layers.
        rewriting: The rewriting of its Programs; None for Plica's own rules alone.
        complete: The circuit for rows in which no variable is missing, where that is another one.
        needs_all: Whether it is the circuit for such rows, so that no variable of it can be summed out.
    """

    circuit: Circuit
    described: Circuit
    groups: tuple[FoldedLayer, ...]
    info: FoldIndexInfo[Layer]
    folds: bool
    rows: LayerRows
    rewriting: Rewriting | None = None
    complete: "Deferred[FoldedCircuit] | None" = None
    needs_all: bool = False

    def for_rows(self, *, complete: bool) -> "FoldedCircuit":
        """The circuit that computes rows: the one for `complete` rows, where there is one and they are."""
        return self if self.complete is None or not complete else self.complete.get()

    @property
    def modules(self) -> tuple[FoldedLayer, ...]:
        """The groups, and after them their folded sub-layers."""
        return (*self.groups, *(sub_layer for group in self.groups for sub_layer in _sub_layers(group)))

    @property
    def out_fold_idx(self) -> tuple[FoldIndex, ...]:
        """For each output of the circuit, its group and fold."""
        return self.info.out_fold_idx

    def row_if_any(self, layer: Layer) -> LayerRow | None:
        """The registry entry that computes a layer; None where its class has none."""
        return self.rows.get(type(layer)) or LAYER_ROWS.get(type(layer))

    def row(self, layer: Layer) -> LayerRow:
        """The registry entry that computes a layer.

        Raises:
            UnsupportedError: The class of the layer has no entry.
        """
        entry = self.row_if_any(layer)
        if entry is None:
            name = type(layer).__name__
            own = getattr(type(layer), "row", None)  # a class of formulas makes its entry
            if isinstance(own, LayerRow) and own.layer is type(layer):
                raise UnsupportedError(
                    f"{name} is not registered in this context; call context.add_layer_compilation_rule({name}.row) of "
                    "a plica.PipelineContext, and compile by context.compile(circuit)."
                )
            raise UnsupportedError(
                f"{name} has no row that says what it computes; write an InputRow, SumRow or "
                "ProductRow and give it to PipelineContext.add_layer_compilation_rule."
            )
        return entry

    def __deepcopy__(self, memo: dict[int, Any]) -> "FoldedCircuit":
        """Itself: it is immutable, and compared by identity."""
        return self

    @property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return self.described.scope

    def depth(self) -> int:
        """The most sums on a path from an output to an input; counted anew at each call."""
        depths: list[list[int]] = []
        for group in self.groups:
            is_sum = int(group.kind in ("sum", "fused"))
            below = ([depths[child][fold] for child, fold in inputs] for inputs in group.in_fold_idx)
            depths.append([is_sum + max(input_depths, default=0) for input_depths in below] or [0] * group.num_folds)
        return max(depths[group][fold] for group, fold in self.out_fold_idx)


def fold_circuit(
    circuit: Circuit,
    described: Circuit | None = None,
    rows: LayerRows | None = None,
    apart: Callable[[Layer], Hashable] | None = None,
) -> FoldedCircuit:
    """The circuit with layers of equal `fold_settings` computed together where their inputs allow it.

    Args:
        circuit: The circuit to fold.
        described: The circuit as it was described, before rules were applied.
        rows: The registry entries of custom layers.
        apart: A further key that layers of one group share.
    """
    layers = circuit.live.layers
    settings: Mapping[Layer, Hashable] = fold_settings_of(layers, rows or {})
    if apart is not None:
        settings = {layer: (key, apart(layer)) for layer, key in settings.items()}
    groups = schedule(layers, circuit.layer_inputs, settings.__getitem__)
    ordering = order_folds(groups, circuit.outputs, circuit.layer_inputs)
    return _folded(circuit, described, rows, ordering, settings, folds=True)


def single_groups(circuit: Circuit, described: Circuit | None = None, rows: LayerRows | None = None) -> FoldedCircuit:
    """Every layer a group of its own."""
    layers = circuit.live.layers
    ordering = tuple((layer,) for layer in layers)
    return _folded(circuit, described, rows, ordering, dict.fromkeys(layers), folds=False)


def fold_again(folded: FoldedCircuit) -> FoldedCircuit:
    """A folded circuit with its groups as the members of larger ones, whose numbers of folds add up.

    >>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer
    >>> inputs = [CategoricalLayer([variable], 4, num_categories=2) for variable in range(3)]
    >>> product = HadamardLayer(4, 3)
    >>> fold_again(single_groups(Circuit([*inputs, product], {product: inputs}, [product]))).groups
    (3 x CategoricalLayer(scope={0}, 4), 1 x HadamardLayer(arity=3, 4 -> 4))
    """
    groups = folded.groups
    settings = fold_settings_of((group.representative for group in groups), folded.rows)
    reads = {
        group: [[(groups[number], fold) for number, fold in read] for read in group.in_fold_idx] for group in groups
    }
    inputs = {group: tuple(dict.fromkeys(child for read in reads[group] for child, _ in read)) for group in groups}
    outputs = tuple(groups[number] for number, _ in folded.out_fold_idx)

    def key(group: FoldedLayer) -> Any:
        return settings[group.representative]

    graph = build_folded_graph(
        order_folds(schedule(groups, inputs.__getitem__, key), outputs, inputs.__getitem__),
        outputs,
        inputs.__getitem__,
        fold_layer_group,
        fold_settings=key,
        folds_fn=reads.__getitem__,
    )
    starts = [graph.info.find(group) for group in groups]
    out_fold_idx = tuple((starts[number][0], starts[number][1] + fold) for number, fold in folded.out_fold_idx)
    refolded = _reading(graph.nodes, graph.info.in_fold_idx)
    return replace(folded, groups=refolded, info=_index(refolded, out_fold_idx), folds=True)


def fold_layer_group(group: Sequence[Layer | FoldedLayer]) -> FoldedLayer:
    """Layers, or folded layers, as one folded layer; numbers of folds add up.

    Raises:
        GraphError: The layers differ in type, sizes or kinds of sub-layers.
    """
    members = tuple(layer for item in group for layer in (item.members if isinstance(item, FoldedLayer) else (item,)))
    _check_alike(members)
    return FoldedLayer(members)


def _check_alike(layers: Sequence[Layer]) -> None:
    first = _facts(layers[0])
    for layer in layers:
        facts = _facts(layer)
        if facts != first:
            name = next(name for name in first if first[name] != facts[name])
            raise GraphError(
                f"{layers[0]!r} and {layer!r} are in one group, but their {name} differ: {first[name]} and "
                f"{facts[name]}; what is computed as one must be alike: return it among the settings of "
                f"{type(layer).__name__}.fold_settings()"
            )
    for name in layers[0].sub_layers:
        _check_alike([layer.sub_layers[name] for layer in layers])


def _facts(layer: Layer) -> dict[str, Any]:
    """The facts in which layers of one group cannot differ, whatever their settings."""
    units = (layer.num_input_units, layer.num_output_units, layer.arity)
    return {
        "types": type(layer).__name__,
        "numbers of inputs and units": units,
        "parameters": tuple(layer.evaluated_params),
        "sub-layers": tuple(layer.sub_layers),
    }


def _folded(
    circuit: Circuit,
    described: Circuit | None,
    rows: LayerRows | None,
    ordering: Groups[Layer],
    settings: Mapping[Layer, Any],
    *,
    folds: bool,
) -> FoldedCircuit:
    graph = build_folded_graph(
        ordering, circuit.outputs, circuit.layer_inputs, fold_layer_group, fold_settings=settings.__getitem__
    )
    groups = _reading(graph.nodes, graph.info.in_fold_idx)
    info = _index(groups, graph.info.out_fold_idx)
    return FoldedCircuit(circuit, described or circuit, groups, info, folds, rows or {})


def _reading(groups: Sequence[FoldedLayer], in_fold_idx: Sequence[InFoldIdx]) -> tuple[FoldedLayer, ...]:
    """The groups, each with the folds that it reads."""
    return tuple(replace(group, in_fold_idx=indices) for group, indices in zip(groups, in_fold_idx, strict=True))


def _index(groups: tuple[FoldedLayer, ...], out_fold_idx: tuple[FoldIndex, ...]) -> FoldIndexInfo[Layer]:
    """The index of groups and, after them, of their sub-layers."""
    sub_layers = (sub_layer for group in groups for sub_layer in _sub_layers(group))
    modules = tuple(module.members for module in (*groups, *sub_layers))
    return FoldIndexInfo(tuple(group.in_fold_idx for group in groups), out_fold_idx, modules)


def _sub_layers(group: FoldedLayer) -> Iterator[FoldedLayer]:
    for sub_layer in group.sub_layers.values():
        yield sub_layer
        yield from _sub_layers(sub_layer)
