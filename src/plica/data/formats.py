"""Open files of rows, one class for each format: what each holds, and its groups, read a few rows at a time.

| ending | groups | read |
|---|---|---|
| .parquet | row groups | by pages: a batch is decoded, not the row group; text of few values as codes |
| .arrow .feather .ipc | batches of the file | one at a time |
| .csv .tsv, also compressed | one | by blocks of 1 MiB; all cells are text |
| .npy | parts of 2^20 cells | by memory map |
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from plica.errors import FileFormatError
from plica.files.rows.arrays import ArrayRows
from plica.files.tables import delimiter_of, is_header, map_npy

_BUFFERS = 1 << 26  # bytes of all columns of a Parquet file that are read at once
_LARGEST_BUFFER = 1 << 16  # of one column
_SMALL_DICTIONARY = 1 << 16  # bytes of the values of a column of text that is read as codes
_GROUP_CELLS = 1 << 20  # of an array
_HEAD = 1 << 16  # bytes of a text by which its delimiter and its names are found


@dataclass(frozen=True, slots=True)
class Options:
    """How to read the files of a source.

    Args:
        delimiter: Of texts; None for the one that the first lines suggest.
        named: Whether the first line of a text holds names; None if it does where none of its cells is a number.
    """

    delimiter: str | None = None
    named: bool | None = None


class TableFile(ABC):
    """An open file of rows.

    Attributes:
        schema: A `pyarrow.Schema`: the columns in the file's order.
        read_types: The types of the columns as they are read, where text may be codes of a dictionary.
        sizes: The number of rows of each group, None where it is not known.
        has_names: Whether the file names its columns.
        is_array: Whether the file is an array of numbers, in which a date is a number of days from 1970.
    """

    schema: Any
    read_types: tuple[Any, ...]
    sizes: tuple[int | None, ...]
    has_names: bool = True
    is_array: bool = False

    @abstractmethod
    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """Some columns of a group by their positions, in RecordBatches of about `size` rows."""

    def place(self, row: int, group: int) -> str:
        """The end of the name of a row in messages."""
        return f"row {row} (row group {group})" if len(self.sizes) > 1 else f"row {row}"

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class ParquetTable(TableFile):
    """A file of Parquet.

    Args:
        system: The file system.
        path: The file in it.
    """

    def __init__(self, system: Any, path: str, _name: str, _options: Options) -> None:
        is_local = isinstance(system, pa.fs.LocalFileSystem)
        file = system.open_input_file(path)
        try:
            metadata = pq.read_metadata(file)
            # Far files are read in few large pieces, near ones through a small buffer for each column.
            buffer = min(_LARGEST_BUFFER, max(4096, _BUFFERS // max(1, metadata.num_columns))) if is_local else 0
            self._file = pq.ParquetFile(
                file,
                metadata=metadata,
                pre_buffer=not is_local,
                buffer_size=buffer,
                read_dictionary=_texts_of_few(metadata),
            )
        except BaseException:
            file.close()
            raise
        self._source = file
        self.schema = metadata.schema.to_arrow_schema()
        self.read_types = tuple(self._file.schema_arrow.types)
        self.sizes = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """See `TableFile.read`."""
        names = [self.schema.names[position] for position in columns]
        for batch in self._file.iter_batches(size, row_groups=[group], columns=names):
            yield batch.select(names)

    def close(self) -> None:
        """See `TableFile.close`."""
        self._file.close(force=True)
        self._source.close()


class ArrowTable(TableFile):
    """A file of Arrow (Feather 2), which holds batches.

    Args:
        system: The file system.
        path: The file in it.
    """

    def __init__(self, system: Any, path: str, _name: str, _options: Options) -> None:
        self._source = system.open_input_file(path)
        try:
            self._file = pa.ipc.open_file(self._source)
            self.schema, self.read_types = self._file.schema, tuple(self._file.schema.types)
            # The number of rows stands before the columns of a batch, of which the first is read with it.
            first = pa.ipc.open_file(self._source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
            self.sizes = tuple(first.get_batch(group).num_rows for group in range(first.num_record_batches))
        except BaseException:
            self._source.close()
            raise

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """See `TableFile.read`."""
        options = pa.ipc.IpcReadOptions(included_fields=sorted(set(columns)))
        batch = pa.ipc.open_file(self._source, options=options).get_batch(group)
        names = [self.schema.names[position] for position in columns]
        yield from sliced(batch.select(names), size)

    def close(self) -> None:
        """See `TableFile.close`."""
        self._source.close()


class TextTable(TableFile):
    """A text of cells, whose columns are all text; empty cells are missing.

    Args:
        system: The file system.
        path: The file in it.
        name: Its name in messages.
        options: Its delimiter, and whether it has names.
    """

    def __init__(self, system: Any, path: str, name: str, options: Options) -> None:
        self._open: Callable[[], Any] = lambda: system.open_input_stream(path, compression="detect")
        with self._open() as file:
            head = file.read(_HEAD).decode("utf-8-sig", errors="replace")
        self._delimiter = options.delimiter or ("\t" if ".tsv" in Path(path).suffixes else delimiter_of(head))
        first = next((row for row in csv.reader(io.StringIO(head, newline=""), delimiter=self._delimiter) if row), None)
        if first is None:
            raise FileFormatError(f"{name}: the file holds no rows")
        self.has_names = options.named if options.named is not None else is_header(first)
        names = first if self.has_names else [str(position) for position in range(len(first))]
        if len({name.strip() for name in names}) == len(names):
            self.schema = pa.schema([(name, pa.string()) for name in names])
            self.read_types = tuple(self.schema.types)
        else:
            twice = next(name.strip() for name in names if sum(name.strip() == other.strip() for other in names) > 1)
            raise FileFormatError(f"{name}: two columns are called {twice!r}; rename one: names tell columns apart")
        self.sizes = (None,)

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:  # noqa: ARG002 - there is one
        """See `TableFile.read`."""
        names = [self.schema.names[position] for position in columns]
        read = pa.csv.ReadOptions(column_names=None if self.has_names else self.schema.names)
        parse = pa.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=len(self.schema) > 1
        )
        convert = pa.csv.ConvertOptions(
            column_types=self.schema,
            include_columns=names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        with self._open() as file, pa.csv.open_csv(file, read, parse, convert) as reader:
            for batch in reader:
                yield from sliced(batch, size)

    def place(self, row: int, group: int) -> str:  # noqa: ARG002 - there is one
        """The number of the line where a row ends, for which the text is read up to there."""
        with self._open() as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, delimiter=self._delimiter)
            rows = (lines.line_num for cells in lines if cells or len(self.schema) == 1)
            number = next(islice(rows, row + self.has_names, None), None)
        return f"row {row}" if number is None else f"line {number}"

    def close(self) -> None:
        """See `TableFile.close`."""


class ArrayTable(TableFile):
    """An array of numbers, `(N, ...)`, flattened to columns 0, 1, ...

    Args:
        system: The file system, which is the machine's own.
        path: The file.
        name: Its name in messages.

    Raises:
        FileFormatError: The file is elsewhere.
    """

    def __init__(self, system: Any, path: str, name: str, _options: Options) -> None:
        if not isinstance(system, pa.fs.LocalFileSystem):
            raise FileFormatError(f"{name}: a .npy is read by memory map, from this machine alone; copy it here")
        rows = ArrayRows(map_npy(Path(path)), name)
        self._values = rows.values.reshape(len(rows.values), rows.width)
        self._dtype, self._step = rows.dtype, max(1, _GROUP_CELLS // max(1, rows.width))
        stored = pa.from_numpy_dtype(self._dtype)
        self.schema = pa.schema([(str(position), stored) for position in range(rows.width)])
        self.read_types = (stored,) * rows.width
        starts = range(0, len(self._values), self._step)
        self.sizes = tuple(min(self._step, len(self._values) - start) for start in starts)
        self.has_names, self.is_array = False, True

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """See `TableFile.read`."""
        first, last = group * self._step, group * self._step + (self.sizes[group] or 0)
        schema = pa.schema([self.schema.field(position) for position in columns])
        for start in range(first, last, size):
            part = self._values[start : min(start + size, last)]
            chosen = np.ascontiguousarray(part[:, list(columns)].T, dtype=self._dtype)  # (D, B)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in chosen], schema=schema)

    def place(self, row: int, group: int) -> str:  # noqa: ARG002 - its parts are ours
        """See `TableFile.place`."""
        return f"row {row}"

    def close(self) -> None:
        """See `TableFile.close`."""


def _texts_of_few(metadata: Any) -> list[str]:
    """The columns of text that the first row group stores as codes of a small dictionary: they stay codes.

    A file whose dictionary grows beyond a limit of its writer, often 1 MiB, stores plain text from there on.
    """
    if not metadata.num_row_groups:
        return []
    group = metadata.row_group(0)
    columns = [group.column(leaf) for leaf in range(metadata.num_columns)]
    return [
        column.path_in_schema
        for leaf, column in enumerate(columns)
        if column.physical_type == "BYTE_ARRAY"
        and metadata.schema.column(leaf).logical_type.type == "STRING"
        and column.has_dictionary_page
        and column.data_page_offset - column.dictionary_page_offset <= _SMALL_DICTIONARY
    ]


def sliced(batch: Any, size: int) -> Iterator[Any]:
    """A RecordBatch in pieces of at most `size` rows, which share its memory."""
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


# (file system, path in it, name in messages, options) -> the open file
Opener: TypeAlias = Callable[[Any, str, str, Options], TableFile]

FORMATS: Mapping[str, Opener] = {
    ".parquet": ParquetTable,
    ".arrow": ArrowTable,
    ".feather": ArrowTable,
    ".ipc": ArrowTable,
    ".csv": TextTable,
    ".tsv": TextTable,
    ".npy": ArrayTable,
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


def format_of(name: str) -> Opener:
    """The format of a file by its ending.

    Raises:
        FileFormatError: The ending is not known.
    """
    path = Path(name)
    ending = path.suffix.lower()
    if ending in _COMPRESSED and Path(path.stem).suffix.lower() in (".csv", ".tsv"):
        ending = Path(path.stem).suffix.lower()
    if ending not in FORMATS:
        raise FileFormatError(
            f"{name}: cannot tell what kind of table this is from its ending {ending or '(none)'!r}; expected one of "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[ending]
