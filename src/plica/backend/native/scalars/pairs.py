"""Numbers of about 75 bits: pairs of float64 that are added.

The high part has at most 26 bits, so that products of two high parts are exact. It is cut off by its bits: no compiler
can join the multiplication that made it with the addition that uses it, as IREE's does with others (which would be
rounded once instead of twice, and break sums that are corrected by what rounding lost).
Source: T. J. Dekker, A floating-point technique for extending the available precision, 1971.
"""

from typing import NamedTuple

import numpy as np

from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType

_HIGH = 2**64 - 2**27


class Pair(NamedTuple):
    """The number `high + low`."""

    high: Value
    low: Value

    @property
    def sum(self) -> Value:
        """The nearest float64."""
        return self.high + self.low

    def __neg__(self) -> "Pair":
        return Pair(-self.high, -self.low)

    def __add__(self, other: "Pair | Value | float") -> "Pair":  # type: ignore[override]
        found = as_pair(other, self.high)
        total, lost = two_sum(self.high, found.high)
        return renormalized(total, lost + (self.low + found.low))

    def __sub__(self, other: "Pair | Value | float") -> "Pair":
        return self + -as_pair(other, self.high)

    def __mul__(self, other: "Pair | Value | float") -> "Pair":  # type: ignore[override]
        found = as_pair(other, self.high)
        return renormalized(self.high * found.high, self.high * found.low + self.low * found.sum)

    def __truediv__(self, other: "Pair | Value | float") -> "Pair":
        by = as_pair(other, self.high)
        first = high_bits(self.sum / by.sum)
        left = (self.high - first * by.high) + (self.low - first * by.low)
        return renormalized(first, left / by.sum)

    def sqrt(self) -> "Pair":
        """The root of a positive number."""
        root = self.sum.sqrt()
        first = high_bits(root)
        left = (self.high - first * first) + self.low
        return renormalized(first, left / (first + root))


def high_bits(x: Value) -> Value:
    """The 26 high bits."""
    return (x.bits_as(DType.UINT64) & _HIGH).bits_as(DType.FLOAT64)


def renormalized(high: Value, low: Value) -> Pair:
    """The sum of a number and a lesser one, as a pair."""
    first = high_bits(high + low)
    return Pair(first, (high - first) + low)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The sum of two numbers that are no products, and what its rounding lost."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def as_pair(x: Pair | Value | float, like: Value) -> Pair:
    """A number as a pair; Python's is one of float64, split when the code is written."""
    if isinstance(x, Pair):
        return x
    if isinstance(x, Value):
        first = high_bits(x)
        return Pair(first, x - first)
    return constant_pair(x, 0.0, like)


def constant_pair(first: float, second: float, like: Value) -> Pair:
    """The sum of two Python numbers, as a pair."""
    high = float((np.float64(first).view(np.uint64) & np.uint64(_HIGH)).view(np.float64))
    return Pair(like.like(high), like.like((first - high) + second))
