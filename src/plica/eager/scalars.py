"""Makes Python numbers in eager calls arguments of the Program instead of constants.

So one compilation of `add(x, 1.5)` serves all floats. Numbers that decide shapes and axes stay constants. So does an
integer that the dtypes of the arrays may not hold, since its value decides whether there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.ir.dtypes import as_dtype
from plica.tracing.namespace import creation, elementwise, random, updating

_EXACT = 2**53  # floats hold each integer up to here exactly, so that conversions through floats change nothing


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number that is passed as an argument of a Program."""

    value: float | complex


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a function: the arguments with whose values it computes.

    Args:
        first: The position of the first operand.
        end: The position after the last operand; None if all later arguments are operands.
        names: The operands that are passed by name.
        least: The smallest integer that may become an argument; smaller ones stay constants, since a check reads them.
        fills: Whether the number fills the result without affecting its dtype, as in `full_like(x, 1.5)`.
    """

    first: int
    end: int | None = None
    names: tuple[str, ...] = ()
    least: int = -_EXACT
    fills: bool = False


# The types of numbers that an array of some kind can be filled with, without a loss that depends on the value.
_FITTING: Mapping[str, tuple[type, ...]] = {
    "bool": (int,),
    "int": (int,),
    "float": (int, float),
    "complex": (int, float, complex),
}

OPERANDS: Mapping[Callable[..., Any], Operands] = {
    **{function: Operands(0) for function in elementwise.FUNCTIONS.values()},
    elementwise.pow: Operands(0, least=0),  # integers to a negative power are refused
    elementwise.where: Operands(0),
    elementwise.clip: Operands(0, names=("min", "max")),
    elementwise.isin: Operands(0),
    creation.full: Operands(1, 2, ("fill_value",), fills=True),
    creation.full_like: Operands(1, 2, ("fill_value",), fills=True),
    updating.update: Operands(2, 3, ("values",)),
    random.key: Operands(0, 1, ("seed",)),
    random.fold_in: Operands(1, 2, ("data",)),
}


def with_scalars(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], arrays: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with a `Scalar` in place of each operand that is a Python number.

    Args:
        function: The function of the namespace.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        arrays: The arrays among them.
    """
    operands = OPERANDS.get(function)
    if operands is None:
        return tuple(args), dict(kwargs)
    dtype_given = kwargs.get("dtype")
    dtypes = [
        as_dtype(dtype) for dtype in ([array.dtype for array in arrays] if dtype_given is None else [dtype_given])
    ]
    limits = [dtype.limits for dtype in dtypes if dtype.kind == "int"]
    least = max([operands.least, *(limit[0] for limit in limits)])
    most = min([_EXACT, *(limit[1] for limit in limits)])
    types = _FITTING[dtypes[0].kind] if operands.fills and dtypes else _FITTING["complex"]

    def lifted(value: Any) -> Any:
        if type(value) not in types or (type(value) is int and not least <= value <= most):
            return value
        return Scalar(value)

    end = len(args) if operands.end is None else operands.end
    return (
        tuple(lifted(arg) if operands.first <= index < end else arg for index, arg in enumerate(args)),
        {name: lifted(arg) if name in operands.names else arg for name, arg in kwargs.items()},
    )
