"""The von Mises input layer: densities of an angle, the normal distributions of the circle.

>>> from plica.symbolic.scope import Scope
>>> VonMisesLayer(Scope([0]), 4).domain
Domain('angles')
"""

import math
from typing import final

from plica.ir.op import unsupported
from plica.symbolic.domains import ANGLES
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import positive_normal
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal
from plica.symbolic.semirings import Params

_LOG_TWO_PI = math.log(2.0 * math.pi)
_MAX_DROP = 45.0  # exp(-45) is smaller than the last place of 1.0 in float64
_NODES = 33  # on each side of the middle of an integral: right to 1e-11
_FEWER_NODES = 20  # right to 1e-6, for draws
_STEPS = 3  # of draws, from starts that are nearly right


@final
class VonMisesLayer(UnivariateLayer, name="von-mises"):
    """Densities exp(concentration * cos(x - loc)) / (2 pi I0(concentration)) of an angle from -pi to pi.

    They integrate to 1 over one turn, so angles must be wrapped into it; `loc` may be any number. A mean and a variance
    are refused by name.
    """

    loc: Parameter = unit_parameter(normal, "angles at which densities are largest; standard normal draws by default")
    concentration: Parameter = unit_parameter(
        positive_normal, "positive concentrations; by default the softplus of normal draws, plus 1e-5"
    )
    domain = ANGLES

    @staticmethod
    def log_density(xp: Namespace, x: Array, loc: Array, concentration: Array) -> Array:
        half = xp.sin(0.5 * (x - loc))  # cos d - 1 = -2 sin^2(d / 2)
        return _log_peak(xp, concentration) - 2.0 * concentration * (half * half)

    log_maximum = staticmethod(lambda xp, concentration: _log_peak(xp, concentration))
    mode = staticmethod(lambda xp, loc: _wrapped(xp, loc))
    expectation = variance = unsupported(
        "an angle has no mean or variance that a mixture could average, since -pi and pi are one angle; take the mean "
        "of its sine and cosine over samples"
    )

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:
        """Vectors of these angles and lengths add."""
        away = second["loc"] - first["loc"]
        along = first["concentration"] + second["concentration"] * xp.cos(away)
        across = second["concentration"] * xp.sin(away)
        return {"loc": first["loc"] + xp.atan2(across, along), "concentration": xp.hypot(along, across)}

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, loc: Array, concentration: Array) -> Array:
        wide, share = xp.astype(concentration, xp.float64), xp.astype(uniforms, xp.float64)
        wanted = xp.minimum(share, 1.0 - share)
        low, high = xp.zeros_like(wanted), xp.full_like(wanted, math.pi)
        # the normal distribution's, or the uniform one's
        centred = 1.0 - 2.0 * xp.maximum(wanted, 1e-16)
        angle = xp.minimum(math.sqrt(2.0) * xp.erfinv(centred) / xp.sqrt(xp.maximum(wide, 1e-300)), math.pi * centred)
        for _ in range(_STEPS):  # Halley's steps for the logarithm of the tail, or halves where those leave the bracket
            tail, density = _tail(xp, angle, wide, _FEWER_NODES)
            short = xp.greater(tail, wanted)
            low, high = xp.where(short, angle, low), xp.where(short, high, angle)
            rate = density / xp.maximum(tail, 1e-300)
            newton = xp.log(xp.maximum(tail, 1e-300) / xp.maximum(wanted, 1e-300)) / xp.maximum(rate, 1e-300)
            bent = xp.clip(1.0 - 0.5 * newton * (wide * xp.sin(angle) - rate), 0.5, 2.0)
            moved = angle + newton / bent
            inside = xp.logical_and(xp.greater_equal(moved, low), xp.less_equal(moved, high))
            angle = xp.where(inside, moved, 0.5 * (low + high))
        turned = xp.astype(loc, xp.float64) + xp.where(xp.less(share, 0.5), -angle, angle)
        return xp.astype(_wrapped(xp, turned), loc.dtype)

    @staticmethod
    def interval(xp: Namespace, lower: Array, upper: Array, loc: Array, concentration: Array) -> Array:
        loc, concentration = xp.astype(loc, xp.float64), xp.astype(concentration, xp.float64)
        loc, turn = _wrapped(xp, loc), 2.0 * math.pi

        def wrapped_and_turns(end: Array) -> tuple[Array, Array]:
            """The angle from `loc`, from -pi to pi, and the number of whole turns."""
            away = xp.clip(xp.astype(end, xp.float64), -math.pi, math.pi) - loc
            turns = xp.stop_gradient(xp.floor((away + math.pi) / turn))
            return xp.clip(away - turn * turns, -math.pi, math.pi), turns

        def left(angle: Array) -> Array:
            """The mass on the left of an angle, precise where it is small."""
            is_left = xp.less(angle, 0.0)
            tail, _ = _tail(xp, xp.where(is_left, -angle, angle), concentration, _NODES)  # abs has no derivative at 0
            return xp.where(is_left, tail, 1.0 - tail)

        (first, before), (last, after) = wrapped_and_turns(lower), wrapped_and_turns(upper)
        turned = xp.greater(after, before)  # between them lies the angle opposite to `loc`
        flipped = xp.logical_and(xp.greater(first + last, 0.0), xp.logical_not(turned))  # where left tails are about 1
        more, less = (
            left(xp.where(flipped, -first, last)),
            left(xp.where(flipped, -last, xp.where(turned, -first, first))),
        )
        share = xp.where(turned, more + less + (after - before - 1.0), more - less)
        return xp.where(xp.greater(upper, lower), xp.clip(share, 0.0, 1.0), 0.0)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        spread = max(column.spread, 1e-6)  # its square is far from underflow
        sharpness = 1.0 / spread**2
        return {
            "loc_factory": around(column.mean, spread),
            "concentration_factory": beyond(0.01 * sharpness, sharpness),
        }


