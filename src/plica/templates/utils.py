"""Layers and parameters by name; they live in `parameterization.py`."""

from plica.templates.parameterization import Parameterization as Parameterization
from plica.templates.parameterization import name_to_dtype as name_to_dtype
from plica.templates.parameterization import name_to_initializer as name_to_initializer
from plica.templates.parameterization import name_to_input_layer_factory as name_to_input_layer_factory
from plica.templates.parameterization import name_to_parameter_activation as name_to_parameter_activation
from plica.templates.parameterization import (
    named_parameterizations_to_factories as named_parameterizations_to_factories,
)
from plica.templates.parameterization import parameterization_to_factory as parameterization_to_factory
