"""A formula as readers and rewrites give it, before `LogicalCircuit` checks it; and its polynomial at a random point.

>>> from plica.templates.logic.nodes import DisjunctionNode, LiteralNode, NegatedLiteralNode
>>> x, not_x, either = LiteralNode(0), NegatedLiteralNode(0), DisjunctionNode()
>>> formula = Formula({x: (), not_x: (), either: (x, not_x)}, [either])
>>> fingerprints(formula.in_nodes)[either]  # true everywhere, in one way
1
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from plica.symbolic.scope import Scope
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)
from plica.templates.logic.vtree import Vtree

InNodes: TypeAlias = Mapping[LogicalNode, tuple[LogicalNode, ...]]

PRIME = 2**61 - 1
_GOLDEN_RATIO = 0x9E3779B97F4A7C15  # an odd number whose multiples modulo 2**64 are spread evenly
_MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class Formula:
    """The arguments of a `LogicalCircuit`.

    Args:
        in_nodes: The inputs of each node, each node after its inputs.
        outputs: The roots.
        is_deterministic: Whether no two inputs of a disjunction are known to be true at once.
        scope: The variables, if there may be more than the outputs mention.
        vtree: The vtree that conjunctions follow, if there is one.
    """

    in_nodes: InNodes
    outputs: Sequence[LogicalNode]
    is_deterministic: bool = False
    scope: Scope | None = None
    vtree: Vtree | None = None


def literal_fingerprint(variable: int) -> int:
    """A number below `PRIME` for a variable, as good as random.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64).
    """
    value = (variable + 1) * _GOLDEN_RATIO % 2**64
    for shift, factor in _MIXES:
        value = (value ^ (value >> shift)) * factor % 2**64
    return (value ^ (value >> 31)) % PRIME


def fingerprint(node: LogicalNode, inputs: Sequence[int]) -> int:
    """The polynomial of a node at a random point, modulo `PRIME`, from those of its inputs.

    The polynomial of a decomposable formula is multilinear, and says in how many ways an assignment makes it true. So
    decomposable formulas `p_1, ..., p_n` exclude each other and cover all assignments just where their polynomials add
    up to 1. That a wrong sum is 1 at a random point has a probability below 2^-50 for up to 2,000 variables.

    Source: Blum, Chandra and Wegman, "Equivalence of free Boolean graphs can be decided probabilistically in
    polynomial time", 1980.
    """
    match node:
        case TopNode():
            return 1
        case BottomNode():
            return 0
        case LiteralNode(variable):
            return literal_fingerprint(variable)
        case NegatedLiteralNode(variable):
            return (1 - literal_fingerprint(variable)) % PRIME
        case ConjunctionNode():
            product = 1
            for value in inputs:
                product = product * value % PRIME
            return product
        case DisjunctionNode():
            return sum(inputs) % PRIME


def fingerprints(in_nodes: InNodes) -> dict[LogicalNode, int]:
    """The fingerprint of every node; `in_nodes` lists each node after its inputs."""
    values: dict[LogicalNode, int] = {}
    for node, inputs in in_nodes.items():
        values[node] = fingerprint(node, [values[child] for child in inputs])
    return values
