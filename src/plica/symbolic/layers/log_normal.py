"""The log-normal input layer: positive variables whose logarithms are normal.

>>> from plica.symbolic.scope import Scope
>>> sorted(LogNormalLayer(Scope([0]), 4).params)
['loc', 'scale']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.domains import POSITIVE_REALS, Domain
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    HALF_LOG_TWO_PI,
    LEAST_SPREAD,
    UnivariateLayer,
    exp_or_infinity,
    inside,
    of_units,
    positive_normal,
    rows,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class LogNormalLayer(UnivariateLayer):
    """Densities of one positive variable whose logarithm has mean loc and standard deviation scale.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        loc: `(K,)` means of the logarithm; standard normal draws by default.
        scale: `(K,)` positive standard deviations of the logarithm; by default the softplus of normal draws, plus 1e-5.
        loc_factory: Makes the means from their shape.
        scale_factory: Makes the standard deviations from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    loc: Parameter
    scale: Parameter
    parameter_names: ClassVar[tuple[str, ...]] = ("loc", "scale")

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        loc: ParameterLike | None = None,
        scale: ParameterLike | None = None,
        loc_factory: ParameterFactory | None = None,
        scale_factory: ParameterFactory | None = None,
    ) -> None:
        self._assign(
            scope,
            num_output_units,
            loc=(loc, loc_factory, normal),
            scale=(scale, scale_factory, positive_normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is positive."""
        return POSITIVE_REALS


def _body(xp: Namespace, semiring: Semiring, layer: LogNormalLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))
    log_x = xp.log(xp.astype(x, loc.dtype))  # of an infinite one it is infinite, with density 0
    return semiring.from_log(xp, xp.log_normal(log_x, loc, log_scale) - log_x)


def _maximum(xp: Namespace, semiring: Semiring, layer: LogNormalLayer, params: Params) -> Value:  # noqa: ARG001
    loc, scale, log_scale = rows(xp, params["loc"], params["scale"], params.log(xp, "scale"))
    return semiring.from_log(xp, 0.5 * scale * scale - loc - log_scale - HALF_LOG_TWO_PI)


def _positive(xp: Namespace, log_x: Array) -> Array:
    """The exponential, as a positive number of the dtype."""
    info = xp.finfo(log_x.dtype)
    return xp.exp(xp.clip(log_x, math.log(info.smallest_normal) + 0.1, math.log(info.max) - 0.1))


def _mode(xp: Namespace, layer: LogNormalLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(_positive(xp, params["loc"] - xp.square(params["scale"])), axis=-1)


def _sample(
    xp: Namespace,
    layer: LogNormalLayer,  # noqa: ARG001
    params: Params,
    units: Array,
    uniforms: Array,
) -> Array:
    loc, scale = of_units(xp, params, units, "loc", "scale")
    centred = 2.0 * inside(xp, uniforms) - 1.0
    return _positive(xp, loc + scale * (math.sqrt(2.0) * xp.erfinv(centred)))


def _mean(xp: Namespace, layer: LogNormalLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(exp_or_infinity(xp, params["loc"] + 0.5 * xp.square(params["scale"])), axis=-1)


def _variance(xp: Namespace, layer: LogNormalLayer, params: Params) -> Array:  # noqa: ARG001
    square = xp.square(params["scale"])
    # of factors that do not overflow before it does
    power = exp_or_infinity(xp, 2.0 * (params["loc"] + square))
    share = -xp.expm1(-xp.where(xp.isfinite(power), square, 1.0))  # no derivative by it where the other is infinite
    return xp.expand_dims(share * power, axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: LogNormalLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    loc, log_scale = rows(xp, params["loc"], params.log(xp, "scale"))
    most = xp.finfo(loc.dtype).max ** -0.5
    logs = (xp.safe_log(xp.maximum(xp.astype(end, loc.dtype), 0.0)) for end in (low, high))
    ends = (standardized(xp, end, loc, log_scale, most) for end in logs)
    return semiring.from_log(xp, symmetric_share(xp, xp.log_ndtr, *ends))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """By the two moments of the column."""
    mean = column.mean if column.mean > 0 else column.spread
    ratio = column.spread / mean
    scale = math.sqrt(math.log1p(ratio * ratio))
    return {
        "loc_factory": around(math.log(mean) - 0.5 * scale * scale, scale),
        "scale_factory": beyond(scale * LEAST_SPREAD, scale),
    }


ROW = InputRow(
    LogNormalLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("log-normal", LogNormalLayer, ("loc", "scale"), fitted=_fitted),
)
