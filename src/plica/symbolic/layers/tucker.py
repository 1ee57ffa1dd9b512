"""The Tucker layer: weighted sums over every choice of one unit from each input, in one contraction.

>>> layer = TuckerLayer(4, 2, arity=3)
>>> layer, layer.params["weight"].shape
(TuckerLayer(arity=3, 4 -> 2), (2, 64))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import final

from plica.symbolic.layers.base import FieldsLayer, FusedLayer, assign, check_power, choose_parameter, positive
from plica.symbolic.layers.rows import FusedRow
from plica.symbolic.parameters import Namespace, Parameter, ParameterLike, softmax_normal
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TuckerLayer(FieldsLayer, FusedLayer):
    """A sum layer over a Kronecker product of its inputs, whose outer product is never made.

    Args:
        num_input_units: K, the number of units of each input.
        num_output_units: O, the number of sums.
        arity: H, the number of inputs.
        weight: `(O, K^H)`, the unit of the first input slowest; by default the softmax of normal draws.

    Source: Tucker, "Some mathematical notes on three-mode factor analysis", 1966.
    """

    num_input_units: int
    num_output_units: int
    arity: int
    weight: Parameter

    def __init__(
        self, num_input_units: int, num_output_units: int, arity: int = 2, weight: ParameterLike | None = None
    ) -> None:
        name = "TuckerLayer"
        units, inputs = positive(name, "num_input_units", num_input_units), positive(name, "arity", arity)
        sums = positive(name, "num_output_units", num_output_units)
        check_power(name, units, inputs)
        assign(self, num_input_units=units, num_output_units=sums, arity=inputs)
        assign(self, weight=choose_parameter(name, "weight", (sums, units**inputs), weight, softmax_normal))


_BATCH = "fbo"
_UNITS = "".join(letter for letter in ascii_lowercase if letter not in _BATCH)


def _body(xp: Namespace, semiring: Semiring, layer: TuckerLayer, params: Params, inputs: Sequence[Value]) -> Value:
    # y[o] = sum over i, j, ... of W[o, i, j, ...] x1[i] x2[j] ...
    units = _UNITS[: layer.arity]
    sizes = [layer.num_input_units] * layer.arity
    core = params.weight("weight").laid_out(lambda weight: xp.reshape(weight, (*weight.shape[:2], *sizes)))
    terms = ",".join(f"fb{unit}" for unit in units)
    return semiring.einsum(xp, f"{terms},fo{units}->fbo", inputs, core)


ROW = FusedRow(TuckerLayer, body=_body)
