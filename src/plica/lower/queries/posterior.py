"""What is known of each variable, given the rest of its row: probabilities of states, means and variances.

The flows of the units of a variable are the probabilities with which each unit speaks for it (`flows.py`), so that its
distribution is the mixture of theirs: tables of states and means are weighted by flows, one matrix product for each
group of input layers. A variance is what units have within them and what their means are apart from the mean of all;
both are sums of squares, so that nothing cancels however far from zero the means are.
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
    found: dict[int, int] = {}
    others: set[int] = set()
    for layer in circuit.live.input_layers:
        count = num_states(layer)
        for variable in layer.scope:
            if count is None:
                others.add(variable)
            else:
                found[variable] = max(found.get(variable, 0), count)
    return {variable: count for variable, count in found.items() if variable not in others}


class Known(NamedTuple):
    """What rows say of their variables.

    Args:
        values: `(D, B)`, 0 where they are missing.
        missing: `(D, B)`, which are.
    """

    values: Tracer
    missing: Tracer

    @staticmethod
    def of(x: Tracer) -> Known:
        """Of data `(B, D)` of floats."""
        columns = xp.permute_dims(x, (1, 0))
        missing = xp.isnan(columns)
        return Known(xp.where(missing, 0.0, columns), missing)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the flows of one Program say of variables.

    Args:
        scope: The Program under construction.
        flows: The flows of its input layers, found in either way.
        data: The rows, as layers read them.
        known: What is known of the variables.
    """

    scope: LoweringScope
    flows: Flows | Derivatives
    data: InputData
    known: Known

    @property
    def _width(self) -> int:
        return input_width(self.scope.folded.described)

    def is_whole(self) -> Tracer:
        """Which rows have flows that add up to 1 for every variable, `(B,)`: what had underflowed would be missing.

        Rounding moves a flow by a unit in the last place for each term of the sums and each layer on its way, and the
        units of one sum by the same: a few hundred of them are allowed for, and more that are lost are not.
        """
        totals = ByVariable(self.scope)
        for group, flow in self.flows.inputs:
            total = xp.sum(flow, axis=2, keepdims=True)  # none is negative: such numbers have no logarithm
            if group.scope_idx[0]:
                totals.add(*_by_variable(group, xp.broadcast_to(total, (*flow.dims[:2], len(group.scope_idx[0])))))
        lost = xp.abs(totals.total() - 1.0)
        return xp.all(xp.less_equal(lost, _ROUNDING * float(np.finfo(self.scope.dtype.value).eps)), axis=0)

    def probabilities(self) -> Tracer:
        """Of each state of each variable that has states: `(B, D, C)`, zeros for all others and for further states.

        Zeros also stand for variables that are known: the one state that each is in is written by who has the rows.
        """
        states = with_states(self.scope.folded.described)
        most = max(states.values(), default=0)
        dtype = self.scope.dtype
        if not states:
            return xp.zeros((self.flows.count, self._width, 0), dtype=dtype)
        tables = ByVariable(self.scope)
        for group, flow in self.flows.inputs:
            # the folds in the order of their variables, so that the tables, which are large, need not be moved
            named = sorted((fold[0], place) for place, fold in enumerate(group.scope_idx) if len(fold) == 1)
            ordered = [variable for variable, _ in named if variable in states]
            places = [(0, place) for variable, place in named if variable in states]
            if not places:
                continue
            is_missing = xp.astype(self._rows(self.known.missing, [fold[0] for fold in group.scope_idx]), dtype)
            flow = flow * xp.expand_dims(is_missing, axis=2)  # rows with a flow that is no number are asked again
            flow, shares = (
                read_folds([one], places, self.scope.constant)
                for one in (flow, unit_tables(self.scope, group, most, self.flows.ratio))
            )
            tables.add(ordered, xp.matmul(flow, shares))  # (F, B, C)
        return xp.permute_dims(self._of_all(tables.variables, tables.total(), 0.0), (1, 0, 2))

    def mean(self, variables: Iterable[int] | None = None) -> Tracer:
        """The mean of each variable, `(B, D)`; those that are known are known exactly.

        Args:
            variables: Those that are asked about; NaN stands for others. All by default.
        """
        means, mean = _Means.of(self, variables), self._nothing()
        if means is not None:
            mean = self._of_all(means.variables, means.reference + means.distance, float("nan"), variables)
        return xp.permute_dims(xp.where(self.known.missing, mean, xp.astype(self.known.values, mean.dtype)), (1, 0))

    def variance(self, variables: Iterable[int] | None = None) -> Tracer:
        """The variance of each variable, in the same way; 0 for those that are known."""
        means = _Means.of(self, variables)
        if means is None:
            return xp.permute_dims(xp.where(self.known.missing, self._nothing(), 0.0), (1, 0))
        spreads = ByVariable(self.scope)
        for group, flow in means.groups:
            apart = _by_layer(group, self.select(means.distance, means.variables, group))  # (F, B, V)
            within = _weighed(flow, self.moment(group, "variance"))
            between = []
            for place in range(len(group.scope_idx[0])):
                away = of_place(means.centred[group], place) - apart[:, :, place : place + 1]
                between.append(xp.sum(flow * away * away, axis=2, keepdims=True))
            spreads.add(*_by_variable(group, within + xp.concat(between, axis=2)))
        variance = self._of_all(means.variables, spreads.total(), float("nan"), variables)
        return xp.permute_dims(xp.where(self.known.missing, variance, 0.0), (1, 0))

    def moment(self, group: FoldedLayer, name: str) -> Tracer:
        """A moment of variables under each unit, `(F, K, V)`, or `(F, B, K, V)` where it is another in each row."""
        return unit_moment(self.scope, group, name, self.flows.ratio, self.data.conditional(group))

    def _nothing(self) -> Tracer:
        return xp.full((self._width, self.flows.count), float("nan"), dtype=self.scope.dtype)

    def select(self, array: Tracer, variables: Sequence[int], group: FoldedLayer) -> Tracer:
        """Of rows of `variables`, those of the layers of a group: `(F * V, ...)`."""
        place = {variable: number for number, variable in enumerate(variables)}
        rows = [(0, place[variable]) for fold in group.scope_idx for variable in fold]
        return read_folds([array], rows, self.scope.constant)

    def _rows(self, array: Tracer, variables: Sequence[int]) -> Tracer:
        return read_folds([array], [(0, variable) for variable in variables], self.scope.constant)

    def _of_all(
        self, variables: Sequence[int], array: Tracer, other: float, asked: Iterable[int] | None = None
    ) -> Tracer:
        """Rows of some variables, but for those that nobody asked about, as rows of all, `(D, ...)`."""
        kept = set(variables if asked is None else asked)
        place = {variable: (0, number) for number, variable in enumerate(variables) if variable in kept}
        if list(place) == list(range(self._width)):
            return array
        rest = xp.full((1, *array.dims[1:]), other, dtype=array.dtype)
        return read_folds(
            [array, rest], [place.get(variable, (1, 0)) for variable in range(self._width)], self.scope.constant
        )


