"""The score of a circuit as a Program: `(B, D)` data in, `(B, outputs, units)` out (seed 002's walk over layers).

Data: integers, or floats where NaN means missing: the variable is then summed out, and its layers need a smooth and
decomposable circuit. A category that no layer has makes its row NaN; nothing indexes out of range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.scope import LoweringScope
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import FusedRow, InputLayer, InputRow, ProductRow
from plica.symbolic.semirings import Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

Limits = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A Program with what stands behind each of its captured variables."""

    program: Program
    captured: tuple[Leaf | Constant, ...]


def lower_score(
    folded: FoldedCircuit, semiring: Semiring, dtype: DType, input_dtype: DType, owners: Owners | None = None
) -> Lowered:
    """The Program that scores data of `input_dtype`, with real parameters of `dtype` and the leaves that exist already.

    Where the semiring's results have to be proven it has a second result, `(B,)`: whether the row is proven right.
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
    if scope.semiring.proven is not None:
        results.append(xp.all(scope.semiring.proven(xp, outputs), axis=(0, 2)))
    return results


def input_width(circuit: Circuit) -> int:
    """The number of columns of the data: column v is variable v."""
    return max(circuit.scope) + 1 if circuit.scope else 0


def layer_values(scope: LoweringScope, data: "InputData | None") -> list[Value]:
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


def _value(scope: LoweringScope, data: "InputData | None", group: FoldedLayer, values: list[Value]) -> Value:
    layer, semiring = group.representative, scope.semiring
    row = scope.folded.row(layer)
    params = scope.parameters(group)
    if isinstance(row, InputRow):
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        marginal = None if data is not None and data.missing is None else row.reduced(xp, semiring, layer, params)
        if data is None:
            assert marginal is not None, "computed just above"
            return marginal
        return data.choose(group, row.body(xp, semiring, layer, params, data.columns(group, layer)), marginal)
    inputs = [scope.read(values, [fold[place] for fold in group.in_fold_idx]) for place in range(layer.arity)]
    return row.body(xp, semiring, layer, params, inputs)


class InputData:
    """The data as layers read it: columns in front, integers for states, what is missing or wrong aside.

    Args:
        scope: The Program under construction.
        x: `(B, D)`, of any dtype.
    """

    def __init__(self, scope: LoweringScope, x: Tracer) -> None:
        self._scope = scope
        self._columns = xp.permute_dims(x, (1, 0))  # (D, B)
        circuit = scope.folded.described
        absent = xp.isnan(self._columns) if x.dtype.kind == "float" else None
        summable = circuit.is_smooth and circuit.is_decomposable
        self.missing = absent if summable else None
        self._wrong = self._no_state(x.dtype, state_limits(circuit), absent)
        if not summable:
            self._wrong = _either(self._wrong, absent)
        self._states: Tracer | None = None
        self._reals: Tracer | None = None

    def _no_state(self, dtype: DType, limits: Limits, absent: Tracer | None) -> Tracer | None:
        """Which entries are no state of their variable; None if none can be."""
        states = np.isfinite(limits)
        if not states.any():
            return None
        if dtype.kind == "float":
            assert absent is not None, "floating data has a mask of what is missing"
            present: Tracer = xp.logical_not(absent)
            return present & self._no_real_state(dtype, limits, states)
        x = self._columns
        if dtype.kind == "bool":
            x, dtype = xp.astype(x, DType.UINT8), DType.UINT8
        range_ = np.iinfo(dtype.value)
        # Python's integers: the largest int64 is no float64.
        last = [min(int(limit) - 1, range_.max) if np.isfinite(limit) else range_.max for limit in limits]
        wrong: Tracer | None = xp.greater(x, self._each(last, dtype)) if min(last) < range_.max else None
        if range_.min == 0:
            return wrong
        negative: Tracer = xp.less(x, self._each(np.where(states, 0, range_.min), dtype))
        return negative if wrong is None else wrong | negative

    def _no_real_state(self, dtype: DType, limits: Limits, states: NDArray[np.bool_]) -> Tracer:
        x = self._columns
        high = self._each(limits, dtype)
        wrong: Tracer = xp.less(x, 0.0) | xp.greater_equal(x, high) | xp.not_equal(xp.floor(x), x)
        return wrong if states.all() else wrong & self._scope.constant(states[:, None], "states")

    def _each(self, values: Sequence[int] | NDArray[Any], dtype: DType) -> Tracer:
        """One number for each column, `(D, 1)`; a scalar where all are alike."""
        array = np.asarray(values, dtype=dtype.value)
        if (array == array[0]).all():
            return self._scope.number(array[0].item(), dtype)
        return self._scope.constant(array[:, None], "limits")

    def columns(self, group: FoldedLayer, layer: InputLayer) -> Tracer:
        """The variables of a group, `(F, B, num_variables)`: states as int64, reals in the dtype of parameters."""
        source = self._as_states() if layer.num_states is not None else self._as_reals()
        return self._gather(source, group)

    def _as_states(self) -> Tracer:
        if self._states is None:
            safe = self._columns
            unusable = _either(self.missing, self._wrong)
            if unusable is not None:
                safe = xp.where(unusable, self._zero(safe.dtype), safe)
            self._states = xp.astype(safe, DType.INT64)
        return self._states

    def _as_reals(self) -> Tracer:
        if self._reals is None:
            safe = self._columns
            if self.missing is not None:
                safe = xp.where(self.missing, self._zero(safe.dtype), safe)
            self._reals = xp.astype(safe, self._scope.dtype)
        return self._reals

    def _zero(self, dtype: DType) -> Tracer:
        return self._scope.number(0, dtype)

    def _gather(self, source: Tracer, group: FoldedLayer) -> Tracer:
        folds = group.scope_idx
        flat = [variable for variables in folds for variable in variables]
        if flat == list(range(flat[0], flat[0] + len(flat))):
            picked = source[flat[0] : flat[0] + len(flat)]
        else:
            picked = xp.take(source, self._scope.constant(np.asarray(flat, dtype=np.int64)), axis=0, nonnegative=True)
        if len(folds[0]) == 1:
            return xp.expand_dims(picked, axis=-1)
        shaped = xp.reshape(picked, (len(folds), len(folds[0]), source.dims[1]))
        return xp.permute_dims(shaped, (0, 2, 1))

    def choose(self, group: FoldedLayer, value: Value, marginal: Value | None) -> Value:
        """`value`, or `marginal` where every variable of the layer is missing."""
        if self.missing is None or marginal is None:
            return value
        missing = xp.all(self._gather(self.missing, group), axis=-1, keepdims=True)  # (F, B, 1)
        return tuple(xp.where(missing, other, one) for one, other in zip(value, marginal, strict=True))

    def poison(self, result: Tracer) -> Tracer:
        """`result (B, outputs, units)` with rows of NaN where an entry was no state of its variable."""
        if self._wrong is None:
            return result
        bad = xp.any(self._wrong, axis=0)  # (B,)
        bad = xp.expand_dims(xp.expand_dims(bad, axis=-1), axis=-1)
        return xp.where(bad, float("nan"), result)


def _either(first: Tracer | None, second: Tracer | None) -> Any:
    if first is None or second is None:
        return first if second is None else second
    return first | second


def state_limits(circuit: Circuit) -> Limits:
    """For each column of the data, the smallest number of states of its layers; infinite where they are real."""
    limits = np.full(input_width(circuit), np.inf)
    for layer in circuit.input_layers:
        if layer.num_states is not None:
            for variable in layer.scope:
                limits[variable] = min(limits[variable], layer.num_states)
    return limits
