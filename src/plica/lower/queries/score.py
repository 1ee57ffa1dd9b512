"""The score of a circuit as a Program: `(B, D)` data in, `(B, outputs, units)` out; the upward pass alone.

A circuit without variables has no data, and its Program gives `(outputs, units)`.

Data: integers, or floats where NaN means missing. A missing variable is summed out, which needs a smooth and
decomposable circuit. A category that no layer has makes its row NaN; nothing indexes out of range.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from plica.graph.fold import FoldIndexInfo
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.call_parameters import CallParameters
from plica.lower.checks import is_never_negative
from plica.lower.data import InputData, input_width
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.passes.algebra import Fired
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A Program and its captured leaves.

    Args:
        folded: The circuit that it computes.
        program: The Program.
        captured: The leaf or constant of each captured variable.
        weights: The weights, by group and name, that may be negative though the semiring carries no such numbers.
        zeros: Learned weights, by group and name, that may be 0; None where other learned numbers may be, too.
        parameters: The (number of a folded node, fold) of each node of the parameters, and back.
        fired: The rules that fired on the Program, and where.
    """

    folded: FoldedCircuit
    program: Program
    captured: tuple[Leaf | Constant, ...]
    weights: tuple[tuple[FoldedLayer, str], ...]
    zeros: tuple[tuple[FoldedLayer, str], ...] | None
    parameters: FoldIndexInfo[Any]
    fired: Fired = field(default_factory=dict)

    @staticmethod
    def of(scope: LoweringScope, results: Iterable[Tracer]) -> "Lowered":
        """The Program that returns `results`; call this last in a scope."""
        weights = tuple(weight for weight in scope.weights if not is_never_negative(*weight))
        zeros = None if scope.always_zeros else tuple(scope.zeros)
        program, info = scope.build(results), scope.parameter_info
        return Lowered(scope.folded, program, tuple(scope.captured), weights, zeros, info, scope.fired)


def lower_score(
    folded: FoldedCircuit,
    semiring: Semiring,
    dtype: DType,
    input_dtype: DType,
    owners: Owners | None = None,
    given: CallParameters | None = None,
    *,
    complete: bool | None = None,
) -> Lowered:
    """The Program that scores data of `input_dtype`, with real parameters of `dtype` and the leaves that exist already.

    Where rows are `complete`, none has a missing variable, so that `folded.complete` may compute them; by default this
    is so of data that is no floats.

    Its arguments are the values of leaves that are `given`, and the data. Its result is `(B, outputs, units)`; without
    data, `(outputs, units)` unless leaves are given for each row. In a semiring with a bound it has a second result,
    `(B,)`, or `(1,)` without data: whether the bound holds for a row.
    """
    folded = folded.for_rows(complete=input_dtype.kind != "float" if complete is None else complete)
    scope = LoweringScope(folded, semiring, dtype, owners or {}, given or {})
    with scope.trace.active():
        results = _score(scope, input_dtype)
    return Lowered.of(scope, results)


def _score(scope: LoweringScope, input_dtype: DType) -> list[Tracer]:
    data = None
    if scope.folded.scope:
        x = scope.argument("x", ("b", input_width(scope.folded.described)), input_dtype)
        data = InputData(scope, x)
    outputs = scope.read(layer_values(scope, data), list(scope.folded.out_fold_idx))
    result = xp.permute_dims(scope.semiring.result(xp, outputs), (1, 0, 2))  # (B, outputs, units)
    if data is not None:
        result = data.poison(result)
    elif not any(scope.given.values()):
        result = result[0]  # no rows
    results = [result]
    scope.keep_unread()
    if scope.semiring.proven is not None:
        results.append(xp.all(scope.semiring.proven(xp, outputs), axis=(0, 2)))
    return results
