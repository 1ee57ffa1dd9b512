"""Formulas for tests: their truth tables by brute force, random ones, and random decision diagrams.

draw = FORMULAS                        # a Hypothesis strategy of logical circuits over four variables
truth(formula, rows)                   # whether each row is a model
diagram([False, True, ...], [1, 0])    # the text of an SDD file of a truth table
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.templates.logic import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalCircuit,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Array = Any
VARIABLES = 4


def rows_of(variables: int) -> Array:
    """All rows of booleans."""
    return np.array(list(itertools.product((0, 1), repeat=variables)))


def truth(formula: LogicalCircuit, rows: Array) -> Array:
    """Whether each row is a model of the first output, node by node."""
    return derivations(formula, rows) > 0


def derivations(formula: LogicalCircuit, rows: Array) -> Array:
    """In how many ways each row is a model of the first output, node by node."""
    values: dict[LogicalNode, Array] = {}
    for node in formula.nodes:
        inputs = [values[one] for one in formula.node_inputs(node)]
        match node:
            case TopNode() | BottomNode():
                values[node] = np.full(len(rows), int(isinstance(node, TopNode)))
            case LiteralNode(variable):
                values[node] = rows[:, variable]
            case NegatedLiteralNode(variable):
                values[node] = 1 - rows[:, variable]
            case ConjunctionNode():
                values[node] = np.prod(inputs, axis=0)
            case DisjunctionNode():
                values[node] = np.sum(inputs, axis=0)
    return values[formula.outputs[0]]


def formulas() -> SearchStrategy[LogicalCircuit]:
    """Graphs of a few nodes of any kind, each over nodes before it; the last is the output."""
    from hypothesis import strategies as st

    leaves = st.sampled_from([TopNode, BottomNode]) | st.tuples(
        st.sampled_from([LiteralNode, NegatedLiteralNode]), st.integers(0, VARIABLES - 1)
    )
    gates = st.tuples(
        st.sampled_from([ConjunctionNode, DisjunctionNode]), st.lists(st.integers(0, 99), min_size=1, max_size=4)
    )

    def build(first: list[Any], then: list[Any]) -> LogicalCircuit:
        nodes: list[Any] = [one[0](one[1]) if isinstance(one, tuple) else one() for one in first]
        in_nodes: dict[Any, Any] = {}
        for kind, places in then:
            gate = kind()
            in_nodes[gate] = [nodes[place % len(nodes)] for place in places]
            nodes.append(gate)
        return LogicalCircuit(nodes, in_nodes, nodes[-1:])

    return st.builds(build, st.lists(leaves, min_size=1, max_size=6), st.lists(gates, max_size=8))


def diagram(table: Sequence[bool], order: Sequence[int]) -> str:
    """The SDD file of a truth table, whose rows are those of `rows_of`: decisions on one variable after another."""
    lines, known = ["F 0", "T 1"], {False: 0, True: 1}
    literals: dict[int, tuple[int, int]] = {}
    nodes: dict[tuple[int, int, int], int] = {}
    values = dict(zip(itertools.product((0, 1), repeat=len(order)), table, strict=True))

    def add(line: str) -> int:
        lines.append(line.format(len(lines)))
        return len(lines) - 1

    def node(assigned: dict[int, int]) -> int:
        if len(assigned) == len(order):
            return known[bool(values[tuple(assigned[variable] for variable in range(len(order)))])]
        variable = order[len(assigned)]
        low, high = (node({**assigned, variable: value}) for value in (0, 1))
        if low == high:
            return low
        if variable not in literals:
            literals[variable] = (add(f"L {{}} 0 {-variable - 1}"), add(f"L {{}} 0 {variable + 1}"))
        negative, positive = literals[variable]
        if (variable, low, high) not in nodes:
            nodes[variable, low, high] = add(f"D {{}} 0 2 {negative} {low} {positive} {high}")
        return nodes[variable, low, high]

    root = node({})
    if root != len(lines) - 1:  # a constant: the root is the last node of a file
        lines = [line for line in lines if not line.startswith(f"{'FT'[root]} ")] + [f"{'FT'[root]} {root}"]
    return "\n".join(["c a comment", f"sdd {len(lines)}", *lines]) + "\n"


def random_clauses(rng: Any, variables: int) -> list[list[int]]:
    """About as many clauses of one to three literals as there are variables; a few may repeat."""
    count = int(rng.integers(0, variables + 3))
    return [
        [
            int(variable + 1) * int(rng.choice([-1, 1]))
            for variable in rng.integers(0, variables, int(rng.integers(1, 4)))
        ]
        for _ in range(count)
    ]


def satisfied(clauses: Sequence[Sequence[int]], rows: Array) -> Array:
    """Whether each row makes a literal of every clause true."""
    models = np.ones(len(rows), dtype=bool)
    for clause in clauses:
        models &= np.any([rows[:, abs(literal) - 1] == (literal > 0) for literal in clause], axis=0)
    return models


def ladder(rungs: int) -> list[list[int]]:
    """The clauses of a ladder: rung i has variables 2 i + 1 and 2 i + 2, and is joined with the next one alone."""
    clauses = []
    for first in range(1, 2 * rungs, 2):
        clauses.append([first, first + 1])
        if first + 2 < 2 * rungs:
            clauses += [[-first, first + 2, first + 3], [-first - 1, -first - 3]]
    return clauses


def ladder_count(rungs: int) -> int:
    """The number of models of a ladder, rung by rung."""
    states = [(a, b) for a in (0, 1) for b in (0, 1) if a or b]
    counts = dict.fromkeys(states, 1)
    for _ in range(rungs - 1):
        counts = {
            (c, d): sum(n for (a, b), n in counts.items() if (not a or c or d) and not (b and d)) for c, d in states
        }
    return sum(counts.values())


def decision_graph(table: Sequence[bool], order: Sequence[int]) -> list[tuple[Any, ...]]:
    """The decisions of a truth table: `("t",)`, `("f",)`, or `(variable, low, high)` of earlier ones; root last."""
    values = dict(zip(itertools.product((0, 1), repeat=len(order)), table, strict=True))
    nodes: dict[tuple[Any, ...], int] = {}

    def node(assigned: dict[int, int]) -> int:
        if len(assigned) == len(order):
            return nodes.setdefault(
                ("ft"[values[tuple(assigned[variable] for variable in range(len(order)))]],), len(nodes)
            )
        variable = order[len(assigned)]
        low, high = (node({**assigned, variable: value}) for value in (0, 1))
        return low if low == high else nodes.setdefault((variable, low, high), len(nodes))

    root = node({})
    return list(nodes)[: root + 1]


def c2d_text(table: Sequence[bool], order: Sequence[int]) -> str:
    """The file of a truth table in the dialect of c2d."""
    lines: list[str] = []
    indices: list[int] = []
    edges = 0

    def add(line: str, *inputs: int) -> int:
        nonlocal edges
        edges += len(inputs)
        lines.append(" ".join([line, *map(str, inputs)]))
        return len(lines) - 1

    for node in decision_graph(table, order):
        match node:
            case ("t",):
                indices.append(add("A 0"))
            case ("f",):
                indices.append(add("O 0 0"))
            case (variable, low, high):
                parts = [
                    add("A 2", add(f"L {sign * (variable + 1)}"), indices[child])
                    for sign, child in ((-1, low), (1, high))
                ]
                indices.append(add(f"O {variable + 1} 2", *parts))
    return "\n".join([f"nnf {len(lines)} {edges} {len(order)}", *lines]) + "\n"


def d4_text(table: Sequence[bool], order: Sequence[int]) -> str:
    """The file of a truth table in the dialect of d4, with the root first and literals at edges."""
    graph = decision_graph(table, order)
    number = {index: len(graph) - index for index in range(len(graph))}
    lines = [f"{node[0] if len(node) == 1 else 'o'} {number[index]} 0" for index, node in enumerate(graph)][::-1]
    for index, node in enumerate(graph):
        if len(node) == 3:
            variable, low, high = node
            lines += [f"{number[index]} {number[child]} {s * (variable + 1)} 0" for s, child in ((-1, low), (1, high))]
    return "\n".join(lines) + "\n"


def without_vtree(formula: LogicalCircuit) -> LogicalCircuit:
    """The same nodes, of which nobody says how conjunctions split their variables."""
    nodes = {node: formula.node_inputs(node) for node in formula.nodes}
    return LogicalCircuit(nodes, nodes, formula.outputs, is_deterministic=True, scope=formula.scope)
