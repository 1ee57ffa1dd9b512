"""Dead code elimination, also of what loops carry and stack, and branches and calls return, that nothing reads.

What checks sizes stays, read or not: other sizes may be computed from those of its result, which it alone makes true.

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
    """The Program without what nothing reads: pure equations, and results of nested Programs.

    Its consts and inputs stay as they are.

    Args:
        program: The Program.
        table: Its operations, where a backend has private ones.
    """
    needed: dict[Var, None] = {}
    _need(needed, program.outputs)
    kept = []
    for equation in reversed(program.equations):
        is_read = any(var in needed for var in equation.outputs)
        if not is_read and table[equation.op.name].pure and not checks_sizes(equation, table):
            continue
        equation = without_dead_results(equation, needed, partial(eliminate_dead_code, table=table))
        kept.append(equation)
        _need(needed, equation.inputs)
        _need_sizes(needed, (tuple(equation.params.values()), *(var.type for var in equation.outputs)))
    return replace(program, equations=tuple(reversed(kept)))


def checks_sizes(equation: Equation, table: OpTable = OPS) -> bool:
    """Whether it may be found when it runs, here or in a nested Program, that the sizes in types are other ones."""
    if table[equation.op.name].checks_sizes([one.type for one in equation.inputs], equation.params):
        return True
    return any(checks_sizes(one, table) for program in nested(equation.params) for one in program.equations)


def _need(needed: dict[Var, None], operands: Iterable[Operand]) -> None:
    for operand in operands:
        if isinstance(operand, Var):
            needed[operand] = None


def _need_sizes(needed: dict[Var, None], values: Iterable[Any]) -> None:
    for value in values:
        _need(needed, size_variables(value))
