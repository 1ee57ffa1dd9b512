"""Rows of `.csv` files in UTF-8; a cell that holds the delimiter is quoted, an empty cell is missing."""

import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from plica.errors import FileFormatError
from plica.files.rows.batch import Batch, RowFile
from plica.files.tables import guess_delimiter, is_header, no_cells, not_utf8

_Line = tuple[int, list[str]]  # its number, counted from 1, and its cells


class TextRows(RowFile):
    """Rows of a `.csv` file.

    Args:
        path: The file.
        named: Whether its first line holds names; else it does if none of its cells is a number or empty.
        delimiter: The delimiter; None for a comma, or the delimiter that its first lines suggest.
    """

    def __init__(self, path: Path, named: bool, delimiter: str | None = None) -> None:
        self.source, self.num_rows, self._path = str(path), None, path
        self.delimiter = guess_delimiter(path) if delimiter is None else delimiter
        self._file = path.open(encoding="utf-8-sig", newline="")
        try:
            self._lines = self._read()
            first = next(self._lines, None)
            if first is None:
                raise FileFormatError(f"{path}: the file holds no rows")
            number, cells = first
            self.header = tuple(cells) if named or is_header(cells) else ()
            self.names = tuple(cell.strip() for cell in self.header) or None
            if self.names is None:
                self._lines = chain([first], self._lines)
            self.width, self._first = len(cells), number
            self._check_names()
        except BaseException:
            self._file.close()
            raise
        self.row_shape, self.types = (self.width,), (str,) * self.width

    def batches(self, size: int) -> Iterator[Batch]:
        """See `RowFile.batches`."""
        while rows := list(islice(self._lines, size)):
            cells = np.empty((len(rows), self.width), dtype=object)
            for row, (number, line_cells) in enumerate(rows):
                if len(line_cells) != self.width:
                    raise FileFormatError(
                        f"{self.source}, line {number}: found {len(line_cells)} columns, expected {self.width} as in "
                        f"line {self._first}; quote cells that hold {self.delimiter!r}, or give another --delimiter"
                    )
                cells[row] = [cell or None for cell in line_cells]
            yield Batch(cells, [f"{self.source}, line {number}" for number, _ in rows])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> Iterator[_Line]:
        """The lines, each with the number of the line where it ends; empty lines at the end of the file are skipped."""
        lines, empty = csv.reader(self._file, strict=True, delimiter=self.delimiter), 0
        try:
            for row in lines:
                if row and empty:
                    raise FileFormatError(f"{self.source}, line {empty}: the line is empty; remove it")
                if row:
                    yield lines.line_num, row
                else:
                    empty = empty or lines.line_num
        except UnicodeDecodeError as error:
            raise not_utf8(self._path) from error
        except csv.Error as error:
            raise no_cells(f"{self.source}, line {lines.line_num}", error) from error

    def _check_names(self) -> None:
        seen: set[str] = set()
        for name in self.names or ():
            if not name or name in seen:
                problem = (
                    f"two columns are called {name!r}; rename one" if name else "a column has no name; give it one"
                )
                raise FileFormatError(f"{self.source}, line {self._first}: {problem}: names tell columns apart")
            seen.add(name)


def open_csv(path: Path, _key: str | None, named: bool, delimiter: str | None) -> TextRows:
    """The rows of a `.csv` file."""
    return TextRows(path, named, delimiter)


def text_of(cell: object) -> str:
    """The text of a cell: empty if the cell is missing; a number has all digits that reading it back needs."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    return repr(float(cell)) if isinstance(cell, float | np.floating) else str(cell)
