"""Strongly connected components of any graph, iterative and in one walk; and sets of nodes that are joined.

>>> inputs = {"a": (), "b": ("a", "c"), "c": ("b",), "d": ("c",)}
>>> strongly_connected("abcd", inputs.__getitem__)
[('a',), ('b', 'c'), ('d',)]
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, final

Node = TypeVar("Node", bound=Hashable)


@final
class DisjointSets(Generic[Node]):
    """Sets of nodes that are joined, each with a leader: a disjoint-set forest with path halving.

    >>> sets: DisjointSets[str] = DisjointSets()
    >>> sets.join("a", "b")
    >>> sets.find("b"), sets.find("c")
    ('a', 'c')
    """

    def __init__(self) -> None:
        self._leader: dict[Node, Node] = {}

    def find(self, node: Node) -> Node:
        """The leader of the set of a node: the node itself if it was never joined."""
        leader = self._leader
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    def join(self, *nodes: Node) -> None:
        """Join the sets of nodes; the leader of the first one leads."""
        first, *others = map(self.find, nodes)
        self._leader.update(dict.fromkeys(others, first))


def strongly_connected(nodes: Iterable[Node], inputs: Callable[[Node], Sequence[Node]]) -> list[tuple[Node, ...]]:
    """The nodes that are reachable from `nodes` through `inputs`, in groups that reach each other.

    A group comes after those that it reaches. `inputs` is called once for each node.

    Source: Tarjan, Depth-first search and linear graph algorithms (SIAM Journal on Computing, 1972).
    """
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    open_: list[Node] = []
    done: dict[Node, None] = {}
    groups: list[tuple[Node, ...]] = []

    def enter(node: Node) -> tuple[Node, Iterator[Node]]:
        number[node] = lowest[node] = len(number)
        open_.append(node)
        return node, iter(inputs(node))

    for root in nodes:
        path = [] if root in number else [enter(root)]
        while path:
            node, rest = path[-1]
            for child in rest:
                if child not in number:
                    path.append(enter(child))
                    break
                if child not in done:
                    lowest[node] = min(lowest[node], number[child])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == number[node]:
                    groups.append(_closed(node, open_))
                    done.update(dict.fromkeys(groups[-1]))
    return groups


def _closed(root: Node, open_: list[Node]) -> tuple[Node, ...]:
    """The nodes that were entered from `root` on and belong to no other group, taken off `open_`."""
    start = len(open_) - 1
    while open_[start] != root:
        start -= 1
    group = tuple(open_[start:])
    del open_[start:]
    return group
