"""Exponentials, and functions of exponentials.

exp(x) = 2^n e^r with n the nearest integer to x / ln 2, and e^r = 1 + r + r^2 Q(r) with Q of least relative error on
|r| <= ln 2 / 2, by Remez' exchange. There are no tables and no branches, so that loops over entries are vectorized.
Source: P. T. P. Tang, Table-driven implementation of the exponential function, 1989 (the reduction).
"""

import math

from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.floats import format_of, nearest_integer, power, split_exponent, times_power
from plica.backend.native.scalars.pairs import Pair, constant_pair
from plica.backend.native.scalars.values import Value, entry, polynomial
from plica.ir.dtypes import DType

_Q = {
    DType.FLOAT32: (0.5, 0.166665181517601, 0.04166620597243309, 0.008368918672204018, 0.0013950448483228683),
    DType.FLOAT64: (
        0.5,
        0.16666666666666685,
        0.04166666666666673,
        0.008333333333316689,
        0.0013888888888858718,
        0.00019841269897188625,
        2.4801587373248505e-05,
        2.7557234102821934e-06,
        2.755723373396089e-07,
        2.5112287789158662e-08,
        2.0926840583544827e-09,
    ),
}
_SHORT_Q = {
    DType.FLOAT32: _Q[DType.FLOAT32],
    DType.FLOAT64: (
        0.5000000000000011,
        0.16666666666666413,
        0.041666666666530155,
        0.008333333333494465,
        0.0013888888943630175,
        0.00019841269506570182,
        2.480149309882612e-05,
        2.7557586381722696e-06,
        2.763024841161881e-07,
        2.500005903458657e-08,
    ),
}
"""Q with one term less for float64, for functions that may lose 0.04 units in the last place."""
LN2 = {
    DType.FLOAT32: (0.693359375, -2.12194440054690583e-4),
    DType.FLOAT64: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
"""Two parts whose sum is ln 2; the first has so few bits that its product with any exponent is exact."""
_RANGE = {DType.FLOAT32: (-104.0, 89.0), DType.FLOAT64: (-746.0, 710.0)}
"""The exponential of x is 0 for x below the first number, and infinite for x above the second."""


def between(x: Value, low: float, high: float) -> Value:
    """x, or the nearer bound; NaN stays NaN."""
    x = (x < low).where(x.like(low), x)
    return (x > high).where(x.like(high), x)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """The bits of n, and r in two parts."""
    high, low = LN2[x.dtype]
    n, bits = nearest_integer(x * (1 / math.log(2)))
    return bits, *_in_order(x - n * high, n * -low)


def _in_order(high: Value, low: Value) -> tuple[Value, Value]:
    """The sum of a number and a lesser one, and the sum's rounding error."""
    total = high + low
    return total, (high - total) + low


def _of_reduced(bits: Value, r: Value, low: Value) -> Value:
    """2^n e^(r + low)."""
    one = r.like(1.0)
    total = one + r
    lost = (one - total) + r  # |r| < 1
    return times_power(total + (lost + (low + r * r * polynomial(r, _Q[r.dtype]))), bits)


def exp(x: Value) -> Value:
    """e^x. The sum r + r^2 Q(r) is below 1/2, so that its rounding error is at most a quarter of a last place."""
    bits, r, low = _reduced(between(x, *_RANGE[x.dtype]))
    return times_power(1.0 + (r + (low + r * r * polynomial(r, _SHORT_Q[x.dtype]))), bits)


def exp_half(x: Value) -> Value:
    """e^x / 2, which overflows later than e^x."""
    bits, r, low = _reduced(between(x, _RANGE[x.dtype][0], _RANGE[x.dtype][1] + 1.0))
    return _of_reduced(bits - 1, r, low)


def exp_pair(x: Pair) -> Value:
    """e^x of a pair in float64, rounded nearly once."""
    high, low = LN2[DType.FLOAT64]
    far = between(x.high, -800.0, 800.0)
    n, bits = nearest_integer(far * (1 / math.log(2)))
    return _of_reduced(bits, *_in_order(far - n * high, x.low - n * low))


def exp2(x: Value) -> Value:
    """2^x."""
    if x.dtype == DType.FLOAT32:
        return exp2(x.astype(DType.FLOAT64)).astype(x.dtype)
    x = between(x, -1100.0, 1100.0)
    n, bits = nearest_integer(x)
    r = constant_pair(math.log(2), 2.3190468138462996e-17, x) * (x - n)
    return _of_reduced(bits, *_in_order(r.high, r.low))


def expm1(x: Value) -> Value:
    """e^x - 1 = 2^n ((e^r - 1) + (1 - 2^-n)); near 0 n is 0."""
    form = format_of(x)
    bits, r, low = _reduced(between(x, -50.0, _RANGE[x.dtype][1]))
    grown, lost = _in_order(r, low + r * r * polynomial(r, _Q[x.dtype]))
    first, second = split_exponent(bits, form)
    inverse = power(2 * form.bias - first, form) * power(2 * form.bias - second, form)
    difference = ((grown + (1.0 - inverse)) + lost) * power(first, form) * power(second, form)
    return (abs(x) < 1 / form.unit).where(x, difference)


def tanh(x: Value) -> Value:
    """(e^2x - 1) / (e^2x + 1), or 1 - 2 / (e^2x + 1) if |x| is at least 1/2."""
    magnitude = abs(x)
    grown = expm1(between(magnitude + magnitude, 0.0, 60.0))
    near = magnitude < 0.5
    ratio = near.where(grown, 2.0) / (grown + 2.0)
    return near.where(ratio, 1.0 - ratio).copysign(x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    small = exp(-abs(x))
    return (x < 0.0).where(small, 1.0) / (1.0 + small)


EXPONENTIALS: dict[str, ScalarRow] = {
    "exp": ScalarRow(entry(exp), (1.0, 1.0)),
    "exp2": ScalarRow(entry(exp2), (0.6, 1.0)),
    "expm1": ScalarRow(entry(expm1), (1.0, 1.0)),
    "sigmoid": ScalarRow(entry(sigmoid), (2.0, 2.0)),
    "tanh": ScalarRow(entry(tanh), (2.0, 2.0)),
}
