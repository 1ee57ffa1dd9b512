"""The probability of boxes as a Program: the ends of an interval for each variable in, logarithms of probabilities out.

In the upward pass, the value of an input layer is its mass between the ends. A smooth and decomposable circuit is
linear in the values of every variable's layers, so its value is the mass of the box.
"""

from __future__ import annotations

import math
from typing import Any

from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.lower.data import columns_of, input_width
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.query import Query, Upward, ask
from plica.lower.queries.score import Lowered
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.semirings import Params, Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def cdf(circuit: Any, x: Any) -> Any:
    """The probability that every variable of a row is at most its entry, all of them together.

    Args:
        circuit: A compiled circuit.
        x: Rows `(B, D)` of any numbers, infinities among them; NaN where a variable may have any value.

    Returns:
        `(B,)` probabilities of the normalized distribution, without gradients. The error is absolute, about one
        rounding of 1.0 in the dtype of the circuit; do not use it for far tails.

    Raises:
        UnsupportedError: The layer of a variable that has an end does not define the mass of an interval.
        InputError, StructuralPropertyError, ShapeError: As for `log_likelihood`; no number is outside a domain here.
    """
    return ask(circuit, "cdf", x)


def probability(circuit: Any, low: Any, high: Any) -> Any:
    """The probability of boxes: that every variable lies between its ends, both included.

    Args:
        circuit: A compiled circuit.
        low: Rows `(B, D)` of lower ends; minus infinity or NaN where there is none.
        high: Rows of upper ends; infinity or NaN where there is none. A box with an end above the other is empty.

    Returns:
        `(B,)`, as `cdf` gives it; 0 for an empty box.

    Raises:
        InputError: `low` and `high` differ in shape, or do not fit the circuit.
        UnsupportedError, StructuralPropertyError, ShapeError: As for `cdf`.
    """
    return ask(circuit, "probability", low, high)


CDF = Query(cdf, "the distribution function", Upward(("interval",), signed=True), "boxes")
PROBABILITY = Query(probability, "the probability of a box", Upward(("interval",), signed=True), "boxes")


def lower_boxes(
    folded: FoldedCircuit, semiring: Semiring, dtype: DType, ends_dtype: DType, owners: Owners | None = None
) -> Lowered:
    """The Program of boxes whose ends are of `ends_dtype`, floats; NaN and infinities where there is no end.

    It is `low (B, D), high (B, D) -> logarithms (B, outputs, units)`.

    Input layers whose row has no `interval` are summed or integrated over all numbers.
    """
    scope = LoweringScope(folded, semiring, dtype, owners or {})
    with scope.trace.active():
        low, high = (scope.argument(name, ("b", input_width(folded.described)), ends_dtype) for name in ("low", "high"))
        outputs = scope.read(layer_values(scope, Boxes(scope, low, high)), list(folded.out_fold_idx))
        logs = xp.permute_dims(semiring.to_log(xp, outputs), (1, 0, 2))
    return Lowered.of(scope, [logs])


class Boxes:
    """An interval for each variable of each row.

    Args:
        scope: The Program under construction.
        low: `(B, D)`, the lower ends, inclusive; NaN where there is none.
        high: The upper ends.
    """

    def __init__(self, scope: LoweringScope, low: Tracer, high: Tracer) -> None:
        self._scope = scope
        low, high = (xp.permute_dims(ends, (1, 0)) for ends in (low, high))  # (D, B)
        self._low = xp.where(xp.isnan(low), -math.inf, low)
        self._high = xp.where(xp.isnan(high), math.inf, high)

    def value(self, row: InputRow, group: FoldedLayer, params: Params) -> Value:
        """The mass of a group of input layers between their ends, `(F, B, K)`."""
        layer, scope, semiring = group.representative, self._scope, self._scope.semiring
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        reduced = row.reduced(xp, semiring, layer, params)
        if isinstance(row.interval, Unsupported) or not layer.num_variables:
            rows = self._low.dims[1]
            return semiring.map(xp, lambda array: xp.broadcast_to(array, (array.dims[0], rows, array.dims[2])), reduced)
        low, high = (columns_of(scope, ends, group) for ends in (self._low, self._high))  # (F, B, num_variables)
        domain = layer.domain
        is_free = xp.logical_and(xp.equal(low, -math.inf), xp.equal(high, math.inf))
        if domain.whole:
            low, high = xp.ceil(low), xp.floor(high)
        low = xp.maximum(low, float(domain.least))
        free = xp.all(is_free, axis=-1, keepdims=True)
        empty = xp.any(xp.greater(low, high), axis=-1, keepdims=True)
        # a layer need not handle boxes that are empty or have no ends: it gets a number of the domain instead
        spared = xp.logical_or(free, empty)
        ends = [xp.astype(xp.where(spared, float(domain.inside), end), scope.dtype) for end in (low, high)]
        inside = semiring.choose(xp, free, row.interval(xp, semiring, layer, params, *ends), reduced)
        nothing = semiring.zero(xp, (group.num_folds, 1, layer.num_output_units), scope.dtype)
        return semiring.choose(xp, empty, inside, nothing)
