"""The Program of a query that passes probability down (`Flowing`), and reads its answer off the flows.

It takes data `(B, D)` of floats, NaN where it is missing. It returns the answer that the query reads off, then the
logarithm of the circuit's value `(B,)`, whether a weight has no logarithm `()` and, in a semiring with a bound, whether
the bound holds for all answers of a row `(B,)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from plica.errors import DTypeError, UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.ir.sizes import Dim
from plica.lower.checks import is_never_negative
from plica.lower.data import InputData, input_width
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.derivatives import Derivatives
from plica.lower.queries.flows import Flows, routes_of
from plica.lower.queries.posterior import Known, Reading, with_states
from plica.lower.queries.query import Flowing, Query
from plica.lower.queries.shares import LOGARITHMS, SCALED_NUMBERS
from plica.lower.queries.top_down import walk_down
from plica.symbolic.layers import Choice, InputLayer, Layer, SumRow
from plica.symbolic.semirings import LSE_SUM, Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class LoweredFlows:
    """The Program of a query, and its captured leaves.

    Args:
        program: The Program.
        captured: The leaf or constant of each captured variable.
        sums: The sum layers of each result about terms of sums, by topological index.
        unread: The sum layers that no output depends on, by topological index, with their numbers of terms.
        states: The variables that have states.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    sums: tuple[tuple[int, ...], ...]
    unread: tuple[tuple[int, int], ...]
    states: tuple[int, ...]


def lower_flows(
    query: Query[Flowing],
    folded: FoldedCircuit,
    dtype: DType,
    input_dtype: DType,
    owners: Owners | None = None,
    semiring: Semiring = LSE_SUM,
    *,
    by_derivatives: bool = False,
) -> LoweredFlows:
    """The Program that answers a query, in the number format of a semiring.

    Args:
        query: The query.
        folded: The circuit as it was described or, where flows are found by derivatives, in any equivalent form.
        dtype: The dtype of real parameters.
        input_dtype: The dtype of the data, which is floating.
        owners: The leaves that exist already.
        semiring: The number format.
        by_derivatives: Whether flows of variables are found by derivatives, of scaled numbers.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer does not define what the query needs.
        DTypeError: The query's `read` returned something else than a list of arrays with an axis of rows.
    """
    query.needs.check(folded.described, folded.row)
    if by_derivatives:
        _check_inputs(query, folded)
    scope, routes = LoweringScope(folded, semiring, dtype, owners or {}), {} if by_derivatives else routes_of(folded)
    read: list[list[Value]] = []
    flows: Flows | Derivatives
    with scope.trace.active():
        x = scope.argument("x", ("b", input_width(folded.described)), input_dtype)
        data = InputData(scope, x)
        up = layer_values(scope, data, read)
        if by_derivatives:
            flows = Derivatives(scope, up, read, x.dims[0])
        else:
            flows = Flows(scope, up, x.dims[0], routes, LOGARITHMS if semiring.logarithmic else SCALED_NUMBERS)
        walk_down(scope, flows)
        ((group, fold),) = folded.out_fold_idx
        log_value = semiring.to_log(xp, up[group])[fold, :, 0]
        reading = Reading(scope, flows, data, Known.of(x))
        sum_to_one = reading.sum_to_one() if semiring.proven is not None else None  # before flows are written over
        results = [*_read(query, reading, x.dims[0]), log_value, _invalid(scope, flows)]
        if semiring.proven is not None and sum_to_one is not None:
            proven = [semiring.proven(xp, up[group])[fold, :, 0], sum_to_one, *flows.are_flows()]
            results.append(reduce(xp.logical_and, proven))
    circuit = folded.circuit
    return LoweredFlows(
        scope.build(results),
        tuple(scope.captured),
        tuple(tuple(circuit.layer_index(layer) for layer in group.members) for group, _ in flows.terms),
        tuple((circuit.layer_index(layer), _num_terms(folded, layer)) for layer in _unread(folded)),
        tuple(with_states(folded.described)),
    )


def _read(query: Query[Flowing], reading: Reading, count: Dim) -> list[Tracer]:
    """The results of a query's `read`, arrays with an axis of rows.

    Raises:
        DTypeError: `read` returned something else.
    """
    results, axis = query.policy.read(reading), query.policy.rows
    wanted = f"a list of arrays whose axis {axis} counts rows"
    if not isinstance(results, list | tuple):
        raise DTypeError(f"{query.name}: `read` gave {_type_of(results)}, expected {wanted}.")
    for index, result in enumerate(results):
        if not isinstance(result, Tracer) or result.ndim <= axis or result.dims[axis] != count:
            raise DTypeError(f"{query.name}: result {index} of `read` is {_type_of(result)}, expected {wanted}.")
    return list(results)


def _type_of(value: Any) -> str:
    return str(value.aval) if isinstance(value, Tracer) else f"{type(value).__name__} {value!r:.80}"


def _check_inputs(query: Query[Flowing], folded: FoldedCircuit) -> None:
    """Refuse a circuit whose input layers lack columns or states that the described ones have."""
    query.needs.check_layers(folded.circuit, folded.row, folded.circuit.live.input_layers)
    if query.policy.of_sums or with_states(folded.circuit) != with_states(folded.described):
        raise UnsupportedError(f"{query.name} cannot be computed by derivatives of this circuit.")


def _unread(folded: FoldedCircuit) -> list[Layer]:
    live = dict.fromkeys(folded.circuit.live.layers)
    return [layer for layer in folded.circuit.layers if layer not in live and isinstance(folded.row(layer), SumRow)]


def _num_terms(folded: FoldedCircuit, layer: Layer) -> int:
    row = folded.row(layer)
    known = isinstance(row, SumRow) and isinstance(row.choose, Choice)
    return int(np.asarray(row.choose.reads(layer)).shape[1]) if known else 0  # type: ignore[union-attr]


def _invalid(scope: LoweringScope, flows: Flows | Derivatives) -> Tracer:
    """Whether a weight is negative, `()`; also whether one of a sum is NaN, where its logarithm is taken."""
    checks = list(flows.invalid)
    for group, name in scope.weights:
        is_checked = isinstance(flows, Derivatives) or isinstance(group.representative, InputLayer)
        if is_checked and not is_never_negative(group, name):
            checks.append(xp.any(xp.less(scope.parameters(group)[name], 0.0)))
    return xp.any(xp.stack(checks)) if checks else xp.zeros((), dtype=DType.BOOL)
