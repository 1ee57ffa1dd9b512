"""Modified Bessel functions of orders 0 and 1, times e^-|x|; float32 is computed in float64.

Up to 8 the power series, all of whose terms are positive; above, a polynomial in 1 / x times 1 / root x (by Remez'
exchange). Source: Abramowitz and Stegun 9.8.
"""

import math

from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.exponentials import exp
from plica.backend.native.scalars.trigonometric import in_double
from plica.backend.native.scalars.values import Value, entry, polynomial

_TERMS = 23  # 16^23 / 23!^2 is below the last place of the sum
_SERIES = tuple(1 / math.factorial(k) ** 2 for k in range(_TERMS))
_SERIES_ONE = tuple(0.5 / (math.factorial(k) * math.factorial(k + 1)) for k in range(_TERMS))
_FAR = (
    0.4021765094450081,
    0.003360551983667794,
    0.0001362160743896889,
    1.1143033797298036e-05,
    1.4838476731725295e-06,
    2.973596823031733e-07,
    8.872019380354605e-08,
    3.9328087853491876e-08,
    2.156763397802122e-08,
    7.538931262164488e-09,
    -6.85658651136231e-09,
    -1.3341644876348875e-08,
    -5.014842685044233e-09,
    7.368978072724497e-09,
    6.512845736968163e-09,
    -3.178736921440059e-09,
    -4.5144596903468304e-09,
    1.1410974965769514e-09,
    2.148312434801131e-09,
    -2.967818887500445e-10,
    -6.41654704067677e-10,
    3.950221677661429e-11,
    8.949996976862954e-11,
)
"""root(x) e^-x I0(x) in 16 / x - 1"""
_FAR_ONE = (
    0.38939845902587233,
    -0.009749577193235676,
    -0.0002192357638316095,
    -1.5038547206292098e-05,
    -1.8349102420608063e-06,
    -3.483854171391877e-07,
    -1.000108372596665e-07,
    -4.3131201251428395e-08,
    -2.3393633555999957e-08,
    -8.413530928882523e-09,
    6.846184941743815e-09,
    1.3973374548141509e-08,
    5.573649422653284e-09,
    -7.475994419979166e-09,
    -6.943219309204879e-09,
    3.1291598583065973e-09,
    4.7575457791578985e-09,
    -1.0940811962081794e-09,
    -2.254424648510688e-09,
    2.7924302166568705e-10,
    6.725584364630341e-10,
    -3.675117418451576e-11,
    -9.383041861458846e-11,
)
"""root(x) e^-x I1(x) in 16 / x - 1"""


def _near_or_far(magnitude: Value, near: Value, far: tuple[float, ...]) -> Value:
    """The function of |x|: its series `near` up to 8, and the polynomial `far` beyond."""
    beyond = (magnitude > 8.0).where(magnitude, 8.0)
    far_value = polynomial(16.0 / beyond - 1.0, far) / beyond.sqrt()
    return (magnitude > 8.0).where(far_value, near * exp(-magnitude))


@in_double
def i0e(x: Value) -> Value:
    """e^-|x| I0(x)."""
    magnitude = abs(x)
    return _near_or_far(magnitude, polynomial(magnitude * magnitude * 0.25, _SERIES), _FAR)


@in_double
def i1e(x: Value) -> Value:
    """e^-|x| I1(x)."""
    magnitude = abs(x)
    return _near_or_far(
        magnitude, magnitude * polynomial(magnitude * magnitude * 0.25, _SERIES_ONE), _FAR_ONE
    ).copysign(x)


BESSEL: dict[str, ScalarRow] = {
    "i0e": ScalarRow(entry(i0e), (0.6, 3.0)),
    "i1e": ScalarRow(entry(i1e), (0.6, 3.0)),
}
