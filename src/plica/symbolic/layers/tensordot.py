"""The tensor-dot layer: a sum over one of three axes that its input's units are laid out on.

>>> layer = TensorDotLayer(2, 4, 5, num_sums=3)
>>> layer, layer.params["weight"].shape
(TensorDotLayer(arity=1, 40 -> 30), (3, 4))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from plica.symbolic.layers.base import FieldsLayer, FusedLayer, assign, choose_parameter, positive
from plica.symbolic.layers.rows import FusedRow
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterLike, softmax_normal
from plica.symbolic.semirings import Params, Semiring, Value


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TensorDotLayer(FieldsLayer, FusedLayer):
    """A sum layer with the weight `I kron W kron I`: units are laid out as `(left, I, right)`, and I is summed to O.

    Args:
        num_left: The size of the slowest axis of units, which stays.
        num_summed: I, the size of the axis that is summed.
        num_right: The size of the fastest axis of units, which stays.
        num_sums: O, the number of sums that replace I units.
        weight: `(O, I)`; by default the softmax of normal draws.
    """

    input_range: ClassVar[tuple[int, int | None]] = (1, 1)
    num_left: int
    num_summed: int
    num_right: int
    num_sums: int
    weight: Parameter

    def __init__(
        self, num_left: int, num_summed: int, num_right: int, num_sums: int, weight: ParameterLike | None = None
    ) -> None:
        name = "TensorDotLayer"
        sizes = {"num_left": num_left, "num_summed": num_summed, "num_right": num_right, "num_sums": num_sums}
        assign(self, **{setting: positive(name, setting, size) for setting, size in sizes.items()})
        shape = (self.num_sums, self.num_summed)
        assign(self, weight=choose_parameter(name, "weight", shape, weight, softmax_normal))

    @property
    def num_input_units(self) -> int:
        """The product of left, I and right."""
        return self.num_left * self.num_summed * self.num_right

    @property
    def num_output_units(self) -> int:
        """The product of left, O and right."""
        return self.num_left * self.num_sums * self.num_right

    @property
    def arity(self) -> int:
        """One."""
        return 1


def _body(xp: Namespace, semiring: Semiring, layer: TensorDotLayer, params: Params, inputs: Sequence[Value]) -> Value:
    # y[l, o, r] = sum over i of W[o, i] x[l, i, r]
    left, right = layer.num_left, layer.num_right
    if left == right == 1:
        return semiring.contract(xp, inputs, params.weight("weight"))
    laid_out = _laid_out(xp, semiring, inputs[0], (layer.num_input_units,), (left, layer.num_summed, right))
    sums = semiring.einsum(xp, "fblir,foi->fblor", [laid_out], params.weight("weight"))
    return _laid_out(xp, semiring, sums, (left, layer.num_sums, right), (layer.num_output_units,))


def _laid_out(
    xp: Namespace, semiring: Semiring, value: Value, before: tuple[int, ...], after: tuple[int, ...]
) -> Value:
    """Reshape the axes of units; parts of a value that all units share stay unchanged."""

    def fn(array: Array) -> Array:
        return xp.reshape(array, (*array.shape[:2], *after)) if tuple(array.shape[2:]) == before else array

    return semiring.map(xp, fn, value)


ROW = FusedRow(TensorDotLayer, body=_body)
