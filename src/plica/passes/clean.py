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
from plica.passes.algebra import Fired, simplify
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.hoist import hoist
from plica.passes.views import move_to_sources


def clean(program: Program, *, fired: Fired | None = None) -> Program:
    """The Program after all passes, on what loops repeat as little as they may; recursion is as deep as nesting.

    Args:
        program: The Program.
        fired: Where to note which rules fired.
    """
    return _clean(hoist(program), fired)


def _clean(program: Program, fired: Fired | None) -> Program:
    def cleaned(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(cleaned, value))
        return _clean(value, fired) if isinstance(value, Program) else value

    equations = tuple(
        replace(equation, params={name: cleaned(value) for name, value in equation.params.items()})
        if any(nested(equation.params))
        else equation
        for equation in program.equations
    )
    found: Program | None = replace(program, equations=equations)
    while found is not None:  # what is moved through views lets rules fire, after which more may be moved
        program = eliminate_dead_code(share_equations(simplify(found, fired=fired)))
        found = move_to_sources(program, fired=fired)
    return program
