"""The gamma input layer: densities of numbers of at least 0.

>>> from plica.symbolic.scope import Scope
>>> sorted(GammaLayer(Scope([0]), 4).params)
['concentration', 'rate']
"""

from typing import final

from plica.symbolic.domains import NONNEGATIVE_REALS
from plica.symbolic.layers.declared import UnivariateLayer, setting, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import times
from plica.symbolic.layers.univariate import HALF_LOG_TWO_PI, LEAST, finite, gamma_deviance, inside, positive_normal
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory
from plica.symbolic.semirings import Params


@final
class GammaLayer(UnivariateLayer, name="gamma"):
    """Densities rate^a x^(a - 1) exp(-rate x) / Gamma(a), a the concentration, of one real variable of at least 0.

    At 0 the density of a concentration below 1 is infinite. There the layer has the density at 1.2e-38, the smallest
    normal number of float32.

    The product of two such layers is one, times a constant. Its concentration may be 0 or negative: then its units are
    x^(a - 1) exp(-rate x), and whatever integrates them is NaN.
    """

    concentration: Parameter = unit_parameter(
        positive_normal, "positive numbers, also called shapes; by default the softplus of normal draws, plus 1e-5"
    )
    rate: Parameter = unit_parameter(positive_normal, "positive rates; by default the same")
    factors: int = setting("the number of gamma densities of which each unit is the product, but for a constant", 1)
    domain = NONNEGATIVE_REALS
    normalized = property(lambda self: self.factors == 1)

    @staticmethod
    def log_density(
        xp: Namespace,
        x: Array,
        factors: int,
        concentration: Array,
        rate: Array,
        log_concentration: Array,
        log_rate: Array,
    ) -> Array:
        if factors == 1:
            density = _log_density(xp, x, concentration, rate, log_concentration, log_rate)
        else:
            has_integral = xp.greater(concentration, 0.0)
            some, log_some = xp.where(has_integral, concentration, 1.0), xp.where(has_integral, log_concentration, 0.0)
            density = _log_density(xp, x, some, rate, log_some, log_rate)
            density = xp.where(has_integral, density, _log_power(xp, x, concentration, rate))
        return xp.where(xp.isinf(x), float("-inf"), density)

    @staticmethod
    def log_total(xp: Namespace, factors: int, concentration: Array) -> Array | None:
        if factors == 1:
            return None
        return xp.where(xp.greater(concentration, 0.0), 0.0 * concentration, float("nan"))

    @staticmethod
    def log_maximum(
        xp: Namespace, mode: Array, concentration: Array, rate: Array, log_concentration: Array, log_rate: Array
    ) -> Array:
        return _log_density(xp, mode, concentration, rate, log_concentration, log_rate)

    mode = staticmethod(lambda xp, concentration, rate: xp.maximum(concentration - 1.0, 0.0) / rate)
    expectation = staticmethod(lambda concentration, rate: concentration / rate)
    variance = staticmethod(lambda concentration, rate: concentration / rate / rate)

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, concentration: Array, rate: Array) -> Array:
        level = inside(xp, xp.astype(uniforms, rate.dtype))  # the quantile of level 0 is 0, where most densities are 0
        return finite(xp, xp.gammaincinv(concentration, level) / rate)

    @staticmethod
    def interval(xp: Namespace, lower: Array, upper: Array, concentration: Array, rate: Array) -> Array:
        a = concentration
        low, high = (rate * xp.maximum(finite(xp, xp.astype(end, a.dtype)), 0.0) for end in (lower, upper))
        # right tails where both ends are on the right: left tails near 1 would cancel
        right = xp.gammaincc(a, low) - xp.gammaincc(a, high)
        share = xp.where(xp.greater(low, a), right, xp.gammainc(a, high) - xp.gammainc(a, low))
        return xp.where(xp.greater(high, low), xp.clip(share, 0.0, 1.0), 0.0)

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:  # noqa: ARG004
        """Rates and powers of x add."""
        concentration = first["concentration"] + second["concentration"] - 1.0
        return {"concentration": concentration, "rate": first["rate"] + second["rate"]}

    product_settings = staticmethod(lambda first, second: {"factors": first.factors + second.factors})

    @staticmethod
    def anchor(xp: Namespace, params: Params) -> Array:
        """The mean, or that of an exponential density where there is none."""
        concentration = params["concentration"]
        return xp.where(xp.greater(concentration, 0.0), concentration, 1.0) / params["rate"]

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Fit the two moments of the column; the mean is a ratio of the two parameters, and spread like the column."""
        mean = column.mean if column.mean > 0 else column.spread
        ratio = mean / column.spread
        width = min(1.0 / ratio, 1.0)
        return {
            "concentration_factory": times(ratio * ratio, width),
            "rate_factory": times(ratio / column.spread, width),
        }


def _log_density(xp: Namespace, x: Array, a: Array, rate: Array, log_a: Array, log_rate: Array) -> Array:
    """The logarithm of the density at finite numbers."""
    x = finite(xp, x)
    log_x = xp.log(xp.where(xp.equal(x, 0.0), LEAST, x))
    # with u = rate x: log u^a e^-u / Gamma(a) = (a log(u / a) - u + a) + log(a / 2 pi) / 2 - stirling_error(a)
    density = gamma_deviance(xp, a, log_x + log_rate - log_a, rate * x - a) - log_x
    density = density + (0.5 * log_a - HALF_LOG_TWO_PI - xp.stirling_error(a))
    return xp.where(xp.logical_and(xp.equal(x, 0.0), xp.greater(a, 1.0)), float("-inf"), density)


def _log_power(xp: Namespace, x: Array, a: Array, rate: Array) -> Array:
    """The logarithm of x^(a - 1) exp(-rate x) at finite numbers, for a of at most 0."""
    x = finite(xp, x)
    return (a - 1.0) * xp.log(xp.where(xp.equal(x, 0.0), LEAST, x)) - rate * x
