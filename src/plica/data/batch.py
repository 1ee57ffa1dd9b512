"""Batches of rows as columns of Arrow, each row with its place in the source, so that messages can name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from plica.files.rows.batch import Array


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Rows that lie together and are read in order: a row group of Parquet, a batch of Arrow, a file of text.

    Attributes:
        file: The position of its file in the source.
        number: Its position in the file.
        first: The number of its first row in the file.
        num_rows: How many rows it has, if that is known before they are read.
        label: The name of a row in messages, by its number in the file.
    """

    file: int
    number: int
    first: int
    num_rows: int | None
    label: Callable[[int], str]


class _Labels(Sequence[str]):
    """The names of the rows of a batch, each made when a message needs it."""

    def __init__(self, batch: RowBatch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        group = self._batch.groups[int(self._batch.group_of[row])]
        return group.label(int(self._batch.rows[row]))


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Some rows of a source.

    Attributes:
        data: A `pyarrow.RecordBatch` with the B rows.
        groups: The groups that the rows come from.
        group_of: (B,) the position in `groups` of each row's group.
        rows: (B,) the number of each row in its file, counted from 0.
    """

    data: Any
    groups: tuple[Group, ...]
    group_of: Array
    rows: Array

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def labels(self) -> Sequence[str]:
        """The name of each row in messages, such as "pets.csv, line 2"."""
        return _Labels(self)

    @staticmethod
    def of_group(data: Any, group: Group, first: int) -> RowBatch:
        """Consecutive rows of one group.

        Args:
            data: The rows.
            group: Their group.
            first: The number of the first of them in its file.
        """
        return RowBatch(data, (group,), np.zeros(data.num_rows, np.int32), np.arange(first, first + data.num_rows))

    def slice(self, start: int, stop: int) -> RowBatch:
        """The rows from `start` to before `stop`, without a copy."""
        part = self.data.slice(start, stop - start)
        return RowBatch(part, self.groups, self.group_of[start:stop], self.rows[start:stop])

    def take(self, rows: Array) -> RowBatch:
        """Rows by their positions."""
        return RowBatch(self.data.take(pa.array(rows)), self.groups, self.group_of[rows], self.rows[rows])


def joined(batches: Sequence[RowBatch]) -> RowBatch:
    """Batches of the same columns as one batch; dictionaries of columns are joined."""
    if len(batches) == 1:
        return batches[0]
    places = {group: position for position, group in enumerate(dict.fromkeys(_groups(batches)))}
    group_of = [np.asarray([places[group] for group in batch.groups], np.int32)[batch.group_of] for batch in batches]
    table = pa.Table.from_batches([batch.data for batch in batches]).unify_dictionaries().combine_chunks()
    (data,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return RowBatch(data, tuple(places), np.concatenate(group_of), np.concatenate([batch.rows for batch in batches]))


def _groups(batches: Sequence[RowBatch]) -> Iterator[Group]:
    return (group for batch in batches for group in batch.groups)
