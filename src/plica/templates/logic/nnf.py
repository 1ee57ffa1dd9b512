"""Reads formulas in negation normal form, as the compilers c2d and d4 write them.

The dialect of c2d, which other compilers write too:

    nnf 5 4 2               the numbers of nodes, of edges and of variables
    L 1                     a literal: the variable from 1 on, negative where negated
    L -1
    L 2
    A 2 0 2                 a conjunction: the number of inputs, and the inputs as numbers of lines from 0 on
    O 1 2 3 1               a disjunction: the variable that it decides on or 0, the number of inputs, the inputs

`A 0` is true, `O 0 0` is false, and the last line is the root. The dialect of d4 names nodes by numbers of their own,
and the first one is the root. Literals stand at edges:

    o 1 0                   a disjunction
    a 2 0                   a conjunction
    t 3 0                   true (f: false)
    1 3 -1 0                an edge from node 1 to node 3, with which the literal -1 holds
    1 2 1 2 0

Sources: Darwiche, "New advances in compiling CNF to decomposable negation normal form", 2004; Lagniez and Marquis, "An
improved decision-DNNF compiler", 2017.
"""

from dataclasses import dataclass, field
from pathlib import Path

from plica.errors import GraphError
from plica.graph.order import topological_order
from plica.symbolic.scope import Scope
from plica.templates.logic.formula import Formula
from plica.templates.logic.lines import DamageError, count_of_variables, damage_of, integer, lines, variable_of
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)

_D4_NODES: dict[str, type[DisjunctionNode | ConjunctionNode | TopNode | BottomNode]] = {
    "o": DisjunctionNode,
    "a": ConjunctionNode,
    "t": TopNode,
    "f": BottomNode,
}


def read_nnf(file: str | Path) -> Formula:
    """The formula of a file in either dialect; variable v is the file's variable v + 1.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or of another format.
    """
    reader: _C2d | _D4 | None = None

    def read(words: list[str]) -> None:
        nonlocal reader
        if words[0] == "c":
            return
        if reader is None:
            if words[0] != "nnf" and words[0] not in _D4_NODES:
                raise DamageError(f"expected a line of nnf (c2d), or of o, a, t or f (d4), found {words[0][:40]!r}")
            reader = _C2d() if words[0] == "nnf" else _D4()
        reader.read(words)

    lines(file, read, must_end=True)
    with damage_of(str(file)):
        if reader is None:
            raise DamageError("expected a line of nnf (c2d), or of o, a, t or f (d4), found none")
        return reader.result()


@dataclass(slots=True)
class _Graph:
    """The nodes read so far; a literal has one node, however often it is named.

    Args:
        in_nodes: The inputs of each.
    """

    in_nodes: dict[LogicalNode, tuple[LogicalNode, ...]] = field(default_factory=dict)
    _literals: dict[int, LogicalNode] = field(default_factory=dict)

    def add(self, node: LogicalNode, inputs: tuple[LogicalNode, ...] = ()) -> LogicalNode:
        """Add a node."""
        self.in_nodes[node] = inputs
        return node

    def literal(self, literal: int, count: int | None = None) -> LogicalNode:
        """The node of a literal of the file."""
        variable = variable_of(literal) if count is None else variable_of(literal, count)
        if literal not in self._literals:
            self._literals[literal] = self.add(LiteralNode(variable) if literal > 0 else NegatedLiteralNode(variable))
        return self._literals[literal]


