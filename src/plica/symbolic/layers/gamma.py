"""The gamma input layer: densities of numbers of at least 0.

>>> from plica.symbolic.scope import Scope
>>> sorted(GammaLayer(Scope([0]), 4).params)
['concentration', 'rate']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import NONNEGATIVE_REALS, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import times
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST,
    UnivariateLayer,
    deviance,
    finite,
    inside,
    of_units,
    positive_normal,
    rows,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class GammaLayer(UnivariateLayer):
    """Densities rate^a x^(a - 1) exp(-rate x) / Gamma(a), a the concentration, of one real variable of at least 0.

    At 0, where a density of a concentration below 1 is infinite, it is that at 1.2e-38,
    the smallest normal number of float32.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        concentration: `(K,)` positive numbers, also called shapes; by default the softplus of normal draws, plus 1e-5.
        rate: `(K,)` positive rates; by default the same.
        concentration_factory: Makes the concentrations from their shape.
        rate_factory: Makes the rates from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    concentration: Parameter
    rate: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("concentration", "rate")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        concentration: ParameterLike | None = None,
        rate: ParameterLike | None = None,
        concentration_factory: ParameterFactory | None = None,
        rate_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            concentration=(concentration, concentration_factory, positive_normal),
            rate=(rate, rate_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is real and at least 0."""
        return NONNEGATIVE_REALS


def _log_density(xp: Namespace, params: Params, x: Array) -> Array:
    """The density at `x (F, B, 1 or K)`."""
    a, rate, log_a, log_rate = rows(
        xp, params["concentration"], params["rate"], params.log(xp, "concentration"), params.log(xp, "rate")
    )
    x = finite(xp, xp.astype(x, a.dtype))
    log_x = xp.log(xp.where(xp.equal(x, 0.0), LEAST, x))
    # with u = rate x: log u^a e^-u / Gamma(a) = (a log(u / a) - u + a) + log(a / 2 pi) / 2 - stirling_error(a)
    density = deviance(xp, a, log_x + log_rate - log_a, rate * x - a) - log_x
    density = density + (0.5 * log_a - HALF_LOG_TWO_PI - xp.stirling_error(a))
    return xp.where(xp.logical_and(xp.equal(x, 0.0), xp.greater(a, 1.0)), float("-inf"), density)


def _body(xp: Namespace, semiring: Semiring, layer: GammaLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, xp.where(xp.isinf(x), float("-inf"), _log_density(xp, params, x)))


def _peak(xp: Namespace, params: Params) -> Array:
    """Where the density is largest, `(F, K)`."""
    return xp.maximum(params["concentration"] - 1.0, 0.0) / params["rate"]


def _maximum(xp: Namespace, semiring: Semiring, layer: GammaLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_density(xp, params, *rows(xp, _peak(xp, params))))


def _mode(xp: Namespace, layer: GammaLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_peak(xp, params), axis=-1)


def _sample(xp: Namespace, layer: GammaLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    concentration, rate = of_units(xp, params, units, "concentration", "rate")
    level = inside(xp, xp.astype(uniforms, rate.dtype))  # at 0 lies 0, where most densities are 0
    return finite(xp, xp.gammaincinv(concentration, level) / rate)


def _mean(xp: Namespace, layer: GammaLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["concentration"] / params["rate"], axis=-1)


def _variance(xp: Namespace, layer: GammaLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["concentration"] / params["rate"] / params["rate"], axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: GammaLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    a, rate = rows(xp, params["concentration"], params["rate"])
    low, high = (rate * xp.maximum(finite(xp, xp.astype(end, a.dtype)), 0.0) for end in (low, high))
    # right tails where both ends are on the right: what is tiny there is no difference of what is about 1
    right = xp.gammaincc(a, low) - xp.gammaincc(a, high)
    share = xp.where(xp.greater(low, a), right, xp.gammainc(a, high) - xp.gammainc(a, low))
    return semiring.from_linear(xp, xp.where(xp.greater(high, low), xp.clip(share, 0.0, 1.0), 0.0))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """By the two moments of the column: means, which are ratios of the two, learned in units of its spread."""
    mean = column.mean if column.mean > 0 else column.spread
    ratio = mean / column.spread
    width = min(1.0 / ratio, 1.0)
    return {"concentration_factory": times(ratio * ratio, width), "rate_factory": times(ratio / column.spread, width)}


ROW = InputRow(
    GammaLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("gamma", GammaLayer, ("concentration", "rate"), fitted=_fitted),
)
