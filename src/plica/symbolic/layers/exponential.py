"""The exponential input layer: how long one waits for what comes at a constant rate.

>>> from plica.symbolic.scope import Scope
>>> ExponentialLayer(Scope([0]), 4).domain
Domain('real numbers of at least 0')
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import NONNEGATIVE_REALS, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import beyond
from plica.symbolic.layers.univariate import (
    LEAST_SPREAD,
    UnivariateLayer,
    finite,
    log_difference,
    of_units,
    positive_normal,
    rows,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class ExponentialLayer(UnivariateLayer):
    """Densities rate * exp(-rate * x) of one real variable of at least 0.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        rate: `(K,)` positive rates; by default the softplus of normal draws, plus 1e-5.
        rate_factory: Makes the rates from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    rate: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("rate",)

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        rate: ParameterLike | None = None,
        rate_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(scope, num_output_units, rate=(rate, rate_factory, positive_normal))

    @property
    def domain(self) -> Domain:
        """The variable is real and at least 0."""
        return NONNEGATIVE_REALS


def _body(
    xp: Namespace,
    semiring: Semiring,
    layer: ExponentialLayer,  # noqa: ARG001
    params: Params,
    x: Array,
) -> Value:
    rate, log_rate = rows(xp, params["rate"], params.log(xp, "rate"))
    density = log_rate - rate * finite(xp, xp.astype(x, rate.dtype))
    return semiring.from_log(xp, xp.where(xp.isinf(x), float("-inf"), density))


def _maximum(xp: Namespace, semiring: Semiring, layer: ExponentialLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, *rows(xp, params.log(xp, "rate")))


def _mode(xp: Namespace, layer: ExponentialLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.zeros_like(params["rate"]), axis=-1)


def _sample(
    xp: Namespace,
    layer: ExponentialLayer,  # noqa: ARG001
    params: Params,
    units: Array,
    uniforms: Array,
) -> Array:
    (rate,) = of_units(xp, params, units, "rate")
    return finite(xp, -xp.log1p(-uniforms) / rate)


def _mean(xp: Namespace, layer: ExponentialLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(1.0 / params["rate"], axis=-1)


def _variance(xp: Namespace, layer: ExponentialLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.square(1.0 / params["rate"]), axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: ExponentialLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    (rate,) = rows(xp, params["rate"])
    # log(exp(-rate * low) - exp(-rate * high))
    more, less = (-finite(xp, rate * xp.maximum(finite(xp, xp.astype(end, rate.dtype)), 0.0)) for end in (low, high))
    return semiring.from_log(xp, log_difference(xp, more, less))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Rates around the reciprocal of the mean, where it is positive."""
    rate = 1.0 / (column.mean if column.mean > 0 else column.spread)
    assert math.isfinite(rate), "columns that a dtype cannot hold are refused"
    return {"rate_factory": beyond(rate * LEAST_SPREAD, rate)}


ROW = InputRow(
    ExponentialLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("exponential", ExponentialLayer, ("rate",), fitted=_fitted),
)
