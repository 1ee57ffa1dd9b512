"""Nested Programs where they are written: with variables of their own, and with the sizes that are known there."""

from collections.abc import Iterable

from plica.backend.native.mlir.types import Value
from plica.ir.program import Program, Var
from plica.ir.rewrite import rewrite


def with_sizes(program: Program, given: Iterable[tuple[Var, Value]]) -> Program:
    """A Program with variables of its own, and with sizes that are known where it is written in the place of its own.

    Args:
        program: The Program.
        given: Variables and what they are; those that have another value each time it runs stand for no size.
    """
    known = {var: value.size for var, value in given if value.size is not None}
    return rewrite(program, lambda var: var.name, known)
