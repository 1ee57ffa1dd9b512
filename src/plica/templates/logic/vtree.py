"""Vtrees: binary trees over variables, by which the conjunctions of a structured formula split their variables.

>>> tree = Vtree(((0,), (1,), (2,), (0, 1), (3, 2)))
>>> tree, tree.scope, tree.restricted(Scope([0, 2]))
(Vtree(5 nodes, 3 variables), Scope({0, 1, 2}), Vtree(3 nodes, 2 variables))
>>> tree.common(0, 2), tree.is_above(3, 0), tree.is_above(3, 2)
(4, True, False)

Files have the format of the SDD package:

    c lines of comments
    vtree 5                 the number of nodes
    L 0 1                   a leaf: id, the variable from 1 on
    L 2 2
    I 1 0 2                 an inner node: id, left child, right child; children come first, the root is last
    ...

Source: Pipatsrisawat and Darwiche, "New compilation languages based on structured decomposability", 2008.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, final

from plica.arguments import elements
from plica.arguments import integer as integer_of
from plica.errors import GraphError
from plica.symbolic.scope import Scope
from plica.templates.logic.lines import DamageError, damage_of, integer, lines, variable_of

VtreeNode: TypeAlias = tuple[int] | tuple[int, int]


@final
class Vtree:
    """A full binary tree whose leaves are variables; nodes are named by their index.

    Args:
        nodes: `(variable,)` for a leaf, `(left, right)` for an inner node, with indices of nodes before it. The last
            node is the root.

    Raises:
        GraphError: There is no node, a node is read twice or not at all, or a variable has two leaves.
        DTypeError: A variable or a child is no integer, or a node is no sequence.
        InputError: A variable is negative.

    Attributes:
        nodes: The nodes.
        parents: The index of the parent of each node, -1 for the root.
        leaves: The index of the leaf of each variable.
        scope: The variables of all leaves.
    """

    def __init__(self, nodes: Iterable[VtreeNode]) -> None:
        self.nodes: tuple[VtreeNode, ...] = tuple(
            elements("Vtree", "a node", node) for node in elements("Vtree", "nodes", nodes)
        )
        parents: list[int] = [-1] * len(self.nodes)
        leaves: dict[int, int] = {}
        for index, node in enumerate(self.nodes):
            if len(node) not in (1, 2):
                raise GraphError(f"Vtree: node {index} is {node!r}; expected (variable,) or (left, right)")
            if len(node) == 1:
                if node[0] in leaves:
                    raise GraphError(f"Vtree: variable {node[0]} has two leaves; give each variable one")
                leaves[node[0]] = index
                continue
            for child in (integer_of("Vtree", "a child", child) for child in node):
                if not 0 <= child < index or parents[child] >= 0:
                    raise GraphError(
                        f"Vtree: node {index} reads node {child}, which is no earlier node or has a parent already"
                    )
                parents[child] = index
        if not self.nodes or -1 in parents[:-1]:
            raise GraphError("Vtree: expected nodes of which each but the last, the root, has one parent")
        self.parents = tuple(parents)
        self.leaves = leaves
        self.scope = Scope(leaves)
        self._spans = self._in_order()

    def _in_order(self) -> tuple[tuple[int, int], ...]:
        """For each node, the position of its first leaf from left to right, and the one after its last."""
        counts = [1] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            if len(node) == 2:
                counts[index] = counts[node[0]] + counts[node[1]]
        spans = [(0, counts[-1])] * len(self.nodes)
        for index in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[index]
            if len(node) == 2:
                first, end = spans[index]
                middle = first + counts[node[0]]
                spans[node[0]], spans[node[1]] = (first, middle), (middle, end)
        return tuple(spans)

    @property
    def root(self) -> int:
        """The index of the root."""
        return len(self.nodes) - 1

    def is_same(self, other: "Vtree | None") -> bool:
        """Whether another vtree is the same tree, whatever the indices of its nodes."""
        return other is not None and self._canonical() == other._canonical()

    def _canonical(self) -> list[int | None]:
        """The variable of each leaf, and None for each inner node, each after its children, the left one first."""
        order = sorted(range(len(self.nodes)), key=lambda index: (self._spans[index][1], -self._spans[index][0]))
        return [self.nodes[index][0] if len(self.nodes[index]) == 1 else None for index in order]

    def is_above(self, ancestor: int, node: int) -> bool:
        """Whether a node is `ancestor`, or lies below it."""
        first, end = self._spans[ancestor]
        return first <= self._spans[node][0] and self._spans[node][1] <= end

    def common(self, first: int, second: int) -> int:
        """The lowest node that is above both."""
        while not self.is_above(first, second):
            first = self.parents[first]
        return first

    def children(self, index: int) -> tuple[int, int]:
        """The left and the right child of an inner node.

        Raises:
            GraphError: The node is a leaf, or there is none.
        """
        if not 0 <= index < len(self.nodes):
            raise GraphError(f"Vtree: there is no node {index}; nodes are 0 to {self.root}, the root")
        node = self.nodes[index]
        if len(node) != 2:
            raise GraphError(f"Vtree: node {index} is a leaf; expected an inner node")
        return node

    def restricted(self, scope: Scope) -> "Vtree | None":
        """The tree without the leaves outside a scope; None if no leaf is left."""
        nodes: list[VtreeNode] = []
        new: list[int | None] = []  # None where no variable of the scope is below
        for node in self.nodes:
            if len(node) == 1:
                kept: VtreeNode | None = node if node[0] in scope else None
            else:
                left, right = (new[child] for child in node)
                if left is None or right is None:
                    new.append(right if left is None else left)
                    continue
                kept = (left, right)
            if kept is not None:
                nodes.append(kept)
            new.append(None if kept is None else len(nodes) - 1)
        return Vtree(nodes) if nodes else None

    def renamed(self, variables: Sequence[int] | Mapping[int, int]) -> "Vtree":
        """The tree whose variable v is called `variables[v]`."""
        return Vtree((variables[node[0]],) if len(node) == 1 else node for node in self.nodes)

    @staticmethod
    def balanced(order: Iterable[int]) -> "Vtree":
        """The tree whose leaves are variables in this order, and whose nodes split them into halves.

        >>> Vtree.balanced([2, 0, 1]).nodes
        ((2,), (0,), (1,), (1, 2), (0, 3))

        Raises:
            GraphError: There is no variable, or one comes twice.
        """
        nodes: list[VtreeNode] = []
        numbers: list[int] = []  # of subtrees that are made, from left to right
        leaves = elements("Vtree.balanced", "order", order)
        waiting: list[tuple[int, int] | None] = [(0, len(leaves))] if leaves else []
        while waiting:
            span = waiting.pop()
            if span is None:
                right, left = numbers.pop(), numbers.pop()
                nodes.append((left, right))
            elif span[1] - span[0] == 1:
                nodes.append((leaves[span[0]],))
            else:
                middle = (span[0] + span[1]) // 2
                waiting += [None, (middle, span[1]), (span[0], middle)]
                continue
            numbers.append(len(nodes) - 1)
        return Vtree(nodes)

    @staticmethod
    def load(file: str | Path) -> "Vtree":
        """The vtree of a file; variable v is the file's variable v + 1.

        Raises:
            FileFormatError: The file is missing, empty, damaged, or of another format.
        """
        return read_vtree(file)[0]

    def text(self) -> str:
        """The file of the tree; variable v is the file's variable v + 1."""
        lines = [f"vtree {len(self.nodes)}"]
        for index, node in enumerate(self.nodes):
            lines.append(f"L {index} {node[0] + 1}" if len(node) == 1 else f"I {index} {node[0]} {node[1]}")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"Vtree({len(self.nodes)} nodes, {len(self.leaves)} variables)"


