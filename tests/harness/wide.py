"""Special functions in extended precision, whose differences are derivatives."""

from typing import Any

import numpy as np

from tests.harness.spaces import WIDE

Array = Any
PI = WIDE("3.14159265358979323846264338327950288")
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def lgamma(x: Array) -> Array:
    """log Gamma(x) of positive numbers: Stirling's series at numbers above 50, and the recurrence down from there."""
    x = np.asarray(x, WIDE)
    steps = np.arange(50)
    shift = np.log(x[..., None] + steps).sum(axis=-1)
    large = x + 50
    series = sum(WIDE(factor) / large ** (2 * place + 1) for place, factor in enumerate(_SERIES))
    return (large - WIDE(0.5)) * np.log(large) - large + np.log(2 * PI) / 2 + series - shift


def log_i0(x: Array) -> Array:
    """log I_0(x) of numbers that are not negative: the power series, or above 60 the asymptotic one."""
    x = np.asarray(x, WIDE)
    small, large = np.minimum(x, 60), np.maximum(x, 60)
    term, power = np.ones_like(small), np.ones_like(small)
    for k in range(1, 160):
        term = term * (small / (2 * k)) ** 2
        power = power + term
    term, rest = np.ones_like(large), np.ones_like(large)
    for k in range(1, 40):
        term = term * (2 * k - 1) ** 2 / (8 * k * large)
        rest = rest + term
    return np.where(x < 60, np.log(power), large - np.log(2 * PI * large) / 2 + np.log(rest))
