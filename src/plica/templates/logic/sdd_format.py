"""The format of sentential decision diagrams of the SDD package.

    c lines of comments
    sdd 5                   the number of nodes
    F 0                     false
    T 1                     true
    L 2 0 1                 a literal: id, node of the vtree, the variable from 1 on, negative where negated
    L 3 0 -1
    D 4 1 2 2 1 3 0         a decomposition: id, node of the vtree, number of elements, a prime and a sub for each

A decomposition is the disjunction of the conjunctions of each prime with its sub. Of its primes exactly one is true, so
every diagram is deterministic. A prime and its sub have no variable in common. A node comes after the nodes that it
names; the last node is the root. With the vtree, the prime has variables of the left child of the decomposition's node
of the vtree alone, and the sub those of the right child.

The reader refuses a decomposition of which not exactly one prime is true everywhere (`formula.fingerprint`).

Source: Darwiche, "SDD: a new canonical representation of propositional knowledge bases", 2011.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plica.symbolic.scope import Scope
from plica.templates.logic.formula import PRIME, Formula, fingerprint
from plica.templates.logic.lines import DamageError, damage_of, integer, lines, variable_of
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)
from plica.templates.logic.vtree import Vtree, read_vtree


def read_sdd(file: str | Path, vtree: str | Path | None = None) -> Formula:
    """The formula of a file, and of its vtree if that is given; variable v is the file's variable v + 1.

    Raises:
        FileFormatError: A file is missing, empty, damaged, of another format, or the vtree is that of another diagram.
    """
    tree, tree_nodes = (None, {}) if vtree is None else read_vtree(vtree)
    reader = _Reader(tree, tree_nodes)
    lines(file, reader.read, must_end=True)
    with damage_of(str(file)):
        return reader.result()


@dataclass(slots=True)
class _Reader:
    """The nodes read so far, by their ids in the file.

    Args:
        vtree: The vtree, if it is known.
        tree_nodes: The index of each of its nodes by the id in the file.
        count: The number of nodes that the file announces; None before that line.
        nodes: The nodes.
        in_nodes: The inputs of each node.
        scopes: The variables of each node.
        fingerprints: The polynomial of each node at a random point.
    """

    vtree: Vtree | None
    tree_nodes: dict[int, int]
    count: int | None = None
    nodes: dict[int, LogicalNode] = field(default_factory=dict)
    in_nodes: dict[LogicalNode, tuple[LogicalNode, ...]] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    fingerprints: dict[int, int] = field(default_factory=dict)
    _tree_scopes: dict[int, Scope] = field(default_factory=dict)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        kind = words[0]
        if kind == "c":
            return
        numbers = [integer(word) for word in words[1:]]
        if (kind == "sdd") != (self.count is None):
            raise DamageError(
                f"expected {'sdd and the number of nodes' if self.count is None else 'a node'}, found {kind!r}"
            )
        if kind not in _LINES:
            raise DamageError(f"expected a line of F, T, L or D, found {kind!r}")
        num_expected, read_line = _LINES[kind]
        if len(numbers) < num_expected or (kind != "D" and len(numbers) > num_expected):
            raise DamageError(f"expected {num_expected} numbers after {kind}, found {len(numbers)}")
        read_line(self, numbers)

    def result(self) -> Formula:
        """The formula whose root is the last node; DamageError if nodes are missing."""
        if self.count is None:
            raise DamageError("expected a line 'sdd' with the number of nodes, found none")
        if len(self.nodes) != self.count or not self.nodes:
            raise DamageError(f"expected {self.count} nodes, at least one, found {len(self.nodes)}")
        *_, root = self.nodes.values()
        scope = None if self.vtree is None else self.vtree.scope
        return Formula(self.in_nodes, [root], is_deterministic=True, scope=scope, vtree=self.vtree)

    def header(self, numbers: list[int]) -> None:
        """`sdd count`."""
        (self.count,) = numbers

    def constant(self, node: LogicalNode, numbers: list[int]) -> None:
        """`F id` or `T id`."""
        self._add(numbers[0], node, fingerprint(node, ()), Scope())

    def literal(self, numbers: list[int]) -> None:
        """`L id vtree literal`."""
        number, tree_id, literal = numbers
        variable = variable_of(literal)
        node = LiteralNode(variable) if literal > 0 else NegatedLiteralNode(variable)
        if self.vtree is not None and self.vtree.nodes[self._tree_node(tree_id)] != (variable,):
            raise DamageError(f"node {tree_id} of the vtree is no leaf of variable {variable + 1}")
        self._add(number, node, fingerprint(node, ()), Scope([variable]))

    def decomposition(self, numbers: list[int]) -> None:
        """`D id vtree count prime sub prime sub ...`."""
        number, tree_id, count, *ids = numbers
        if count < 1 or len(ids) != 2 * count:
            raise DamageError(f"expected {count} elements of a prime and a sub, found {len(ids)} numbers")
        unknown = [node_id for node_id in ids if node_id not in self.nodes]
        if unknown:
            raise DamageError(f"node {unknown[0]} is not among the lines before")
        primes, subs = ids[::2], ids[1::2]
        self._check_split(tree_id, primes, subs)
        if sum(self.fingerprints[prime] for prime in primes) % PRIME != 1:
            raise DamageError(
                f"the primes {', '.join(map(str, primes))} are not exclusive and exhaustive: exactly one must be true"
            )
        elements = tuple(ConjunctionNode() for _ in primes)
        total = 0
        for element, prime, sub in zip(elements, primes, subs, strict=True):
            self.in_nodes[element] = (self.nodes[prime], self.nodes[sub])
            total += fingerprint(element, (self.fingerprints[prime], self.fingerprints[sub]))
        scope = Scope.union(*(self.scopes[node_id] for node_id in ids))
        self._add(number, DisjunctionNode(), total % PRIME, scope, *elements)

    def _check_split(self, tree_id: int, primes: list[int], subs: list[int]) -> None:
        """Raise a DamageError unless primes and subs have the variables that they may have."""
        for prime, sub in zip(primes, subs, strict=True):
            if not self.scopes[prime].isdisjoint(self.scopes[sub]):
                raise DamageError(f"the prime {prime} and its sub {sub} have a variable in common")
        if self.vtree is None:
            return
        node = self.vtree.nodes[self._tree_node(tree_id)]
        if len(node) == 1:
            raise DamageError(f"node {tree_id} of the vtree is a leaf, and that of a decomposition has two children")
        for kind, child, ids in zip(("prime", "sub"), node, (primes, subs), strict=True):
            for node_id in ids:
                if not self.scopes[node_id] <= self._tree_scope(child):
                    raise DamageError(
                        f"the {kind} {node_id} has variables that are not below node {tree_id} of the vtree, on that "
                        "side"
                    )

    def _tree_node(self, tree_id: int) -> int:
        if tree_id not in self.tree_nodes:
            raise DamageError(f"the vtree has no node {tree_id}; is it that of another diagram?")
        return self.tree_nodes[tree_id]

    def _tree_scope(self, index: int) -> Scope:
        """The variables of a node of the vtree."""
        if not self._tree_scopes:
            assert self.vtree is not None, "only asked for a node of it"
            for place, node in enumerate(self.vtree.nodes):
                parts = [Scope(node)] if len(node) == 1 else [self._tree_scopes[child] for child in node]
                self._tree_scopes[place] = Scope.union(*parts)
        return self._tree_scopes[index]

    def _add(self, number: int, node: LogicalNode, value: int, scope: Scope, *inputs: LogicalNode) -> None:
        """Add the node with the id `number`."""
        if number in self.nodes:
            raise DamageError(f"node {number} is there twice")
        self.nodes[number], self.scopes[number], self.fingerprints[number] = node, scope, value
        self.in_nodes[node] = inputs


# the first word of a line: how many numbers follow (in a "D" line at least), and the method that reads them
_LINES: dict[str, tuple[int, Callable[[_Reader, list[int]], None]]] = {
    "sdd": (1, _Reader.header),
    "F": (1, lambda reader, numbers: reader.constant(BottomNode(), numbers)),
    "T": (1, lambda reader, numbers: reader.constant(TopNode(), numbers)),
    "L": (3, _Reader.literal),
    "D": (3, _Reader.decomposition),
}
