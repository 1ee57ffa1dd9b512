"""Measures of answers for hidden cells of one column, against the values that these cells have.

>>> relative_error(np.array([1.0, 4.0]), np.array([2.0, 4.0]), known=np.array([2.0, 4.0, np.nan]))
0.7071067811865476
>>> right_share(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]))
0.75
>>> is_covered(np.array([1.0, 5.0]), (np.array([0.0, 0.0]), np.array([1.0, 4.0])))
array([ True, False])
"""

from __future__ import annotations

import numpy as np

from plica.files.tables import Array

LOW, HIGH = 0.05, 0.95  # the quantiles between which 90 percent of numbers are


def relative_error(answers: Array, values: Array, known: Array) -> float | None:
    """The root of the mean square error of numbers, over that of the mean of known cells.

    Args:
        answers: `(R,)` what hidden cells are said to be, in the dtype of the model.
        values: `(R,)` what they are, with R of at least 1.
        known: `(K,)` other cells of the column; NaN is missing.

    Returns:
        The error; None if no cell is known, or if all values equal the mean but for rounding.
    """
    if np.isnan(known).all():
        return None
    scale = np.abs(values).max() or 1.0  # else squares of large numbers overflow
    deviation = _root_mean_square((values - np.nanmean(known)) / scale)
    is_rounding = deviation <= np.finfo(answers.dtype).eps
    return None if is_rounding else _root_mean_square((answers - values) / scale) / deviation


def _root_mean_square(differences: Array) -> float:
    return float(np.sqrt((differences**2).mean()))


def right_share(answers: Array, values: Array) -> float:
    """The share of categories `(R,)` that are answered with their values `(R,)`."""
    return float((answers == values).mean())


def is_covered(values: Array, interval: tuple[Array, Array]) -> Array:
    """`(R,)`: which values lie within their interval, whose ends are `(R,)` each and belong to it."""
    low, high = interval
    return (low <= values) & (values <= high)
