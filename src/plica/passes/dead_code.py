"""Dead code elimination, also of what loops carry and stack, and branches and calls return, that nothing reads.

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
from typing import Any

from plica.ir.program import Operand, Program, Var, size_variables
from plica.ops import OPS
from plica.passes.dead_results import without_dead_results


def eliminate_dead_code(program: Program) -> Program:
    """The Program without what nothing reads: pure equations, and results of nested Programs.

    Its consts and inputs stay as they are.
    """
    needed: dict[Var, None] = {}
    _need(needed, program.outputs)
    kept = []
    checked = _checked(program)
    for equation in reversed(program.equations):
        if OPS[equation.op.name].pure and not any(var in needed for var in equation.outputs):
            continue
        equation = without_dead_results(equation, needed, eliminate_dead_code, checked)
        kept.append(equation)
        _need(needed, equation.inputs)
        _need_sizes(needed, (tuple(equation.params.values()), *(var.type for var in equation.outputs)))
    return replace(program, equations=tuple(reversed(kept)))


def _checked(program: Program) -> dict[Var, None]:
    """The arrays whose sizes may be found wrong while they are computed; none where no scan reads rows."""
    found: dict[Var, None] = {}
    if all(equation.op.name != "scan" for equation in program.equations):
        return found
    for equation in program.equations:
        if not OPS[equation.op.name].never_raises or any(one in found for one in equation.inputs):
            found.update(dict.fromkeys(equation.outputs))
    return found


def _need(needed: dict[Var, None], operands: Iterable[Operand]) -> None:
    for operand in operands:
        if isinstance(operand, Var):
            needed[operand] = None


def _need_sizes(needed: dict[Var, None], values: Iterable[Any]) -> None:
    for value in values:
        _need(needed, size_variables(value))
