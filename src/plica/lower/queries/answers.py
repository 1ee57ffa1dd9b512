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
        mean: `(B, D)`, of each variable that has no states: what is known is its own mean. NaN for all others, and for
            what is missing in columns that no layer reads.
        stddev: `(B, D)`, its standard deviation; 0 for what is known.
    """

    probabilities: Array
    mean: Array
    stddev: Array
