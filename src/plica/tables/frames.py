"""What every table of a user is: rows of cells that come in, and a table of the same kind that goes out."""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.files.kinds import Cell
from plica.files.rows.batch import Array, Batch, CellType, RowFile

SOURCE = "the table"
Changes = Mapping[int, tuple[Array, Sequence[Cell]]]


class Frame(ABC):
    """A table of N rows and D columns.

    Attributes:
        names: The names of the columns as texts, without the spaces around them; None if they have none.
        types: The Python type of each column's cells; None for cells that are only copied.
        num_rows: N.
        is_numbers: Whether it is an array of numbers or truth values.
    """

    is_numbers: bool = False
    names: tuple[str, ...] | None
    types: tuple[CellType | None, ...]
    num_rows: int

    @abstractmethod
    def cells(self) -> Array:
        """All cells `(N, D)`: numbers, or objects with None where a cell is missing."""

    @abstractmethod
    def changed(self, rows: Array, changes: Changes) -> Any:
        """Chosen rows with some cells replaced, as a table of this kind.

        Args:
            rows: `(M,)` the row of this table for each row of the result.
            changes: By the position of a column, which of its M cells are replaced, and by what.
        """

    @abstractmethod
    def made(self, columns: Mapping[str, Sequence[Cell] | Array], *, like: bool = False) -> Any:
        """Further columns as a table of this kind.

        Args:
            columns: The cells by name.
            like: Whether columns have the types of this table's columns of their names; else they are of the rows of
                this table, and of the types of their cells.
        """

    @abstractmethod
    def template(self) -> Frame:
        """A frame without this frame's rows, whose `made(like=True)` gives tables of this kind."""

    def categories(self, position: int) -> tuple[Any, ...] | None:  # noqa: ARG002
        """The categories that the type of a column lists; None if it is no type of categories."""
        return None

    def check(self) -> None:
        """Raise unless each column has a name of its own.

        Raises:
            InputError: Two columns have one name, or a column has none.
        """
        seen = set()
        for name in self.names or ():
            if not name:
                raise InputError(f"{SOURCE}: a column has no name; give it one: names tell columns apart")
            if name in seen:
                raise InputError(f"{SOURCE}: two columns are called {name!r}; rename one: names tell columns apart")
            seen.add(name)


class FrameRows(RowFile):
    """The rows of a frame, as those of a file are read.

    Args:
        frame: The frame.
    """

    def __init__(self, frame: Frame) -> None:
        self.source, self.names, self.types, self.num_rows = SOURCE, frame.names, frame.types, frame.num_rows
        self._cells = frame.cells()
        self.width = len(frame.types)
        self.row_shape, self.header = (self.width,), frame.names or ()
        self.stored = tuple(
            _other_type(self._cells[:, position]) if cell_type is None else cell_type.__name__
            for position, cell_type in enumerate(self.types)
        )

    def batches(self, size: int) -> Iterator[Batch]:
        """See `RowFile.batches`."""
        for start in range(0, len(self._cells), size):
            part = self._cells[start : start + size]
            yield Batch(part, [f"{SOURCE}, row {start + row} (counted from 0)" for row in range(len(part))])


def _other_type(cells: Array) -> str:
    """The name of the type of the first cell that is of no known type."""
    return next((type(cell).__name__ for cell in cells if cell is not None and column_type([cell]) is None), "nothing")


def column_type(cells: Sequence[Any]) -> CellType | None:
    """The Python type of cells that no library names; None if a cell is none of the known ones.

    A column without cells is of numbers, whose NaN may stand for any cell.
    """
    present = [cell for cell in cells if cell is not None and cell == cell]
    if not present:
        return float
    matching = [
        cell_type
        for cell_type, accepted in _TYPES.items()
        if all(isinstance(cell, accepted) for cell in present)
        and not (cell_type in (int, float) and any(isinstance(cell, bool | np.bool_) for cell in present))
    ]
    if matching:
        return matching[0]
    known = tuple(accepted for group in _TYPES.values() for accepted in group)
    return str if all(isinstance(cell, known) for cell in present) else None


_TYPES: Mapping[CellType, tuple[type, ...]] = {
    str: (str,),
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.number, decimal.Decimal),
    datetime.datetime: (datetime.datetime, np.datetime64),
    datetime.date: (datetime.date,),
    datetime.time: (datetime.time,),
}


def converter(column: Sequence[Any]) -> Callable[[Cell], Any]:
    """A function that gives a new cell the type of the cells of its column: decimals, and time stamps at midnight.

    It is no local function, so that models with it can be pickled.

    Args:
        column: The cells; None is missing.
    """
    present = [cell for cell in column if cell is not None]
    if present and all(isinstance(cell, decimal.Decimal) for cell in present):
        digits = min(exponent if isinstance(exponent := cell.as_tuple().exponent, int) else 0 for cell in present)
        return partial(_as_decimal, decimal.Decimal(1).scaleb(min(digits, 0)))
    if present and all(isinstance(cell, datetime.datetime) for cell in present):
        return _as_time_stamp
    return _unchanged


def _as_decimal(step: decimal.Decimal, cell: Cell) -> Any:
    return cell if cell is None else decimal.Decimal(str(cell)).quantize(step)


def _unchanged(cell: Cell) -> Any:
    return cell


def _as_time_stamp(cell: Cell) -> Any:
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        return datetime.datetime.combine(cell, datetime.time())
    return cell


_FINE_UNITS = tuple(map(np.dtype, ("M8[ns]", "M8[ps]", "M8[fs]", "M8[as]")))


def listed(column: Any) -> list[Any]:
    """The cells of a list or an array, as Python has them: None for NaN and NaT."""
    if isinstance(column, np.ndarray):
        # dates for datetime64[D], time stamps for finer units; numpy has only integers for nanoseconds
        values = (column.astype("M8[us]") if column.dtype in _FINE_UNITS else column).tolist()
    else:
        values = list(column)
    return [None if cell is None or _is_nothing(cell) else cell for cell in values]


def _is_nothing(cell: Any) -> bool:
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # nulls that are neither equal nor not; arrays in cells
        return type(cell).__name__ == "NAType"


def stacked(columns: Sequence[Sequence[Any]], num_rows: int) -> Array:
    """Columns of cells as an array `(N, D)` of objects."""
    cells = np.empty((num_rows, len(columns)), dtype=object)
    for position, column in enumerate(columns):
        cells[:, position] = column
    return cells
