"""The Laplace input layer: densities that fall off exponentially on both sides.

>>> from plica.symbolic.scope import Scope
>>> sorted(LaplaceLayer(Scope([0]), 4).params)
['loc', 'scale']
"""

import math
from typing import final

from plica.symbolic.domains import REALS
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import LEAST_SPREAD, inside, positive_normal, standardized, symmetric_share
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal


@final
class LaplaceLayer(UnivariateLayer, name="laplace"):
    """Densities exp(-abs(x - loc) / scale) / (2 scale) of one real variable."""

    loc: Parameter = unit_parameter(normal, "centres; standard normal draws by default")
    scale: Parameter = unit_parameter(
        positive_normal, "positive scales; by default the softplus of normal draws, plus 1e-5"
    )
    domain = REALS

    @staticmethod
    def log_density(xp: Namespace, x: Array, loc: Array, log_scale: Array) -> Array:
        distance = xp.abs(standardized(xp, x, loc, log_scale))
        # beyond, second derivatives are no numbers of the dtype, and the density is 0
        largest = float(xp.finfo(loc.dtype).max)
        most = 0.2 * largest * xp.clip(xp.exp(2.0 * log_scale), largest**-0.25, 1.0)
        far = xp.logical_or(xp.isinf(x), xp.greater_equal(distance, most))
        return xp.where(far, float("-inf"), -distance - log_scale - math.log(2.0))

    log_maximum = staticmethod(lambda log_scale: -log_scale - math.log(2.0))
    mode = staticmethod(lambda loc: loc)
    expectation = staticmethod(lambda loc: loc)
    variance = staticmethod(lambda xp, scale: 2.0 * xp.square(scale))

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, loc: Array, scale: Array) -> Array:
        centred = 2.0 * inside(xp, uniforms) - 1.0
        return loc - scale * xp.sign(centred) * xp.log1p(-xp.abs(centred))

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, loc: Array, log_scale: Array) -> Array:
        def log_left(standard: Array) -> Array:
            left = xp.less(standard, 0.0)
            beyond_half = xp.log1p(-0.5 * xp.exp(-xp.where(left, 0.0, standard)))
            return xp.where(left, standard - math.log(2.0), beyond_half)

        most = xp.finfo(loc.dtype).max ** -0.25
        ends = (standardized(xp, end, loc, log_scale, most) for end in (lower, upper))
        return symmetric_share(xp, log_left, *ends)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        return {
            "loc_factory": around(column.mean, column.spread),
            "scale_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
        }
