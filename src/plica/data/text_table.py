r"""Texts of cells (`.csv`, `.tsv`), read by Arrow; what Arrow lets pass and what it refuses is explained by lines.

Arrow reads quotes that do not end, text after a closing quote, and skips empty lines. So the bytes are looked at on
their way: from where they may have such a fault, the csv library of Python reads the rows, and decides.

>>> list(rows_of_text("pets.csv", lambda: io.BytesIO(b'a,b\n1,2\n\n3,4\n'), ",", 2))
Traceback (most recent call last):
plica.errors.FileFormatError: pets.csv, line 3: the line is empty; remove it
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from plica.data.table_file import Options, TableFile, sliced
from plica.errors import FileFormatError
from plica.files.tables import delimiter_of, is_header, no_cells, not_utf8

_HEAD = 1 << 16  # bytes of a text by which its delimiter and its names are found
_BLOCK = 1 << 20  # bytes that are read at once
_LINES = 16  # lines that a block has at least
_LONGEST = 1 << 24  # bytes of a row

OpenBytes = Callable[[], Any]  # opens a file of bytes


class TextTable(TableFile):
    """A text of cells, whose columns are all text; empty cells are missing.

    Args:
        system: The file system.
        path: The file in it.
        name: Its name in messages.
        options: Its delimiter, and whether it has names.

    Raises:
        FileFormatError: The text has no line, is not in UTF-8, or two of its columns have one name.
    """

    def __init__(self, system: Any, path: str, name: str, options: Options) -> None:
        self._name = name
        self._open: OpenBytes = lambda: system.open_input_stream(path, compression="detect")
        head = self._head()
        self.delimiter = options.delimiter or ("\t" if ".tsv" in Path(path).suffixes else delimiter_of(head))
        lines = csv.reader(io.StringIO(head, newline=""), delimiter=self.delimiter)
        try:
            empty, first = next(((number, row) for number, row in enumerate(lines) if row), (0, None))
        except csv.Error as error:
            raise no_cells(f"{name}, line {lines.line_num}", error) from error
        if first is None:
            raise FileFormatError(f"{name}: the file holds no rows")
        self.has_names = options.named if options.named is not None else is_header(first)
        names = first if self.has_names else [str(position) for position in range(len(first))]
        _check_names(f"{name}, line {lines.line_num}", [cell.strip() for cell in names])
        self.schema = pa.schema([(cell, pa.string()) for cell in names])
        self._blank = empty if self.has_names and len(names) == 1 else 0  # lines before the names, which are no rows
        self.read_types = tuple(self.schema.types)
        self.sizes = (None,)
        self._block = max(_BLOCK, _LINES * len(head) // max(1, head.count("\n")))

    def _head(self) -> str:
        """The beginning of the text, with a whole line at least."""
        with self._open() as file:
            head = file.read(_HEAD)
            while b"\n" not in head and b"\r" not in head[:-1] and (more := file.read(len(head) or _HEAD)):
                head += more
                if len(head) > _LONGEST:
                    raise _too_long(f"{self._name}, line 1")
        try:
            return codecs.getincrementaldecoder("utf-8-sig")().decode(head)
        except UnicodeDecodeError as error:
            with self._open() as file:
                raise not_utf8(self._name, io.BufferedReader(file)) from error

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:  # noqa: ARG002 - there is one
        """See `TableFile.read`.

        Raises:
            FileFormatError: A line is no line of cells of this file.
        """
        rows = 0
        try:
            for batch in self._by_arrow(columns):
                rows += batch.num_rows
                yield from sliced(batch, size)
            return
        except (_UnclearError, pa.ArrowInvalid, pa.ArrowKeyError):
            pass
        cells = rows_of_text(self._name, self._open, self.delimiter or ",", len(self.schema))
        cells = islice(cells, self._blank + self.has_names + rows, None)
        schema = pa.schema([self.schema.field(position) for position in columns])
        while some := list(islice(cells, size)):
            arrays = [pa.array([row[position] or None for row in some], pa.string()) for position in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _by_arrow(self, columns: Sequence[int]) -> Iterator[Any]:
        """The rows by Arrow, which gets whole rows: it would start a thread to read a file, and not wait for it.

        Raises:
            _UnclearError: The csv library is to decide about the rows that are not there yet.
        """
        delimiter, width = self.delimiter or ",", len(self.schema)
        parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=width > 1)
        convert = pa.csv.ConvertOptions(
            column_types=self.schema,
            include_columns=[self.schema.names[position] for position in columns],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        names, blank = None if self.has_names else self.schema.names, self._blank
        with self._open() as file:
            for lines in _whole_rows(file, self._block, delimiter, width):
                options = pa.csv.ReadOptions(
                    use_threads=False, block_size=len(lines), column_names=names, skip_rows=blank
                )
                table = pa.csv.read_csv(pa.BufferReader(lines), options, parse, convert)
                names, blank = self.schema.names, 0
                for batch in table.to_batches():
                    if _has_long_cell(batch):
                        raise _UnclearError
                    yield batch

    def place(self, row: int, group: int) -> str:  # noqa: ARG002 - there is one
        """The number of the line where a row ends, for which the text is read up to there."""
        with self._open() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, delimiter=self.delimiter or ",")
            rows = (lines.line_num for cells in lines if cells or len(self.schema) == 1)
            number = next(islice(rows, row + self._blank + self.has_names, None), None)
        return f"row {row}" if number is None else f"line {number}"

    def close(self) -> None:
        """See `TableFile.close`."""


def rows_of_text(name: str, open_bytes: OpenBytes, delimiter: str, width: int) -> Iterator[list[str]]:
    """The rows of a text by the csv library, which raises for the first line that is no line of cells.

    Args:
        name: The name of the text in messages.
        open_bytes: Opens it.
        delimiter: Its delimiter.
        width: The number of its columns; an empty line of a single column is a missing cell.

    Raises:
        FileFormatError: A line has another number of cells, is empty and not at the end, has a quote that does not end
            or a cell that is too long, is too long itself, or is not in UTF-8.
    """
    size = 0

    def pieces() -> Iterator[str]:
        nonlocal size
        while piece := text.readline(_LONGEST + 1):
            size += len(piece.encode())
            if size > _LONGEST:
                raise _too_long(f"{name}, line {lines.line_num + 1}")
            yield piece

    try:
        with open_bytes() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines, first, empty = csv.reader(pieces(), strict=True, delimiter=delimiter), 0, 0
            try:
                for row in lines:
                    size = 0
                    if not row:
                        empty = empty or lines.line_num
                        if width == 1:
                            yield [""]
                        continue
                    if empty and width > 1:
                        raise FileFormatError(f"{name}, line {empty}: the line is empty; remove it")
                    first = first or lines.line_num
                    if len(row) != width:
                        raise FileFormatError(
                            f"{name}, line {lines.line_num}: found {len(row)} columns, expected {width} as in line "
                            f"{first}; quote cells that hold {delimiter!r}, or give another --delimiter"
                        )
                    yield row
            except csv.Error as error:
                raise no_cells(f"{name}, line {lines.line_num}", error) from error
    except UnicodeDecodeError as error:
        with open_bytes() as file:
            raise not_utf8(name, io.BufferedReader(file)) from error


def _too_long(where: str) -> FileFormatError:
    return FileFormatError(
        f"{where}: a row has more than {_LONGEST:,} bytes, the most that are read; look for a quote that is not "
        "closed, or write the rows as .parquet"
    )


class _UnclearError(Exception):
    """Whether the next lines are lines of cells is not clear."""


def _whole_rows(file: Any, size: int, delimiter: str, width: int) -> Iterator[bytes]:
    """A text in pieces of about `size` bytes, each of whole rows.

    Raises:
        _UnclearError: A row is too long, a quote stands within a cell or does not end, or a line is empty that is not
            at the end of the text.
    """
    around = np.zeros(256, dtype=bool)
    around[[ord(delimiter), *b'\r\n"']] = True  # what stands before and after quotes
    lines, part = b"", file.read(size).removeprefix(codecs.BOM_UTF8)
    while part:
        lines, part = lines + part, file.read(size)
        if not part:
            lines = lines.rstrip(b"\r\n") if width > 1 else lines
            lines += b"\n" if lines and lines[-1:] not in b"\r\n" else b""
        end = _end_of_rows(lines, around, is_last=not part)
        whole, lines = lines[:end], lines[end:]
        if width > 1 and any(pair in b"\n" + whole for pair in (b"\n\n", b"\n\r", b"\r\r")):
            raise _UnclearError
        if whole.startswith(codecs.BOM_UTF8):  # a letter of a cell, which Arrow would take away
            raise _UnclearError
        if whole:
            yield whole
        if len(lines) > _LONGEST:
            raise _UnclearError
    if lines:
        raise _UnclearError


def _end_of_rows(lines: bytes, around: Any, *, is_last: bool) -> int:
    """The position behind the last row that ends in some lines, which are the last of the text or not.

    Raises:
        _UnclearError: A quote stands within a cell.
    """
    size = len(lines)
    if b'"' not in lines:
        return size if is_last else lines.rfind(b"\n") + 1 or lines.rfind(b"\r", 0, -1) + 1
    letters = np.frombuffer(b"\n" + lines + b"\n", np.uint8)
    quotes = np.flatnonzero(letters == ord('"'))
    # Every other quote begins a cell or the second half of a doubled quote.
    if not (around[letters[quotes[::2] - 1]].all() and around[letters[quotes[1::2] + 1]].all()):
        raise _UnclearError
    if is_last:
        return 0 if len(quotes) % 2 else size
    for end, stop in ((b"\n", size + 1), (b"\r", size)):  # a CR at the end may have its LF in the next part
        ends = np.flatnonzero(letters[1:stop] == ord(end)) + 1
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        if len(ends):
            return int(ends[-1])
    return 0


def _has_long_cell(batch: Any) -> bool:
    """Whether a cell may have more letters than the csv library reads, as where a quote does not end."""
    most = csv.field_size_limit()
    return any(
        column.nbytes > most and (pc.max(pc.binary_length(column)).as_py() or 0) > most for column in batch.columns
    )


def _check_names(where: str, names: Sequence[str]) -> None:
    """Raise unless each column has a name of its own.

    Raises:
        FileFormatError: Two columns have one name, or a column has none.
    """
    if "" in names:
        raise FileFormatError(f"{where}: a column has no name; give it one: names tell columns apart")
    (name, number), *_ = Counter(names).most_common(1)
    if number > 1:
        raise FileFormatError(f"{where}: two columns are called {name!r}; rename one: names tell columns apart")
