"""Checks of the arguments of logical circuits, and of what queries need of a circuit.

>>> from plica.templates.logic.nodes import ConjunctionNode, LiteralNode
>>> x, both = LiteralNode(0), ConjunctionNode()
>>> scopes_of({x: (), both: (x, x)})[both]
Scope({0})
"""

from collections.abc import Mapping, Sequence
from typing import get_args

from plica.errors import DTypeError, GraphError, InputError
from plica.symbolic.scope import Scope
from plica.templates.logic.formula import InNodes
from plica.templates.logic.nodes import Gate, LiteralNode, LogicalNode, NegatedLiteralNode


def scopes_of(in_nodes: InNodes) -> dict[LogicalNode, Scope]:
    """The variables of each node; `in_nodes` lists each node after its inputs."""
    scopes: dict[LogicalNode, Scope] = {}
    for node, inputs in in_nodes.items():
        if isinstance(node, LiteralNode | NegatedLiteralNode):
            scopes[node] = Scope([node.variable])
        else:
            scopes[node] = Scope.union(*(scopes[child] for child in inputs))
    return scopes


def circuit_scope(used: Scope, wanted: Scope | None, vtree: Scope | None) -> Scope:
    """The variables of a circuit.

    Args:
        used: Those of its outputs.
        wanted: Those that the caller names.
        vtree: Those of the vtree.

    Raises:
        InputError: One that is used is not wanted, or the vtree has others than those wanted.
    """
    scope = wanted if wanted is not None else vtree if vtree is not None else used
    if not used <= scope:
        raise InputError(f"LogicalCircuit: the scope {scope!s} lacks variables of the formula: {used - scope!s}; add them")
    if vtree is not None and vtree != scope:
        raise InputError(f"LogicalCircuit: the vtree has variables {vtree!s}, and the scope is {scope!s}; leave scope out")
    return scope


def check_graph(
    listed: Mapping[LogicalNode, object],
    in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]],
    outputs: tuple[LogicalNode, ...],
) -> None:
    """Raise a GraphError or a DTypeError as `LogicalCircuit` describes them."""
    for node in listed:
        if not isinstance(node, get_args(LogicalNode)):
            raise DTypeError(f"LogicalCircuit: expected nodes such as LiteralNode(0), found {node!r}")
        if isinstance(node, Gate) and not in_nodes.get(node):
            raise GraphError(
                f"LogicalCircuit: a {type(node).__name__} has no inputs; name them in in_nodes, or use a TopNode or a "
                "BottomNode"
            )
    for node, inputs in in_nodes.items():
        if inputs and not isinstance(node, Gate):
            raise GraphError(f"LogicalCircuit: {node} has inputs; put a ConjunctionNode or a DisjunctionNode there")
        for unknown in (node, *inputs):
            if unknown not in listed:
                raise GraphError(f"LogicalCircuit: in_nodes names {unknown}, which is not listed; add it to `nodes`")
    if not outputs:
        raise GraphError("LogicalCircuit: there are no outputs; pass the root")
    for node in outputs:
        if node not in listed:
            raise GraphError(f"LogicalCircuit: the output {node} is not listed; add it to `nodes`")
