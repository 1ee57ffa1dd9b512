"""Files and folders that are streams of columns, as commands read tables.

>>> import pathlib, tempfile
>>> import pyarrow.parquet
>>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.parquet"
>>> pyarrow.parquet.write_table(pyarrow.table({"pet": ["cat", "dog"]}), path)
>>> with StreamFile(Rows(path)) as rows:
...     [(batch.cells.tolist(), batch.labels[:]) for batch in rows.batches(1)] # doctest: +ELLIPSIS
[([['cat']], ['...pets.parquet, row 0']), ([['dog']], ['...pets.parquet, row 1'])]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from plica.data import RowBatch, Rows, reader
from plica.data.arrow_cells import python_cells
from plica.data.encoding import Unknown, plain_numbers
from plica.data.memory import giving_back
from plica.data.rows import ROWS
from plica.files.encoding import Encoding
from plica.files.rows.batch import Array, Batch, RepeatedLabels, RowFile


class ColumnBatch(Batch):
    """Rows as columns, whose cells are objects of Python only once they are asked for.

    Args:
        data: The rows as a `pyarrow.RecordBatch`.
        labels: The name of each row in messages.
        is_array: Whether they are numbers of an array, which are no objects.
    """

    def __init__(self, data: Any, labels: Sequence[str], is_array: bool) -> None:
        super().__init__(partial(_cells, data, is_array), labels)
        self.data, self.is_array = data, is_array

    def repeated(self, number: int) -> ColumnBatch:
        """See `Batch.repeated`."""
        rows = pa.array(np.repeat(np.arange(len(self)), number))
        return ColumnBatch(self.data.take(rows), RepeatedLabels(self.labels, number), self.is_array)


class StreamBatch(ColumnBatch):
    """Consecutive rows of a stream.

    Args:
        whole: The rows that were read together.
        start: The first of these.
        stop: The end of these.
        is_array: Whether they are numbers of an array.
    """

    def __init__(self, whole: RowBatch, start: int, stop: int, is_array: bool = False) -> None:
        part = whole.slice(start, stop)
        super().__init__(part.data, part.labels, is_array)
        self.whole, self.rows = whole, slice(start, stop)


class StreamFile(RowFile):
    """The rows of a stream, as those of a file are read.

    Args:
        rows: The rows.
        read: Reads some of them in batches of the number of rows that it is given; by default all.
    """

    def __init__(self, rows: Rows, read: Callable[[int], Generator[RowBatch, None, None]] | None = None) -> None:
        self.stream, self._read = rows, read
        self.source, self.names, self.width = rows.source, rows.names, rows.width
        self.num_rows = rows.num_rows if read is None else None
        self.row_shape, self.types, self.ending, self.delimiter = (
            rows.row_shape,
            rows.types,
            rows.ending,
            rows.delimiter,
        )
        self.header = rows.header if rows.names is not None else ()
        self.stored = () if rows.is_text or rows.is_array else rows.stored  # types that the files state

    def batches(self, size: int) -> Iterator[Batch]:
        """See `RowFile.batches`."""
        if self.num_rows == 0:
            return
        at_once = max(size, ROWS // size * size)
        read = self._read or self._all
        with closing(read(at_once)) as batches:
            for whole in giving_back(batches, at_once):
                for start in range(0, len(whole), size):
                    yield StreamBatch(whole, start, min(start + size, len(whole)), self.stream.is_array)

    def _all(self, size: int) -> Generator[RowBatch, None, None]:
        def same(batch: RowBatch) -> RowBatch:
            return batch

        found: Generator[RowBatch, None, None] = self.stream.converted(
            same, range(self.width), size=size, may_be_empty=True
        )
        return found


def numbers_reader(
    encoding: Encoding | None, rows: StreamFile, *, unknown: Unknown | None = None, unread: str | None = None
) -> Callable[[Batch], Array]:
    """A function from batches of a stream to rows of the circuit; see `Encoding.reader`.

    Rows that were read together become numbers together.
    """
    if encoding is None:
        read: Callable[[RowBatch], Array] = plain_numbers
    else:
        read = reader(encoding, rows.stream, unknown=unknown, unread=unread)
    last: list[Any] = [None, None]  # the rows that were read together, and their numbers

    def read_part(batch: Batch) -> Array:
        assert isinstance(batch, StreamBatch), "a batch of these rows"
        if last[0] is not batch.whole:
            last[:] = batch.whole, read(batch.whole)
        return np.ascontiguousarray(last[1][batch.rows])

    return read_part


def _cells(data: Any, is_array: bool) -> Array:
    """The cells of a RecordBatch (B, D): those of an array as numbers, others as Python has them."""
    if is_array:
        return np.stack([column.to_numpy(zero_copy_only=False) for column in data.columns], axis=1)
    cells = np.empty((data.num_rows, data.num_columns), dtype=object)
    for position, column in enumerate(data.columns):
        cells[:, position] = python_cells(column)
    return cells
