"""Covariances as an upward pass: the value of a circuit in which two variables are weighed by their distances.

The integral of `(x_i - a_i) (x_j - a_j)` times a circuit is the circuit with other input layers. A layer that reads one
of the two variables gives the mean of its distance under each of its units; one that reads both gives the mean of the
product; every other layer is unchanged. That is exact in smooth and decomposable circuits. It takes one row of an
upward pass for each pair, in log space with signs. Distances are from a reference close to the mean, so that little
cancels. The means of single distances, one row for each variable, correct for the distance of the reference.

Source: Vergari et al., "A compositional atlas of tractable circuit operations", 2021; Khosravi et al., "On tractable
computation of expected predictions", 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.lower.data import InputData, columns_of, input_width
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Owners
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import layer_values
from plica.lower.queries.needs import Needs
from plica.lower.queries.posterior import of_variable
from plica.lower.queries.query import Query, Upward, ask
from plica.lower.queries.score import Lowered
from plica.lower.queries.units import has_states, unit_moment
from plica.symbolic.layers import InputRow
from plica.symbolic.layers.univariate import finite
from plica.symbolic.semirings import SIGNED_LSE_SUM, Params, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def covariance(circuit: Any, variables: Iterable[int], x: Any = None) -> Any:
    """The covariance matrix of some variables.

    It takes an upward pass for each variable and each pair, computed in float64, many at once.

    Args:
        circuit: A compiled circuit.
        variables: The variables, in the order of the matrix.
        x: Rows `(R, D)` with NaN in place of missing entries, for covariances given the rest of each row; those of
            known entries are 0. By default no variable is known.

    Returns:
        The matrix `(n, n)`, or one for each row, `(R, n, n)`. For variables with states it is of the states' numbers.

    Raises:
        StructuralPropertyError, ShapeError, InputError: As for `posterior`; a variable is none of the circuit's.
        UnsupportedError: A layer of the variables without states does not define its mean or its variance; or a layer
            of several of them does not define their covariance.
    """
    return ask(circuit, "covariance", variables, x)


COVARIANCE = Query(
    covariance,
    "the covariance",
    Upward(
        ("mean", "variance"),
        sums=("choose",),  # of the mean, from which distances are measured
        products=("route",),
        spared=has_states,
    ),
    driver="covariance",
)
_WITHIN = Needs("covariance", "the covariance", inputs=("covariance",))


def lower_products(folded: FoldedCircuit, variables: Sequence[int], owners: Owners | None = None) -> Lowered:
    """The Program of products of distances of some variables, in float64.

    It is `x (B, D), reference (B, D), first (B,), second (B,) -> direction (B,), size (B,)`. The results are those of
    `signed-lse-sum`; `first` and `second` name variables, -1 none.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer of the variables does not define what the query needs.
    """
    check_covariance(folded, variables)
    scope = LoweringScope(folded, SIGNED_LSE_SUM, DType.FLOAT64, owners or {})
    with scope.trace.active():
        x, reference = (
            scope.argument(name, ("b", input_width(folded.described)), DType.FLOAT64) for name in ("x", "a")
        )
        first, second = (scope.argument(name, ("b",), DType.INT64) for name in ("first", "second"))
        data = _Distances(scope, variables, x, reference, (first, second))
        ((group, fold),) = folded.out_fold_idx
        results = [part[fold, :, 0] for part in layer_values(scope, data)[group]]
    return Lowered.of(scope, results)


def check_covariance(folded: FoldedCircuit, variables: Sequence[int]) -> None:
    """Refuse variables whose layers define no mean or variance.

    Layers of none of the variables need neither; layers of several of them need covariances within a unit.
    """
    circuit, chosen = folded.circuit, set(variables)
    Needs("covariance", "the covariance").check(circuit, folded.row)
    read = {layer: len(chosen & set(layer.scope)) for layer in circuit.live.input_layers}
    COVARIANCE.needs.check_layers(circuit, folded.row, [layer for layer, count in read.items() if count])
    _WITHIN.check_layers(circuit, folded.row, [layer for layer, count in read.items() if count > 1])


class _Distances:
    """Data of which up to two variables are weighed by their distances from numbers.

    Args:
        scope: The Program under construction.
        variables: The variables that may be weighed.
        x: `(B, D)`, NaN where it is missing.
        reference: `(B, D)`, from which distances are measured.
        chosen: `(B,)` each, the first and the second variable, -1 for none.
    """

    def __init__(
        self, scope: LoweringScope, variables: Sequence[int], x: Tracer, reference: Tracer, chosen: Sequence[Tracer]
    ) -> None:
        self._scope, self._variables, self._chosen = scope, set(variables), chosen
        self._data = InputData(scope, x)
        self._x, self._reference = (xp.permute_dims(array, (1, 0)) for array in (x, reference))

    def value(self, row: InputRow, group: FoldedLayer, params: Params) -> Value:
        """The value of a group of input layers, `(F, B, K)`."""
        value = self._data.value(row, group, params)
        if not any(variable in self._variables for fold in group.scope_idx for variable in fold):
            return value
        scope, semiring = self._scope, self._scope.semiring
        x, reference = (columns_of(scope, array, group) for array in (self._x, self._reference))  # (F, B, V)
        missing = xp.isnan(x)
        own = scope.constant(np.asarray(group.scope_idx)[:, None, :], "variables")
        is_first, is_second = (xp.equal(xp.reshape(variable, (1, x.dims[1], 1)), own) for variable in self._chosen)
        given = self._data.conditional(group)
        means = unit_moment(scope, group, "mean", _ratio, given)  # (F, K, V), or (F, B, K, V)
        products: Tracer | None = None
        distances: list[Tracer] = []
        for mask in (is_first, is_second):
            weighed = [
                self._distance(index, x, missing, means, reference, mask) for index in range(len(group.scope_idx[0]))
            ]
            distances.append(_added(weighed))
        for first in range(len(group.scope_idx[0])):
            for second in range(len(group.scope_idx[0])):
                both = xp.logical_and(is_first[:, :, first : first + 1], is_second[:, :, second : second + 1])
                hidden = xp.logical_and(missing[:, :, first : first + 1], missing[:, :, second : second + 1])
                within = self._within(group, given, first, second)
                if within is not None:
                    covariance = xp.where(xp.logical_and(both, hidden), within, 0.0)
                    products = covariance if products is None else products + covariance
        has_first, has_second = (xp.any(mask, axis=2, keepdims=True) for mask in (is_first, is_second))
        assert products is not None, "a variable has a variance"
        factor = xp.where(
            xp.logical_and(has_first, has_second),
            products + distances[0] * distances[1],
            xp.where(has_first, distances[0], xp.where(has_second, distances[1], 1.0)),
        )
        # a unit that cannot have the row, of value 0, may have a product that overflows
        return semiring.product(xp, value, semiring.from_linear(xp, finite(xp, factor)))

    @staticmethod
    def _distance(index: int, x: Tracer, missing: Tracer, means: Tracer, reference: Tracer, mask: Tracer) -> Tracer:
        """The mean distance of one variable of layers from its reference, `(F, B, K)`; 0 where it is not chosen."""
        here = slice(index, index + 1)
        centre = of_variable(means, index)
        value = xp.where(missing[:, :, here], centre, x[:, :, here])
        distance: Tracer = xp.where(mask[:, :, here], value - reference[:, :, here], 0.0)
        return distance

    def _within(self, group: FoldedLayer, given: Params | None, first: int, second: int) -> Tracer | None:
        """The covariance of two variables within each unit, `(F, 1, K)` or `(F, B, K)`; None if it is not defined."""
        row = self._scope.folded.row(group.representative)
        assert isinstance(row, InputRow), "input rows belong to input layers"
        if first == second:
            return of_variable(unit_moment(self._scope, group, "variance", _ratio, given), first)
        if isinstance(row.covariance, Unsupported):
            return None
        return of_variable(unit_moment(self._scope, group, "covariance", _ratio, given)[..., first, :], second)


def _added(arrays: Sequence[Tracer]) -> Tracer:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


def _ratio(value: Value, total: Value) -> Tracer:
    """The ratio of parts to totals, both signed numbers."""
    ratio: Tracer = value[0] / total[0] * xp.exp(value[1] - total[1])
    return ratio
