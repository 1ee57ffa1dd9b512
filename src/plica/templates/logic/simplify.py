"""Rewrites logical circuits: removes constants, and makes disjunctions smooth.

>>> from plica.templates.logic.nodes import BottomNode, DisjunctionNode, LiteralNode
>>> x, never, either = LiteralNode(0), BottomNode(), DisjunctionNode()
>>> in_nodes, outputs = pruned([x, never, either], {x: (), never: (), either: (x, never)}, [either])
>>> outputs
[LiteralNode(variable=0)]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from plica.graph.order import topological_order
from plica.symbolic.scope import Scope
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    Gate,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)

InNodes: TypeAlias = Mapping[LogicalNode, tuple[LogicalNode, ...]]
Parts: TypeAlias = tuple[dict[LogicalNode, tuple[LogicalNode, ...]], list[LogicalNode]]

# gate: the constant that does not change it as an input, and the constant that decides it
_CONSTANTS: dict[type[Gate], tuple[type[LogicalNode], type[LogicalNode]]] = {
    ConjunctionNode: (TopNode, BottomNode),  # x and true = x, x and false = false
    DisjunctionNode: (BottomNode, TopNode),  # x or false = x, x or true = true
}


def pruned(nodes: Iterable[LogicalNode], in_nodes: InNodes, outputs: Iterable[LogicalNode]) -> Parts:
    """The nodes that outputs depend on, without constants and gates of one input, with their inputs; and the outputs.

    Args:
        nodes: Every node, each after its inputs.
        in_nodes: The inputs of each.
        outputs: The outputs.
    """
    new: dict[LogicalNode, LogicalNode] = {}
    rebuilt: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    for node in nodes:
        inputs = [new[child] for child in in_nodes[node]]
        new[node] = _simplified(node, inputs, in_nodes[node], rebuilt) if isinstance(node, Gate) else node
        rebuilt.setdefault(new[node], ())
    results = [new[output] for output in outputs]
    return {node: rebuilt[node] for node in topological_order(results, rebuilt.__getitem__)}, results


def _simplified(
    gate: Gate,
    inputs: Sequence[LogicalNode],
    before: tuple[LogicalNode, ...],
    rebuilt: dict[LogicalNode, tuple[LogicalNode, ...]],
) -> LogicalNode:
    """The node that replaces a gate with these inputs; a new gate is added to `rebuilt`."""
    neutral, deciding = _CONSTANTS[type(gate)]
    decided = next((child for child in inputs if isinstance(child, deciding)), None)
    if decided is not None:
        return decided
    remaining = tuple(child for child in inputs if not isinstance(child, neutral))
    if not remaining:
        return inputs[0]
    if len(remaining) == 1:
        return remaining[0]
    same: LogicalNode = gate if remaining == before else type(gate)()
    rebuilt[same] = remaining
    return same


def smoothed(
    nodes: Iterable[LogicalNode], in_nodes: InNodes, outputs: Iterable[LogicalNode], scopes: Mapping[LogicalNode, Scope]
) -> Parts:
    """The nodes with their inputs, such that all inputs of a disjunction have the same scope; and the outputs.

    Args:
        nodes: Every node, each after its inputs.
        in_nodes: The inputs of each.
        outputs: The outputs.
        scopes: The variables of each.
    """
    new: dict[LogicalNode, LogicalNode] = {}
    rebuilt: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    fillers = Fillers(rebuilt)
    for node in nodes:
        inputs = tuple(new[child] for child in in_nodes[node])
        if isinstance(node, DisjunctionNode):
            missing = [scopes[node] - scopes[child] for child in in_nodes[node]]
            inputs = tuple(fillers.filled(child, lacks) for child, lacks in zip(inputs, missing, strict=True))
        new[node] = type(node)() if isinstance(node, Gate) and inputs != in_nodes[node] else node
        rebuilt[new[node]] = inputs
    return rebuilt, [new[output] for output in outputs]


class Fillers:
    """Makes conjunctions with `v or not v`, which add v to a scope; there is one disjunction for each variable.

    Args:
        nodes: The graph with its inputs; new nodes are added.
    """

    def __init__(self, nodes: dict[LogicalNode, tuple[LogicalNode, ...]]) -> None:
        self._nodes = nodes
        self._either: dict[int, LogicalNode] = {}
        self._filled: dict[tuple[LogicalNode, Scope], LogicalNode] = {}

    def filled(self, node: LogicalNode, missing: Scope) -> LogicalNode:
        """The conjunction of a node and all missing variables; the node itself if none is missing."""
        if not missing:
            return node
        if (node, missing) not in self._filled:
            both = ConjunctionNode()
            self._nodes[both] = (node, *map(self._of, missing))
            self._filled[node, missing] = both
        return self._filled[node, missing]

    def _of(self, variable: int) -> LogicalNode:
        if variable not in self._either:
            true, false, either = LiteralNode(variable), NegatedLiteralNode(variable), DisjunctionNode()
            self._nodes |= {true: (), false: (), either: (true, false)}
            self._either[variable] = either
        return self._either[variable]
