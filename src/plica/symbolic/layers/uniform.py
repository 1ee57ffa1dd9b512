"""The uniform input layer: one interval per unit, all of whose numbers are equally likely.

>>> from plica.symbolic.scope import Scope
>>> layer = UniformLayer(Scope([0]), 2, low=-1.0, high=[1.0, 3.0])
>>> layer.domain, layer.params["high"].shape
(Domain('real numbers'), (2,))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from plica.errors import InputError
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.initializers import reals_of
from plica.symbolic.layers.base import InputLayer, assign, at_most_one, choose_parameter, input_scope, positive
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow, normalized_total
from plica.symbolic.layers.starts import beyond
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterInput,
    ParameterLike,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

End: TypeAlias = ParameterLike | ArrayLike | None


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class UniformLayer(InputLayer):
    """Densities of one real variable that are `1 / (high - low)` from `low` to `high`, both included, and 0 outside.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        low: Where each interval begins: a parameter `(K,)`, or numbers that are not learned; 0 by default.
        high: Where it ends, above `low`; 1 by default.
        low_factory: Makes `low` from its shape.
        high_factory: Makes `high` from its shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter, or numbers of which `low` is not below `high`.
    """

    scope: Scope
    num_output_units: int
    low: Parameter
    high: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        low: End = None,
        high: End = None,
        low_factory: ParameterFactory | None = None,
        high_factory: ParameterFactory | None = None,
    ) -> None:
        name = "UniformLayer"
        at_most_one(name, low=low, low_factory=low_factory)
        at_most_one(name, high=high, high_factory=high_factory)
        units = positive(name, "num_output_units", num_output_units)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units)
        assign(self, low=_end(name, "low", units, low, low_factory, 0.0))
        assign(self, high=_end(name, "high", units, high, high_factory, 1.0))
        below, above = self.low.output, self.high.output
        if isinstance(below, ConstantParameter) and isinstance(above, ConstantParameter):
            least, most = (np.broadcast_to(one.value, units) for one in (below, above))
            wrong = ~(np.isfinite(least) & np.isfinite(most) & (least < most))
            if wrong.any():
                place = int(np.argmax(wrong))
                raise InputError(
                    f"{name} needs finite numbers low < high, found low={least[place]} and high={most[place]} "
                    f"of unit {place}; swap or move them"
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
        """The ends of the intervals."""
        return {"low": self.low, "high": self.high}


def _numbers(owner: str, value: ArrayLike, units: int) -> Parameter:
    """Numbers that are not learned: one for all units, or one for each."""
    array = reals_of(owner, value)
    return Parameter.from_input(ConstantParameter(*(array.shape or (units,)), value=array))


def _end(owner: str, name: str, units: int, given: End, factory: ParameterFactory | None, default: float) -> Parameter:
    """One end of the intervals."""
    if given is not None and not isinstance(given, Parameter | ParameterInput):
        given = _numbers(owner, given, units)
    return choose_parameter(owner, name, (units,), given, factory, (lambda _: _numbers(owner, default, units)))


def _ends(xp: Namespace, params: Params) -> tuple[Array, Array]:
    return xp.expand_dims(params["low"], axis=1), xp.expand_dims(params["high"], axis=1)  # (F, 1, K)


def _width(xp: Namespace, params: Params) -> Array:
    """How long each interval is `(F, K)`; NaN where learned ends have met, crossed, or left each other too far."""
    width = params["high"] - params["low"]
    return xp.where(xp.logical_and(xp.greater(width, 0.0), xp.isfinite(width)), width, float("nan"))


def _log_density(xp: Namespace, params: Params) -> Array:
    """Within the interval, `(F, 1, K)`."""
    return -xp.log(xp.expand_dims(_width(xp, params), axis=1))


def _body(xp: Namespace, semiring: Semiring, layer: UniformLayer, params: Params, x: Array) -> Value:  # noqa: ARG001
    (low, high), density = _ends(xp, params), _log_density(xp, params)
    x = xp.astype(x, low.dtype)
    inside = xp.logical_and(xp.greater_equal(x, low), xp.less_equal(x, high))
    return semiring.from_log(xp, xp.where(xp.logical_or(inside, xp.isnan(density)), density, float("-inf")))


def _maximum(xp: Namespace, semiring: Semiring, layer: UniformLayer, params: Params) -> Value:  # noqa: ARG001
    return semiring.from_log(xp, _log_density(xp, params))


def _middle(xp: Namespace, layer: UniformLayer, params: Params) -> Array:  # noqa: ARG001
    """The mean, and of all the numbers that are equally likely the one that is called the mode."""
    return xp.expand_dims(0.5 * params["low"] + 0.5 * params["high"], axis=-1)


def _sample(xp: Namespace, layer: UniformLayer, params: Params, units: Array, uniforms: Array) -> Array:  # noqa: ARG001
    low, high, width = (
        xp.expand_dims(xp.take_along_axis(one, units, axis=-1, nonnegative=True), axis=-1)
        for one in (params["low"], params["high"], _width(xp, params))
    )
    return xp.minimum(low + width * uniforms, high)  # which rounding might exceed


def _variance(xp: Namespace, layer: UniformLayer, params: Params) -> Array:  # noqa: ARG001
    return xp.expand_dims(xp.square(_width(xp, params)) / 12.0, axis=-1)


def _interval(
    xp: Namespace,
    semiring: Semiring,
    layer: UniformLayer,  # noqa: ARG001
    params: Params,
    low: Array,
    high: Array,
) -> Value:
    least, most = _ends(xp, params)
    covered = xp.minimum(xp.astype(high, most.dtype), most) - xp.maximum(xp.astype(low, least.dtype), least)
    return semiring.from_linear(xp, xp.maximum(covered, 0.0) / xp.expand_dims(_width(xp, params), axis=1))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Intervals that hold all of a column, however they are learned: beyond them a row is impossible."""
    return {"low_factory": beyond(column.least, -column.spread), "high_factory": beyond(column.most, column.spread)}


ROW = InputRow(
    UniformLayer,
    body=_body,
    marginal=normalized_total,
    sample=_sample,
    mode=_middle,
    maximum=_maximum,
    mean=_middle,
    variance=_variance,
    interval=_interval,
    increasing=("low", "high"),
    distribution=Distribution("uniform", UniformLayer, ("low", "high"), fitted=_fitted),
)
