"""The policy that chooses one term of every sum, and one value for each variable of an input layer.

A message is a unit for each row, `(F, B)`, or -1 where the row does not reach the layer. In a smooth and decomposable
circuit a row reaches one layer of each variable, so that the values of all input layers make up rows of data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from plica.ir.dtypes import DType
from plica.lower.call_parameters import RowAxis
from plica.lower.data import InputData
from plica.lower.fold.groups import FoldedLayer
from plica.lower.fold.read import read_folds
from plica.lower.lowering import LoweringScope
from plica.lower.queries.filled import FilledRows
from plica.lower.queries.shares import at_one_scale
from plica.lower.queries.top_down import Message
from plica.lower.queries.units import checked
from plica.symbolic.layers import Choice, InputLayer, InputRow, Layer, LayerRow, ProductRow, SumRow
from plica.symbolic.semirings import Params, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

# table: (F, K, N), rows: (F, B) of K, uniforms: (F, B) in [0, 1) -> (F, B), one of N
Term: TypeAlias = Callable[[Tracer, Tracer, Tracer | None], Tracer]
# the row's column, layer, parameters, units: (F, B), uniforms: (F, B, num_uniforms) -> (F, B, num_variables)
Fill: TypeAlias = Callable[[Any, Layer, Params, Tracer, Tracer | None], Tracer]
_SHAPES = {"sample": "(F, B, num_variables)", "mode": "(F, K, num_variables)"}


@dataclass(frozen=True, slots=True)
class Chooser:
    """How a sum chooses a term, and an input layer its values.

    Args:
        term: Chooses a term of a sum, from the logarithms of the terms.
        term_of_numbers: Chooses a term, from numbers that the terms are proportional to.
        fill: Chooses values of an input layer's variables.
        column: The column of input rows that `fill` takes.
        draws: Whether choices are random: then sum layers take a uniform number, input layers one for each variable.
    """

    term: Term
    term_of_numbers: Term
    fill: Fill
    column: Literal["sample", "mode"]
    draws: bool

    def num_uniforms(self, row: LayerRow, layer: Layer) -> int:
        """How many uniform numbers a layer takes for each row of data."""
        if not self.draws or isinstance(row, ProductRow):
            return 0
        return layer.num_uniforms if isinstance(layer, InputLayer) else 1


@dataclass(slots=True)
class Choices:
    """The policy for one Program, and its choices.

    Args:
        scope: The Program under construction.
        chooser: How it chooses.
        up: The value of every group, `(F, B, K)`, or `(F, 1, K)` where all rows have the same known values.
        data: The known values of variables, if there are any.
        is_by_row: Whether `data` has a row for each row that is filled; else it has one row, for all.
        uniforms: `(U, B)`, in the order of the circuit's layers; None where choices are not random.
        filled: Collects the values that are chosen for variables.
    """

    scope: LoweringScope
    chooser: Chooser
    up: Sequence[Value]
    data: InputData | None
    is_by_row: bool
    uniforms: Tracer | None
    filled: FilledRows
    sums: list[Layer] = field(default_factory=list)
    terms: list[Tracer] = field(default_factory=list)  # for each group of sums, (F, B), the term of each layer or -1
    invalid: list[Tracer] = field(default_factory=list)  # for each group of sums, (), whether a weight has no logarithm
    _first_uniform: dict[Layer, int] = field(init=False)

    def __post_init__(self) -> None:
        folded, layers = self.scope.folded, self.scope.folded.circuit.live.layers
        counts = [self.chooser.num_uniforms(folded.row(layer), layer) for layer in layers]
        self._first_uniform = dict(zip(layers, np.cumsum([0, *counts]).tolist(), strict=False))

    def start(self) -> Tracer:
        """The one unit of the output."""
        return xp.zeros((1, self.filled.count), dtype=DType.INT64)

    def nothing(self, group: FoldedLayer | None = None) -> Tracer:  # noqa: ARG002
        """No unit."""
        return xp.full((1, self.filled.count), -1, dtype=DType.INT64)

    def merge(self, first: Tracer, second: Tracer) -> Tracer:
        """The unit of two messages, at most one of which has one."""
        unit: Tracer = xp.maximum(first, second)
        return unit

    def pass_by(self, sums: Iterable[Layer]) -> None:
        """Note that no row reaches some sum layers, which no output depends on."""
        for layer in sums:
            self.sums.append(layer)
            self.terms.append(self.nothing())

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Choose for a group."""
        row, layer = self.scope.folded.row(group.representative), group.representative
        is_active = None if message.always else xp.greater_equal(message.content, 0)
        units = message.content if message.always else xp.maximum(message.content, 0)
        if isinstance(row, InputRow):
            if not layer.num_input_units:
                return ()  # without variables, there is nothing to choose
            self.filled.add(group, self._fill(group, getattr(row, self.chooser.column), units), is_active)
            return ()
        if isinstance(row, ProductRow):
            routes = row.route(xp, layer, units)
            return [Message(_where_active(is_active, route), message.always) for route in routes]
        assert isinstance(row, SumRow), "a query checks its rows first"
        assert isinstance(row.choose, Choice), "a query checks its rows first"
        return self._choose(group, row.choose, units, is_active)

    def _fill(self, group: FoldedLayer, column: Any, units: Tracer) -> Tracer:
        """Values for the variables of a group, `(F, B, num_variables)`, given the known ones."""
        layer, uniforms = group.representative, self._uniforms_of(group)
        name = self.chooser.column

        def rule(*arguments: Any) -> Tracer:
            return checked(self.scope, group, name, column(*arguments), _SHAPES[name])

        params = None if self.data is None else self.data.conditional(group, units if self.is_by_row else None)
        if params is None or not self.is_by_row:
            return self.chooser.fill(rule, layer, params or self.scope.parameters(group), units, uniforms)
        rows, folds = RowAxis(self.filled.count), group.num_folds
        uniforms = None if uniforms is None else rows.merge_array(uniforms, folds)
        no_units = xp.zeros((folds * self.filled.count, 1), dtype=DType.INT64)
        return rows.split_array(self.chooser.fill(rule, layer, params, no_units, uniforms), folds)

    def skip(self, layers: Iterable[Layer]) -> None:
        """Note that no row reaches some layers."""
        unread = [layer for layer in layers if isinstance(self.scope.folded.row(layer), SumRow)]
        if unread:
            self.sums.extend(unread)
            self.terms.append(xp.full((len(unread), self.filled.count), -1, dtype=DType.INT64))

    def _choose(self, group: FoldedLayer, choice: Choice, units: Tracer, is_active: Tracer | None) -> list[Message]:
        layer = group.representative
        log_weights = choice.log_weights(xp, layer, self.scope.parameters(group))
        self.invalid.append(xp.any(xp.isnan(log_weights)))
        reads = _Reads(self.scope, np.asarray(choice.reads(layer)))
        inputs = self._inputs(group)
        uniforms = self._uniforms_of(group)
        uniforms = None if uniforms is None else uniforms[:, :, 0]
        if self.is_by_row:
            rows = xp.broadcast_to(xp.arange(self.filled.count), units.dims)
            weights = log_weights if self.scope.semiring.logarithmic else xp.exp(log_weights)
            chosen = xp.lookup(xp.matrix_transpose(weights), units)  # (F, B, N)
            read = reads.of_units(inputs, units)
            if self.scope.semiring.logarithmic:
                term = self.chooser.term(chosen + read, rows, uniforms)
            else:
                term = self.chooser.term_of_numbers(chosen * read, rows, uniforms)
        else:
            term = self.chooser.term(log_weights + reads.of_all(inputs), units, uniforms)
        self.sums.extend(group.members)
        self.terms.append(_where_active(is_active, term))
        read = reads.read(term, units)  # h*I + i
        if layer.arity == 1:
            return [Message(_where_active(is_active, read), is_active is None)]
        input_number, unit = xp.floor_divide(read, layer.num_input_units), xp.remainder(read, layer.num_input_units)
        units_of_inputs = [xp.where(xp.equal(input_number, number), unit, -1) for number in range(layer.arity)]
        return [Message(_where_active(is_active, units_of_input), always=False) for units_of_input in units_of_inputs]

    def _inputs(self, group: FoldedLayer) -> Tracer:
        """The units of all inputs, `(F, B, H*I)`: their logarithms, or mantissas of one scale."""
        values = [
            self.scope.read(list(self.up), [fold[index] for fold in group.in_fold_idx])
            for index in range(group.representative.arity)
        ]
        if self.scope.semiring.logarithmic:
            return xp.concat([self.scope.semiring.to_log(xp, value) for value in values], axis=2)
        return xp.concat(at_one_scale(values), axis=2)

    def _uniforms_of(self, group: FoldedLayer) -> Tracer | None:
        """The uniform numbers of a group, `(F, B, V)`."""
        if self.uniforms is None:
            return None
        count = self.chooser.num_uniforms(self.scope.folded.row(group.representative), group.representative)
        fold_indices = [(0, self._first_uniform[layer] + index) for layer in group.members for index in range(count)]
        uniforms = read_folds([self.uniforms], fold_indices, self.scope.constant)
        return xp.permute_dims(xp.reshape(uniforms, (group.num_folds, count, self.filled.count)), (0, 2, 1))


