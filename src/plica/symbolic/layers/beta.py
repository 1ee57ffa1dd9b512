"""The beta input layer: densities of numbers from 0 to 1.

>>> from plica.symbolic.scope import Scope
>>> sorted(BetaLayer(Scope([0]), 4).params)
['alpha', 'beta']
"""

from typing import final

from plica.symbolic.domains import UNIT_INTERVAL
from plica.symbolic.layers.declared import UnivariateLayer, setting, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import times
from plica.symbolic.layers.univariate import HALF_LOG_TWO_PI, LEAST, gamma_deviance, inside, positive_normal
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory
from plica.symbolic.semirings import Params

_STEP = 2.0**-24  # from 1 down to the next number of float32


@final
class BetaLayer(UnivariateLayer, name="beta"):
    """Densities x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta) of one variable from 0 to 1.

    At 0 and 1 a density may be infinite. There the layer has the density at 1.2e-38 and at 1 - 6e-8, the nearest normal
    numbers of float32.

    The product of two such layers is one, times a constant. A concentration of it may be 0 or negative: then its units
    are x^(alpha - 1) (1 - x)^(beta - 1), and whatever integrates them is NaN.
    """

    alpha: Parameter = unit_parameter(
        positive_normal, "positive concentrations at 1; by default the softplus of normal draws, plus 1e-5"
    )
    beta: Parameter = unit_parameter(positive_normal, "positive concentrations at 0; by default the same")
    factors: int = setting("the number of beta densities of which each unit is the product, but for a constant", 1)
    domain = UNIT_INTERVAL
    normalized = property(lambda self: self.factors == 1)

    @staticmethod
    def log_density(
        xp: Namespace, x: Array, factors: int, alpha: Array, beta: Array, log_alpha: Array, log_beta: Array
    ) -> Array:
        if factors == 1:
            return _log_density(xp, x, alpha, beta, log_alpha, log_beta)
        has_integral = _has_integral(xp, alpha, beta)
        some = [xp.where(has_integral, number, 1.0) for number in (alpha, beta)]
        logs = [xp.where(has_integral, log, 0.0) for log in (log_alpha, log_beta)]
        density = _log_density(xp, x, *some, *logs)
        return xp.where(has_integral, density, _log_powers(xp, x, alpha, beta))

    @staticmethod
    def log_total(xp: Namespace, factors: int, alpha: Array, beta: Array) -> Array | None:
        if factors == 1:
            return None
        return xp.where(_has_integral(xp, alpha, beta), 0.0 * alpha, float("nan"))

    @staticmethod
    def mode(xp: Namespace, alpha: Array, beta: Array, log_alpha: Array, log_beta: Array) -> Array:
        return _peak(xp, alpha, beta, log_alpha, log_beta)[0]

    @staticmethod
    def log_maximum(xp: Namespace, alpha: Array, beta: Array, log_alpha: Array, log_beta: Array) -> Array:
        return _peak(xp, alpha, beta, log_alpha, log_beta)[1]

    expectation = staticmethod(lambda alpha, beta: alpha / (alpha + beta))

    @staticmethod
    def variance(alpha: Array, beta: Array) -> Array:
        total = alpha + beta
        return alpha / total * (beta / total) / (total + 1.0)

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, alpha: Array, beta: Array) -> Array:
        info = xp.finfo(alpha.dtype)
        draws = xp.betaincinv(alpha, beta, inside(xp, xp.astype(uniforms, alpha.dtype)))
        # rounding may give an end, where the density is 0 if the exponent there is positive
        least = xp.where(xp.greater(alpha, 1.0), float(info.smallest_normal), 0.0)
        most = xp.where(xp.greater(beta, 1.0), 1.0 - 0.5 * float(info.eps), 1.0)
        return xp.minimum(xp.maximum(draws, least), most)

    @staticmethod
    def interval(xp: Namespace, lower: Array, upper: Array, alpha: Array, beta: Array) -> Array:
        a, b = alpha, beta
        low, high = (xp.clip(xp.astype(end, a.dtype), 0.0, 1.0) for end in (lower, upper))
        # right tails where both ends are on the right: left tails near 1 would cancel
        right = xp.betaincc(a, b, low) - xp.betaincc(a, b, high)
        share = xp.where(xp.greater(low * b, (1.0 - low) * a), right, xp.betainc(a, b, high) - xp.betainc(a, b, low))
        return xp.where(xp.greater(high, low), xp.clip(share, 0.0, 1.0), 0.0)

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:  # noqa: ARG004
        """Powers add."""
        return {name: first[name] + second[name] - 1.0 for name in ("alpha", "beta")}

    product_settings = staticmethod(lambda first, second: {"factors": first.factors + second.factors})

    @staticmethod
    def anchor(xp: Namespace, params: Params) -> Array:
        """The mean, or the middle where there is none."""
        has_integral = _has_integral(xp, params["alpha"], params["beta"])
        alpha, beta = (xp.where(has_integral, params[name], 1.0) for name in ("alpha", "beta"))
        return alpha / (alpha + beta)

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """By the two moments of the column, where it lies between 0 and 1."""
        mean = min(max(column.mean, 1e-3), 1.0 - 1e-3)
        spread = max(column.spread, 1e-6)  # its square is far from underflow
        total = max(mean * (1.0 - mean) / spread**2 - 1.0, 0.1)
        width = min(spread / min(mean, 1.0 - mean), 1.0)
        return {"alpha_factory": times(mean * total, width), "beta_factory": times((1.0 - mean) * total, width)}


