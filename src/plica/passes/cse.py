"""Common subexpressions: what two equal equations compute is computed once.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(share_equations(trace(lambda x: (x * x) + (x * x), spec(3))))
{ lambda ; x:f32[3] . let
    a:f32[3] = multiply x x
    c:f32[3] = add a a
  in (c,) }
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.types import SCALAR_SIZE
from plica.ops import OPS


def share_equations(program: Program) -> Program:
    """The Program without pure equations that an earlier one computes; scalars of sizes are left alone."""
    known: dict[Hashable, tuple[Var, ...]] = {}
    now: dict[Var, Var] = {}
    kept = []
    for equation in program.equations:
        inputs = tuple(_now(one, now) for one in equation.inputs)
        if any(one is not other for one, other in zip(inputs, equation.inputs, strict=True)):
            equation = replace(equation, inputs=inputs)
        key = _key(equation)
        if key is not None and key in known:
            now.update(zip(equation.outputs, known[key], strict=True))
            continue
        if key is not None:
            known[key] = equation.outputs
        kept.append(equation)
    if len(kept) == len(program.equations):
        return program
    return replace(program, equations=tuple(kept), outputs=tuple(_now(one, now) for one in program.outputs))


def _now(operand: Operand, now: Mapping[Var, Var]) -> Operand:
    return now.get(operand, operand) if isinstance(operand, Var) else operand


def _key(equation: Equation) -> Hashable | None:
    """What equal equations share; None where an equation must stay."""
    if not OPS[equation.op.name].pure or any(var.type == SCALAR_SIZE for var in equation.outputs):
        return None
    operands = tuple((repr(one.value), one.type) if isinstance(one, Literal) else one for one in equation.inputs)
    params = tuple((name, _param_key(equation.params[name])) for name in sorted(equation.params))
    return (equation.op.name, operands, params)


def _param_key(value: Any) -> Hashable:
    """A value with its type: 1, 1.0 and True are three values, and so are the two zeros."""
    if isinstance(value, tuple):
        return tuple(map(_param_key, value))
    return (type(value).__name__, repr(value) if isinstance(value, float | complex) else value)
