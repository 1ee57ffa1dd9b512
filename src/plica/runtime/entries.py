"""Calls an entry on its rows in pieces, which threads share, and its fallback on the rows whose bound fails."""

from collections.abc import Mapping

import numpy as np

from plica.runtime.arrays import Array
from plica.runtime.library_code import LibraryCode
from plica.runtime.manifest import ArrayType, Entry, Manifest, Rows
from plica.runtime.tensors import Tensors
from plica.runtime.threads import num_threads, share

Axes = tuple[int | None, ...]  # the axis of rows in each array; None for an array without rows

TILE = 8
"""Pieces begin at multiples of this number of rows, since code computes tiles of as many rows."""


def answer(
    code: LibraryCode,
    manifest: Manifest,
    entry: Entry,
    inputs: list[Array],
    sizes: Mapping[str, int],
    tensors: Tensors,
    threads: int | None = None,
) -> list[Array]:
    """The results of an entry that callers see, in new memory.

    Args:
        code: The functions.
        manifest: The manifest, which has the fallbacks.
        entry: The entry to call.
        inputs: Its arguments and draws.
        sizes: The symbols of the call.
        tensors: The constants at the time of the call; all pieces and the fallback read these.
        threads: The most threads that share the call; None for one for each processor.
    """
    results = _results(code, entry, inputs, sizes, tensors, threads)
    if entry.fallback is None or entry.rows is None:
        return results
    bound = results.pop([result.name for result in entry.results].index(entry.fallback.bound))
    failed = np.flatnonzero(~bound)
    if failed.size:
        rows = entry.rows.symbol
        row_axes_of_inputs = _axes((*entry.arguments, *entry.draws), rows)
        failed_inputs = [
            array if axis is None else array.take(failed, axis)
            for array, axis in zip(inputs, row_axes_of_inputs, strict=True)
        ]
        fallback = manifest.entry(entry.fallback.entry)
        exact = answer(code, manifest, fallback, failed_inputs, {**sizes, rows: failed.size}, tensors, threads)
        for result, array, axis in zip(results, exact, _axes(entry.shown, rows), strict=True):
            result[(slice(None),) * (axis or 0) + (failed,)] = array
    return results


def _results(
    code: LibraryCode,
    entry: Entry,
    inputs: list[Array],
    sizes: Mapping[str, int],
    tensors: Tensors,
    most: int | None,
) -> list[Array]:
    """All results of an entry, its bound among them."""

    def call(arrays: list[Array]) -> list[Array]:
        return code.call(entry.function, arrays, entry.constants, tensors)

    if entry.rows is None:
        return call(inputs)
    rows = entry.rows.symbol
    total = sizes[rows]
    threads = _threads(entry.rows, total, num_threads() if most is None else most)
    pieces = _pieces(total, entry.rows.chunk or max(total, 1), threads)
    if len(pieces) == 1:
        return call(inputs)
    row_axes_of_inputs = _axes((*entry.arguments, *entry.draws), rows)

    def call_piece(piece: slice) -> list[Array]:
        return call([_part(array, axis, piece) for array, axis in zip(inputs, row_axes_of_inputs, strict=True)])

    outputs = share(call_piece, pieces, threads)
    row_axes_of_results = _axes(entry.results, rows)
    return [
        np.concatenate(parts, axis) for parts, axis in zip(zip(*outputs, strict=True), row_axes_of_results, strict=True)
    ]


def _threads(rows: Rows, total: int, most: int) -> int:
    """How many of `most` threads share a call: one up to `rows.alone` rows; beyond, each has at least half of them."""
    return max(min(most, 2 * total // (rows.alone + 1)), 1)


def _pieces(total: int, most: int, threads: int) -> list[slice]:
    """Rows in pieces of about the same size; each thread gets the same number of pieces.

    Args:
        total: How many rows there are; 0 rows are one piece, which gives the shapes of the results.
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
