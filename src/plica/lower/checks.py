"""What is refused before lowering: circuits whose numbers the semiring cannot carry."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import ConstantParameter, Parameter, ReferenceParameter, TensorParameter
from plica.symbolic.semirings import Semiring

_LINEAR_PARAMETERS = ("weight", "probs")


def check_semiring(circuit: Circuit, semiring: Semiring) -> None:
    """Refuse negative weights in a semiring of logarithms, where they can be known.

    Raises:
        UnsupportedError: A weight is a constant with a negative entry.
    """
    if semiring.negative:
        return
    for layer in circuit.live.layers:
        for name in _LINEAR_PARAMETERS:
            parameter = layer.evaluated_params.get(name)
            if parameter is not None and (value := _known(parameter)) is not None and (value < 0).any():
                raise UnsupportedError(_message(circuit, layer, name, semiring, float(value.min())))


def _known(parameter: Parameter) -> NDArray[Any] | None:
    """The values of a parameter that is one constant leaf."""
    leaf = parameter.output
    target = leaf.deref() if isinstance(leaf, ReferenceParameter) else leaf
    if isinstance(target, ConstantParameter):
        return np.asarray(target.value)
    if isinstance(target, TensorParameter) and isinstance(target.initializer, ConstantTensorInitializer):
        return np.asarray(target.initializer.value)
    return None


def _message(circuit: Circuit, layer: Layer, name: str, semiring: Semiring, value: float) -> str:
    return (
        f"{circuit.layer_name(layer)}: its {name} has the entry {value:g}, and {semiring.name} carries "
        "logarithms, which negative numbers do not have; compile with semiring='sum-product', or give weights that are "
        "not negative."
    )
