"""Nested Programs with fresh variables, and with the sizes that are known where they are written."""

from collections.abc import Iterable

from plica.backend.native.mlir.types import Value
from plica.ir.program import Program, Var
from plica.ir.rewrite import rewrite


def with_sizes(program: Program, values: Iterable[tuple[Var, Value]]) -> Program:
    """A Program with fresh variables, and with the known sizes substituted for its own.

    Args:
        program: The Program.
        values: Variables and their values; variables that change from run to run have no `size`.
    """
    known = {var: value.size for var, value in values if value.size is not None}
    return rewrite(program, lambda var: var.name, known)
