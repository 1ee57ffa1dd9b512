"""Compiles clauses to sentential decision diagrams with the library `pysdd`, an extra.

The diagram of the clauses within each part of the vtree is made first, from the leaves of the vtree to its root; then
clauses are added that no part holds alone.

>>> from plica.templates.logic.dimacs import CNF
>>> formula = compiled(CNF([[1, -2], [2, 3]]))
>>> formula.scope, formula.vtree
(Scope({0, 1, 2}), Vtree(5 nodes, 3 variables))

Source: Darwiche, "SDD: a new canonical representation of propositional knowledge bases", 2011; Choi and Darwiche,
"Dynamic minimization of sentential decision diagrams", 2013.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plica.arguments import found
from plica.errors import DTypeError, InputError
from plica.extras import require
from plica.symbolic.scope import Scope
from plica.templates.logic.dimacs import CNF
from plica.templates.logic.formula import Formula
from plica.templates.logic.nodes import BottomNode, LiteralNode, LogicalNode, NegatedLiteralNode, TopNode
from plica.templates.logic.sdd_format import read_sdd
from plica.templates.logic.variable_order import variable_order
from plica.templates.logic.vtree import Vtree, read_vtree

_LIBRARY = "pysdd.sdd"


def compiled(cnf: CNF, vtree: Vtree | None = None) -> Formula:
    """The diagram of clauses.

    Args:
        cnf: The clauses.
        vtree: The vtree to follow, over all variables; by default a balanced one over `variable_order`.

    Raises:
        MissingExtraError: The library is not installed.
        InputError: The vtree has other variables than the clauses.
    """
    sdd = require(_LIBRARY)
    if vtree is not None and vtree.scope != cnf.scope:
        raise InputError(
            f"LogicalCircuit.from_cnf: the vtree has variables {vtree.scope!s}, and the clauses {cnf.scope!s}; pass "
            "num_variables, or a vtree of the same variables"
        )
    variables = list(cnf.scope)
    if not variables:
        root: LogicalNode = BottomNode() if cnf.clauses else TopNode()
        return Formula({root: ()}, [root], is_deterministic=True, scope=cnf.scope)
    if vtree is None:
        vtree = Vtree.balanced(variable_order(cnf))
    numbers = {variable: number for number, variable in enumerate(variables, 1)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "clauses.vtree"
        path.write_text(vtree.renamed({variable: number - 1 for variable, number in numbers.items()}).text())
        manager = sdd.SddManager(vtree=sdd.Vtree.from_file(str(path).encode()))
    clauses = [[numbers[abs(literal) - 1] * (1 if literal > 0 else -1) for literal in clause] for clause in cnf.clauses]
    return _renamed(from_node(_conjoined(manager, clauses), manager), variables)


def from_node(node: Any, manager: Any = None) -> Formula:
    """The diagram of an `SddNode` of the library, over all variables of its manager.

    Raises:
        DTypeError: The argument is no such node.
        MissingExtraError: The library is not installed.
    """
    if not isinstance(node, require(_LIBRARY).SddNode):
        raise DTypeError(f"LogicalCircuit.from_pysdd: expected an SddNode, {found(node)}")
    with TemporaryDirectory() as folder:
        diagram, vtree = Path(folder) / "formula.sdd", Path(folder) / "formula.vtree"
        node.save(str(diagram).encode())
        (node.manager if manager is None else manager).vtree().save(str(vtree).encode())
        return read_sdd(diagram, vtree)


def _conjoined(manager: Any, clauses: Sequence[Sequence[int]]) -> Any:
    """The node of the conjunction of clauses."""
    vtree = _vtree_of(manager)
    by_place: dict[int, list[Sequence[int]]] = {}
    for clause in sorted(clauses, key=len):
        leaves = [vtree.leaves[abs(literal) - 1] for literal in clause]
        place = leaves[0] if leaves else vtree.root
        for leaf in leaves:
            place = vtree.common(place, leaf)
        by_place.setdefault(place, []).append(clause)
    nodes: list[Any] = []
    for place, vtree_node in enumerate(vtree.nodes):
        node = manager.true()
        if len(vtree_node) == 2:
            node = nodes[vtree_node[0]] & nodes[vtree_node[1]]
        for clause in by_place.get(place, ()):
            either = manager.false()
            for literal in clause:
                either = either | manager.literal(literal)
            node = node & either
        nodes.append(node)
    return nodes[-1]


def _vtree_of(manager: Any) -> Vtree:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "formula.vtree"
        manager.vtree().save(str(path).encode())
        return read_vtree(path)[0]


def _renamed(formula: Formula, variables: Sequence[int]) -> Formula:
    """The formula whose variable v is called `variables[v]`."""
    if list(variables) == list(range(len(variables))):
        return formula
    new: dict[LogicalNode, LogicalNode] = {}
    for node in formula.in_nodes:
        match node:
            case LiteralNode(variable) | NegatedLiteralNode(variable):
                new[node] = type(node)(variables[variable])
            case _:
                new[node] = node
    in_nodes = {new[node]: tuple(new[child] for child in inputs) for node, inputs in formula.in_nodes.items()}
    outputs = [new[output] for output in formula.outputs]
    vtree = None if formula.vtree is None else formula.vtree.renamed(variables)
    return Formula(in_nodes, outputs, is_deterministic=True, scope=Scope(variables), vtree=vtree)
