"""The logarithm of the gamma function, its derivative, and the error of Stirling's formula; in float64.

From 10 on by Stirling's series; below, recurrences lead to the interval of one polynomial (by Remez' exchange).
Negative numbers are reflected. Source: NIST Digital Library of Mathematical Functions, 5.5 and 5.11.
"""

import math

from plica.backend.native.scalars import logarithms
from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.pairs import as_pair, constant_pair
from plica.backend.native.scalars.trigonometric import in_double, sin_and_cos
from plica.backend.native.scalars.values import Value, branch, entry, loop, polynomial, shared

log, log1p = shared(logarithms.log), shared(logarithms.log1p)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
"""Stirling's series, in odd powers of 1 / x"""
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""log(x) - 1 / (2 x) - digamma(x), in even powers of 1 / x from the second on"""
_LARGE = 10.0
_LGAMMA = (
    0.42278433509846713,
    0.32246703342411326,
    -0.0673523010531956,
    0.02058080842777722,
    -0.007385551028938017,
    0.002890510331211275,
    -0.0011927539009192404,
    0.0005096695109613885,
    -0.00022315497870579022,
    9.945773289241847e-05,
    -4.4923716953158825e-05,
    2.0505141973039717e-05,
    -9.456338705756119e-06,
    4.386637641782297e-06,
    -1.974187067415394e-06,
    9.156338978568303e-07,
    -5.81251474135386e-07,
    2.828998333750132e-07,
)
"""lgamma(2 + e) / e, for |e| up to 1/2"""
_ROOT = (1.4616321449683622, 9.549995429965697e-17)
"""The positive number at which digamma is 0, as the sum of two parts."""
_DIGAMMA = (
    0.951055876031833,
    -0.4236274212814572,
    0.2405424842407624,
    -0.14840492305487935,
    0.09498872445649748,
    -0.0619221331892252,
    0.04076083373275914,
    -0.026975800077508882,
    0.01790725451028415,
    -0.011908145674330954,
    0.007926913725823301,
    -0.005280911644806524,
    0.003519287475118726,
    -0.0023374996922073616,
    0.001555050396952625,
    -0.0010778805946439754,
    0.0007287030907129481,
    -0.00035437415845826796,
    0.00021711284645693643,
    -0.0003787194150674808,
    0.00026778110057991834,
)
"""digamma(1.5 + u) / (1.5 + u - root), for |u| up to 1/2"""
_ATANH = (
    0.3333333333333333,
    0.20000000000000007,
    0.14285714285712328,
    0.11111111111370024,
    0.09090909072953009,
    0.07692308444117674,
    0.06666646049758025,
    0.0588274243139852,
    0.05257926729790663,
    0.04812759035752544,
    0.03987581431426495,
    0.058511012488870806,
    -0.030695817528317768,
    0.20404493216285835,
    -0.2350949749365643,
    0.24676736421500303,
)
"""(atanh(s) / s - 1) / s^2 in s^2, for s up to 1/2"""


def _sin_pi(x: Value) -> tuple[Value, Value]:
    """The sine and the cosine of pi x, for x in -1/2 to 1/2."""
    magnitude = abs(x)
    steep = magnitude > 0.25
    angle = as_pair(steep.where(0.5 - magnitude, magnitude), x) * constant_pair(math.pi, 1.2246467991473532e-16, x)
    high = angle.sum
    sine, cosine = sin_and_cos(high, (angle.high - high) + angle.low)
    return steep.where(cosine, sine).copysign(x), steep.where(sine, cosine)


def _series(x: Value) -> Value:
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _SERIES)


def lgamma_of_positive(x: Value) -> Value:
    """`lgamma` of a positive float64."""

    def large() -> Value:
        return (x - 0.5) * (log(x) - 1.0) + ((HALF_LOG_TWO_PI - 0.5) + _series(x))

    def small() -> Value:
        y, product = loop((x, x.like(1.0)), lambda y, _: y >= 2.5, lambda y, product: (y - 1.0, product * (y - 1.0)))
        low, lowest = y < 1.5, y < 0.5
        e = lowest.where(y, low.where(y - 1.0, y - 2.0))
        value = e * polynomial(e, _LGAMMA)
        value = value - low.where(log1p(e), 0.0)
        log_product = log(lowest.where(y, product))
        return value + lowest.where(-log_product, log_product)

    return branch(x >= _LARGE, large, small)


@in_double
def lgamma(x: Value) -> Value:
    """The logarithm of the absolute value of the gamma function."""

    def reflected() -> Value:
        magnitude = abs(x)
        sine, _ = _sin_pi(magnitude - magnitude.round_even())
        value = log(math.pi / (magnitude * abs(sine))) - lgamma_of_positive(magnitude)
        value = (magnitude < 1e-20).where(-log(magnitude), value)
        return (magnitude.trunc() == magnitude).where(x.like(math.inf), value)

    return branch(x > 0.0, lambda: lgamma_of_positive(x), reflected)


def _digamma_of_positive(x: Value) -> Value:
    def large() -> Value:
        inverse = 1.0 / x
        square = inverse * inverse
        return (log(x) - 0.5 * inverse) - square * polynomial(square, _DIGAMMA_SERIES)

    def small() -> Value:
        low = x < 1.0
        start = (low.where(x + 1.0, x), low.where(-1.0 / x, 0.0))
        y, total = loop(start, lambda y, _: y > 2.0, lambda y, total: (y - 1.0, total + 1.0 / (y - 1.0)))
        # below 1 the sum y = x + 1 is rounded; where digamma is nearly 0, this would be a large relative error
        beyond = low.where(x - (_ROOT[0] - 1.0), y - _ROOT[0]) - _ROOT[1]
        return beyond * polynomial(y - 1.5, _DIGAMMA) + total

    return branch(x >= _LARGE, large, small)


@in_double
def digamma(x: Value) -> Value:
    """The derivative of lgamma."""

    def reflected() -> Value:
        sine, cosine = _sin_pi(x - x.round_even())
        value = _digamma_of_positive(1.0 - x) - math.pi * cosine / sine
        value = (x.trunc() == x).where(x.like(math.nan), value)
        return (x == 0.0).where(x.like(-math.inf).copysign(-x), value)

    return branch(x > 0.0, lambda: _digamma_of_positive(x), reflected)


def stirling_error_of_positive(x: Value) -> Value:
    """`stirling_error` of a positive float64.

    Sums (y + 1/2) log(1 + 1 / y) - 1 for y = x, x + 1, ... until the series is accurate. All terms are positive.
    """

    def between(y: Value) -> Value:
        s = 1.0 / (2.0 * y + 1.0)
        square = s * s
        near = square * polynomial(square, _ATANH)
        return (y < 0.5).where((y + 0.5) * (log1p(y) - log(y)) - 1.0, near)

    y, total = loop((x, x.like(0.0)), lambda y, _: y < _LARGE, lambda y, total: (y + 1.0, total + between(y)))
    return total + _series(y)


@in_double
def stirling_error(x: Value) -> Value:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x > 0."""
    outside = (x == 0.0).where(x.like(math.inf), (x > 0.0).where(x.like(0.0), math.nan))
    inside = (x > 0.0) & (x < math.inf)
    return branch(inside, lambda: stirling_error_of_positive(x), lambda: outside)


_RELATIVE_TO = "the result; of negative numbers, the sum of the sizes of two terms"

GAMMAS: dict[str, ScalarRow] = {
    "digamma": ScalarRow(entry(digamma), (0.6, 5.0), relative_to=_RELATIVE_TO),
    "lgamma": ScalarRow(entry(lgamma), (0.6, 6.0), relative_to=_RELATIVE_TO),
    "stirling_error": ScalarRow(entry(stirling_error), (0.6, 10.0)),
}
