"""The evidence layer: an input layer whose variables are all observed.

>>> from plica.symbolic.layers import CategoricalLayer
>>> EvidenceLayer(CategoricalLayer([3], 4, num_categories=5), observation=2)
EvidenceLayer(scope={}, 4)
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plica.errors import InputError
from plica.symbolic.domains import outside
from plica.symbolic.initializers import numbers_of
from plica.symbolic.layers.base import InputLayer, assign, choose_parameter
from plica.symbolic.layers.holding import HoldingLayer, check_input_layer
from plica.symbolic.layers.variable_free import variable_free_row
from plica.symbolic.parameters import (
    ConstantParameter,
    Namespace,
    Parameter,
    ParameterInput,
    ParameterLike,
    dereferenced,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class EvidenceLayer(HoldingLayer):
    """The values of an input layer at an observation of its variables.

    Args:
        layer: The input layer; its tensors are those of this layer.
        observation: One value for each of its variables in ascending order: a number, an array, or a parameter
            `(num_variables,)`. Of variables with states it is a constant; of real ones it may be learned.

    Raises:
        DTypeError: `layer` is no input layer.
        ShapeError: Another number of values.
        InputError: A value that the layer does not take, or a tensor for states.
    """

    layer: InputLayer
    observation: Parameter

    def __init__(self, layer: InputLayer, *, observation: ParameterLike | ArrayLike) -> None:
        name = "EvidenceLayer"
        check_input_layer(name, layer, "observe the variables of input layers")
        given: ParameterLike
        if isinstance(observation, Parameter | ParameterInput):
            given = observation
        else:
            values = np.atleast_1d(numbers_of(name, observation))
            given = ConstantParameter(*values.shape, value=values)
        shape = (layer.num_variables,)
        chosen = choose_parameter(name, "observation", shape, given, normal)
        leaf = dereferenced(chosen.output)
        if isinstance(leaf, ConstantParameter):
            _check_observation(layer, np.broadcast_to(np.asarray(leaf.value), shape))
        elif layer.domain.whole:
            raise InputError(
                f"{name}: the observation of {layer} is a state, which is known when the circuit is described; give a "
                "number, or a ConstantParameter"
            )
        assign(self, layer=layer, observation=chosen)

    @property
    def scope(self) -> Scope:
        """No variable."""
        return Scope([])


def _check_observation(layer: InputLayer, values: NDArray[Any]) -> None:
    """Refuse values that data of the layer may not have."""
    if values.dtype.kind == "c":
        raise InputError(f"EvidenceLayer: the observation of {layer} is complex; give real numbers")
    numbers = values.astype(np.float64)[:, None]
    wrong = outside(np, numbers, [layer.domain] * len(numbers))
    wrong = np.isnan(numbers) if wrong is None else wrong | np.isnan(numbers)
    if wrong.any():
        index = int(wrong[:, 0].argmax())
        domain = layer.domain
        raise InputError(
            f"EvidenceLayer: variable {tuple(layer.scope)[index]} of {layer} is observed as {numbers[index, 0]:g}, "
            f"which is {domain.refusal}; {domain.advice}, and leave out of the evidence what is not known"
        )


def _number(xp: Namespace, semiring: Semiring, layer: EvidenceLayer, params: Params) -> Value:  # noqa: ARG001
    observed = params.sub_layers["layer"]
    x = xp.expand_dims(params["observation"], axis=1)  # (F, 1, num_variables)
    if observed.layer.domain.whole:
        x = xp.astype(x, xp.int64)
    value: Value = observed.row.body(xp, semiring, observed.layer, observed.params, x)
    return value


ROW = variable_free_row(EvidenceLayer, _number)
