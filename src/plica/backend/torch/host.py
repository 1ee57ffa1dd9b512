"""Python numbers in generated code, and the checks of sizes."""

import linecache
import sys
from typing import NoReturn

from torch import Tensor

from plica.errors import InputError
from plica.ops.control import steps
from plica.ops.reduce import NO_ENTRIES

__all__ = ["assert_shape", "axis_size", "refuse_size", "steps", "with_entries", "wrap"]

_HALF = 2**63


def wrap(value: int) -> int:
    """The 64-bit integer that `value` is modulo 2**64."""
    return value if -_HALF <= value < _HALF else (value + _HALF) % (2 * _HALF) - _HALF


def axis_size(value: int, size: str) -> int:
    """`value`, if it can be the size of an axis.

    Raises:
        InputError: It is negative, or beyond 64 bits; `size` is how the Program writes it.
    """
    if 0 <= value < _HALF:
        return value
    meaning = "" if size == str(value) else f"{size} = "
    wrong = "negative; take 0 or more" if value < 0 else "too large; sizes are below 2**63"
    raise InputError(f"{place_of_caller()}the size {meaning}{value} is {wrong}.")


def place_of_caller() -> str:
    """`file:line: ` of the user's code, which a comment above the generated line names; empty if there is none."""
    frame = sys._getframe(2)
    lines = linecache.getlines(frame.f_code.co_filename)[: frame.f_lineno]
    comments = (line.strip()[2:] for line in reversed(lines) if line.lstrip().startswith("# "))
    location = next(comments, "")
    return f"{location}: " if location else ""


def assert_shape(x: Tensor, shape: tuple[int, ...], location: str) -> Tensor:
    """`x`, whose shape must be `shape`.

    Raises:
        InputError: The shape differs; `location` is the line of the user's code.
    """
    if x.shape != shape:
        raise InputError(
            f"{location + ': ' if location else ''}an array has shape {tuple(x.shape)}, but {shape} is needed: paired "
            "sizes must be equal; pass arguments whose sizes agree."
        )
    return x


def with_entries(x: Tensor, axes: tuple[int, ...], location: str) -> Tensor:
    """`x`, whose axes must not be of size 0.

    Raises:
        InputError: One of `axes` has size 0; the message begins with `location`, the line of the user's code.
    """
    if x.numel() == 0 and any(x.shape[axis] == 0 for axis in axes):
        raise InputError(f"{location + ': ' if location else ''}{NO_ENTRIES}")
    return x


def refuse_size(name: str, axis: int, actual: int, size: str, expected: int) -> NoReturn:
    """Refuse an argument.

    Raises:
        InputError: Always.
    """
    meaning = "" if size == str(expected) else f" ({size})"
    raise InputError(
        f"axis {axis} of argument {name} has size {actual}, but {expected}{meaning} is needed: axes of one name have "
        "equal sizes; pass arguments whose sizes agree."
    )
