"""A batch of rows, what has rows, and the interface of an open file that gives batches."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, overload

import numpy as np

from plica.errors import InputError
from plica.forks import cached_property

Array = np.ndarray[Any, np.dtype[Any]]
CellType: TypeAlias = (
    type[str]
    | type[int]
    | type[float]
    | type[bool]
    | type[datetime.date]
    | type[datetime.datetime]
    | type[datetime.time]
)


class Batch:
    """Consecutive rows of a file, not interpreted.

    Args:
        cells: (B, D) numbers or truth values, or objects: text, numbers, truth values, and None if a cell is missing;
            or a function that makes them once they are asked for.
        labels: The name of each of the B rows in messages, such as "pets.csv, line 2".
    """

    def __init__(self, cells: Array | Callable[[], Array], labels: Sequence[str]) -> None:
        self._cells, self.labels = cells, labels

    @cached_property
    def cells(self) -> Array:
        """The cells, (B, D)."""
        return self._cells() if callable(self._cells) else self._cells

    def __len__(self) -> int:
        return len(self.labels)

    def repeated(self, number: int) -> "Batch":
        """Each row `number` times."""
        return Batch(lambda: np.repeat(self.cells, number, axis=0), RepeatedLabels(self.labels, number))


class Labels(Sequence[str], ABC):
    """The names of rows, each made when a message needs it."""

    @abstractmethod
    def label(self, row: int) -> str:
        """The name of one row."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        rows = range(len(self))[row]
        return self.label(rows) if isinstance(rows, int) else [self.label(number) for number in rows]


class RepeatedLabels(Labels):
    """Names of rows, each several times.

    Args:
        labels: The names.
        number: How often each comes.
    """

    def __init__(self, labels: Sequence[str], number: int) -> None:
        self._labels, self._number = labels, number

    def __len__(self) -> int:
        return len(self._labels) * self._number

    def label(self, row: int) -> str:
        """See `Labels.label`."""
        return self._labels[row // self._number]


class RowSource:
    """What has rows of D cells, in a file or elsewhere.

    Attributes:
        source: The name of the file in messages.
        names: The names of the columns, without the spaces around them; None if the file has no names.
        width: D.
        num_rows: The number of rows, if it is known before they are read.
        row_shape: The shape of a row: `(D,)`, or that of an image.
        types: The Python type of each column's cells; None for cells of other types, which are only copied.
        header: The names with the spaces around them.
        stored: The file's own type of each column, to write a file of the same kind; empty if it has no types.
        delimiter: The delimiter of a text.
        ending: That of its files, which names their format; else nothing.
        stream: The rows as `plica.data.Rows`, if that reads them; else None.
    """

    source: str
    names: tuple[str, ...] | None
    width: int
    num_rows: int | None
    row_shape: tuple[int, ...]
    types: tuple[CellType | None, ...]
    header: tuple[str, ...] = ()
    stored: tuple[Any, ...] = ()
    delimiter: str = ","
    ending: str = ""
    stream: Any = None

    def check_can_model(self, position: int) -> None:
        """Raise unless the cells of a column are numbers, text, truth values, dates or times.

        Raises:
            InputError: The cells are of another kind.
        """
        if self.types[position] is None:
            name = (self.names or range(self.width))[position]
            stored = (*self.stored, *[""] * self.width)[position]
            raise InputError(
                f"{self.source}: column {name!r} holds {stored}; expected numbers, text, truth values, dates or times; "
                'convert it, or say {"kind": "ignored"} of it in the file of --columns'
            )


class RowFile(RowSource, ABC):
    """An open file of rows of D cells."""

    @abstractmethod
    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order, in batches of at most `size`.

        Raises:
            FileFormatError: The file is damaged, or a row has another number of cells.
        """

    def close(self) -> None:
        """Release the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