def read_vtree(file: str | Path) -> tuple[Vtree, dict[int, int]]:
    """The vtree of a file, and the index of each node by its id in the file; raises as `Vtree.load`."""
    reader = _Reader()
    lines(file, reader.read, must_end=True)
    with damage_of(str(file)):
        if reader.count is None or reader.count != len(reader.nodes) or not reader.nodes:
            raise DamageError(
                f"expected {reader.count or 'a line vtree with a number of'} nodes, found {len(reader.nodes)}"
            )
        try:
            return Vtree(reader.nodes), reader.indices
        except GraphError as error:
            raise DamageError(str(error)) from None


@dataclass(slots=True)
class _Reader:
    """The nodes read so far.

    Args:
        count: The number of nodes that the file announces; None before that line.
        nodes: The nodes.
        indices: The index of each by its id in the file.
    """

    count: int | None = None
    nodes: list[VtreeNode] = field(default_factory=list)
    indices: dict[int, int] = field(default_factory=dict)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        if words[0] == "c":
            return
        kind, numbers = words[0], [integer(word) for word in words[1:]]
        match kind, numbers:
            case "vtree", [count] if self.count is None:
                self.count = count
            case "L", [number, variable] if self.count is not None and variable > 0:
                self._add(number, (variable_of(variable),))
            case "I", [number, left, right] if self.count is not None:
                unknown = [child for child in (left, right) if child not in self.indices]
                if unknown:
                    raise DamageError(f"node {unknown[0]} is not among the lines before")
                self._add(number, (self.indices[left], self.indices[right]))
            case _:
                expected = (
                    "vtree and the number of nodes" if self.count is None else "L id variable, or I id left right"
                )
                raise DamageError(f"expected {expected}, found {' '.join(words)[:40]!r}")

    def _add(self, number: int, node: VtreeNode) -> None:
        if number in self.indices:
            raise DamageError(f"node {number} is there twice")
        self.indices[number] = len(self.nodes)
        self.nodes.append(node)
