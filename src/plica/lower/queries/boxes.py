"""The probability that variables lie in a *box*, an interval for each of them: the queries `cdf` and `probability`.

The Program is an upward pass. The value of an input layer is its mass between the ends of the interval. A smooth and
decomposable circuit is linear in the values of every variable's layers, so its value is the mass of the box.
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
        UnsupportedError: A variable's entry is finite, but one of its layers does not define the mass of an interval.
        InputError, StructuralPropertyError, ShapeError: As for `log_likelihood`, but any number is allowed.
    """
    return ask(circuit, "cdf", x)


def probability(circuit: Any, low: Any, high: Any) -> Any:
    """The probability of boxes: that every variable lies between its ends, both included.

    Args:
        circuit: A compiled circuit.
        low: Rows `(B, D)` of lower ends; minus infinity or NaN where there is none.
        high: Rows of upper ends; infinity or NaN where there is none. A box with an end above the other is empty.

    Returns:
        `(B,)` probabilities, 0 for an empty box. Their error is that of `cdf`.

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
    """The Program `low (B, D), high (B, D) -> logarithms of probabilities (B, outputs, units)`.

    Input layers whose registry entry has no `interval` are summed or integrated over all numbers.

    Args:
        folded: The circuit.
        semiring: The number format, whose results are logarithms: complex ones of numbers with signs.
        dtype: The dtype of the parameters and the results.
        ends_dtype: The dtype of `low` and `high`, floats. NaN or an infinity is no end.
        owners: The leaves of Programs that were lowered before.
    """
    scope = LoweringScope(folded, semiring, dtype, owners or {})
    with scope.trace.active():
        low, high = (scope.argument(name, ("b", input_width(folded.described)), ends_dtype) for name in ("low", "high"))
        outputs = scope.read(layer_values(scope, Boxes(scope, low, high)), list(folded.out_fold_idx))
        logs = xp.permute_dims(semiring.result(xp, outputs), (1, 0, 2))
    return Lowered.of(scope, [logs])


class Boxes:
    """An interval for each variable of each row.

    Args:
        scope: The Program under construction.
        low: `(B, D)`, the lower ends, included; NaN where there is none.
        high: `(B, D)`, the upper ends, included; NaN where there is none.
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
        total = row.reduced(xp, semiring, layer, params)  # the mass of all values
        if isinstance(row.interval, Unsupported) or not layer.num_variables:
            num_rows = self._low.dims[1]
            return semiring.map(
                xp, lambda array: xp.broadcast_to(array, (array.dims[0], num_rows, array.dims[2])), total
            )
        low, high = (columns_of(scope, ends, group) for ends in (self._low, self._high))  # (F, B, num_variables)
        domain = layer.domain
        has_no_ends = xp.logical_and(xp.equal(low, -math.inf), xp.equal(high, math.inf))
        if domain.whole:
            low, high = xp.ceil(low), xp.floor(high)
        low = xp.maximum(low, float(domain.least))
        is_everything = xp.all(has_no_ends, axis=-1, keepdims=True)
        is_empty = xp.any(xp.greater(low, high), axis=-1, keepdims=True)
        # `row.interval` need not handle such boxes: both ends become a value of the domain, and its result is not used
        is_replaced = xp.logical_or(is_everything, is_empty)
        ends = [xp.astype(xp.where(is_replaced, float(domain.inside), end), scope.dtype) for end in (low, high)]
        mass = semiring.choose(xp, is_everything, row.interval(xp, semiring, layer, params, *ends), total)
        zero = semiring.zero(xp, (group.num_folds, 1, layer.num_output_units), scope.dtype)
        return semiring.choose(xp, is_empty, mass, zero)
