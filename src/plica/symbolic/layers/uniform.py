"""The uniform input layer: one interval per unit, with a constant density.

>>> from plica.symbolic.scope import Scope
>>> layer = UniformLayer(Scope([0]), 2, low=-1.0, high=[1.0, 3.0])
>>> layer.domain, layer.params["high"].shape
(Domain('real numbers'), (2,))
"""

from typing import final

import numpy as np

from plica.errors import InputError
from plica.symbolic.domains import REALS
from plica.symbolic.layers.declared import UnivariateLayer, constant_numbers, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import beyond
from plica.symbolic.parameters import Array, ConstantParameter, Namespace, Parameter, ParameterFactory
from plica.symbolic.semirings import Params


@final
class UniformLayer(UnivariateLayer, name="uniform"):
    """Densities of one real variable that are `1 / (high - low)` from `low` to `high`, both included, and 0 outside.

    Numbers of which `low` is not below `high` are refused with an InputError.

    The product of two such layers is one, times a constant; 0 everywhere where intervals have no more than an end in
    common.
    """

    low: Parameter = unit_parameter(
        lambda shape: constant_numbers("UniformLayer", 0.0, shape),
        "where each interval begins: a parameter, or numbers that are not learned; 0 by default",
        numbers=True,
    )
    high: Parameter = unit_parameter(
        lambda shape: constant_numbers("UniformLayer", 1.0, shape),
        "where it ends, above `low`; 1 by default",
        numbers=True,
    )
    domain = REALS
    increasing = ("low", "high")

    @staticmethod
    def check(layer: "UniformLayer") -> None:
        """Refuse numbers that do not increase, an InputError."""
        below, above = layer.low.output, layer.high.output
        if isinstance(below, ConstantParameter) and isinstance(above, ConstantParameter):
            least, most = (np.broadcast_to(end.value, layer.num_output_units) for end in (below, above))
            wrong = ~(np.isfinite(least) & np.isfinite(most) & (least < most))
            if wrong.any():
                unit = int(np.argmax(wrong))
                raise InputError(
                    f"UniformLayer needs finite numbers low < high, found low={least[unit]} and high={most[unit]} "
                    f"of unit {unit}; swap or move them"
                )

    @staticmethod
    def width(xp: Namespace, low: Array, high: Array) -> Array:
        """The length of each interval; NaN where learned ends do not increase, or are infinitely far apart."""
        width = high - low
        return xp.where(xp.logical_and(xp.greater(width, 0.0), xp.isfinite(width)), width, float("nan"))

    @staticmethod
    def log_density(xp: Namespace, x: Array, low: Array, high: Array, width: Array) -> Array:
        density = -xp.log(width)
        inside = xp.logical_and(xp.greater_equal(x, low), xp.less_equal(x, high))
        return xp.where(xp.logical_or(inside, xp.isnan(density)), density, float("-inf"))

    log_maximum = staticmethod(lambda xp, width: -xp.log(width))
    mode = staticmethod(lambda low, high: 0.5 * low + 0.5 * high)  # of all the numbers that are equally likely
    expectation = mode
    variance = staticmethod(lambda xp, width: xp.square(width) / 12.0)

    @staticmethod
    def product(xp: Namespace, first: Params, second: Params) -> dict[str, Array]:
        """The common interval; if there is none, the first one, in which the constant of the product is 0."""
        low, high = xp.maximum(first["low"], second["low"]), xp.minimum(first["high"], second["high"])
        is_empty = xp.less_equal(high, low)
        return {"low": xp.where(is_empty, first["low"], low), "high": xp.where(is_empty, first["high"], high)}

    @staticmethod
    def sample(xp: Namespace, uniforms: Array, low: Array, high: Array, width: Array) -> Array:
        return xp.minimum(low + width * uniforms, high)  # rounding might exceed it

    @staticmethod
    def interval(xp: Namespace, lower: Array, upper: Array, low: Array, high: Array, width: Array) -> Array:
        covered = xp.minimum(xp.astype(upper, high.dtype), high) - xp.maximum(xp.astype(lower, low.dtype), low)
        return xp.maximum(covered, 0.0) / width

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Intervals that contain all of a column, also while they are learned: a row outside would be impossible."""
        return {"low_factory": beyond(column.least, -column.spread), "high_factory": beyond(column.most, column.spread)}
