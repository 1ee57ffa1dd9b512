"""Data of a circuit read where it lies: `(B, D)`, entry by entry, instead of columns in front.

    f(take(permute_dims(x), columns), take(permute_dims(y), columns))  ->  states = f(x, y), read at `columns`
    any(f(permute_dims(x)), axis=0)                                    ->  any(f(x), axis=1)

A Program of a circuit brings columns in front, and in the order of folds, before it compares and converts them. Each of
these steps writes all data anew, in an order that no cache likes.
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

_EACH = frozenset(row.name for row in ELEMENTWISE)
_OF_ONE = ("all", "any", "expand_dims", "max", "min", "reshape", "squeeze", "sum")
"""What leaves entries as they are where it adds or takes away axes of one entry."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A value `(G, B)` as columns of another.

    Args:
        value: `(B, D)`.
        columns: Which of its columns each row is, `(G,)`.
    """

    value: Var
    columns: NDArray[np.int64]

    @property
    def is_whole(self) -> bool:
        """Whether all columns are there once, in order."""
        return np.array_equal(self.columns, _all_columns(self.value))


@dataclass(slots=True, eq=False)
class Columns:
    """The values of a Program in terms of data as it was given.

    Args:
        program: The Program.
        known: Its constants.
        constants: Where further ones go.
        names: Of its variables.
    """

    program: Program
    known: Mapping[Var, Array]
    constants: dict[Var, Array]
    names: Names
    _made: dict[Var, Equation] = field(init=False)
    _forms: dict[Var, _Form | None] = field(default_factory=dict)
    _written: dict[Var, list[Equation]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._made = {var: one for one in self.program.equations for var in one.outputs}

    def of_index(self, index: Var) -> tuple[Var, Var, Var] | None:
        """States, columns and starts of an index `(G, B)` of the rows of a table; None where it has no such form."""
        value, starts = index, None
        equation = self._made.get(index)
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
        """Reductions over all columns, as those of data as it was given."""
        found = {}
        for equation in self.program.equations:
            if equation.op.name not in ("any", "all") or equation.params["axis"] != (0,) or equation.params["keepdims"]:
                continue
            (operand,) = equation.inputs
            form = self._form(operand) if isinstance(operand, Var) and len(operand.type.shape) == 2 else None
            if form is not None and form.is_whole:
                params = {**equation.params, "axis": (1,)}
                found[equation] = Equation(equation.op, (form.value,), equation.outputs, params, equation.source)
        return found

    def inserted(self, equations: list[Equation]) -> list[Equation]:
        """Equations, each after what it needs of those that were written here."""
        found: list[Equation] = []
        there: dict[Var, None] = {}

        def add(equation: Equation) -> None:
            for one in equation.inputs:
                if isinstance(one, Var) and one in self._written and one not in there:
                    there[one] = None
                    for needed in self._written[one]:
                        add(needed)
            found.append(equation)

        for equation in equations:
            add(equation)
        return found

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
            self._forms[var] = self._found(var)
        return self._forms[var]

    def _found(self, var: Var) -> _Form | None:
        equation = self._made.get(var)
        if equation is None or len(equation.outputs) != 1:
            return None
        name, operand = equation.op.name, equation.inputs[0] if equation.inputs else None
        if not isinstance(operand, Var):
            return self._of_each(equation) if name in _EACH else None
        if name == "permute_dims" and tuple(equation.params["axes"]) == (1, 0) and self._is_data(operand):
            return _Form(operand, _all_columns(operand))
        if name == "take" and equation.params["axis"] == 0 and isinstance(equation.inputs[1], Var):
            form, index = self._form(operand), self.known.get(equation.inputs[1])
            return None if form is None or index is None else _Form(form.value, form.columns[index])
        if name == "slice" and equation.params["axis"] == 0 and equation.params["step"] == 1:
            form, start, stop = self._form(operand), equation.params["start"], equation.params["stop"]
            is_known = isinstance(start, int) and isinstance(stop, int)
            return None if form is None or not is_known else _Form(form.value, form.columns[start:stop])
        if name in _OF_ONE and _is_of_one(operand, var):
            return self._form(operand)
        return self._of_each(equation) if name in _EACH else None

    def _is_data(self, var: Var) -> bool:
        return len(var.type.shape) == 2 and isinstance(var.type.shape[1], int)

    def _of_each(self, equation: Equation) -> _Form | None:
        """An operation on each entry, of values with the same columns and of numbers."""
        forms = {one: self._form(one) for one in equation.inputs if isinstance(one, Var) and one not in self.known}
        first = next(iter(forms.values()), None)
        ranks = {len(one.type.shape) for one in (*forms, *equation.outputs)}
        if (
            first is None
            or len(ranks) > 1
            or any(form is None or not np.array_equal(form.columns, first.columns) for form in forms.values())
        ):
            return None
        (output,) = equation.outputs
        inputs: list[Operand] = []
        for one in equation.inputs:
            if isinstance(one, Literal):
                inputs.append(one)
                continue
            form = forms.get(one)
            found = self._column(one, first) if form is None else form.value
            if found is None:
                return None
            inputs.append(found)
        shape = next(form.value.type.shape for form in forms.values() if form is not None)
        if any(form is not None and form.value.type.shape != shape for form in forms.values()):
            return None
        made = Var(self.names.fresh(), array_type(shape, output.type.dtype))
        self._written[made] = [
            Equation(OpRef(equation.op.name), tuple(inputs), (made,), equation.params, equation.source)
        ]
        return _Form(made, first.columns)

    def _column(self, var: Var, form: _Form) -> Var | None:
        """A constant with a number for each column, as one with a number for each of the columns of the data."""
        array = self.known[var]
        if array.size == 1:
            return self._constant(array.reshape(()))
        if array.shape != (len(form.columns), 1) or not form.is_whole:
            return None
        return self._constant(array.reshape(1, -1))


def _all_columns(value: Var) -> NDArray[np.int64]:
    count = value.type.shape[1]
    assert isinstance(count, int), "data has a known number of columns"
    return np.arange(count)


def _is_of_one(operand: Var, result: Var) -> bool:
    """Whether both have the same axes but for those of one entry, and the same entries."""
    return operand.type.dtype == result.type.dtype and [dim for dim in operand.type.shape if dim != 1] == [
        dim for dim in result.type.shape if dim != 1
    ]
