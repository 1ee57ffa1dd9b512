"""Sine, cosine, tangent and their inverses; float32 is computed in float64.

Polynomials have the least relative error, by Remez' exchange.
Source: fdlibm's `k_sin.c`, `k_cos.c`, `e_asin.c`, `e_atan2.c` (Sun Microsystems, 1993) for the order of the sums.
"""

import math
from collections.abc import Callable

from plica.backend.native.scalars.angles import reduced
from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.pairs import high_bits
from plica.backend.native.scalars.values import Value, entry, polynomial
from plica.ir.dtypes import DType

_SIN = (
    -0.16666666666666632,
    0.008333333333322382,
    -0.00019841269829778485,
    2.755731368048125e-06,
    -2.5050756154135236e-08,
    1.5896673511095442e-10,
)
"""(sin(r) - r) / r^3 in r^2"""
_COS = (
    0.0416666666666666,
    -0.001388888888887407,
    2.4801587289444285e-05,
    -2.7557314340444086e-07,
    2.0875721550273564e-09,
    -1.135955386606455e-11,
)
"""(cos(r) - 1 + r^2 / 2) / r^4 in r^2"""
_ATAN = (
    -0.333333333333332,
    0.1999999999995367,
    -0.1428571428020447,
    0.1111111078382858,
    -0.09090897767323686,
    0.07692060364303206,
    -0.06663105471611877,
    0.05847897455148503,
    -0.050393309876062276,
    0.038064957564945885,
    -0.017907346354674652,
)
"""(atan(t) - t) / t^3 in t^2, for t up to root 2 - 1"""
_ASIN = (
    0.16666666666665375,
    0.07500000000344804,
    0.04464285682196537,
    0.0303819593960038,
    0.022371751925322796,
    0.017359795817146594,
    0.013884348855338726,
    0.012174952170253715,
    0.006503479895415353,
    0.019594445152025443,
    -0.01632684498463644,
    0.031981786003039234,
)
"""(asin(y) - y) / y^3 in y^2, for y up to 1/2"""
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)  # the last three bits of the first are 0


