"""Folded circuits: groups of alike layers, and the index of who reads which fold of which group.

Until folding is built, every group holds one layer (`single_groups`); everything behind this module works with groups
of any size.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import InputLayer, Layer
from plica.symbolic.scope import Scope

FoldIndex = tuple[int, int]


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
        groups: In topological order.
        out_fold_idx: For each output of the circuit, its group and fold.
    """

    circuit: Circuit
    groups: tuple[FoldedLayer, ...]
    out_fold_idx: tuple[FoldIndex, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> "FoldedCircuit":
        """Itself: it is immutable, and compared by identity."""
        return self

    @property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return self.circuit.scope


def fold_groups(circuit: Circuit, groups: Iterable[tuple[Layer, ...]]) -> FoldedCircuit:
    """The folded circuit of `groups`, which are in topological order and hold every layer once."""
    place: dict[Layer, FoldIndex] = {}
    folded = []
    for number, members in enumerate(groups):
        inputs = tuple(tuple(place[one] for one in circuit.layer_inputs(layer)) for layer in members)
        folded.append(FoldedLayer(members, inputs))
        place.update((layer, (number, fold)) for fold, layer in enumerate(members))
    return FoldedCircuit(circuit, tuple(folded), tuple(place[layer] for layer in circuit.outputs))


def single_groups(circuit: Circuit) -> FoldedCircuit:
    """Every layer a group of its own."""
    return fold_groups(circuit, ((layer,) for layer in circuit.layers))
