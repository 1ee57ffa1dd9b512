"""The sparse sum layer: sums of a few units each, read by gathers.

>>> from plica.symbolic.parameters import ConstantParameter
>>> layer = SparseSumLayer(4, (Term(0, (3, 0, 1)), Term(0, (2, 2, 2))), weight=ConstantParameter(3, 2, value=1.0))
>>> layer  # units 3 and 2, 0 and 2, 1 and 2
SparseSumLayer(arity=1, 4 -> 3)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from plica.arguments import elements, integer
from plica.errors import InputError
from plica.symbolic.layers.base import FieldsLayer, FusedLayer, assign, choose_parameter, positive
from plica.symbolic.layers.rows import FusedRow
from plica.symbolic.parameters import Array, Namespace, Parameter, ParameterLike, softmax_normal
from plica.symbolic.semirings import Params, Semiring, Value


class Term(NamedTuple):
    """One unit for each sum, all of one input.

    Args:
        input: The number of the input.
        units: The unit that each sum reads; -1 for none.
    """

    input: int
    units: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SparseSumLayer(FieldsLayer, FusedLayer):
    """A sum layer, or a tensor-dot layer, most of whose weights are 0: sum o adds `weight[o, t]` times unit t of o.

    Args:
        num_summed: I, the number of units of each input, or of the axis that is summed.
        terms: For each term its input, and the unit of it that each of the O sums reads.
        weight: `(O, number of terms)`.
        num_left: The size of the slowest axis of units, which stays.
        num_right: The size of the fastest axis of units, which stays.

    Raises:
        InputError: There are no terms, they are for different numbers of sums, or read units that are not there.
    """

    num_summed: int
    terms: tuple[tuple[int, tuple[int, ...]], ...]
    num_left: int
    num_right: int
    weight: Parameter

    def __init__(
        self,
        num_summed: int,
        terms: Sequence[tuple[int, tuple[int, ...]]],
        num_left: int = 1,
        num_right: int = 1,
        weight: ParameterLike | None = None,
    ) -> None:
        name = "SparseSumLayer"
        sizes = {"num_summed": num_summed, "num_left": num_left, "num_right": num_right}
        assign(self, **{setting: positive(name, setting, size) for setting, size in sizes.items()})
        assign(self, terms=_checked_terms(name, terms, self.num_summed))
        shape = (len(self.terms[0][1]), len(self.terms))
        assign(self, weight=choose_parameter(name, "weight", shape, weight, softmax_normal))

    @property
    def num_input_units(self) -> int:
        """The product of left, I and right."""
        return self.num_left * self.num_summed * self.num_right

    @property
    def num_output_units(self) -> int:
        """The product of left, O and right."""
        return self.num_left * len(self.terms[0][1]) * self.num_right

    @property
    def arity(self) -> int:
        """The number of inputs."""
        return 1 + max(number for number, _ in self.terms)


def _checked_terms(name: str, terms: Any, num_summed: int) -> tuple[Term, ...]:
    """Terms that name inputs and units which may be there, the same number of units each."""
    checked = []
    for term in elements(name, "terms", terms):
        parts = elements(name, "each term", term)
        if len(parts) != 2:
            raise InputError(
                f"{name}: each term is an input and its units, found {term!r:.60}; give Term(0, (3, 0, 1))"
            )
        units = tuple(integer(name, "each unit", unit) for unit in elements(name, "the units of a term", parts[1]))
        checked.append(Term(integer(name, "the input of a term", parts[0]), units))
    counts = list(dict.fromkeys(len(term.units) for term in checked))
    if len(counts) != 1 or not counts[0]:
        raise InputError(
            f"{name}: terms need one unit for each of the sums, at least one term of one sum, found units of "
            f"{counts or 'no'} sums; give each term as many units"
        )
    wrong = [unit for term in checked for unit in term.units if not -1 <= unit < num_summed]
    if wrong or any(term.input < 0 for term in checked):
        what = f"unit {wrong[0]}" if wrong else f"input {min(term.input for term in checked)}"
        raise InputError(
            f"{name}: there is no {what}; units are -1, for none, or 0 to {num_summed - 1}, and inputs count from 0"
        )
    return tuple(checked)


def _body(xp: Namespace, semiring: Semiring, layer: SparseSumLayer, params: Params, inputs: Sequence[Value]) -> Value:
    weight, size = params.weight("weight"), layer.num_input_units
    values, padded = [], dict[int, Value]()
    for number, term in enumerate(Term(*term) for term in layer.terms):
        units, value = _units(layer, term), inputs[term.input]
        if -1 in term.units:
            value = padded.setdefault(term.input, _with_zero(xp, semiring, value, size))
        read = tuple(_read(units, size, array) for array in value)
        column = weight.map(partial(_column, xp, layer, number))
        values.append(semiring.product(xp, read, semiring.from_weight(xp, column)))
    return semiring.total(xp, values)


def _units(layer: SparseSumLayer, term: Term) -> Array:
    """The unit of the input that each unit of the layer reads; the one after the last for none."""
    left, right = np.arange(layer.num_left)[:, None, None], np.arange(layer.num_right)
    summed = np.asarray(term.units)[:, None]
    units = (left * layer.num_summed + summed) * layer.num_right + right
    return np.where(summed < 0, layer.num_input_units, units).ravel()


def _with_zero(xp: Namespace, semiring: Semiring, value: Value, size: int) -> Value:
    """A value with one unit more, which is 0: a product with a weight of 0 would have a derivative in log space."""
    numbers = value[0]
    zero = semiring.zero(xp, (*numbers.shape[:2], 1), numbers.dtype)
    return tuple(
        xp.concat([array, xp.broadcast_to(nothing, (*array.shape[:2], 1))], axis=2)
        if _is_by_unit(array, size)
        else array
        for array, nothing in zip(value, zero, strict=True)
    )


def _is_by_unit(array: Array | float, size: int) -> bool:
    """Whether a part of a value has a number for each unit, or one for all."""
    return not isinstance(array, float) and array.shape[2] == size and size > 1


def _read(units: Array, size: int, array: Array) -> Array:
    """Some units of a part of a value `(F, B, size)`, which may have a unit more; one for all units is unchanged."""
    is_by_unit = _is_by_unit(array, size) or _is_by_unit(array, size + 1)
    return array[:, :, units] if is_by_unit else array


def _column(xp: Namespace, layer: SparseSumLayer, number: int, weight: Array) -> Array:
    """The weights of one term, `(F, 1, num_output_units)`, of weights `(F, O, T)`."""
    column = xp.permute_dims(weight[:, :, number : number + 1], (0, 2, 1))
    folds, _, sums = column.shape
    laid_out = xp.broadcast_to(
        xp.reshape(column, (folds, 1, 1, sums, 1)), (folds, 1, layer.num_left, sums, layer.num_right)
    )
    return xp.reshape(laid_out, (folds, 1, layer.num_output_units))


ROW = FusedRow(SparseSumLayer, body=_body)
