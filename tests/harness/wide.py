"""Special functions in extended precision, whose differences are derivatives."""

import math
from typing import Any

import numpy as np

from tests.harness.spaces import WIDE

Array = Any
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def lgamma(x: Array) -> Array:
    """log Gamma(x) of positive numbers: Stirling's series at numbers above 50, and the recurrence down from there."""
    x = np.asarray(x, WIDE)
    steps = np.arange(50)
    shift = np.log(x[..., None] + steps).sum(axis=-1)
    large = x + 50
    series = sum(WIDE(factor) / large ** (2 * place + 1) for place, factor in enumerate(_SERIES))
    return (large - WIDE(0.5)) * np.log(large) - large + np.log(2 * WIDE(np.pi)) / 2 + series - shift


def log_i0(x: Array) -> Array:
    """log I_0(x) of numbers that are not large, by the power series."""
    x = np.asarray(x, WIDE)
    return np.log(sum((x / 2) ** (2 * k) / WIDE(math.factorial(k)) ** 2 for k in range(60)))
