"""The exponential input layer: waiting times of events of a constant rate.

>>> from plica.symbolic.scope import Scope
>>> ExponentialLayer(Scope([0]), 4).domain
Domain('real numbers of at least 0')
"""

import math
from operator import truediv
from typing import final

from plica.symbolic.domains import NONNEGATIVE_REALS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import beyond
from plica.symbolic.layers.univariate import LEAST_SPREAD, finite, log_difference, positive_normal
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory
from plica.symbolic.semirings import Params


@final
class ExponentialLayer(UnivariateLayer, name="exponential"):
    """Densities rate * exp(-rate * x) of one real variable of at least 0."""

    rate: Parameter = unit_parameter(
        positive_normal, "positive rates; by default the softplus of normal draws, plus 1e-5"
    )
    domain = NONNEGATIVE_REALS
    closed_form = forms.ratio("rate", truediv)

    @staticmethod
    def log_density(xp: Namespace, x: Array, rate: Array, log_rate: Array) -> Array:
        return xp.where(xp.isinf(x), float("-inf"), log_rate - rate * finite(xp, x))

    log_maximum = staticmethod(lambda log_rate: log_rate)
    mode = staticmethod(lambda xp, rate: xp.zeros_like(rate))
    expectation = staticmethod(lambda rate: 1.0 / rate)
    variance = staticmethod(lambda xp, rate: xp.square(1.0 / rate))
    sample = staticmethod(lambda xp, uniforms, rate: finite(xp, -xp.log1p(-uniforms) / rate))

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, rate: Array) -> Array:
        # log(exp(-rate * low) - exp(-rate * high))
        ends = (-finite(xp, rate * xp.maximum(finite(xp, xp.astype(end, rate.dtype)), 0.0)) for end in (lower, upper))
        return log_difference(xp, *ends)

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:  # noqa: ARG004
        """Rates add."""
        return {"rate": first["rate"] + second["rate"]}

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Rates around the reciprocal of the mean, where it is positive."""
        rate = 1.0 / (column.mean if column.mean > 0 else column.spread)
        assert math.isfinite(rate), "columns that a dtype cannot hold are refused"
        return {"rate_factory": beyond(rate * LEAST_SPREAD, rate)}
