"""Logistic densities: a distribution that Plica lacks, in a file as it would be one of Plica's."""

import math
from typing import final

from plica.symbolic.domains import REALS
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import inside, positive_normal, standardized, symmetric_share
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal


@final
class LogisticLayer(UnivariateLayer, name="logistic"):
    """Densities exp(-z) / (scale (1 + exp(-z))^2), z = (x - loc) / scale, of one real variable."""

    loc: Parameter = unit_parameter(normal, "centres; standard normal draws by default")
    scale: Parameter = unit_parameter(positive_normal, "positive scales")
    domain = REALS

    @staticmethod
    def log_density(xp: Namespace, x: Array, loc: Array, log_scale: Array) -> Array:
        largest = float(xp.finfo(loc.dtype).max)
        z = standardized(xp, x, loc, log_scale, largest**-0.5)
        far = xp.logical_or(xp.isinf(x), xp.greater_equal(xp.abs(z), 0.9 * math.sqrt(largest)))
        return xp.where(far, -math.inf, -z - log_scale - 2.0 * xp.softplus(-z))

    log_maximum = staticmethod(lambda log_scale: -log_scale - math.log(4.0))
    mode = staticmethod(lambda loc: loc)
    expectation = mode
    variance = staticmethod(lambda xp, scale: xp.square(scale) * (math.pi**2 / 3.0))

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, loc: Array, scale: Array) -> Array:
        share = inside(xp, uniforms)
        return loc + scale * (xp.log(share) - xp.log1p(-share))

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, loc: Array, log_scale: Array) -> Array:
        most = xp.finfo(loc.dtype).max ** -0.25
        ends = (standardized(xp, end, loc, log_scale, most) for end in (lower, upper))
        return symmetric_share(xp, lambda z: -xp.softplus(-z), *ends)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        return {
            "loc_factory": around(column.mean, column.spread),
            "scale_factory": beyond(0.01 * column.spread, 0.5 * column.spread),
        }
