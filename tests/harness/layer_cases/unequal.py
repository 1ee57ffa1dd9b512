"""Layers of a user's own whose parameters may differ in length within a fold: tables, histograms and polynomials."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.ir.op import unsupported
from plica.symbolic.domains import UNIT_INTERVAL, Domain, finite
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.scope import Scope
from tests.harness.layer_cases.case import InputCase, Params
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.numbers import STATES_WRONG, states, weights
from tests.harness.spaces import WIDE, Space

Array = Any


@dataclass(frozen=True, eq=False)
class TableLayer(FieldsLayer, InputLayer):
    """A number for each state of one variable: `weight (K, num_states)`."""

    scope: Scope
    num_output_units: int
    num_states: int
    weight: Parameter

    @property
    def domain(self) -> Domain:
        return finite(self.num_states)

    @property
    def padded(self) -> dict[str, str]:
        return {"weight": "num_states"}


def _lookup(xp: Any, semiring: Any, layer: TableLayer, params: Any, x: Any) -> Any:  # noqa: ARG001
    index = xp.astype(xp.squeeze(x, axis=-1), xp.int64)
    return semiring.from_weight(xp, params.weight("weight").map(lambda table: xp.lookup(table, index)))


def _total(xp: Any, semiring: Any, layer: Any, params: Any) -> Any:  # noqa: ARG001
    return semiring.from_weight(xp, params.weight("weight").total(xp).map(lambda one: xp.expand_dims(one, axis=1)))


def _largest(xp: Any, semiring: Any, layer: TableLayer, params: Any) -> Any:  # noqa: ARG001
    largest = params.weight("weight").map(lambda table: xp.expand_dims(xp.max(table, axis=-1), axis=1))
    return semiring.from_weight(xp, largest)


def _draw_state(xp: Any, layer: TableLayer, params: Any, units: Any, uniforms: Any) -> Any:  # noqa: ARG001
    table = xp.cumulative_sum(params["weight"], axis=-1)
    return xp.expand_dims(xp.search_cumulative(table, units, xp.squeeze(uniforms, axis=-1)), axis=-1)


def _best_state(xp: Any, layer: TableLayer, params: Any) -> Any:  # noqa: ARG001
    return xp.expand_dims(xp.argmax(params["weight"], axis=-1), axis=-1)


TABLE_ROW = InputRow(
    TableLayer, _lookup, _total, _draw_state, maximum=_largest, mode=_best_state, padding={"weight": 0.0}
)


def _table_reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    (variable,) = layer.scope
    missing = np.isnan(x[:, variable])
    states = np.where(missing, 0, x[:, variable]).astype(int)
    table = params["weight"]
    value = np.where(missing[:, None], table.sum(axis=1), table[:, states].T)
    return space.from_linear(value)


def _table_distributions(layer: Any, params: Params) -> list[Any]:
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    tables = params["weight"].astype(float)
    return [stats.rv_discrete(values=(range(layer.num_states), row / row.sum())) for row in tables]


def table(states: int) -> Callable[[Sequence[int], int], TableLayer]:
    """A builder of tables."""
    return lambda scope, units: TableLayer(Scope(scope), units, states, exp_normal((units, states)))


@dataclass(frozen=True, eq=False)
class HistogramLayer(FieldsLayer, InputLayer):
    """Masses `weight (K, num_bins)` of bins of [0, 1] that end at `edges (num_bins + 1,)`."""

    scope: Scope
    num_output_units: int
    num_bins: int
    weight: Parameter
    edges: Parameter
    domain = UNIT_INTERVAL

    @property
    def padded(self) -> dict[str, str]:
        return {"weight": "num_bins", "edges": "num_bins"}


def _density(xp: Any, semiring: Any, layer: HistogramLayer, params: Any, x: Any) -> Any:  # noqa: ARG001
    edges = params["edges"]  # (F, N + 1), 1 where it is padded
    x = xp.astype(x, edges.dtype)
    above = xp.greater(x, xp.expand_dims(edges[:, 1:], axis=1))  # (F, B, N)
    index = xp.sum(xp.astype(above, xp.int64), axis=-1)
    width = edges[:, 1:] - edges[:, :-1]
    density = params["weight"] / xp.expand_dims(xp.where(width > 0, width, 1.0), axis=1)  # (F, K, N)
    return semiring.from_linear(xp, xp.lookup(density, index))


HISTOGRAM_ROW = InputRow(
    HistogramLayer, _density, _total, unsupported("no test draws from it"), padding={"weight": 0.0, "edges": 1.0}
)


def histogram_reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The mass of the bin over its width, or the sum of all masses."""
    (variable,) = layer.scope
    weight, edges = params["weight"], params["edges"]
    density = weight / np.diff(edges)
    rows = [
        weight.sum(axis=1) if np.isnan(value) else density[:, max(0, int((value > edges[1:]).sum()))]
        for value in x[:, variable]
    ]
    return space.from_linear(np.array(rows, WIDE).reshape(len(x), layer.num_output_units))


