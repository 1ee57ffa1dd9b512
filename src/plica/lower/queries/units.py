"""The distributions of single units of input layers: tables of states, means and variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from plica.errors import ShapeError, UnsupportedError
from plica.ir.op import Unsupported
from plica.lower.fold.groups import FoldedLayer
from plica.lower.lowering import LoweringScope
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.rows import Moment
from plica.symbolic.semirings import Params, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

Ratio: TypeAlias = Callable[[Value, Value], Tracer]  # (parts, totals) -> their ratio, as ordinary numbers


def num_states(layer: InputLayer) -> int | None:
    """How many states a layer's variable has; None unless it is one variable with a known number of states."""
    return layer.domain.num_states if layer.num_variables == 1 else None


def has_states(layer: InputLayer) -> bool:
    """Whether a layer's variable has a known number of states; true for a layer without variables."""
    return not layer.num_variables or num_states(layer) is not None


def unit_tables(scope: LoweringScope, group: FoldedLayer, width: int, ratio: Ratio) -> Tracer:
    """The probability of each state under each unit, `(F, K, width)`: zeros for further states."""
    layer, row = group.representative, scope.folded.row(group.representative)
    assert isinstance(layer, InputLayer), "tables are of input layers"
    assert isinstance(row, InputRow), "input rows belong to input layers"
    params, count = scope.parameters(group), num_states(layer) or 0
    if row.states is None:
        states = xp.astype(xp.reshape(xp.arange(count), (1, count, 1)), layer.domain.dtype(scope.dtype))
        x = xp.broadcast_to(states, (group.num_folds, count, 1))
        value = row.body(xp, scope.semiring, layer, params, x)  # (F, C, K)
    else:
        value = row.states(xp, scope.semiring, layer, params)
    tables = xp.matrix_transpose(ratio(value, row.marginal(xp, scope.semiring, layer, params)))
    if count == width:
        return tables
    zeros = xp.zeros((*tables.dims[:2], width - count), dtype=tables.dtype)
    return xp.concat([tables, zeros], axis=2)


def checked(scope: LoweringScope, group: FoldedLayer, column: str, value: Any, shape: str, rank: int = 3) -> Tracer:
    """The value that a column of a row returned, if it has the right shape.

    Args:
        scope: The Program under construction.
        group: The group, of input layers.
        column: The name of the column.
        value: An array whose last axis is that of variables.
        shape: What messages call its shape.
        rank: The number of its axes.

    Raises:
        ShapeError: `value` has another shape.
    """
    width = group.representative.num_input_units
    if isinstance(value, Tracer) and value.ndim == rank and value.dims[-1] == width:
        return value
    given = str(value.aval) if isinstance(value, Tracer) else f"{type(value).__name__} {value!r}"
    raise ShapeError(
        f"{scope.folded.circuit.layer_name(group.representative)}: the {column} of its row gave {given}; expected an "
        f"array of shape {shape}, with F = {group.num_folds}, K = {group.representative.num_output_units} and "
        f"{width} variable(s)"
    )


def moment_of_rule(
    scope: LoweringScope, group: FoldedLayer, name: str, rule: Moment, given: Params | None = None
) -> Tracer:
    """What a rule of a row says of units, with the shapes and arguments of `unit_moment`.

    Raises:
        ShapeError: The rule gives an array of another shape.
    """
    params = scope.parameters(group) if given is None else given
    rank = 4 if name == "covariance" else 3
    shape = f"(F, K{', num_variables' * (rank - 2)})"
    value = rule(xp, group.representative, params)
    moment: Tracer = xp.astype(checked(scope, group, name, value, shape, rank), scope.dtype)
    if given is None:
        return moment
    rows = xp.floor_divide(moment.dims[0], group.num_folds)
    return xp.reshape(moment, (group.num_folds, rows, *moment.dims[1:]))


def unit_moment(
    scope: LoweringScope, group: FoldedLayer, name: str, ratio: Ratio, given: Params | None = None
) -> Tracer:
    """The `mean`, `variance` or `covariance` of variables under each unit, `(F, K, ...)`: the row's own, or of states.

    Where parameters are `given` by row of data (see `InputData.conditional`), `(F, B, K, ...)`.

    Raises:
        ShapeError: The row gives an array of another shape.
        UnsupportedError: The row lacks the column, and the variable has no states.
    """
    layer = group.representative
    assert isinstance(layer, InputLayer), "moments are of input layers"
    rule = getattr(scope.folded.row(layer), name)
    if not isinstance(rule, Unsupported):
        return moment_of_rule(scope, group, name, rule, given)
    count = num_states(layer)
    if count is None:
        raise UnsupportedError(
            f"{scope.folded.circuit.layer_name(layer)}: {rule.why}. A query that asks for it names it in its policy: "
            f"moments=({name!r}, ...)."
        )
    tables = unit_tables(scope, group, count, ratio)
    states = xp.astype(xp.arange(tables.dims[2]), tables.dtype)
    mean: Tracer = xp.sum(tables * states, axis=2, keepdims=True)
    if name == "mean":
        return mean
    deviation = states - mean
    variance: Tracer = xp.sum(tables * deviation * deviation, axis=2, keepdims=True)
    return variance
