"""Structural properties of one circuit; whether two are compatible is told by `operators/pairs.py`.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer
>>> x, y = (CategoricalLayer([v], 4, num_categories=2) for v in range(2))
>>> product = HadamardLayer(4)
>>> circuit = Circuit([x, y, product], {product: [x, y]}, [product])
>>> first_not_decomposable(circuit) is None, splits_alike(circuit)
(True, True)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

from plica.errors import StructuralPropertyError
from plica.symbolic.layers import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer
from plica.symbolic.scope import Scope

Splits: TypeAlias = dict[Scope, dict[frozenset[Scope], None]]
"""For the scope of each product, the different splits of it: the sets of scopes that the inputs of products have."""


class LayerGraph(Protocol):
    """The part of a `Circuit` from which its structure is read."""

    @property
    def scope(self) -> Scope:
        """The variables that the outputs depend on."""
        ...

    @property
    def outputs(self) -> Sequence[Layer]:
        """The output layers."""
        ...

    @property
    def live_layers(self) -> tuple[Layer, ...]:
        """The layers that the outputs depend on, each after its inputs."""
        ...

    @property
    def is_smooth(self) -> bool:
        """Whether `first_not_smooth` finds no layer."""
        ...

    @property
    def is_decomposable(self) -> bool:
        """Whether `first_not_decomposable` finds no layer."""
        ...

    @property
    def is_omni_compatible(self) -> bool:
        """Whether it is smooth and decomposable, and `multiplies_single_variables` holds."""
        ...

    def layer_inputs(self, layer: Layer) -> tuple[Layer, ...]:
        """The inputs of one layer, in order."""
        ...

    def layer_scope(self, layer: Layer) -> Scope:
        """The variables that one layer depends on."""
        ...

    def layer_name(self, layer: Layer) -> str:
        """The name of a layer in messages."""
        ...


@final
@dataclass(frozen=True, slots=True)
class StructuralProperties:
    """Structural properties of a circuit; each is defined at the property `is_...` of `Circuit`.

    >>> from plica.templates.pgms import hmm
    >>> hmm([0, 1, 2], "embedding").properties
    StructuralProperties(smooth=True, decomposable=True, structured_decomposable=True, omni_compatible=False)
    """

    smooth: bool
    decomposable: bool
    structured_decomposable: bool
    omni_compatible: bool


def first_not_smooth(circuit: LayerGraph) -> Layer | None:
    """The first layer that sums inputs of different scopes; None if the circuit is smooth."""
    for layer in _summing(circuit):
        first, *others = (circuit.layer_scope(child) for child in circuit.layer_inputs(layer))
        if any(scope is not first and scope != first for scope in others):
            return layer
    return None


def first_not_decomposable(circuit: LayerGraph) -> Layer | None:
    """The first layer that multiplies inputs with a common variable; None if the circuit is decomposable."""
    for layer in _multiplying(circuit):
        variables = sum(len(circuit.layer_scope(child)) for child in circuit.layer_inputs(layer))
        if variables != len(circuit.layer_scope(layer)):
            return layer
    return None


def splits_alike(circuit: LayerGraph) -> bool:
    """Whether all products of one scope split it into the same scopes."""
    return all(len(splits) == 1 for splits in product_splits(circuit, circuit.scope).values())


def multiplies_single_variables(circuit: LayerGraph) -> bool:
    """Whether every product multiplies inputs of one variable each; a product of products counts as one product."""
    return all(layer.num_variables <= 1 for layer in circuit.live_layers if isinstance(layer, InputLayer)) and all(
        isinstance(child, ProductLayer) or len(circuit.layer_scope(child)) <= 1
        for layer in _multiplying(circuit)
        for child in circuit.layer_inputs(layer)
    )


def check_smooth_and_decomposable(circuit: LayerGraph, what: str) -> None:
    """See `Circuit.check_smooth_and_decomposable`."""
    if circuit.is_smooth and circuit.is_decomposable:  # the circuit remembers both
        return
    layer = first_not_smooth(circuit)
    if layer is not None:
        raise StructuralPropertyError(
            f"{what} needs a smooth circuit, but {circuit.layer_name(layer)} sums inputs of different scopes: "
            f"{_input_scopes(circuit, layer)}. Multiply each input by input layers over the variables that it lacks."
        )
    layer = first_not_decomposable(circuit)
    if layer is not None:
        raise StructuralPropertyError(
            f"{what} needs a decomposable circuit, but {circuit.layer_name(layer)} multiplies inputs that share "
            f"variables: {_input_scopes(circuit, layer)}. Give the inputs of a product scopes that are "
            "disjoint."
        )


def product_splits(circuit: LayerGraph, variables: Scope) -> Splits:
    """The splits of products, with all scopes restricted to some variables; splits of one part are left out.

    For example, a product of scopes {0, 1} and {2}, restricted to {0, 2}, splits {0, 2} into {0} and {2}.
    """
    splits: Splits = {}
    for layer in _multiplying(circuit):
        parts = [circuit.layer_scope(child) & variables for child in circuit.layer_inputs(layer)]
        split = frozenset(part for part in parts if part)
        if len(split) > 1:
            splits.setdefault(circuit.layer_scope(layer) & variables, {})[split] = None
    return splits


def _multiplying(circuit: LayerGraph) -> tuple[Layer, ...]:
    """The live layers that multiply their inputs: products, and layers fused from a product and a sum."""
    live = circuit.live_layers
    products = (layer for layer in live if isinstance(layer, ProductLayer))
    fused = (layer for layer in live if isinstance(layer, FusedLayer) and layer.arity > 1)
    return (*products, *fused)


def _summing(circuit: LayerGraph) -> tuple[Layer, ...]:
    """The live layers that add their inputs, custom sum layers included."""
    inner = (layer for layer in circuit.live_layers if isinstance(layer, InnerLayer))
    return tuple(layer for layer in inner if not isinstance(layer, ProductLayer | FusedLayer))


def _input_scopes(circuit: LayerGraph, layer: Layer) -> str:
    inputs = circuit.layer_inputs(layer)
    shown = [f"{circuit.layer_name(child)} has scope {circuit.layer_scope(child)!s}" for child in inputs]
    return "; ".join(shown if len(shown) <= 6 else [*shown[:5], f"... {len(shown) - 5} more"])
