"""The constant layer: numbers that depend on no variable.

>>> ConstantValueLayer(3, value=0.5)
ConstantValueLayer(scope={}, 3)
"""

from dataclasses import dataclass
from typing import ClassVar, final

from plica.arguments import flag
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.base import FieldsLayer, InputLayer, assign, choose_parameter, positive
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.variable_free import variable_free_row
from plica.symbolic.parameters import (
    ConstantParameter,
    LogOnSupportParameter,
    Namespace,
    Parameter,
    ParameterInput,
    ParameterLike,
    PowerOnSupportParameter,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class ConstantValueLayer(FieldsLayer, InputLayer):
    """Units of given numbers, the same for all data.

    Args:
        num_output_units: K, the number of units.
        log_space: Whether `value` holds the logarithms of the numbers.
        value: One number for all units, or a parameter `(K,)`.

    Raises:
        ShapeError: A value of another shape.
    """

    has_conjugate: ClassVar[bool] = True
    num_output_units: int
    log_space: bool
    value: Parameter

    def __init__(self, num_output_units: int, *, log_space: bool = False, value: ParameterLike | complex) -> None:
        name = "ConstantValueLayer"
        units = positive(name, "num_output_units", num_output_units)
        given = value if isinstance(value, Parameter | ParameterInput) else ConstantParameter(units, value=value)
        chosen = choose_parameter(name, "value", (units,), given, normal)
        assign(self, num_output_units=units, log_space=flag(name, "log_space", log_space), value=chosen)

    @property
    def scope(self) -> Scope:
        """No variable."""
        return Scope([])

    @property
    def domain(self) -> Domain:
        """All numbers: it reads no variable."""
        return REALS


def _number(xp: Namespace, semiring: Semiring, layer: ConstantValueLayer, params: Params) -> Value:
    value = params.exp_weight("value") if layer.log_space else params.weight("value")
    return semiring.from_weight(xp, value.map(lambda numbers: xp.expand_dims(numbers, axis=1)))


ROW = variable_free_row(ConstantValueLayer, _number)


def _logarithm(layer: ConstantValueLayer) -> CircuitBlock:
    op = LogOnSupportParameter(layer.value.shape, log_space=layer.log_space)
    value = Parameter.from_unary(op, layer.value.ref())
    return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, value=value))


def _power(layer: ConstantValueLayer, *, exponent: int) -> CircuitBlock:
    op = PowerOnSupportParameter(layer.value.shape, exponent=exponent, log_space=layer.log_space)
    value = Parameter.from_unary(op, layer.value.ref())
    return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, log_space=layer.log_space, value=value))


OPERATORS = (
    OperatorRow("logarithm", (ConstantValueLayer,), _logarithm),
    OperatorRow("power", (ConstantValueLayer,), _power),
)