def _logs_of(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """The logarithms of x and of 1 - x, at 0 and 1 those of the nearest normal numbers of float32."""
    log_x = xp.log(xp.where(xp.equal(x, 0.0), LEAST, x))
    return log_x, xp.log1p(-xp.where(xp.equal(x, 1.0), 1.0 - _STEP, x))


def _log_density(xp: Namespace, x: Array, a: Array, b: Array, log_a: Array, log_b: Array) -> Array:
    log_x, log_rest = _logs_of(xp, x)
    total = a + b
    log_total = xp.log(total)
    # with n = a + b: log x^a (1 - x)^b / B = a log(x n / a) + b log((1 - x) n / b) + ..., as for a gamma density
    away = x * b - (1.0 - x) * a  # n x - a
    density = gamma_deviance(xp, a, log_x + log_total - log_a, away)
    density = density + gamma_deviance(xp, b, log_rest + log_total - log_b, -away)
    scale = 0.5 * (log_a + log_b - log_total) - HALF_LOG_TWO_PI
    scale = scale + xp.stirling_error(total) - xp.stirling_error(a) - xp.stirling_error(b)
    density = density + scale - log_x - log_rest
    at_least, at_most = xp.equal(x, 0.0), xp.equal(x, 1.0)
    empty = xp.logical_or(xp.logical_and(at_least, xp.greater(a, 1.0)), xp.logical_and(at_most, xp.greater(b, 1.0)))
    return xp.where(empty, float("-inf"), density)


def _log_powers(xp: Namespace, x: Array, a: Array, b: Array) -> Array:
    """The logarithm of x^(a - 1) (1 - x)^(b - 1); -inf at an end where one power is positive."""
    log_x, log_rest = _logs_of(xp, x)
    at_least, at_most = xp.equal(x, 0.0), xp.equal(x, 1.0)
    empty = xp.logical_or(xp.logical_and(at_least, xp.greater(a, 1.0)), xp.logical_and(at_most, xp.greater(b, 1.0)))
    return xp.where(empty, float("-inf"), (a - 1.0) * log_x + (b - 1.0) * log_rest)


def _has_integral(xp: Namespace, alpha: Array, beta: Array) -> Array:
    return xp.logical_and(xp.greater(alpha, 0.0), xp.greater(beta, 0.0))


def _peak(xp: Namespace, alpha: Array, beta: Array, *logarithms: Array) -> tuple[Array, Array]:
    """The mode, and the logarithm of the density there."""
    hill = xp.logical_and(xp.greater(alpha, 1.0), xp.greater(beta, 1.0))
    peak = xp.where(hill, (alpha - 1.0) / xp.where(hill, alpha + beta - 2.0, 1.0), 0.0)
    most = _log_density(xp, peak, alpha, beta, *logarithms)
    for end in (xp.zeros_like(peak), xp.ones_like(peak)):
        density = _log_density(xp, end, alpha, beta, *logarithms)
        peak, most = xp.where(xp.greater(density, most), end, peak), xp.maximum(density, most)
    return peak, most
