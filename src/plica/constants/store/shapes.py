"""Shapes of constants: whether they fit a Program and each other, before they are folded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plica.constants.store.released import placeholder
from plica.errors import DTypeError, InputError
from plica.ir.program import Program, Var
from plica.ir.sizes import Size, atoms, evaluate, single_atom
from plica.ir.types import SCALAR_SIZE
from plica.tracing.leaves import declared_dtype, shape_of


def sizes_of(program: Program, sources: Mapping[str, Any]) -> dict[Var, int]:
    """The sizes that some arguments and captured arrays have, given by name.

    Raises:
        InputError: A shape does not fit, alone or beside others, or a source is neither an array nor a number.
        DTypeError: A dtype does not fit.
    """
    sizes: dict[Any, int] = {}
    implicit = dict.fromkeys(program.inputs[: program.num_implicit_inputs])
    arrays = [
        (var, placeholder(sources[var.name])) for var in (*program.consts, *program.arguments) if var.name in sources
    ]
    for var, array in arrays:
        dtype, shape = declared_dtype(array, var), shape_of(array)
        if dtype != var.type.dtype:
            raise DTypeError(f"argument {var.name} is {dtype.value}, but the program expects {var!r}; use astype.")
        if len(shape) != len(var.type.shape):
            raise _unfitting(var, shape)
        for dim, size in zip(var.type.shape, shape, strict=True):
            atom = single_atom(dim) if isinstance(dim, Size) else None
            if atom in implicit:
                sizes.setdefault(atom, size)
    for var, array in arrays:
        for dim, size in zip(var.type.shape, shape_of(array), strict=True):
            is_known = all(atom in sizes for atom in atoms(dim))
            if is_known and evaluate(dim, sizes.__getitem__) != size:
                raise _unfitting(var, shape_of(array), sizes)
    return sizes


def _unfitting(var: Var, shape: tuple[int, ...], sizes: Mapping[Var, int] | None = None) -> InputError:
    where = f" with {', '.join(f'{size.name} = {value}' for size, value in sizes.items())}" if sizes else ""
    return InputError(
        f"argument {var.name} has shape {shape}, but the program expects {var!r}{where}; give constants whose sizes "
        "fit each other."
    )


def of_arguments(program: Program) -> Program:
    """The Program with arguments in place of captured arrays, so that its runner holds none of them."""
    if any(var.type == SCALAR_SIZE for var in program.consts):  # types may refer to it
        return program
    count = program.num_implicit_inputs
    return replace(program, consts=(), inputs=(*program.inputs[:count], *program.consts, *program.inputs[count:]))
