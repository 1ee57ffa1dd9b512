"""Regularized incomplete gamma and beta functions and their inverses; in float64.

An incomplete integral is the density at its end, times the integral of the density relative to that at the end:

    P(a, x) = x^a e^-x / Gamma(a) * (integral over v > 0 of exp(-drop(v))),  drop(v) = a v + x (e^-v - 1)

`drop` is convex and 0 at 0. Gauss-Legendre quadrature where it is below 45 is exact to rounding, for all parameters and
in both tails; the torch backend has the same algorithm. The relative error is that of the density: some 1e-15 times the
root of the largest parameter.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from plica.backend.native.scalars import exponentials, gammas, logarithms
from plica.backend.native.scalars.builder import ScalarRow
from plica.backend.native.scalars.gammas import HALF_LOG_TWO_PI
from plica.backend.native.scalars.trigonometric import in_double
from plica.backend.native.scalars.values import Value, branch, entry, lookup, loop, shared
from plica.ir.dtypes import DType
from plica.ops.quadrature import LEGENDRE_40

_MAX_DROP = 45.0  # exp(-45) is smaller than the last place of 1.0 in float64
_RAISES = 2  # how often the recurrence raises `a` by 1: the tails of a small `a` are too long for the nodes
_STEPS = 8  # steps of Halley's method (third order), from starts with a few right digits
_LIMIT = 690.0  # the largest logarithm of a solution
_TINY = 1e-300
_PLACES, _WEIGHTS = zip(*LEGENDRE_40, strict=True)

exp, expm1, sigmoid = shared(exponentials.exp), shared(exponentials.expm1), shared(exponentials.sigmoid)
log, log1p, logaddexp = shared(logarithms.log), shared(logarithms.log1p), shared(logarithms.logaddexp)
lgamma_of_positive = shared(gammas.lgamma_of_positive)
stirling_error_of_positive = shared(gammas.stirling_error_of_positive)


class _Tail(NamedTuple):
    """The smaller of the two tails, or one about as small: exp(log_density) * share."""

    left: Value  # whether it is the left tail
    log_density: Value  # of log(x), or of logit(x)
    share: Value
    slope: Value  # the derivative of log_density

    def value(self, left: bool) -> Value:
        """The left tail or the right one."""
        tail = exp(self.log_density) * self.share
        is_this_tail = self.left if left else ~self.left
        return is_this_tail.where(tail, 1.0 - tail)


def _repeated(times: int, start: Value, step: Callable[[Value], Value]) -> Value:
    counter = Value(start.code, start.code.constant(0, DType.INT32))
    return loop((counter, start), lambda k, _: k < times, lambda k, value: (k + 1, step(value)))[1]


def _integral(drop: Callable[[Value], Value], reach: Value) -> Value:
    """The integral of exp(-drop(v)) for v from 0 to `reach`."""
    counter = Value(reach.code, reach.code.constant(0, DType.INT32))

    def step(k: Value, total: Value) -> tuple[Value, Value]:
        term = exp(-drop(reach * lookup(_PLACES, DType.FLOAT64, k)))
        return k + 1, total + term * lookup(_WEIGHTS, DType.FLOAT64, k)

    return loop((counter, reach.like(0.0)), lambda k, _: k < len(_PLACES), step)[1] * reach


def _deviance(a: Value, log_ratio: Value, away: Value) -> Value:
    """The value a log(x / a) - (x - a) for x = a + away, with little cancellation if x is near a."""
    near = abs(away) < 0.5 * a
    ratio = near.where(away, 0.0) / a
    return near.where(a * (log1p(ratio) - ratio), a * log_ratio - away)


# Tails


def _gamma_tail(a: Value, x: Value) -> _Tail:
    """The left tail of x below the larger one of a and 1, the right one above."""
    left = x < a.maximum(1.0)
    raised, sign = left.where(a + _RAISES, a), left.where(a.like(1.0), -1.0)
    integral = _integral(lambda v: sign * raised * v + x * expm1(-sign * v), _gamma_reach(raised, x, left))
    below = integral  # S(a) = (1 + x S(a + 1)) / a on the left
    for step in reversed(range(_RAISES)):
        below = (1.0 + left.where(x, 0.0) * below) / (a + step)
    log_density = _deviance(a, log(x) - log(a), x - a) + 0.5 * log(a)
    log_density = log_density - HALF_LOG_TWO_PI - stirling_error_of_positive(a)
    return _Tail(left, log_density, left.where(below, integral), a - x)


def _gamma_reach(a: Value, x: Value, left: Value) -> Value:
    """A v at which `drop` is `_MAX_DROP`, or a little more."""
    x = x.maximum(_TINY)
    square = (2 * _MAX_DROP / x).sqrt()  # from the right, drop is at least x v^2 / 2
    right = _repeated(5, square, lambda right: log1p((_MAX_DROP + a * right) / x))

    def newton(reach: Value) -> Value:  # convex, and the start is above the root
        lost = expm1(-reach)
        return reach - (a * reach + x * lost - _MAX_DROP) / (a - x * (1.0 + lost)).maximum(_TINY)

    reach = _repeated(6, _least_reach((_MAX_DROP + x) / a, square), newton)
    return left.where(reach, right.minimum(square))


def _least_reach(line: Value, square: Value) -> Value:
    """The smaller of two bounds on the reach: one from the asymptote, and one from a parabola, which holds up to 1."""
    square = square * math.sqrt(math.e)
    return (square < 1.0).where(line.minimum(square), line)


def _beta_tail(a: Value, b: Value, x: Value, y: Value) -> _Tail:
    """The left tail of x below a / (a + b), the right one above, which is the left one of y = 1 - x."""
    left = x * b <= y * a
    slope = a - (a + b) * x
    first, second = left.where(a, b), left.where(b, a)
    near, far = left.where(x, y), left.where(y, x)
    raised, total = first + _RAISES, first + second
    reach = _beta_reach(raised, second, near, far)
    share = _integral(lambda v: _beta_drop(raised, second, near, far, v), reach)
    for step in reversed(range(_RAISES)):  # S(a) = (1 + x (a + b) S(a + 1)) / a
        share = (1.0 + near * (total + step) * share) / (first + step)
    # a number near 1 has few digits of its distance to 1: the rest is computed from the lesser of x and y
    low = near < 0.5
    away = low.where(near - first / total, second / total - far)
    log_near, log_far = _both_logs(low, near, far)
    log_first, log_second = _both_logs(first < second, first / total, second / total)
    log_density = _deviance(first, log_near - log_first, total * away)
    log_density = log_density + _deviance(second, log_far - log_second, -total * away)
    log_density = log_density + 0.5 * (log(first) + log(second) - log(total)) - HALF_LOG_TWO_PI
    errors = [stirling_error_of_positive(parameter) for parameter in (total, first, second)]
    return _Tail(left, log_density + errors[0] - errors[1] - errors[2], share, slope)


def _both_logs(low: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """The logarithms of x and of y = 1 - x, computed from the lesser one: x where `low`, else y."""
    lesser = low.where(x, y)
    of_lesser, of_larger = log(lesser), log1p(-lesser)
    return low.where(of_lesser, of_larger), low.where(of_larger, of_lesser)


def _beta_drop(a: Value, b: Value, x: Value, y: Value, v: Value) -> Value:
    """The value a v + (a + b) log(1 + x (e^-v - 1)), which is (a + b) log(1 + y (e^v - 1)) - b v."""
    low, total = x < 0.5, a + b
    v = low.where(v, v.minimum(_LIMIT))
    grown = log1p(low.where(x, y) * expm1(low.where(-v, v)))
    return low.where(a * v, -b * v) + total * grown


def _beta_reach(a: Value, b: Value, x: Value, y: Value) -> Value:
    """A v at which `drop` is `_MAX_DROP`, or a little more."""
    total = a + b
    square = (2 * _MAX_DROP / (total * x * y).maximum(_TINY)).sqrt()
    start = _least_reach((_MAX_DROP - total * log(y)) / a, square)
    # if x is near 1, drop grows like an exponential, and Newton's steps from far away are of length 1
    right = _repeated(5, start, lambda right: log1p(expm1(((_MAX_DROP + b * right) / total).minimum(_LIMIT)) / y))

    def newton(reach: Value) -> Value:
        complement = y / (y + x * exp(-reach))  # 1 - t, t = x e^-v / (y + x e^-v)
        slope = (complement < 0.5).where(total * complement - b, a - total * (1.0 - complement))
        return reach - (_beta_drop(a, b, x, y, reach) - _MAX_DROP) / slope.maximum(_TINY)

    return _repeated(6, (x < 0.5).where(start, right.minimum(start)), newton)


# Functions


def _incomplete_gamma(a: Value, x: Value, left: bool) -> Value:
    inside = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    full, empty = (1.0, 0.0) if left else (0.0, 1.0)
    known = (a >= 0.0) & (x >= 0.0) & ((a > 0.0) | (x > 0.0)) & ((a < math.inf) | (x < math.inf))
    at_full = ((a == 0.0) | (x == math.inf)).where(a.like(full), math.nan)
    ends = known.where(((x == 0.0) | (a == math.inf)).where(a.like(empty), at_full), math.nan)
    return branch(inside, lambda: _gamma_tail(a, x).value(left), lambda: ends)


@in_double
def gammainc(a: Value, x: Value) -> Value:
    """The regularized lower incomplete gamma function P(a, x)."""
    return _incomplete_gamma(a, x, left=True)


@in_double
def gammaincc(a: Value, x: Value) -> Value:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), with a small relative error."""
    return _incomplete_gamma(a, x, left=False)


