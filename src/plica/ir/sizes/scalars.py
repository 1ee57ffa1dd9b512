"""Scalars of Programs that stand for sizes, and the operations whose results do too."""

from collections.abc import Callable, Mapping
from operator import add, mul, neg, sub
from typing import Any

from plica.ir.sizes.divisions import floor_divide, remainder
from plica.ir.sizes.functions import maximum, minimum
from plica.ir.sizes.polynomials import Dim, Size


def as_size(value: Any) -> Dim | None:
    """The size that `value` stands for: an integer literal, a 64-bit integer variable, or a size itself; else None."""
    if isinstance(value, Size):
        return value
    dtype = value.type.dtype
    if value.type.shape or dtype != "int64":
        return None
    literal = getattr(value, "value", None)
    return Size.of(value) if literal is None else literal


# Operations on scalar integers whose results are sizes again, and those whose results may be known early, given the
# difference of their operands.
SIZE_ARITHMETIC: Mapping[str, Callable[..., Dim]] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "negative": neg,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "minimum": minimum,
    "maximum": maximum,
}
SIZE_COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "equal": lambda difference: difference == 0,
    "not_equal": lambda difference: difference != 0,
    "less": lambda difference: difference < 0,
    "less_equal": lambda difference: difference <= 0,
    "greater": lambda difference: difference > 0,
    "greater_equal": lambda difference: difference >= 0,
}
