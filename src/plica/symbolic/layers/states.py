"""What follows from the numbers of all states of a variable: the rules of layers that have a table of them.

The table is a `Weight` of shape `(F, K, C)`: the number of unit k at state c, normalized or not.
"""

from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Semiring, Value, Weight


def value(xp: Namespace, semiring: Semiring, table: Weight, x: Array) -> Value:
    """The number of each unit at the states `x (F, B, 1)`."""
    index = xp.astype(xp.squeeze(x, axis=-1), xp.int64)  # (F, B)
    return semiring.from_weight(xp, table.looked_up(lambda numbers: xp.lookup(numbers, index)))


def total(xp: Namespace, semiring: Semiring, table: Weight) -> Value:
    """The sum of each unit over all states, `(F, 1, K)`."""
    return semiring.from_weight(xp, table.total(xp).map(lambda numbers: xp.expand_dims(numbers, axis=1)))


def maximum(xp: Namespace, semiring: Semiring, table: Weight) -> Value:
    """The largest number of each unit, `(F, 1, K)`."""
    largest = table.map(lambda numbers: xp.expand_dims(xp.max(numbers, axis=-1), axis=1))
    return semiring.from_weight(xp, largest)


def sample(xp: Namespace, table: Weight, units: Array, uniforms: Array) -> Array:
    """States drawn from the chosen units, `(F, B, 1)`."""
    shares, _ = _shares(xp, table)
    drawn = xp.search_cumulative(xp.cumulative_sum(shares, axis=-1), units, xp.squeeze(uniforms, axis=-1))
    return xp.expand_dims(drawn, axis=-1)


def mode(xp: Namespace, table: Weight) -> Array:
    """The state at which each unit is largest, `(F, K, 1)`."""
    return xp.expand_dims(xp.argmax(table.log(xp), axis=-1), axis=-1)


def mean(xp: Namespace, table: Weight) -> Array:
    """The mean state of each unit, `(F, K, 1)`."""
    shares, states = _shares(xp, table)
    return xp.sum(shares * states, axis=-1, keepdims=True)


def variance(xp: Namespace, table: Weight) -> Array:
    """The variance of the state of each unit, `(F, K, 1)`."""
    shares, states = _shares(xp, table)
    distance = states - xp.sum(shares * states, axis=-1, keepdims=True)  # first, so that nothing cancels
    return xp.sum(shares * distance * distance, axis=-1, keepdims=True)


def interval(xp: Namespace, semiring: Semiring, table: Weight, low: Array, high: Array) -> Value:
    """Each unit summed over the states from `low` to `high`, `(F, B, 1)` each: no differences, so nothing cancels."""
    numbers = table.linear
    states = xp.astype(xp.arange(numbers.shape[-1]), low.dtype)
    inside = xp.logical_and(xp.greater_equal(states, low), xp.less_equal(states, high))  # (F, B, C)
    return semiring.contract(xp, [semiring.from_linear(xp, xp.astype(inside, numbers.dtype))], table)


def _shares(xp: Namespace, table: Weight) -> tuple[Array, Array]:
    """The probabilities of states, right where the numbers themselves underflow, and the states as numbers."""
    shares = xp.softmax(table.log(xp), axis=-1)
    return shares, xp.astype(xp.arange(shares.shape[-1]), shares.dtype)
