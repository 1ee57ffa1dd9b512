"""How references carry numbers: in linear space, or as logarithms, in extended precision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
WIDE = np.longdouble


@dataclass(frozen=True)
class Space:
    """How the oracle carries numbers: in linear space, or as logarithms."""

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
