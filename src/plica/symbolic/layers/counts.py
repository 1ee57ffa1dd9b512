"""Functions of layers of counts: masses that stay precise for large counts, quantiles, probabilities of intervals.

Differences of logarithms of factorials lose all digits of large counts: log(1e9!) is 2e10, which float64 rounds by 4e-6
and float32 by 1000. So masses are sums of small terms (Loader, Fast and Accurate Computation of Binomial Probabilities,
2000): with D(x, m) = x log(x / m) + m - x, and e(x) the error of Stirling's formula,

    log Poisson(x; m)   = -e(x) - D(x, m) - log(2 pi x) / 2
    log Binomial(a of n) = e(n) - e(a) - e(b) - D(a, n p) - D(b, n q) + log(n / (2 pi a b)) / 2,  b = n - a, q = 1 - p

Each term is rounded relative to itself. Near the mean, where D is small, it comes from its series.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from plica.ir.dtypes import DType
from plica.symbolic.parameters import Array, Namespace
from plica.tracing.control import trace_while

# whole numbers, as floats -> the probability of a count that is at most, or at least, such a number
Tail: TypeAlias = Callable[[Array], Array]

LARGEST = 2.0**62  # a count that float32, float64 and int64 all hold
_NEAR = 0.1  # |x - m| / (x + m) up to which the series of D is taken
_RATIO_IS_FINITE = 0.9  # |x - m| / (x + m) up to which log(x / m) is computed from the ratio
_TERMS = 8  # of the series; the next term is _NEAR^16 of the first


def deviance(xp: Namespace, x: Array, log_x: Array, mean: Array, log_mean: Array) -> Array:
    """D(x, m) = x log(x / m) + m - x of numbers x above 0; infinite where the mean is 0, with a derivative of 0."""
    # v = (x - m) / (x + m): D = (x - m) v + 2 x (v^3/3 + v^5/5 + ...)
    difference = x - mean
    v = difference / (x + mean)
    square, odd = v * v, 1.0 / (2 * _TERMS + 1)
    for term in range(_TERMS - 1, 0, -1):
        odd = odd * square + 1.0 / (2 * term + 1)
    near = difference * v + 2.0 * x * v * square * odd
    # the ratio is rounded less than the difference of logarithms, but overflows where that does not
    is_ratio_finite = xp.less(xp.abs(v), _RATIO_IS_FINITE)
    log_ratio = xp.where(is_ratio_finite, xp.log(x / xp.where(is_ratio_finite, mean, x)), log_x - log_mean)
    return xp.where(xp.less(xp.abs(v), _NEAR), near, x * log_ratio - difference)


def log_poisson(xp: Namespace, x: Array, mean: Array, log_mean: Array) -> Array:
    """The logarithm of the mass of counts x, as floats, under Poisson distributions."""
    some = xp.maximum(x, 1.0)
    log_x = xp.log(some)
    mass = -xp.stirling_error(some) - deviance(xp, some, log_x, mean, log_mean) - 0.5 * (log_x + math.log(math.tau))
    return xp.where(xp.greater(x, 0.0), mass, -mean)


def log_binomial(
    xp: Namespace, numbers: Sequence[Array], shares: Sequence[Array], log_shares: Sequence[Array]
) -> Array:
    """The logarithm of the binomial mass of the numbers of two outcomes, both above 0; `shares` are probabilities.

    Numbers need not be whole. For a real number a of successes and b failures before the last success, a / (a + b)
    times this mass is the negative binomial mass.
    """
    total = numbers[0] + numbers[1]
    log_total = xp.log(total)
    log_mass = xp.stirling_error(total) + 0.5 * (log_total - math.log(math.tau))
    for number, share, log_share in zip(numbers, shares, log_shares, strict=True):
        log_number = xp.log(number)
        distance = deviance(xp, number, log_number, total * share, log_total + log_share)
        log_mass = log_mass - xp.stirling_error(number) - distance - 0.5 * log_number
    return log_mass


def quantile(xp: Namespace, below: Tail, uniforms: Array, mean: Array, deviation: Array, skewness: Array) -> Array:
    """The least count x with `P(X <= x) > u`, as an integer.

    The search starts from the quantile of Cornish and Fisher. Its steps double until they pass the count, then it
    bisects: it is as exact as `below`, for any start. Operands and results are float64 of one shape.
    """
    z = math.sqrt(2.0) * xp.erfinv(xp.clip(2.0 * uniforms - 1.0, -1.0 + 2.0**-53, 1.0 - 2.0**-53))
    start = mean + deviation * (z + skewness * (z * z - 1.0) / 6.0)
    start = xp.clip(xp.floor(xp.where(xp.isfinite(start), start, mean)), 0.0, LARGEST / 2)
    zeros = xp.zeros_like(start)

    def inside(x: Array, low: Array, high: Array) -> Array:
        return xp.logical_and(xp.greater(x, low), xp.less(x, high))

    def search(x: Array, step: Array, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
        # P(X <= low) <= u < P(X <= high)
        is_reached = xp.greater(below(x), uniforms)
        low, high = xp.where(is_reached, low, xp.maximum(low, x)), xp.where(is_reached, xp.minimum(high, x), high)
        neighbour, half = xp.where(is_reached, x - step, x + step), xp.ceil(0.5 * (low + high))
        return xp.where(inside(neighbour, low, high), neighbour, half), 2.0 * step, low, high

    def goes_on(x: Array, step: Array, low: Array, high: Array) -> Array:  # noqa: ARG001
        return xp.any(inside(x, low, high))

    *_, count_ = trace_while(goes_on, search, (start, zeros + 1.0, zeros - 1.0, zeros + LARGEST), shared=True)
    return as_count(xp, count_)


def whole_ends(xp: Namespace, low: Array, high: Array, dtype: DType) -> tuple[Array, Array, Array]:
    """The least and the largest count in `low <= x <= high`, and the mask of intervals without a count.

    The largest is infinite if `high` is. The ends of an interval without a count are finite, and at least 0.
    """
    first, last = xp.ceil(xp.maximum(xp.astype(low, dtype), 0.0)), xp.floor(xp.astype(high, dtype))
    empty = xp.logical_or(xp.less(last, first), xp.isinf(first))
    return xp.where(empty, 0.0, first), xp.where(empty, 0.0, last), empty


def log_between(
    xp: Namespace,
    ends: tuple[Array, Array, Array],
    below: Tail,
    above: Tail,
    log_mass: Callable[[Array], Array],
    mean: Array,
) -> Array:
    """The logarithm of the probability of a count between whole ends: a difference of the smaller tails.

    Args:
        xp: The namespace.
        ends: The result of `whole_ends`.
        below: P(X <= x), precise where it is small.
        above: P(X >= x) of x above 0, precise where it is small.
        log_mass: The logarithm of P(X = x), for equal ends: a difference of tails would lose digits.
        mean: The mean; tails are taken on its side.
    """
    first, last, empty = ends
    left = below(last) - xp.where(xp.greater(first, 0.0), below(xp.maximum(first - 1.0, 0.0)), 0.0)
    right = above(xp.maximum(first, 1.0)) - above(last + 1.0)
    share = xp.maximum(xp.where(xp.greater(first, mean), right, left), 0.0)
    log_probability = xp.where(xp.equal(first, last), log_mass(first), xp.safe_log(share))
    return xp.where(empty, -math.inf, log_probability)


def as_count(xp: Namespace, x: Array) -> Array:
    """A whole number as an integer; counts beyond 2^62, which extreme parameters give, become 2^62."""
    return xp.astype(xp.clip(x, 0.0, LARGEST), xp.int64)
