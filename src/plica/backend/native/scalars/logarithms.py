"""Logarithms, and functions of logarithms.

log x = k ln 2 + log m with x = 2^k m and m near 1. There are no tables and no branches, so that loops over entries are
vectorized. Source: fdlibm's `e_log.c`, `s_log1p.c` (Sun Microsystems, 1993) for the order of sums, in which no digits
are lost. The polynomials have the least relative error, by Remez' exchange.
"""

import math
from collections.abc import Callable
from functools import reduce

from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.exponentials import LN2, exp
from plica.backend.native.scalars.floats import exponent_and_fraction, format_of, is_zero
from plica.backend.native.scalars.pairs import Pair, as_pair, constant_pair
from plica.backend.native.scalars.values import Value, entry, polynomial
from plica.ir.dtypes import DType

_LOG32 = (
    0.3333331048488617,
    -0.24999986588954926,
    0.20002226531505585,
    -0.16669251024723053,
    0.14218670129776,
    -0.12384340167045593,
    0.11872892081737518,
    -0.11789828538894653,
    0.06915565580129623,
)
"""(log(1 + f) - f + f^2 / 2) / f^3"""
_LOG64 = (
    0.6666666666666735,
    0.3999999999941115,
    0.2857142874325195,
    0.22222198476849478,
    0.18183569706344407,
    0.15313903840729298,
    0.14797504072925358,
)
"""(2 atanh(s) - 2 s) / s^3 in s^2"""
_LOG64_LATER = (
    0.4000000000000035,
    0.2857142857088366,
    0.22222222396160865,
    0.1818179412514503,
    0.15386346765612574,
    0.13265639840298898,
    0.13120163040549204,
)
"""(2 atanh(s) - 2 s - 2 s^3 / 3) / s^5 in s^2"""


def _near_one(k: Value, f: Value, low: Value) -> Value:
    """The sum k ln 2 + log(1 + f) + low, for 1 + f in [1/root 2, root 2) and low very small."""
    ln2, ln2_low = LN2[f.dtype]
    half = f * f * 0.5
    low = low + k * ln2_low
    if f.dtype == DType.FLOAT32:
        small = low + f * f * f * polynomial(f, _LOG32)
        return k * ln2 + (f - (half - small))
    s = f / (f + 2.0)
    z = s * s
    small = low + s * (half + z * polynomial(z, _LOG64))
    return k * ln2 + (f - (half - small))


def _outside(x: Value, logarithm: Value) -> Value:
    """The logarithm of x: `logarithm`, except for 0, infinity, NaN and numbers below 0."""
    form = format_of(x)
    bits = x.bits_as(form.words)
    beyond = (bits == form.infinity).where(x.like(math.inf), math.nan)
    beyond = is_zero(x).where(x.like(-math.inf), beyond)
    return (bits - 1 >= form.infinity - 1).where(beyond, logarithm)


def log(x: Value) -> Value:
    """The natural logarithm."""
    k, m = exponent_and_fraction(x)
    return _outside(x, _near_one(k, m - 1.0, x.like(0.0)))


def log1p(x: Value) -> Value:
    """log(1 + x): the rounding error of 1 + x is added, relative to the sum."""
    total = x + 1.0
    lost = (x < 1.0).where(x - (total - 1.0), 1.0 - (total - x))
    k, m = exponent_and_fraction(total)
    near = k == 0.0
    logarithm = _near_one(k, near.where(x, m - 1.0), near.where(x.like(0.0), lost / total))
    # near 0 the logarithm rounds to x itself, except for -0
    return (abs(x) < 1 / format_of(x).unit).where(x, _outside(total, logarithm))


def log_pair(x: Value) -> Pair:
    """The natural logarithm of a positive finite float64 as a pair."""
    k, m = exponent_and_fraction(x)
    return near_one_pair(m) + constant_pair(*_LN2_PAIR, k) * k


_LN2_PAIR = (math.log(2), 2.3190468138462996e-17)


def near_one_pair(m: Value) -> Pair:
    """The logarithm of m in [1/root 2, root 2) as a pair: 2 s + 2 s^3 / 3 + s^5 R(s^2), s = (m - 1) / (m + 1)."""
    f = m - 1.0
    s = as_pair(f, f) / (as_pair(f, f) + 2.0)
    square = s * s
    third = constant_pair(2 / 3, 3.700743415417188e-17, f)
    z = square.sum
    tail = z * z * s.sum * polynomial(z, _LOG64_LATER)
    return s + s + (square * s * third + tail)


def _of_base(high: float, low: float, of_two: tuple[float, float]) -> Callable[[Value], Value]:
    """The logarithm to a base, from 1 / ln base and log_base 2, each as the sum of two numbers."""

    def of_base(x: Value) -> Value:
        if x.dtype == DType.FLOAT32:
            return of_base(x.astype(DType.FLOAT64)).astype(x.dtype)
        k, m = exponent_and_fraction(x)
        logarithm = near_one_pair(m) * constant_pair(high, low, x) + constant_pair(*of_two, x) * k
        return _outside(x, logarithm.sum)

    return of_base


log2 = _of_base(1.4426950408889634, 2.0355273740931033e-17, (1.0, 0.0))
log10 = _of_base(0.4342944819032518, 1.098319650216765e-17, (0.3010299956639812, -2.8037281277851704e-18))


def softplus(x: Value) -> Value:
    """log(1 + e^x)."""
    return (x < 0.0).where(x.like(0.0), x) + log1p(exp(-abs(x)))


def logaddexp(*terms: Value) -> Value:
    """log(e^x + e^y + ...), two at a time."""

    def two(x: Value, y: Value) -> Value:
        larger = (x < y).where(y, x)
        distance = (x == y).where(x.like(0.0), x - y)  # of infinities too
        total = larger + log1p(exp(-abs(distance)))
        return (total != total).where(x + y, total)

    return reduce(two, terms)


LOGARITHMS: dict[str, ScalarRow] = {
    "log": ScalarRow(entry(log), (1.0, 1.0)),
    "log1p": ScalarRow(entry(log1p), (1.0, 1.0)),
    "log2": ScalarRow(entry(log2), (0.6, 0.6)),
    "log10": ScalarRow(entry(log10), (0.6, 0.6)),
    "logaddexp": ScalarRow(
        entry(logaddexp), (3.0, 3.0), relative_to="the larger size: of the result, or of the largest operand"
    ),
    "safe_log": ScalarRow(entry(log), (1.0, 1.0)),
    "softplus": ScalarRow(entry(softplus), (2.0, 2.0)),
}
