"""The distribution function of one variable, as a mixture of those of its layers' units: a Program.

How probable it is that each unit speaks for the variable, given the rest of a row, is the unit's flow (`flows.py`). The
mixture is evaluated as often as a search for its quantiles asks, for many rows, without another walk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.data import input_width
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.boxes import Boxes
from plica.lower.queries.expect import FlowQuery
from plica.lower.queries.needs import Needs
from plica.symbolic.layers import InputLayer
from plica.symbolic.semirings import LSE_SUM
from plica.tracing import namespace as xp

QUANTILE = Needs("quantile", "the quantile", inputs=("marginal", "interval"), sums=("choose",), products=("route",))
INPUT_FLOWS = FlowQuery(
    QUANTILE.function, QUANTILE.name, lambda found: [flow for _, flow in found.flows.inputs], rows=1
)


@dataclass(frozen=True, slots=True, eq=False)
class LoweredShares:
    """The Program `x (B,), flows (B, U) -> (B,)`, and what stands behind its variables.

    Args:
        program: The Program.
        captured: What stands behind each captured variable.
        layers: The layers of the variable that it is of, whose units the flows are in order.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    layers: tuple[InputLayer, ...]


def lower_shares(
    folded: FoldedCircuit, variable: int, dtype: DType, owners: Owners | None = None
) -> list[LoweredShares]:
    """The Programs of how much of a mixture of the units of one variable's layers lies up to x.

    Each is of the layers of one number of units, as the outputs of a circuit are; the mixture is their sum.

    Args:
        folded: The circuit as it was described.
        variable: The variable.
        dtype: The dtype that it computes in.
        owners: The leaves that exist already.
    """
    alike: dict[int, list[InputLayer]] = {}
    for layer in folded.circuit.live.input_layers:
        if variable in layer.scope:
            alike.setdefault(layer.num_output_units, []).append(layer)
    return [_lower_shares(folded, variable, tuple(layers), dtype, owners or {}) for layers in alike.values()]


def _lower_shares(
    folded: FoldedCircuit, variable: int, layers: tuple[InputLayer, ...], dtype: DType, owners: Owners
) -> LoweredShares:
    part = folded.circuit.subgraph(*layers)
    own = (fold_circuit if folded.folds else single_groups)(part, rows=folded.rows)
    scope = LoweringScope(own, LSE_SUM, dtype, owners)
    with scope.trace.active():
        x = scope.argument("x", ("b",), dtype)
        flows = scope.argument("flows", ("b", sum(layer.num_output_units for layer in layers)), dtype)
        columns = [xp.full((1, x.dims[0]), math.inf, dtype=dtype)] * input_width(part)
        columns[variable] = xp.expand_dims(x, axis=0)
        high = xp.permute_dims(xp.concat(columns), (1, 0))
        boxes, totals = (
            layer_values(scope, Boxes(scope, xp.full_like(high, -math.inf), high)),
            layer_values(scope, None),
        )
        mixed, start = xp.zeros((x.dims[0],), dtype=dtype), 0
        for (group, fold), layer in zip(own.out_fold_idx, layers, strict=True):
            some, every = (LSE_SUM.to_log(xp, values[group])[fold] for values in (boxes, totals))  # (B or 1, K)
            shares = xp.where(xp.equal(every, -math.inf), 0.0, xp.exp(some - every))
            stop = start + layer.num_output_units
            mixed, start = mixed + xp.sum(flows[:, start:stop] * shares, axis=1), stop
    return LoweredShares(scope.build([mixed]), tuple(scope.captured), layers)