def _by_variable(group: FoldedLayer, array: Tracer) -> tuple[list[int], Tracer]:
    """The variables of a group, and `array (F, B, V)` by variable: `(F * V, B)`."""
    variables = [variable for fold in group.scope_idx for variable in fold]
    width = len(group.scope_idx[0])
    if width == 1:
        return variables, xp.squeeze(array, axis=2)
    turned = xp.permute_dims(array, (0, 2, 1))
    return variables, xp.reshape(turned, (group.num_folds * width, turned.dims[2]))


def _by_layer(group: FoldedLayer, array: Tracer) -> Tracer:
    """The other way: `(F * V, B)` as `(F, B, V)`."""
    shape = (group.num_folds, len(group.scope_idx[0]), array.dims[1])
    return xp.permute_dims(xp.reshape(array, shape), (0, 2, 1))


def of_place(moment: Tracer, place: int) -> Tracer:
    """That of one variable of layers, `(F, 1, K)` or `(F, B, K)`."""
    found: Tracer = moment[..., place]
    return xp.expand_dims(found, axis=1) if moment.ndim == 3 else found


def _weighed(flow: Tracer, moment: Tracer) -> Tracer:
    """Moments of units, weighed by their flows `(F, B, K)`: `(F, B, V)`."""
    if moment.ndim == 3:
        return xp.matmul(flow, moment)
    return xp.squeeze(xp.matmul(xp.expand_dims(flow, axis=2), moment), axis=2)


@dataclass(frozen=True, slots=True)
class _Means:
    """The mean of each variable, as its distance from a number of its own, so that means far from zero are exact too.

    Args:
        groups: The layers of the variables that are asked about, with their flows.
        variables: The D variables of these layers.
        reference: `(D, 1)`, the numbers.
        centred: The mean of each unit of each group as a distance, `(F, K, V)` or `(F, B, K, V)`.
        distance: `(D, B)`, that of each variable.
    """

    groups: list[tuple[FoldedLayer, Tracer]]
    variables: list[int]
    reference: Tracer
    centred: dict[FoldedLayer, Tracer]
    distance: Tracer

    @staticmethod
    def of(found: Reading, variables: Iterable[int] | None) -> _Means | None:
        """Of all variables or some; None where there are none."""
        asked = None if variables is None else set(variables)
        groups = [
            (group, flow)
            for group, flow in found.flows.inputs
            if group.scope_idx[0] and (asked is None or any(v in asked for fold in group.scope_idx for v in fold))
        ]
        if not groups:
            return None
        references = ByVariable(found.scope)
        for group, _ in groups:
            anywhere = unit_moment(found.scope, group, "mean", found.flows.ratio)
            references.add(*_by_variable(group, anywhere[:, 0:1]))
        reference, known = references.first(), references.variables
        centred, distances = {}, ByVariable(found.scope)
        for group, flow in groups:
            mean, origin = found.moment(group, "mean"), _by_layer(group, found.select(reference, known, group))
            centred[group] = mean - (origin if mean.ndim == 3 else xp.expand_dims(origin, axis=1))
            distances.add(*_by_variable(group, _weighed(flow, centred[group])))
        return _Means(groups, known, reference, centred, distances.total())
