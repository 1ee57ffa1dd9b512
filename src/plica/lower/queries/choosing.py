"""The Program of a query that chooses (`Choosing`): an upward pass, and a downward pass that chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.checks import is_never_negative
from plica.lower.data import InputData, columns_of, fills_whole, input_width, samples_dtype
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.choose import Choices
from plica.lower.queries.filled import FilledRows
from plica.lower.queries.query import Choosing, Query
from plica.lower.queries.top_down import walk_down
from plica.symbolic.layers import InputLayer
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class LoweredChoices:
    """The Program of a query, and its captured leaves.

    It takes uniform numbers `(U, B)` where the query draws, then data `(B, D)` if it was lowered for some. Its results:
    rows of data `(B, D)`, the chosen terms `(S, B)`, the logarithm of the circuit's value `(B,)` (or `(1,)` without
    data), whether a weight has no logarithm `()` and, in a semiring with a bound, in which rows it holds `(B,)`.

    Args:
        program: The Program.
        captured: The leaf or constant of each captured variable.
        num_uniforms: U, how many uniform numbers one row takes; 0 where the query does not draw.
        sums: The S sum layers, by topological index, in the order of the chosen terms.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    num_uniforms: int
    sums: tuple[int, ...]


def lower_choices(
    query: Query[Choosing],
    folded: FoldedCircuit,
    dtype: DType,
    *,
    input_dtype: DType | None = None,
    real_dtype: DType | None = None,
    owners: Owners | None = None,
    semiring: Semiring | None = None,
    one_row: bool = False,
    poisons: bool = False,
) -> LoweredChoices:
    """The Program that answers a query on a circuit as it was described.

    Args:
        query: The query.
        folded: The circuit, with one output of one unit.
        dtype: The dtype that it computes in.
        input_dtype: The dtype of the data; None where no variable is known.
        real_dtype: The dtype of real variables in the new rows; by default that of the data if it is floating, else
            `dtype`. Rows whose variables all have states are int64.
        owners: The leaves that exist already.
        semiring: The number format, if not the query's; of the same algebra.
        one_row: Whether data is one row, `(1, D)`, which all new rows complete.
        poisons: Whether the logarithm is NaN for rows that cannot be completed: those with an entry that is no state,
            or with some but not all variables of a layer. Callers that check data before need not set it.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer does not define what the query needs.
    """
    query.needs.check(folded.circuit, folded.row)
    scope = LoweringScope(folded, semiring or query.policy.semiring, dtype, owners or {})
    floating = input_dtype is not None and input_dtype.kind == "float"
    reals = real_dtype or (input_dtype if floating and input_dtype else dtype)
    with scope.trace.active():
        results, choices = _lowered(scope, query, input_dtype, samples_dtype(folded.circuit, reals), one_row, poisons)
    circuit = folded.circuit
    return LoweredChoices(
        scope.build(results),
        tuple(scope.captured),
        _num_uniforms(query, folded),
        tuple(circuit.layer_index(layer) for layer in choices.sums),
    )


def _num_uniforms(query: Query[Choosing], folded: FoldedCircuit) -> int:
    return sum(query.policy.chooser.num_uniforms(folded.row(layer), layer) for layer in folded.circuit.live.layers)


def _lowered(
    scope: LoweringScope, query: Query[Choosing], input_dtype: DType | None, dtype: DType, one_row: bool, poisons: bool
) -> tuple[list[Tracer], Choices]:
    uniforms = x = data = None
    if query.policy.chooser.draws:
        uniforms = scope.argument("uniforms", (_num_uniforms(query, scope.folded), "b"), scope.dtype)
    if input_dtype is not None:
        x = scope.argument("x", (1 if one_row else "b", input_width(scope.folded.described)), input_dtype)
        data = InputData(scope, x)
    count = uniforms.dims[1] if uniforms is not None else 1 if x is None else x.dims[0]
    up = layer_values(scope, data)
    is_by_row = data is not None and not one_row
    choices = Choices(scope, query.policy.chooser, up, data, is_by_row, uniforms, FilledRows(scope, count, dtype))
    walk_down(scope, choices)
    choices.pass_by(layer for layer in scope.folded.circuit.sum_layers if layer not in choices.sums)
    ((group, fold),) = scope.folded.out_fold_idx
    semiring = scope.semiring
    log_value = semiring.to_log(xp, up[group])[fold, :, 0]
    if poisons and data is not None and x is not None:
        log_value = data.poison(xp.reshape(log_value, (log_value.dims[0], 1, 1)))[:, 0, 0]
        for partial in _in_part(scope, x):
            log_value = xp.where(partial, float("nan"), log_value)
    live = frozenset(scope.folded.circuit.live.layers)
    choices.skip(layer for layer in scope.folded.circuit.layers if layer not in live)
    terms = xp.concat(choices.terms) if choices.terms else xp.zeros((0, count), dtype=DType.INT64)
    checks = [*choices.invalid, *_negative(scope)]
    invalid = xp.any(xp.stack(checks)) if checks else xp.zeros((), dtype=DType.BOOL)
    results = [_completed(x, choices.filled.rows()), terms, log_value, invalid]
    if semiring.proven is not None:
        results.append(semiring.proven(xp, up[group])[fold, :, 0])
    return results, choices


def _negative(scope: LoweringScope) -> list[Tracer]:
    """For each weight of input layers that may be negative, `()`, whether it is; sums check theirs as they choose."""
    return [
        xp.any(xp.less(scope.parameters(group)[name], 0.0))
        for group, name in scope.weights
        if isinstance(group.representative, InputLayer) and not is_never_negative(group, name)
    ]


def _in_part(scope: LoweringScope, x: Tracer) -> Iterator[Tracer]:
    """For each group of layers that fill in all of their variables or none, which rows have only some, `(B,)`."""
    for group in scope.folded.groups if x.dtype.kind == "float" else ():
        if isinstance(group.representative, InputLayer) and fills_whole(scope.folded, group.representative):
            missing = columns_of(scope, xp.permute_dims(xp.isnan(x), (1, 0)), group)  # (F, B, num_variables)
            yield xp.any(xp.logical_and(xp.any(missing, axis=2), ~xp.all(missing, axis=2)), axis=0)


def _completed(x: Tracer | None, rows: Tracer) -> Tracer:
    """`rows` with the entries of `x` that are not missing."""
    if x is None:
        return rows
    if x.dtype.kind != "float":
        return xp.broadcast_to(xp.astype(x, rows.dtype), rows.dims)
    missing = xp.isnan(x)
    return xp.where(missing, rows, xp.astype(xp.where(missing, 0.0, x), rows.dtype))
