"""`plica bench tables`: methods that fill in tables of packages, cells of which are hidden at random.

The protocol: of all rows a share of the known cells is hidden, each alike (missing completely at random). A method
learns the table with these holes, and says what they held. Masks depend on the seed and the share alone, so that all
methods see the same holes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plica.bench.completions import Method
from plica.bench.figures import Figures, measure
from plica.bench.imputers import Imputer, MeanMode, MultipleImputer, drawn, forest, iterative, nearest
from plica.bench.plica_method import PlicaTables
from plica.bench.sets import Array, MixedTable

SHARES = (0.1, 0.2, 0.5, 0.8)
_LEAST_KNOWN = 2  # cells of each column that are never hidden

METHODS: Mapping[str, Method] = {
    "plica": PlicaTables(),
    "mean": MeanMode(),
    "nearest": Imputer(nearest),
    "iterative": Imputer(iterative),
    "draws": MultipleImputer(drawn),
    "forest": Imputer(forest),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of one method on one table with holes.

    Attributes:
        table: The name of the table.
        share: The share of hidden cells.
        seed: The seed of the mask, and of the method.
        method: The name of the method.
        figures: Its figures; None if it failed.
        seconds: Time to learn.
        seconds_answering: Time of all answers.
        failure: The message of the error that ended it; empty if none did.
    """

    table: str
    share: float
    seed: int
    method: str
    figures: Figures | None
    seconds: float
    seconds_answering: float
    failure: str = ""


def hide(table: MixedTable, share: float, seed: int) -> Array:
    """`(N, D)`: which cells are hidden; two known cells of each column stay."""
    rng = np.random.default_rng([seed, round(share * 1000)])
    known = ~np.isnan(table.values)
    draws = np.where(known, rng.random(table.values.shape), np.inf)
    least = np.sort(draws, axis=0)
    last = known.sum(axis=0) - _LEAST_KNOWN  # the first draw that may not be hidden
    limits = np.where(last > 0, least[np.maximum(last, 0), np.arange(len(last))], 0.0)
    result: Array = (draws < share) & (draws < limits)
    return result


def trials(
    tables: Mapping[str, MixedTable],
    methods: Mapping[str, Method],
    shares: Sequence[float],
    seeds: Sequence[int],
) -> Iterator[Trial]:
    """The figures of all methods on all tables, as they come."""
    for name, table in tables.items():
        for share in shares:
            for seed in seeds:
                hidden = hide(table, share, seed)
                holed = table.replaced(np.where(hidden, np.nan, table.values))
                for method_name, method in methods.items():
                    yield _trial((name, share, seed, method_name), method, table, hidden, holed)


def _trial(
    key: tuple[str, float, int, str],
    method: Method,
    table: MixedTable,
    hidden: Array,
    holed: MixedTable,
) -> Trial:
    """One trial; a method that raises has failed, and the others go on."""
    start = time.perf_counter()
    try:
        completion = method.complete(holed, key[2])
        learned = time.perf_counter()
        figures = measure(table, hidden, completion)
    except Exception as error:
        return Trial(*key, None, time.perf_counter() - start, 0.0, f"{type(error).__name__}: {error}")
    return Trial(*key, figures, learned - start, time.perf_counter() - learned)


def summary(results: Sequence[Trial], figure: str) -> str:
    """A figure as text: a line for each table and share, a column for each method; means over seeds."""
    methods = list(dict.fromkeys(trial.method for trial in results))
    lines = [f"{'table':12} holes" + "".join(f"{method:>11}" for method in methods)]
    for name, share in dict.fromkeys((trial.table, trial.share) for trial in results):
        cells = [mean_figure(results, figure, name, share, method) for method in methods]
        shown = "".join(f"{'-' if cell is None else f'{cell:.3f}':>11}" for cell in cells)
        lines.append(f"{name:12} {share:5.0%}{shown}")
    return "\n".join(lines)


def mean_figure(results: Sequence[Trial], figure: str, table: str, share: float, method: str) -> float | None:
    """The mean of a figure over seeds; None if a trial has none."""
    values = [
        None if trial.figures is None else getattr(trial.figures, figure)
        for trial in results
        if (trial.table, trial.share, trial.method) == (table, share, method)
    ]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
