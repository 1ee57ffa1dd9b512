r"""Texts of cells (`.csv`, `.tsv`), read by Arrow; what Arrow lets pass and what it refuses is explained by lines.

Arrow reads quotes that do not end, text after a closing quote, and skips empty lines. So the bytes are looked at on
their way: where they may have such a fault, the csv library of Python goes through the file once, and decides.

>>> check_text("pets.csv", lambda: io.BytesIO(b'a,b\n1,2\n\n3,4\n'), ",", 2, 100)
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
_LONGEST = 1 << 24  # bytes of a first line

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
                    raise _too_long(f"{self._name}, line 1", _LONGEST)
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
        names, width = [self.schema.names[position] for position in columns], len(self.schema)
        options = pa.csv.ReadOptions(
            column_names=None if self.has_names else self.schema.names,
            skip_rows=self._blank,
            block_size=self._block + 2,  # see `_Watched.read`
            use_threads=False,  # else a process that stops reading early may hang at its end (apache/arrow#50482)
        )
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=width > 1)
        convert = pa.csv.ConvertOptions(
            column_types=self.schema,
            include_columns=names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        with self._open() as file:
            watched, is_checked = _Watched(file, self.delimiter or ",", width), False
            try:
                with pa.csv.open_csv(watched, options, parse, convert) as reader:
                    for batch in reader:
                        if not is_checked and (watched.is_suspect or _has_long_cell(batch)):
                            self._check()
                            is_checked = True
                        yield from sliced(batch, size)
            except (pa.ArrowInvalid, pa.ArrowKeyError):
                self._check()
                raise
            if watched.is_suspect and not is_checked:
                self._check()

    def _check(self) -> None:
        check_text(self._name, self._open, self.delimiter or ",", len(self.schema), self._block)

    def place(self, row: int, group: int) -> str:  # noqa: ARG002 - there is one
        """The number of the line where a row ends, for which the text is read up to there."""
        with self._open() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, delimiter=self.delimiter or ",")
            rows = (lines.line_num for cells in lines if cells or len(self.schema) == 1)
            number = next(islice(rows, row + self._blank + self.has_names, None), None)
        return f"row {row}" if number is None else f"line {number}"

    def close(self) -> None:
        """See `TableFile.close`."""


def check_text(name: str, open_bytes: OpenBytes, delimiter: str, width: int, longest: int) -> None:
    """Raise for the first line of a text that is no line of cells.

    Args:
        name: The name of the text in messages.
        open_bytes: Opens it.
        delimiter: Its delimiter.
        width: The number of its columns.
        longest: The most bytes of a row.

    Raises:
        FileFormatError: A line has another number of cells, is empty and not at the end, has a quote that does not end
            or a cell that is too long, is too long itself, or is not in UTF-8.
    """
    size = 0

    def pieces() -> Iterator[str]:
        nonlocal size
        while piece := text.readline(longest + 1):
            size += len(piece.encode())
            if size > longest:
                raise _too_long(f"{name}, line {lines.line_num + 1}", longest)
            yield piece

    try:
        with open_bytes() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines, first, empty = csv.reader(pieces(), strict=True, delimiter=delimiter), 0, 0
            try:
                for row in lines:
                    size = 0
                    if not row:
                        empty = empty or lines.line_num
                        continue
                    if empty and width > 1:
                        raise FileFormatError(f"{name}, line {empty}: the line is empty; remove it")
                    first = first or lines.line_num
                    if len(row) != width:
                        raise FileFormatError(
                            f"{name}, line {lines.line_num}: found {len(row)} columns, expected {width} as in line "
                            f"{first}; quote cells that hold {delimiter!r}, or give another --delimiter"
                        )
            except csv.Error as error:
                raise no_cells(f"{name}, line {lines.line_num}", error) from error
    except UnicodeDecodeError as error:
        with open_bytes() as file:
            raise not_utf8(name, io.BufferedReader(file)) from error


def _too_long(where: str, longest: int) -> FileFormatError:
    return FileFormatError(
        f"{where}: a row has more than {longest:,} bytes, the most that are read; look for a quote that is not closed, "
        "or write the rows as .parquet"
    )


class _Watched:
    """A file of bytes that notes, while it is read, whether a line may be faulty where Arrow reads on.

    Args:
        file: The file.
        delimiter: The delimiter of its cells.
        width: The number of its columns; an empty line of a single column is a missing cell.

    Attributes:
        is_suspect: Whether a quote stands within a cell or does not end, or a line is empty that is not at the end.
    """

    closed = False

    def __init__(self, file: Any, delimiter: str, width: int) -> None:
        self._file, self._width = file, width
        self._around = np.zeros(256, dtype=bool)
        self._around[[ord(delimiter), *b'\r\n"']] = True  # what stands before and after quotes
        self._next, self._last = b"", b"\n"
        self._quotes, self._is_empty, self.is_suspect = 0, False, False

    def read(self, size: int) -> bytes:
        """The next bytes, so that Arrow reads them right.

        A last line that does not end is ended, since Arrow finds no names in a single one. CR and LF are not parted,
        since Arrow takes an LF away that begins a block, also within quotes.
        """
        part: bytes = self._next + self._file.read(size - 2)
        self._next = self._file.read(1)
        if (part[-1:], self._next) == (b"\r", b"\n") or (part[-1:] not in b"\r\n" and not self._next):
            part, self._next = part + b"\n", b""
        if part:
            self._look(part)
        else:
            self.is_suspect |= self._quotes % 2 == 1
        return part

    def close(self) -> None:
        """Leave the file open for who opened it."""

    def readable(self) -> bool:
        """True."""
        return True

    def _look(self, part: bytes) -> None:
        seen = self._last + part
        if not self.is_suspect and b'"' in seen:
            letters = np.frombuffer(seen, np.uint8)
            at = np.flatnonzero(letters[1:-1] == ord('"')) + 1
            first = self._quotes % 2  # every other quote begins a cell or the second half of a doubled quote
            begin, end = at[first::2] - 1, at[1 - first :: 2] + 1
            self.is_suspect = not (self._around[letters[begin]].all() and self._around[letters[end]].all())
            self._quotes += len(at)
        if self._width > 1:
            if not self._is_empty:
                ends = [end for end in map(seen.find, (b"\n\n", b"\n\r\n", b"\r\r")) if end >= 0]
                self._is_empty, part = bool(ends), seen[min(ends, default=0) :]
            self.is_suspect |= self._is_empty and bool(part.strip(b"\r\n"))
        self._last = seen[-2:]


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
