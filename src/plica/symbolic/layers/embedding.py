"""The embedding layer: a table of numbers of any sign, or complex ones, for the states of one variable.

>>> from plica.symbolic.scope import Scope
>>> layer = EmbeddingLayer(Scope([2]), 8, num_states=5)
>>> layer, layer.domain, layer.params["weight"].shape
(EmbeddingLayer(scope={2}, 8), Domain('5 states'), (8, 5))
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, final

from plica.symbolic.domains import Domain, finite
from plica.symbolic.layers import closed_form, states
from plica.symbolic.layers.base import (
    FieldsLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.blocks import total_of_table
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.parameters import Parameter, ParameterFactory, ParameterLike, normal
from plica.symbolic.scope import Scope


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class EmbeddingLayer(FieldsLayer, states.TabulatedLayer):
    """Functions of the values 0 to C-1 of one variable: the factors of tensor networks.

    Sampling, moments and the most probable explanation need weights that are not negative. Their probabilities are the
    weights of a unit, divided by their sum.

    Args:
        scope: The variable.
        num_output_units: K, the number of functions.
        num_states: C, the number of values.
        weight: `(K, C)` numbers, used as given; standard normal draws by default, of both signs.
        weight_factory: Makes the weight from its shape.

    Raises:
        ShapeError: More than one variable, a weight of another shape.
        InputError: Both a weight and a factory.
    """

    has_conjugate: ClassVar[bool] = True
    scope: Scope
    num_output_units: int
    num_states: int
    weight: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        num_states: int = 2,
        weight: ParameterLike | None = None,
        weight_factory: ParameterFactory | None = None,
    ) -> None:
        name = "EmbeddingLayer"
        at_most_one(name, weight=weight, weight_factory=weight_factory)
        units, count = positive(name, "num_output_units", num_output_units), positive(name, "num_states", num_states)
        chosen = choose_parameter(name, "weight", (units, count), weight, weight_factory, normal)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, num_states=count, weight=chosen)

    @property
    def domain(self) -> Domain:
        """The states, counted from 0."""
        return finite(self.num_states)

    @property
    def padded(self) -> dict[str, str]:
        """The weight, by number of states."""
        return {"weight": "num_states"}

    def state_table(self, num_states: int) -> states.StateTable:
        """The numbers of the first states."""
        return states.StateTable(self.weight.ref(), signed=True).first_states(num_states)


def _states(num_values: int) -> dict[str, int]:
    """The settings for data of `num_values` values."""
    return {"num_states": num_values}


_ROW = states.input_row(
    EmbeddingLayer,
    lambda xp, layer, params: params.weight("weight"),  # noqa: ARG005
    padding={"weight": 0.0},  # states that some layers of a fold do not have
    distribution=Distribution("embedding", EmbeddingLayer, ("weight",), _states),
)
ROW = replace(_ROW, closed_form=closed_form.table("weight"))


def _integrate(layer: EmbeddingLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG001 - the variable of the layer
    return total_of_table(layer.state_table(layer.num_states))


OPERATORS = (OperatorRow("integrate", (EmbeddingLayer,), _integrate),)
