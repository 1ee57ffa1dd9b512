"""Open files of rows, one class for each format: what each holds, and its groups, read a few rows at a time.

| ending | groups | read |
|---|---|---|
| .parquet | row groups | by pages: a batch is decoded, not the row group; text of few values as codes |
| .arrow .feather .ipc | batches of the file | one at a time |
| .csv .tsv, also compressed | one | by blocks of 1 MiB; all cells are text |
| .npy .npz | parts of 2^20 cells | by memory map; of archives piece by piece |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from plica.data.array_table import ArrayTable
from plica.data.table_file import Options, TableFile, sliced
from plica.data.text_table import TextTable
from plica.files.tables import TEXTS, unknown_ending

_BUFFERS = 1 << 26  # bytes of all columns of a Parquet file that are read at once
_LARGEST_BUFFER = 1 << 16  # of one column
_SMALL_DICTIONARY = 1 << 16  # bytes of the values of a column of text that is read as codes


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


# (file system, path in it, name in messages, options) -> the open file
Opener: TypeAlias = Callable[[Any, str, str, Options], TableFile]

FORMATS: Mapping[str, Opener] = {
    ".npy": ArrayTable,
    ".npz": ArrayTable,
    ".csv": TextTable,
    ".tsv": TextTable,
    ".parquet": ParquetTable,
    ".arrow": ArrowTable,
    ".feather": ArrowTable,
    ".ipc": ArrowTable,
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


def ending_of(name: str) -> str:
    """The ending of a file, which names its format; that of `a.csv.gz` is `.csv`."""
    path = Path(name)
    inner = Path(path.stem).suffix.lower()
    return inner if path.suffix.lower() in _COMPRESSED and inner in TEXTS else path.suffix.lower()


def format_of(name: str) -> Opener:
    """The format of a file by its ending.

    Raises:
        FileFormatError: The ending is not known.
    """
    ending = ending_of(name)
    if ending not in FORMATS:
        raise unknown_ending(name, ending, FORMATS)
    return FORMATS[ending]
