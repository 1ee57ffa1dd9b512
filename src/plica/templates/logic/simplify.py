"""Rewrites logical circuits: removes constants, and puts constants in place of literals.

>>> from plica.templates.logic.nodes import BottomNode, DisjunctionNode, LiteralNode
>>> x, never, either = LiteralNode(0), BottomNode(), DisjunctionNode()
>>> in_nodes, outputs = pruned({x: (), never: (), either: (x, never)}, [either])
>>> outputs
[LiteralNode(variable=0)]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from plica.graph.order import topological_order
from plica.templates.logic.formula import InNodes
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

Parts: TypeAlias = tuple[dict[LogicalNode, tuple[LogicalNode, ...]], list[LogicalNode]]

# gate: the constant that does not change it as an input, and the constant that decides it
_CONSTANTS: dict[type[Gate], tuple[type[LogicalNode], type[LogicalNode]]] = {
    ConjunctionNode: (TopNode, BottomNode),  # x and true = x, x and false = false
    DisjunctionNode: (BottomNode, TopNode),  # x or false = x, x or true = true
}


def pruned(in_nodes: InNodes, outputs: Iterable[LogicalNode]) -> Parts:
    """The nodes that outputs depend on, without constants and gates of one input, with their inputs; and the outputs.

    Args:
        in_nodes: The inputs of each node, each node after its inputs.
        outputs: The outputs.
    """
    new: dict[LogicalNode, LogicalNode] = {}
    rebuilt: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    for node, before in in_nodes.items():
        inputs = [new[child] for child in before]
        new[node] = _simplified(node, inputs, before, rebuilt) if isinstance(node, Gate) else node
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


def conditioned(in_nodes: InNodes, assignment: Mapping[int, int]) -> dict[LogicalNode, tuple[LogicalNode, ...]]:
    """The nodes in the same order, with constants in place of the literals of assigned variables.

    Args:
        in_nodes: The inputs of each node, each node after its inputs.
        assignment: The values of some variables, 0 or 1.

    Returns:
        The new nodes with their inputs, the i-th for the i-th node.
    """
    new: dict[LogicalNode, LogicalNode] = {}
    rebuilt: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
    for node, before in in_nodes.items():
        inputs = tuple(new[child] for child in before)
        match node:
            case LiteralNode(variable) | NegatedLiteralNode(variable) if variable in assignment:
                is_true = assignment[variable] == isinstance(node, LiteralNode)
                new[node] = TopNode() if is_true else BottomNode()
            case _:
                new[node] = type(node)() if isinstance(node, Gate) and inputs != before else node
        rebuilt[new[node]] = inputs
    return rebuilt