def in_double(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of float64 that also takes other floats, which it converts."""

    def wide(*operands: Value) -> Value:
        dtype = operands[0].dtype
        return function(*(operand.astype(DType.FLOAT64) for operand in operands)).astype(dtype)

    return wide


def sin_and_cos(x: Value, low: Value) -> tuple[Value, Value]:
    """The sine and cosine of an angle x + low up to pi / 4, where low is the rounding error of x."""
    z = x * x
    half = z * 0.5
    sine = x + (z * x * polynomial(z, _SIN) + low * (1.0 - half))
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + (z * z * polynomial(z, _COS) - x * low))
    return sine, cosine


def _of_quadrant(bits: Value, sine: Value, cosine: Value) -> Value:
    """The sine of an angle in a quadrant, from the sine and cosine of the angle within the quadrant."""
    value = ((bits & 1) != 0).where(cosine, sine)
    return ((bits & 2) != 0).where(-value, value)


@in_double
def sin(x: Value) -> Value:
    """The sine of an angle in radians."""
    quadrant, r = reduced(x)
    return (abs(x) < 1e-8).where(x, _of_quadrant(quadrant, *sin_and_cos(*r)))


@in_double
def cos(x: Value) -> Value:
    """The cosine of an angle in radians."""
    quadrant, r = reduced(x)
    return _of_quadrant(quadrant + 1, *sin_and_cos(*r))


@in_double
def tan(x: Value) -> Value:
    """The tangent of an angle in radians."""
    quadrant, r = reduced(x)
    sine, cosine = sin_and_cos(*r)
    odd = (quadrant & 1) != 0
    return (abs(x) < 1e-8).where(x, odd.where(-cosine, sine) / odd.where(sine, cosine))


def _beyond_quarters(k: Value, t: Value, sign: Value | float) -> Value:
    """The angle k pi / 4 + sign * atan(t), for k in 0 to 4."""
    z = t * t
    return k * _QUARTER_PI[0] + sign * (t + (z * t * polynomial(z, _ATAN) + sign * k * _QUARTER_PI[1]))


@in_double
def atan(x: Value) -> Value:
    """The angle of a tangent, between -pi / 2 and pi / 2."""
    magnitude = abs(x)
    beyond, far = magnitude > math.sqrt(2) - 1, magnitude > math.sqrt(2) + 1
    above = far.where(x.like(-1.0), beyond.where(magnitude - 1.0, magnitude))
    below = far.where(magnitude, beyond.where(magnitude + 1.0, 1.0))
    k = far.where(x.like(2.0), beyond.where(x.like(1.0), 0.0))
    return _beyond_quarters(k, above / below, 1.0).copysign(x)


@in_double
def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), between -pi and pi."""
    height, width = abs(y), abs(x)
    steep = height > width
    larger, lesser = steep.where(height, width), steep.where(width, height)
    # scaled: sums neither overflow nor are subnormal. The point (inf, inf) is on the diagonal, (0, 0) on the axis
    scale = (larger > 2.0**900).where(x.like(2.0**-100), (larger < 2.0**-900).where(x.like(2.0**100), 1.0))
    both = lesser == math.inf
    larger, lesser = both.where(x.like(1.0), larger * scale), both.where(x.like(1.0), lesser * scale)
    beyond = lesser > larger * (math.sqrt(2) - 1)
    above = beyond.where(lesser - larger, lesser)
    below = beyond.where(lesser + larger, (larger == 0.0).where(x.like(1.0), larger))
    back = x.bits_as(DType.INT64) < 0
    # the angle is one of 0 + 1, 2 - 1, 4 - 1, 2 + 1 quarters of pi, and grows or falls with the ratio
    falls = steep ^ back
    sign = falls.where(x.like(-1.0), 1.0)
    start = steep.where(x.like(2.0), back.where(x.like(4.0), 0.0))
    k = start + beyond.where(sign, 0.0)
    angle = _beyond_quarters(k, above / below, sign)
    return ((x != x) | (y != y)).where(x + y, angle.copysign(y))


def _asin_small(y: Value) -> Value:
    """(asin(x) - x) / x, from y = x^2."""
    return y * polynomial(y, _ASIN)


def _half_angle(magnitude: Value) -> tuple[Value, Value]:
    """Two parts whose sum is asin(root((1 - magnitude) / 2)), for a magnitude in 1/2 to 1."""
    z = (1.0 - magnitude) * 0.5
    root = z.sqrt()
    high = high_bits(root)
    low = (root == 0.0).where(root, (z - high * high) / (root + high))
    return high, low + root * _asin_small(z)


@in_double
def asin(x: Value) -> Value:
    """The angle of a sine."""
    magnitude = abs(x)
    high, low = _half_angle(magnitude)
    far = _HALF_PI[0] - (2.0 * high - (_HALF_PI[1] - 2.0 * low))
    return (magnitude < 0.5).where(x + x * _asin_small(x * x), far.copysign(x))


@in_double
def acos(x: Value) -> Value:
    """The angle of a cosine."""
    high, low = _half_angle(abs(x))
    near = 2.0 * (high + low)
    far = 2.0 * (_HALF_PI[0] - (high + (low - _HALF_PI[1])))
    middle = _HALF_PI[0] - (x - (_HALF_PI[1] - x * _asin_small(x * x)))
    return (abs(x) < 0.5).where(middle, (x < 0.0).where(far, near))


TRIGONOMETRIC: dict[str, ScalarRow] = {
    "acos": ScalarRow(entry(acos), (0.6, 1.0)),
    "asin": ScalarRow(entry(asin), (0.6, 1.5)),
    "atan": ScalarRow(entry(atan), (0.6, 2.0)),
    "atan2": ScalarRow(entry(atan2), (0.6, 1.5)),
    "cos": ScalarRow(entry(cos), (0.6, 1.0)),
    "sin": ScalarRow(entry(sin), (0.6, 1.0)),
    "tan": ScalarRow(entry(tan), (0.6, 2.0)),
}
