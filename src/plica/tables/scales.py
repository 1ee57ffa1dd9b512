"""Which columns of numbers are modelled on a logarithmic scale.

>>> prices = np.exp(np.linspace(0.0, 4.0, 50))
>>> is_more_likely_in_logs(prices), is_more_likely_in_logs(np.log(prices) + 1.0)
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plica.files.kinds import TableColumn
from plica.files.tables import Array
from plica.symbolic.layers.univariate import LEAST

_KINDS = ("real", "whole", "count")
_LEAST_WHOLE = 10  # smaller whole numbers are coarse on a logarithmic scale
_MOST_EQUAL = 10  # different values, of which a logarithm changes little
_LEAST_GAIN = 0.02  # nats for each known cell


def on_log_scale(columns: Sequence[TableColumn], rows: Array) -> list[bool]:
    """Whether the logarithm of each column is to be modelled, by the rows that are learned from.

    The column has real numbers, or whole ones of at least 10, all of them above 0 and counted from 0; it has more than
    ten different values, and `is_more_likely_in_logs`. Dates and times are never on a logarithmic scale.

    Args:
        columns: The V columns.
        rows: `(N, V)` the numbers of these columns; NaN is missing.
    """
    return [_is_log(column, cells) for column, cells in zip(columns, rows.T, strict=True)]


def _is_log(column: TableColumn, cells: Array) -> bool:
    known = cells[~np.isnan(cells)].astype(np.float64)
    if column.kind not in _KINDS or column.origin or len(np.unique(known)) <= _MOST_EQUAL:
        return False
    # a model in float32 takes smaller numbers than `LEAST` for 0
    least = LEAST if column.kind == "real" else _LEAST_WHOLE
    return bool(least <= known.min() and known.max() < np.inf) and is_more_likely_in_logs(known)


def is_more_likely_in_logs(values: Array) -> bool:
    """Whether positive numbers `(N,)` are more likely by 0.02 nats each if their logarithm is normal than if they are.

    The logarithm of a normal density, at its best mean and standard deviation s, is -log s for each value but for a
    constant; that of the log-normal one is -log s' - m with the mean m and the deviation s' of logarithms.

    Source: Box and Cox, "An analysis of transformations", 1964.
    """
    logs = np.log(values)
    spread, spread_of_logs = values.std(), logs.std()
    if not (spread > 0 and spread_of_logs > 0 and np.isfinite(spread)):
        return False
    return bool(np.log(spread) - np.log(spread_of_logs) - logs.mean() > _LEAST_GAIN)
