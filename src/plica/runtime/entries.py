"""How an entry is asked: its rows in pieces, and those that are not proven once more by its way out."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from plica.errors import NativeFileError
from plica.runtime.arrays import Array
from plica.runtime.manifest import ArrayType, Entry, Manifest
from plica.runtime.sessions import Session, Tensors

Sessions = Callable[[Entry, Mapping[str, int]], AbstractContextManager[Session]]
Axes = tuple[int | None, ...]  # of rows, in each array; None where it has none


def answer(
    sessions: Sessions, manifest: Manifest, entry: Entry, given: list[Array], sizes: Mapping[str, int], tensors: Tensors
) -> list[Array]:
    """The results of an entry that callers see, in memory of their own.

    Args:
        sessions: What runs the code, of each entry that is asked.
        manifest: Where ways out are found.
        entry: What is asked.
        given: Its arguments and draws.
        sizes: The symbols of the call.
        tensors: The constants, the same for every piece and for the way out.
    """
    total = 0 if entry.rows is None else sizes[entry.rows.symbol]
    chunk = max(total, 1) if entry.rows is None else entry.rows.chunk or max(total, 1)
    if entry.rows is None or (total <= chunk and entry.way_out is None):  # one piece, and no other
        with sessions(entry, sizes) as session:
            found = session.call(entry.function, given, entry.results, entry.constants, tensors)
            for array, one in zip(found, entry.results, strict=True):
                _check(entry, array, _known(one, array.shape, sizes))
            return [array.copy() for array in found]
    rows = entry.rows.symbol
    inward = _axes((*entry.arguments, *entry.draws), rows)
    outward = _axes(entry.shown, rows)
    results: list[Array] = []
    open_rows: list[Array] = []
    with sessions(entry, sizes) as session:
        for start in range(0, max(total, 1), chunk):  # once for no rows: the results have shapes all the same
            piece = slice(start, min(start + chunk, total))
            cut = [_part(array, axis, piece) for array, axis in zip(given, inward, strict=True)]
            found = session.call(entry.function, cut, entry.results, entry.constants, tensors)
            if entry.way_out is not None:
                place = [one.name for one in entry.results].index(entry.way_out.proven)
                open_rows.append(start + np.flatnonzero(~found.pop(place)))
            if not results:
                results = [_results(array, axis, total) for array, axis in zip(found, outward, strict=True)]
            for whole, array, axis in zip(results, found, outward, strict=True):
                part = _part(whole, axis, piece)
                _check(entry, array, part.shape)
                part[...] = array
    if entry.way_out is not None and (which := np.concatenate(open_rows)).size:
        again = [array if axis is None else array.take(which, axis) for array, axis in zip(given, inward, strict=True)]
        following = manifest.entry(entry.way_out.entry)
        found = answer(sessions, manifest, following, again, {**sizes, rows: which.size}, tensors)
        for whole, array, axis in zip(results, found, outward, strict=True):
            whole[(slice(None),) * (axis or 0) + (which,)] = array
    return results


def _axes(types: tuple[ArrayType, ...], rows: str) -> Axes:
    return tuple(one.shape.index(rows) if rows in one.shape else None for one in types)


def _part(array: Array, axis: int | None, piece: slice) -> Array:
    return array if axis is None else array[(slice(None),) * axis + (piece,)]


def _known(one: ArrayType, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a result, with sizes of the call where its type has their symbols."""
    axes = zip(one.shape, shape, strict=True)
    return tuple(sizes.get(size, found) if isinstance(size, str) else size for size, found in axes)


def _check(entry: Entry, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise NativeFileError(f"{entry.name}: its code gives {array.shape}, expected {shape}")


def _results(first: Array, axis: int | None, total: int) -> Array:
    """Room for all rows of a result whose first piece is there."""
    assert axis is not None  # `checks.py` demands it of results
    return np.empty((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)
