"""Negates formulas exactly, in linear time, where disjunctions are decisions.

>>> from plica.templates.logic.nodes import ConjunctionNode, LiteralNode
>>> x, y, both = LiteralNode(0), LiteralNode(1), ConjunctionNode()
>>> in_nodes, (output,) = negated({x: (), y: (), both: (x, y)}, [both])
>>> output, [in_nodes[child] for child in in_nodes[output]]  # not x, or x and not y
(DisjunctionNode(), [(), (LiteralNode(variable=0), NegatedLiteralNode(variable=1))])

A disjunction of `p_i and s_i`, of whose primes `p_i` exactly one is true, has the negation of `p_i and not s_i`. A
conjunction `a and b` has the negation `not a, or a and not b`. Both are deterministic, decomposable and structured as
before.

Source: Darwiche, "SDD: a new canonical representation of propositional knowledge bases", 2011, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from plica.errors import StructuralPropertyError
from plica.graph.order import topological_order
from plica.templates.logic.formula import PRIME, InNodes, fingerprints
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    Literal,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)
from plica.templates.logic.simplify import Parts

Rest: TypeAlias = tuple[LogicalNode, ...]
Elements: TypeAlias = list[
    tuple[LogicalNode, Rest]
]  # the prime of each input of a disjunction, and its other conjuncts

_OPPOSITE: dict[type[Literal], type[Literal]] = {LiteralNode: NegatedLiteralNode, NegatedLiteralNode: LiteralNode}


def negated(in_nodes: InNodes, outputs: Sequence[LogicalNode]) -> Parts:
    """The nodes of the negation, with their inputs; and its outputs.

    Args:
        in_nodes: The inputs of each node, each node after its inputs; the formula is decomposable.
        outputs: The outputs, each of which is negated.

    Raises:
        StructuralPropertyError: A disjunction is no decision: it is not known which of its inputs' conjuncts exclude
            each other and cover all assignments.
    """
    walk = _Negation(in_nodes)
    needed = walk.needed(outputs)
    for node in in_nodes:
        if node in needed:
            walk.negate(node)
    results = [walk.negations[output] for output in outputs]
    return {node: walk.nodes[node] for node in topological_order(results, walk.nodes.__getitem__)}, results


@dataclass(slots=True)
class _Negation:
    """The nodes of a formula and of the negations made so far.

    Args:
        in_nodes: The inputs of each node of the formula.
        nodes: Those, and the nodes of negations, with their inputs.
        negations: The negations of some nodes.
    """

    in_nodes: InNodes
    nodes: dict[LogicalNode, Rest] = field(default_factory=dict)
    negations: dict[LogicalNode, LogicalNode] = field(default_factory=dict)
    _elements: dict[LogicalNode, Elements] = field(default_factory=dict)
    _fingerprints: dict[LogicalNode, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = dict(self.in_nodes)
        self._fingerprints = fingerprints(self.in_nodes)

    def needed(self, outputs: Sequence[LogicalNode]) -> dict[LogicalNode, None]:
        """The nodes whose negations are needed."""
        found: dict[LogicalNode, None] = {}
        waiting = list(outputs)
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found[node] = None
            if isinstance(node, DisjunctionNode):
                self._elements[node] = self._decision(node)
                waiting.extend(child for _, rest in self._elements[node] for child in rest)
            else:
                waiting.extend(self.in_nodes[node])
        return found

    def _decision(self, node: LogicalNode) -> Elements:
        """The inputs of a disjunction as primes, of which exactly one is true, and what each is joined with."""
        inputs = [self._conjuncts(child) for child in self.in_nodes[node]]
        for primes in ([conjuncts[0] for conjuncts in inputs], _opposite_literals(inputs)):
            if primes and sum(self._fingerprints[prime] for prime in primes) % PRIME == 1:
                pairs = zip(primes, inputs, strict=True)
                return [(prime, tuple(one for one in conjuncts if one is not prime)) for prime, conjuncts in pairs]
        raise StructuralPropertyError(
            f"negate needs disjunctions that decide, but of the primes of disjunction {self._name(node)} not always "
            "exactly one is true. Negate a diagram of SDD.load or LogicalCircuit.from_cnf, before prune()."
        )

    def _name(self, node: LogicalNode) -> str:
        return f"{list(self.in_nodes).index(node)} of {len(self.in_nodes)} nodes"

    def _conjuncts(self, node: LogicalNode) -> Rest:
        return self.in_nodes[node] if isinstance(node, ConjunctionNode) else (node,)

    def negate(self, node: LogicalNode) -> None:
        """Make the negation of a node, after those of the nodes that it needs."""
        match node:
            case TopNode():
                negation: LogicalNode = self._add(BottomNode())
            case BottomNode():
                negation = self._add(TopNode())
            case LiteralNode(variable) | NegatedLiteralNode(variable):
                negation = self._add(_OPPOSITE[type(node)](variable))
            case ConjunctionNode():
                negation = self._not_all(self.in_nodes[node])
            case DisjunctionNode():
                elements = [self._both(prime, self._not_all(rest)) for prime, rest in self._elements[node]]
                negation = self._add(DisjunctionNode(), *elements)
        self.negations[node] = negation

    def _not_all(self, nodes: Rest) -> LogicalNode:
        """The negation of a conjunction of nodes: not the first, or the first and not all others."""
        if not nodes:
            return self._add(BottomNode())
        *before, last = nodes
        negation = self.negations[last]
        for node in reversed(before):
            negation = self._add(DisjunctionNode(), self.negations[node], self._both(node, negation))
        return negation

    def _both(self, first: LogicalNode, second: LogicalNode) -> LogicalNode:
        return self._add(ConjunctionNode(), first, second)

    def _add(self, node: LogicalNode, *inputs: LogicalNode) -> LogicalNode:
        self.nodes[node] = inputs
        return node


def _opposite_literals(inputs: Sequence[Rest]) -> list[LogicalNode]:
    """Opposite literals among the conjuncts of two inputs; none if there are no such."""
    if len(inputs) != 2:
        return []
    first = {(type(one), one.variable): one for one in inputs[0] if isinstance(one, Literal)}
    for other in inputs[1]:
        if isinstance(other, Literal) and (_OPPOSITE[type(other)], other.variable) in first:
            return [first[_OPPOSITE[type(other)], other.variable], other]
    return []
