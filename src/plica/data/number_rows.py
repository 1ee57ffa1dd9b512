"""Rows of a source as rows of a circuit, read again for each pass: what training learns from without holding it.

>>> import pyarrow
>>> rows = NumberRows(Rows(pyarrow.table({"x": [1.0, 2.0, 3.0], "y": [4, 5, 6]})))
>>> [batch.tolist() for batch in rows.batches(2)]
[[[1.0, 4.0], [2.0, 5.0]], [[3.0, 6.0]]]
>>> held_out, others = rows.split(0.5, seed=0)
>>> len(rows), len(held_out) + len(others)
(3, 3)
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.data.batch import Batch, NumberBatch
from plica.data.encoding import numbers
from plica.data.hashes import mixed
from plica.data.memory import giving_back
from plica.data.order import rebatched
from plica.data.rows import Rows, rows_at_once
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.files.rows.batch import Array
from plica.forks import cached_property

_FILE = np.uint64(40)  # bits of the number of a row in its file, above which that of the file is


@dataclass(frozen=True, slots=True)
class Part:
    """The rows whose hash is in an interval: about that share of all, chosen without a look at other rows.

    The hash is that of the file and of the number in it, so rows must come in the same order at each pass.

    Args:
        seed: Of the hash; hashes of different seeds are independent.
        start: The beginning of the interval, 0 or more.
        stop: The end, 1 or less, which does not belong to it.
    """

    seed: int
    start: float
    stop: float

    def holds(self, batch: Batch) -> Array:
        """Which rows of a batch it has, `(B,)`."""
        at = uniform(batch, self.seed)
        return (self.start <= at) & (at < self.stop)


def uniform(batch: Batch, seed: int) -> Array:
    """A number from 0 to below 1 for each row of a batch, which its place in the source and a seed decide."""
    files = np.asarray([group.file for group in batch.groups], np.uint64)[batch.group_of]
    start = mixed(np.asarray([seed], np.uint64))
    with np.errstate(over="ignore"):
        hashes = mixed((files << _FILE) + batch.rows.astype(np.uint64) + start)
    result: Array = (hashes >> np.uint64(11)) * 2.0**-53
    return result


@dataclass(frozen=True, slots=True)
class Contents:
    """What a pass over rows of numbers says of them.

    Args:
        num_rows: Their number.
        known: `(V,)` the cells of each column that are not missing.
        digest: A digest of the values of these rows, or of others that these are a part of.
    """

    num_rows: int
    known: Array
    digest: str


class NumberRows:
    """Rows of numbers, each pass over which reads the source anew; `len` is their number.

    Args:
        rows: The source, which can be read again and then gives the same rows in the same order.
        encoding: The columns of a model; by default all columns as they are, which must be numbers.
        parts: The rows that are in all of these; by default all.
        contents: What is known of them; by default a pass finds it when it is needed.

    Raises:
        InputError: The rows lack a column of the encoding.
    """

    def __init__(
        self,
        rows: Rows,
        encoding: Encoding | None = None,
        *,
        parts: Sequence[Part] = (),
        contents: Contents | None = None,
    ) -> None:
        if encoding is None:
            encoding = Encoding(tuple(TableColumn(name, "real") for name in rows.schema.names))
        encoding.positions(rows)
        self.rows, self.encoding, self.parts = rows, encoding, tuple(parts)
        self._known_contents = contents

    @property
    def width(self) -> int:
        """The numbers of a row."""
        return len(self.encoding.modelled)

    def __len__(self) -> int:
        if self._known_contents is None and not self.parts and self.rows.num_rows is not None:
            return self.rows.num_rows
        return self.contents.num_rows

    def batches(
        self, size: int | None = None, *, seed: int | None = None, dtype: Any = np.float64
    ) -> Generator[Array, None, None]:
        """All rows in arrays `(B, V)`, NaN where a cell is missing; a thread reads the next ones.

        Steps of training between arrays leave the heap in pieces, so free memory is given back now and then.

        Args:
            size: The rows of each array but the last; by default 8,192, or so many that they have 2^20 cells.
            seed: Of a random order, as of `Rows.batches`; None for that of the source.
            dtype: Of the arrays.

        Raises:
            PlicaError: See `plica.data.numbers`.
        """

        def prepared(batch: NumberBatch) -> NumberBatch:
            batch = self._chosen(batch)
            values = np.ascontiguousarray(batch.numbers, dtype=dtype)
            return NumberBatch(batch.groups, batch.group_of, batch.rows, values)

        rows = rows_at_once(self.width) if size is None else size
        with closing(
            numbers(self.encoding, self.rows, size=rows_at_once(self.width), seed=seed, then=prepared)
        ) as batches:
            as_asked = rebatched(batches, rows) if self.parts or size is not None else batches
            for batch in giving_back(as_asked, rows_at_once(self.width)):
                yield batch.numbers

    def split(self, share: float, seed: int) -> tuple[NumberRows, NumberRows]:
        """About that share of the rows, drawn by a seed, and the others."""
        return self.part(Part(seed, 0.0, share)), self.part(Part(seed, share, 1.0))

    def part(self, part: Part, contents: Contents | None = None) -> NumberRows:
        """The rows of a part."""
        return NumberRows(self.rows, self.encoding, parts=(*self.parts, part), contents=contents)

    @property
    def contents(self) -> Contents:
        """What a pass over the rows says of them; an earlier one is remembered."""
        return self._contents if self._known_contents is None else self._known_contents

    @cached_property
    def _contents(self) -> Contents:
        digest, known, num_rows = hashlib.sha256(), np.zeros(self.width, np.int64), 0
        with closing(self.batches()) as batches:
            for values in batches:
                digest.update(np.ascontiguousarray(values).data)
                known += (~np.isnan(values)).sum(axis=0)
                num_rows += len(values)
        return Contents(num_rows, known, digest.hexdigest()[:16])

    def known_cells(self) -> Array:
        """`(V,)` the number of rows in which each column is not missing."""
        return self.contents.known

    def description(self) -> str:
        """The size of the rows and a digest of their values."""
        parts = "".join(f", {part.start:g} to {part.stop:g} of seed {part.seed}" for part in self.parts)
        return f"{len(self)} x {self.width} ({self.contents.digest}{parts})"

    def _chosen(self, batch: NumberBatch) -> NumberBatch:
        if not self.parts:
            return batch
        is_chosen = np.ones(len(batch), dtype=bool)
        for part in self.parts:
            is_chosen &= part.holds(batch)
        return batch.take(np.flatnonzero(is_chosen))
