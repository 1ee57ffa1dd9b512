"""Factories of parameters whose first values fit the location and the scale of data.

>>> around(5.0, 2.0)((3,))
Parameter((3,): ... -> TensorParameter -> HadamardParameter -> ConstantParameter -> SumParameter)
"""

from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    Parameter,
    ParameterFactory,
    Shape,
    SoftplusParameter,
    SumParameter,
    normal,
)


def around(centre: float, spread: float) -> ParameterFactory:
    """`centre + spread * normal draws`."""
    return lambda shape: _line(centre, spread, normal(shape))


def beyond(least: float, spread: float) -> ParameterFactory:
    """`least + spread * softplus(normal draws)`: above `least`, and unbounded; below it where `spread` is negative."""
    return lambda shape: _line(least, spread, Parameter.from_unary(SoftplusParameter(shape), normal(shape)))


def times(factor: float, width: float) -> ParameterFactory:
    """`factor * exp(width * normal draws)`: positive, and unbounded."""

    def factory(shape: Shape) -> Parameter:
        power = Parameter.from_unary(ExpParameter(shape), _line(0.0, width, normal(shape)))
        return Parameter.from_binary(HadamardParameter(shape, shape), ConstantParameter(*shape, value=factor), power)

    return factory


def _line(start: float, factor: float, parameter: Parameter) -> Parameter:
    shape = parameter.shape
    scaled = Parameter.from_binary(HadamardParameter(shape, shape), ConstantParameter(*shape, value=factor), parameter)
    return Parameter.from_binary(SumParameter(shape, shape), scaled, ConstantParameter(*shape, value=start))
