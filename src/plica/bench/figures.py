"""Figures of a completion: how wrong, how right, how probable, how often within an interval.

Columns are measured by `plica.tables.measures`. A table's error is the mean over its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plica.bench.completions import Completion
from plica.bench.sets import Array, MixedTable
from plica.tables.measures import HIGH, LOW, is_covered, relative_error, right_share


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the hidden cells of one table; None where a table or a method has none.

    Attributes:
        error: Of numbers, over the error of the mean.
        right: The share of right categories, averaged over columns.
        log_numbers: The mean log-likelihood of hidden numbers in nats: real ones in standard deviations of their
            columns, whole ones in units.
        log_categories: The mean log-likelihood of hidden categories in nats.
        covered: The share of hidden numbers within intervals of 90 percent.
    """

    error: float | None
    right: float | None
    log_numbers: float | None
    log_categories: float | None
    covered: float | None


def measure(table: MixedTable, hidden: Array, completion: Completion) -> Figures:
    """The figures of a completion of a table.

    Args:
        table: The table with all its cells.
        hidden: `(N, D)` which cells the method has not seen; all of them are known.
        completion: What the method says of them.
    """
    filled = completion.filled()
    errors, rights, covered = [], [], []
    logs: dict[bool, list[Array]] = {False: [], True: []}
    for position, column in enumerate(table.columns):
        rows = np.flatnonzero(hidden[:, position])
        if not len(rows):
            continue
        values, answers = table.values[rows, position], filled[rows, position]
        known = table.values[~hidden[:, position], position]
        log_probability = completion.log_probability(position, rows, values)
        if column.categories:
            rights.append(right_share(answers, values))
        else:
            errors.append(relative_error(answers, values, known))
            interval = completion.interval(position, rows, LOW, HIGH)
            if interval is not None:
                covered.append(is_covered(values, interval))
            if log_probability is not None and not table.is_whole(position):
                stddev = float(np.nanstd(known))
                log_probability = log_probability + np.log(stddev if stddev > 0 else 1.0)
        if log_probability is not None:
            logs[bool(column.categories)].append(log_probability)
    return Figures(
        _mean([error for error in errors if error is not None]),
        _mean(rights),
        _mean_of_all(logs[False]),
        _mean_of_all(logs[True]),
        _mean_of_all(covered),
    )


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _mean_of_all(parts: list[Array]) -> float | None:
    return float(np.concatenate(parts).mean()) if parts else None
