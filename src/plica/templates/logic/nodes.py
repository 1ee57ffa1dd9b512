"""The nodes of logical circuits, compared by identity.

>>> LiteralNode(3), NegatedLiteralNode(3), TopNode()
(LiteralNode(variable=3), NegatedLiteralNode(variable=3), TopNode())
"""

from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True, slots=True, eq=False)
class TopNode:
    """True."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class BottomNode:
    """False.

    >>> from plica.templates.logic import LogicalCircuit
    >>> false, x, either = BottomNode(), LiteralNode(0), DisjunctionNode()
    >>> list(LogicalCircuit([false, x, either], {either: [false, x]}, [either]).prune().nodes)
    [LiteralNode(variable=0)]
    """


@final
@dataclass(frozen=True, slots=True, eq=False)
class LiteralNode:
    """A variable is true."""

    variable: int

    @property
    def literal(self) -> int:
        """Another name of the variable."""
        return self.variable


@final
@dataclass(frozen=True, slots=True, eq=False)
class NegatedLiteralNode:
    """A variable is false."""

    variable: int

    @property
    def literal(self) -> int:
        """Another name of the variable."""
        return self.variable


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConjunctionNode:
    """All inputs are true."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class DisjunctionNode:
    """An input is true."""


Literal: TypeAlias = LiteralNode | NegatedLiteralNode
Gate: TypeAlias = ConjunctionNode | DisjunctionNode
LogicalNode: TypeAlias = TopNode | BottomNode | Literal | Gate
