"""Distinct cells of a column with their counts, in memory that does not grow.

If there are more than `MOST` of them, those whose hashes are smallest are kept: a random sample of the distinct cells.
Their counts are exact, since the hash below which cells are kept only falls. The sample does not depend on the order of
the rows, nor on how they are divided among processes.

Source: Z. Bar-Yossef, T. Jayram, R. Kumar, D. Sivakumar, L. Trevisan, "Counting distinct elements in a data stream",
RANDOM 2002.

>>> cells = DistinctCells()
>>> cells.add(pa.array(["cat", "dog", "cat"]))
>>> cells.counts, cells.has_all
({'cat': 2, 'dog': 1}, True)
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from plica.data.arrow_cells import python_cells
from plica.data.encoding import with_codes
from plica.data.hashes import mixed
from plica.files.rows.batch import Array

MOST = 4096
_ABOVE_ALL = 2**64  # no hash is as large


class DistinctCells:
    """Distinct cells of one type.

    Attributes:
        counts: Cells as Python has them, in the order in which they came, with the number of each: all, or a sample.
        bound: The hash below which cells are kept.
    """

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}
        self.bound = _ABOVE_ALL
        self._hashes: dict[Any, int] = {}

    @property
    def has_all(self) -> bool:
        """Whether all distinct cells are kept."""
        return self.bound == _ABOVE_ALL

    @property
    def number(self) -> float:
        """How many distinct cells there are, estimated if not all are kept."""
        return len(self.counts) * _ABOVE_ALL / self.bound

    def add(self, present: Any) -> None:
        """Count some cells, a `pyarrow.Array` without nulls and NaN."""
        if not self.has_all and _is_hashed_at_once(present.type):  # most of many cells are left out before all else
            present = present.filter(pa.array(_hashes(present) < np.uint64(self.bound)))
        codes = with_codes(present)
        counts = np.bincount(codes.indices.to_numpy(), minlength=len(codes.dictionary))
        used = np.flatnonzero(counts)
        values = codes.dictionary.take(pa.array(used))
        hashes = _hashes(values)
        sampled = np.flatnonzero(hashes < np.uint64(min(self.bound, _ABOVE_ALL - 1)))
        cells = python_cells(values.take(pa.array(sampled)))
        for cell, count, hash_ in zip(cells, counts[used[sampled]].tolist(), hashes[sampled].tolist(), strict=True):
            self.counts[cell] = self.counts.get(cell, 0) + count
            self._hashes[cell] = hash_
        if len(self.counts) > 2 * MOST:
            self._prune()

    def merged(self, other: DistinctCells) -> DistinctCells:
        """The cells of both, those of this one first."""
        result = DistinctCells()
        result.bound = min(self.bound, other.bound)
        result._hashes = {**self._hashes, **other._hashes}
        result.counts = dict(self.counts)
        for cell, count in other.counts.items():
            result.counts[cell] = result.counts.get(cell, 0) + count
        result._prune()
        return result

    def _prune(self) -> None:
        if len(self.counts) > MOST:
            self.bound = min(self.bound, sorted(self._hashes.values())[MOST])
        if not self.has_all:
            self.counts = {cell: count for cell, count in self.counts.items() if self._hashes[cell] < self.bound}
            self._hashes = {cell: self._hashes[cell] for cell in self.counts}


def _is_hashed_at_once(kind: Any) -> bool:
    """Whether hashes of cells of a type are operations on whole arrays."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _hashes(values: Any) -> Array:
    """Hashes of 64 bits, equal for equal values in every process, and below the largest number of 64 bits."""
    kind = values.type
    if pa.types.is_floating(kind):
        bits = (values.to_numpy().astype(np.float64) + 0.0).view(np.uint64)  # no minus zero, which equals zero
    elif pa.types.is_integer(kind):
        bits = values.to_numpy().astype(np.uint64)
    elif pa.types.is_temporal(kind):
        bits = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy().astype(np.uint64)
    else:
        bits = np.asarray([zlib.crc32(str(cell).encode()) for cell in python_cells(values)], dtype=np.uint64)
    return np.minimum(mixed(bits), np.uint64(_ABOVE_ALL - 2))
