"""Reading folds: from fold indices to explicit equations, views wherever an order allows it.

Folds that lie evenly spaced in one array are one run, read as a view: a slice, or a broadcast where all are the same.
Several runs are joined by a concatenation, and scattered folds by one gather.

>>> list(runs([(0, 0), (0, 1), (0, 2), (1, 5), (1, 5)]))
[FoldRun(array=0, start=0, step=1, count=3), FoldRun(array=1, start=5, step=0, count=2)]
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plica.graph.fold import FoldIndex
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer

MAX_RUNS = 16  # joining more views than this costs more calls than one gather costs time


@dataclass(frozen=True, slots=True)
class FoldRun:
    """Evenly spaced folds of one array."""

    array: int
    start: int
    step: int
    count: int


def runs(folds: Sequence[FoldIndex]) -> Iterator[FoldRun]:
    """Folds split into the longest runs, from the front."""
    begin = 0
    while begin < len(folds):
        array, start = folds[begin]
        step, end = 1, begin + 1
        if end < len(folds) and folds[end][0] == array and folds[end][1] >= start:
            step = folds[end][1] - start
            while end < len(folds) and folds[end] == (array, start + step * (end - begin)):
                end += 1
        yield FoldRun(array, start, step, end - begin)
        begin = end


def read_folds(
    arrays: Sequence[Tracer] | Mapping[int, Tracer], folds: Sequence[FoldIndex], index: Callable[[np.ndarray], Tracer]
) -> Tracer:
    """The given folds, in order, as one array `(len(folds), ...)`.

    Args:
        arrays: Arrays with a leading fold axis, by number.
        folds: Pairs (array, fold).
        index: Captures an array of indices.
    """
    all_runs = list(runs(folds))
    if len(all_runs) <= MAX_RUNS:
        return xp.concat([_view(arrays[run.array], run) for run in all_runs])
    used = sorted({array for array, _ in folds})
    offsets = dict(zip(used, np.cumsum([0, *(int(arrays[number].dims[0]) for number in used)]), strict=False))
    flat = np.asarray([offsets[array] + fold for array, fold in folds], dtype=np.int64)
    return xp.take(xp.concat([arrays[number] for number in used]), index(flat), axis=0, nonnegative=True)


def _view(array: Tracer, run: FoldRun) -> Tracer:
    if run.step == 0:
        return xp.broadcast_to(array[run.start : run.start + 1], (run.count, *array.dims[1:]))
    return array[run.start : run.start + run.step * (run.count - 1) + 1 : run.step]
