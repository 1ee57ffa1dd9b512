"""The total of a circuit as a Program: its value summed, integrated or maximized over all variables, no data in.

Log-likelihoods are logarithms of values minus that of the total, so that a circuit need not be normalized.
"""

from __future__ import annotations

from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.score import doubtful_weights
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp


@dataclass(frozen=True, slots=True, eq=False)
class LoweredTotal:
    """The Program of a total, `(outputs, units)` logarithms, and its captured leaves.

    Args:
        program: The Program.
        captured: The leaf or constant of each captured variable.
        weights: The weights, by group and name, that may be negative though the semiring carries no such numbers.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    weights: tuple[tuple[FoldedLayer, str], ...]


def lower_total(folded: FoldedCircuit, semiring: Semiring, dtype: DType, owners: Owners | None = None) -> LoweredTotal:
    """The Program of the logarithm of a circuit's total, `(outputs, units)`."""
    scope = LoweringScope(folded, semiring, dtype, owners or {})
    with scope.trace.active():
        outputs = scope.read(layer_values(scope, None), list(folded.out_fold_idx))
        total = semiring.to_log(xp, outputs)[:, 0, :]
    return LoweredTotal(scope.build([total]), tuple(scope.captured), doubtful_weights(scope))
