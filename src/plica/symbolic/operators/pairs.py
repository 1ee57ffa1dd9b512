"""Which pairs of layers of two circuits a product multiplies: the walk of `multiply`, without building anything.

A pair of operands is taken apart by one step. Pairs that a step needs are steps of their own, each taken once:

* Operands without a common variable: the outer product of their units (`Apart`).
* Two input layers: the rule for their classes (`Inputs`).
* A product and another operand: factors are matched by scope, in any order (`Match`). A factor that meets several of
  the other product is multiplied by the product of these; factors that meet nothing are copied.
* A sum and another operand: the sum is distributed (`Distribute`); both are, if both are sums of one scope.

Several factors that each meet several of the other product cannot be multiplied so: the circuits are not compatible.

Source: Vergari et al., "A Compositional Atlas of Tractable Circuit Operations", 2021, algorithm 3; extended to scopes
that differ and to products that are split differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from plica.errors import StructuralPropertyError, UnsupportedError
from plica.graph.order import topological_order
from plica.symbolic.layers import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer, SumLayer
from plica.symbolic.operators.flat_products import LAYOUTS, Axes, FlatProduct, Operand, operand_of
from plica.symbolic.scope import Scope
from plica.symbolic.structure import LayerGraph, check_smooth_and_decomposable

Pair: TypeAlias = tuple[Operand, Operand]


@final
@dataclass(frozen=True, slots=True)
class Apart:
    """The outer product of two operands without a common variable."""

    pairs: tuple[Pair, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Inputs:
    """Two input layers that share a variable."""

    pairs: tuple[Pair, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Distribute:
    """Sums of one operand or of both: the products of all pairs of their inputs, those of the first slowest.

    Args:
        sums: Whether each of the two operands is distributed; the other one stays whole.
        pairs: The products.
    """

    sums: tuple[bool, bool]
    pairs: tuple[Pair, ...]


@final
@dataclass(frozen=True, slots=True)
class Part:
    """A factor of a product: a pair, or an operand of one side alone.

    Args:
        operands: The operand of each side; None where that side has none.
        axes: The axes along which its units are laid out, of the axes of the first product and then of the second.
    """

    operands: tuple[Operand | None, Operand | None]
    axes: Axes


@final
@dataclass(frozen=True, slots=True)
class Match:
    """Two products whose factors are matched.

    Args:
        sizes: The sizes of the axes of both, those of the first in front.
        parts: The factors of the result.
        pairs: The pairs among them.
    """

    sizes: tuple[int, ...]
    parts: tuple[Part, ...]
    pairs: tuple[Pair, ...]


Step: TypeAlias = Apart | Inputs | Distribute | Match


def children_of(layer: Layer, graph: LayerGraph) -> tuple[Operand, ...]:
    """The operands that a sum adds up; a layer that is a sum of products adds up one product."""
    inputs = graph.layer_inputs(layer)
    if isinstance(layer, FusedLayer) and layer.arity > 1:
        return (_unknown_product(layer, inputs),)
    return tuple(operand_of(child, graph.layer_inputs) for child in inputs)


def _unknown_product(layer: InnerLayer, inputs: Sequence[Layer]) -> FlatProduct:
    """The product of the inputs of a layer that is not taken apart: only its structure is right."""
    return FlatProduct((layer.num_input_units,), tuple(inputs), ((0,),) * len(inputs))


@final
@dataclass(slots=True)
class Pairs:
    """The steps of the product of two circuits.

    Args:
        first: The first circuit.
        second: The second circuit.
        what: The operation, as the subject of messages.
        only_structure: Whether layers that no product can take apart are taken as the sums and products that they are,
            to tell the structure alone.
    """

    first: LayerGraph
    second: LayerGraph
    what: str = "multiply"
    only_structure: bool = False
    _steps: dict[Pair, Step] = field(default_factory=dict)
    _scopes: dict[FlatProduct, Scope] = field(default_factory=dict)

    def ordered(self, outputs: Sequence[Pair]) -> tuple[Pair, ...]:
        """All pairs that the products of some pairs need, each after those that it needs itself.

        Raises:
            StructuralPropertyError: The circuits are not smooth, decomposable and compatible.
            UnsupportedError: A layer would have to be taken apart that cannot be.
        """
        for circuit in (self.first, self.second):
            check_smooth_and_decomposable(circuit, self.what)
        return topological_order(outputs, lambda pair: self.step(pair).pairs)

    def outputs(self, first: Sequence[Layer], second: Sequence[Layer]) -> tuple[Pair, ...]:
        """All pairs of some layers, those of the first circuit slowest."""
        lefts = [operand_of(layer, self.first.layer_inputs) for layer in first]
        rights = [operand_of(layer, self.second.layer_inputs) for layer in second]
        return tuple((left, right) for left in lefts for right in rights)

    def step(self, pair: Pair) -> Step:
        """How a pair is taken apart."""
        if pair not in self._steps:
            self._steps[pair] = self._step(*pair)
        return self._steps[pair]

    def scope(self, operand: Operand, graph: LayerGraph) -> Scope:
        """The variables of an operand of one of the circuits."""
        if isinstance(operand, Layer):
            return graph.layer_scope(operand)
        if operand not in self._scopes:
            self._scopes[operand] = Scope.union(*map(graph.layer_scope, operand.factors))
        return self._scopes[operand]

    def _step(self, left: Operand, right: Operand) -> Step:
        scopes = self.scope(left, self.first), self.scope(right, self.second)
        if scopes[0].isdisjoint(scopes[1]):
            return Apart()
        products = self._product(left, self.first), self._product(right, self.second)
        if products != (None, None):
            single = products[0] is None, products[1] is None
            matched = self._matched(products[0] or _alone(left), products[1] or _alone(right), single)
            return self._distributed(left, right, single) if matched is None else matched
        if isinstance(left, InputLayer) and isinstance(right, InputLayer):
            if self.only_structure and scopes[0] != scopes[1]:
                raise self._incompatible("input layers share some of their variables alone", [left], [right])
            return Inputs()
        is_sum = [not isinstance(operand, InputLayer) for operand in (left, right)]
        # a sum over fewer variables stays whole: it meets a factor of the other sum
        sums = (
            is_sum[0] and not (is_sum[1] and scopes[0] < scopes[1]),
            is_sum[1] and not (is_sum[0] and scopes[1] < scopes[0]),
        )
        return self._distributed(left, right, sums)

    def _product(self, operand: Operand, graph: LayerGraph) -> FlatProduct | None:
        """The operand as a product; None if it is none."""
        if isinstance(operand, FlatProduct):
            return operand
        if isinstance(operand, ProductLayer):
            if type(operand) in LAYOUTS:  # it stayed whole within another product
                flat = operand_of(operand, graph.layer_inputs)
                return flat if isinstance(flat, FlatProduct) else _alone(flat)
            self._refuse(operand, graph)
            return _unknown_product(operand, graph.layer_inputs(operand))
        return None

    def _distributed(self, left: Operand, right: Operand, sums: tuple[bool, bool]) -> Distribute:
        terms: list[tuple[Operand, ...]] = []
        sides = (left, self.first), (right, self.second)
        for is_sum, (operand, graph) in zip(sums, sides, strict=True):
            if not is_sum:
                terms.append((operand,))
                continue
            assert isinstance(operand, Layer), "products are matched"
            if isinstance(operand, InputLayer):
                raise self._incompatible("a product splits the variables of an input layer", [left], [right])
            if not isinstance(operand, SumLayer):
                self._refuse(operand, graph)
            terms.append(children_of(operand, graph))
        return Distribute(sums, tuple((one, other) for one in terms[0] for other in terms[1]))

    def _matched(self, left: FlatProduct, right: FlatProduct, single: tuple[bool, bool]) -> Match | None:
        """The factors matched; None if an operand that is no product, a `single` one, meets all of several factors."""
        groups = self._groups(left, right)
        if len(groups) == 1 and ((single[0] and len(right.factors) > 1) or (single[1] and len(left.factors) > 1)):
            return None
        parts: list[Part] = []
        shift = len(left.sizes)
        for lefts, rights in groups:
            if len(lefts) > 1 and len(rights) > 1:
                factors = [left.factors[at] for at in lefts], [right.factors[at] for at in rights]
                raise self._incompatible("factors of two products share variables crosswise", *factors)
            one, first_axes = left.part(lefts) if lefts else (None, ())
            other, second_axes = right.part(rights) if rights else (None, ())
            parts.append(Part((one, other), (*first_axes, *(axis + shift for axis in second_axes))))
        pairs = tuple(
            (one, other) for one, other in (part.operands for part in parts) if one is not None and other is not None
        )
        return Match((*left.sizes, *right.sizes), tuple(parts), pairs)

    def _groups(self, left: FlatProduct, right: FlatProduct) -> list[tuple[list[int], list[int]]]:
        """The connected groups of factors that share variables, in the order of the first product, then the second."""
        meets = self._meeting(left, right)
        readers: dict[int, list[int]] = {}
        for at, others in enumerate(meets):
            for other in others:
                readers.setdefault(other, []).append(at)
        groups: list[tuple[list[int], list[int]]] = []
        seen: tuple[dict[int, None], dict[int, None]] = ({}, {})
        for start in range(len(left.factors)):
            if start in seen[0]:
                continue
            lefts, rights, todo = {start: None}, dict[int, None](), [start]
            while todo:
                for other in meets[todo.pop()]:
                    if other not in rights:
                        rights[other] = None
                        new = [at for at in readers[other] if at not in lefts]
                        lefts.update(dict.fromkeys(new))
                        todo += new
            seen[0].update(lefts)
            seen[1].update(rights)
            groups.append((sorted(lefts), sorted(rights)))
        groups += [([], [other]) for other in range(len(right.factors)) if other not in seen[1]]
        return groups

    def _meeting(self, left: FlatProduct, right: FlatProduct) -> list[list[int]]:
        """For each factor of the first product, the factors of the second that share a variable with it."""
        sides = (left, self.first), (right, self.second)
        scopes = [[graph.layer_scope(factor) for factor in product.factors] for product, graph in sides]
        if len(scopes[0]) * len(scopes[1]) <= _FEW:
            return [
                [index for index, other in enumerate(scopes[1]) if not scope.isdisjoint(other)] for scope in scopes[0]
            ]
        owner = {variable: index for index, scope in enumerate(scopes[1]) for variable in scope}
        return [list(dict.fromkeys(owner[one] for one in scope if one in owner)) for scope in scopes[0]]

    def _refuse(self, layer: Layer, graph: LayerGraph) -> None:
        """Refuse to take a layer apart whose meaning is not known here, unless the structure alone is asked for."""
        if self.only_structure:
            return
        reason = (
            "it is made by the optimizer; multiply the circuit as it was described"
            if isinstance(layer, FusedLayer)
            else "it is a layer of your own; describe it by sum and product layers, or multiply circuits that meet it "
            "in no variable"
        )
        raise UnsupportedError(
            f"{self.what}: {graph.layer_name(layer)}, with scope {graph.layer_scope(layer)!s}, cannot be multiplied by "
            f"a layer that shares its variables: {reason}."
        )

    def _incompatible(
        self, reason: str, lefts: Sequence[Operand], rights: Sequence[Operand]
    ) -> StructuralPropertyError:
        shown = [
            "; ".join(_named(one, graph) for one in operands)
            for operands, graph in ((lefts, self.first), (rights, self.second))
        ]
        return StructuralPropertyError(
            f"{self.what} needs compatible circuits, but {reason}: {shown[0]} of the first circuit, {shown[1]} of the "
            "second. Build both so that their products split variables alike, for example from one region graph that "
            "is structured decomposable."
        )


_FEW = 256  # pairs of factors that are compared one by one


def _named(operand: Operand, graph: LayerGraph) -> str:
    layers = operand.factors if isinstance(operand, FlatProduct) else (operand,)
    shown = [f"{graph.layer_name(layer)} with scope {graph.layer_scope(layer)!s}" for layer in layers[:4]]
    return "; ".join(shown if len(layers) <= 4 else [*shown, f"... {len(layers) - 4} more"])


def _alone(operand: Operand) -> FlatProduct:
    """An operand as a product of one factor."""
    assert isinstance(operand, Layer), "products are flat already"
    units = operand.num_output_units
    return FlatProduct((units,), (operand,), ((0,),)) if units > 1 else FlatProduct((), (operand,), ((),))


def are_compatible(first: LayerGraph, second: LayerGraph) -> bool:
    """Whether the structure of two circuits lets `multiply` succeed: its walk, without building.

    Both must be smooth and decomposable. A circuit is compatible with itself if it is structured decomposable, and with
    every other one if it is omni-compatible. Rules of input layers are not asked for.

    Source: Vergari et al., "A Compositional Atlas of Tractable Circuit Operations", 2021, definition 4, extended to
    products that are split differently.

    >>> from plica.symbolic.functional import rename
    >>> from plica.templates.pgms import fully_factorized, hmm
    >>> chain, independent = hmm([0, 1, 2], "embedding", 2), fully_factorized(3, "embedding")
    >>> are_compatible(chain, independent), are_compatible(chain, rename(chain, {0: 1, 1: 2, 2: 0}))
    (True, False)
    """
    pairs = Pairs(first, second, only_structure=True)
    try:
        pairs.ordered(pairs.outputs(first.outputs, second.outputs))
    except StructuralPropertyError:
        return False
    return True
