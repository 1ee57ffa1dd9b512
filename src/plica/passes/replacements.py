"""Checks of the replacements that rules make: they have known operations, and the type of what they replace.

An equation that only its own replacement reads gets a new variable.
"""

from collections.abc import Sequence
from typing import Any

from plica.errors import GraphError, PlicaError, UndecidedSizeError
from plica.graph.optimize import Applied
from plica.ir.builder import Names
from plica.ir.program import Equation, Literal, Program, Var
from plica.ir.types import ArrayType
from plica.ops import OPS

Node = Equation | Var | Literal


def type_of(node: Node) -> ArrayType:
    """The type of an operand, or of the only result of an equation."""
    return node.outputs[0].type if isinstance(node, Equation) else node.type


def inner_variables(program: Program, applied: Sequence[Applied[Any]]) -> dict[Equation, Var]:
    """The variables of new equations within replacements, whose results replace no match.

    Raises:
        GraphError: A replacement is of another type than the match, or is no equation that rules can make.
    """
    variables: dict[Equation, Var] = {}
    names: Names | None = None
    for application in applied:
        types: dict[Any, ArrayType] = {}
        for node, inputs in application.replacement.nodes:
            types[node] = _computed(application, node, [types.get(operand) or type_of(operand) for operand in inputs])
            if isinstance(node, Equation) and node is not application.replacement.output:
                names = names or names_of(program)
                variables[node] = Var(names.fresh(), types[node])
        output, root = application.replacement.output, type_of(application.match.root)
        new = types.get(output) or type_of(output)
        if new != root:
            raise GraphError(f"{_location(application)}: its replacement has type {new}, but stands in place of {root}")
    return variables


def _computed(applied: Applied[Any], node: Node, inputs: list[ArrayType]) -> ArrayType:
    """The type of a new node, from the row of its operation."""
    if isinstance(node, Var | Literal):
        return type_of(node)
    if not isinstance(node, Equation):
        raise GraphError(
            f"{_location(applied)}: it made {node!r}, which is no equation; view_of(match).make makes them"
        )
    row = OPS.get(node.op.name)
    if row is None or row.regions:
        raise GraphError(
            f"{_location(applied)}: no rule can make the operation {node.op.name!r}; see docs/ir.md for those"
        )
    try:
        types = row.types(inputs, node.params)
    except UndecidedSizeError:
        return type_of(node)  # as declared: only the run knows whether the sizes are equal
    except PlicaError as error:
        raise GraphError(f"{_location(applied)}: {node.op.name} does not take its operands: {error}") from error
    if len(types) != 1:
        raise GraphError(f"{_location(applied)}: {node.op.name} has {len(types)} results; use operations of one result")
    return types[0]


def _location(applied: Applied[Any]) -> str:
    return f"rule {applied.rule.name} at {applied.match.graph.describe(applied.match.root)}"


def names_of(program: Program) -> Names:
    """Names that no variable of the Program has."""
    names = Names()
    results = (var for equation in program.equations for var in equation.outputs)
    for var in (*program.consts, *program.inputs, *results):
        names.fresh(var.name)
    return names
