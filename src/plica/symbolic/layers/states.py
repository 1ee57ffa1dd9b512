"""What follows from the numbers of all states of a variable: moments and intervals of layers that have a table of them.

The table is a `Weight` of shape `(F, K, C)`: the number of unit k at state c, normalized or not.
"""

from plica.symbolic.parameters import Array, Namespace
from plica.symbolic.semirings import Semiring, Value, Weight


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
