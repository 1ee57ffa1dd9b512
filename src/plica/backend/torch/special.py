"""Special functions that torch lacks, or has without their derivatives: computed in float64, on the device.

An incomplete integral is the density at its end, times the integral of what the density is beyond, relative to it:

    P(a, x) = x^a e^-x / Gamma(a) * (integral over v > 0 of exp(-drop(v))),  drop(v) = a v + x (e^-v - 1)

`drop` is convex and 0 at 0, so the nodes of Gauss and Legendre, laid where it is below 45, are exact to rounding for
all parameters and in both tails, and the sum over them has the derivatives of the integral by all of them. The relative
error is that of the density: some 1e-15 times the square root of the largest parameter.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from plica.ops.quadrature import LEGENDRE_40

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_DEEP = 45.0  # exp(-45) is below the last place of float64
_TOGETHER = 10  # nodes of one tensor, so that few operations are called on little memory
_NODES = tuple(LEGENDRE_40[first : first + _TOGETHER] for first in range(0, len(LEGENDRE_40), _TOGETHER))
_NORMAL_TAIL = -30.0  # beyond, eight terms of the asymptotic series are exact to rounding
_RAISED = 2  # how far `a` is raised by its recurrence: the tails of small ones are too long for the nodes
_STEPS = 6  # of third order, from starts that are right to a few places
_LIMIT = 690.0  # of logarithms of solutions
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # Stirling's, in odd powers of 1/x


class _Tail(NamedTuple):
    """The lesser one of two tails, or one that is almost: exp(log_density) * share."""

    left: Tensor  # whether it is the left one
    log_density: Tensor  # of log(x), or of logit(x)
    share: Tensor
    slope: Tensor  # the derivative of log_density


def stirling_error(x: Tensor) -> Tensor:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x > 0: what Stirling's formula lacks."""
    positive, wide = x > 0, x.double()
    error = _stirling_error(torch.where(positive, wide, 1.0))
    return torch.where(positive, error, torch.where(wide == 0, math.inf, math.nan)).to(x.dtype)


def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution function; torch's own derivatives lose digits on the left."""
    wide = x.double()
    far = wide < _NORMAL_TAIL
    left = torch.where(far, wide, _NORMAL_TAIL)
    inverse, series = left**-2, torch.ones_like(left)  # 1 - 1 / x^2 + 1 * 3 / x^4 - 1 * 3 * 5 / x^6 ...
    for term in range(15, 0, -2):
        series = 1 - term * inverse * series
    tail = -0.5 * left * left - torch.log(-left) - _HALF_LOG_TWO_PI + torch.log(series)
    return torch.where(far, tail, torch.special.log_ndtr(torch.where(far, _NORMAL_TAIL, wide))).to(x.dtype)


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x); its derivatives at the ends of x are 0."""
    return _incomplete_gamma(a, x, left=True)


def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), right where it is tiny."""
    return _incomplete_gamma(a, x, left=False)


