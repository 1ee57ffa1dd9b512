"""The rounded logistic input layer: a logistic density, rounded to whole numbers, negative ones among them.

The mass of a whole number is that of the density within half a unit of it. With s(z) = 1 / (1 + exp(-z)), the mass
between a and b is s(b) - s(a) = s(b) s(-a) (1 - exp(a - b)): a product, precise far in the tails and for any scale.

>>> from plica.symbolic.scope import Scope
>>> layer = RoundedLogisticLayer(Scope([2]), 8)
>>> layer, layer.domain, sorted(layer.params)
(RoundedLogisticLayer(scope={2}, 8), Domain('whole numbers'), ['loc', 'scale'])
"""

import math
from typing import final

from plica.symbolic.domains import INTEGERS
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import finite, inside, positive_normal, standardized
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal

MIN_SCALE = 0.01  # of layers fitted to a column: all of a density is in one or two whole numbers then
_LARGEST = 2.0**62  # a whole number that float32, float64 and int64 all hold
_NARROW = 0.5  # the scale up to which moments are sums over whole numbers, and beyond it Fourier series
_WHOLE_TERMS = 20  # of such a sum: the next one is exp(-40) of the first
_FOURIER_TERMS = 4


@final
class RoundedLogisticLayer(UnivariateLayer, name="rounded-logistic"):
    """Logistic densities of one variable, rounded to the nearest whole number."""

    loc: Parameter = unit_parameter(normal, "centres of the densities; standard normal draws by default")
    scale: Parameter = unit_parameter(
        positive_normal,
        "positive scales, the standard deviations times sqrt(3)/pi; by default the softplus of normal draws, plus 1e-5",
    )
    domain = INTEGERS

    log_density = staticmethod(lambda xp, x, loc, log_scale: _log_share(xp, loc, log_scale, x, x))
    mode = staticmethod(lambda xp, loc: _nearest(xp, loc))

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, loc: Array, scale: Array) -> Array:
        uniforms = inside(xp, uniforms)
        centre = _nearest(xp, loc)
        away = finite(xp, loc - centre) + scale * (xp.log(uniforms) - xp.log1p(-uniforms))
        away = xp.clip(_rounded(xp, away), -0.5 * _LARGEST, 0.5 * _LARGEST)
        return xp.astype(centre, xp.int64) + xp.astype(away, xp.int64)

    @staticmethod
    def expectation(xp: Namespace, loc: Array, scale: Array) -> Array:
        nearest, distance, _ = _moments(xp, loc, scale)
        return xp.squeeze(nearest + distance, axis=-1)

    variance = staticmethod(lambda xp, loc, scale: xp.squeeze(_moments(xp, loc, scale)[2], axis=-1))

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, loc: Array, log_scale: Array) -> Array:
        first = finite(xp, xp.ceil(xp.astype(lower, loc.dtype)))
        last = finite(xp, xp.floor(xp.astype(upper, loc.dtype)))
        empty = xp.less(last, first)
        log_share = _log_share(xp, loc, log_scale, first, xp.where(empty, first, last))
        return xp.where(empty, -math.inf, log_share)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Densities spread like their column."""
        return {
            "loc_factory": around(column.mean, column.spread),
            "scale_factory": beyond(MIN_SCALE, 0.5 * column.spread),
        }


def _log_share(xp: Namespace, loc: Array, log_scale: Array, first: Array, last: Array) -> Array:
    """The logarithm of the mass of the whole numbers from `first` to `last`, given as floats."""
    most = xp.finfo(loc.dtype).max ** -0.25  # beyond, derivatives may not be numbers of the dtype, and the share is 0
    bound = math.log(float(xp.finfo(loc.dtype).max)) - 0.5
    origin = xp.zeros_like(loc)  # x + 0.5 rounds to a large x, but its distance from the centre is small enough
    low, high = (
        standardized(xp, finite(xp, finite(xp, end) - loc) + half, origin, log_scale, most)
        for end, half in ((first, -0.5), (last, 0.5))
    )
    count = finite(xp, last - first) + 1.0
    extent = xp.clip(count * xp.exp(xp.clip(-log_scale, -bound, 0.5 * bound)), 0.0, most * xp.finfo(loc.dtype).max)
    log_share = xp.log(-xp.expm1(-extent)) - xp.softplus(-high) - xp.softplus(low)
    far = 0.99 * most * xp.finfo(loc.dtype).max
    return xp.where(xp.logical_or(xp.greater(low, far), xp.less(high, -far)), -math.inf, log_share)


def _rounded(xp: Namespace, x: Array) -> Array:
    """The nearest whole number, also of whole numbers so large that adding a half would round."""
    below = xp.floor(x)
    return xp.where(xp.less(x - below, 0.5), below, below + 1.0)


def _nearest(xp: Namespace, x: Array) -> Array:
    return xp.clip(_rounded(xp, x), -_LARGEST, _LARGEST)


def _moments(xp: Namespace, loc: Array, scale: Array) -> tuple[Array, Array, Array]:
    """The whole number next to each centre, and the mean and the variance of the distance from it: `(F, K, 1)`."""
    loc, scale = xp.expand_dims(loc, axis=-1), xp.expand_dims(scale, axis=-1)
    nearest = _rounded(xp, loc)
    d = loc - nearest
    narrow = xp.less(scale, _NARROW)

    # With R the rounded number: E[R] = sum over j > 0 of P(R >= j) - P(R <= -j), E[R^2] that of (2j - 1) times the sum
    s = xp.where(narrow, xp.maximum(scale, xp.finfo(loc.dtype).max ** -0.25), _NARROW)
    j = xp.astype(xp.arange(1, _WHOLE_TERMS + 1), loc.dtype)
    up, down = (xp.sigmoid((sign * d - j + 0.5) / s) for sign in (1.0, -1.0))
    direct = xp.sum(up - down, axis=-1, keepdims=True)
    direct_square = xp.sum((2.0 * j - 1.0) * (up + down), axis=-1, keepdims=True)

    # R = X - w(X) of X = d + Y, with w(x) = sum of (-1)^(k+1) sin(2 pi k x) / (pi k): expectations of sines and cosines
    # are those at d times g(a) = a / sinh(a), a = 2 pi^2 k s, and E[Y sin(2 pi k X)] = -cos(2 pi k d) pi s g'(a)
    s = xp.where(narrow, _NARROW, scale)
    k = xp.astype(xp.arange(1, _FOURIER_TERMS + 1), loc.dtype)
    sign = 1.0 - 2.0 * (k % 2.0)
    a = xp.minimum(2.0 * math.pi**2 * k * s, 80.0)  # beyond, 1 + g rounds to 1
    g = 2.0 * a * xp.exp(-a) / -xp.expm1(-2.0 * a)
    slope = g / a * (1.0 - a * (1.0 + 2.0 * xp.exp(-2.0 * a) / -xp.expm1(-2.0 * a)))
    sine, cosine = xp.sin(math.tau * k * d), xp.cos(math.tau * k * d)
    shift = xp.sum(sign * g * sine / (math.pi * k), axis=-1, keepdims=True)
    ripple = xp.sum(sign * cosine * (g / (math.pi * k) ** 2 - 2.0 * s * slope / k), axis=-1, keepdims=True)
    wide = math.pi**2 / 3.0 * xp.square(s) + 1.0 / 12.0 + ripple - xp.square(shift)

    return nearest, xp.where(narrow, direct, d + shift), xp.where(narrow, direct_square - xp.square(direct), wide)
