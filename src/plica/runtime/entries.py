"""Calls an entry on its rows in pieces, and its fallback on the rows whose bound fails."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from plica.errors import NativeFileError
from plica.runtime.arrays import Array
from plica.runtime.code import Session
from plica.runtime.manifest import ArrayType, Entry, Manifest
from plica.runtime.tensors import Tensors

Sessions = Callable[[Entry, Mapping[str, int]], AbstractContextManager[Session]]
Axes = tuple[int | None, ...]  # of rows, in each array; None where it has none


def answer(
    sessions: Sessions,
    manifest: Manifest,
    entry: Entry,
    inputs: list[Array],
    sizes: Mapping[str, int],
    tensors: Tensors,
) -> list[Array]:
    """The results of an entry that callers see, in new memory.

    Args:
        sessions: Gives a session for each entry that is called.
        manifest: The manifest, which has the fallbacks.
        entry: The entry to call.
        inputs: Its arguments and draws.
        sizes: The symbols of the call.
        tensors: The constants, the same for every piece and for the fallback.
    """
    total = 0 if entry.rows is None else sizes[entry.rows.symbol]
    chunk = max(total, 1) if entry.rows is None else entry.rows.chunk or max(total, 1)
    if entry.rows is None or (total <= chunk and entry.fallback is None):  # a single call answers
        with sessions(entry, sizes) as session:
            outputs = session.call(entry.function, inputs, entry.results, entry.constants, tensors)
            for array, result in zip(outputs, entry.results, strict=True):
                _check(entry, array, _known(result, array.shape, sizes))
            return outputs if session.gives_own else [array.copy() for array in outputs]
    rows = entry.rows.symbol
    inward = _axes((*entry.arguments, *entry.draws), rows)
    outward = _axes(entry.shown, rows)
    results: list[Array] = []
    open_rows: list[Array] = []
    with sessions(entry, sizes) as session:
        for start in range(0, max(total, 1), chunk):  # once for no rows: the results have shapes all the same
            piece = slice(start, min(start + chunk, total))
            cut = [_part(array, axis, piece) for array, axis in zip(inputs, inward, strict=True)]
            outputs = session.call(entry.function, cut, entry.results, entry.constants, tensors)
            if entry.fallback is not None:
                bound = [result.name for result in entry.results].index(entry.fallback.bound)
                open_rows.append(start + np.flatnonzero(~outputs.pop(bound)))
            if not results:
                results = [_results(array, axis, total) for array, axis in zip(outputs, outward, strict=True)]
            for joined, array, axis in zip(results, outputs, outward, strict=True):
                part = _part(joined, axis, piece)
                _check(entry, array, part.shape)
                part[...] = array
    if entry.fallback is not None and (failed := np.concatenate(open_rows)).size:
        again = [
            array if axis is None else array.take(failed, axis) for array, axis in zip(inputs, inward, strict=True)
        ]
        fallback = manifest.entry(entry.fallback.entry)
        outputs = answer(sessions, manifest, fallback, again, {**sizes, rows: failed.size}, tensors)
        for joined, array, axis in zip(results, outputs, outward, strict=True):
            joined[(slice(None),) * (axis or 0) + (failed,)] = array
    return results


def _axes(types: tuple[ArrayType, ...], rows: str) -> Axes:
    return tuple(array.shape.index(rows) if rows in array.shape else None for array in types)


def _part(array: Array, axis: int | None, piece: slice) -> Array:
    return array if axis is None else array[(slice(None),) * axis + (piece,)]


def _known(result: ArrayType, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The expected shape of a result: symbols of the call have their values, other sizes are as they came."""
    axes = zip(result.shape, shape, strict=True)
    return tuple(sizes.get(size, actual) if isinstance(size, str) else size for size, actual in axes)


def _check(entry: Entry, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise NativeFileError(f"{entry.name}: its code gives {array.shape}, expected {shape}")


def _results(first: Array, axis: int | None, total: int) -> Array:
    """An empty array for all rows of a result, shaped after its first piece."""
    assert axis is not None  # `checks.py` demands it of results
    return np.empty((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)
