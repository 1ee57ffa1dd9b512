"""Batches of columns as numbers of a circuit, without a Python object for each cell.

Each column is read by the first of two ways that can:

1. `typed_cells`, `text_cells`: numbers, dates, times and plain texts of numbers, by operations on whole arrays;
2. cells by their distinct values: the functions of `plica.files.columns` read each value once, and codes spread them.

The result is what `plica.files.columns.encode` gives for the cells as Python has them, and so are the messages.

>>> import pyarrow
>>> from plica.data import Rows
>>> from plica.files.kinds import TableColumn
>>> encoding = Encoding((TableColumn("pet", "categorical", ("cat", "dog")), TableColumn("age", "real")), ("NA",))
>>> rows = Rows(pyarrow.table({"age": ["2.5", "NA"], "name": ["Tom", "Rex"], "pet": ["cat", "dog"]}))
>>> read = reader(encoding, rows)
>>> [read(batch) for batch in rows.batches()]
[array([[0. , 2.5],
       [1. , nan]])]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from plica.data.batch import NumberBatch, RowBatch
from plica.data.rows import ROWS, Rows
from plica.data.text_cells import numbers_of_text
from plica.data.typed_cells import MissingWords, numbers_of_typed
from plica.errors import InputError
from plica.files.columns import encode, is_missing
from plica.files.encoding import Encoding
from plica.files.kinds import KINDS, TableColumn
from plica.files.rows.arrow_cells import python_cells
from plica.files.rows.batch import Array
from plica.files.tables import one_line

# Called with each category that a column does not have.
Unknown = Callable[[TableColumn, Any], None]
_MOST_CACHED = 1 << 16


def reader(
    encoding: Encoding, rows: Rows, *, unknown: Unknown | None = None, unread: str | None = None
) -> Callable[[RowBatch], Array]:
    """A function from batches of all columns of `rows` to rows of the circuit, `(B, V)`, NaN where a cell is missing.

    The numbers of a column lie side by side in memory.

    Args:
        encoding: The columns of the model.
        rows: The rows.
        unknown: Called with each category that a column does not have; the cell then counts as missing.
        unread: The name of a column that need not be there, and all of whose cells count as missing.

    Raises:
        InputError: The rows lack a column; the function raises for a cell that is no value of its column.
    """
    return _reader(encoding, rows, encoding.positions(rows, unread), unknown)


def _reader(
    encoding: Encoding, rows: Rows, positions: Sequence[int], unknown: Unknown | None
) -> Callable[[RowBatch], Array]:
    """A function from batches to numbers, where each column of the model has a position, -1 if it is not there."""
    readers = [ColumnReader(column, encoding.words, unknown, is_array=rows.is_array) for column in encoding.modelled]

    def read(batch: RowBatch) -> Array:
        columns = np.full((len(readers), len(batch)), np.nan)
        for column, position, read_column in zip(columns, positions, readers, strict=True):
            if position >= 0:
                column[:] = read_column(batch.data.column(position), batch.labels)
        return columns.T

    return read


def numbers(
    encoding: Encoding,
    rows: Rows,
    *,
    size: int = ROWS,
    shard: tuple[int, int] = (0, 1),
    seed: int | None = None,
    unknown: Unknown | None = None,
    unread: str | None = None,
    then: Callable[[NumberBatch], NumberBatch] | None = None,
) -> Generator[NumberBatch, None, None]:
    """Rows as numbers, which a thread reads ahead; only the columns of the model are read.

    In random order this is faster than `batches` and `reader`, since a row of numbers lies in one piece.

    Args:
        encoding: The columns of the model.
        rows: The rows.
        size: See `Rows.batches`, as for `shard` and `seed`.
        shard: The rows of which process.
        seed: Of a random order.
        unknown: See `reader`, as for `unread`; it is called in that thread.
        unread: A column all of whose cells count as missing.
        then: A function of the numbers, called in that thread and before rows are shuffled; it may leave rows out.

    Raises:
        InputError: The rows lack a column; a cell is no value of its column.
        FileFormatError: A file is damaged, or there are no rows.
    """
    positions = encoding.positions(rows, unread)
    present = [position for position in positions if position >= 0]
    read = _reader(encoding, rows, [present.index(at) if at >= 0 else at for at in positions], unknown)

    def convert(batch: RowBatch) -> NumberBatch:
        rows_of_numbers = read(batch)
        rows_of_numbers = rows_of_numbers if seed is None else np.ascontiguousarray(rows_of_numbers)
        result = NumberBatch(batch.groups, batch.group_of, batch.rows, rows_of_numbers)
        return result if then is None else then(result)

    return rows.converted(convert, present or [0], size=size, shard=shard, seed=seed)


class ColumnReader:
    """Reads the cells of a column of a model as numbers.

    Args:
        column: The column.
        words: Text that means that a cell is missing.
        unknown: Called with each category that the column does not have; None if such cells are errors.
        is_array: Whether the cells come from an array, in which a date is a number of days from 1970.
    """

    def __init__(
        self, column: TableColumn, words: Sequence[str], unknown: Unknown | None, *, is_array: bool = False
    ) -> None:
        self._column, self._words, self._unknown, self._is_array = column, tuple(words), unknown, is_array
        self._missing = MissingWords.of(words)
        self._is_closed = KINDS[column.kind].closed
        self._number = KINDS[column.kind].number(column)
        self._known: dict[Any, float | None] = {}
        self._last: tuple[Any, Array, Array] | None = None

    def __call__(self, cells: Any, labels: Sequence[str]) -> Array:
        """The numbers of some cells, `(B,)`, NaN where one is missing.

        Args:
            cells: A `pyarrow.Array`.
            labels: The name of each row in messages.

        Raises:
            InputError: A cell is no value of the column.
        """
        if pa.types.is_null(cells.type):
            return np.full(len(cells), np.nan)
        if pa.types.is_string_view(cells.type):
            cells = cells.cast(pa.large_string())
        if self._is_closed:
            return self._by_distinct(cells, np.arange(len(cells)), labels)
        result = numbers_of_typed(self._column, cells, self._missing, is_array=self._is_array)
        if result is None:
            result = numbers_of_text(self._column, cells, self._missing)
        if result is None:
            return self._by_distinct(cells, np.arange(len(cells)), labels)
        numbers, is_read = result
        rest = np.flatnonzero(~is_read)
        if len(rest):
            numbers[rest] = self._by_distinct(cells.take(pa.array(rest)), rest, labels)
        return numbers

    def _by_distinct(self, cells: Any, rows: Array, labels: Sequence[str]) -> Array:
        """The numbers of cells of which each distinct one is read once.

        Args:
            cells: The cells.
            rows: (B,) the row of each cell, by which labels name it.
            labels: The names of rows.
        """
        encoded = with_codes(cells)
        indices = encoded.indices
        codes = (indices.cast(pa.int64()).fill_null(-1) if indices.null_count else indices).to_numpy()
        try:
            numbers, is_refused = self._numbers_of(encoded.dictionary, codes)
        except (OverflowError, ValueError) as error:
            raise self._unheld(encoded, rows, labels) from error
        refused = np.flatnonzero(is_refused[codes]) if is_refused.any() else ()
        for row in map(int, refused):
            cell = self._python(encoded.dictionary.slice(codes[row], 1))
            if self._unknown is None or not self._is_closed:
                encode(self._column, cell, [labels[rows[row]]], words=self._words)
                raise AssertionError("a cell that was refused by itself is refused")
            self._unknown(self._column, cell[0].item() if isinstance(cell[0], np.generic) else cell[0])
        result: Array = numbers[codes]
        return result

    def _unheld(self, cells: Any, rows: Array, labels: Sequence[str]) -> InputError:
        """The error for the first cell that no type of Python holds, such as a time stamp of the year 10,000."""
        for row in range(len(cells)):
            try:
                python_cells(cells.slice(row, 1))
            except (OverflowError, ValueError) as error:
                return InputError(
                    f"{labels[rows[row]]}, column {self._column.name!r}: a {cells.type.value_type} that cannot be read "
                    f"({one_line(error)}); correct the cell, or leave it empty where the value is not known"
                )
        raise AssertionError("one of the cells cannot be read")

    def _numbers_of(self, dictionary: Any, codes: Array) -> tuple[Array, Array]:
        """For each value of a dictionary that a code names, its number, and whether it is refused.

        The last entry, that of the code -1, is NaN and not refused. Values that no code names are not read.
        """
        if self._last is not None and self._last[0].equals(dictionary):
            _, numbers, is_refused = self._last
            if not np.isneginf(numbers).any():
                return numbers, is_refused
        else:
            numbers = np.full(len(dictionary) + 1, -np.inf)  # no cell has this number: it marks what was not read
            numbers[-1], is_refused = np.nan, np.zeros(len(dictionary) + 1, dtype=bool)
        is_named = np.zeros(len(numbers), dtype=bool)
        is_named[codes] = True
        used = np.flatnonzero(is_named & np.isneginf(numbers))
        if len(used):
            read = self._read(self._python(dictionary.take(pa.array(used))))
            numbers[used] = [np.nan if number is None else number for number in read]
            is_refused[used] = [number is None for number in read]
        self._last = (dictionary, numbers, is_refused)
        return numbers, is_refused

    def _read(self, cells: Array) -> list[float | None]:
        """The numbers of cells: NaN for one that is missing, None for one that is refused."""
        if len(self._known) > _MOST_CACHED:
            self._known.clear()
        new = [row for row, cell in enumerate(cells) if cell not in self._known]
        for cell, is_nothing in zip(cells[new], is_missing(cells[new], self._words), strict=True):
            self._known[cell] = np.nan if is_nothing else self._number(cell)
        return [self._known[cell] for cell in cells]

    def _python(self, values: Any) -> Array:
        """Values as the functions of `plica.files.columns` take them."""
        if self._is_array:
            return np.asarray(values)
        cells = np.empty(len(values), dtype=object)
        cells[:] = python_cells(values)
        return cells


def with_codes(cells: Any) -> Any:
    """Cells as codes and a dictionary."""
    if pa.types.is_dictionary(cells.type):
        return cells
    if pa.types.is_boolean(cells.type):
        return pa.DictionaryArray.from_arrays(cells.cast(pa.int8()), pa.array([False, True]))
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    if pa.types.is_decimal(cells.type) and cells.type.bit_width < 128:
        cells = cells.cast(pa.decimal128(cells.type.precision, cells.type.scale))
    return cells.dictionary_encode()
