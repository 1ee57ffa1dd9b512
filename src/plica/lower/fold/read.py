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
_SPARSE = 2  # of an array with this many times as many folds as are read, those are taken before arrays are joined
_FEW = 64  # folds whose copy costs no more than another call


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
    wanted: dict[int, dict[int, None]] = {number: {} for number in sorted({number for number, _ in folds})}
    for number, fold in folds:
        wanted[number][fold] = None
    place: dict[FoldIndex, int] = {}
    parts: list[Tracer] = []
    start = 0
    for number, read in wanted.items():
        array = arrays[number]
        kept: Sequence[int] = range(int(array.dims[0]))
        if len(wanted) > 1 and _SPARSE * len(read) + _FEW <= len(
            kept
        ):  # joining all of its folds would copy many for few
            kept = list(read)
            array = xp.take(array, index(np.asarray(kept, dtype=np.int64)), axis=0, nonnegative=True)
        place.update(((number, fold), start + at) for at, fold in enumerate(kept))
        parts.append(array)
        start += len(kept)
    places = [place[fold] for fold in folds]
    joined = xp.concat(parts)
    if places == list(range(start)):
        return joined
    return xp.take(joined, index(np.asarray(places, dtype=np.int64)), axis=0, nonnegative=True)


def _view(array: Tracer, run: FoldRun) -> Tracer:
    if run.step == 0:
        return xp.broadcast_to(array[run.start : run.start + 1], (run.count, *array.dims[1:]))
    return array[run.start : run.start + run.step * (run.count - 1) + 1 : run.step]
