"""Parameter tensors as numbers that a page shows: range, mean, deviation and a histogram.

>>> import numpy as np
>>> print(summary(np.asarray([[0.0, 0.5], [1.0, 1.0]])))
{'range': [0.0, 1.0], 'mean': 0.625, 'deviation': 0.41458, 'counts': [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2]}
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BINS = 16
_DIGITS = 5


def summary(tensor: NDArray[Any]) -> dict[str, Any] | None:
    """The range, mean, standard deviation and histogram of the finite entries of a tensor; of complex ones, of sizes.

    `counts` are of bins of equal width over the range. None where no entry is finite.
    """
    values = np.abs(tensor) if np.iscomplexobj(tensor) else tensor
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    bins = np.minimum((values - low) / ((high - low) or 1.0) * _BINS, _BINS - 1).astype(np.int64)
    counts = np.bincount(bins, minlength=_BINS)
    return {
        "range": [short(low), short(high)],
        "mean": short(float(values.mean())),
        "deviation": short(float(values.std())),
        "counts": counts.tolist(),
    }


def short(number: float) -> float:
    """A number with five significant digits.

    >>> short(-12.3456789), short(1e-9 / 3)
    (-12.346, 3.3333e-10)
    """
    return float(f"{number:.{_DIGITS}g}")


def finite(values: NDArray[Any]) -> list[float | None]:
    """Numbers as JSON has them, with seven digits: None for minus infinity, and for a value that is missing.

    >>> finite(np.asarray([-1.23456789, -np.inf, np.nan]))
    [-1.234568, None, None]
    """
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in np.real(values).tolist()]
