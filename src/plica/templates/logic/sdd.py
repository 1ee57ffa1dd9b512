"""Reads sentential decision diagrams in the format of the SDD package.

    c lines of comments
    sdd 5                   the number of nodes
    F 0                     false
    T 1                     true
    L 2 0 1                 a literal: id, node of the vtree, the variable from 1 on, negative where negated
    L 3 0 -1
    D 4 1 2 2 1 3 0         a decomposition: id, node of the vtree, number of elements, a prime and a sub for each

A decomposition is the disjunction of the conjunctions of each prime with its sub. Primes exclude each other, so every
diagram is deterministic; a prime and its sub have no variable in common. A node comes after the nodes that it names;
the last node is the root. The vtree, a tree over the variables from which the diagram was compiled, is not read.

The reader refuses a decomposition whose primes surely do not exclude each other. It computes the probability of each
node where every variable is true with a probability of its own, independently of the others. Probabilities of
exclusive primes add up to at most 1. Two assignments of such probabilities are tried, since one may miss an overlap.

Source: Darwiche, "SDD: a new canonical representation of propositional knowledge bases", 2011.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import found
from plica.errors import DTypeError, FileFormatError
from plica.symbolic.scope import MAX_VARIABLE, Scope
from plica.templates.logic.graph import LogicalCircuit
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)

_TOLERANCE = 1e-6  # of a sum of probabilities
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2  # its multiples modulo 1 are spread evenly, so that variables differ


@final
class SDD:
    """Sentential decision diagrams in files."""

    @staticmethod
    def load(file: str | Path) -> LogicalCircuit:
        """The logical circuit of a file; variable v is the file's variable v + 1.

        Raises:
            FileFormatError: The file is missing, empty, damaged, or of another format.
        """
        if not isinstance(file, str | Path):
            raise DTypeError(f"SDD.load: expected a path, {found(file)}")
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:  # no text, or a null byte in the name
            raise FileFormatError(f"{file}: the file cannot be read ({error}); check the path") from error
        reader = _Reader()
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words and words[0] != "c":
                try:
                    reader.read(words)
                except _DamageError as error:
                    raise FileFormatError(f"{file}, line {number}: {error}; write the file again") from None
        try:
            return reader.result()
        except _DamageError as error:
            raise FileFormatError(f"{file}: {error}; write the file again") from None


class _DamageError(Exception):
    """A problem of a line; the caller adds the file and the line."""


@dataclass(slots=True)
class _Reader:
    """The nodes read so far, by their ids in the file.

    Args:
        count: The number of nodes that the file announces; None before that line.
        nodes: The nodes.
        in_nodes: The inputs of each node.
        scopes: The variables of each node.
        probabilities: The probability that each node is true, in each of the two assignments, `(2,)`.
    """

    count: int | None = None
    nodes: dict[int, LogicalNode] = field(default_factory=dict)
    in_nodes: dict[LogicalNode, Sequence[LogicalNode]] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    probabilities: dict[int, NDArray[Any]] = field(default_factory=dict)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words; _DamageError if it is no line of the format."""
        kind, numbers = words[0], [_integer(word) for word in words[1:]]
        if (kind == "sdd") != (self.count is None):
            raise _DamageError(
                f"expected {'sdd and the number of nodes' if self.count is None else 'a node'}, found {kind!r}"
            )
        if kind not in _LINES:
            raise _DamageError(f"expected a line of F, T, L or D, found {kind!r}")
        num_expected, read_line = _LINES[kind]
        if len(numbers) < num_expected or (kind != "D" and len(numbers) > num_expected):
            raise _DamageError(f"expected {num_expected} numbers after {kind}, found {len(numbers)}")
        read_line(self, numbers)

    def result(self) -> LogicalCircuit:
        """The circuit whose root is the last node; _DamageError if nodes are missing."""
        if self.count is None:
            raise _DamageError("expected a line 'sdd' with the number of nodes, found none")
        if len(self.nodes) != self.count or not self.nodes:
            raise _DamageError(f"expected {self.count} nodes, at least one, found {len(self.nodes)}")
        *_, root = self.nodes.values()
        return LogicalCircuit(self.in_nodes, self.in_nodes, [root], is_deterministic=True)

    def header(self, numbers: list[int]) -> None:
        """`sdd count`."""
        (self.count,) = numbers

    def add(self, number: int, node: LogicalNode, probability: Any, scope: Scope, *inputs: LogicalNode) -> None:
        """Add the node with the id `number`; `probability` is one number for both assignments, or one for each."""
        if number in self.nodes:
            raise _DamageError(f"node {number} is there twice")
        self.nodes[number], self.scopes[number] = node, scope
        self.probabilities[number] = np.broadcast_to(probability, 2)
        self.in_nodes[node] = inputs

    def literal(self, numbers: list[int]) -> None:
        """`L id vtree literal`."""
        number, _, literal = numbers
        variable = abs(literal) - 1
        if not 0 <= variable <= MAX_VARIABLE:
            raise _DamageError(
                f"{literal} is no literal; variables are 1 to {MAX_VARIABLE + 1}, negative where negated"
            )
        first = 0.2 + variable * _GOLDEN_RATIO % 1 * 0.6
        # A literal has more than 1/2 in one of the two assignments: the sum exceeds 1 if two primes are this literal.
        is_true = np.array([first, 1 - first])
        node = LiteralNode(variable) if literal > 0 else NegatedLiteralNode(variable)
        self.add(number, node, is_true if literal > 0 else 1 - is_true, Scope([variable]))

    def decomposition(self, numbers: list[int]) -> None:
        """`D id vtree count prime sub prime sub ...`."""
        number, _, count, *ids = numbers
        if count < 1 or len(ids) != 2 * count:
            raise _DamageError(f"expected {count} elements of a prime and a sub, found {len(ids)} numbers")
        unknown = [node_id for node_id in ids if node_id not in self.nodes]
        if unknown:
            raise _DamageError(f"node {unknown[0]} is not among the lines before")
        elements, pairs = [], list(zip(ids[::2], ids[1::2], strict=True))
        for prime, sub in pairs:
            if not self.scopes[prime].isdisjoint(self.scopes[sub]):
                raise _DamageError(f"the prime {prime} and its sub {sub} have a variable in common")
            elements.append(ConjunctionNode())
            self.in_nodes[elements[-1]] = (self.nodes[prime], self.nodes[sub])
        if np.any(sum(self.probabilities[prime] for prime, _ in pairs) > 1 + _TOLERANCE):
            raise _DamageError(f"the primes {', '.join(map(str, ids[::2]))} are not exclusive")
        probability = sum(self.probabilities[prime] * self.probabilities[sub] for prime, sub in pairs)
        self.add(
            number, DisjunctionNode(), probability, Scope.union(*(self.scopes[node_id] for node_id in ids)), *elements
        )


# the first word of a line: how many numbers follow (in a "D" line at least), and the method that reads them
_LINES: dict[str, tuple[int, Callable[[_Reader, list[int]], None]]] = {
    "sdd": (1, _Reader.header),
    "F": (1, lambda reader, numbers: reader.add(numbers[0], BottomNode(), 0.0, Scope())),
    "T": (1, lambda reader, numbers: reader.add(numbers[0], TopNode(), 1.0, Scope())),
    "L": (3, _Reader.literal),
    "D": (3, _Reader.decomposition),
}


def _integer(word: str) -> int:
    """A word as an integer of at most 18 characters; _DamageError if it is none."""
    if not (word.isascii() and word.removeprefix("-").isdecimal()) or len(word) > 18:
        raise _DamageError(f"expected a number, found {word[:40]!r}")
    return int(word)
