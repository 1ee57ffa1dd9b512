"""Python numbers in eager calls: what a function computes with is an argument of its Program, not a constant.

So one compilation of `add(x, 1.5)` serves all floats. Numbers that decide shapes and axes stay what they are, and so
does an integer that the dtypes of the arrays may not hold, whose value decides what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.ir.dtypes import as_dtype
from plica.tracing.namespace import creation, elementwise, random, updating

_EXACT = 2**53  # integers up to here are floats too, however they are rounded on the way to another dtype


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number in the place of an argument of a Program."""

    value: float | complex


@dataclass(frozen=True, slots=True)
class Operands:
    """The arguments of a function that it computes with.

    Args:
        first: The place of the first one.
        end: The place after the last one; None where all that follow are operands.
        names: Those that are given by name.
        least: The smallest integer whose value decides nothing.
        fills: Whether the result has the dtype that is given, or that of the array, whatever the number is.
    """

    first: int
    end: int | None = None
    names: tuple[str, ...] = ()
    least: int = -_EXACT
    fills: bool = False


# The numbers that an array of some kind may be filled with, without a loss that depends on their value.
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
    """The arguments of a call with `Scalar` in the place of each operand that is a Python number.

    Args:
        function: The function of the namespace.
        args: Its arguments.
        kwargs: Those by name.
        arrays: The arrays among them.
    """
    operands = OPERANDS.get(function)
    if operands is None:
        return tuple(args), dict(kwargs)
    given = kwargs.get("dtype")
    dtypes = [as_dtype(one) for one in ([array.dtype for array in arrays] if given is None else [given])]
    limits = [dtype.limits for dtype in dtypes if dtype.kind == "int"]
    least = max([operands.least, *(one[0] for one in limits)])
    most = min([_EXACT, *(one[1] for one in limits)])
    types = _FITTING[dtypes[0].kind] if operands.fills and dtypes else _FITTING["complex"]

    def lifted(value: Any) -> Any:
        if type(value) not in types or (type(value) is int and not least <= value <= most):
            return value
        return Scalar(value)

    end = len(args) if operands.end is None else operands.end
    return (
        tuple(lifted(one) if operands.first <= place < end else one for place, one in enumerate(args)),
        {name: lifted(one) if name in operands.names else one for name, one in kwargs.items()},
    )
