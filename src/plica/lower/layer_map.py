"""The two-way map of layers: from a described layer to its folds of a compiled circuit, and back.

>>> from plica.lower.fold.groups import fold_circuit
>>> from plica.lower.optimize import optimize_circuit
>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
>>> x, y = (CategoricalLayer([variable], 2, num_categories=3) for variable in range(2))
>>> product, total = HadamardLayer(2), SumLayer(2, 1)
>>> circuit = Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total])
>>> optimized = optimize_circuit(circuit)
>>> layers = LayerMap(circuit, fold_circuit(optimized.circuit, circuit), optimized.provenance)
>>> layers.get_compiled_layers(y)
(CompiledLayer(layer=CategoricalLayer(scope={1}, 2), group=0, fold=1, roles=()),)
>>> layers.get_compiled_layers(product)
(CompiledLayer(layer=CPTLayer(arity=2, 2 -> 1), group=1, fold=0, roles=('cp-t.product',)),)
>>> layers.get_symbolic_layers(1, 0)
{HadamardLayer(arity=2, 2 -> 2): ('cp-t.product',), SumLayer(arity=1, 2 -> 1): ('cp-t.sum',)}
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from plica.errors import GraphError
from plica.forks import cached_property
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.optimize import Provenance, Step
from plica.lower.optimize.provenance import Roles, sources
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer, held_layers


@dataclass(frozen=True, slots=True)
class CompiledLayer:
    """The fold that computes a described layer.

    Args:
        layer: The layer that is computed: itself (its parameters perhaps rewritten), or one that rules made of it.
        group: The number of the group that has it.
        fold: Its fold there.
        roles: Its roles in the rules that rewrote it, in order: `("cp-t.product",)`; empty if none did. The first role
            of a layer that another one holds is its name there: `("WeighedLayer.part",)`.
    """

    layer: Layer
    group: int
    fold: int
    roles: Roles


@final
class LayerMap:
    """Finds the compiled layers of a described layer, and the described layers of a compiled one.

    Args:
        circuit: The circuit as it was described.
        folded: The circuit as it is computed. Its described circuit has the same layers in the same order; those with
            leaves or operations that a rule compiles are copies.
        provenance: The layers that rules made, and from which.
    """

    def __init__(self, circuit: Circuit, folded: FoldedCircuit, provenance: Provenance) -> None:
        self.circuit = circuit
        self._folded = folded
        self._provenance = provenance

    def __deepcopy__(self, memo: dict[int, Any]) -> "LayerMap":
        """The same object: it is immutable, and its circuits are compared by identity."""
        return self

    @cached_property
    def _fold_of(self) -> dict[Layer, tuple[int, int]]:
        groups = enumerate(self._folded.groups)
        return {layer: (number, fold) for number, group in groups for fold, layer in enumerate(group.members)}

    @cached_property
    def _holders(self) -> dict[Layer, tuple[tuple[Layer, str], ...]]:
        holders: dict[Layer, tuple[tuple[Layer, str], ...]] = {}
        for holder in self.circuit.layers:
            for name, sub_layer in _layers_within(holder).items():
                holders[sub_layer] = (*holders.get(sub_layer, ()), (holder, name))
        return holders

    def holders(self, layer: Layer) -> tuple[tuple[Layer, str], ...]:
        """The layers of the circuit that hold a layer, each with the name that it has there: `"part"`."""
        return self._holders.get(layer, ())

    def has(self, layer: Layer) -> bool:
        """Whether a layer is one of the circuit as it was described, or held by one."""
        return self.is_node(layer) or layer in self._holders

    def is_node(self, layer: Layer) -> bool:
        """Whether a layer is one of the circuit as it was described, and not only held by one."""
        return layer in self._nodes

    @cached_property
    def _nodes(self) -> frozenset[Layer]:
        return frozenset(self.circuit.layers)

    @cached_property
    def _sources(self) -> dict[Layer, dict[Layer, Roles]]:
        """For each compiled layer the described ones that rules made it of."""
        pairs = dict(zip(self._folded.described.layers, self.circuit.layers, strict=True))
        sources_of = sources(self._provenance, pairs)
        return {layer: {pairs[source]: roles for source, roles in parts.items()} for layer, parts in sources_of.items()}

    def get_compiled_layers(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        """The folds that compute a layer, inputs first: one, or several if a rule made several layers of it.

        Empty if no output depends on it. A layer that others hold is computed in their folds.

        Raises:
            GraphError: The circuit does not have the layer.
        """
        self._check(layer)
        folds = self._folds_of(layer) if self.is_node(layer) else ()
        within = [
            _within(compiled, holder, name)
            for holder, name in self.holders(layer)
            for compiled in self._folds_of(holder)
        ]
        return (*folds, *within)

    def _folds_of(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        return tuple(
            CompiledLayer(computed, *self._fold_of[computed], roles)
            for computed, roles in self._provenance.became(self.resolved(layer)).items()
            if computed in self._fold_of
        )

    def get_symbolic_layers(self, group: int, fold: int) -> dict[Layer, Roles]:
        """The described layers that one fold of a group computes, and layers that they hold, each with its roles.

        Raises:
            GraphError: There is no such group or fold.
        """
        groups = self._folded.groups
        if not 0 <= group < len(groups) or not 0 <= fold < groups[group].num_folds:
            folds = f", and group {group} has {groups[group].num_folds} folds" if 0 <= group < len(groups) else ""
            raise GraphError(f"there is no fold {fold} of group {group}; there are {len(groups)} groups{folds}.")
        roles_of = dict(self._sources.get(groups[group].members[fold], {}))
        for holder, roles in tuple(roles_of.items()):
            for name, sub_layer in _layers_within(holder).items():
                roles_of.setdefault(sub_layer, (_role(holder, name), *roles))
        return roles_of

    def resolved(self, layer: Layer) -> Layer:
        """The layer with its parameters resolved by rules.

        Raises:
            GraphError: The circuit does not have the layer.
        """
        self._check(layer)
        if self.is_node(layer):
            return self._folded.described.layers[self.circuit.layer_index(layer)]
        holder, name = self.holders(layer)[0]
        return _layers_within(self.resolved(holder))[name]

    def history(self, layer: Layer) -> Iterator[tuple[Layer, Step]]:
        """The rules that were applied to a layer (or its holder), and to the layers that they made of it, in order."""
        for node in (layer,) if self.is_node(layer) else dict.fromkeys(holder for holder, _ in self.holders(layer)):
            yield from self._provenance.history(self.resolved(node))

    def _check(self, layer: Layer) -> None:
        if not self.has(layer):
            raise GraphError(f"{layer!r} is no layer of {self.circuit!r}; give one of its layers as it was described.")


def _layers_within(layer: Layer) -> dict[str, Layer]:
    """The layers that a layer holds at any depth, by names such as `"part.part"`."""
    return {start.removesuffix("."): sub_layer for start, sub_layer in held_layers(layer) if start}


def _role(holder: Layer, name: str) -> str:
    return f"{type(holder).__name__}.{name}"


def _within(compiled: CompiledLayer, holder: Layer, name: str) -> CompiledLayer:
    """The fold of a held layer, from that of its holder: in this layer, unless rules rewrote the holder."""
    layer = compiled.layer if compiled.roles else _layers_within(compiled.layer)[name]
    return replace(compiled, layer=layer, roles=(_role(holder, name), *compiled.roles))
