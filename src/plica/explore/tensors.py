"""Parameter tensors as numbers that a page shows: range, mean, deviation and a histogram.

>>> import numpy as np
>>> print(summary(np.asarray([[0.0, 0.5], [1.0, 1.0]])))
{'range': [0.0, 1.0], 'mean': 0.625, 'deviation': 0.41458, 'counts': [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2]}
"""

import cmath
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BINS = 16
_DIGITS = 5
_VALUE_DIGITS = 7


def summary(tensor: NDArray[Any]) -> dict[str, Any] | None:
    """The range, mean, standard deviation and histogram of the finite entries of a tensor.

    `counts` are of bins of equal width over the range. None where no entry is finite. Of complex entries these are the
    numbers of their sizes, and `sizes` is true.
    """
    is_complex = np.iscomplexobj(tensor)
    values = np.abs(tensor) if is_complex else tensor
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    largest = float(np.abs(values).max()) or 1.0
    scaled = values / largest  # whose squares and sums neither overflow nor underflow
    low, high = float(scaled.min()), float(scaled.max())
    bins = np.minimum((scaled - low) / ((high - low) or 1.0) * _BINS, _BINS - 1).astype(np.int64)
    counts = np.bincount(bins, minlength=_BINS)
    return {
        "range": [short(float(values.min())), short(float(values.max()))],
        "mean": short(largest * float(scaled.mean())),
        "deviation": short(largest * float(scaled.std())),
        "counts": counts.tolist(),
        **({"sizes": True} if is_complex else {}),
    }


def short(number: float) -> float:
    """A number with five significant digits, all of them where it would be infinite otherwise.

    >>> short(-12.3456789), short(1e-9 / 3), short(1.797693e308)
    (-12.346, 3.3333e-10, 1.797693e+308)
    """
    rounded = float(f"{number:.{_DIGITS}g}")
    return rounded if math.isfinite(rounded) else number


def data_entries(row: NDArray[Any]) -> list[float | str | None]:
    """A row of data as JSON has it: None where the value is missing.

    >>> data_entries(np.asarray([-1.23456789, -np.inf, np.nan]))
    [-1.23456789, '-inf', None]
    """
    return [None if math.isnan(value) else _entry(value) for value in row.tolist()]


def value_entries(values: NDArray[Any]) -> list[float | str | None]:
    """Values of units as JSON has them, with seven digits: None for minus infinity, and text for complex numbers.

    >>> value_entries(np.asarray([-1.23456789, -np.inf, np.nan]))
    [-1.234568, None, 'nan']
    >>> value_entries(np.asarray([1 + 0.5j, 2 + 0j]))
    ['1+0.5i', 2.0]
    """
    return [_value_entry(value) for value in values.tolist()]


def _value_entry(value: complex) -> float | str | None:
    if value.real == -math.inf:
        return None
    if value.imag and not cmath.isnan(value):
        return f"{value.real:.{_VALUE_DIGITS}g}{value.imag:+.{_VALUE_DIGITS}g}i"
    return _entry(float(f"{value.real:.{_VALUE_DIGITS}g}") if math.isfinite(value.real) else value.real)


def _entry(value: float) -> float | str:
    """A number, or its name where JSON has no such number."""
    return value if math.isfinite(value) else str(value)
