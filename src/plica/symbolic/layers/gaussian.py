"""The Gaussian input layer: one normal distribution per unit.

>>> from plica.symbolic.scope import Scope
>>> sorted(GaussianLayer(Scope([0]), 4).params)
['mean', 'stddev']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.base import InputLayer, assign, at_most_one, choose_parameter, input_scope, positive
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.layers.univariate import (
    LEAST_SPREAD,
    positive_normal,
    rows,
    standardized,
    symmetric_share,
)
from plica.symbolic.parameters import (
    Array,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class GaussianLayer(InputLayer):
    """Normal densities of one real variable.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        mean: `(K,)` means; standard normal draws by default.
        stddev: `(K,)` positive standard deviations; by default the softplus of normal draws, plus `MIN_STDDEV`.
        log_partition: `(K,)` logarithms of what each density integrates to; 0 where it is left out.
        mean_factory: Makes the means from their shape.
        stddev_factory: Makes the standard deviations from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    mean: Parameter
    stddev: Parameter
    log_partition: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        mean: ParameterLike | None = None,
        stddev: ParameterLike | None = None,
        log_partition: ParameterLike | None = None,
        mean_factory: ParameterFactory | None = None,
        stddev_factory: ParameterFactory | None = None,
    ) -> None:
        name = "GaussianLayer"
        at_most_one(name, mean=mean, mean_factory=mean_factory)
        at_most_one(name, stddev=stddev, stddev_factory=stddev_factory)
        units = positive(name, "num_output_units", num_output_units)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units)
        assign(
            self,
            mean=choose_parameter(name, "mean", (units,), mean, mean_factory, normal),
            stddev=choose_parameter(name, "stddev", (units,), stddev, stddev_factory, positive_normal),
            log_partition=None
            if log_partition is None
            else choose_parameter(name, "log_partition", (units,), log_partition, normal),
        )

    @property
    def domain(self) -> Domain:
        """The variable is real."""
        return REALS

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside parameters."""
        return {"scope": self.scope, "num_output_units": self.num_output_units}

    @property
    def params(self) -> dict[str, Parameter]:
        """Mean, stddev and, where the layer has one, log_partition."""
        found = {"mean": self.mean, "stddev": self.stddev, "log_partition": self.log_partition}
        return {name: parameter for name, parameter in found.items() if parameter is not None}


def _body(xp: Namespace, semiring: Semiring, layer: GaussianLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    mean, log_stddev = (xp.expand_dims(one, axis=1) for one in (params["mean"], params.log(xp, "stddev")))  # (F, 1, K)
    density = xp.log_normal(xp.astype(x, mean.dtype), mean, log_stddev)
    if "log_partition" in params:
        density = density + xp.expand_dims(params["log_partition"], axis=1)
    return semiring.from_log(xp, density)


def _log_peak(xp: Namespace, params: Params) -> Array:
    """The logarithm of the density at its mean, `(F, 1, K)`."""
    peak = -params.log(xp, "stddev") - 0.5 * math.log(2.0 * math.pi)
    return xp.expand_dims(peak + params["log_partition"] if "log_partition" in params else peak, axis=1)


def _maximum(xp: Namespace, semiring: Semiring, layer: GaussianLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_peak(xp, params))


def _marginal(xp: Namespace, semiring: Semiring, layer: GaussianLayer, params: Params) -> Value:
    if layer.log_partition is not None:
        return semiring.from_log(xp, xp.expand_dims(params["log_partition"], axis=1))
    mean = params["mean"]
    return semiring.one(xp, (mean.shape[0], 1, layer.num_output_units), mean.dtype)


def _sample(xp: Namespace, layer: GaussianLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    mean, stddev = (
        xp.take_along_axis(params[name], units, axis=-1, nonnegative=True) for name in ("mean", "stddev")
    )  # (F, B)
    # x = m + s * sqrt(2) * erfinv(2 u - 1); u = 0, or a u that rounds to 1, is moved to the next number inside
    centred = 2.0 * xp.squeeze(uniforms, axis=-1) - 1.0
    below_one = 1.0 - 0.5 * float(xp.finfo(centred.dtype).eps)
    inside = xp.clip(centred, -below_one, below_one)
    return xp.expand_dims(mean + stddev * (math.sqrt(2.0) * xp.erfinv(inside)), axis=-1)


def _mode(xp: Namespace, layer: GaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["mean"], axis=-1)  # (F, K, 1)


def _mean(xp: Namespace, layer: GaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(params["mean"], axis=-1)


def _variance(xp: Namespace, layer: GaussianLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.square(params["stddev"]), axis=-1)


def _interval(
    xp: Namespace, semiring: Semiring, layer: GaussianLayer, params: Params, low: Array, high: Array
) -> Value:
    mean, log_stddev = rows(xp, params["mean"], params.log(xp, "stddev"))
    most = xp.finfo(mean.dtype).max ** -0.5  # of its square
    low, high = (standardized(xp, end, mean, log_stddev, most) for end in (low, high))
    share = semiring.from_log(xp, symmetric_share(xp, xp.log_ndtr, low, high))
    return semiring.product(xp, share, _marginal(xp, semiring, layer, params))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Densities spread like their column, learned in units of its spread whatever its scale."""
    return {
        "mean_factory": around(column.mean, column.spread),
        "stddev_factory": beyond(column.spread * LEAST_SPREAD, column.spread),
    }


ROW = InputRow(
    GaussianLayer,
    body=_body,
    marginal=_marginal,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    distribution=Distribution("gaussian", GaussianLayer, ("mean", "stddev"), fitted=_fitted),
)
