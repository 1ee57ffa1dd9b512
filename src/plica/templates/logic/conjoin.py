"""Conjoins formulas: the product of two graphs, whose models are those of both.

>>> from plica.templates.logic.nodes import LiteralNode, NegatedLiteralNode
>>> x, y, not_x, either = LiteralNode(0), LiteralNode(1), NegatedLiteralNode(0), DisjunctionNode()
>>> first = {x: (), y: (), either: (x, y)}
>>> in_nodes, (output,) = conjoined(first, {not_x: ()}, either, not_x)  # (x or y) and not x
>>> output, in_nodes[output]
(ConjunctionNode(), (LiteralNode(variable=1), NegatedLiteralNode(variable=0)))

Two formulas are taken apart by one step; the pairs that it needs are steps of their own, each taken once:

* without a common variable they become a conjunction;
* a disjunction is distributed, `(a or b) and c = (a and c) or (b and c)`, both where they have one scope: what excluded
  each other still does;
* of conjunctions, factors that share variables are conjoined, and the others are kept.

So the size is at most the product of the two sizes. With a vtree that both follow, factors are matched by the sides of
its nodes, and the result follows it too.

Source: Pipatsrisawat and Darwiche, "New compilation languages based on structured decomposability", 2008, section 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from plica.errors import StructuralPropertyError
from plica.graph.order import topological_order
from plica.symbolic.scope import Scope
from plica.templates.logic.checks import scopes_of
from plica.templates.logic.formula import InNodes
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    Gate,
    LogicalNode,
    TopNode,
)
from plica.templates.logic.simplify import Parts
from plica.templates.logic.smooth import places_in
from plica.templates.logic.vtree import Vtree

Factors: TypeAlias = tuple[LogicalNode, ...]  # whose conjunction is meant
Scopes: TypeAlias = Mapping[LogicalNode, Scope]


@final
@dataclass(frozen=True, slots=True)
class _Pair:
    """Two conjunctions of factors, to be conjoined."""

    first: Factors
    second: Factors


@final
@dataclass(frozen=True, slots=True)
class _Step:
    """A gate over nodes that exist, and over the results of pairs."""

    gate: type[Gate]
    parts: tuple[LogicalNode | _Pair, ...]

    @property
    def pairs(self) -> list[_Pair]:
        """The pairs that must be conjoined before."""
        return [part for part in self.parts if isinstance(part, _Pair)]


def conjoined(
    first: InNodes, second: InNodes, first_output: LogicalNode, second_output: LogicalNode, vtree: Vtree | None = None
) -> Parts:
    """The nodes of the conjunction of two formulas, with their inputs; and its output.

    Args:
        first: The inputs of each node of a decomposable formula without constants, each node after its inputs.
        second: The same of the other formula.
        first_output: Its output.
        second_output: That of the other one.
        vtree: The vtree that both follow, if there is one.

    Raises:
        StructuralPropertyError: Several factors of a conjunction each share variables with several of another one.
    """
    walk = _Product({**first, **second}, vtree)
    result = walk.product(first_output, second_output)
    return {node: walk.nodes[node] for node in topological_order([result], walk.nodes.__getitem__)}, [result]


@dataclass(slots=True)
class _Product:
    """The nodes of both formulas and of their product, as far as it is made.

    Args:
        nodes: Their inputs.
        vtree: The vtree that both formulas follow, if there is one.
    """

    nodes: dict[LogicalNode, tuple[LogicalNode, ...]]
    vtree: Vtree | None
    _scopes: Scopes = field(init=False)
    _sides: tuple[Scope, ...] = field(init=False)  # the variables below each node of the vtree
    _places: Mapping[LogicalNode, int] = field(init=False)
    _false: LogicalNode = field(default_factory=BottomNode)
    _results: dict[_Pair, LogicalNode] = field(default_factory=dict)
    _gates: dict[tuple[type[Gate], Factors], LogicalNode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes[self._false] = ()
        self._scopes = scopes_of(self.nodes)
        if self.vtree is not None:
            self._places = places_in(self.vtree, self.nodes, self._scopes)
            sides: list[Scope] = []
            for node in self.vtree.nodes:
                sides.append(Scope(node) if len(node) == 1 else sides[node[0]] | sides[node[1]])
            self._sides = tuple(sides)

    def product(self, first: LogicalNode, second: LogicalNode) -> LogicalNode:
        """The conjunction of two nodes."""
        constants = [node for node in (first, second) if isinstance(node, TopNode | BottomNode)]
        if constants:
            other = second if first is constants[0] else first
            return other if isinstance(constants[0], TopNode) else constants[0]
        root = _Pair((first,), (second,))
        steps: dict[_Pair, _Step] = {}
        stack = [root]
        while stack:
            pair = stack[-1]
            if pair not in steps:
                steps[pair] = self._step(pair)
                stack.extend(part for part in steps[pair].pairs if part not in self._results)
                continue
            stack.pop()
            if pair not in self._results:
                self._results[pair] = self._made(steps[pair])
        return self._results[root]

    def _made(self, step: _Step) -> LogicalNode:
        """The node of a step whose pairs have results."""
        inputs = tuple(self._results[part] if isinstance(part, _Pair) else part for part in step.parts)
        false = [node for node in inputs if isinstance(node, BottomNode)]
        if false and step.gate is ConjunctionNode:
            return false[0]
        inputs = tuple(node for node in inputs if not isinstance(node, BottomNode))
        if len(inputs) < 2:
            return inputs[0] if inputs else false[0]
        if (step.gate, inputs) not in self._gates:
            gate = step.gate()
            self.nodes[gate] = inputs
            self._gates[step.gate, inputs] = gate
        return self._gates[step.gate, inputs]

    def _step(self, pair: _Pair) -> _Step:
        first, second = self._expanded(pair.first), self._expanded(pair.second)
        matches = _matches(list(first.values()), list(second.values()))
        names, others = tuple(first), tuple(second)
        if len(matches) == 1:
            return self._whole(pair, names, others)
        if not any(left and right for left, right in matches):  # no common variable
            return _Step(ConjunctionNode, (*pair.first, *pair.second))
        parts: list[LogicalNode | _Pair] = []
        for left, right in matches:
            chosen = tuple(names[index] for index in left), tuple(others[index] for index in right)
            if left and right:
                parts.append(_Pair(_joined(chosen[0], names, pair.first), _joined(chosen[1], others, pair.second)))
            else:
                parts.extend(chosen[0] or chosen[1])
        return _Step(ConjunctionNode, tuple(parts))

    def _whole(self, pair: _Pair, first: Factors, second: Factors) -> _Step:
        """The step of a pair whose factors, expanded, all share variables, directly or by way of others.

        Raises:
            StructuralPropertyError: There are several on both sides.
        """
        sums = [len(side) == 1 and isinstance(side[0], DisjunctionNode) for side in (first, second)]
        if all(sums) and self._scope(first[0]) != self._scope(second[0]):
            sums = [len(self._scope(first[0])) >= len(self._scope(second[0])), False]
            sums[1] = not sums[0]  # the larger one alone: the other may meet a single factor of each of its terms
        if any(sums):
            terms = [
                [(term,) for term in self.nodes[side[0]]] if is_sum else [side]
                for side, is_sum in zip((pair.first, pair.second), sums, strict=True)
            ]
            return _Step(DisjunctionNode, tuple(_Pair(left, right) for left in terms[0] for right in terms[1]))
        if len(first) == len(second) == 1:  # literals of one variable
            result = first[0] if type(first[0]) is type(second[0]) else self._false
            return _Step(ConjunctionNode, (result,))
        raise StructuralPropertyError(
            f"conjoin: a conjunction of factors over {_shown(self._scopes, first)} and one over "
            f"{_shown(self._scopes, second)} split their variables differently; compile both with one vtree, "
            "or all clauses together by LogicalCircuit.from_cnf"
        )

    def _scope(self, node: LogicalNode) -> Scope:
        """The variables of a node; with a vtree, of its place there."""
        return self._scopes[node] if self.vtree is None else self._sides[self._places[node]]

    def _expanded(self, factors: Factors) -> dict[LogicalNode, Scope]:
        """The factors of a conjunction, with the variables by which they are matched."""
        if self.vtree is None:
            flat: dict[LogicalNode, Scope] = {}
            waiting = list(reversed(factors))
            while waiting:
                node = waiting.pop()
                if isinstance(node, ConjunctionNode):
                    waiting.extend(reversed(self.nodes[node]))
                else:
                    flat[node] = self._scopes[node]
            return flat
        (node,) = factors  # `_joined` keeps conjunctions whole
        if not isinstance(node, ConjunctionNode):
            return {node: self._scope(node)}
        left, right = self.vtree.children(self._places[node])
        is_left = [self.vtree.is_above(left, self._places[child]) for child in self.nodes[node]]
        return {
            child: self._sides[left if side else right] for child, side in zip(self.nodes[node], is_left, strict=True)
        }


def _joined(chosen: Factors, of: Factors, whole: Factors) -> Factors:
    """The chosen ones of the factors of a conjunction; the conjunction itself where these are all."""
    return whole if chosen == of else chosen


def _matches(first: Sequence[Scope], second: Sequence[Scope]) -> list[tuple[list[int], list[int]]]:
    """The indices of factors that share variables, directly or by way of others; the scopes of a side are disjoint."""
    groups: list[tuple[list[int], list[int], Scope]] = [([index], [], scope) for index, scope in enumerate(first)]
    for index, scope in enumerate(second):
        apart: list[tuple[list[int], list[int], Scope]] = []
        lefts: list[int] = []
        rights, variables = [index], scope
        for group in groups:
            if group[2].isdisjoint(scope):
                apart.append(group)
            else:
                lefts, rights, variables = [*lefts, *group[0]], [*group[1], *rights], variables | group[2]
        groups = [*apart, (lefts, rights, variables)]
    return [(left, right) for left, right, _ in groups]


def _shown(scopes: Scopes, factors: Factors) -> str:
    return " and ".join(str(scopes[node]) for node in factors[:3])
