"""The Poisson input layer: counts without a bound, one rate per unit.

    P(x) = r^x exp(-r) / x!,  x = 0, 1, 2, ...

>>> from plica.symbolic.scope import Scope
>>> layer = PoissonLayer(Scope([2]), 8)
>>> layer, layer.domain, layer.params["rate"].shape
(PoissonLayer(scope={2}, 8), Domain('counts'), (8,))
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from plica.symbolic.domains import COUNTS, Domain
from plica.symbolic.layers import counts
from plica.symbolic.layers.base import (
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    fields_of,
    input_scope,
    positive,
)
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import beyond
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

MIN_RATE = 1e-5  # of the default


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class PoissonLayer(InputLayer):
    """Distributions over the counts 0, 1, 2, ... of one variable.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        rate: `(K,)` positive rates, which are the means; by default the softplus of normal draws, plus `MIN_RATE`.
        rate_factory: Makes the rates from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give the parameter.
    """

    scope: Scope
    num_output_units: int
    rate: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        rate: ParameterLike | None = None,
        rate_factory: ParameterFactory | None = None,
    ) -> None:
        name = "PoissonLayer"
        at_most_one(name, rate=rate, rate_factory=rate_factory)
        units = positive(name, "num_output_units", num_output_units)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units)
        assign(self, rate=choose_parameter(name, "rate", (units,), rate, rate_factory, beyond(MIN_RATE, 1.0)))

    @property
    def domain(self) -> Domain:
        """Counts without a bound."""
        return COUNTS

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside the rate."""
        return fields_of(self, "scope", "num_output_units")

    @property
    def params(self) -> dict[str, Parameter]:
        """The rate."""
        return {"rate": self.rate}


def _rates(xp: Namespace, params: Params) -> tuple[Array, Array]:
    """The rates and their logarithms, `(F, 1, K)`."""
    return xp.expand_dims(params["rate"], axis=1), xp.expand_dims(params.log(xp, "rate"), axis=1)


def _body(xp: Namespace, semiring: Semiring, layer: PoissonLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    rate, log_rate = _rates(xp, params)
    return semiring.from_log(xp, counts.log_poisson(xp, xp.astype(x, rate.dtype), rate, log_rate))


def _maximum(xp: Namespace, semiring: Semiring, layer: PoissonLayer, params: Params) -> Value:  # noqa: ARG001
    rate, log_rate = _rates(xp, params)
    return semiring.from_log(xp, counts.log_poisson(xp, xp.floor(rate), rate, log_rate))


def _mode(xp: Namespace, layer: PoissonLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.floor(params["rate"]), axis=-1)


def _mean(xp: Namespace, layer: PoissonLayer, params: Params) -> Array:  # noqa: ARG001
    """The mean, which is the variance too."""
    return xp.expand_dims(params["rate"], axis=-1)


def _sample(xp: Namespace, layer: PoissonLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    chosen = xp.take_along_axis(params["rate"], units, axis=-1, nonnegative=True)
    rate, level = (xp.astype(one, xp.float64) for one in (xp.expand_dims(chosen, axis=-1), uniforms))
    deviation = xp.sqrt(rate)
    skewness = 1.0 / xp.maximum(deviation, 1e-150)
    return counts.quantile(xp, lambda x: xp.gammaincc(x + 1.0, rate), level, rate, deviation, skewness)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: PoissonLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    # in float64: tails are subtracted
    rate, log_rate = (xp.astype(one, xp.float64) for one in _rates(xp, params))
    found = counts.log_between(
        xp,
        counts.whole_ends(xp, low, high, rate.dtype),
        below=lambda x: xp.gammaincc(x + 1.0, rate),
        above=lambda x: xp.gammainc(x, rate),
        log_mass=lambda x: counts.log_poisson(xp, x, rate, log_rate),
        mean=rate,
    )
    return semiring.from_log(xp, xp.astype(found, params["rate"].dtype))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Rates like the mean of a column."""
    return {"rate_factory": beyond(MIN_RATE, max(column.mean, MIN_RATE))}


ROW = InputRow(
    PoissonLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_mean,
    interval=_interval,
    distribution=Distribution("poisson", PoissonLayer, ("rate",), fitted=_fitted),
)
