"""Logical circuits: formulas in negation normal form as graphs, and the circuits that count their models.

>>> x, not_x, y = LiteralNode(0), NegatedLiteralNode(0), LiteralNode(1)
>>> both, either = ConjunctionNode(), DisjunctionNode()
>>> formula = LogicalCircuit([x, not_x, y, both, either], {both: [x, y], either: [both, not_x]}, [either])
>>> formula, formula.is_deterministic, formula.is_smooth
(LogicalCircuit(5 nodes, 2 variables), True, False)
>>> formula.build_circuit()
Circuit(7 layers, 2 variables, 1 output(s) of 1 unit(s))
"""

from plica.public import listing
from plica.templates.logic.dimacs import CNF as CNF
from plica.templates.logic.graph import LogicalCircuit as LogicalCircuit
from plica.templates.logic.nodes import BottomNode as BottomNode
from plica.templates.logic.nodes import ConjunctionNode as ConjunctionNode
from plica.templates.logic.nodes import DisjunctionNode as DisjunctionNode
from plica.templates.logic.nodes import LiteralNode as LiteralNode
from plica.templates.logic.nodes import LogicalNode as LogicalNode
from plica.templates.logic.nodes import NegatedLiteralNode as NegatedLiteralNode
from plica.templates.logic.nodes import TopNode as TopNode
from plica.templates.logic.psdd import PSDD as PSDD
from plica.templates.logic.sdd import SDD as SDD
from plica.templates.logic.vtree import Vtree as Vtree

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]

__dir__ = listing(__name__)
