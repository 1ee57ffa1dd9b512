"""The score of a circuit as a Program: `(B, D)` data in, `(B, outputs, units)` out (seed 002's walk over layers).

Data: integers, or floats where NaN means missing: the variable is then summed out, and its layers need a smooth and
decomposable circuit. A category that no layer has makes its row NaN; nothing indexes out of range.
"""

from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.data import InputData, input_width
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.scope import LoweringScope
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import FusedRow, InputRow, ProductRow
from plica.symbolic.scaled import SCALED, trusted
from plica.symbolic.semirings import Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A Program with what stands behind each of its captured variables."""

    program: Program
    captured: tuple[Leaf | Constant, ...]


def lower_score(
    folded: FoldedCircuit, semiring: Semiring, dtype: DType, input_dtype: DType, owners: Owners | None = None
) -> Lowered:
    """The Program that scores data of `input_dtype`, with real parameters of `dtype` and the leaves that exist already.

    In the semiring `SCALED` it has a second result, `(B,)`: whether the row is proven right (see `symbolic/scaled.py`).
    """
    scope = LoweringScope(folded, semiring, dtype, owners or {})
    with scope.trace.active():
        results = _score(scope, input_dtype)
    return Lowered(scope.build(results), tuple(scope.captured))


def _score(scope: LoweringScope, input_dtype: DType) -> list[Tracer]:
    data = None
    if scope.folded.scope:
        x = scope.argument("x", ("b", input_width(scope.folded.described)), input_dtype)
        data = InputData(scope, x)
    outputs = scope.read(layer_values(scope, data), list(scope.folded.out_fold_idx))
    result = xp.permute_dims(scope.semiring.result(xp, outputs), (1, 0, 2))  # (B, outputs, units)
    results = [result if data is None else data.poison(result)]
    if scope.folded.described.live is not scope.folded.described:
        scope.keep_unread()
    if scope.semiring is SCALED:
        results.append(xp.all(trusted(xp, outputs), axis=(0, 2)))
    return results


def layer_values(scope: LoweringScope, data: InputData | None) -> list[Value]:
    """The value of every group, in order: `(F, B, K)`, or `(F, 1, K)` with every variable summed out without data."""
    values: list[Value] = []
    for number, group in enumerate(scope.folded.groups):
        with scope.builder.at(describe(scope.folded.circuit, number, group)):
            value = _value(scope, data, group, values)
            # inputs and sums of what is in range stay there; products need not
            multiplies = isinstance(scope.folded.row(group.representative), ProductRow | FusedRow)
            values.append(scope.semiring.normalise(xp, value) if multiplies else value)
    return values


def describe(circuit: Circuit, number: int, group: FoldedLayer) -> str:
    """Where equations of a group come from, for messages and for comments in generated code."""
    name = circuit.layer_name(group.representative)
    return f"group {number}: {name}" if group.num_folds == 1 else f"group {number}: {group.num_folds} like {name}"


def _value(scope: LoweringScope, data: InputData | None, group: FoldedLayer, values: list[Value]) -> Value:
    layer, semiring = group.representative, scope.semiring
    row = scope.folded.row(layer)
    params = scope.parameters(group)
    if isinstance(row, InputRow):
        return row.marginal(xp, semiring, layer, params) if data is None else data.value(row, group, params)
    inputs = [scope.read(values, [fold[place] for fold in group.in_fold_idx]) for place in range(layer.arity)]
    return row.body(xp, semiring, layer, params, inputs)
