"""The posterior of each variable, given the rest of its row: probabilities of states, means and variances.

The flow of a unit of a variable is the probability that this unit generates it (`flows.py`). So the variable's
distribution is a mixture of the units' distributions. Tables of states and means are weighted by flows, one matrix
product for each group of input layers. A variance is the variance within units plus that of the units' means. Both are
sums of squares, so that nothing cancels for means far from zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plica.lower.data import InputData, input_width
from plica.lower.fold.groups import FoldedLayer
from plica.lower.fold.read import read_folds
from plica.lower.lowering import LoweringScope
from plica.lower.queries.by_variable import ByVariable
from plica.lower.queries.derivatives import Derivatives
from plica.lower.queries.flows import Flows
from plica.lower.queries.units import num_states, unit_moment, unit_tables
from plica.symbolic.circuit import Circuit
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

_ROUNDING = 256.0  # units in the last place


def with_states(circuit: Circuit) -> dict[int, int]:
    """The variables all of whose layers have states, with the largest number of them."""
    counts: dict[int, int] = {}
    others: set[int] = set()
    for layer in circuit.live.input_layers:
        count = num_states(layer)
        for variable in layer.scope:
            if count is None:
                others.add(variable)
            else:
                counts[variable] = max(counts.get(variable, 0), count)
    return {variable: count for variable, count in counts.items() if variable not in others}


class Known(NamedTuple):
    """The known entries of rows.

    Args:
        values: `(D, B)`, 0 where they are missing.
        missing: `(D, B)`, true where they are missing.
    """

    values: Tracer
    missing: Tracer

    @staticmethod
    def of(x: Tracer) -> Known:
        """The known entries of data `(B, D)` of floats."""
        columns = xp.permute_dims(x, (1, 0))
        missing = xp.isnan(columns)
        return Known(xp.where(missing, 0.0, columns), missing)


@dataclass(frozen=True, slots=True)
class Reading:
    """Answers about variables, read off the flows of one Program.

    Args:
        scope: The Program under construction.
        flows: The flows of its input layers, by shares or by derivatives.
        data: The rows, as layers read them.
        known: The known entries of the rows.
    """

    scope: LoweringScope
    flows: Flows | Derivatives
    data: InputData
    known: Known

    @property
    def _width(self) -> int:
        return input_width(self.scope.folded.described)

    def sum_to_one(self) -> Tracer:
        """The rows whose flows add up to 1 for every variable, `(B,)`: flows that underflow would be missing.

        Rounding moves a flow by a unit in the last place for each term of the sums and each layer on its way. A few
        hundred such units are allowed.
        """
        totals = ByVariable(self.scope)
        for group, flow in self.flows.inputs:
            total = xp.sum(flow, axis=2, keepdims=True)  # none is negative: such numbers have no logarithm
            if group.scope_idx[0]:
                totals.add(*_by_variable(group, xp.broadcast_to(total, (*flow.dims[:2], len(group.scope_idx[0])))))
        lost = xp.abs(totals.total() - 1.0)
        return xp.all(xp.less_equal(lost, _ROUNDING * float(np.finfo(self.scope.dtype.value).eps)), axis=0)

    def probabilities(self) -> Tracer:
        """The probability of each state: `(B, D, C)`, zeros for variables without states and for further states.

        Known variables have zeros too: the caller, which has the rows, writes a 1 for the state of each.
        """
        states = with_states(self.scope.folded.described)
        num_columns = max(states.values(), default=0)
        dtype = self.scope.dtype
        if not states:
            return xp.zeros((self.flows.count, self._width, 0), dtype=dtype)
        tables = ByVariable(self.scope)
        for group, flow in self.flows.inputs:
            # folds in the order of their variables, so that the large tables need not be copied
            named = sorted((fold[0], index) for index, fold in enumerate(group.scope_idx) if len(fold) == 1)
            ordered = [variable for variable, _ in named if variable in states]
            fold_indices = [(0, index) for variable, index in named if variable in states]
            if not fold_indices:
                continue
            is_missing = xp.astype(self._rows(self.known.missing, [fold[0] for fold in group.scope_idx]), dtype)
            flow = flow * xp.expand_dims(is_missing, axis=2)  # rows with a flow that is NaN are computed again
            flow, shares = (
                read_folds([array], fold_indices, self.scope.constant)
                for array in (flow, unit_tables(self.scope, group, num_columns, self.flows.ratio))
            )
            tables.add(ordered, xp.matmul(flow, shares))  # (F, B, C)
        return xp.permute_dims(self._of_all(tables.variables, tables.total(), 0.0), (1, 0, 2))

    def mean(self, variables: Iterable[int] | None = None) -> Tracer:
        """The mean of each variable, `(B, D)`; known entries are exact.

        Args:
            variables: The variables to compute; others are NaN. All by default.
        """
        means, mean = _Means.of(self, variables), self._all_nan()
        if means is not None:
            mean = self._of_all(means.variables, means.reference + means.distance, float("nan"), variables)
        return xp.permute_dims(xp.where(self.known.missing, mean, xp.astype(self.known.values, mean.dtype)), (1, 0))

    def variance(self, variables: Iterable[int] | None = None) -> Tracer:
        """The variance of each variable, `(B, D)`, with the same arguments; 0 for known entries."""
        means = _Means.of(self, variables)
        if means is None:
            return xp.permute_dims(xp.where(self.known.missing, self._all_nan(), 0.0), (1, 0))
        variances = ByVariable(self.scope)
        for group, flow in means.groups:
            distance = _by_layer(group, self.select(means.distance, means.variables, group))  # (F, B, V)
            within = _weighed(flow, self.moment(group, "variance"))
            between = []
            for index in range(len(group.scope_idx[0])):
                deviation = of_variable(means.centred[group], index) - distance[:, :, index : index + 1]
                between.append(xp.sum(flow * deviation * deviation, axis=2, keepdims=True))
            variances.add(*_by_variable(group, within + xp.concat(between, axis=2)))
        variance = self._of_all(means.variables, variances.total(), float("nan"), variables)
        return xp.permute_dims(xp.where(self.known.missing, variance, 0.0), (1, 0))

    def moment(self, group: FoldedLayer, name: str) -> Tracer:
        """A moment of variables under each unit, `(F, K, V)`, or `(F, B, K, V)` where it differs between rows."""
        return unit_moment(self.scope, group, name, self.flows.ratio, self.data.conditional(group))

    def _all_nan(self) -> Tracer:
        return xp.full((self._width, self.flows.count), float("nan"), dtype=self.scope.dtype)

    def select(self, array: Tracer, variables: Sequence[int], group: FoldedLayer) -> Tracer:
        """From rows of `variables`, select those of the layers of a group: `(F * V, ...)`."""
        rows_of = {variable: number for number, variable in enumerate(variables)}
        rows = [(0, rows_of[variable]) for fold in group.scope_idx for variable in fold]
        return read_folds([array], rows, self.scope.constant)

    def _rows(self, array: Tracer, variables: Sequence[int]) -> Tracer:
        return read_folds([array], [(0, variable) for variable in variables], self.scope.constant)

    def _of_all(
        self, variables: Sequence[int], array: Tracer, other: float, wanted: Iterable[int] | None = None
    ) -> Tracer:
        """Rows of all variables, `(D, ...)`, from rows of some; those that are not wanted are `other`."""
        chosen = set(variables if wanted is None else wanted)
        sources = {variable: (0, number) for number, variable in enumerate(variables) if variable in chosen}
        if list(sources) == list(range(self._width)):
            return array
        filler = xp.full((1, *array.dims[1:]), other, dtype=array.dtype)
        return read_folds(
            [array, filler], [sources.get(variable, (1, 0)) for variable in range(self._width)], self.scope.constant
        )


def _by_variable(group: FoldedLayer, array: Tracer) -> tuple[list[int], Tracer]:
    """The variables of a group, and `array (F, B, V)` by variable: `(F * V, B)`."""
    variables = [variable for fold in group.scope_idx for variable in fold]
    width = len(group.scope_idx[0])
    if width == 1:
        return variables, xp.squeeze(array, axis=2)
    by_fold = xp.permute_dims(array, (0, 2, 1))
    return variables, xp.reshape(by_fold, (group.num_folds * width, by_fold.dims[2]))


def _by_layer(group: FoldedLayer, array: Tracer) -> Tracer:
    """The inverse of `_by_variable`: `(F * V, B)` as `(F, B, V)`."""
    shape = (group.num_folds, len(group.scope_idx[0]), array.dims[1])
    return xp.permute_dims(xp.reshape(array, shape), (0, 2, 1))


def of_variable(moment: Tracer, index: int) -> Tracer:
    """The moment of one variable of layers, `(F, 1, K)` or `(F, B, K)`."""
    values: Tracer = moment[..., index]
    return xp.expand_dims(values, axis=1) if moment.ndim == 3 else values


def _weighed(flow: Tracer, moment: Tracer) -> Tracer:
    """Moments of units, weighed by their flows `(F, B, K)`: `(F, B, V)`."""
    if moment.ndim == 3:
        return xp.matmul(flow, moment)
    return xp.squeeze(xp.matmul(xp.expand_dims(flow, axis=2), moment), axis=2)


@dataclass(frozen=True, slots=True)
class _Means:
    """The mean of each variable, as its distance from a reference, so that means far from zero are exact too.

    Args:
        groups: The layers of the wanted variables, with their flows.
        variables: The D variables of these layers.
        reference: `(D, 1)`, one for each variable.
        centred: The mean of each unit of each group as a distance, `(F, K, V)` or `(F, B, K, V)`.
        distance: The distance of the mean of each variable, `(D, B)`.
    """

    groups: list[tuple[FoldedLayer, Tracer]]
    variables: list[int]
    reference: Tracer
    centred: dict[FoldedLayer, Tracer]
    distance: Tracer

    @staticmethod
    def of(reading: Reading, variables: Iterable[int] | None) -> _Means | None:
        """The means of all variables or some; None where there are none."""
        wanted = None if variables is None else set(variables)
        groups = [
            (group, flow)
            for group, flow in reading.flows.inputs
            if group.scope_idx[0] and (wanted is None or any(v in wanted for fold in group.scope_idx for v in fold))
        ]
        if not groups:
            return None
        references = ByVariable(reading.scope)
        for group, _ in groups:
            unconditional = unit_moment(reading.scope, group, "mean", reading.flows.ratio)
            references.add(*_by_variable(group, unconditional[:, 0:1]))
        reference, known = references.first(), references.variables
        centred, distances = {}, ByVariable(reading.scope)
        for group, flow in groups:
            mean, origin = reading.moment(group, "mean"), _by_layer(group, reading.select(reference, known, group))
            centred[group] = mean - (origin if mean.ndim == 3 else xp.expand_dims(origin, axis=1))
            distances.add(*_by_variable(group, _weighed(flow, centred[group])))
        return _Means(groups, known, reference, centred, distances.total())
