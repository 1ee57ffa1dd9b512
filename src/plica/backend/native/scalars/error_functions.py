"""Error functions and the normal distribution; float32 is computed in float64.

Above 1, erfc(x) = e^(-x^2) c(x) / (1 + 2 x), where c lies between 1 and 1.3: one polynomial of (x - 3.75) / (x + 3.75)
for all x. The square in the exponent is a sum of two parts, the first of which is exact.
Sources: M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981; M. Giles,
Approximating the erfinv function, 2012, for the form of the inverse's start. Coefficients by Remez' exchange.
"""

import math

from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.exponentials import exp_pair
from plica.backend.native.scalars.logarithms import log, log1p
from plica.backend.native.scalars.pairs import Pair, high_bits
from plica.backend.native.scalars.trigonometric import in_double
from plica.backend.native.scalars.values import Value, entry, polynomial

_ERF = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954885,
    -0.026866170645077875,
    0.005223977624828431,
    -0.0008548326981425542,
    0.0001205533113295582,
    -1.4925595772180906e-05,
    1.64610084778027e-06,
    -1.6350396222864617e-07,
    1.466032872274226e-08,
    -1.137495573607015e-09,
    5.960685338520971e-11,
)
"""erf(x) / x - 1 in x^2, for x up to 1"""
_ERFCX = (
    1.2375126308378275,
    -0.14024059858554563,
    0.003585415485485867,
    0.08227673849002297,
    -0.10880393014272853,
    0.09230432116366188,
    -0.05869339857207678,
    0.028362277378392375,
    -0.009746579720878133,
    0.0017556261302815505,
    0.00029371455793183364,
    -0.0002901552360673504,
    5.1645994901693484e-05,
    2.2387322999571585e-05,
    -1.143702921090845e-05,
    -9.78943518006373e-07,
    1.740737939442735e-06,
    -5.1101420949870275e-08,
    -2.476293751793489e-07,
    1.8906330982024327e-08,
    3.157692535101029e-08,
    -1.9773812114336714e-09,
    -2.548985866190398e-09,
)
"""(1 + 2 x) e^(x^2) erfc(x) in (x - 3.75) / (x + 3.75), for x of at least 0"""


def minus_square(x: Value, factor: float = 1.0) -> Pair:
    """-x^2 times a power of two, of a float64 up to 2^500."""
    high = high_bits(x)
    low = x - high
    return Pair(high * high * -factor, (low * (x + high)) * -factor)


def erfcx(x: Value) -> Value:
    """e^(x^2) erfc(x), for x of at least 0."""
    near = (x > 1e300).where(x.like(1e300), x)
    return polynomial((near - 3.75) / (near + 3.75), _ERFCX) / (1.0 + 2.0 * x)


def _small_erf(x: Value) -> Value:
    # of the least numbers, x times the polynomial would be subnormal
    return (abs(x) < 1e-8).where(x * (1.0 + _ERF[0]), x + x * polynomial(x * x, _ERF))


def _far_erfc(magnitude: Value) -> Value:
    magnitude = (magnitude > 30.0).where(magnitude.like(30.0), magnitude)
    return exp_pair(minus_square(magnitude)) * erfcx(magnitude)


@in_double
def erf(x: Value) -> Value:
    """The share of a normal distribution of variance 1/2 within x, with the sign of x."""
    return (abs(x) < 1.0).where(_small_erf(x), (1.0 - _far_erfc(abs(x))).copysign(x))


@in_double
def erfc(x: Value) -> Value:
    """1 - erf(x), with a small relative error even if it is tiny."""
    far = _far_erfc(abs(x))
    far = (x < 0.0).where(2.0 - far, far)
    return ((x < 0.5) & (x > -1.0)).where(1.0 - _small_erf(x), far)


@in_double
def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution function."""
    magnitude = abs(x)
    scaled = erfcx(magnitude * math.sqrt(0.5))
    exponent = minus_square((magnitude < 40.0).where(magnitude, 40.0), 0.5)
    right = log1p(-0.5 * scaled * exp_pair(exponent))
    left = log(0.5 * scaled) - (0.5 * x) * x
    return (x < -1.0).where(left, (x < 0.0).where(log1p(-0.5 - 0.5 * _small_erf(magnitude * math.sqrt(0.5))), right))


_INVERSE_NEAR = (
    1.5014093518911498,
    0.24664029107640276,
    -0.004177325316791632,
    -0.001252752813245984,
    0.0002182633416120093,
    -4.956790698096306e-06,
    -3.425463558707913e-06,
    4.647167204726027e-07,
    1.6280413614169452e-08,
    -8.683859093521093e-09,
    4.5287314194033187e-10,
)
"""erfinv(p) / p in w - 2.5, for w = -log(1 - p^2) up to 5"""
_INVERSE_FAR = (
    3.8397829834308057,
    1.0095028079639323,
    0.0012712818755645436,
    -0.000916903932222854,
    0.00030085729475895614,
    -4.902349487678954e-05,
    6.004181043916125e-05,
    -7.203884123222824e-05,
    2.6007028817213525e-05,
    -7.692387388307673e-07,
    -7.397392779993087e-07,
)
"""erfinv(p) / p in root w - 4, for larger w"""


@in_double
def erfinv(p: Value) -> Value:
    """The x at which erf(x) is p: one step of Halley's method from the value of a polynomial."""
    magnitude = abs(p)
    complement = 1.0 - magnitude
    w = -log(complement * (1.0 + magnitude))
    w = (w > 40.0).where(p.like(40.0), w)
    start = (w < 5.0).where(polynomial(w - 2.5, _INVERSE_NEAR), polynomial(w.sqrt() - 4.0, _INVERSE_FAR)) * magnitude
    # the derivative of erf is 2 e^(-x^2) / root pi. The residual is by erf near 0, else by e^(x^2) erfc
    grown = exp_pair(-minus_square(start))
    lost = (magnitude < 0.75).where((_small_erf(start) - magnitude) * grown, complement * grown - erfcx(start))
    step = lost * (math.sqrt(math.pi) / 2)
    size_of_inverse = start - step / (1.0 + start * step)
    size_of_inverse = (magnitude == 1.0).where(
        p.like(math.inf), (magnitude > 1.0).where(p.like(math.nan), size_of_inverse)
    )
    return (magnitude < 1e-8).where(p * (math.sqrt(math.pi) / 2), size_of_inverse.copysign(p))


ERROR_FUNCTIONS: dict[str, ScalarRow] = {
    "erf": ScalarRow(entry(erf), (0.6, 1.0)),
    "erfc": ScalarRow(entry(erfc), (0.6, 4.0)),
    "erfinv": ScalarRow(entry(erfinv), (0.6, 2.0)),
    "log_ndtr": ScalarRow(entry(log_ndtr), (0.6, 5.0)),
}