def _incomplete_beta(a: Value, b: Value, x: Value, left: bool) -> Value:
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a < math.inf) & (b < math.inf)
    full, empty = (1.0, 0.0) if left else (0.0, 1.0)
    known = (a >= 0.0) & (b >= 0.0) & (a + b > 0.0) & (a + b < math.inf) & (x >= 0.0) & (x <= 1.0)
    at_full = ((x == 1.0) | (a == 0.0)).where(a.like(full), math.nan)
    ends = known.where(((x == 0.0) | (b == 0.0)).where(a.like(empty), at_full), math.nan)
    return branch(inside, lambda: _beta_tail(a, b, x, 1.0 - x).value(left), lambda: ends)


@in_double
def betainc(a: Value, b: Value, x: Value) -> Value:
    """The regularized incomplete beta function I_x(a, b)."""
    return _incomplete_beta(a, b, x, left=True)


@in_double
def betaincc(a: Value, b: Value, x: Value) -> Value:
    """1 - I_x(a, b), with a small relative error."""
    return _incomplete_beta(a, b, x, left=False)


# Inverses


@in_double
def gammaincinv(a: Value, p: Value) -> Value:
    """The x at which P(a, x) is p."""
    inside = (a > 0.0) & (p > 0.0) & (p < 1.0) & (a < math.inf)
    ends = (p == 0.0).where(a.like(0.0), (p == 1.0).where(a.like(math.inf), math.nan))
    ends = (a >= 0.0).where(ends, math.nan)
    return branch(
        inside,
        lambda: exp(_solve(lambda log_x: _gamma_tail(a, exp(log_x)), _gamma_start(a, p, 1.0 - p), p)),
        lambda: ends,
    )