def histogram(bins: int) -> Callable[[Sequence[int], int], HistogramLayer]:
    """A builder of histograms whose bins become wider."""

    def build(scope: Sequence[int], units: int) -> HistogramLayer:
        edges = ConstantParameter(bins + 1, value=np.linspace(0, 1, bins + 1) ** 2)
        return HistogramLayer(Scope(scope), units, bins, exp_normal((units, bins)), Parameter.from_input(edges))

    return build


@dataclass(frozen=True, eq=False)
class PolynomialLayer(FieldsLayer, InputLayer):
    """Polynomials of one variable in [0, 1]: `coeff (K, degree + 1)`, lowest degree first."""

    scope: Scope
    num_output_units: int
    degree: int
    coeff: Parameter
    domain = UNIT_INTERVAL

    @property
    def padded(self) -> dict[str, str]:
        return {"coeff": "degree"}


def _horner(xp: Any, semiring: Any, layer: PolynomialLayer, params: Any, x: Any) -> Any:
    coeff = params["coeff"]  # (F, K, degree + 1)
    x = xp.astype(x, coeff.dtype)
    value = xp.zeros((*x.dims[:2], layer.num_output_units), dtype=coeff.dtype)
    for place in reversed(range(layer.degree + 1)):  # of the layer of the highest degree
        value = value * x + xp.expand_dims(coeff[:, :, place], axis=1)
    return semiring.from_linear(xp, value)


def _integral(xp: Any, semiring: Any, layer: PolynomialLayer, params: Any) -> Any:
    coeff = params["coeff"]
    powers = xp.astype(xp.arange(1, layer.degree + 2), coeff.dtype)
    return semiring.from_linear(xp, xp.expand_dims(xp.sum(coeff / powers, axis=-1), axis=1))


POLYNOMIAL_ROW = InputRow(PolynomialLayer, _horner, _integral, unsupported("it has no inverse"), padding={"coeff": 0.0})


def polynomial_reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """The sum of powers, or its integral over [0, 1]."""
    (variable,) = layer.scope
    coeff, powers = params["coeff"], np.arange(layer.degree + 1)
    missing = np.isnan(x[:, variable])[:, None]
    terms = np.where(missing, 1 / WIDE(1 + powers), np.nan_to_num(x[:, variable])[:, None] ** powers)
    return space.from_linear(terms @ coeff.T)


def polynomial(degree: int) -> Callable[[Sequence[int], int], PolynomialLayer]:
    """A builder of polynomials with positive coefficients."""
    return lambda scope, units: PolynomialLayer(Scope(scope), units, degree, exp_normal((units, degree + 1)))


CASES = (
    InputCase(
        "table of states",
        TABLE_ROW,
        table(3),
        _table_reference,
        _table_distributions,
        totals=lambda _, params: params["weight"].sum(axis=1),
        draw=lambda layer, rng, rows: rng.integers(0, layer.num_states, (rows, 1)),
        alike=(table(5), table(1)),
        parameters={"weight": weights(3)},
        points=states,
        wrong=(5.0, *STATES_WRONG),
        sampled=(),
        starts=(),
    ),
)
