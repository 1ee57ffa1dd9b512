"""The passes that every Program goes through before it runs, nested Programs first.

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> print(clean(trace(lambda x: (x * 1.0 + x * 1.0, x + 3)[0], spec(3))))
{ lambda ; x:f32[3] . let
    c:f32[3] = add x x
  in (c,) }
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plica.ir.program import Program, nested
from plica.passes.algebra import Fired
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.exponents import sum_exponents
from plica.passes.hoist import hoist
from plica.passes.rewriting import Rewriting
from plica.passes.splats import read_splats
from plica.passes.splits import split_slices
from plica.passes.views import move_to_sources

_BY_DEFAULT = Rewriting()


def clean(program: Program, rewriting: Rewriting = _BY_DEFAULT, *, fired: Fired | None = None) -> Program:
    """The Program after all passes; loop-invariant code moves first. Recursion is as deep as Programs are nested.

    Args:
        program: The Program.
        rewriting: The rules, and how to apply them.
        fired: Collects the rules that fired.
    """
    return _clean(hoist(program), rewriting, fired)


def _clean(program: Program, rewriting: Rewriting, fired: Fired | None) -> Program:
    def cleaned(params: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _cleaned(value, rewriting, fired) for name, value in params.items()}

    equations = tuple(
        replace(equation, params=cleaned(equation.params)) if any(nested(equation.params)) else equation
        for equation in program.equations
    )
    moved: Program | None = replace(program, equations=equations)
    while moved is not None:  # operations moved through views let rules fire, after which more may be moved
        program = eliminate_dead_code(share_equations(rewriting.simplify(moved, fired)))
        moved = move_to_sources(program, rewriting.rules, fired, rewriting.context)
    return split_slices(eliminate_dead_code(read_splats(sum_exponents(program))))


def _cleaned(value: Any, rewriting: Rewriting, fired: Fired | None) -> Any:
    """A parameter of an equation, cleaned where it is a Program or a tuple of such."""
    if isinstance(value, tuple):
        return tuple(_cleaned(element, rewriting, fired) for element in value)
    return _clean(value, rewriting, fired) if isinstance(value, Program) else value
