"""Scales of rows as exponents of two, and what holds for all rows as numbers of Python.

Exponents are whole numbers kept as floats: they add without rounding as long as sums stay below `2 / eps` (2^24 in
single precision), and differences of two scales make exact factors. Natural logarithms appear at the end alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.symbolic.semirings.semiring import Array, Namespace, accumulate

_LOG_2 = math.log(2.0)
_FEW_BITS, _REST = 355.0 / 512.0, -2.1219444005469058e-4
"""The logarithm of two in nine bits, and what is left of it to more bits than one float has."""


def plus(a: Array | float, b: Array | float) -> Any:
    """The sum; 0.0 adds nothing, nor makes an array."""
    if isinstance(a, float) and a == 0.0:
        return b
    return a if isinstance(b, float) and b == 0.0 else a + b


def largest(xp: Namespace, arrays: Sequence[Array | float]) -> Any:
    """The largest of arrays and numbers of Python, entry by entry."""
    numbers, others = _apart(arrays)
    result = accumulate(xp.maximum, others) if others else max(numbers)
    return xp.clip(result, max(numbers), math.inf) if others and numbers else result


def least(xp: Namespace, arrays: Sequence[Array | float]) -> Any:
    """The least of arrays and numbers of Python, entry by entry."""
    numbers, others = _apart(arrays)
    result = accumulate(xp.minimum, others) if others else min(numbers)
    return xp.clip(result, -math.inf, min(numbers)) if others and numbers else result


def _apart(arrays: Sequence[Array | float]) -> tuple[list[float], list[Any]]:
    """The numbers of Python, and the arrays."""
    return [one for one in arrays if isinstance(one, float)], [one for one in arrays if not isinstance(one, float)]


def of_logs(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Mantissas of numbers with the logarithms `x`, and the exponent of each row, which has no gradient.

    The largest mantissa of a row is at most 1. Where whole numbers as large as the exponent have neighbours in the
    dtype, it is between 1/3 and 3/4.

    Shapes: x (F, B, K), results (F, B, K) and (F, B, 1).
    """
    limit = float(np.finfo(str(x.dtype)).max) / 2.0  # kept finite: a row of zeros stays one, infinite numbers stay so
    top = xp.clip(xp.stop_gradient(xp.max(x, axis=-1, keepdims=True)), -limit, limit)
    exponent = xp.ceil(top * (1.0 / _LOG_2) + 0.5)  # a half is more than the product is wrong by
    # a product by few bits is exact, so that rows keep their ratios to each other
    rest = xp.clip((top - exponent * _FEW_BITS) - exponent * _REST, -1.25, 0.0)
    return xp.exp((x - top) + rest), exponent


def times_power(xp: Namespace, mantissa: Array, exponent: Array | float) -> Array:
    """Mantissas times two to the power of an exponent, which rounds nothing that does not leave the normal numbers."""
    return mantissa if isinstance(exponent, float) and exponent == 0.0 else mantissa * xp.exp2(exponent)


def natural(exponent: Array | float) -> Any:
    """The logarithm of two to the power of an exponent."""
    return exponent * _LOG_2
