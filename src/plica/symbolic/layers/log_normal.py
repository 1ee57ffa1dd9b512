"""The log-normal input layer: positive variables whose logarithms are normal.

>>> from plica.symbolic.scope import Scope
>>> sorted(LogNormalLayer(Scope([0]), 4).params)
['loc', 'scale']
"""

import math
from typing import final

from plica.symbolic.domains import POSITIVE_REALS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST_SPREAD,
    exp_or_infinity,
    inside,
    positive_exp,
    positive_normal,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal
from plica.symbolic.semirings import Params


def _log(xp: Namespace, x: Array) -> Array:
    return xp.log(x)


@final
class LogNormalLayer(UnivariateLayer, name="log-normal"):
    """Densities of one positive variable whose logarithm has mean loc and standard deviation scale."""

    loc: Parameter = unit_parameter(normal, "means of the logarithm; standard normal draws by default")
    scale: Parameter = unit_parameter(
        positive_normal,
        "positive standard deviations of the logarithm; by default the softplus of normal draws, plus 1e-5",
    )
    domain = POSITIVE_REALS
    closed_form = forms.normal("loc", "scale", forms.moments(_log))

    @staticmethod
    def log_density(xp: Namespace, x: Array, loc: Array, log_scale: Array) -> Array:
        log_x = xp.log(x)  # infinite where x is, with density 0
        return xp.log_normal(log_x, loc, log_scale) - log_x

    @staticmethod
    def log_maximum(loc: Array, scale: Array, log_scale: Array) -> Array:
        return 0.5 * scale * scale - loc - log_scale - HALF_LOG_TWO_PI

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, loc: Array, scale: Array) -> Array:
        centred = 2.0 * inside(xp, uniforms) - 1.0
        return positive_exp(xp, loc + scale * (math.sqrt(2.0) * xp.erfinv(centred)))

    mode = staticmethod(lambda xp, loc, scale: positive_exp(xp, loc - xp.square(scale)))
    expectation = staticmethod(lambda xp, loc, scale: exp_or_infinity(xp, loc + 0.5 * xp.square(scale)))

    @staticmethod
    def variance(xp: Namespace, loc: Array, scale: Array) -> Array:
        square = xp.square(scale)
        # a product of factors, none of which overflows before it does
        power = exp_or_infinity(xp, 2.0 * (loc + square))
        share = -xp.expm1(-xp.where(xp.isfinite(power), square, 1.0))  # no derivative of it where the power is infinite
        return share * power

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, loc: Array, log_scale: Array) -> Array:
        most = xp.finfo(loc.dtype).max ** -0.5
        logs = (xp.safe_log(xp.maximum(xp.astype(end, loc.dtype), 0.0)) for end in (lower, upper))
        return symmetric_share(xp, xp.log_ndtr, *(standardized(xp, end, loc, log_scale, most) for end in logs))

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:
        """A product of normal densities of log(x), times 1 / x once more, which moves the mean."""
        deviation = xp.hypot(first["scale"], second["scale"])
        shares = [xp.square(scale / deviation) for scale in (second["scale"], first["scale"])]
        scale = first["scale"] * (second["scale"] / deviation)
        return {"loc": first["loc"] * shares[0] + second["loc"] * shares[1] - xp.square(scale), "scale": scale}

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Fit the two moments of the column."""
        mean = column.mean if column.mean > 0 else column.spread
        ratio = column.spread / mean
        scale = math.sqrt(math.log1p(ratio * ratio))
        return {
            "loc_factory": around(math.log(mean) - 0.5 * scale * scale, scale),
            "scale_factory": beyond(scale * LEAST_SPREAD, scale),
        }
