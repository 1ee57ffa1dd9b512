"""The two-way map of layers: from a layer as it was described to its folds of a compiled circuit, and back.

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
    """Where a layer of the circuit as it was described is computed.

    Args:
        layer: The layer that is computed: itself (its parameters perhaps rewritten), or one that rules made of it.
        group: The number of the group that has it.
        fold: Its fold there.
        roles: What the rules had it as, one after another: `("cp-t.product",)`; none where it is a layer of its own.
            For a layer that another one holds, first what it is there: `("WeighedLayer.part",)`.
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
        folded: The circuit as it is computed. What it calls described has the same layers in the same places, those
            with leaves or operations that a rule compiles as copies.
        provenance: What rules made of which layer.
    """

    def __init__(self, circuit: Circuit, folded: FoldedCircuit, provenance: Provenance) -> None:
        self.circuit = circuit
        self._folded = folded
        self._provenance = provenance

    def __deepcopy__(self, memo: dict[int, Any]) -> "LayerMap":
        """Itself: it is immutable, and its circuits are compared by identity."""
        return self

    @cached_property
    def _places(self) -> dict[Layer, tuple[int, int]]:
        groups = enumerate(self._folded.groups)
        return {layer: (number, fold) for number, group in groups for fold, layer in enumerate(group.members)}

    @cached_property
    def _holders(self) -> dict[Layer, tuple[tuple[Layer, str], ...]]:
        found: dict[Layer, tuple[tuple[Layer, str], ...]] = {}
        for holder in self.circuit.layers:
            for name, one in _held(holder).items():
                found[one] = (*found.get(one, ()), (holder, name))
        return found

    def holders(self, layer: Layer) -> tuple[tuple[Layer, str], ...]:
        """The layers of the circuit that hold a layer, each with the name that it has there: `"part"`."""
        return self._holders.get(layer, ())

    def has(self, layer: Layer) -> bool:
        """Whether a layer is one of the circuit as it was described, or held by one."""
        return self.is_node(layer) or layer in self._holders

    def is_node(self, layer: Layer) -> bool:
        """Whether a layer is one of the circuit as it was described, and not only held by one."""
        return layer in self.circuit.layers_inputs

    @cached_property
    def _sources(self) -> dict[Layer, dict[Layer, Roles]]:
        """For each compiled layer the described ones that it is made of."""
        pairs = dict(zip(self._folded.described.layers, self.circuit.layers, strict=True))
        found = sources(self._provenance, pairs)
        return {layer: {pairs[one]: roles for one, roles in parts.items()} for layer, parts in found.items()}

    def get_compiled_layers(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        """Where a layer is computed, inputs first: in one place, or in several if a rule made several layers of it.

        Nothing where no output depends on it. A layer that others hold is where they are.

        Raises:
            GraphError: The circuit does not have the layer.
        """
        self._check(layer)
        own = self._places_of(layer) if self.is_node(layer) else ()
        held = [
            _within(place, holder, name) for holder, name in self.holders(layer) for place in self._places_of(holder)
        ]
        return (*own, *held)

    def _places_of(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        return tuple(
            CompiledLayer(one, *self._places[one], roles)
            for one, roles in self._provenance.became(self.resolved(layer)).items()
            if one in self._places
        )

    def get_symbolic_layers(self, group: int, fold: int) -> dict[Layer, Roles]:
        """The described layers that one fold of a group computes, and what they hold, each with its roles in it.

        Raises:
            GraphError: There is no such group or fold.
        """
        groups = self._folded.groups
        if not 0 <= group < len(groups) or not 0 <= fold < groups[group].num_folds:
            folds = f", and group {group} has {groups[group].num_folds} folds" if 0 <= group < len(groups) else ""
            raise GraphError(f"there is no fold {fold} of group {group}; there are {len(groups)} groups{folds}.")
        found = dict(self._sources.get(groups[group].members[fold], {}))
        for holder, roles in tuple(found.items()):
            for name, one in _held(holder).items():
                found.setdefault(one, (_role(holder, name), *roles))
        return found

    def resolved(self, layer: Layer) -> Layer:
        """The layer with its parameters as rules have them.

        Raises:
            GraphError: The circuit does not have the layer.
        """
        self._check(layer)
        if self.is_node(layer):
            return self._folded.described.layers[self.circuit.layer_index(layer)]
        holder, name = self.holders(layer)[0]
        return _held(self.resolved(holder))[name]

    def history(self, layer: Layer) -> Iterator[tuple[Layer, Step]]:
        """The rules that were applied to a layer (or what holds it) and to what they made of it, in order."""
        for one in (layer,) if self.is_node(layer) else dict.fromkeys(holder for holder, _ in self.holders(layer)):
            yield from self._provenance.history(self.resolved(one))

    def _check(self, layer: Layer) -> None:
        if not self.has(layer):
            raise GraphError(f"{layer!r} is no layer of {self.circuit!r}; give one of its layers as it was described.")


def _held(layer: Layer) -> dict[str, Layer]:
    """What a layer holds at any depth, by names such as `"part.part"`."""
    return {start.removesuffix("."): one for start, one in held_layers(layer) if start}


def _role(holder: Layer, name: str) -> str:
    return f"{type(holder).__name__}.{name}"


def _within(place: CompiledLayer, holder: Layer, name: str) -> CompiledLayer:
    """Where a held layer is, from where its holder is: in it, unless rules made something else of the holder."""
    layer = place.layer if place.roles else _held(place.layer)[name]
    return replace(place, layer=layer, roles=(_role(holder, name), *place.roles))
