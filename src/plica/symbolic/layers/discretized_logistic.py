"""The discretized logistic input layer: a logistic density, rounded to the states 0 to C-1 of an ordered variable.

The mass of a state is what the density has within half a unit of it; the first and the last state take the tails too,
so that all masses sum to 1 (Salimans, Karpathy, Chen and Kingma, PixelCNN++, 2017, equation 2).

>>> from plica.symbolic.scope import Scope
>>> layer = DiscretizedLogisticLayer(Scope([2]), 8, num_states=256)
>>> layer, layer.domain, layer.params["scale"].shape
(DiscretizedLogisticLayer(scope={2}, 8), Domain('256 states'), (8,))
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import states
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
from plica.symbolic.layers.rows import normalized_total
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, ParameterLike
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value, Weight

MIN_SCALE = 0.01  # of the default: all of a density is in one or two states then


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DiscretizedLogisticLayer(InputLayer):
    """Distributions over the values 0 to C-1 of one variable, like their neighbours and bell-shaped.

    Args:
        scope: The variable.
        num_output_units: K, the number of distributions.
        num_states: C, the number of values.
        mean: `(K,)` centres of the densities, where a state is 1 wide; by default normal draws, spread like the states.
        scale: `(K,)` positive scales, the standard deviations times sqrt(3)/pi; by default above `MIN_SCALE`, and
            unbounded.
        mean_factory: Makes the centres from their shape.
        scale_factory: Makes the scales from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter.
    """

    scope: Scope
    num_output_units: int
    num_states: int
    mean: Parameter
    scale: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        num_states: int,
        mean: ParameterLike | None = None,
        scale: ParameterLike | None = None,
        mean_factory: ParameterFactory | None = None,
        scale_factory: ParameterFactory | None = None,
    ) -> None:
        name = "DiscretizedLogisticLayer"
        at_most_one(name, mean=mean, mean_factory=mean_factory)
        at_most_one(name, scale=scale, scale_factory=scale_factory)
        units = positive(name, "num_output_units", num_output_units)
        number = positive(name, "num_states", num_states)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, num_states=number)
        middle = 0.5 * (number - 1)
        defaults = _fitted(Column(middle, max(middle, 0.5), 0, number - 1))
        assign(
            self,
            mean=choose_parameter(name, "mean", (units,), mean, mean_factory, defaults["mean_factory"]),
            scale=choose_parameter(name, "scale", (units,), scale, scale_factory, defaults["scale_factory"]),
        )

    @property
    def domain(self) -> Domain:
        """The states, counted from 0."""
        return finite(self.num_states)

    @property
    def config(self) -> dict[str, Any]:
        """The settings beside parameters."""
        return fields_of(self, "scope", "num_output_units", "num_states")

    @property
    def params(self) -> dict[str, Parameter]:
        """Mean and scale."""
        return {"mean": self.mean, "scale": self.scale}


def _log_masses(xp: Namespace, num_states: int, mean: Array, log_scale: Array, x: Array) -> Array:
    """The logarithms of the masses at states x, which broadcast with the parameters.

    With s(z) = 1 / (1 + exp(-z)), and a - b = 1 / scale the width of a state: s(a) - s(b) = s(a) s(-b) (1 - e^(b - a)).
    All factors are right far in the tails, where s(a) and s(b) round to one number.
    """
    x = xp.astype(x, mean.dtype)
    bound = 0.9 * math.log(float(xp.finfo(mean.dtype).max))
    width = xp.exp(-xp.clip(log_scale, -bound, bound))
    not_last, not_first = xp.less(x, num_states - 1), xp.greater(x, 0)
    above = xp.where(not_last, -xp.softplus((mean - x - 0.5) * width), 0.0)
    below = xp.where(not_first, -xp.softplus((x - 0.5 - mean) * width), 0.0)
    between = xp.where(xp.logical_and(not_last, not_first), xp.log(-xp.expm1(-width)), 0.0)
    return above + below + between


def _body(xp: Namespace, semiring: Semiring, layer: DiscretizedLogisticLayer, params: Params, x: Array) -> Value:
    mean, log_scale = (xp.expand_dims(one, axis=1) for one in (params["mean"], params.log(xp, "scale")))  # (F, 1, K)
    return semiring.from_log(xp, _log_masses(xp, layer.num_states, mean, log_scale, x))


def _table(xp: Namespace, layer: DiscretizedLogisticLayer, params: Params) -> Weight:
    mean, log_scale = (xp.expand_dims(one, axis=2) for one in (params["mean"], params.log(xp, "scale")))  # (F, K, 1)
    return states.from_logs(xp, _log_masses(xp, layer.num_states, mean, log_scale, xp.arange(layer.num_states)))


def _states(num_values: int) -> dict[str, int]:
    """The settings for data of some number of values."""
    return {"num_states": num_values}


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Densities spread like their column."""
    return {
        "mean_factory": around(column.mean, column.spread),
        "scale_factory": beyond(MIN_SCALE, 0.5 * column.spread),
    }


# the body is computed of the data, not looked up: that takes memory for the rows alone, however many states there are
ROW = replace(
    states.input_row(
        DiscretizedLogisticLayer,
        _table,
        distribution=Distribution(
            "discretized-logistic", DiscretizedLogisticLayer, ("mean", "scale"), _states, fitted=_fitted
        ),
    ),
    body=_body,
    marginal=normalized_total,
)
