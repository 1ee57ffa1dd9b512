"""Calls an entry on its rows in pieces, which threads share, and its fallback on the rows whose bound fails."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from plica.errors import NativeFileError
from plica.runtime.arrays import Array
from plica.runtime.code import Session
from plica.runtime.manifest import ArrayType, Entry, Manifest, Rows
from plica.runtime.tensors import Tensors
from plica.runtime.threads import num_threads, share

Sessions = Callable[[Entry, Mapping[str, int]], AbstractContextManager[Session]]
Axes = tuple[int | None, ...]  # of rows, in each array; None where it has none

TILE = 8
"""Pieces begin at multiples of so many rows: code computes as many together."""


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
    with sessions(entry, sizes) as session:
        results = _results(session, entry, inputs, sizes, tensors)
    if entry.fallback is None or entry.rows is None:
        return results
    bound = results.pop([result.name for result in entry.results].index(entry.fallback.bound))
    failed = np.flatnonzero(~bound)
    if failed.size:
        rows = entry.rows.symbol
        inward = _axes((*entry.arguments, *entry.draws), rows)
        again = [
            array if axis is None else array.take(failed, axis) for array, axis in zip(inputs, inward, strict=True)
        ]
        fallback = manifest.entry(entry.fallback.entry)
        exact = answer(sessions, manifest, fallback, again, {**sizes, rows: failed.size}, tensors)
        for joined, array, axis in zip(results, exact, _axes(entry.shown, rows), strict=True):
            joined[(slice(None),) * (axis or 0) + (failed,)] = array
    return results


def _results(
    session: Session, entry: Entry, inputs: list[Array], sizes: Mapping[str, int], tensors: Tensors
) -> list[Array]:
    """All results of an entry, its bound among them."""

    def call(arrays: list[Array], sizes: Mapping[str, int]) -> list[Array]:
        outputs = session.call(entry.function, arrays, entry.results, entry.constants, tensors)
        for array, result in zip(outputs, entry.results, strict=True):
            _check(entry, array, _known(result, array.shape, sizes))
        return outputs if session.gives_own else [array.copy() for array in outputs]

    if entry.rows is None:
        return call(inputs, sizes)
    rows = entry.rows.symbol
    total = sizes[rows]
    threads = _threads(entry.rows, total) if session.gives_own else 1
    pieces = _pieces(total, entry.rows.chunk or max(total, 1), threads)
    if len(pieces) == 1:
        return call(inputs, sizes)
    inward = _axes((*entry.arguments, *entry.draws), rows)

    def call_piece(piece: slice) -> list[Array]:
        cut = [_part(array, axis, piece) for array, axis in zip(inputs, inward, strict=True)]
        return call(cut, {**sizes, rows: piece.stop - piece.start})

    outputs = share(call_piece, pieces, threads)
    outward = _axes(entry.results, rows)
    return [np.concatenate(parts, axis) for parts, axis in zip(zip(*outputs, strict=True), outward, strict=True)]


def _threads(rows: Rows, total: int) -> int:
    """How many threads share a call: one up to `rows.alone` rows, and each has half as many at least."""
    return max(min(num_threads(), 2 * total // (rows.alone + 1)), 1)


def _pieces(total: int, most: int, threads: int) -> list[slice]:
    """Rows in pieces of about the same size, as many for each thread.

    Args:
        total: How many rows there are; of none there is one piece, since results have shapes all the same.
        most: How many rows a piece has at most.
        threads: How many threads compute them.
    """
    count = -(-total // (most * threads)) * threads
    size = min(-(-total // (max(count, 1) * TILE)) * TILE, most) if threads > 1 else most
    return [slice(start, min(start + size, total)) for start in range(0, max(total, 1), max(size, 1))]


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
