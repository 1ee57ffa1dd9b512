"""Quantiles of one variable: a Program of its distribution function, a mixture of those of its layers' units.

The weight of a unit in the mixture is its flow, given the rest of a row (`flows.py`). A search for quantiles evaluates
the mixture many times, for many rows, without another pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.data import input_width
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.boxes import Boxes
from plica.lower.queries.posterior import Reading
from plica.lower.queries.query import Flowing, Query, Upward, ask
from plica.lower.queries.units import moment_of_rule
from plica.symbolic.layers import InputLayer, InputRow, Layer
from plica.symbolic.layers.rows import Normal
from plica.symbolic.semirings import LSE_SUM
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def quantile(circuit: Any, variable: int, p: Any, given: Any = None) -> Any:
    """The smallest value of a variable up to which it lies with probability p or more, given the rest of a row.

    Args:
        circuit: A compiled circuit.
        variable: The variable.
        p: A number above 0 and below 1, or several of them `(P,)`.
        given: Rows `(R, D)` with known entries, NaN elsewhere; entries of the variable itself are ignored. By default
            no variable is known.

    Returns:
        Of the shape of `p`; with `given` `(R,)`, or `(R, P)`. Integers where the variable has states or counts, else
        numbers in the dtype of the circuit: the first whose probability, as computed, suffices.

    Raises:
        InputError: `p` is no probability, `variable` is none of the circuit's, a row does not fit, has probability
            zero, or has another variable of a layer of this one, unless its variables are normal. Or the dtype of the
            circuit does not hold the variance of a normal variable.
        UnsupportedError: A layer of the variable does not define the mass of an interval, while not all of them are
            normal, or another layer has no downward pass.
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
    """
    return ask(circuit, "quantile", variable, p, given)


QUANTILE = Query(
    quantile,
    "the quantile",
    Upward(("marginal", "interval"), sums=("choose",), products=("route",), instead="normal"),
    driver="quantile",
)
INPUT_FLOWS = Query(
    quantile, QUANTILE.name, Flowing(lambda reading: [flow for _, flow in reading.flows.inputs], rows=1)
)


def normal_of(folded: FoldedCircuit, layer: Layer) -> Normal | None:
    """What says that variables of a layer, or their logarithms, are normal under each unit, given others too."""
    row = folded.row(layer)
    return row.normal if isinstance(row, InputRow) else None


def _normal_units(reading: Reading) -> list[Tracer]:
    """For each group of layers of normal variables the flows `(F, B, K)`, means and variances `(F, B, K, V)`.

    These are of logarithms where the logarithm is normal.
    """
    results = []
    for group, flow in reading.flows.inputs:
        normal = normal_of(reading.scope.folded, group.representative)
        if normal is not None:
            given = reading.data.conditional(group)
            moments = [
                moment_of_rule(reading.scope, group, name, rule, given)
                for name, rule in (("mean", normal.mean), ("variance", normal.variance))
            ]
            shape = (*flow.dims, len(group.scope_idx[0]))
            moments = [xp.expand_dims(array, axis=1) if array.ndim == 3 else array for array in moments]
            results += [flow, *(xp.broadcast_to(array, shape) for array in moments)]
    return results


NORMAL_UNITS = Query(quantile, QUANTILE.name, Flowing(_normal_units, rows=1))


@dataclass(frozen=True, slots=True, eq=False)
class LoweredShares:
    """The Program `x (B,), flows (B, U) -> (B,)`, and its captured leaves.

    Args:
        program: The Program.
        captured: The leaf or constant of each captured variable.
        layers: The layers of the variable, in the order of the flows of their units.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    layers: tuple[InputLayer, ...]


def lower_shares(
    folded: FoldedCircuit, variable: int, dtype: DType, owners: Owners | None = None
) -> list[LoweredShares]:
    """The Programs of the distribution function of a mixture of the units of one variable's layers.

    Each Program has layers of one number of units, as outputs of a circuit must; the mixture is the sum of all.

    Args:
        folded: The circuit as it was described.
        variable: The variable.
        dtype: The dtype that it computes in.
        owners: The leaves that exist already.
    """
    layers_by_units: dict[int, list[InputLayer]] = {}
    for layer in folded.circuit.live.input_layers:
        if variable in layer.scope:
            layers_by_units.setdefault(layer.num_output_units, []).append(layer)
    return [_lower_shares(folded, variable, tuple(layers), dtype, owners or {}) for layers in layers_by_units.values()]


def _lower_shares(
    folded: FoldedCircuit, variable: int, layers: tuple[InputLayer, ...], dtype: DType, owners: Owners
) -> LoweredShares:
    part = folded.circuit.subgraph(*layers)
    folded_part = (fold_circuit if folded.folds else single_groups)(part, rows=folded.rows)
    scope = LoweringScope(folded_part, LSE_SUM, dtype, owners)
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
        for (group, fold), layer in zip(folded_part.out_fold_idx, layers, strict=True):
            in_box, everywhere = (LSE_SUM.to_log(xp, values[group])[fold] for values in (boxes, totals))  # (B or 1, K)
            shares = xp.where(xp.equal(everywhere, -math.inf), 0.0, xp.exp(in_box - everywhere))
            stop = start + layer.num_output_units
            mixed, start = mixed + xp.sum(flows[:, start:stop] * shares, axis=1), stop
    return LoweredShares(scope.build([mixed]), tuple(scope.captured), layers)
