"""The bottom-up walk: the value of every group of layers, inputs first."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from plica.errors import ShapeError
from plica.ir.program import Equation, Program
from plica.lower.fold.groups import FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import FusedRow, InputLayer, InputRow, ProductRow
from plica.symbolic.semirings import Params, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


class Inputs(Protocol):
    """The known values of variables, from which input layers get theirs."""

    def value(self, row: InputRow, group: FoldedLayer, params: Params) -> Value:
        """The value of a group of input layers, `(F, B, K)`."""


def layer_values(scope: LoweringScope, data: Inputs | None, read: list[list[Value]] | None = None) -> list[Value]:
    """The value of every group, in order: `(F, B, K)`, or `(F, 1, K)` without data, where no variable is known.

    Without data there are rows nevertheless where parameters are given for each.

    Args:
        scope: The Program under construction. Its semiring defines sums and products, and reduces variables that are
            not known: they are summed out, or take their largest value.
        data: The known values of variables.
        read: A list to which the values that each group reads are added, one for each of its inputs.
    """
    values: list[Value] = []
    read = [] if read is None else read
    factors: list[int] = []
    mixed = _mixed(scope)
    for number, group in enumerate(scope.folded.groups):
        with scope.builder.at(describe(scope.folded.circuit, number, group)):
            count = _num_factors(scope, group, factors)
            may_leave_range = _is_product(scope, group) or any(number in mixed for number in _read(group))
            is_due = may_leave_range and count >= scope.semiring.most_factors and number not in mixed
            read.append(_inputs(scope, group, values))
            values.append(_value(scope, data, group, read[-1], is_due=is_due))
            factors.append(1 if is_due else count)  # a sum of normalized values stays in range; a product may not
    return values


def _mixed(scope: LoweringScope) -> dict[int, None]:
    """The indices of products that only sums of several inputs read: the sums are normalized instead."""
    mixed = {number: None for number, group in enumerate(scope.folded.groups) if _is_product(scope, group)}
    for number, _ in scope.folded.out_fold_idx:
        mixed.pop(number, None)
    for group in scope.folded.groups:
        if group.representative.arity < 2 or _is_product(scope, group):
            for number in _read(group):
                mixed.pop(number, None)
    return mixed


def _read(group: FoldedLayer) -> dict[int, None]:
    """The numbers of the groups that a group reads."""
    return {number: None for fold in group.in_fold_idx for number, _ in fold}


def _is_product(scope: LoweringScope, group: FoldedLayer) -> bool:
    return isinstance(scope.folded.row(group.representative), ProductRow | FusedRow)


def _num_factors(scope: LoweringScope, group: FoldedLayer, factors: Sequence[int]) -> int:
    """The most normalized values whose product a group may be."""
    read = [max(factors[number] for number, _ in folds) for folds in zip(*group.in_fold_idx, strict=True)]
    return sum(read) if _is_product(scope, group) and read else max(read, default=1)


def inner_value(scope: LoweringScope, group: FoldedLayer, inputs: Sequence[Value], *, is_due: bool = True) -> Value:
    """The value of a group from those of its H inputs, normalized where that `is_due`."""
    layer = group.representative
    row = scope.folded.row(layer)
    assert not isinstance(row, InputRow), "input rows belong to input layers"
    rows, semiring = scope.by_row(group), scope.semiring
    if rows is not None:
        inputs = [semiring.map(xp, lambda array: rows.merge_array(array, group.num_folds), value) for value in inputs]
    value = _checked(scope, group, row.body(xp, semiring, layer, scope.parameters(group), inputs))
    return semiring.normalize(xp, value) if is_due else value


def _checked(scope: LoweringScope, group: FoldedLayer, value: Value) -> Value:
    """Check the value that a row has returned, and return it as `(F, B, K)`.

    Raises:
        ShapeError: `value` is no value of the semiring with the units of the layer.
    """
    folds, units = group.num_folds, group.representative.num_output_units
    rows = scope.by_row(group)
    axis = folds if rows is None else folds * rows.count
    first = value[0] if isinstance(value, tuple) and value else None
    if isinstance(first, Tracer) and first.ndim == 3 and (first.dims[0], first.dims[2]) == (axis, units):
        return value if rows is None else scope.semiring.map(xp, lambda array: rows.split_array(array, folds), value)
    shown = f"a value of {first.aval}" if isinstance(first, Tracer) else f"{type(value).__name__} {value!r}"
    raise ShapeError(
        f"{scope.builder.source}: the {type(scope.folded.row(group.representative)).__name__} of "
        f"{group.layer_class.__name__} gave {shown}; expected a value of the semiring, a tuple of arrays, of shape "
        f"({folds}, B, {units}): folds, rows of data and units"
    )


def describe(circuit: Circuit, number: int, group: FoldedLayer) -> str:
    """The source of a group's equations, for messages and for comments in generated code."""
    name = circuit.layer_name(group.representative)
    return f"group {number}: {name}" if group.num_folds == 1 else f"group {number}: {group.num_folds} like {name}"


def equations_of(program: Program, number: int) -> Iterator[Equation]:
    """The equations of a Program that come from a group, by its number."""
    return (equation for equation in program.equations if equation.source.startswith(f"group {number}:"))


def _inputs(scope: LoweringScope, group: FoldedLayer, values: list[Value]) -> list[Value]:
    """The values that a group reads, from those of the groups before it."""
    return [scope.read(values, list(folds)) for folds in zip(*group.in_fold_idx, strict=True)]


def _value(
    scope: LoweringScope, data: Inputs | None, group: FoldedLayer, inputs: Sequence[Value], *, is_due: bool
) -> Value:
    layer, semiring = group.representative, scope.semiring
    row = scope.folded.row(layer)
    if isinstance(row, InputRow):
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        params = scope.parameters(group)
        value = row.reduced(xp, semiring, layer, params) if data is None else data.value(row, group, params)
        checked = _checked(scope, group, value)
        return scope.with_rows(checked) if data is None else checked
    return inner_value(scope, group, inputs, is_due=is_due)
