"""Logical circuits rewritten: constants removed, and disjunctions made smooth.

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

# gate: what changes nothing among its inputs, and what decides it
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
    made: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    for node in nodes:
        inputs = [new[one] for one in in_nodes[node]]
        new[node] = _simplified(node, inputs, in_nodes[node], made) if isinstance(node, Gate) else node
        made.setdefault(new[node], ())
    results = [new[output] for output in outputs]
    return {node: made[node] for node in topological_order(results, made.__getitem__)}, results


def _simplified(
    gate: Gate,
    inputs: Sequence[LogicalNode],
    before: tuple[LogicalNode, ...],
    made: dict[LogicalNode, tuple[LogicalNode, ...]],
) -> LogicalNode:
    """What stands for a gate of these inputs."""
    neutral, deciding = _CONSTANTS[type(gate)]
    decided = next((one for one in inputs if isinstance(one, deciding)), None)
    if decided is not None:
        return decided
    kept = tuple(one for one in inputs if not isinstance(one, neutral))
    if not kept:
        return inputs[0]
    if len(kept) == 1:
        return kept[0]
    same: LogicalNode = gate if kept == before else type(gate)()
    made[same] = kept
    return same


def smoothed(
    nodes: Iterable[LogicalNode], in_nodes: InNodes, outputs: Iterable[LogicalNode], scopes: Mapping[LogicalNode, Scope]
) -> Parts:
    """The nodes with their inputs, where those of each disjunction have one scope; and the outputs.

    Args:
        nodes: Every node, each after its inputs.
        in_nodes: The inputs of each.
        outputs: The outputs.
        scopes: The variables of each.
    """
    new: dict[LogicalNode, LogicalNode] = {}
    made: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    fillers = Fillers(made)
    for node in nodes:
        inputs = tuple(new[one] for one in in_nodes[node])
        if isinstance(node, DisjunctionNode):
            missing = [scopes[node] - scopes[one] for one in in_nodes[node]]
            inputs = tuple(fillers.filled(one, lacks) for one, lacks in zip(inputs, missing, strict=True))
        new[node] = type(node)() if isinstance(node, Gate) and inputs != in_nodes[node] else node
        made[new[node]] = inputs
    return made, [new[output] for output in outputs]


class Fillers:
    """Conjunctions with `v or not v`, which mention variables and say nothing of them; one for each variable.

    Args:
        made: Where new nodes go, with their inputs.
    """

    def __init__(self, made: dict[LogicalNode, tuple[LogicalNode, ...]]) -> None:
        self._made = made
        self._either: dict[int, LogicalNode] = {}
        self._filled: dict[tuple[LogicalNode, Scope], LogicalNode] = {}

    def filled(self, node: LogicalNode, missing: Scope) -> LogicalNode:
        """A node and all of the missing variables; itself where none is missing."""
        if not missing:
            return node
        if (node, missing) not in self._filled:
            both = ConjunctionNode()
            self._made[both] = (node, *map(self._of, missing))
            self._filled[node, missing] = both
        return self._filled[node, missing]

    def _of(self, variable: int) -> LogicalNode:
        if variable not in self._either:
            true, false, either = LiteralNode(variable), NegatedLiteralNode(variable), DisjunctionNode()
            self._made |= {true: (), false: (), either: (true, false)}
            self._either[variable] = either
        return self._either[variable]
