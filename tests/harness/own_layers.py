"""Layers that are not Plica's own, for tests: each a class and a row, as a user would write them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plica.ir.op import unsupported
from plica.symbolic.domains import REALS, Domain, finite
from plica.symbolic.layers import Choice, InnerLayer, InputLayer, InputRow, SumRow
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params


@dataclass(frozen=True, eq=False)
class NeighbourSum(FieldsLayer, InnerLayer):
    """Unit k weighs unit k and the next one, cyclically, of each input by the squares of `root (K, 2 * arity)`."""

    num_input_units: int
    arity: int
    root: Parameter

    @property
    def num_output_units(self) -> int:
        return self.num_input_units


def _neighbours(layer: NeighbourSum) -> Any:
    units = np.arange(layer.num_input_units)
    both = np.stack([units, (units + 1) % layer.num_input_units], axis=1)
    return np.concatenate([place * layer.num_input_units + both for place in range(layer.arity)], axis=1)


def _neighbour_body(xp: Any, semiring: Any, layer: NeighbourSum, params: Any, inputs: Any) -> Any:  # noqa: ARG001
    square = xp.permute_dims(params["root"] * params["root"], (0, 2, 1))  # (F, 2 * arity, K)
    read = [one for value in inputs for one in (value, semiring.map(xp, lambda x: _shifted(xp, x), value))]
    weights = [semiring.from_linear(xp, square[:, term : term + 1]) for term in range(len(read))]
    return semiring.total(xp, [semiring.product(xp, *pair) for pair in zip(read, weights, strict=True)])


def _shifted(xp: Any, x: Any) -> Any:
    return xp.concat([x[:, :, 1:], x[:, :, :1]], axis=2)


def _log_squares(xp: Any, layer: Any, params: Any) -> Any:  # noqa: ARG001
    return 2 * xp.log(xp.abs(params["root"]))


NEIGHBOURS = SumRow(NeighbourSum, body=_neighbour_body, choose=Choice(_log_squares, _neighbours))
NEIGHBOURS_WITHOUT_CHOICE = SumRow(NeighbourSum, body=_neighbour_body)


@dataclass(frozen=True, eq=False)
class FirstUnitSum(FieldsLayer, InnerLayer):
    """Unit k weighs the first unit of its input by the square of `root (K, 1)`."""

    num_input_units: int
    root: Parameter
    arity = 1

    @property
    def num_output_units(self) -> int:
        return self.num_input_units


def _first_body(xp: Any, semiring: Any, layer: FirstUnitSum, params: Any, inputs: Any) -> Any:  # noqa: ARG001
    first = semiring.map(xp, lambda x: x[:, :, :1], inputs[0])
    return semiring.product(xp, first, semiring.from_linear(xp, xp.matrix_transpose(params["root"] * params["root"])))


FIRST_UNITS = SumRow(
    FirstUnitSum,
    body=_first_body,
    choose=Choice(_log_squares, lambda layer: np.zeros((layer.num_input_units, 1), dtype=np.int64)),
)


@dataclass(frozen=True, eq=False)
class PairLayer(FieldsLayer, InputLayer):
    """Tables over two variables of S states: `table (K, S * S)`, the state of the first one slowest."""

    scope: Scope
    num_output_units: int
    num_states: int
    table: Parameter

    @property
    def domain(self) -> Domain:
        return finite(self.num_states)


def _pair_body(xp: Any, semiring: Any, layer: PairLayer, params: Any, x: Any) -> Any:
    index = xp.astype(x[:, :, 0] * layer.num_states + x[:, :, 1], xp.int64)
    return semiring.from_linear(xp, xp.lookup(params["table"], index))


def _pair_marginal(xp: Any, semiring: Any, layer: PairLayer, params: Any) -> Any:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.sum(params["table"], axis=-1), axis=1))


def _pair_maximum(xp: Any, semiring: Any, layer: PairLayer, params: Any) -> Any:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(xp.max(params["table"], axis=-1), axis=1))


def _both(xp: Any, layer: PairLayer, index: Any) -> Any:
    return xp.stack([xp.floor_divide(index, layer.num_states), xp.remainder(index, layer.num_states)], axis=-1)


def _pair_sample(xp: Any, layer: PairLayer, params: Any, units: Any, uniforms: Any) -> Any:
    table = xp.cumulative_sum(params["table"], axis=-1)
    return _both(xp, layer, xp.search_cumulative(table, units, uniforms[:, :, 0]))


def _pair_mode(xp: Any, layer: PairLayer, params: Any) -> Any:
    return _both(xp, layer, xp.argmax(params["table"], axis=-1))


def _pair_fits(xp: Any, layer: PairLayer, params: Any, x: Any, missing: Any) -> Any:
    """The tables with zeros for states that are not those of a row, `(F, B, K, S * S)`."""
    index = xp.arange(layer.num_states**2)
    fits = [
        missing[:, :, place : place + 1] | (x[:, :, place : place + 1] == states)
        for place, states in enumerate((index // layer.num_states, index % layer.num_states))
    ]
    return xp.where(xp.expand_dims(fits[0] & fits[1], axis=2), xp.expand_dims(params["table"], axis=1), 0.0)


def _pair_partial(xp: Any, semiring: Any, layer: PairLayer, params: Any, x: Any, missing: Any) -> Any:
    return semiring.from_linear(xp, xp.sum(_pair_fits(xp, layer, params, x, missing), axis=-1))


def _pair_partial_maximum(xp: Any, semiring: Any, layer: PairLayer, params: Any, x: Any, missing: Any) -> Any:
    return semiring.from_linear(xp, xp.max(_pair_fits(xp, layer, params, x, missing), axis=-1))


def _pair_conditional(xp: Any, layer: PairLayer, params: Any, x: Any, missing: Any) -> Params:
    tables = _pair_fits(xp, layer, params, x, missing)
    folds, rows, units, states = tables.dims
    return Params.of(xp, {"table": xp.reshape(tables, (folds * rows, units, states))})


PAIRS = InputRow(PairLayer, _pair_body, _pair_marginal, _pair_sample, mode=_pair_mode, maximum=_pair_maximum)
PAIRS_IN_PART = replace(PAIRS, partial=_pair_partial)
PAIRS_FILLED_IN_PART = replace(PAIRS_IN_PART, partial_maximum=_pair_partial_maximum, conditional=_pair_conditional)
PAIRS_WITHOUT_MODE = InputRow(PairLayer, _pair_body, _pair_marginal, _pair_sample)


@dataclass(frozen=True, eq=False)
class SplitNormalLayer(FieldsLayer, InputLayer):
    """Normal distributions whose one parameter has two outputs, `(K,)` each: the mean and the standard deviation."""

    scope: Scope
    num_output_units: int
    both: Parameter
    domain = REALS


def _split_normal_body(xp: Any, semiring: Any, layer: SplitNormalLayer, params: Any, x: Any) -> Any:  # noqa: ARG001
    mean, stddev = (xp.expand_dims(one, axis=1) for one in params["both"])
    distance = (x - mean) / stddev
    return semiring.from_log(xp, -0.5 * distance * distance - xp.log(stddev) - 0.5 * np.log(2 * np.pi))


def _split_normal_total(xp: Any, semiring: Any, layer: SplitNormalLayer, params: Any) -> Any:
    mean, _ = params["both"]
    return semiring.one(xp, (mean.shape[0], 1, layer.num_output_units), mean.dtype)


SPLIT_NORMALS = InputRow(
    SplitNormalLayer, body=_split_normal_body, marginal=_split_normal_total, sample=unsupported("nobody asks")
)


@dataclass(frozen=True, eq=False)
class BoxLayer(FieldsLayer, InputLayer):
    """Uniform densities `height (K,)` of ever so wide boxes around `middle (K,)`, which densities need not read."""

    scope: Scope
    num_output_units: int
    height: Parameter
    middle: Parameter
    domain = REALS


def _box_body(xp: Any, semiring: Any, layer: BoxLayer, params: Any, x: Any) -> Any:
    height = xp.expand_dims(params["height"], axis=1)
    return semiring.from_linear(xp, xp.broadcast_to(height, (*x.dims[:2], layer.num_output_units)))


def _box_total(xp: Any, semiring: Any, layer: BoxLayer, params: Any) -> Any:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(params["height"], axis=1))


def _box_sample(xp: Any, layer: BoxLayer, params: Any, units: Any, uniforms: Any) -> Any:  # noqa: ARG001
    return xp.expand_dims(xp.take_along_axis(params["middle"], units, axis=-1) + uniforms[:, :, 0] - 0.5, axis=-1)


def _box_mode(xp: Any, layer: BoxLayer, params: Any) -> Any:  # noqa: ARG001
    return xp.expand_dims(params["middle"], axis=-1)


BOXES = InputRow(BoxLayer, _box_body, _box_total, _box_sample, mode=_box_mode, maximum=_box_total)


@dataclass(frozen=True, eq=False)
class ValueLayer(FieldsLayer, InputLayer):
    """Numbers that no variable changes: `value (K,)`."""

    num_output_units: int
    value: Parameter

    @property
    def scope(self) -> Scope:
        return Scope([])

    @property
    def domain(self) -> Domain:
        return REALS


def _value(xp: Any, semiring: Any, layer: ValueLayer, params: Any, *x: Any) -> Any:  # noqa: ARG001
    return semiring.from_linear(xp, xp.expand_dims(params["value"], axis=1))


VALUES = InputRow(ValueLayer, _value, _value, unsupported("nothing is drawn"))
