"""The data of a lowered circuit as its layers read it: columns, safe values, and masks of missing or wrong entries.

Data is integers, or floats where NaN means missing. A missing variable is summed out, which needs a smooth and
decomposable circuit. An entry outside the domain of its variable makes its row NaN. So does a row that lacks some
variables of a layer that must have all or none; nothing indexes out of range. A Program of its own has the same masks
(`lower_check`): with it a backend finds the entry that an error names.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.ir.dtypes import DType
from plica.ir.op import Unsupported, unsupported
from plica.ir.program import Program
from plica.lower.call_parameters import RowAxis
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant
from plica.lower.lowering import LoweringScope
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS, Domain, by_row, either, nearest, outside
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.rows import independent
from plica.symbolic.semirings import Params, Reduction, Semiring, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

# Backends lack operations on these; uint64 has no wider integer, and states and counts are far below 2**53.
_WIDER = {DType.UINT16: DType.INT32, DType.UINT32: DType.INT64, DType.UINT64: DType.FLOAT64}


def input_width(circuit: Circuit) -> int:
    """The number of columns of the data: column v is variable v, up to the last one of `Circuit.data_scope`."""
    return max(circuit.data_scope) + 1 if circuit.data_scope else 0


def column_domains(circuit: Circuit) -> tuple[Domain, ...]:
    """The domain of each column of the data; a column that no layer reads holds any number."""
    return tuple(circuit.domains.get(variable, REALS) for variable in range(input_width(circuit)))


def samples_dtype(circuit: Circuit, real: DType) -> DType:
    """The dtype of rows that have a value of every variable.

    Real numbers, states and counts together are float32 where float16 is given: this has only 2049 consecutive whole
    numbers, and ends at 65504.
    """
    are_whole = [domain.dtype(real) == DType.INT64 for domain in circuit.domains.values()]
    if all(are_whole):
        return DType.INT64
    return DType.FLOAT32 if any(are_whole) and real.numpy.itemsize < DType.FLOAT32.numpy.itemsize else real


def reads_whole(layer: InputLayer, row: InputRow, semiring: Semiring) -> bool:
    """Whether a row of data must have all variables of a layer or none."""
    return layer.num_variables > 1 and row.partial_of(semiring) is None


def fills_whole(folded: FoldedCircuit, layer: InputLayer) -> bool:
    """Whether queries fill in all variables of a layer or none."""
    row = folded.row(layer)
    return layer.num_variables > 1 and isinstance(row, InputRow) and row.conditional is None


def not_reduced(folded: FoldedCircuit, semiring: Semiring) -> dict[int, tuple[InputLayer, Unsupported]]:
    """The variables that some layer cannot reduce, each with such a layer and the reason of its row."""
    unreduced: dict[int, tuple[InputLayer, Unsupported]] = {}
    for layer in folded.circuit.input_layers:
        row = folded.row(layer)
        rule = _reduction(layer, row, semiring) if isinstance(row, InputRow) else None
        if isinstance(rule, Unsupported):
            unreduced.update((variable, (layer, rule)) for variable in layer.scope)
    return unreduced


def _reduction(layer: InputLayer, row: InputRow, semiring: Semiring) -> Any:
    """The rule that reduces the variables of a layer, or why there is none: from the layer, else from its row."""
    summed = semiring.algebra.reduction is Reduction.INTEGRATE
    return unsupported(layer.unsummed) if summed and layer.unsummed is not None else row.reduction(semiring)


def lower_check(
    folded: FoldedCircuit, semiring: Semiring, dtype: DType, input_dtype: DType
) -> tuple[Program, tuple[Constant, ...]]:
    """The Program `x (B, D) -> entries (B, D), rows (B,)`, and the constants that it captures.

    `entries` marks those outside their domain, and missing ones that cannot be summed out. `rows` marks those that lack
    some but not all variables of a layer whose row has no `partial`. Layers read real numbers in `dtype`.
    """
    scope = LoweringScope(folded, semiring, dtype)
    with scope.trace.active():
        x = scope.argument("x", ("b", input_width(folded.described)), input_dtype)
        data = InputData(scope, x)
        no_entries = xp.zeros((*x.dims,), dtype=DType.BOOL)
        entries = no_entries if data.wrong is None else xp.permute_dims(data.wrong, (1, 0))
        rows = xp.any(no_entries, axis=1) if data.incomplete is None else data.incomplete
    program = scope.build([entries, rows])
    constants = [constant for constant in scope.captured if isinstance(constant, Constant)]
    assert len(constants) == len(scope.captured), "no parameter says what data is legal"
    return program, tuple(constants)


def _fits(value: float, dtype: DType) -> bool:
    limits = np.iinfo(dtype.value)
    return bool(limits.min <= value <= limits.max)


class InputData:
    """The data as layers read it: columns first, legal values everywhere, masks of missing and wrong entries.

    Args:
        scope: The Program under construction.
        x: `(B, D)`, of any dtype.
    """

    def __init__(self, scope: LoweringScope, x: Tracer) -> None:
        self._scope = scope
        columns = xp.permute_dims(x, (1, 0))  # (D, B)
        columns = xp.astype(columns, _WIDER.get(x.dtype, x.dtype))
        circuit = scope.folded.described
        domains = column_domains(circuit)
        absent = xp.isnan(columns) if columns.dtype.kind == "float" and domains else None
        can_sum_out = circuit.is_smooth and circuit.is_decomposable and not scope.folded.needs_all
        self.missing = absent if can_sum_out else None
        near = nearest(xp, columns, domains, self._limits) if columns.dtype.kind != "float" else None
        self.wrong: Tracer | None
        self._safe: Tracer
        self._safe, self.wrong = near or self._made_legal(columns, domains, self._unsummable(absent))
        self._cast: dict[DType, Tracer] = {}
        self.incomplete = self._incomplete()

    def _limits(self, array: NDArray[Any]) -> Tracer:
        return self._scope.constant(array, "limits")

    def _made_legal(
        self, columns: Tracer, domains: Sequence[Domain], unsummable: Tracer | None
    ) -> tuple[Tracer, Tracer | None]:
        """Data that is legal everywhere, and the mask of wrong entries and of missing ones that no layer sums out."""
        wrong: Tracer | None = outside(xp, columns, domains, self._limits, self._scope.dtype)
        wrong = either(wrong, unsummable)
        unusable = either(self.missing, wrong)
        if unusable is None:
            return columns, wrong
        values = [domain.inside for domain in domains]
        if columns.dtype.kind == "int" and not all(_fits(value, columns.dtype) for value in values):
            columns = xp.astype(columns, DType.INT64)
        return xp.where(unusable, by_row(values, columns.dtype, self._scope.constant), columns), wrong

    def _unsummable(self, absent: Tracer | None) -> Tracer | None:
        """The missing entries of variables that cannot be summed out; None where all can."""
        folded, width = self._scope.folded, input_width(self._scope.folded.described)
        variables = folded.described.domains if self.missing is None else not_reduced(folded, self._scope.semiring)
        if absent is None or not variables:
            return None
        read = np.asarray([variable in variables for variable in range(width)])
        return absent if read.all() else absent & self._scope.constant(read[:, None], "variables")

    def _incomplete(self) -> Tracer | None:
        """The rows `(B,)` that lack some but not all variables of a layer that needs all or none."""
        incomplete: Tracer | None = None
        if self.missing is None:
            return None
        for group in self._scope.folded.groups:
            layer, row = group.representative, self._scope.folded.row(group.representative)
            if (
                isinstance(layer, InputLayer)
                and isinstance(row, InputRow)
                and reads_whole(layer, row, self._scope.semiring)
            ):
                missing = self._gather(self.missing, group)  # (F, B, num_variables)
                is_partial = xp.any(missing, axis=-1) & xp.logical_not(xp.all(missing, axis=-1))
                incomplete = either(incomplete, xp.any(is_partial, axis=0))
        return incomplete

    def value(self, row: InputRow, group: FoldedLayer, params: Params) -> Value:
        """The value of a group of input layers, with missing variables summed out: `(F, B, K)`.

        Where the group has a `by_row` it is `(F*B, 1, K)`.
        """
        layer, semiring = group.representative, self._scope.semiring
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        by_row = self._scope.by_row(group)
        if not layer.num_variables:
            reduced_value = row.reduced(xp, semiring, layer, params)  # the same for all rows
            rows = self._safe.dims[1] if by_row is None else 1
            return semiring.map(
                xp, lambda array: xp.broadcast_to(array, (array.dims[0], rows, array.dims[2])), reduced_value
            )
        x = self._columns(group, layer)
        x = x if by_row is None else by_row.merge_array(x, group.num_folds)
        if self.missing is None:
            return row.body(xp, semiring, layer, params, x)
        missing = self._gather(self.missing, group)
        missing = missing if by_row is None else by_row.merge_array(missing, group.num_folds)
        partial = row.partial_of(semiring)
        if partial is not None and layer.num_variables > 1:
            return partial(xp, semiring, layer, params, x, missing)
        if isinstance(
            _reduction(layer, row, semiring), Unsupported
        ):  # `lower_check` reports rows that lack one of its variables
            return row.body(xp, semiring, layer, params, x)
        reduced = row.reduced(xp, semiring, layer, params)
        value = row.body(xp, semiring, layer, params, x)
        all_missing = xp.all(missing, axis=-1, keepdims=True)  # (F, B, 1)
        return semiring.choose(xp, all_missing, value, reduced)

    def conditional(self, group: FoldedLayer, unit: Tracer | None = None) -> Params | None:
        """The parameters of a group's units, conditioned on the known variables of each row: `(F*B, *shape)` each.

        None where these are the same parameters, or where each row has all variables of a layer or none.

        Args:
            group: Input layers.
            unit: One unit for each row `(F, B)`, in place of all.
        """
        layer, row = group.representative, self._scope.folded.row(group.representative)
        assert isinstance(layer, InputLayer), "data is read by input layers"
        assert isinstance(row, InputRow), "input rows belong to input layers"
        if layer.num_variables < 2 or row.conditional in (None, independent) or self.missing is None:
            return None
        params, x, missing = (
            self._scope.parameters(group),
            self._columns(group, layer),
            self._gather(self.missing, group),
        )
        if unit is not None:
            rows = RowAxis(x.dims[1])
            params = Params.of(xp, {name: _of_units(array, unit) for name, array in params.items()})
            x, missing = (rows.merge_array(array, group.num_folds) for array in (x, missing))
        return row.conditional(xp, layer, params, x, missing)

    def _columns(self, group: FoldedLayer, layer: InputLayer) -> Tracer:
        """The variables of a group, `(F, B, num_variables)`, in the dtype of their domain."""
        dtype = layer.domain.dtype(self._scope.dtype)
        if dtype not in self._cast:
            self._cast[dtype] = xp.astype(self._safe, dtype)
        return self._gather(self._cast[dtype], group)

    def _gather(self, source: Tracer, group: FoldedLayer) -> Tracer:
        return columns_of(self._scope, source, group)

    def poison(self, result: Tracer) -> Tracer:
        """`result (B, outputs, units)` with rows of NaN where the data cannot be read."""
        bad = either(None if self.wrong is None else xp.any(self.wrong, axis=0), self.incomplete)  # (B,)
        if bad is None:
            return result
        return xp.where(xp.reshape(bad, (bad.dims[0], 1, 1)), float("nan"), result)


def _of_units(parameter: Tracer, unit: Tracer) -> Tracer:
    """A parameter `(F, K, *shape)` of one unit for each row, of `unit (F, B)`: `(F*B, 1, *shape)`."""
    folds, units, *shape = parameter.dims
    flat = xp.reshape(parameter, (folds, units, math.prod(shape)))
    return xp.reshape(xp.lookup(xp.matrix_transpose(flat), unit), (folds * unit.dims[1], 1, *shape))


def columns_of(scope: LoweringScope, source: Tracer, group: FoldedLayer) -> Tracer:
    """The rows of `source (D, B)` of the variables of a group of input layers, `(F, B, num_variables)`."""
    folds = group.scope_idx
    flat = [variable for variables in folds for variable in variables]
    if flat == list(range(flat[0], flat[0] + len(flat))):
        chosen_rows = source[flat[0] : flat[0] + len(flat)]
    else:
        chosen_rows = xp.take(source, scope.constant(np.asarray(flat, dtype=np.int64)), axis=0, nonnegative=True)
    if len(folds[0]) == 1:
        return xp.expand_dims(chosen_rows, axis=-1)
    shaped = xp.reshape(chosen_rows, (len(folds), len(folds[0]), source.dims[1]))
    return xp.permute_dims(shaped, (0, 2, 1))
