"""Provenance: the layers that rules made of each layer, and its roles in those rules.

>>> from plica.lower.optimize import optimize_circuit
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
>>> x, y = (CategoricalLayer([variable], 2, num_categories=3) for variable in range(2))
>>> product, total = HadamardLayer(2), SumLayer(2, 1)
>>> optimized = optimize_circuit(Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total]))
>>> optimized.provenance.became(product)
{CPTLayer(arity=2, 2 -> 1): ('cp-t.product',)}
>>> optimized.provenance.became(x)
{CategoricalLayer(scope={0}, 2): ()}
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plica.symbolic.layers import Layer

Roles = tuple[str, ...]
"""The roles of a layer in successive rewritings, as `rule.role`: `("hadamard-hadamard.inner", "cp-t.product")`."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One rewriting of one layer.

    Args:
        stage: `parameters`, `shatter` or `fuse`.
        rules: The rules, each with its equation.
        role: The name of the layer in the pattern; empty where its parameters were rewritten.
        fused: The layers that were replaced together, itself among them; none where its parameters were rewritten.
        layers: The new layers, inputs first; none where a layer of the circuit replaces it.
        output: The layer that readers of the match's root read instead.
    """

    stage: str
    rules: tuple[tuple[str, str], ...]
    role: str
    fused: tuple[Layer, ...]
    layers: tuple[Layer, ...]
    output: Layer

    @property
    def roles(self) -> Roles:
        """The role with the rule; none where the layer is still a layer of its own."""
        return tuple(f"{rule}.{self.role}" for rule, _ in self.rules) if self.role else ()


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """Every step of a circuit's layers.

    Args:
        steps: The step of each layer that was replaced, those that rules made and other rules replaced among them.
    """

    steps: Mapping[Layer, Step] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Provenance":
        """Itself: it is immutable."""
        return self

    def became(self, layer: Layer) -> dict[Layer, Roles]:
        """The layers of the rewritten circuit that compute `layer`, and its roles in each; `layer` if it stayed.

        A layer that was shattered is computed in several. The layer that is read in place of it is the last.
        """
        step = self.steps.get(layer)
        if step is None:
            return {layer: ()}
        roles_in: dict[Layer, Roles] = {}
        for successor in step.layers or (step.output,):
            for last, roles in self.became(successor).items():
                roles_in.pop(last, None)
                roles_in[last] = (*step.roles, *roles)
        return roles_in

    def history(self, layer: Layer) -> Iterator[tuple[Layer, Step]]:
        """The steps from a layer to what it became, each with the layer that it was taken on."""
        todo = [layer]
        while todo:
            current = todo.pop(0)
            step = self.steps.get(current)
            if step is not None:
                yield current, step
                todo += step.layers or (step.output,)


def sources(provenance: Provenance, layers: Iterable[Layer]) -> dict[Layer, dict[Layer, Roles]]:
    """For each layer of the rewritten circuit, which of `layers` it is made of, and their roles in it."""
    made_of: dict[Layer, dict[Layer, Roles]] = {}
    for layer in layers:
        for result, roles in provenance.became(layer).items():
            made_of.setdefault(result, {})[layer] = roles
    return made_of