def _log_peak(xp: Namespace, concentration: Array) -> Array:
    """The logarithm of the largest density: -log(2 pi I0(k) exp(-k))."""
    large = xp.greater(concentration, 100.0)
    little = xp.less(concentration, 1.0)
    big = xp.where(large, concentration, 100.0)
    small = xp.where(xp.logical_or(large, little), 1.0, concentration)
    # of I0, whose derivatives at 0 i0e lacks: the power series, 2^-60 of 1 from its end
    square, power = xp.square(0.5 * xp.where(little, concentration, 0.0)), 1.0
    for k in range(10, 0, -1):
        power = 1.0 + power * square / (k * k)
    near = xp.where(little, concentration, 0.0) - xp.log(power)
    term, series = 1.0, 0.0  # of I0(k) exp(-k) sqrt(2 pi k) - 1, whose derivative cancels where i0e's does
    for k in range(1, 9):
        term = term * ((2 * k - 1) ** 2 / (8.0 * k)) / big
        series = series + term
    asymptotic = 0.5 * xp.log(big) - 0.5 * _LOG_TWO_PI - xp.log1p(series)
    return xp.where(large, asymptotic, xp.where(little, near, -xp.log(xp.i0e(small))) - _LOG_TWO_PI)


def _wrapped(xp: Namespace, angle: Array) -> Array:
    """The angle in -pi to pi."""
    turn = 2.0 * math.pi
    return xp.clip(angle - turn * xp.round(angle / turn), -math.pi, math.pi)


def _nodes(xp: Namespace, number: int) -> tuple[Array, Array]:
    """The nodes and the weights of the tanh-sinh rule, for integrals of smooth functions from 0 to 1."""
    t = xp.astype(xp.arange(1 - number, number), xp.float64) * (3.2 / number)
    nodes = xp.sigmoid(math.pi * xp.sinh(t))
    return nodes, (3.2 / number * math.pi) * xp.cosh(t) * nodes * xp.sigmoid(-math.pi * xp.sinh(t))


def _tail(xp: Namespace, angle: Array, concentration: Array, number: int) -> tuple[Array, Array]:
    """The mass beyond an angle from 0 to pi, on one side, and the density there; in float64.

    The mass is the density times the integral of relative densities beyond, as far as these are above 1e-19.
    """
    sine = xp.sin(0.5 * angle)
    square = sine * sine
    density = xp.exp(_log_peak(xp, concentration) - 2.0 * concentration * square)
    # where the exponent has dropped by _DEEP: sin^2((angle + v) / 2) = square + step
    step = 0.5 * _MAX_DROP / xp.maximum(concentration, 1e-300)
    is_full = xp.greater_equal(square + step, 1.0)
    other = xp.sqrt(xp.where(is_full, 0.5, square + step))
    across = other * xp.sqrt(xp.maximum(1.0 - square, 0.0)) + sine * xp.sqrt(1.0 - other * other)
    partly = 2.0 * xp.asin(xp.clip(step / xp.maximum(across, 1e-300), 0.0, 1.0))
    reach = xp.where(is_full, math.pi - angle, xp.stop_gradient(xp.minimum(partly, math.pi - angle)))
    nodes, weights = _nodes(xp, number)
    offsets = xp.expand_dims(reach, axis=-1) * nodes
    first, second = xp.expand_dims(angle, axis=-1), xp.expand_dims(concentration, axis=-1)
    drop = 2.0 * second * xp.sin(first + 0.5 * offsets) * xp.sin(0.5 * offsets)
    return density * reach * xp.sum(weights * xp.exp(-drop), axis=-1), density
