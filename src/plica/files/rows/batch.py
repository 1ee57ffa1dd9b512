"""Some rows of a file, and an open file that gives them."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np

from plica.errors import InputError

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


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows as they lie in a file.

    Attributes:
        cells: (B, D) numbers or truth values, or objects: text, numbers, truth values, and None where one is missing.
        places: What each of the B rows is called in messages.
    """

    cells: Array
    places: Sequence[str]

    def __len__(self) -> int:
        return len(self.cells)


class RowFile(ABC):
    """An open file of rows of D cells.

    Attributes:
        source: What messages call it.
        names: Of the columns, if the file has some, without the spaces around them.
        width: D.
        num_rows: How many rows there are, where that is known before they are read.
        row_shape: The shape of a row: `(D,)`, or that of an image.
        types: What the cells of each column are; None of other kinds of cells, which are only passed on.
        header: The names as the file has them.
        stored: How the file stores each column, for a file of the same kind; empty where nothing is known.
        mark: What stands between the cells of a text.
    """

    source: str
    names: tuple[str, ...] | None
    width: int
    num_rows: int | None
    row_shape: tuple[int, ...]
    types: tuple[CellType | None, ...]
    header: tuple[str, ...] = ()
    stored: tuple[Any, ...] = ()
    mark: str = ","

    @abstractmethod
    def batches(self, size: int) -> Iterator[Batch]:
        """All rows in order, at most `size` of them at once.

        Raises:
            FileFormatError: The file is damaged, or a row has another number of cells.
        """

    def check_can_model(self, place: int) -> None:
        """Raise unless the cells of a column are numbers, text, truth values, dates or times.

        Raises:
            InputError: They are of another kind.
        """
        if self.types[place] is None:
            name, kept = (self.names or range(self.width))[place], (*self.stored, *[""] * self.width)[place]
            raise InputError(
                f"{self.source}: column {name!r} holds {kept}; expected numbers, text, truth values, dates or times; "
                'convert it, or say {"kind": "ignored"} of it in the file of --columns'
            )

    def close(self) -> None:  # noqa: B027 - arrays have nothing to close
        """Let go of the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
