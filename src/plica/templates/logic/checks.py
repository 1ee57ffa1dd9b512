"""Checks of the arguments of logical circuits, and of what queries need of a circuit.

>>> from plica.templates.logic.nodes import ConjunctionNode, LiteralNode
>>> x, both = LiteralNode(0), ConjunctionNode()
>>> scopes_of({x: (), both: (x, x)})[both]
Scope({0})
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import and_
from typing import TypeAlias, get_args

from plica.errors import DTypeError, GraphError, InputError, StructuralPropertyError
from plica.symbolic.scope import Scope
from plica.templates.logic.formula import InNodes
from plica.templates.logic.nodes import BottomNode, DisjunctionNode, Gate, LiteralNode, LogicalNode, NegatedLiteralNode

Implied: TypeAlias = tuple[Scope, Scope]  # the variables that must be true, and those that must be false


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
        raise InputError(
            f"LogicalCircuit: the scope {scope!s} lacks variables of the formula: {used - scope!s}; add them"
        )
    if vtree is not None and vtree != scope:
        raise InputError(
            f"LogicalCircuit: the vtree has variables {vtree!s}, and the scope is {scope!s}; leave scope out"
        )
    return scope


def check_graph(
    listed: Mapping[LogicalNode, tuple[LogicalNode, ...]],
    in_nodes: Iterable[LogicalNode],
    outputs: tuple[LogicalNode, ...],
) -> None:
    """Raise a GraphError or a DTypeError as `LogicalCircuit` describes them."""
    for node in listed:
        if not isinstance(node, get_args(LogicalNode)):
            raise DTypeError(f"LogicalCircuit: expected nodes such as LiteralNode(0), found {node!r}")
        if isinstance(node, Gate) and not listed[node]:
            raise GraphError(
                f"LogicalCircuit: a {type(node).__name__} has no inputs; name them in in_nodes, or use a TopNode or a "
                "BottomNode"
            )
    for node in in_nodes:
        inputs = listed.get(node, ())
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


def excludes(in_nodes: InNodes, scopes: Mapping[LogicalNode, Scope]) -> bool:
    """Whether any two inputs of every disjunction imply opposite literals; `scopes` are those of `scopes_of`.

    Inputs that are never true are left out: they exclude all others.
    """
    implied: dict[LogicalNode, Implied | None] = {}  # None: the node is never true
    for node, inputs in in_nodes.items():
        match node:
            case LiteralNode():
                implied[node] = (scopes[node], Scope())
            case NegatedLiteralNode():
                implied[node] = (Scope(), scopes[node])
            case BottomNode():
                implied[node] = None
            case DisjunctionNode():
                parts = [part for child in inputs if (part := implied[child]) is not None]
                if not _exclude_each_other(parts):
                    return False
                implied[node] = tuple(reduce(and_, one) for one in zip(*parts, strict=True)) if parts else None
            case _:
                parts = [part for child in inputs if (part := implied[child]) is not None]
                true, false = (Scope.union(*(part[value] for part in parts)) for value in range(2))
                implied[node] = (true, false) if len(parts) == len(inputs) else None
    return True


def _exclude_each_other(parts: list[Implied]) -> bool:
    """Whether any two parts imply opposite literals.

    Parts are split by a variable of which all imply a value, so that thousands of terms are not compared in pairs.
    """
    waiting = [parts]
    while waiting:
        group = waiting.pop()
        if len(group) < 2:
            continue
        decided = reduce(and_, (true | false for true, false in group))
        (first_true, first_false), (last_true, last_false) = group[0], group[-1]
        opposite = first_true & last_false | first_false & last_true
        if decided & opposite:
            variable = Scope([next(iter(decided & opposite))])
            waiting.append([part for part in group if part[0] & variable])
            waiting.append([part for part in group if not part[0] & variable])
        elif not all(one[0] & other[1] or one[1] & other[0] for one, other in combinations(group, 2)):
            return False
    return True


_COMPILE = "compile the formula, for example with LogicalCircuit.from_cnf"
_ADVICE = {  # what a formula lacks: why it lacks it, and what to try
    "decomposable": f"the inputs of a conjunction share variables; {_COMPILE}",
    "deterministic": f"inputs of a disjunction may be true at once; {_COMPILE}, or pass is_deterministic=True if you "
    "know that it is",
}


def only_output(query: str, outputs: Sequence[LogicalNode], lacks: str) -> LogicalNode:
    """The output of a formula that is asked for something.

    Args:
        query: The name of the method.
        outputs: The outputs, of which there must be one.
        lacks: The property that the query needs and the formula does not have, or an empty text.

    Raises:
        InputError: There are several outputs.
        StructuralPropertyError: A property is lacking.
    """
    if len(outputs) != 1:
        raise InputError(f"{query}: expected one output, found {len(outputs)}; make a circuit for each")
    if lacks:
        raise StructuralPropertyError(f"{query} needs a {lacks} formula, but {_ADVICE[lacks]}")
    return outputs[0]


def free_variables(query: str, scope: Scope, wanted: Iterable[int] | None) -> Scope:
    """The variables of a wanted scope that a formula does not have.

    Raises:
        InputError: The wanted scope lacks one of the formula.
    """
    total = scope if wanted is None else Scope(wanted)
    if not scope <= total:
        raise InputError(f"{query}: the scope {total!s} lacks variables of the formula: {scope - total!s}; add them")
    return total - scope
