"""Reads the data of a circuit in its own layout `(B, D)`, entry by entry, without transposing it.

    f(take(permute_dims(x), columns), take(permute_dims(y), columns))  ->  states = f(x, y), read at `columns`
    any(f(permute_dims(x)), axis=0)                                    ->  any(f(x), axis=1)

A Program of a circuit transposes the data and puts columns in the order of folds, before it compares and converts them.
Each of these steps copies all data, with strides that miss the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.circuits.with_constants import Array
from plica.ir.builder import Names
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.types import array_type
from plica.ops import ELEMENTWISE

_ELEMENTWISE = frozenset(row.name for row in ELEMENTWISE)
_UNIT_AXIS_OPS = ("all", "any", "expand_dims", "max", "min", "reshape", "squeeze", "sum")
"""Operations that keep the entries if they only add or remove axes of size 1."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A value `(G, B)` as columns of another.

    Args:
        value: `(B, D)`.
        columns: For each index g of the first axis, which column of `value` it is, `(G,)`.
    """

    value: Var
    columns: NDArray[np.int64]

    @property
    def has_all_columns(self) -> bool:
        """Whether `columns` are all columns once, in order."""
        return np.array_equal(self.columns, _all_columns(self.value))


@dataclass(slots=True, eq=False)
class Columns:
    """Rewrites the values of a Program as values `(B, D)` of its data.

    Args:
        program: The Program.
        known: The arrays of its constants.
        constants: Receives the constants that this rewrite adds.
        names: Makes names that no variable has.
    """

    program: Program
    known: Mapping[Var, Array]
    constants: dict[Var, Array]
    names: Names
    _producers: dict[Var, Equation] = field(init=False)
    _forms: dict[Var, _Form | None] = field(default_factory=dict)
    _new: dict[Var, list[Equation]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._producers = {var: equation for equation in self.program.equations for var in equation.outputs}

    def of_index(self, index: Var) -> tuple[Var, Var, Var] | None:
        """States, columns and starts of an index `(G, B)` into the rows of a table; None if it has another form."""
        value, starts = index, None
        equation = self._producers.get(index)
        if equation is not None and equation.op.name == "add":
            first, second = equation.inputs
            array = self.known.get(second) if isinstance(second, Var) else None
            if array is not None and array.ndim == 2 and array.shape[1] == 1 and isinstance(first, Var):
                value, starts = first, array[:, 0]
        form = self._form(value)
        if form is None:
            return None
        starts = np.zeros(len(form.columns), np.int64) if starts is None else starts
        return form.value, self._constant(form.columns), self._constant(np.broadcast_to(starts, form.columns.shape))

    def reductions(self) -> dict[Equation, Equation]:
        """Reductions over all columns, rewritten as reductions of `(B, D)`, by the equations they replace."""
        replacements = {}
        for equation in self.program.equations:
            if equation.op.name not in ("any", "all") or equation.params["axis"] != (0,) or equation.params["keepdims"]:
                continue
            (operand,) = equation.inputs
            form = self._form(operand) if isinstance(operand, Var) and len(operand.type.shape) == 2 else None
            if form is not None and form.has_all_columns:
                params = {**equation.params, "axis": (1,)}
                replacements[equation] = Equation(equation.op, (form.value,), equation.outputs, params, equation.source)
        return replacements

    def inserted(self, equations: list[Equation]) -> list[Equation]:
        """The equations, with the new equations of this class inserted before their first reader."""
        ordered: list[Equation] = []
        added: dict[Var, None] = {}

        def add(equation: Equation) -> None:
            for operand in equation.inputs:
                if isinstance(operand, Var) and operand in self._new and operand not in added:
                    added[operand] = None
                    for needed in self._new[operand]:
                        add(needed)
            ordered.append(equation)

        for equation in equations:
            add(equation)
        return ordered

    def _constant(self, array: Array) -> Var:
        array = np.ascontiguousarray(array)
        for var, known in self.constants.items():
            if known.dtype == array.dtype and np.array_equal(known, array):
                return var
        var = Var(self.names.fresh(), array_type(array.shape, DType(array.dtype.name)))
        self.constants[var] = array
        return var

    def _form(self, var: Var) -> _Form | None:
        if var not in self._forms:
            self._forms[var] = self._derived_form(var)
        return self._forms[var]

    def _derived_form(self, var: Var) -> _Form | None:
        equation = self._producers.get(var)
        if equation is None or len(equation.outputs) != 1:
            return None
        name, operand = equation.op.name, equation.inputs[0] if equation.inputs else None
        if not isinstance(operand, Var):
            return self._elementwise_form(equation) if name in _ELEMENTWISE else None
        if name == "permute_dims" and tuple(equation.params["axes"]) == (1, 0) and self._is_data(operand):
            return _Form(operand, _all_columns(operand))
        if name == "take" and equation.params["axis"] == 0 and isinstance(equation.inputs[1], Var):
            form, index = self._form(operand), self.known.get(equation.inputs[1])
            return None if form is None or index is None else _Form(form.value, form.columns[index])
        if name == "slice" and equation.params["axis"] == 0 and equation.params["step"] == 1:
            form, start, stop = self._form(operand), equation.params["start"], equation.params["stop"]
            is_known = isinstance(start, int) and isinstance(stop, int)
            return None if form is None or not is_known else _Form(form.value, form.columns[start:stop])
        if name in _UNIT_AXIS_OPS and _differ_in_unit_axes(operand, var):
            return self._form(operand)
        return self._elementwise_form(equation) if name in _ELEMENTWISE else None

    def _is_data(self, var: Var) -> bool:
        return len(var.type.shape) == 2 and isinstance(var.type.shape[1], int)

    def _elementwise_form(self, equation: Equation) -> _Form | None:
        """The form of an elementwise operation whose operands have the same columns, or are numbers."""
        forms = {
            operand: self._form(operand)
            for operand in equation.inputs
            if isinstance(operand, Var) and operand not in self.known
        }
        first = next(iter(forms.values()), None)
        ranks = {len(operand.type.shape) for operand in (*forms, *equation.outputs)}
        if (
            first is None
            or len(ranks) > 1
            or any(form is None or not np.array_equal(form.columns, first.columns) for form in forms.values())
        ):
            return None
        (output,) = equation.outputs
        inputs: list[Operand] = []
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                inputs.append(operand)
                continue
            form = forms.get(operand)
            column = self._column(operand, first) if form is None else form.value
            if column is None:
                return None
            inputs.append(column)
        shape = next(form.value.type.shape for form in forms.values() if form is not None)
        if any(form is not None and form.value.type.shape != shape for form in forms.values()):
            return None
        result = Var(self.names.fresh(), array_type(shape, output.type.dtype))
        self._new[result] = [
            Equation(OpRef(equation.op.name), tuple(inputs), (result,), equation.params, equation.source)
        ]
        return _Form(result, first.columns)

    def _column(self, var: Var, form: _Form) -> Var | None:
        """A constant `(G, 1)` of one number for each column as a constant `(1, D)`, or a constant of one number."""
        array = self.known[var]
        if array.size == 1:
            return self._constant(array.reshape(()))
        if array.shape != (len(form.columns), 1) or not form.has_all_columns:
            return None
        return self._constant(array.reshape(1, -1))


def _all_columns(value: Var) -> NDArray[np.int64]:
    count = value.type.shape[1]
    assert isinstance(count, int), "data has a known number of columns"
    return np.arange(count)


def _differ_in_unit_axes(operand: Var, result: Var) -> bool:
    """Whether both have the same dtype, and the same sizes once axes of size 1 are left out."""
    return operand.type.dtype == result.type.dtype and [dim for dim in operand.type.shape if dim != 1] == [
        dim for dim in result.type.shape if dim != 1
    ]
