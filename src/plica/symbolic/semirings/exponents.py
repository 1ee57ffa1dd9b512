"""Scales of rows as exponents of two; scales and bounds that are the same for all rows are Python floats.

Exponents are whole numbers stored as floats: they add without rounding as long as sums stay below `2 / eps` (2^24 in
single precision), and differences of two scales make exact factors. Natural logarithms appear only at the end.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.symbolic.semirings.semiring import Array, Namespace, accumulate

_LOG_2 = math.log(2.0)
_LOG_2_HIGH, _LOG_2_LOW = 355.0 / 512.0, -2.1219444005469058e-4
"""The logarithm of two in nine bits, and the remainder: together they have more bits than one float."""


def smallest_normal(array: Array) -> float:
    """The smallest normal number of the dtype of an array; of complex ones four times as large.

    A product of complex numbers is the sum of four products of reals, each of which may underflow.
    """
    kind = str(array.dtype)
    return float(np.finfo(kind).tiny) * (4.0 if kind.startswith("complex") else 1.0)


def plus(a: Array | float, b: Array | float) -> Any:
    """The sum; adding the number 0.0 makes no new array."""
    if isinstance(a, float) and a == 0.0:
        return b
    return a if isinstance(b, float) and b == 0.0 else a + b


def largest(xp: Namespace, arrays: Sequence[Array | float]) -> Any:
    """The largest of arrays and Python numbers, entry by entry."""
    numbers, only_arrays = _numbers_and_arrays(arrays)
    result = accumulate(xp.maximum, only_arrays) if only_arrays else max(numbers)
    return xp.clip(result, max(numbers), math.inf) if only_arrays and numbers else result


def least(xp: Namespace, arrays: Sequence[Array | float]) -> Any:
    """The least of arrays and Python numbers, entry by entry."""
    numbers, only_arrays = _numbers_and_arrays(arrays)
    result = accumulate(xp.minimum, only_arrays) if only_arrays else min(numbers)
    return xp.clip(result, -math.inf, min(numbers)) if only_arrays and numbers else result


def _numbers_and_arrays(arrays: Sequence[Array | float]) -> tuple[list[float], list[Any]]:
    """The Python numbers, and the arrays."""
    return [array for array in arrays if isinstance(array, float)], [
        array for array in arrays if not isinstance(array, float)
    ]


def of_logs(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Mantissas of numbers with the logarithms `x`, and the exponent of each row, which has no gradient.

    The largest mantissa of a row is at most 1. It is between 1/3 and 3/4 unless the exponent is so large that the dtype
    does not hold all whole numbers of its size.

    Shapes: x (F, B, K), results (F, B, K) and (F, B, 1).
    """
    limit = float(np.finfo(str(x.dtype)).max) / 2.0  # the exponent is finite, so rows of zeros and infinities stay so
    top = xp.clip(xp.stop_gradient(xp.max(x, axis=-1, keepdims=True)), -limit, limit)
    exponent = xp.ceil(top * (1.0 / _LOG_2) + 0.5)  # the error of the product is below a half
    # a product by few bits is exact, so that rows keep their ratios to each other
    remainder = xp.clip((top - exponent * _LOG_2_HIGH) - exponent * _LOG_2_LOW, -1.25, 0.0)
    return xp.exp((x - top) + remainder), exponent


def times_power(xp: Namespace, mantissa: Array, exponent: Array | float) -> Array:
    """Mantissas times two to the power of an exponent, exactly where the results are normal numbers."""
    return mantissa if isinstance(exponent, float) and exponent == 0.0 else mantissa * xp.exp2(exponent)


def natural(exponent: Array | float) -> Any:
    """The logarithm of two to the power of an exponent."""
    return exponent * _LOG_2