def gammaincinv(a: Tensor, p: Tensor) -> Tensor:
    """The x at which P(a, x) is p; it has three derivatives."""
    dtype, (a, p) = a.dtype, _wide(a, p)
    inside = (a > 0) & (p > 0) & (p < 1) & a.isfinite()
    safe_a, safe_p = _where(inside, (a, 1.0), (p, 0.5))
    log_x = _solve(lambda log_x: _gamma_tail(safe_a, log_x.exp()), _gamma_start(safe_a, safe_p, 1 - safe_p), safe_p)
    ends = torch.where(p == 0, 0.0, torch.where(p == 1, math.inf, math.nan))
    return torch.where(inside, log_x.exp(), torch.where(a >= 0, ends, math.nan)).to(dtype)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularized incomplete beta function I_x(a, b); its derivatives at the ends of x are 0."""
    return _incomplete_beta(a, b, x, left=True)


def betaincc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """1 - I_x(a, b), right where it is tiny."""
    return _incomplete_beta(a, b, x, left=False)


def betaincinv(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """The x at which I_x(a, b) is p; it has three derivatives."""
    dtype, (a, b, p) = a.dtype, _wide(a, b, p)
    inside = (a > 0) & (b > 0) & (p > 0) & (p < 1) & a.isfinite() & b.isfinite()
    safe_a, safe_b, safe_p = _where(inside, (a, 1.0), (b, 1.0), (p, 0.5))

    def tail(logit: Tensor) -> _Tail:
        return _beta_tail(safe_a, safe_b, torch.sigmoid(logit), torch.sigmoid(-logit))

    logit = _solve(tail, _beta_start(safe_a, safe_b, safe_p), safe_p)
    ends = torch.where(p == 0, 0.0, torch.where(p == 1, 1.0, math.nan))
    return torch.where(inside, torch.sigmoid(logit), torch.where((a > 0) & (b > 0), ends, math.nan)).to(dtype)


def _incomplete_gamma(a: Tensor, x: Tensor, left: bool) -> Tensor:
    dtype, (a, x) = a.dtype, _wide(a, x)
    inside = (a > 0) & (x > 0) & a.isfinite() & x.isfinite()
    value = _value(_gamma_tail(*_where(inside, (a, 1.0), (x, 1.0))), left)
    full, empty = (1.0, 0.0) if left else (0.0, 1.0)
    ends = torch.where((x == 0) | (a == math.inf), empty, torch.where((a == 0) | (x == math.inf), full, math.nan))
    known = (a >= 0) & (x >= 0) & ((a > 0) | (x > 0)) & ((a < math.inf) | (x < math.inf))
    return torch.where(inside, value, torch.where(known, ends, math.nan)).to(dtype)


def _incomplete_beta(a: Tensor, b: Tensor, x: Tensor, left: bool) -> Tensor:
    dtype, (a, b, x) = a.dtype, _wide(a, b, x)
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & a.isfinite() & b.isfinite()
    value = _value(_beta_tail(*_where(inside, (a, 1.0), (b, 1.0), (x, 0.5), (1 - x, 0.5))), left)
    full, empty = (1.0, 0.0) if left else (0.0, 1.0)
    ends = torch.where((x == 0) | (b == 0), empty, torch.where((x == 1) | (a == 0), full, math.nan))
    known = (a >= 0) & (b >= 0) & (a + b > 0) & (a + b).isfinite() & (x >= 0) & (x <= 1)
    return torch.where(inside, value, torch.where(known, ends, math.nan)).to(dtype)


def _wide(*operands: Tensor) -> list[Tensor]:
    """Float64, of one shape."""
    shape = torch.broadcast_shapes(*(operand.shape for operand in operands))  # type: ignore[no-untyped-call]
    return [operand.double().expand(shape) for operand in operands]


def _where(condition: Tensor, *pairs: tuple[Tensor, float]) -> tuple[Tensor, ...]:
    """Each tensor where the condition holds, else its number, so that no gradient and no NaN comes from there."""
    return tuple(torch.where(condition, inside, outside) for inside, outside in pairs)


def _value(tail: _Tail, left: bool) -> Tensor:
    own = tail.log_density.exp() * tail.share
    return torch.where(tail.left == left, own, 1 - own)


# Tails


def _gamma_tail(a: Tensor, x: Tensor) -> _Tail:
    """The left tail of x below the larger one of a and 1, the right one above."""
    left = x < a.clamp(min=1.0)
    raised, sign = torch.where(left, a + _RAISED, a), torch.where(left, 1.0, -1.0)
    integral = _integral(
        lambda v: sign * raised * v + x * torch.expm1(-sign * v), _gamma_reach(raised.detach(), x.detach(), left)
    )
    below = integral  # S(a) = (1 + x S(a + 1)) / a on the left
    for step in reversed(range(_RAISED)):
        below = (1 + torch.where(left, x, 0.0) * below) / (a + step)
    log_density = _deviance(a, torch.log(x) - torch.log(a), x - a) + 0.5 * torch.log(a)
    log_density = log_density - _HALF_LOG_TWO_PI - _stirling_error(a)
    return _Tail(left, log_density, torch.where(left, below, integral), a - x)


def _gamma_reach(a: Tensor, x: Tensor, left: Tensor) -> Tensor:
    """About where `drop` is `_DEEP`, and not below."""
    x = x.clamp(min=1e-300)
    square = (2 * _DEEP / x).sqrt()  # from the right, drop is at least x v^2 / 2
    right = square
    for _ in range(5):
        right = torch.log1p((_DEEP + a * right) / x)
    reach = _least_reach((_DEEP + x) / a, square)
    for _ in range(6):  # Newton, of a convex function from above
        lost = torch.expm1(-reach)
        reach = reach - (a * reach + x * lost - _DEEP) / (a - x * (1 + lost)).clamp(min=1e-300)
    return torch.where(left, reach, torch.minimum(right, square))


def _least_reach(line: Tensor, square: Tensor) -> Tensor:
    """The lesser bound: of the asymptote, and of a parabola that is a bound up to 1."""
    square = square * math.sqrt(math.e)
    return torch.where(square < 1, torch.minimum(line, square), line)


def _beta_tail(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> _Tail:
    """The left tail of x below a / (a + b), the right one above, which is a left one of y = 1 - x."""
    left = x * b <= y * a
    slope = a - (a + b) * x
    first, second = torch.where(left, a, b), torch.where(left, b, a)
    near, far = torch.where(left, x, y), torch.where(left, y, x)
    raised, total = first + _RAISED, first + second
    reach = _beta_reach(raised.detach(), second.detach(), near.detach(), far.detach())
    share = _integral(lambda v: _beta_drop(raised, second, near, far, v), reach)
    for step in reversed(range(_RAISED)):  # S(a) = (1 + x (a + b) S(a + 1)) / a
        share = (1 + near * (total + step) * share) / (first + step)
    # what is near 1 tells little: all that follows comes from the lesser of x and y
    low = near < 0.5
    away = torch.where(low, near - first / total, second / total - far)
    log_near, log_far = (torch.where(low, by_near, by_far) for by_near, by_far in _both_logs(low, near, far))
    log_first, log_second = (torch.where(first < second, *pair) for pair in _log_parts(first, second))
    log_density = _deviance(first, log_near - log_first, total * away)
    log_density = log_density + _deviance(second, log_far - log_second, -total * away)
    log_density = log_density + 0.5 * (torch.log(first) + torch.log(second) - torch.log(total)) - _HALF_LOG_TWO_PI
    log_density = log_density + _stirling_error(total) - _stirling_error(first) - _stirling_error(second)
    return _Tail(left, log_density, share, slope)


def _both_logs(low: Tensor, x: Tensor, y: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The logarithms of x and of y = 1 - x, each by x where that is low, and by y elsewhere."""
    small, large = torch.where(low, x, 0.5), torch.where(low, 0.5, y)
    return (torch.log(small), torch.log1p(-large)), (torch.log1p(-small), torch.log(large))


