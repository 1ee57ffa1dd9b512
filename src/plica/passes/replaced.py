"""What rules put in place of equations, checked: known operations, and the type that stood there before.

An equation that is read within its replacement alone gets a variable of its own.
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
    """The type of an operand, or of the result of an equation of one."""
    return node.outputs[0].type if isinstance(node, Equation) else node.type


def inner_variables(program: Program, applied: Sequence[Applied[Any]]) -> dict[Equation, Var]:
    """The variables of the new equations whose results do not stand in place of a match.

    Raises:
        GraphError: A rule's replacement is of another type than what it replaces, or is no equation that can be.
    """
    found: dict[Equation, Var] = {}
    names: Names | None = None
    for one in applied:
        types: dict[Any, ArrayType] = {}
        for node, inputs in one.replacement.nodes:
            types[node] = _computed(one, node, [types.get(read) or type_of(read) for read in inputs])
            if isinstance(node, Equation) and node is not one.replacement.output:
                names = names or names_of(program)
                found[node] = Var(names.fresh(), types[node])
        output, root = one.replacement.output, type_of(one.match.root)
        new = types.get(output) or type_of(output)
        if new != root:
            raise GraphError(f"{_place(one)}: its replacement has type {new}, but stands in place of {root}")
    return found


def _computed(applied: Applied[Any], node: Node, inputs: list[ArrayType]) -> ArrayType:
    """The type of a new node, from the row of its operation."""
    if isinstance(node, Var | Literal):
        return type_of(node)
    if not isinstance(node, Equation):
        raise GraphError(f"{_place(applied)}: it made {node!r}, which is no equation; view_of(match).make makes them")
    row = OPS.get(node.op.name)
    if row is None or row.regions:
        raise GraphError(
            f"{_place(applied)}: no rule can make the operation {node.op.name!r}; see docs/ir.md for those"
        )
    try:
        types = row.types(inputs, node.params)
    except UndecidedSizeError:
        return type_of(node)  # as it was declared: whether sizes are equal is known when the Program runs
    except PlicaError as error:
        raise GraphError(f"{_place(applied)}: {node.op.name} refuses its operands: {error}") from error
    if len(types) != 1:
        raise GraphError(f"{_place(applied)}: {node.op.name} has {len(types)} results; use operations of one result")
    return types[0]


def _place(applied: Applied[Any]) -> str:
    return f"rule {applied.rule.name} at {applied.match.graph.describe(applied.match.root)}"


def names_of(program: Program) -> Names:
    """Names that no variable of the Program has."""
    names = Names()
    made = (var for equation in program.equations for var in equation.outputs)
    for var in (*program.consts, *program.inputs, *made):
        names.fresh(var.name)
    return names