def _where_active(is_active: Tracer | None, units: Tracer) -> Tracer:
    """`units`, and -1 in rows that are not active."""
    return units if is_active is None else xp.where(is_active, units, -1)


@dataclass(frozen=True, slots=True)
class _Reads:
    """The units h*I + i that the terms of a sum layer read: `table (O, N)`, or `(1, N)` for all output units."""

    scope: LoweringScope
    table: np.ndarray

    @property
    def _in_order(self) -> bool:
        """Whether term n reads unit n of all inputs."""
        return len(self.table) == 1 and np.array_equal(self.table[0], np.arange(self.table.shape[1]))

    def of_all(self, inputs: Tracer) -> Tracer:
        """The values that each term of each output unit reads: from `(F, 1, H*I)`, `(F, O, N)` or `(F, 1, N)`."""
        if self._in_order:
            return inputs
        flat = xp.take(inputs[:, 0], self._constant(self.table.ravel()), axis=1, nonnegative=True)
        return xp.reshape(flat, (inputs.dims[0], *self.table.shape))

    def of_units(self, inputs: Tracer, units: Tracer) -> Tracer:
        """The values that each term of a chosen unit reads: from `(F, B, H*I)` and `(F, B)`, `(F, B, N)`."""
        if self._in_order:
            return inputs
        if len(self.table) == 1:
            return xp.take(inputs, self._constant(self.table[0]), axis=2, nonnegative=True)
        return xp.take_along_axis(inputs, self._constant(self.table)[units], axis=2, nonnegative=True)

    def read(self, term: Tracer, units: Tracer) -> Tracer:
        """The unit that a chosen term of a chosen unit reads, `(F, B)`."""
        if self._in_order:
            return term
        if len(self.table) == 1:
            return self._constant(self.table[0])[term]
        return self._constant(self.table.ravel())[units * self.table.shape[1] + term]

    def _constant(self, array: np.ndarray) -> Tracer:
        return self.scope.constant(array.astype(np.int64), "reads")
