"""Dead code elimination, also of unread results and carries of loops, and of unread results of branches and calls.

Equations that check sizes stay even if unread: types of other values may rely on the sizes that they check.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> def unused(x):
...     x + 1
...     return x * 2
>>> print(eliminate_dead_code(trace(unused, spec(3))))
{ lambda ; x:f32[3] . let
    b:f32[3] = multiply x 2.0:f32[]
  in (b,) }
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from plica.ir.op import OpTable
from plica.ir.program import Equation, Operand, Program, Var, nested, size_variables
from plica.ops import OPS
from plica.passes.dead_results import without_dead_results


def eliminate_dead_code(program: Program, table: OpTable = OPS) -> Program:
    """The Program without unread pure equations, and without unread results of nested Programs.

    Its consts and inputs stay as they are.

    Args:
        program: The Program.
        table: Its operations, where a backend has private ones.
    """
    needed: dict[Var, None] = {}
    _need(needed, program.outputs)
    live = []
    for equation in reversed(program.equations):
        is_read = any(var in needed for var in equation.outputs)
        if not is_read and table[equation.op.name].pure and not checks_sizes(equation, table):
            continue
        equation = without_dead_results(equation, needed, partial(eliminate_dead_code, table=table))
        live.append(equation)
        _need(needed, equation.inputs)
        _need_sizes(needed, (tuple(equation.params.values()), *(var.type for var in equation.outputs)))
    return replace(program, equations=tuple(reversed(live)))


def checks_sizes(equation: Equation, table: OpTable = OPS) -> bool:
    """Whether an equation checks sizes in types when it runs, itself or in a nested Program."""
    if table[equation.op.name].checks_sizes([operand.type for operand in equation.inputs], equation.params):
        return True
    return any(checks_sizes(inner, table) for program in nested(equation.params) for inner in program.equations)


def _need(needed: dict[Var, None], operands: Iterable[Operand]) -> None:
    for operand in operands:
        if isinstance(operand, Var):
            needed[operand] = None


def _need_sizes(needed: dict[Var, None], values: Iterable[Any]) -> None:
    for value in values:
        _need(needed, size_variables(value))
