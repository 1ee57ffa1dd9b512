"""The discretized logistic input layer: a logistic density, rounded to the states 0 to C-1 of an ordered variable.

The mass of a state is that of the density within half a unit of it. The first and the last state have the tails too, so
that all masses sum to 1 (Salimans, Karpathy, Chen and Kingma, PixelCNN++, 2017, equation 2).

>>> from plica.symbolic.scope import Scope
>>> layer = DiscretizedLogisticLayer(Scope([2]), 8, num_states=256)
>>> layer, layer.domain, layer.params["scale"].shape
(DiscretizedLogisticLayer(scope={2}, 8), Domain('256 states'), (8,))
"""

import math
from typing import final

from plica.symbolic.domains import finite
from plica.symbolic.layers import states
from plica.symbolic.layers.declared import UnivariateLayer, setting, unit_parameter
from plica.symbolic.layers.distribution import Column
from plica.symbolic.layers.starts import around, beyond
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterFactory, normal
from plica.symbolic.semirings import Weight

MIN_SCALE = 0.01  # of the default: all of a density is in one or two states then


@final
class DiscretizedLogisticLayer(UnivariateLayer, name="discretized-logistic"):
    """Bell-shaped distributions over the values 0 to C-1 of one variable, whose order matters."""

    num_states: int = setting("C, the number of values")
    mean: Parameter = unit_parameter(
        normal, "centres of the densities, where a state is 1 wide; by default normal draws, spread like the states"
    )
    scale: Parameter = unit_parameter(
        beyond(MIN_SCALE, 1.0),
        "positive scales, the standard deviations times sqrt(3)/pi; by default above `MIN_SCALE`, and unbounded",
    )
    domain = property(lambda self: finite(self.num_states))

    # computed from the data, not looked up: this takes memory for the rows alone, for any number of states
    @staticmethod
    def log_density(xp: Namespace, x: Array, mean: Array, log_scale: Array, num_states: int) -> Array:
        """The logarithms of the masses at states x.

        With s(z) = 1 / (1 + exp(-z)), and a - b = 1 / scale the width of a state: s(a) - s(b) = s(a) s(-b)
        (1 - e^(b - a)). All factors are accurate far in the tails, where s(a) and s(b) round to one number.
        """
        bound = 0.9 * math.log(float(xp.finfo(mean.dtype).max))
        width = xp.exp(-xp.clip(log_scale, -bound, bound))
        not_last, not_first = xp.less(x, num_states - 1), xp.greater(x, 0)
        above = xp.where(not_last, -xp.softplus((mean - x - 0.5) * width), 0.0)
        below = xp.where(not_first, -xp.softplus((x - 0.5 - mean) * width), 0.0)
        between = xp.where(xp.logical_and(not_last, not_first), xp.log(-xp.expm1(-width)), 0.0)
        return above + below + between

    @staticmethod
    def table(xp: Namespace, mean: Array, log_scale: Array, num_states: int) -> Weight:
        x = xp.astype(xp.arange(num_states), mean.dtype)
        return states.from_logs(xp, DiscretizedLogisticLayer.log_density(xp, x, mean, log_scale, num_states))

    @staticmethod
    def settings(num_values: int) -> dict[str, int]:
        return {"num_states": num_values}

    @staticmethod
    def defaults(num_states: int) -> dict[str, ParameterFactory]:
        middle = 0.5 * (num_states - 1)
        return DiscretizedLogisticLayer.fitted(Column(middle, max(middle, 0.5), 0, num_states - 1))

    @staticmethod
    def fitted(column: Column) -> dict[str, ParameterFactory]:
        """Densities spread like their column."""
        return {
            "mean_factory": around(column.mean, column.spread),
            "scale_factory": beyond(MIN_SCALE, 0.5 * column.spread),
        }
