"""Common subexpressions: of equal equations, only the first runs.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(share_equations(trace(lambda x: (x * x) + (x * x), spec(3))))
{ lambda ; x:f32[3] . let
    a:f32[3] = multiply x x
    c:f32[3] = add a a
  in (c,) }
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from plica.graph.share import alike
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.types import SCALAR_SIZE
from plica.ops import OPS


def share_equations(program: Program) -> Program:
    """The Program without pure equations that equal an earlier one; scalars of sizes are left alone."""
    first = alike(program.equations, _values, lambda equation: equation.outputs, _key)
    if not first:
        return program

    def renamed(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(first.get(operand, operand) if isinstance(operand, Var) else operand for operand in operands)

    equations = []
    for equation in program.equations:
        if equation.outputs and equation.outputs[0] in first:
            continue
        inputs = renamed(equation.inputs)
        equations.append(equation if inputs == equation.inputs else replace(equation, inputs=inputs))
    return replace(program, equations=tuple(equations), outputs=renamed(program.outputs))


def _values(equation: Equation) -> tuple[Any, ...]:
    """The operands of an equation; literals as their text and type, so that 0.0 differs from -0.0."""
    return tuple(
        (repr(operand.value), operand.type) if isinstance(operand, Literal) else operand for operand in equation.inputs
    )


def _key(equation: Equation) -> Hashable | None:
    """The operation and the parameters, which equal equations share; None where an equation must stay."""
    if not OPS[equation.op.name].pure or any(var.type == SCALAR_SIZE for var in equation.outputs):
        return None
    return (equation.op.name, tuple((name, _param_key(equation.params[name])) for name in sorted(equation.params)))


def _param_key(value: Any) -> Hashable:
    """A value with its type: 1, 1.0 and True are three values, and so are the two zeros."""
    if isinstance(value, tuple):
        return tuple(map(_param_key, value))
    return (type(value).__name__, repr(value) if isinstance(value, float | complex) else value)
