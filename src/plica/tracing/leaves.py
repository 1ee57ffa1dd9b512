"""Leaves of arguments: arrays of any library, and Python's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.errors import DTypeError, InputError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Program, Var

PYTHON_NUMBERS = (bool, int, float, complex)
_KINDS = ("bool", "int", "float", "complex")  # each holds the numbers of those before it


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, of any library."""
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def shape_of(leaf: Any) -> tuple[int, ...]:
    """The shape of an array or a number."""
    return tuple(getattr(leaf, "shape", ()))


def dtype_of(leaf: Any) -> DType:
    """The dtype of an array or a number."""
    return as_dtype(leaf.dtype if is_array(leaf) else type(leaf))


def declared_dtype(leaf: Any, var: Var) -> DType:
    """The dtype of an argument; that which is declared where a number is given that it holds.

    Raises:
        InputError: It is neither an array nor a number.
        DTypeError: It is a number, and an array or a number of another kind is expected.
    """
    if is_array(leaf):
        return dtype_of(leaf)
    if not isinstance(leaf, PYTHON_NUMBERS):
        raise InputError(
            f"argument {var.name} is of type {type(leaf).__name__}, but the program expects {var!r}; give an array, as "
            "numpy.asarray makes."
        )
    if not is_number_of(dtype_of(leaf).kind, var):
        raise DTypeError(f"argument {var.name} is {leaf!r}, but the program expects {var.type}.")
    return var.type.dtype


def is_number_of(kind: str, var: Var) -> bool:
    """Whether numbers of a kind may stand for a variable."""
    return not var.type.shape and _KINDS.index(kind) <= _KINDS.index(var.type.dtype.kind)


def described(program: Program, arguments: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    """The shape and the dtype of each argument; a number has the dtype that is declared.

    Raises:
        InputError: An argument is neither an array nor a number.
        DTypeError: A number is none of the kind that is declared.
    """
    return [
        (shape_of(argument), declared_dtype(argument, var).value)
        for var, argument in zip(program.arguments, arguments, strict=True)
    ]
