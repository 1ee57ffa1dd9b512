"""The histogram input layer: densities of one real variable that are constant within each of some bins.

>>> from plica.symbolic.scope import Scope
>>> edges = histogram_edges([1.0, 2.0, 3.0, 4.0, 8.0], 2, by="quantile")
>>> layer = HistogramLayer(Scope([0]), 4, edges=edges)
>>> edges.tolist(), layer.num_bins, layer.params["logits"].shape
([1.0, 3.0, 8.0], 2, (4, 2))
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plica.arguments import found, known
from plica.errors import InputError, ShapeError
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.initializers import reals_of
from plica.symbolic.layers import closed_form, states
from plica.symbolic.layers.base import (
    FieldsLayer,
    InputLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.distribution import Column, Distribution
from plica.symbolic.layers.rows import InputRow
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterInput,
    ParameterLike,
    Shape,
    log_softmax_normal,
    softmax_normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value, Weight

_NUM_BINS = 32
_LOG_ZERO = -math.inf


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class HistogramLayer(FieldsLayer, InputLayer):
    """Densities of one real variable that are constant within bins, and 0 outside of them.

    A bin contains its lower edge and not its upper edge; the last bin contains both.

    Args:
        scope: The variable.
        num_output_units: K, the number of densities.
        num_bins: N; by default one less than `edges` have, else 32.
        edges: N + 1 increasing numbers, or a constant parameter of them, for all units; by default bins of equal width
            from 0 to 1. `histogram_edges` takes them from data.
        logits: `(K, N)` logarithms of the integral of each unit over each bin, used as given; by default the
            log-softmax of standard normal draws, so that a unit integrates to 1.
        probs: `(K, N)` the integrals themselves, used as given.
        edges_factory: Makes the edges from their shape.
        logits_factory: Makes the logits from their shape.
        probs_factory: Makes the integrals from their shape.

    Raises:
        ShapeError: More than one variable, a parameter of another shape.
        InputError: Two ways to give one parameter, edges that do not increase.
    """

    scope: Scope
    num_output_units: int
    num_bins: int
    edges: Parameter
    logits: Parameter | None
    probs: Parameter | None

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        num_bins: int | None = None,
        edges: ParameterLike | ArrayLike | None = None,
        logits: ParameterLike | None = None,
        probs: ParameterLike | None = None,
        edges_factory: ParameterFactory | None = None,
        logits_factory: ParameterFactory | None = None,
        probs_factory: ParameterFactory | None = None,
    ) -> None:
        name = "HistogramLayer"
        at_most_one(name, edges=edges, edges_factory=edges_factory)
        at_most_one(name, logits=logits, probs=probs, logits_factory=logits_factory, probs_factory=probs_factory)
        units = positive(name, "num_output_units", num_output_units)
        given = None if edges is None else _as_parameter(edges)
        if num_bins is None:
            num_bins = _NUM_BINS if given is None else given.shape[0] - 1
        bins = positive(name, "num_bins", num_bins)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, num_bins=bins)
        assign(self, edges=choose_parameter(name, "edges", (bins + 1,), given, edges_factory, _equal_bins))
        _check_edges(self.edges)
        if probs is None and probs_factory is None:
            chosen = choose_parameter(name, "logits", (units, bins), logits, logits_factory, log_softmax_normal)
            assign(self, logits=chosen, probs=None)
        else:
            chosen = choose_parameter(name, "probs", (units, bins), probs, probs_factory, softmax_normal)
            assign(self, logits=None, probs=chosen)

    @property
    def domain(self) -> Domain:
        """The variable is real."""
        return REALS

    @property
    def padded(self) -> dict[str, str]:
        """The edges and the table, by number of bins."""
        return dict.fromkeys(self.params, "num_bins")


def histogram_edges(
    values: ArrayLike, num_bins: int, *, by: Literal["width", "quantile"] = "width"
) -> NDArray[np.float64]:
    """Edges of at most `num_bins` bins for the values of a column, from the smallest to the largest one.

    Args:
        values: Numbers; NaN are left out.
        num_bins: How many bins there are; fewer where quantiles are equal, or rounding makes edges equal.
        by: Whether bins are equally wide, or hold equally many values.

    Raises:
        InputError: No numbers, infinite ones, or another word than these.
        ShapeError: A number of bins below 1.

    >>> histogram_edges([0.0, 1.0, float("nan"), 4.0], 2).tolist()
    [0.0, 2.0, 4.0]
    """
    bins = positive("histogram_edges", "num_bins", num_bins)
    if not known(by, ("width", "quantile")):
        raise InputError(f"histogram_edges: by must be 'width' or 'quantile', {found(by)}")
    numbers = reals_of("histogram_edges", values).ravel()
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers) or not np.isfinite(numbers).all():
        raise InputError(
            f"histogram_edges: expected finite numbers, found {'infinite ones' if len(numbers) else 'none'}; "
            "leave such rows out"
        )
    levels = np.linspace(0, 1, bins + 1)
    low, high = numbers.min(), numbers.max()
    edges = np.unique(np.quantile(numbers, levels) if by == "quantile" else np.linspace(low, high, bins + 1))
    half = max(0.5, float(np.spacing(abs(low))))
    return edges if len(edges) > 1 else np.array([low - half, low + half])


def _as_parameter(edges: Any) -> Parameter:
    if isinstance(edges, Parameter | ParameterInput):
        return Parameter.from_input(edges)
    numbers = reals_of("HistogramLayer", edges)
    if numbers.ndim != 1 or len(numbers) < 2:
        raise ShapeError(f"HistogramLayer: expected edges as a list of at least 2 numbers, found shape {numbers.shape}")
    return Parameter.from_input(ConstantParameter(*numbers.shape, value=numbers))


def _equal_bins(shape: Shape, low: float = 0.0, high: float = 1.0) -> Parameter:
    return Parameter.from_input(ConstantParameter(*shape, value=np.linspace(low, high, shape[0])))


def _check_edges(parameter: Parameter) -> None:
    """Refuse constant edges that do not increase."""
    edges = parameter.output
    if isinstance(edges, ConstantParameter):
        numbers = np.broadcast_to(edges.value, edges.shape).astype(np.float64)
        wrong = np.flatnonzero(~(np.isfinite(numbers[:-1]) & np.isfinite(numbers[1:]) & (np.diff(numbers) > 0)))
        if len(wrong):
            index = int(wrong[0])
            raise InputError(
                f"HistogramLayer: expected finite edges that increase, found {numbers[index]} before "
                f"{numbers[index + 1]}; sort them and drop equal ones"
            )


def _bins(xp: Namespace, params: Params) -> tuple[Array, Array, Array]:
    """The lower edges, the widths and the middles of the bins, `(F, N)`; 0, 1 and 0 for bins that a fold lacks.

    The width is NaN where learned edges do not increase, or are infinitely far apart.
    """
    edges = params["edges"]
    low, high = edges[:, :-1], edges[:, 1:]
    real = xp.isfinite(high)
    low, high = xp.where(real, low, 0.0), xp.where(real, high, 1.0)
    width = high - low
    width = xp.where(xp.logical_and(xp.greater(width, 0.0), xp.isfinite(width)), width, float("nan"))
    return low, width, xp.where(real, low + 0.5 * width, 0.0)


def _masses(layer: HistogramLayer, params: Params) -> Weight:
    """The integrals of units over bins, `(F, K, N)`."""
    return params.weight("probs") if layer.logits is None else params.exp_weight("logits")


def _densities(xp: Namespace, layer: HistogramLayer, params: Params) -> Weight:
    """The density of each bin, and 0 outside of all, `(F, K, N + 1)`."""
    masses, width = _masses(layer, params), xp.expand_dims(_bins(xp, params)[1], axis=1)

    def extended(array: Array, outside: float) -> Array:
        return xp.concat([array, xp.full((*array.shape[:2], 1), outside, dtype=array.dtype)], axis=-1)

    by_logs = masses.in_directions is not None or masses.in_logs is not None or not masses.may_be_zero

    def in_logs() -> Array:
        return extended(masses.log(xp) - xp.log(width), _LOG_ZERO)

    def in_directions() -> tuple[Array, Array]:
        direction, size = masses.directions if by_logs else (masses.linear, xp.zeros_like(masses.linear))
        return extended(direction / width, 0.0), extended(size, 0.0)

    return Weight(
        lambda: extended(masses.linear / width, 0.0),
        in_logs,
        in_directions=None if by_logs and masses.in_directions is None else in_directions,
        least=0.0 if masses.least >= 0 else -math.inf,
        may_be_zero=masses.may_be_zero,
    )


def _bin_index(xp: Namespace, layer: HistogramLayer, params: Params, x: Array) -> Array:
    """The bin of each number of `x (F, B, 1)`, and N outside of all: `(F, B)`."""
    edges = xp.expand_dims(params["edges"], axis=1)  # (F, 1, N + 1), infinite behind the last
    x = xp.astype(x, edges.dtype)
    last = xp.max(xp.where(xp.isfinite(edges), edges, _LOG_ZERO), axis=-1, keepdims=True)
    passed = xp.logical_and(xp.greater_equal(x, edges[:, :, 1:]), xp.less(edges[:, :, 1:], last))
    inside = xp.logical_and(xp.greater_equal(x, edges[:, :, :1]), xp.less_equal(x, last))
    return xp.where(xp.squeeze(inside, axis=-1), xp.sum(xp.astype(passed, xp.int64), axis=-1), layer.num_bins)


def _expected(
    xp: Namespace, layer: HistogramLayer, params: Params, x: Array, missing: Array, flows: Array
) -> dict[str, Array]:
    """The expected number of rows in each bin, `(F, K, N)`."""
    index = _bin_index(xp, layer, params, xp.where(missing, 0.0, x))
    is_in = xp.logical_and(xp.equal(xp.expand_dims(index, axis=-1), xp.arange(layer.num_bins)), xp.logical_not(missing))
    return {"states": xp.matmul(xp.matrix_transpose(flows), xp.astype(is_in, flows.dtype))}


def _body(xp: Namespace, semiring: Semiring, layer: HistogramLayer, params: Params, x: Array) -> Value:
    index = _bin_index(xp, layer, params, x)
    return semiring.from_weight(xp, _densities(xp, layer, params).looked_up(lambda table: xp.lookup(table, index)))


def _marginal(xp: Namespace, semiring: Semiring, layer: HistogramLayer, params: Params) -> Value:
    total = _masses(layer, params).total(xp)
    return semiring.from_weight(xp, total.map(lambda total_: xp.expand_dims(total_, axis=1)))


def _maximum(xp: Namespace, semiring: Semiring, layer: HistogramLayer, params: Params) -> Value:
    largest = _densities(xp, layer, params).map(lambda table: xp.expand_dims(xp.max(table, axis=-1), axis=1))
    return semiring.from_weight(xp, largest)


def _mode(xp: Namespace, layer: HistogramLayer, params: Params) -> Array:
    """The middle of the densest bin."""
    best = xp.argmax(_densities(xp, layer, params).log(xp)[:, :, :-1], axis=-1)  # (F, K)
    return xp.expand_dims(xp.take_along_axis(_bins(xp, params)[2], best, axis=-1, nonnegative=True), axis=-1)


def _sample(xp: Namespace, layer: HistogramLayer, params: Params, units: Array, uniforms: Array) -> Array:
    shares, level = _masses(layer, params).shares(xp), xp.squeeze(uniforms, axis=-1)
    above = xp.cumulative_sum(shares, axis=-1)  # (F, K, N)
    bin_index = xp.search_cumulative(above, units, level)  # (F, B)

    def of_bin(table: Array) -> Array:
        flat = xp.reshape(table, (table.shape[0], layer.num_output_units * layer.num_bins))
        return xp.take_along_axis(flat, units * layer.num_bins + bin_index, axis=-1, nonnegative=True)

    # the position within the bin: the level minus the shares of the bins before, divided by the bin's share
    share = of_bin(shares)
    part = (level - (of_bin(above) - share)) / xp.where(xp.greater(share, 0.0), share, 1.0)
    low, width, _ = (xp.take_along_axis(table, bin_index, axis=-1, nonnegative=True) for table in _bins(xp, params))
    return xp.expand_dims(low + width * xp.clip(part, 0.0, 1.0), axis=-1)


def _mean(xp: Namespace, layer: HistogramLayer, params: Params) -> Array:
    middle = xp.expand_dims(_bins(xp, params)[2], axis=1)
    return xp.sum(_masses(layer, params).shares(xp) * middle, axis=-1, keepdims=True)


def _variance(xp: Namespace, layer: HistogramLayer, params: Params) -> Array:
    width, middle = (xp.expand_dims(table, axis=1) for table in _bins(xp, params)[1:])
    distance = middle - _mean(xp, layer, params)
    return xp.sum(
        _masses(layer, params).shares(xp) * (distance * distance + width * width / 12.0), axis=-1, keepdims=True
    )


def _interval(
    xp: Namespace, semiring: Semiring, layer: HistogramLayer, params: Params, low: Array, high: Array
) -> Value:
    start, width, _ = (xp.expand_dims(table, axis=1) for table in _bins(xp, params))  # (F, 1, N)
    least, most = xp.astype(low, start.dtype), xp.astype(high, start.dtype)  # (F, B, 1)
    covered = xp.maximum(xp.minimum(most, start + width) - xp.maximum(least, start), 0.0) / width
    return states.contracted(xp, semiring, semiring.from_linear(xp, covered), _masses(layer, params))


def _fitted(column: Column) -> dict[str, ParameterFactory]:
    """Bins of equal width, with room on both sides of the column: beyond them a row is impossible."""
    low, high = column.least - column.spread, column.most + column.spread
    return {"edges_factory": partial(_equal_bins, low=low, high=high)}


ROW = InputRow(
    HistogramLayer,
    body=_body,
    marginal=_marginal,
    sample=_sample,
    mode=_mode,
    maximum=_maximum,
    mean=_mean,
    variance=_variance,
    interval=_interval,
    increasing=("edges",),
    padding={"edges": float("inf"), "logits": _LOG_ZERO, "probs": 0.0},  # bins that some layers of a fold do not have
    distribution=Distribution("histogram", HistogramLayer, ("logits", "probs"), fitted=_fitted),
    closed_form=replace(closed_form.table("logits", "probs"), expected=_expected),
)
