"""The rounded logistic input layer: a logistic density, rounded to whole numbers, negative ones among them.

The mass of a whole number is what the density has within half a unit of it. With s(z) = 1 / (1 + exp(-z)), what lies
between a and b is s(b) - s(a) = s(b) s(-a) (1 - exp(a - b)): a product, right far in the tails and for any scale.

>>> from plica.symbolic.scope import Scope
>>> layer = RoundedLogisticLayer(Scope([2]), 8)
>>> layer, layer.domain, sorted(layer.params)
(RoundedLogisticLayer(scope={2}, 8), Domain('whole numbers'), ['loc', 'scale'])
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import INTEGERS, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    UnivariateLayer,
    finite,
    inside,
    of_units,
    positive_normal,
    rows,
    standardized,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

MIN_SCALE = 0.01  # of layers fitted to a column: all of a density is in one or two whole numbers then
_LARGEST = 2.0**62  # a whole number that float32, float64 and int64 all hold
_NARROW = 0.5  # the scale up to which moments are sums over whole numbers, and beyond it Fourier series
_WHOLE_TERMS = 20  # of such a sum: the next one is exp(-40) of the first
_FOURIER_TERMS = 4


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class RoundedLogisticLayer(UnivariateLayer):
    """Logistic densities of one variable, rounded to the nearest whole number.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        loc: `(K,)` centres of the densities; standard normal draws by default.
        scale: `(K,)` positive scales, the standard deviations times sqrt(3)/pi; by default the softplus of normal
            draws, plus 1e-5.
        loc_factory: Makes the centres from their shape.
        scale_factory: Makes the scales from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    loc: Parameter
    scale: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("loc", "scale")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        loc: ParameterLike | None = None,
        scale: ParameterLike | None = None,
        loc_factory: ParameterFactory | None = None,
        scale_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            loc=(loc, loc_factory, normal),
            scale=(scale, scale_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is a whole number."""
        return INTEGERS


def _log_share(xp: Namespace, loc: Array, log_scale: Array, first: Array, last: Array) -> Array:
    """The logarithm of what whole numbers from `first` to `last`, given as floats, have together."""
    most = xp.finfo(loc.dtype).max ** -0.25  # beyond, derivatives may not be numbers of the dtype, and the share is 0
    bound = math.log(float(xp.finfo(loc.dtype).max)) - 0.5
    origin = xp.zeros_like(loc)  # a large whole number holds no half beside, but its distance from the centre does
    low, high = (
        standardized(xp, finite(xp, finite(xp, end) - loc) + half, origin, log_scale, most)
        for end, half in ((first, -0.5), (last, 0.5))
    )
    count = finite(xp, last - first) + 1.0
    extent = xp.clip(count * xp.exp(xp.clip(-log_scale, -bound, 0.5 * bound)), 0.0, most * xp.finfo(loc.dtype).max)
    found = xp.log(-xp.expm1(-extent)) - xp.softplus(-high) - xp.softplus(low)
    far = 0.99 * most * xp.finfo(loc.dtype).max
    return xp.where(xp.logical_or(xp.greater(low, far), xp.less(high, -far)), -math.inf, found)


def _log_mass(xp: Namespace, params: Params, x: Array) -> Array:
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))
    x = xp.astype(x, loc.dtype)
    return _log_share(xp, loc, log_scale, x, x)


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: RoundedLogisticLayer,  # noqa: ARG001
    params: Params,
    x: Array,
) -> Value:
    return semiring.from_log(xp, _log_mass(xp, params, x))


def _rounded(xp: Namespace, x: Array) -> Array:
    """The nearest whole number, also of those that are whole and too large to hold a half beside."""
    below = xp.floor(x)
    return xp.where(xp.less(x - below, 0.5), below, below + 1.0)


def _nearest(xp: Namespace, x: Array) -> Array:
    return xp.clip(_rounded(xp, x), -_LARGEST, _LARGEST)


def _maximum(xp: Namespace, semiring: Semiring, layer: RoundedLogisticLayer, params: Params) -> Value:  # noqa: ARG001
    (loc,) = rows(xp, params["loc"])
    return semiring.from_log(xp, _log_mass(xp, params, _nearest(xp, loc)))


def _mode(xp: Namespace, layer: RoundedLogisticLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_nearest(xp, params["loc"]), axis=-1)  # (F, K, 1)


def _sample(
    xp: Namespace,
    layer: RoundedLogisticLayer,  # noqa: ARG001
    params: Params,
    units: Array,
    uniforms: Array,
) -> Array:
    loc, scale = of_units(xp, params, units, "loc", "scale")
    uniforms = inside(xp, uniforms)
    centre = _nearest(xp, loc)
    away = finite(xp, loc - centre) + scale * (xp.log(uniforms) - xp.log1p(-uniforms))
    away = xp.clip(_rounded(xp, away), -0.5 * _LARGEST, 0.5 * _LARGEST)
    return xp.astype(centre, xp.int64) + xp.astype(away, xp.int64)


def _moments(xp: Namespace, params: Params) -> tuple[Array, Array, Array]:
    """The whole number next to each centre, and the mean and the variance of the distance from it: `(F, K, 1)`."""
    loc, scale = (xp.expand_dims(params[name], axis=-1) for name in ("loc", "scale"))
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
    a = xp.minimum(2.0 * math.pi**2 * k * s, 80.0)  # where g is 0 beside 1
    g = 2.0 * a * xp.exp(-a) / -xp.expm1(-2.0 * a)
    slope = g / a * (1.0 - a * (1.0 + 2.0 * xp.exp(-2.0 * a) / -xp.expm1(-2.0 * a)))
    sine, cosine = xp.sin(math.tau * k * d), xp.cos(math.tau * k * d)
    shift = xp.sum(sign * g * sine / (math.pi * k), axis=-1, keepdims=True)
    ripple = xp.sum(sign * cosine * (g / (math.pi * k) ** 2 - 2.0 * s * slope / k), axis=-1, keepdims=True)
    wide = math.pi**2 / 3.0 * xp.square(s) + 1.0 / 12.0 + ripple - xp.square(shift)

    return nearest, xp.where(narrow, direct, d + shift), xp.where(narrow, direct_square - xp.square(direct), wide)


def _mean(xp: Namespace, layer: RoundedLogisticLayer, params: Params) -> Array:  # noqa: ARG001
    nearest, distance, _ = _moments(xp, params)
    return nearest + distance


def _variance(xp: Namespace, layer: RoundedLogisticLayer, params: Params) -> Array:  # noqa: ARG001
    return _moments(xp, params)[2]


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: RoundedLogisticLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))
    first, last = (
        finite(xp, end) for end in (xp.ceil(xp.astype(low, loc.dtype)), xp.floor(xp.astype(high, loc.dtype)))
    )
    empty = xp.less(last, first)
    found = _log_share(xp, loc, log_scale, first, xp.where(empty, first, last))
    return semiring.from_log(xp, xp.where(empty, -math.inf, found))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Densities spread like their column."""
    return {
        "loc_factory": around(column.mean, column.spread),
        "scale_factory": beyond(MIN_SCALE, 0.5 * column.spread),
    }


ROW = InputRow(
    RoundedLogisticLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("rounded-logistic", RoundedLogisticLayer, ("loc", "scale"), fitted=_fitted),
)
