"""Shapes of constants: whether they fit a Program and each other, before something is folded of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from plica.errors import DTypeError, InputError
from plica.frontend.arguments import declared_dtype, dtype_of, is_array, shape_of
from plica.frontend.released import stand_in
from plica.ir.program import Program, Var
from plica.ir.sizes import Size, atoms, evaluate, single_atom
from plica.ir.types import SCALAR_SIZE


def sizes_of(program: Program, sources: Mapping[str, Any]) -> dict[Var, int]:
    """The sizes that constants have, given by name.

    Raises:
        InputError: A shape does not fit, alone or beside others.
        DTypeError: A dtype does not fit.
    """
    found: dict[Any, int] = {}
    implicit = dict.fromkeys(program.inputs[: program.num_implicit_inputs])
    arguments = [
        (var, stand_in(sources[var.name]))
        for var in program.arguments
        if var.name in sources and is_array(stand_in(sources[var.name]))
    ]
    for var, one in arguments:
        if dtype_of(one) != var.type.dtype or len(one.shape) != len(var.type.shape):
            raise _unfitting(var, one)
        for dim, size in zip(var.type.shape, shape_of(one), strict=True):
            atom = single_atom(dim) if isinstance(dim, Size) else None
            if atom in implicit:
                found.setdefault(atom, size)
    for var, one in arguments:
        for dim, size in zip(var.type.shape, shape_of(one), strict=True):
            is_known = all(atom in found for atom in atoms(dim))
            if is_known and evaluate(dim, found.__getitem__) != size:
                raise _unfitting(var, one, found)
    return found


def _unfitting(var: Var, array: Any, sizes: Mapping[Var, int] | None = None) -> Exception:
    if dtype_of(array) != var.type.dtype:
        return DTypeError(
            f"argument {var.name} has dtype {dtype_of(array).value}, but the program expects {var!r}; use astype."
        )
    where = f" with {', '.join(f'{size.name} = {value}' for size, value in sizes.items())}" if sizes else ""
    return InputError(
        f"argument {var.name} has shape {shape_of(array)}, but the program expects {var!r}{where}; give constants "
        "whose sizes fit each other."
    )


def of_arguments(program: Program) -> Program:
    """The Program with arguments in the place of captured arrays, so that what runs it holds none of them."""
    if any(var.type == SCALAR_SIZE for var in program.consts):  # types may refer to it
        return program
    count = program.num_implicit_inputs
    return replace(program, consts=(), inputs=(*program.inputs[:count], *program.consts, *program.inputs[count:]))


def described(program: Program, arguments: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    """The shape and the dtype of each argument; a number has the dtype that is declared.

    Raises:
        InputError: One is neither an array nor a number.
        DTypeError: A number is none of the kind that is declared.
    """
    return [
        (shape_of(one), declared_dtype(one, var).value) for var, one in zip(program.arguments, arguments, strict=True)
    ]
