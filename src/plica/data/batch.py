"""Batches of rows, as columns of Arrow or as numbers; each row knows its place in the source, for messages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from plica.files.rows.batch import Array, Labels


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


class _Labels(Labels):
    """The names of the rows of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    def label(self, row: int) -> str:
        group = self._batch.groups[int(self._batch.group_of[row])]
        return group.label(int(self._batch.rows[row]))


Allocate = Callable[[tuple[int, ...], Any], Array]
"""Makes an array of a shape and a dtype, with any contents, as `numpy.empty` does."""


class Space:
    """Memory for one array after another: an array is valid until the next one is made.

    A large buffer that is filled again and again stays where it is, so that the memory of the process does not grow.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """See `Allocate`."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(self._bytes):
            self._bytes = np.empty(size + size // 8, np.uint8)
        array: Array = self._bytes[:size].view(dtype).reshape(shape)
        return array


@dataclass(frozen=True, slots=True, eq=False)
class Batch(ABC):
    """Some rows of a source.

    Attributes:
        groups: The groups that the rows come from.
        group_of: (B,) the position in `groups` of each row's group.
        rows: (B,) the number of each row in its file, counted from 0.
    """

    groups: tuple[Group, ...]
    group_of: Array
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> Sequence[str]:
        """The name of each row in messages, such as "pets.csv, line 2"."""
        return _Labels(self)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes of the cells."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Self:
        """The rows from `start` to before `stop`, without a copy."""

    @abstractmethod
    def take(self, rows: Array, allocate: Allocate = np.empty, /) -> Self:
        """Rows by their positions; `allocate` makes the array where the cells are one."""

    @classmethod
    @abstractmethod
    def joined(cls, batches: Sequence[Self], allocate: Allocate = np.empty, /) -> Self:
        """Batches of the same columns as one; `allocate` as for `take`."""


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch(Batch):
    """Some rows of a source as columns.

    Attributes:
        data: A `pyarrow.RecordBatch` with the B rows.

    >>> from plica.data import Rows
    >>> pets = pa.table({"pet": ["cat", "dog", "cat"]})
    >>> batch = next(iter(Rows(pets).batches(size=2)))
    >>> batch.data.to_pydict(), batch.take(np.array([1])).rows
    ({'pet': ['cat', 'dog']}, array([1]))
    """

    data: Any

    @staticmethod
    def of_group(data: Any, group: Group, first: int) -> RowBatch:
        """Consecutive rows of one group.

        Args:
            data: The rows.
            group: Their group.
            first: The number of the first of them in its file.
        """
        return RowBatch((group,), np.zeros(data.num_rows, np.int32), np.arange(first, first + data.num_rows), data)

    @property
    def nbytes(self) -> int:
        """See `Batch.nbytes`."""
        return int(self.data.nbytes)

    def slice(self, start: int, stop: int) -> RowBatch:
        """See `Batch.slice`."""
        part = self.data.slice(start, stop - start)
        return RowBatch(self.groups, self.group_of[start:stop], self.rows[start:stop], part)

    def take(self, rows: Array, _allocate: Allocate = np.empty, /) -> RowBatch:
        """See `Batch.take`."""
        return RowBatch(self.groups, self.group_of[rows], self.rows[rows], self.data.take(pa.array(rows)))

    @classmethod
    def joined(cls, batches: Sequence[RowBatch], _allocate: Allocate = np.empty, /) -> RowBatch:
        """See `Batch.joined`; dictionaries of columns are joined too."""
        table = pa.Table.from_batches([batch.data for batch in batches]).unify_dictionaries().combine_chunks()
        (data,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        return RowBatch(*_places(batches), data)


@dataclass(frozen=True, slots=True, eq=False)
class NumberBatch(Batch):
    """Some rows of a source as rows of a circuit.

    Attributes:
        numbers: (B, V), NaN where a cell is missing.

    >>> from plica.data import Rows, numbers
    >>> from plica.files.encoding import Encoding
    >>> from plica.files.kinds import TableColumn
    >>> rows = Rows(pa.table({"age": [2.5, None, 1.0]}))
    >>> for batch in numbers(Encoding((TableColumn("age", "real"),), ()), rows, size=2):
    ...     print(batch.rows, batch.numbers.tolist())
    [0 1] [[2.5], [nan]]
    [2] [[1.0]]
    """

    numbers: Array

    @property
    def nbytes(self) -> int:
        """See `Batch.nbytes`."""
        return int(self.numbers.nbytes)

    def slice(self, start: int, stop: int) -> NumberBatch:
        """See `Batch.slice`."""
        return NumberBatch(self.groups, self.group_of[start:stop], self.rows[start:stop], self.numbers[start:stop])

    def take(self, rows: Array, allocate: Allocate = np.empty, /) -> NumberBatch:
        """See `Batch.take`."""
        groups, places = self.group_of[rows], self.rows[rows]  # these raise for a position that is not there
        numbers = allocate((len(rows), *self.numbers.shape[1:]), self.numbers.dtype)
        np.take(self.numbers, rows, axis=0, out=numbers, mode="clip")  # by "raise", numpy would allocate the same again
        return NumberBatch(self.groups, groups, places, numbers)

    @classmethod
    def joined(cls, batches: Sequence[NumberBatch], allocate: Allocate = np.empty, /) -> NumberBatch:
        """See `Batch.joined`."""
        parts = [batch.numbers for batch in batches]
        numbers = allocate((sum(map(len, parts)), *parts[0].shape[1:]), np.result_type(*parts))
        return NumberBatch(*_places(batches), np.concatenate(parts, out=numbers))


def _places(batches: Sequence[Batch]) -> tuple[tuple[Group, ...], Array, Array]:
    """The groups, the positions of each row's group, and the numbers of all rows of some batches.

    Groups none of whose rows are left are dropped, so that a buffer does not collect those of all rows that it had.
    """
    positions: dict[Group, int] = {}
    group_of = []
    for batch in batches:
        renumbered = np.zeros(len(batch.groups), np.int32)
        for group in np.flatnonzero(np.bincount(batch.group_of)).tolist():
            renumbered[group] = positions.setdefault(batch.groups[group], len(positions))
        group_of.append(renumbered[batch.group_of])
    return tuple(positions), np.concatenate(group_of), np.concatenate([batch.rows for batch in batches])
