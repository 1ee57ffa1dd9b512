"""What references add and multiply: ordinary numbers, their logarithms, or another algebra, in extended precision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
WIDE = np.longdouble


@dataclass(frozen=True)
class Space:
    """How a reference carries, multiplies and sums numbers."""

    from_linear: Callable[[Array], Array]
    from_log: Callable[[Array], Array]
    multiply: Callable[[Array, Array], Array]
    weighted_sum: Callable[[Array, Array], Array]  # (B, I), (O, I) linear -> (B, O)


def safe_log(x: Array) -> Array:
    """The logarithm; -inf of zero."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def _log_weighted_sum(x: Array, weight: Array) -> Array:
    terms = x[:, None, :] + safe_log(weight)[None]
    return np.logaddexp.reduce(terms, axis=-1)


LINEAR = Space(lambda x: x, np.exp, np.multiply, lambda x, weight: np.einsum("bi,oi->bo", x, weight))
LOG = Space(safe_log, lambda x: x, np.add, _log_weighted_sum)

# Ordinary numbers of which a sum is the largest, and truth values: 1 where a number is possible, else 0.
LARGEST = Space(lambda x: x, np.exp, np.multiply, lambda x, weight: (x[:, None, :] * weight[None]).max(axis=-1))
POSSIBLE = Space(
    lambda x: np.where(x > 0, WIDE(1), WIDE(0)),
    lambda x: np.where(x > -np.inf, WIDE(1), WIDE(0)),
    np.multiply,
    lambda x, weight: np.where((x[:, None, :] * weight[None] > 0).any(axis=-1), WIDE(1), WIDE(0)),
)
# By the names of algebras: what a value is as an ordinary number.
SPACES = {"real": LINEAR, "max-product": LARGEST, "min-plus": LARGEST, "boolean": POSSIBLE}


def _log_largest(x: Array, weight: Array) -> Array:
    return (x[:, None, :] + safe_log(weight)[None]).max(axis=-1)


def _sign(x: Array) -> Array:
    return np.where(x > -np.inf, WIDE(0), -np.inf)


# The same as logarithms, which do not underflow.
LOG_LARGEST = Space(safe_log, lambda x: x, np.add, _log_largest)
LOG_POSSIBLE = Space(
    lambda x: _sign(safe_log(x)), _sign, np.add, lambda x, weight: _log_largest(x, np.where(weight > 0, WIDE(1), 0))
)
LOG_SPACES = {"real": LOG, "max-product": LOG_LARGEST, "min-plus": LOG_LARGEST, "boolean": LOG_POSSIBLE}
