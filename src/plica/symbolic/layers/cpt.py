"""The CP-T layer: weighted sums of products, each of the units of all inputs with one index.

>>> layer = CPTLayer(4, 2, arity=3)
>>> layer, layer.params["weight"].shape
(CPTLayer(arity=3, 4 -> 2), (2, 4))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from plica.symbolic.layers.base import FieldsLayer, FusedLayer, assign, choose_parameter, positive
from plica.symbolic.layers.rows import FusedRow
from plica.symbolic.parameters import Namespace, Parameter, ParameterLike, softmax_normal
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class CPTLayer(FieldsLayer, FusedLayer):
    """A sum layer over a Hadamard product of its inputs.

    Args:
        num_input_units: K, the number of units of each input.
        num_output_units: O, the number of sums.
        arity: H, the number of inputs.
        weight: `(O, K)`; by default the softmax of normal draws.

    Source: Loconte et al., "What is the relationship between tensor factorizations and circuits?", 2025: the transposed
    canonical polyadic layer.
    """

    num_input_units: int
    num_output_units: int
    arity: int
    weight: Parameter

    def __init__(
        self, num_input_units: int, num_output_units: int, arity: int = 2, weight: ParameterLike | None = None
    ) -> None:
        name = "CPTLayer"
        units, inputs = positive(name, "num_input_units", num_input_units), positive(name, "arity", arity)
        sums = positive(name, "num_output_units", num_output_units)
        assign(self, num_input_units=units, num_output_units=sums, arity=inputs)
        assign(self, weight=choose_parameter(name, "weight", (sums, units), weight, softmax_normal))


def _body(xp: Namespace, semiring: Semiring, layer: CPTLayer, params: Params, inputs: Sequence[Value]) -> Value:
    # y[o] = sum over i of W[o, i] x1[i] x2[i] ...
    terms = ",".join(["fbi"] * layer.arity)
    return semiring.einsum(xp, f"{terms},foi->fbo", inputs, params.weight("weight"))


ROW = FusedRow(CPTLayer, body=_body)
