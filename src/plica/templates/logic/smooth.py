"""Makes formulas smooth: all inputs of a disjunction, and all outputs, mention the same variables.

An input that lacks a variable v becomes its conjunction with `v or not v`. Nodes that add variables are shared.

>>> from plica.templates.logic.nodes import ConjunctionNode, DisjunctionNode, LiteralNode, NegatedLiteralNode
>>> x, not_x, y = LiteralNode(0), NegatedLiteralNode(0), LiteralNode(1)
>>> both, either = ConjunctionNode(), DisjunctionNode()
>>> nodes = {x: (), not_x: (), y: (), both: (x, y), either: (both, not_x)}
>>> smooth, _ = smoothed(nodes, [either], Scope([0, 1]))
>>> len(smooth)  # a conjunction of `not x` with `y or not y`: four nodes more
9
"""

from collections.abc import Iterable, Mapping, Sequence

from plica.errors import GraphError
from plica.graph.order import topological_order
from plica.symbolic.scope import Scope
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
from plica.templates.logic.simplify import Parts
from plica.templates.logic.vtree import Vtree

NewNodes = dict[LogicalNode, tuple[LogicalNode, ...]]


def smoothed(in_nodes: InNodes, outputs: Iterable[LogicalNode], scope: Scope) -> Parts:
    """The nodes with their inputs, such that all inputs of a disjunction have the same scope; and the outputs.

    The missing variables of an input are taken in blocks, which all inputs share. A formula of n variables and m edges
    has O(m log n) edges afterwards if the missing variables of an input are neighbours in the order in which the
    formula first mentions them, and O(m n) edges at worst.

    Args:
        in_nodes: The inputs of each node, each node after its inputs.
        outputs: The outputs.
        scope: The variables that every output gets; a constant that is false stays without any.
    """
    order = _first_mentions(in_nodes, scope)
    positions = {variable: position for position, variable in enumerate(order)}
    places = _places(in_nodes, positions)
    new: dict[LogicalNode, LogicalNode] = {}
    rebuilt: NewNodes = {}
    fillers = _Fillers(rebuilt, order)
    for node, before in in_nodes.items():
        inputs = tuple(new[child] for child in before)
        if isinstance(node, DisjunctionNode):
            missing = [places[node] & ~places[child] for child in before]
            inputs = tuple(fillers.filled(child, lacks) for child, lacks in zip(inputs, missing, strict=True))
        new[node] = type(node)() if isinstance(node, Gate) and inputs != before else node
        rebuilt[new[node]] = inputs
    everywhere = sum(1 << positions[variable] for variable in scope)
    return rebuilt, [
        new[output] if isinstance(output, BottomNode) else fillers.filled(new[output], everywhere & ~places[output])
        for output in outputs
    ]


def _first_mentions(in_nodes: InNodes, scope: Scope) -> tuple[int, ...]:
    """The variables in the order in which nodes mention them; then those of the scope that none mentions."""
    variables = (node.variable for node in in_nodes if isinstance(node, LiteralNode | NegatedLiteralNode))
    return tuple(dict.fromkeys([*variables, *scope]))


def _places(in_nodes: InNodes, positions: Mapping[int, int]) -> dict[LogicalNode, int]:
    """The variables of each node, as a number with a bit for the position of each."""
    places: dict[LogicalNode, int] = {}
    for node, inputs in in_nodes.items():
        bits = 0
        if isinstance(node, LiteralNode | NegatedLiteralNode):
            bits = 1 << positions[node.variable]
        for child in inputs:
            bits |= places[child]
        places[node] = bits
    return places


class _Fillers:
    """Makes conjunctions with `v or not v`, which add v to a scope; there is one disjunction for each variable.

    Sets of variables are numbers with a bit for the position of each. Block (start, size) has the variables at `size`
    positions from `start` on; sizes are powers of two, and divide `start`.

    Args:
        nodes: The graph with its inputs; new nodes are added.
        order: The variable at each position.
    """

    def __init__(self, nodes: NewNodes, order: Sequence[int]) -> None:
        self._nodes = nodes
        self._order = order
        self._blocks: dict[tuple[int, int], LogicalNode] = {}
        self._sets: dict[int, LogicalNode] = {}
        self._filled: dict[tuple[LogicalNode, int], LogicalNode] = {}

    def filled(self, node: LogicalNode, missing: int) -> LogicalNode:
        """The conjunction of a node and all missing variables; the node itself if none is missing."""
        if not missing:
            return node
        if isinstance(node, TopNode):
            return self._set(missing)
        if (node, missing) not in self._filled:
            self._filled[node, missing] = self._all([node, self._set(missing)])
        return self._filled[node, missing]

    def _set(self, variables: int) -> LogicalNode:
        """The node that is true everywhere and mentions these variables."""
        if variables not in self._sets:
            self._sets[variables] = self._all([self._block(*block) for block in _blocks(variables)])
        return self._sets[variables]

    def _block(self, start: int, size: int) -> LogicalNode:
        """The node that is true everywhere and mentions the variables of a block; recursion is log n deep."""
        if (start, size) not in self._blocks:
            if size == 1:
                self._blocks[start, size] = add_either(self._nodes, self._order[start])
            else:
                half = size // 2
                self._blocks[start, size] = self._all([self._block(start, half), self._block(start + half, half)])
        return self._blocks[start, size]

    def _all(self, parts: Sequence[LogicalNode]) -> LogicalNode:
        if len(parts) == 1:
            return parts[0]
        both = ConjunctionNode()
        self._nodes[both] = tuple(parts)
        return both


