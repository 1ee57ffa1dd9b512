"""The passes that every Program goes through before it runs, nested Programs first.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(clean(trace(lambda x: (x * 1.0 + x * 1.0, x + 3)[0], spec(3))))
{ lambda ; x:f32[3] . let
    c:f32[3] = add x x
  in (c,) }
"""

from dataclasses import replace
from typing import Any

from plica.ir.program import Program, nested
from plica.passes.algebra import simplify
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.hoist import hoist

PASSES = (simplify, share_equations, eliminate_dead_code)


def clean(program: Program) -> Program:
    """The Program after `PASSES`, on what loops repeat as little as they may; recursion is as deep as nesting."""
    return _clean(hoist(program))


def _clean(program: Program) -> Program:
    equations = tuple(
        replace(equation, params={name: _cleaned(value) for name, value in equation.params.items()})
        if any(nested(equation.params))
        else equation
        for equation in program.equations
    )
    program = replace(program, equations=equations)
    for one in PASSES:
        program = one(program)
    return program


def _cleaned(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    return _clean(value) if isinstance(value, Program) else value
