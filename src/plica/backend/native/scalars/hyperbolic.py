"""Hyperbolic functions and their inverses, roots of sums of squares, and powers.

Source: fdlibm's `s_asinh.c`, `e_atanh.c` (Sun Microsystems, 1993) for formulas without cancellation near 0.
"""

import math
from collections.abc import Callable

from plica.backend.native.scalars.arithmetic import power_of_integers
from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.exponentials import exp, exp_half, exp_pair, expm1
from plica.backend.native.scalars.logarithms import log, log1p, log_pair
from plica.backend.native.scalars.pairs import as_pair
from plica.backend.native.scalars.trigonometric import in_double
from plica.backend.native.scalars.values import Value, entry
from plica.ir.dtypes import DType


@in_double
def sinh(x: Value) -> Value:
    """(e^x - e^-x) / 2."""
    magnitude = abs(x)
    grown = expm1((magnitude < 1.0).where(magnitude, 1.0))
    half = exp_half(magnitude)
    near = 0.5 * (grown + grown / (grown + 1.0))
    return (magnitude < 1.0).where(near, half - 0.25 / half).copysign(x)


@in_double
def cosh(x: Value) -> Value:
    """(e^x + e^-x) / 2."""
    half = exp_half(abs(x))
    return half + 0.25 / half


@in_double
def asinh(x: Value) -> Value:
    """log(|x| + root(x^2 + 1)) with the sign of x."""
    magnitude = abs(x)
    far = magnitude > 2.0**28
    safe = far.where(x.like(1.0), magnitude)
    square = safe * safe
    value = log1p(far.where(magnitude - 1.0, safe + square / (1.0 + (1.0 + square).sqrt())))
    return (value + far.where(x.like(math.log(2)), 0.0)).copysign(x)


@in_double
def acosh(x: Value) -> Value:
    """log(x + root(x^2 - 1))."""
    far = x > 2.0**28
    t = far.where(x.like(1.0), x) - 1.0
    value = log1p(far.where(x - 1.0, t + (t * (t + 2.0)).sqrt())) + far.where(x.like(math.log(2)), 0.0)
    return (x < 1.0).where(x.like(math.nan), value)


@in_double
def atanh(x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2."""
    magnitude = abs(x)
    double, complement = magnitude + magnitude, 1.0 - magnitude
    near = double + double * magnitude / complement
    return (0.5 * log1p((magnitude < 0.5).where(near, double / complement))).copysign(x)


def hypot(x: Value, y: Value) -> Value:
    """The root of x^2 + y^2."""
    if x.dtype == DType.FLOAT32:
        root = in_double(lambda x, y: (x * x + y * y).sqrt())(x, y)
    else:
        larger, lesser = abs(x).maximum(abs(y)), abs(x).minimum(abs(y))
        big, small = larger > 2.0**500, larger < 2.0**-500
        scale = big.where(x.like(2.0**-600), small.where(x.like(2.0**600), 1.0))
        back = big.where(x.like(2.0**600), small.where(x.like(2.0**-600), 1.0))
        first, second = as_pair(larger * scale, x), as_pair(lesser * scale, x)
        total = first * first + second * second
        root = (total.sum == 0.0).where(larger, total.sqrt().sum * back)
    infinite = (abs(x) == math.inf) | (abs(y) == math.inf)
    return infinite.where(x.like(math.inf), root)


def pow_(x: Value, y: Value) -> Value:
    """x^y."""
    if x.dtype.kind == "int":
        return power_of_integers(x, y)
    if x.dtype == DType.FLOAT32:
        return in_double(lambda x, y: _with_signs(x, y, lambda magnitude: exp(y * log(magnitude))))(x, y)
    return _with_signs(x, y, lambda magnitude: _power_of_positive(magnitude, y))


def _power_of_positive(x: Value, y: Value) -> Value:
    logarithm = log_pair(x)
    about = logarithm.sum * y
    far = ~(abs(about) < 800.0)
    exponent = logarithm * far.where(y.like(0.0), y)
    return far.where((about > 0.0).where(x.like(math.inf), 0.0), exp_pair(exponent))


def _with_signs(x: Value, y: Value, of_positive: Callable[[Value], Value]) -> Value:
    """x^y for any x and y as IEEE 754 defines it, from `of_positive`, which raises positive finite numbers to y."""
    magnitude = abs(x)
    end = (magnitude == 0.0) | (magnitude == math.inf)
    power = of_positive(end.where(x.like(2.0), magnitude))
    power = end.where(((magnitude == 0.0) ^ (y > 0.0)).where(x.like(math.inf), 0.0), power)
    is_integer = y.trunc() == y
    half = y * 0.5
    odd = is_integer & (half.trunc() != half) & (abs(y) < math.inf)
    negative = x.bits_as(DType.INT64) < 0
    power = (negative & odd).where(-power, power)
    power = ((x < 0.0) & (magnitude < math.inf) & ~is_integer).where(x.like(math.nan), power)
    power = ((x != x) | (y != y)).where(x + y, power)
    # 1 to any power, any number to the power of 0, and -1 to the power of infinity are 1
    always = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (abs(y) == math.inf))
    return always.where(x.like(1.0), power)


HYPERBOLIC: dict[str, ScalarRow] = {
    "acosh": ScalarRow(entry(acosh), (0.6, 2.5)),
    "asinh": ScalarRow(entry(asinh), (0.6, 2.0)),
    "atanh": ScalarRow(entry(atanh), (0.6, 2.0)),
    "cosh": ScalarRow(entry(cosh), (0.6, 1.5)),
    "hypot": ScalarRow(entry(hypot), (0.6, 0.6)),
    "pow": ScalarRow(entry(pow_), (0.6, 1.0)),
    "sinh": ScalarRow(entry(sinh), (0.6, 2.0)),
}