def _blocks(bits: int) -> list[tuple[int, int]]:
    """A set of positions as blocks, from left to right; a run of n positions has at most 2 log n of them.

    >>> _blocks(0b1000011110)
    [(1, 1), (2, 2), (4, 1), (9, 1)]
    """
    blocks: list[tuple[int, int]] = []
    while bits:
        start = (bits & -bits).bit_length() - 1
        run = bits >> start
        end = start + (~run & (run + 1)).bit_length() - 1  # after the lowest run of ones
        bits = bits >> end << end
        while start < end:
            size = 1 << (end - start).bit_length() - 1
            if start:
                size = min(size, start & -start)
            blocks.append((start, size))
            start += size
    return blocks


def add_either(nodes: NewNodes, variable: int) -> LogicalNode:
    """Add the disjunction `v or not v`."""
    true, false, either = LiteralNode(variable), NegatedLiteralNode(variable), DisjunctionNode()
    nodes |= {true: (), false: (), either: (true, false)}
    return either


def places_in(vtree: Vtree, in_nodes: InNodes, scopes: Mapping[LogicalNode, Scope]) -> dict[LogicalNode, int]:
    """The lowest node of a vtree above all variables of each node that has some.

    Args:
        vtree: The vtree.
        in_nodes: The inputs of each node, each node after its inputs.
        scopes: The variables of each node.

    Raises:
        GraphError: The vtree lacks a variable, or a conjunction does not split its variables as the vtree does.
    """
    places: dict[LogicalNode, int] = {}
    for node, inputs in in_nodes.items():
        if not scopes[node]:
            continue
        if isinstance(node, LiteralNode | NegatedLiteralNode):
            if node.variable not in vtree.leaves:
                raise GraphError(f"LogicalCircuit: the vtree lacks variable {node.variable}; add a leaf for it")
            places[node] = vtree.leaves[node.variable]
            continue
        below = [places[child] for child in inputs if scopes[child]]
        place = below[0]
        for other in below[1:]:
            place = vtree.common(place, other)
        if isinstance(node, ConjunctionNode) and len(below) > 1 and (len(below) > 2 or place in below):
            raise GraphError(
                f"LogicalCircuit: a conjunction over {scopes[node]!s} does not split its variables as the vtree does: "
                "expected one input for each child of a node of the vtree; leave the vtree out"
            )
        places[node] = place
    return places


def smoothed_by_vtree(in_nodes: InNodes, outputs: Iterable[LogicalNode], vtree: Vtree) -> Parts:
    """The nodes with their inputs, such that each node has all variables of a node of the vtree; and the outputs.

    All conjunctions of one scope split it alike, so that the result is structured decomposable. A node gets a
    conjunction for each node of the vtree between its place and that of its reader. Nodes of one place share them.

    Args:
        in_nodes: The inputs of each node, each node after its inputs; no gate has a constant as an input.
        outputs: The outputs, which get all variables of the vtree; a constant that is false stays without any.
        vtree: The vtree.
    """
    return _ByVtree(vtree).formula(in_nodes, outputs)


class _ByVtree:
    """The nodes made so far, with their inputs and their places in the vtree."""

    def __init__(self, vtree: Vtree) -> None:
        self._vtree = vtree
        self._nodes: NewNodes = {}
        self._places: dict[LogicalNode, int] = {}
        self._true: list[LogicalNode] = []  # for each node of the vtree: true everywhere, with all its variables
        self._lifted: dict[tuple[LogicalNode, int], LogicalNode] = {}
        for node in vtree.nodes:
            if len(node) == 1:
                self._true.append(add_either(self._nodes, node[0]))
            else:
                self._true.append(self._gate(ConjunctionNode(), tuple(self._true[child] for child in node)))

    def formula(self, in_nodes: InNodes, outputs: Iterable[LogicalNode]) -> Parts:
        """See `smoothed_by_vtree`."""
        tree = self._vtree
        new: dict[LogicalNode, LogicalNode] = {}
        for node, before in in_nodes.items():
            inputs = [new[child] for child in before]
            if isinstance(node, LiteralNode | NegatedLiteralNode):
                self._places[node] = tree.leaves[node.variable]
            if not isinstance(node, Gate):
                self._nodes[node] = ()
                new[node] = node
                continue
            place = self._places[inputs[0]]
            for child in inputs[1:]:
                place = tree.common(place, self._places[child])
            targets = [place] * len(inputs)
            if isinstance(node, ConjunctionNode) and len(inputs) == 2:
                left, right = tree.children(place)
                targets = [left if tree.is_above(left, self._places[child]) else right for child in inputs]
            lifted = tuple(self._lift(child, target) for child, target in zip(inputs, targets, strict=True))
            new[node] = self._gate(node if lifted == before else type(node)(), lifted)
            self._places[new[node]] = place
        results = [self._output(new[output]) for output in outputs]
        return {node: self._nodes[node] for node in topological_order(results, self._nodes.__getitem__)}, results

    def _output(self, node: LogicalNode) -> LogicalNode:
        match node:
            case BottomNode():
                return node
            case TopNode():
                return self._true[-1]
            case _:
                return self._lift(node, self._vtree.root)

    def _lift(self, node: LogicalNode, target: int) -> LogicalNode:
        """The node with the variables of a node of the vtree above its place."""
        place = self._places[node]
        while place != target:
            above = self._vtree.parents[place]
            if (node, above) not in self._lifted:
                left, right = self._vtree.children(above)
                pair = (node, self._true[right]) if place == left else (self._true[left], node)
                self._lifted[node, above] = self._gate(ConjunctionNode(), pair)
            node, place = self._lifted[node, above], above
        return node

    def _gate(self, gate: LogicalNode, inputs: tuple[LogicalNode, ...]) -> LogicalNode:
        self._nodes[gate] = inputs
        return gate
