"""The beta input layer: densities of numbers from 0 to 1.

>>> from plica.symbolic.scope import Scope
>>> sorted(BetaLayer(Scope([0]), 4).params)
['alpha', 'beta']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import UNIT_INTERVAL, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import times
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST,
    UnivariateLayer,
    deviance,
    inside,
    of_units,
    positive_normal,
    rows,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

_STEP = 2.0**-24  # below 1, the next number of float32


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class BetaLayer(UnivariateLayer):
    """Densities x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta) of one variable from 0 to 1.

    At 0 and 1, where a density may be infinite, it is that at 1.2e-38 and at 1 - 6e-8, the nearest normal numbers of
    float32.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        alpha: `(K,)` positive concentrations at 1; by default the softplus of normal draws, plus 1e-5.
        beta: `(K,)` positive concentrations at 0; by default the same.
        alpha_factory: Makes `alpha` from its shape.
        beta_factory: Makes `beta` from its shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    alpha: Parameter
    beta: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("alpha", "beta")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        alpha: ParameterLike | None = None,
        beta: ParameterLike | None = None,
        alpha_factory: ParameterFactory | None = None,
        beta_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            alpha=(alpha, alpha_factory, positive_normal),
            beta=(beta, beta_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable lies between 0 and 1, which it may be."""
        return UNIT_INTERVAL


def _log_density(xp: Namespace, params: Params, x: Array) -> Array:
    """The density at `x (F, B, 1 or K)`."""
    a, b = rows(xp, params["alpha"], params["beta"])
    log_a, log_b = rows(xp, params.log(xp, "alpha"), params.log(xp, "beta"))
    x = xp.astype(x, a.dtype)
    log_x = xp.log(xp.where(xp.equal(x, 0.0), LEAST, x))
    log_rest = xp.log1p(-xp.where(xp.equal(x, 1.0), 1.0 - _STEP, x))
    total = a + b
    log_total = xp.log(total)
    # with n = a + b: log x^a (1 - x)^b / B = a log(x n / a) + b log((1 - x) n / b) + ..., as for a gamma density
    away = x * b - (1.0 - x) * a  # n x - a
    density = deviance(xp, a, log_x + log_total - log_a, away) + deviance(xp, b, log_rest + log_total - log_b, -away)
    scale = 0.5 * (log_a + log_b - log_total) - HALF_LOG_TWO_PI
    scale = scale + xp.stirling_error(total) - xp.stirling_error(a) - xp.stirling_error(b)
    density = density + scale - log_x - log_rest
    empty = xp.logical_or(
        xp.logical_and(xp.equal(x, 0.0), xp.greater(a, 1.0)), xp.logical_and(xp.equal(x, 1.0), xp.greater(b, 1.0))
    )
    return xp.where(empty, float("-inf"), density)


def _body(xp: Namespace, semiring: Semiring, layer: BetaLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_density(xp, params, x))


def _peaks(xp: Namespace, params: Params) -> tuple[Array, Array]:
    """Where the density is largest, and the logarithm of the density there, `(F, K)` each."""
    alpha, beta = params["alpha"], params["beta"]
    hill = xp.logical_and(xp.greater(alpha, 1.0), xp.greater(beta, 1.0))
    place = xp.where(hill, (alpha - 1.0) / xp.where(hill, alpha + beta - 2.0, 1.0), 0.0)
    most = None
    for one in (xp.zeros_like(place), xp.ones_like(place)):
        if most is None:
            most = xp.squeeze(_log_density(xp, params, *rows(xp, place)), axis=1)
        density = xp.squeeze(_log_density(xp, params, *rows(xp, one)), axis=1)
        place, most = xp.where(xp.greater(density, most), one, place), xp.maximum(density, most)
    return place, most


def _maximum(xp: Namespace, semiring: Semiring, layer: BetaLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, *rows(xp, _peaks(xp, params)[1]))


def _mode(xp: Namespace, layer: BetaLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_peaks(xp, params)[0], axis=-1)


def _sample(xp: Namespace, layer: BetaLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    alpha, beta = of_units(xp, params, units, "alpha", "beta")
    info = xp.finfo(alpha.dtype)
    found = xp.betaincinv(alpha, beta, inside(xp, xp.astype(uniforms, alpha.dtype)))
    # rounding may lead to an end, where the density is 0 if the exponent there is positive
    least = xp.where(xp.greater(alpha, 1.0), float(info.smallest_normal), 0.0)
    most = xp.where(xp.greater(beta, 1.0), 1.0 - 0.5 * float(info.eps), 1.0)
    return xp.minimum(xp.maximum(found, least), most)


def _mean(xp: Namespace, layer: BetaLayer, params: Params) -> Array:  # noqa: ARG001
    alpha, beta = params["alpha"], params["beta"]
    return xp.expand_dims(alpha / (alpha + beta), axis=-1)


def _variance(xp: Namespace, layer: BetaLayer, params: Params) -> Array:  # noqa: ARG001
    alpha, beta = params["alpha"], params["beta"]
    total = alpha + beta
    return xp.expand_dims(alpha / total * (beta / total) / (total + 1.0), axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: BetaLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    a, b = rows(xp, params["alpha"], params["beta"])
    low, high = (xp.clip(xp.astype(end, a.dtype), 0.0, 1.0) for end in (low, high))
    # right tails where both ends are on the right: what is tiny there is no difference of what is about 1
    right = xp.betaincc(a, b, low) - xp.betaincc(a, b, high)
    share = xp.where(xp.greater(low * b, (1.0 - low) * a), right, xp.betainc(a, b, high) - xp.betainc(a, b, low))
    return semiring.from_linear(xp, xp.where(xp.greater(high, low), xp.clip(share, 0.0, 1.0), 0.0))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """By the two moments of the column, where it lies between 0 and 1."""
    mean = min(max(column.mean, 1e-3), 1.0 - 1e-3)
    spread = max(column.spread, 1e-6)  # whose square is far from underflow
    total = max(mean * (1.0 - mean) / spread**2 - 1.0, 0.1)
    width = min(spread / min(mean, 1.0 - mean), 1.0)
    return {"alpha_factory": times(mean * total, width), "beta_factory": times((1.0 - mean) * total, width)}


ROW = InputRow(
    BetaLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("beta", BetaLayer, ("alpha", "beta"), fitted=_fitted),
)
