"""Parameter factories: functions from a shape to a parameter.

>>> mixing_weight_factory((4, 12), param_factory=softmax_normal).nodes[-1].in_shape
(4, 3)

>>> normal((2, 3)), log_softmax_normal((2, 3))
(Parameter((2, 3): TensorParameter), Parameter((2, 3): TensorParameter -> LogSoftmaxParameter))
"""

from plica.arguments import function
from plica.errors import ShapeError
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.parameters.graph import Parameter, ParameterFactory
from plica.symbolic.parameters.leaves import TensorParameter
from plica.symbolic.parameters.nodes import Shape, as_shape
from plica.symbolic.parameters.reduce import LogSoftmaxParameter, SoftmaxParameter
from plica.symbolic.parameters.select import MixingWeightParameter


def normal(shape: Shape) -> Parameter:
    """A learnable tensor of standard normal draws."""
    return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer()))


def softmax_normal(shape: Shape) -> Parameter:
    """The softmax, over the last axis, of learnable standard normal draws: the default weight of a sum layer."""
    return Parameter.from_unary(SoftmaxParameter(shape, axis=-1), normal(shape))


def log_softmax_normal(shape: Shape) -> Parameter:
    """The log-softmax, over the last axis, of learnable standard normal draws: the default logits of an input layer."""
    return Parameter.from_unary(LogSoftmaxParameter(shape, axis=-1), normal(shape))


def mixing_weight_factory(shape: Shape, *, param_factory: ParameterFactory) -> Parameter:
    """The weight of a sum layer that mixes its inputs unit by unit.

    Args:
        shape: `(K, H*K)`, the shape of the weight of a sum layer of K units and arity H.
        param_factory: Gives the `(K, H)` weights.

    Raises:
        ShapeError: `shape` is not of that form.
    """
    shape = as_shape(shape, "mixing_weight_factory")
    if len(shape) != 2 or shape[1] % shape[0] != 0:
        raise ShapeError(
            f"mixing_weight_factory: expected a shape (K, H*K), found {tuple(shape)}; "
            "a mixing sum layer has as many output units as each of its inputs"
        )
    units, columns = shape
    weights = Parameter.from_input(
        function("mixing_weight_factory", "param_factory", param_factory)((units, columns // units))
    )
    return Parameter.from_unary(MixingWeightParameter(weights.shape), weights)
