"""Double-double arithmetic: numbers of about 75 bits as the sum of two float64.

The high part has at most 26 bits, so that products of two high parts are exact. It is cut off by a bit mask: then no
compiler can fuse the product that it is cut from with a later addition. Fused operations are rounded once instead of
twice, which breaks the computation of rounding errors.
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
        addend = as_pair(other, self.high)
        total, lost = two_sum(self.high, addend.high)
        return renormalized(total, lost + (self.low + addend.low))

    def __sub__(self, other: "Pair | Value | float") -> "Pair":
        return self + -as_pair(other, self.high)

    def __mul__(self, other: "Pair | Value | float") -> "Pair":  # type: ignore[override]
        factor = as_pair(other, self.high)
        return renormalized(self.high * factor.high, self.high * factor.low + self.low * factor.sum)

    def __truediv__(self, other: "Pair | Value | float") -> "Pair":
        by = as_pair(other, self.high)
        first = high_bits(self.sum / by.sum)
        remainder = (self.high - first * by.high) + (self.low - first * by.low)
        return renormalized(first, remainder / by.sum)

    def sqrt(self) -> "Pair":
        """The root of a positive number."""
        root = self.sum.sqrt()
        first = high_bits(root)
        remainder = (self.high - first * first) + self.low
        return renormalized(first, remainder / (first + root))


def high_bits(x: Value) -> Value:
    """The number with all but its 26 high bits set to 0."""
    return (x.bits_as(DType.UINT64) & _HIGH).bits_as(DType.FLOAT64)


def renormalized(high: Value, low: Value) -> Pair:
    """The sum of a number and a lesser one, as a pair."""
    first = high_bits(high + low)
    return Pair(first, (high - first) + low)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The sum of two numbers that are no products, and its rounding error."""
    total = a + b
    rounded = total - a
    return total, (a - (total - rounded)) + (b - rounded)


def as_pair(x: Pair | Value | float, like: Value) -> Pair:
    """A number as a pair; a Python number is a float64 that is split when the code is written."""
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