@in_double
def betaincinv(a: Value, b: Value, p: Value) -> Value:
    """The x at which I_x(a, b) is p."""
    inside = (a > 0.0) & (b > 0.0) & (p > 0.0) & (p < 1.0) & (a < math.inf) & (b < math.inf)
    ends = (p == 0.0).where(a.like(0.0), (p == 1.0).where(a.like(1.0), math.nan))
    ends = ((a > 0.0) & (b > 0.0)).where(ends, math.nan)

    def tail(logit: Value) -> _Tail:
        return _beta_tail(a, b, sigmoid(logit), sigmoid(-logit))

    return branch(inside, lambda: sigmoid(_solve(tail, _beta_start(a, b, p), p)), lambda: ends)


def _solve(tail: Callable[[Value], _Tail], start: Value, p: Value) -> Value:
    """The position at which the left tail is `p`."""
    inside = abs(start) < _LIMIT  # else it is the end of the range, and the start is as good as any

    def halley(position: Value) -> Value:
        reached = tail(position)
        newton, rate = _newton(reached, p)
        # the second derivative of log F is rate * (slope - rate)
        divisor = (1.0 - 0.5 * newton * (reached.slope - rate)).maximum(0.5).minimum(2.0)
        return (position - newton / divisor).maximum(-_LIMIT).minimum(_LIMIT)

    return inside.where(_repeated(_STEPS, inside.where(start, 0.0), halley), start)


def _newton(tail: _Tail, p: Value) -> tuple[Value, Value]:
    """Newton's step for the logarithm of the tail in which `p` is small, and its derivative.

    The logarithms of both tails are concave.
    """
    left = p < 0.5
    is_this_tail, wanted = ~(tail.left ^ left), left.where(p, 1.0 - p)
    value = exp(tail.log_density) * tail.share
    complement = is_this_tail.where(p.like(0.5), (1.0 - value).maximum(_TINY))
    log_value = is_this_tail.where(tail.log_density + log(tail.share), log(complement))
    inverse = is_this_tail.where(tail.share, complement * exp(-tail.log_density.maximum(-_LIMIT)))
    inverse = left.where(inverse, -inverse)
    return (log_value - log(wanted)) * inverse, 1.0 / inverse