def _log_parts(a: Tensor, b: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The logarithms of a / (a + b) and of b / (a + b), each where a is the lesser one, and elsewhere."""
    first, second = a / (a + b), b / (a + b)
    lesser = a < b
    return _both_logs(lesser, first, second)


def _beta_drop(a: Tensor, b: Tensor, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """A v + (a + b) log(1 + x (e^-v - 1)), which is (a + b) log(1 + y (e^v - 1)) - b v."""
    low, total = x < 0.5, a + b
    left = a * v + total * torch.log1p(torch.where(low, x, 0.5) * torch.expm1(-v))
    right = total * torch.log1p(torch.where(low, 0.5, y) * torch.expm1(v.clamp(max=_LIMIT))) - b * v
    return torch.where(low, left, right)


def _beta_reach(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """About where `drop` is `_DEEP`, and not below."""
    total = a + b
    square = (2 * _DEEP / (total * x * y).clamp(min=1e-300)).sqrt()
    reach = _least_reach((_DEEP - total * torch.log(y)) / a, square)
    right = reach  # where x is near 1, drop grows like an exponential, and Newton's steps from far away are of 1
    for _ in range(5):
        right = torch.log1p(torch.expm1(((_DEEP + b * right) / total).clamp(max=_LIMIT)) / y)
    reach = torch.where(x < 0.5, reach, torch.minimum(right, reach))
    for _ in range(6):
        complement = y / (y + x * torch.exp(-reach))  # 1 - t, t = x e^-v / (y + x e^-v)
        slope = torch.where(complement < 0.5, total * complement - b, a - total * (1 - complement))
        reach = reach - (_beta_drop(a, b, x, y, reach) - _DEEP) / slope.clamp(min=1e-300)
    return reach


def _integral(drop: Callable[[Tensor], Tensor], reach: Tensor) -> Tensor:
    """The integral of exp(-drop(v)) for v from 0 to `reach`."""
    total = torch.zeros_like(reach)
    for nodes in _NODES:
        terms = torch.exp(-drop(torch.stack([reach * node for node, _ in nodes]))).unbind()
        for term, (_, weight) in zip(terms, nodes, strict=True):
            total = total.add(term, alpha=weight)
    return total * reach


def _deviance(a: Tensor, log_ratio: Tensor, away: Tensor) -> Tensor:
    """A log(x / a) - (x - a) for x = a + away: nothing cancels where x is near a, in value or in derivatives."""
    near = away.abs() < 0.5 * a
    ratio = torch.where(near, away, 0.0) / a
    return torch.where(near, a * (torch.log1p(ratio) - ratio), a * log_ratio - away)


def _stirling_error(x: Tensor) -> Tensor:
    large = x >= 10
    small, inverse = torch.where(large, 1.0, x), 1 / torch.where(large, x, 10.0)
    square, series = inverse * inverse, torch.zeros_like(x)
    for factor in reversed(_SERIES):
        series = series * square + factor
    exact = torch.lgamma(small) - (small - 0.5) * torch.log(small) + small - _HALF_LOG_TWO_PI
    return torch.where(large, series * inverse, exact)


# Inverses


def _solve(tail: Callable[[Tensor], _Tail], start: Tensor, p: Tensor) -> Tensor:
    """Where the left tail is `p`, with derivatives by all that `tail` and `p` depend on."""
    start = start.detach()
    inside = start.abs() < _LIMIT  # else it is the end of the range, and the start is as good
    with torch.no_grad():
        solution = torch.where(inside, start, 0.0)
        for _ in range(_STEPS):
            current = tail(solution)
            newton, rate = _newton(current, p)
            # Halley: the second derivative of log F is rate * (slope - rate)
            solution = (solution - newton / (1 - 0.5 * newton * (current.slope - rate)).clamp(0.5, 2.0)).clamp(
                -_LIMIT, _LIMIT
            )
    if torch.is_grad_enabled():  # each of Newton's steps from a solution doubles how many derivatives are right
        solution = torch.where(inside, solution, 0.0)
        for _ in range(2):
            solution = torch.where(inside, solution - _newton(tail(solution), p)[0], 0.0)
    return torch.where(inside, solution, start)


def _newton(tail: _Tail, p: Tensor) -> tuple[Tensor, Tensor]:
    """Newton's step for the logarithm of the tail in which `p` is small, and its derivative; both tails are concave."""
    left = p < 0.5
    is_small, wanted = tail.left == left, torch.where(left, p, 1 - p)
    own = tail.log_density.exp() * tail.share
    complement = torch.where(is_small, 0.5, (1 - own).clamp(min=1e-300))
    log_own = torch.where(is_small, tail.log_density + torch.log(tail.share), torch.log(complement))
    inverse = torch.where(is_small, tail.share, complement * torch.exp(-tail.log_density.clamp(min=-_LIMIT)))
    inverse = torch.where(left, inverse, -inverse)
    return (log_own - torch.log(wanted)) * inverse, 1 / inverse


def _gamma_start(a: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """log(x) for the left tail `p` and the right one `rest`: by Wilson and Hilferty; for small a by ends of series."""
    width = 1 / (9 * a)
    root = 1 - width + _normal_quantile(p, q) * width.sqrt()
    cubed = torch.log(a) + 3 * torch.log(root.clamp(min=0.1))
    left = (torch.log(p) + torch.lgamma(a + 1)) / a  # P is about x^a / Gamma(a + 1)
    drop = -torch.log(q) - torch.lgamma(a)  # Q is about x^(a - 1) e^-x / Gamma(a)
    right = torch.log((drop - (1 - a) * torch.log(drop.clamp(min=1.0))).clamp(min=0.1))
    return torch.where((a > 0.7) & (root > 0.1), cubed, torch.where((q < 0.2) & (drop > 0.5), right, left))


def _beta_start(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """logit(x): by a normal approximation (Abramowitz and Stegun 26.5.22); where a or b is below 1, by gamma ones."""
    q = 1 - p
    z = _normal_quantile(p, q)
    first, second = 1 / (2 * a - 1).clamp(min=1.0), 1 / (2 * b - 1).clamp(min=1.0)
    curve, mean = (z * z - 3) / 6, 2 / (first + second)
    normal = z * (curve + mean).clamp(min=0.0).sqrt() / mean + (second - first) * (curve + 5 / 6 - 2 / (3 * mean))
    normal = torch.log(a) - torch.log(b) + 2 * normal
    # -log(1 - x) is about a gamma variable over b + (a - 1) / 2 where b is large, and so is -log(x)
    small = torch.minimum(a, b)
    flipped = b < a
    log_gamma = _gamma_start(small, torch.where(flipped, q, p), torch.where(flipped, p, q))
    amount = torch.exp(log_gamma - torch.log(torch.maximum(a, b) + (small - 1) / 2))
    logit = torch.log(-torch.expm1(-amount)) + amount
    log_left = a * (torch.log(a) - torch.log(a + b)) - torch.log(a)
    log_right = b * (torch.log(b) - torch.log(a + b)) - torch.log(b)
    both = torch.logaddexp(log_left, log_right)
    left = ((torch.log(a) + both + torch.log(p)) / a).clamp(max=-1e-12)  # log(x)
    right = ((torch.log(b) + both + torch.log(q)) / b).clamp(max=-1e-12)  # log(1 - x)
    powers = torch.where(
        torch.log(p) < log_left - both, left - torch.log(-torch.expm1(left)), torch.log(-torch.expm1(right)) - right
    )
    one_large = torch.where(flipped, -logit, logit)
    return torch.where((a >= 1) & (b >= 1), normal, torch.where((a >= 1) | (b >= 1), one_large, powers))


def _normal_quantile(p: Tensor, q: Tensor) -> Tensor:
    left = p < q
    z = torch.special.ndtri(torch.where(left, p, q))
    return torch.where(left, z, -z)
