"""The facts of a circuit for its picture: the kind, units, scope and inputs of each layer."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from plica.symbolic.circuit import Circuit
    from plica.symbolic.layers import Layer

Role = Literal["input", "sum", "product"]


@dataclass(frozen=True, slots=True)
class LayerView:
    """One layer.

    Attributes:
        kind: The name of its class without "Layer".
        role: Whether it reads data, adds or multiplies; it decides the shape of the mark.
        units: Number of output units.
        variables: Its scope, ascending.
    """

    kind: str
    role: Role
    units: int
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CircuitView:
    """Layers in topological order and, as indices, the inputs of each and the outputs of the circuit."""

    layers: tuple[LayerView, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]

    @property
    def num_variables(self) -> int:
        """The number of variables in the scope."""
        return len({v for layer in self.layers if layer.role == "input" for v in layer.variables})

    @property
    def kinds(self) -> tuple[tuple[str, Role], ...]:
        """Each kind with its role: inputs, then sums, then products, by first appearance."""
        roles = {layer.kind: layer.role for layer in self.layers}
        order: tuple[Role, ...] = ("input", "sum", "product")
        return tuple((kind, role) for wanted in order for kind, role in roles.items() if role == wanted)


def view_circuit(circuit: "Circuit") -> CircuitView:
    """The facts of a circuit that a picture needs; layers that no output depends on are left out."""
    circuit = circuit.live
    layers = tuple(circuit.topological_ordering())
    index = {layer: i for i, layer in enumerate(layers)}
    sums, products = set(circuit.sum_layers), set(circuit.product_layers)

    def view(layer: "Layer") -> LayerView:
        role: Role = "sum" if layer in sums else "product" if layer in products else "input"
        return LayerView(
            type(layer).__name__.removesuffix("Layer"),
            role,
            layer.num_output_units,
            tuple(circuit.layer_scope(layer)),
        )

    return CircuitView(
        tuple(view(layer) for layer in layers),
        tuple(tuple(index[child] for child in circuit.layer_inputs(layer)) for layer in layers),
        tuple(index[layer] for layer in circuit.outputs),
    )


def describe_kinds(layers: Iterable[LayerView]) -> tuple[tuple[str, Role, int, str], ...]:
    """For each kind among the layers: its name, role, count, and units as "16" or "1-16".

    >>> describe_kinds([LayerView("Sum", "sum", 1, (0,)), LayerView("Sum", "sum", 4, (1,))])
    (('Sum', 'sum', 2, '1-4'),)
    """
    layers = tuple(layers)
    counts = Counter(layer.kind for layer in layers)
    rows = []
    for kind, count in counts.items():
        members = [layer for layer in layers if layer.kind == kind]
        low, high = min(m.units for m in members), max(m.units for m in members)
        rows.append((kind, members[0].role, count, str(low) if low == high else f"{low}-{high}"))
    return tuple(rows)
