"""The sum layer: each unit is a weighted sum of the units of all inputs.

>>> SumLayer(4, 4, arity=3).mixing
False
>>> from functools import partial
>>> from plica.symbolic.parameters import mixing_weight_factory, softmax_normal
>>> SumLayer(4, 4, 3, weight_factory=partial(mixing_weight_factory, param_factory=softmax_normal)).mixing
True
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from plica.symbolic.layers.base import (
    FieldsLayer,
    InnerLayer,
    assign,
    at_most_one,
    choose_parameter,
    positive,
    settings_key,
)
from plica.symbolic.layers.rows import Choice, SumRow
from plica.symbolic.parameters import (
    Array,
    MixingWeightParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    softmax_normal,
)
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SumLayer(FieldsLayer, InnerLayer):
    """Weighted sums; column `h*I + i` of the weight multiplies unit `i` of input `h`.

    Where the weight is the result of a `MixingWeightParameter`, unit k sums unit k of each input alone, and the layer
    works on the `(K, H)` weights that it was made from.

    Args:
        num_input_units: I, the number of units of each input.
        num_output_units: O, the number of sums.
        arity: H, the number of inputs.
        weight: `(O, H*I)`; by default the softmax of normal draws over the last axis.
        weight_factory: Makes the weight from its shape.

    Raises:
        ShapeError: A weight of another shape.
        InputError: Both a weight and a factory.
    """

    num_input_units: int
    num_output_units: int
    arity: int
    weight: Parameter

    def __init__(
        self,
        num_input_units: int,
        num_output_units: int,
        arity: int = 1,
        weight: ParameterLike | None = None,
        weight_factory: ParameterFactory | None = None,
    ) -> None:
        name = "SumLayer"
        at_most_one(name, weight=weight, weight_factory=weight_factory)
        units, sums = (
            positive(name, "num_input_units", num_input_units),
            positive(name, "num_output_units", num_output_units),
        )
        assign(self, num_input_units=units, num_output_units=sums, arity=positive(name, "arity", arity))
        shape = (sums, self.arity * units)
        assign(self, weight=choose_parameter(name, "weight", shape, weight, weight_factory, softmax_normal))

    @property
    def mixing(self) -> bool:
        """Whether unit k reads unit k of each input alone."""
        return self.num_input_units == self.num_output_units and isinstance(self.weight.output, MixingWeightParameter)

    @property
    def evaluated_params(self) -> dict[str, Parameter]:
        """The weight `(O, H*I)`; for a mixing layer the `(K, H)` that it was made from."""
        if not self.mixing:
            return self.params
        (source,) = self.weight.node_inputs(self.weight.output)
        return {"weight": self.weight.subgraph(source)}

    def fold_settings(self) -> Hashable:
        """Type, whether the layer mixes, config and shape of the evaluated weight."""
        return (SumLayer, self.mixing, *settings_key(self))


def _body(xp: Namespace, semiring: Semiring, layer: SumLayer, params: Params, inputs: Sequence[Value]) -> Value:
    weight = params.weight("weight")
    if not layer.mixing:
        return semiring.contract(xp, inputs, weight)
    terms = [
        semiring.product(xp, value, semiring.from_weight(xp, weight.map(partial(_column, xp, index))))
        for index, value in enumerate(inputs)
    ]
    return semiring.total(xp, terms)


def _column(xp: Namespace, index: int, weight: Array) -> Array:
    """The weights of one input of a mixing layer, `(F, 1, K)`, of weights `(F, K, H)`."""
    return xp.permute_dims(weight[:, :, index : index + 1], (0, 2, 1))


def _log_weights(xp: Namespace, layer: SumLayer, params: Params) -> Array:  # noqa: ARG001
    return params.weight("weight").log(xp)  # (F, O, H*I), or (F, K, H) where the layer mixes


def _reads(layer: SumLayer) -> NDArray[Any]:
    if not layer.mixing:
        return np.arange(layer.arity * layer.num_input_units)[None]
    units = layer.num_input_units
    return np.arange(layer.arity) * units + np.arange(units)[:, None]  # (K, H): unit k reads unit k of each input


ROW = SumRow(SumLayer, body=_body, choose=Choice(_log_weights, _reads))
