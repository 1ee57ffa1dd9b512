"""Layers and parameters by name; they live in `parameterization.py`."""

from plica.templates.parameterization import (
    Parameterization,
    name_to_dtype,
    name_to_initializer,
    name_to_input_layer_factory,
    name_to_parameter_activation,
    named_parameterizations_to_factories,
    parameterization_to_factory,
)

__all__ = [
    "Parameterization",
    "name_to_dtype",
    "name_to_initializer",
    "name_to_input_layer_factory",
    "name_to_parameter_activation",
    "named_parameterizations_to_factories",
    "parameterization_to_factory",
]
