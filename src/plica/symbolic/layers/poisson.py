"""The Poisson input layer: counts without a bound, one rate per unit.

    P(x) = r^x exp(-r) / x!,  x = 0, 1, 2, ...

>>> from plica.symbolic.scope import Scope
>>> layer = PoissonLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["rate"].shape
(PoissonLayer(scope={2}, 8), Domain('counts'), (8,))
"""

from typing import final

from plica.symbolic.domains import COUNTS
from plica.symbolic.layers import closed_form as forms
from plica.symbolic.layers import counts
from plica.symbolic.layers.declared import UnivariateLayer, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import beyond
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory

MIN_RATE = 1e-5  # of the default


@final
class PoissonLayer(UnivariateLayer, name="poisson"):
    """Distributions over the counts 0, 1, 2, ... of one variable."""

    rate: Parameter = unit_parameter(
        beyond(MIN_RATE, 1.0),
        "positive rates, which are the means; by default the softplus of normal draws, plus `MIN_RATE`",
    )
    domain = COUNTS
    closed_form = forms.ratio("rate", forms.mean_of)

    log_density = staticmethod(lambda xp, x, rate, log_rate: counts.log_poisson(xp, x, rate, log_rate))
    mode = staticmethod(lambda xp, rate: xp.floor(rate))
    expectation = staticmethod(lambda rate: rate)
    variance = staticmethod(lambda rate: rate)

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, rate: Array) -> Array:
        rate, level = xp.astype(rate, xp.float64), xp.astype(uniforms, xp.float64)
        deviation = xp.sqrt(rate)
        skewness = 1.0 / xp.maximum(deviation, 1e-150)
        return counts.quantile(xp, lambda x: xp.gammaincc(x + 1.0, rate), level, rate, deviation, skewness)

    @staticmethod
    def log_interval(xp: Namespace, lower: Array, upper: Array, rate: Array, log_rate: Array) -> Array:
        rate, log_rate = xp.astype(rate, xp.float64), xp.astype(log_rate, xp.float64)  # tails are subtracted
        return counts.log_between(
            xp,
            counts.whole_ends(xp, lower, upper, rate.dtype),
            below=lambda x: xp.gammaincc(x + 1.0, rate),
            above=lambda x: xp.gammainc(x, rate),
            log_mass=lambda x: counts.log_poisson(xp, x, rate, log_rate),
            mean=rate,
        )

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Rates like the mean of a column."""
        return {"rate_factory": beyond(MIN_RATE, max(column.mean, MIN_RATE))}
