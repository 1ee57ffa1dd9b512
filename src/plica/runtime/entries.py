"""Calls an entry on its rows in pieces, which threads share, and its fallback on the rows whose bound fails."""

from collections.abc import Mapping

import numpy as np

from plica.runtime.arrays import Array
from plica.runtime.library_code import LibraryCode
from plica.runtime.manifest import ArrayType, Entry, Manifest, Rows
from plica.runtime.tensors import Tensors
from plica.runtime.threads import num_threads, share

Axes = tuple[int | None, ...]  # of rows, in each array; None where it has none

TILE = 8
"""Pieces begin at multiples of so many rows: code computes as many together."""


def answer(
    code: LibraryCode,
    manifest: Manifest,
    entry: Entry,
    inputs: list[Array],
    sizes: Mapping[str, int],
    tensors: Tensors,
) -> list[Array]:
    """The results of an entry that callers see, in new memory.

    Args:
        code: The functions.
        manifest: The manifest, which has the fallbacks.
        entry: The entry to call.
        inputs: Its arguments and draws.
        sizes: The symbols of the call.
        tensors: The constants, the same for every piece and for the fallback.
    """
    results = _results(code, entry, inputs, sizes, tensors)
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
        exact = answer(code, manifest, fallback, again, {**sizes, rows: failed.size}, tensors)
        for joined, array, axis in zip(results, exact, _axes(entry.shown, rows), strict=True):
            joined[(slice(None),) * (axis or 0) + (failed,)] = array
    return results


def _results(
    code: LibraryCode, entry: Entry, inputs: list[Array], sizes: Mapping[str, int], tensors: Tensors
) -> list[Array]:
    """All results of an entry, its bound among them."""

    def call(arrays: list[Array]) -> list[Array]:
        return code.call(entry.function, arrays, entry.constants, tensors)

    if entry.rows is None:
        return call(inputs)
    rows = entry.rows.symbol
    total = sizes[rows]
    threads = _threads(entry.rows, total)
    pieces = _pieces(total, entry.rows.chunk or max(total, 1), threads)
    if len(pieces) == 1:
        return call(inputs)
    inward = _axes((*entry.arguments, *entry.draws), rows)

    def call_piece(piece: slice) -> list[Array]:
        return call([_part(array, axis, piece) for array, axis in zip(inputs, inward, strict=True)])

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
