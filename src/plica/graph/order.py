"""Topological and layer-wise orders of a DAG, iterative and deterministic.

>>> inputs = {"a": (), "b": ("a",), "c": ("a", "b")}
>>> topological_order("cab", inputs.__getitem__)
('a', 'b', 'c')
>>> layerwise_topological_order("cab", inputs.__getitem__)
(('a',), ('b',), ('c',))
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from plica.errors import GraphError

Node = TypeVar("Node", bound=Hashable)
Fact = TypeVar("Fact")

Inputs = Callable[[Node], Sequence[Node]]


def topological_order(nodes: Iterable[Node], inputs: Inputs[Node]) -> tuple[Node, ...]:
    """Every node reachable from `nodes` through `inputs`, each after its inputs.

    The order depends on the order of `nodes` and of each node's inputs alone.

    Raises:
        GraphError: The graph has a cycle; the message lists it.
    """
    done: dict[Node, None] = {}
    for root in nodes:
        if root not in done:
            _visit(root, inputs, done)
    return tuple(done)


def _visit(root: Node, inputs: Inputs[Node], done: dict[Node, None]) -> None:
    """Depth-first post-order from `root`, without recursion."""
    path: dict[Node, None] = {root: None}
    stack = [(root, iter(inputs(root)))]
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child in done:
                continue
            if child in path:
                raise GraphError(_cycle_message(list(path), child))
            path[child] = None
            stack.append((child, iter(inputs(child))))
            break
        else:
            stack.pop()
            del path[node]
            done[node] = None


def _cycle_message(path: list[Node], again: Node) -> str:
    cycle = [*path[path.index(again) :], again]
    shown = [str(node) for node in cycle]
    if len(shown) > 8:
        shown = [*shown[:4], "...", *shown[-3:]]
    return (
        f"the graph has a cycle of {len(cycle) - 1} node(s), each read by the one before: {' <- '.join(shown)}. "
        "A circuit or parameter must be acyclic: remove one of these edges."
    )


def layerwise_topological_order(nodes: Iterable[Node], inputs: Inputs[Node]) -> tuple[tuple[Node, ...], ...]:
    """The nodes of `topological_order`, grouped by level: 0 without inputs, else one more than the deepest input."""
    level: dict[Node, int] = {}
    levels: list[list[Node]] = []
    for node in topological_order(nodes, inputs):
        depth = max((level[child] + 1 for child in inputs(node)), default=0)
        level[node] = depth
        if depth == len(levels):
            levels.append([])
        levels[depth].append(node)
    return tuple(tuple(group) for group in levels)


def consumers(nodes: Iterable[Node], inputs: Inputs[Node]) -> dict[Node, tuple[Node, ...]]:
    """For each of `nodes`, those that read it, in the order of `nodes`; a node that reads it twice is listed twice."""
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in readers:
        for child in inputs(node):
            readers[child].append(node)
    return {node: tuple(reading) for node, reading in readers.items()}


def lazy_consumers(nodes: Iterable[Node], inputs: Inputs[Node]) -> Callable[[Node], tuple[Node, ...]]:
    """`consumers` as a function that computes them at its first call: many searches never need them."""
    readers_of: dict[Node, tuple[Node, ...]] = {}

    def readers(node: Node) -> tuple[Node, ...]:
        if not readers_of:
            readers_of.update(consumers(nodes, inputs))
        return readers_of[node]

    return readers


def from_inputs(inputs: Inputs[Node], fact: Callable[[Node, list[Fact]], Fact]) -> Callable[[Node], Fact]:
    """The function from a node to `fact(node, facts of its inputs)`, which computes each fact once, when it is needed.

    For example, the depth of a node is `from_inputs(inputs, lambda node, depths: 1 + max(depths, default=0))`.
    """
    known: dict[Node, Fact] = {}

    def of(node: Node) -> Fact:
        if node not in known:
            children = inputs(node)
            if any(map(missing, children)):
                order = topological_order([node], missing if known else inputs)
            else:  # the facts of all inputs are known: no search
                order = (*children, node)
            for unknown in order:
                if unknown not in known:
                    known[unknown] = fact(unknown, [known[child] for child in inputs(unknown)])
        return known[node]

    def missing(node: Node) -> Sequence[Node]:
        return () if node in known else inputs(node)

    return of
