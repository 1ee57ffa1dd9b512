"""Layers whose units are tables: one number for each of finitely many states of a variable.

Such a layer computes its table, a `Weight` of shape `(F, K, C)`: the number of unit k at state c, normalized or not.
All columns of its row follow from that; `dataclasses.replace` changes those that have a better form.

    ROW = states.input_row(DiceLayer, lambda xp, layer, params: params.weight("probs"))

A `TabulatedLayer` also gives its table as a parameter, by which operators on circuits multiply it with others.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from plica.ir.dtypes import as_dtype
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.layers.distribution import Distribution
from plica.symbolic.layers.rows import InputRow
from plica.symbolic.parameters import (
    Array,
    ExpParameter,
    IndexParameter,
    Namespace,
    Parameter,
    outer_product,
    outer_sum,
)
from plica.symbolic.semirings import Logs, Params, Semiring, Value, Weight

# -> (F, K, C): the numbers of all units and states
Table: TypeAlias = Callable[[Namespace, Any, Params], Weight]


@dataclass(frozen=True, slots=True, eq=False)
class StateTable:
    """A table as a parameter.

    Args:
        numbers: `(K, C)`, the number of each unit at each state.
        log_space: Whether `numbers` holds their logarithms.
        signed: Whether a number may be negative.

    >>> from plica.pipeline import compile_parameter
    >>> from plica.symbolic.parameters import ConstantParameter
    >>> coin = StateTable(Parameter.from_input(ConstantParameter(1, 2, value=[[0.25, 0.75]])))
    >>> compile_parameter(coin.times(coin).numbers)()
    tensor([[[0.0625, 0.5625]]])
    """

    numbers: Parameter
    log_space: bool = False
    signed: bool = False

    def linear(self) -> Parameter:
        """The ordinary numbers."""
        return Parameter.from_unary(ExpParameter(self.numbers.shape), self.numbers) if self.log_space else self.numbers

    def first_states(self, num_states: int) -> "StateTable":
        """The table of the first states."""
        if num_states == self.numbers.shape[-1]:
            return self
        chosen = IndexParameter(self.numbers.shape, indices=range(num_states), axis=-1)
        return replace(self, numbers=Parameter.from_unary(chosen, self.numbers))

    def times(self, other: "StateTable") -> "StateTable":
        """The table of products: unit `i * K2 + j` is unit i of this one times unit j of the other."""
        signed = self.signed or other.signed
        if self.log_space and other.log_space:
            return StateTable(outer_sum(self.numbers, other.numbers, axis=0), log_space=True, signed=signed)
        return StateTable(outer_product(self.linear(), other.linear(), axis=0), signed=signed)


class TabulatedLayer(InputLayer):
    """A layer of one variable, whose numbers at finitely many states are a parameter.

    >>> from plica.pipeline import compile_parameter
    >>> from plica.symbolic.layers import CategoricalLayer
    >>> from plica.symbolic.parameters import ConstantParameter
    >>> layer = CategoricalLayer([0], 1, num_categories=2, probs=ConstantParameter(1, 2, value=[[0.25, 0.75]]))
    >>> compile_parameter(layer.state_table(2).numbers)()
    tensor([[[0.2500, 0.7500]]])
    """

    __slots__ = ()

    @abstractmethod
    def state_table(self, num_states: int) -> StateTable:
        """The numbers at states 0 to `num_states` - 1, from references to the tensors of the layer.

        Raises:
            UnsupportedError: The layer has none.
        """


def input_row(
    layer: type[InputLayer],
    table: Table,
    *,
    padding: Mapping[str, float] | None = None,
    distribution: Distribution | None = None,
) -> InputRow:
    """The row of a layer of one variable.

    Args:
        layer: The class.
        table: Computes its table.
        padding: The numbers that fill parameters up, for states that some layers of a fold do not have.
        distribution: Its name in templates and on the command line.
    """
    return InputRow(
        layer,
        body=partial(_body, table),
        marginal=partial(_marginal, table),
        sample=partial(_sample, table),
        maximum=partial(_maximum, table),
        mode=partial(_mode, table),
        mean=partial(_mean, table),
        variance=partial(_variance, table),
        interval=partial(_interval, table),
        states=partial(_states, table),
        padding=padding or {},
        distribution=distribution,
    )


def from_logs(xp: Namespace, logs: Array) -> Weight:
    """The table of masses with these logarithms, `(F, K, C)`."""
    return Weight(lambda: xp.exp(logs), lambda: logs, lambda: Logs("log", logs), most=1.0, least=0.0)


def from_logs_and_zeros(xp: Namespace, logs: Array, direction: Array, size: Array) -> Weight:
    """Masses with these logarithms and, where one is 0, the derivative of `direction * exp(size)`, which is 0 too."""
    is_zero = xp.equal(logs, -math.inf)
    most = math.log(float(np.finfo(as_dtype(logs.dtype).value).max)) / 2

    def in_directions() -> tuple[Array, Array]:
        known = xp.where(is_zero, 0.0, xp.stop_gradient(logs))
        return xp.where(is_zero, direction, xp.exp(logs - known)), xp.where(is_zero, size, known)

    return replace(
        from_logs(xp, logs),
        in_linear=lambda: xp.where(is_zero, direction * xp.exp(xp.clip(size, max=most)), xp.exp(logs)),
        in_directions=in_directions,
    )


def contracted(xp: Namespace, semiring: Semiring, terms: Value, table: Weight) -> Value:
    """Terms `(F, B, C)` times a table `(F, K, C)`, whose numbers may be too large for a float if it has logarithms."""
    if table.in_logs is None or table.most <= 1.0:
        return semiring.contract(xp, [terms], table)
    has_signs = table.least < 0.0 and table.in_directions is not None  # negative numbers have no logarithms
    direction, size = table.directions if has_signs else (None, table.log(xp))
    largest = float(xp.finfo(size.dtype).max)
    shift = xp.stop_gradient(xp.clip(xp.max(size, axis=-1, keepdims=True), -largest, largest))  # (F, K, 1)
    scaled = from_logs(xp, size - shift) if direction is None else Weight.of(direction * xp.exp(size - shift))
    parts = semiring.contract(xp, [terms], scaled)
    return semiring.product(xp, parts, semiring.from_log(xp, xp.matrix_transpose(shift)))


def _shares(xp: Namespace, table: Weight) -> tuple[Array, Array]:
    """The probabilities of states, and the states as numbers."""
    shares = table.shares(xp)
    return shares, xp.astype(xp.arange(shares.shape[-1]), shares.dtype)


# The columns of the row, which take the table first. They are functions of a module, so that rows can be pickled.


def _body(table: Table, xp: Namespace, semiring: Semiring, layer: Any, params: Params, x: Array) -> Value:
    index = xp.astype(xp.squeeze(x, axis=-1), xp.int64)  # (F, B)
    return semiring.from_weight(xp, table(xp, layer, params).looked_up(lambda table_: xp.lookup(table_, index)))


def _states(table: Table, xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    return semiring.from_weight(xp, table(xp, layer, params).map(xp.matrix_transpose))


def _marginal(table: Table, xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    total = table(xp, layer, params).total(xp)
    return semiring.from_weight(xp, total.map(lambda total_: xp.expand_dims(total_, axis=1)))


def _maximum(table: Table, xp: Namespace, semiring: Semiring, layer: Any, params: Params) -> Value:
    numbers = table(xp, layer, params)
    return semiring.from_weight(xp, numbers.map(lambda table_: xp.expand_dims(xp.max(table_, axis=-1), axis=1)))


def _sample(table: Table, xp: Namespace, layer: Any, params: Params, units: Array, uniforms: Array) -> Array:
    shares, _ = _shares(xp, table(xp, layer, params))
    cumulative = xp.cumulative_sum(shares, axis=-1)
    return xp.expand_dims(xp.search_cumulative(cumulative, units, xp.squeeze(uniforms, axis=-1)), axis=-1)


def _mode(table: Table, xp: Namespace, layer: Any, params: Params) -> Array:
    return xp.expand_dims(xp.argmax(table(xp, layer, params).log(xp), axis=-1), axis=-1)  # (F, K, 1)


def _mean(table: Table, xp: Namespace, layer: Any, params: Params) -> Array:
    shares, states = _shares(xp, table(xp, layer, params))
    return xp.sum(shares * states, axis=-1, keepdims=True)


def _variance(table: Table, xp: Namespace, layer: Any, params: Params) -> Array:
    shares, states = _shares(xp, table(xp, layer, params))
    distance = states - xp.sum(shares * states, axis=-1, keepdims=True)  # first, so that nothing cancels
    return xp.sum(shares * distance * distance, axis=-1, keepdims=True)


def _interval(
    table: Table, xp: Namespace, semiring: Semiring, layer: Any, params: Params, low: Array, high: Array
) -> Value:
    numbers = table(xp, layer, params)
    states = xp.astype(xp.arange(numbers.linear.shape[-1]), low.dtype)
    inside = xp.logical_and(xp.greater_equal(states, low), xp.less_equal(states, high))  # (F, B, C)
    logs = xp.where(inside, xp.zeros((), dtype=low.dtype), -math.inf)  # exact logarithms of 0 and 1
    # a sum and no difference, so nothing cancels
    return contracted(xp, semiring, semiring.from_log(xp, logs), numbers)
