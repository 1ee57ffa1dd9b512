"""Functions of densities of one variable: defaults of positive parameters, standard scores, tails.

A tail is computed as the logarithm of a distribution function, so that a probability of 1e-300 keeps its digits.
"""

import math
from collections.abc import Callable

from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    Namespace,
    Parameter,
    Shape,
    SoftplusParameter,
    SumParameter,
    normal,
)

MIN_STDDEV = 1e-5  # default spreads are at least this, far from where their squares leave float32
LEAST_SPREAD = 0.01  # of a density fitted to a column, in units of its spread: keeps likelihoods finite
LEAST = 2.0**-126  # replaces a 0 at which a density is infinite, in every dtype: the smallest normal number of float32
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def positive_normal(shape: Shape) -> Parameter:
    """softplus(normal draws) + MIN_STDDEV: never zero, unbounded above, and with a gradient everywhere."""
    spread = Parameter.from_unary(SoftplusParameter(shape), normal(shape))
    return Parameter.from_binary(SumParameter(shape, shape), spread, ConstantParameter(*shape, value=MIN_STDDEV))


def finite(xp: Namespace, x: Array) -> Array:
    """`x` with infinities replaced by the largest numbers, so that differences are no NaN."""
    largest = float(xp.finfo(x.dtype).max)
    return xp.clip(x, -largest, largest)


def standardized(xp: Namespace, x: Array, loc: Array, log_scale: Array, most: float = 0.25) -> Array:
    """(x - loc) / scale, clipped at a share of the largest number; with derivatives of 0 beyond."""
    info = xp.finfo(loc.dtype)
    largest = float(info.max)
    bound = math.log(largest) - 0.5
    precision = xp.exp(xp.clip(-log_scale, -bound, bound))
    standard = finite(xp, finite(xp, xp.astype(x, loc.dtype)) - loc) * precision
    return xp.clip(standard, -most * largest, most * largest)


def symmetric_share(xp: Namespace, log_left: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The logarithm of the mass between two finite numbers of a density that is symmetric around 0.

    Args:
        xp: An array namespace.
        log_left: The logarithm of its distribution function.
        low: The lower end.
        high: The upper one; where it is below `low`, the result is -inf.
    """
    right = xp.greater(low + high, 0.0)  # there, the tails from the other side are the small ones
    larger, smaller = xp.where(right, -low, high), xp.where(right, -high, low)
    return log_difference(xp, log_left(larger), log_left(smaller))


def log_difference(xp: Namespace, larger: Array, smaller: Array) -> Array:
    """log(exp(larger) - exp(smaller)) of finite numbers; -inf, with derivatives of 0, if the first is not larger."""
    gap = smaller - larger
    some = xp.less(gap, 0.0)
    return xp.where(some, larger + xp.log(-xp.expm1(xp.where(some, gap, -1.0))), float("-inf"))


def gamma_deviance(xp: Namespace, a: Array, log_ratio: Array, away: Array) -> Array:
    """The deviance a log(x / a) - (x - a) for x = a + away, where `log_ratio` is log(x / a).

    Nothing cancels where x is near a, in value or in derivatives. Densities with gamma functions sum this and
    `stirling_error`: differences of log-gamma functions would lose all digits at large numbers.
    """
    near = xp.less(xp.abs(away), 0.5 * a)
    ratio = xp.where(near, away, 0.0) / a
    return xp.where(near, a * (xp.log1p(ratio) - ratio), a * log_ratio - away)


def exp_or_infinity(xp: Namespace, x: Array) -> Array:
    """exp(x), infinite where it overflows, with derivatives of 0 instead of NaN."""
    over = xp.greater(x, math.log(float(xp.finfo(x.dtype).max)))
    return xp.where(over, float("inf"), xp.exp(xp.where(over, 0.0, x)))


def positive_exp(xp: Namespace, log_x: Array) -> Array:
    """The exponential, as a positive number of the dtype."""
    info = xp.finfo(log_x.dtype)
    return xp.exp(xp.clip(log_x, math.log(info.smallest_normal) + 0.1, math.log(info.max) - 0.1))


def inside(xp: Namespace, uniforms: Array) -> Array:
    """Uniform numbers of [0, 1), with 0 and 1 (by rounding) moved to the next number inside."""
    step = 0.5 * float(xp.finfo(uniforms.dtype).eps)
    return xp.clip(uniforms, 0.5 * step, 1.0 - step)
