"""Argument reduction of trigonometric functions: the quadrant of an angle of any size, and the angle within it.

Sources: W. J. Cody and W. Waite, Software manual for the elementary functions, 1980: subtract a multiple of pi / 2 in
parts whose products are exact. M. Payne and R. Hanek, Radian reduction for trigonometric functions, 1983: a huge
argument needs few bits of 2 / pi: not those whose products are multiples of 4, nor those whose products are too small.
"""

import math
from itertools import pairwise

from plica.backend.native.scalars.floats import nearest_integer
from plica.backend.native.scalars.pairs import Pair, constant_pair, renormalized, two_sum
from plica.backend.native.scalars.values import Value, Values, branches, lookup
from plica.ir.dtypes import DType

_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
"""Parts whose sum is pi / 2; the first three have 33 bits."""
_SMALL = 8e5
"""Angles below it have fewer than 2^19 quadrants, so that products with the parts are exact."""
_TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
"""The bits of 2 / pi after the point, 64 in each word, below 64 zeros."""
_LOW = 2**32 - 1


def reduced(x: Value) -> tuple[Value, Pair]:
    """(n, r) of a float64: x = n pi / 2 + r, |r| <= pi / 4. The last two bits of the unsigned integer n are n modulo 4.

    r is right to 53 bits and more, even if x is near a multiple of pi / 2; its high part is the nearest float64.
    """
    n, high, low = branches(abs(x) < _SMALL, lambda: _of_small(x), lambda: _of_large(x))
    return n, Pair(high, low)


def _of_small(x: Value) -> Values:
    n, bits = nearest_integer(x * (2 / math.pi))
    total, lost = two_sum(x - n * _HALF_PI[0], -(n * _HALF_PI[1]))
    total, later = two_sum(total, -(n * _HALF_PI[2]))
    lost = (lost + later) - n * _HALF_PI[3]
    high = total + lost
    return bits, high, (total - high) + lost


def _of_large(x: Value) -> Values:
    bits = abs(x).bits_as(DType.UINT64)
    exponent = bits >> 52
    infinite = exponent == 0x7FF
    safe = infinite.where(exponent.like(1075), exponent)
    significand = (bits & (2**52 - 1)) | (1 << 52)
    # x = significand 2^e, e = exponent - 1075; the window begins at the bits worth 2^(2 - e): bit e - 2, after 64 zeros
    start = safe - (1075 + 2 - 64)
    first, shift = start >> 6, start & 63
    words = [lookup(_TWO_OVER_PI, DType.UINT64, first + offset) for offset in range(4)]
    window = [_joined(*pair, shift) for pair in pairwise(words)]
    # the product modulo 4: two bits before the point, and 190 after it
    last = significand * window[2]
    carried = _high_product(significand, window[2])
    middle = significand * window[1] + carried
    top = (
        significand * window[0]
        + _high_product(significand, window[1])
        + (middle < carried).where(significand.like(1), 0)
    )
    quadrant = top >> 62
    high, low = _joined(top, middle, top.like(2)), _joined(middle, last, top.like(2))
    negative = (high >> 63) != 0  # the nearest integer is the next one
    quadrant = quadrant + negative.where(significand.like(1), 0)
    flipped = ~low + 1
    high = negative.where(~high + (flipped == 0).where(significand.like(1), 0), high)
    low = negative.where(flipped, low)
    parts = [
        (high >> 32).astype(DType.FLOAT64) * 2.0**-32,
        (high & _LOW).astype(DType.FLOAT64) * 2.0**-64,
        (low >> 11).astype(DType.FLOAT64) * 2.0**-117,
    ]
    total, lost = two_sum(parts[0], parts[1])
    total, later = two_sum(total, parts[2])
    r = renormalized(total, lost + later) * constant_pair(1.5707963267948966, 6.123233995736766e-17, x)
    r_high = r.sum
    r_low = (r.high - r_high) + r.low
    turned = negative ^ (x < 0.0)
    sign = turned.where(x.like(-1.0), 1.0)
    quadrant = (x < 0.0).where(-quadrant, quadrant)
    return quadrant, infinite.where(x - x, r_high * sign), r_low * sign


def _joined(first: Value, second: Value, shift: Value) -> Value:
    """64 bits of two words, from bit `shift` of the first on."""
    low_bits = (second >> 1) >> (63 - shift)
    return (first << shift) | low_bits


def _high_product(a: Value, b: Value) -> Value:
    """The upper 64 bits of a product of two unsigned words."""
    a_high, a_low, b_high, b_low = a >> 32, a & _LOW, b >> 32, b & _LOW
    across = a_high * b_low + (a_low * b_low >> 32)
    middle = a_low * b_high + (across & _LOW)
    return a_high * b_high + (across >> 32) + (middle >> 32)