def _gamma_start(a: Value, p: Value, right_tail: Value) -> Value:
    """About log(x) for the left tail `p` and the right one.

    By Wilson and Hilferty's approximation; for small a by the first terms of series.
    """
    width = 1.0 / (9.0 * a)
    root = 1.0 - width + _normal_quantile(p, right_tail) * width.sqrt()
    cubed = log(a) + 3.0 * log(root.maximum(0.1))
    log_gamma = lgamma_of_positive(a)
    left = (log(p) + log_gamma + log(a)) / a  # P is about x^a / Gamma(a + 1)
    drop = -log(right_tail) - log_gamma  # Q is about x^(a - 1) e^-x / Gamma(a)
    right = log((drop - (1.0 - a) * log(drop.maximum(1.0))).maximum(0.1))
    return ((a > 0.7) & (root > 0.1)).where(cubed, ((right_tail < 0.2) & (drop > 0.5)).where(right, left))


def _beta_start(a: Value, b: Value, p: Value) -> Value:
    """About logit(x): by a normal approximation (Abramowitz and Stegun 26.5.22); by gamma ones if a or b is below 1."""
    complement = 1.0 - p
    z = _normal_quantile(p, complement)
    first, second = 1.0 / (2.0 * a - 1.0).maximum(1.0), 1.0 / (2.0 * b - 1.0).maximum(1.0)
    curve, mean = (z * z - 3.0) / 6.0, 2.0 / (first + second)
    normal = z * (curve + mean).maximum(0.0).sqrt() / mean + (second - first) * (curve + 5 / 6 - 2 / (3.0 * mean))
    normal = log(a) - log(b) + 2.0 * normal
    # -log(1 - x) is about a gamma variable over b + (a - 1) / 2 where b is large, and so is -log(x)
    small, flipped = a.minimum(b), b < a
    log_gamma = _gamma_start(small, flipped.where(complement, p), flipped.where(p, complement))
    amount = exp(log_gamma - log(a.maximum(b) + (small - 1.0) * 0.5))
    logit_of_large = log(-expm1(-amount)) + amount
    log_left = a * (log(a) - log(a + b)) - log(a)
    log_right = b * (log(b) - log(a + b)) - log(b)
    both = logaddexp(log_left, log_right)
    left = ((log(a) + both + log(p)) / a).minimum(-1e-12)  # log(x)
    right = ((log(b) + both + log(complement)) / b).minimum(-1e-12)  # log(1 - x)
    powers = (log(p) < log_left - both).where(left - log(-expm1(left)), log(-expm1(right)) - right)
    one_large = flipped.where(-logit_of_large, logit_of_large)
    return ((a >= 1.0) & (b >= 1.0)).where(normal, ((a >= 1.0) | (b >= 1.0)).where(one_large, powers))


def _normal_quantile(p: Value, complement: Value) -> Value:
    """About the quantile of the normal distribution at p = 1 - complement. Source: Abramowitz and Stegun 26.2.23."""
    left = p < complement
    t = (-2.0 * log(left.where(p, complement))).sqrt()
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    z = t - above / below
    return left.where(-z, z)


_RELATIVE_TO = "the result, times 1 + a tenth of the root of the largest parameter"

INCOMPLETE: dict[str, ScalarRow] = {
    "betainc": ScalarRow(entry(betainc), (0.6, 80.0), relative_to=_RELATIVE_TO),
    "betaincc": ScalarRow(entry(betaincc), (0.6, 80.0), relative_to=_RELATIVE_TO),
    "betaincinv": ScalarRow(entry(betaincinv), (0.6, 80.0), relative_to=_RELATIVE_TO),
    "gammainc": ScalarRow(entry(gammainc), (0.6, 80.0), relative_to=_RELATIVE_TO),
    "gammaincc": ScalarRow(entry(gammaincc), (0.6, 80.0), relative_to=f"{_RELATIVE_TO}; below x = 1, to 1"),
    "gammaincinv": ScalarRow(entry(gammaincinv), (0.6, 80.0), relative_to=_RELATIVE_TO),
}