@dataclass(slots=True)
class _C2d:
    """The nodes of a file in the dialect of c2d, by their numbers.

    Args:
        header: The numbers of nodes, edges and variables that the file announces; None before that line.
        nodes: The nodes read so far.
    """

    header: tuple[int, int, int] | None = None
    nodes: list[LogicalNode] = field(default_factory=list)
    _edges: int = 0
    _graph: _Graph = field(default_factory=_Graph)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        kind, numbers = words[0], [integer(word) for word in words[1:]]
        match kind, numbers:
            case "nnf", [nodes, edges, variables] if self.header is None and min(numbers) >= 0:
                self.header = (nodes, edges, count_of_variables(variables))
            case "L", [literal] if self.header is not None:
                self.nodes.append(self._graph.literal(literal, self.header[2]))
            case "A", [count, *inputs] if len(inputs) == count:
                self._gate(ConjunctionNode(), TopNode(), inputs)
            case "O", [decision, count, *inputs] if len(inputs) == count:
                if decision != 0 and self.header is not None:
                    variable_of(decision, self.header[2])
                self._gate(DisjunctionNode(), BottomNode(), inputs)
            case _:
                raise DamageError(
                    "expected nnf with three numbers once, L with a literal, A with the number of inputs, or O with a "
                    f"variable and the number of inputs, and as many inputs; found {' '.join(words)[:40]!r}"
                )

    def _gate(self, gate: LogicalNode, constant: LogicalNode, inputs: list[int]) -> None:
        """Add a gate; without inputs it is a constant."""
        for index in inputs:
            if not 0 <= index < len(self.nodes):
                raise DamageError(f"node {index} is not among the {len(self.nodes)} nodes before")
        self._edges += len(inputs)
        read = tuple(self.nodes[index] for index in inputs)
        self.nodes.append(self._graph.add(gate, read) if read else self._graph.add(constant))

    def result(self) -> Formula:
        """The formula whose root is the last node."""
        assert self.header is not None, "the first line is the header"
        nodes, edges, variables = self.header
        for name, expected, found in (("nodes", nodes, len(self.nodes)), ("edges", edges, self._edges)):
            if expected != found:
                raise DamageError(f"expected {expected} {name}, found {found}")
        if not self.nodes:
            raise DamageError("expected at least one node, found none")
        return Formula(self._graph.in_nodes, [self.nodes[-1]], scope=Scope(range(variables)))


@dataclass(slots=True)
class _D4:
    """The nodes of a file in the dialect of d4, by their ids.

    Args:
        nodes: The nodes read so far.
        inputs: The inputs of each gate read so far, in the order of its edges.
    """

    nodes: dict[int, LogicalNode] = field(default_factory=dict)
    inputs: dict[LogicalNode, list[LogicalNode]] = field(default_factory=dict)
    _graph: _Graph = field(default_factory=_Graph)

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        if words[0] in _D4_NODES:
            kind, numbers = _D4_NODES[words[0]], [integer(word) for word in words[1:]]
            if len(numbers) != 2 or numbers[1] != 0:
                raise DamageError(
                    f"expected the id of a node and 0 after {words[0]}, found {' '.join(words[1:])[:40]!r}"
                )
            if numbers[0] in self.nodes:
                raise DamageError(f"node {numbers[0]} is there twice")
            self.nodes[numbers[0]] = node = kind()
            self.inputs[node] = []
            return
        numbers = [integer(word) for word in words]
        if len(numbers) < 3 or numbers[-1] != 0 or 0 in numbers[2:-1]:
            raise DamageError(f"expected two nodes, literals and 0 at the end, found {' '.join(words)[:40]!r}")
        source, target, *literals = numbers[:-1]
        for node_id in (source, target):
            if node_id not in self.nodes:
                raise DamageError(f"node {node_id} is not among the lines before")
        gate = self.nodes[source]
        if not isinstance(gate, ConjunctionNode | DisjunctionNode):
            raise DamageError(f"node {source} is a constant, which has no edges")
        self.inputs[gate].append(self._edge(self.nodes[target], literals))

    def _edge(self, target: LogicalNode, literals: list[int]) -> LogicalNode:
        """The conjunction of the literals of an edge with its target; the literals alone before a `t`."""
        parts = [self._graph.literal(literal) for literal in literals]
        if not parts or not isinstance(target, TopNode):
            parts.append(target)
        if len(parts) == 1:
            return parts[0]
        edge = ConjunctionNode()
        self.inputs[edge] = parts
        return edge

    def result(self) -> Formula:
        """The formula whose root is the first node."""
        named = {node: number for number, node in self.nodes.items()}
        read = {child: None for inputs in self.inputs.values() for child in inputs}
        root, *others = self.nodes.values()
        for node in others:
            if node not in read and isinstance(node, ConjunctionNode | DisjunctionNode):
                raise DamageError(f"no edge leads to node {named[node]}; lines of edges are missing")
        inputs: dict[LogicalNode, tuple[LogicalNode, ...]] = {}
        for node, children in self.inputs.items():
            if node in named and isinstance(node, ConjunctionNode | DisjunctionNode) and not children:
                raise DamageError(f"node {named[node]} has no edges; lines of edges are missing")
            inputs[node] = tuple(children)
        inputs.update(self._graph.in_nodes)
        try:
            order = topological_order([root], inputs.__getitem__)
        except GraphError:
            raise DamageError("the edges make a cycle") from None
        return Formula({node: inputs[node] for node in order}, [root])
