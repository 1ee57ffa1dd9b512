"""What queries answer with where one array is not enough: arrays of whatever library the circuit was compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known of each variable of some rows.

    Args:
        probabilities: `(B, D, C)`, of each state of each variable that has states: zeros beyond its own number of
            states, and for all other variables. A variable that is known has its state with probability 1.
        mean: `(B, D)`, of each variable that has no states: what is known is its own mean. NaN for what is
            missing of all others, and of columns that no layer reads.
        stddev: `(B, D)`, its standard deviation; 0 for what is known.
    """

    probabilities: Array
    mean: Array
    stddev: Array


@dataclass(frozen=True, slots=True)
class Explanations:
    """The completions that max-product decoding finds, and how far from the most probable ones they may be.

    All values are logarithms, of the circuit as it is: of a circuit that is not normalized, they are not probabilities.
    For each row `log_values <= found <= the value of the most probable completion <= upper`.

    Args:
        rows: `(B, D)`, the completions.
        log_values: `(B,)`, the max-product value: of a completion together with the terms that sums chose for it.
        found: `(B,)`, the value of a completion itself.
        upper: `(B,)`, which the value of no completion exceeds.
        is_exact: Whether the circuit is deterministic, as far as its constants tell, so that the completions are the
            most probable ones; `found` and `upper` are then equal up to rounding.
    """

    rows: Array
    log_values: Array
    found: Array
    upper: Array
    is_exact: bool

    @property
    def gap(self) -> Array:
        """`(B,)`, by how much the logarithm of the largest value exceeds that of the completion at most."""
        return self.upper - self.found
