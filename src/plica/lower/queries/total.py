"""The total of a circuit as a Program: its value summed, integrated or maximized over all variables, no data in.

Log-likelihoods are logarithms of values minus that of the total, so that a circuit need not be normalized.
"""

from __future__ import annotations

from plica.ir.dtypes import DType
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.score import Lowered
from plica.symbolic.semirings import Semiring
from plica.tracing import namespace as xp


def lower_total(folded: FoldedCircuit, semiring: Semiring, dtype: DType, owners: Owners | None = None) -> Lowered:
    """The Program of the logarithm of a circuit's total, `(outputs, units)`."""
    scope = LoweringScope(folded, semiring, dtype, owners or {})
    with scope.trace.active():
        outputs = scope.read(layer_values(scope, None), list(folded.out_fold_idx))
        total = semiring.to_log(xp, outputs)[:, 0, :]
    return Lowered.of(scope, [total])
