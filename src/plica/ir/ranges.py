"""Ranges: between which two floats the entries of an array lie.

A range is a pair `(low, high)` of floats in their total order, in which -0.0 lies below 0.0. So `(0.0, inf)` also says
that no entry is the zero of negative sign, and `(-0.0, inf)` leaves it possible. It says nothing of NaN, which may be
anywhere. In an array of fewer digits the bounds are right to a rounding; what they say of zero is exact, down to half
precision.

Where numbers may be complex there is no range, but None. Integers have `ANYTHING`: their arithmetic wraps around.

The functions here are range rules, the column `range` of operations: from the ranges of operands to that of the result.
They also take the parameters of an operation, which few of them read.

>>> plus((0.0, 1.0), (2.0, 2.0)), either((0.0, 1.0), (-0.0, -0.0))
((2.0, 3.0), (-0.0, 1.0))
>>> excludes_negative_zero((0.0, 1.0)), excludes_negative_zero((-0.0, 1.0))
(True, False)
"""

from collections.abc import Callable
from math import copysign, frexp, inf, isinf, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Range = tuple[float, float]
RangeRule = Range | Callable[..., Range]
"""A column: the range itself, or a function from the ranges of the operands, and the parameters, to it."""

ANYTHING: Range = (-inf, inf)
NOT_NEGATIVE: Range = (0.0, inf)


def range_of_values(values: NDArray[Any]) -> Range | None:
    """The range of known numbers, at least one of them; None for complex ones."""
    if np.iscomplexobj(values):
        return None
    low, high = float(np.min(values)), float(np.max(values))
    signs = np.signbit(values[values == 0])
    low = -0.0 if low == 0 and signs.any() else low
    return _checked(low, -0.0 if high == 0 and signs.all() else high)


def excludes_negative(interval: Range | None) -> bool:
    """Whether every number is zero, of either sign, or more."""
    return interval is not None and interval[0] >= 0


def excludes_negative_zero(interval: Range | None) -> bool:
    """Whether -0.0 is not among the numbers."""
    return interval is not None and (_order(interval[0]) >= _order(0.0) or interval[1] <= -_LEAST)


_LEAST = 2.0**-24
"""A negative number nearer to zero may be -0.0 in an array of fewer digits."""


def _order(number: float) -> tuple[float, float]:
    """The sort key of floats by which -0.0 is less than 0.0."""
    return (number, copysign(1.0, number))


def _checked(low: float, high: float) -> Range:
    """A range whose bounds are numbers."""
    return ANYTHING if isnan(low) or isnan(high) else (low, high)


def as_first(x: Range, *_: Range, **__: Any) -> Range:
    """Entries of the first operand, moved or chosen."""
    return x


def either(*ranges: Range, **_: Any) -> Range:
    """Entries of any of the operands."""
    return (min((low for low, _ in ranges), key=_order), max((high for _, high in ranges), key=_order))


def choice(_: Range, *ranges: Range) -> Range:
    """Entries of the operands after the first, which chooses among them."""
    return either(*ranges)


def or_zero(x: Range, **_: Any) -> Range:
    """Entries of the operand, and zeros."""
    return either(x, (0.0, 0.0))


def negated(x: Range) -> Range:
    """The negative."""
    return (-x[1], -x[0])


def plus(x: Range, y: Range) -> Range:
    """The sum: it is -0.0 only where both are."""
    return _checked(x[0] + y[0] - _slack(x[0], y[0]), x[1] + y[1] + _slack(x[1], y[1]))


def _slack(x: float, y: float) -> float:
    """How far a sum of few digits may lie from x + y if x and y cancel: even its sign may differ."""
    if x * y >= 0 or (_is_short(x) and _is_short(y)):
        return 0.0
    return max(abs(x), abs(y)) * 2.0**-_DIGITS


_DIGITS = 7


def _is_short(number: float) -> bool:
    """Whether a number is itself in half precision too."""
    mantissa, exponent = frexp(number)
    return isinf(number) or ((mantissa * 2**_DIGITS).is_integer() and -12 <= exponent <= 16)


def minus(x: Range, y: Range) -> Range:
    """The difference, which is x + -y."""
    return plus(x, negated(y))


def combined(*ranges: Range, **_: Any) -> Range:
    """A sum of products: not negative if no operand is."""
    if not all(map(excludes_negative, ranges)):
        return ANYTHING
    return NOT_NEGATIVE if all(map(excludes_negative_zero, ranges)) else (-0.0, inf)


def quotient(x: Range, y: Range) -> Range:
    """The quotient: not negative if no operand is, and the divisor is never -0.0."""
    return combined(x, y) if excludes_negative_zero(y) else ANYTHING


def inverse(x: Range) -> Range:
    """The reciprocal."""
    return quotient((1.0, 1.0), x)


def power(x: Range, _: Range) -> Range:
    """A power, to any exponent."""
    return NOT_NEGATIVE if excludes_negative(x) and excludes_negative_zero(x) else ANYTHING


def larger(x: Range, y: Range) -> Range:
    """The maximum: of the two zeros it may give either."""
    return (_of_either_zero(max(x[0], y[0]), x, y), max(x[1], y[1], key=_order))


def smaller(x: Range, y: Range) -> Range:
    """The minimum."""
    return negated(larger(negated(x), negated(y)))


def between(x: Range, least: Range, most: Range) -> Range:
    """The first operand, raised to `least`, then lowered to `most`."""
    return smaller(larger(x, least), most)


def _of_either_zero(low: float, x: Range, y: Range) -> float:
    """A lower bound, which is 0.0 only where neither operand has -0.0."""
    return -0.0 if low == 0 and not (excludes_negative_zero(x) and excludes_negative_zero(y)) else low
