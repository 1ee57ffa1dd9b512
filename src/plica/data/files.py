"""Rows of one file or many: one schema for all, columns that folders name, and errors that name the file.

The schema is that of the first file. Another file may store numbers, texts, dates or times of other widths, which are
cast; a column that it lacks, or that holds something else, is an error once the file is reached. Columns that only
later files have are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from plica.data.batch import Group
from plica.data.formats import ending_of, format_of
from plica.data.locations import UNREADABLE, Location, readable
from plica.data.schemas import cast, check_names, may_be_cast, plain_schema
from plica.data.sources import ReadGroup, Source
from plica.data.table_file import Options, TableFile
from plica.errors import FileFormatError, InputError
from plica.files.tables import one_line

_MOST_OPEN, _MOST_OPEN_COLUMNS = 32, 1 << 14  # files that stay open, and their columns: footers are held
_CUT_SHORT = "cut short?"


class FileSource(Source):
    """The rows of files.

    Args:
        name: The name of the source in messages.
        location: The files.
        options: How to read them.

    Raises:
        FileFormatError: The first file cannot be read, or the files are of several kinds.
    """

    def __init__(self, name: str, location: Location, options: Options) -> None:
        self.name, self._location, self._options = name, location, options
        self._format = format_of(location.names[0])
        for file in location.names:
            if format_of(file) is not self._format:
                raise FileFormatError(f"{file}: of another kind than {location.names[0]}; read one kind at a time")
        with self._opened(0) as first:
            own, as_read = _schemas(first)
            header = first.schema.names
            self.has_names, self.row_shape, self.delimiter = first.has_names, first.row_shape, first.delimiter
        self.ending = ending_of(location.names[0])
        self._own, as_read = self._with_later_types(own, as_read)
        self._keys, keys = self._partitions()
        self.header = (*header, *(key.name for key in keys))
        self.schema, self._as_read = pa.schema([*self._own, *keys]), pa.schema([*as_read, *keys])

    def groups(self) -> Iterator[Group]:
        """See `Source.groups`."""
        for file in range(len(self._location.paths)):
            with self._opened(file) as opened:
                self._positions(opened, file, range(len(self._own)))
                sizes = opened.sizes
            first = 0
            for number, size in enumerate(sizes):
                if size is None or size:
                    yield Group(file, number, first, size, _Label(self, file, number))
                first += size or 0

    @contextmanager
    def reading(self, columns: Sequence[int], size: int) -> Iterator[ReadGroup]:
        """See `Source.reading`; the last files stay open for their next groups, which may come in random order.

        A file of Parquet that is opened anew for each group takes time, and leaves the memory of the process in pieces.
        """
        opened: dict[int, TableFile] = {}  # the last one used is at the end
        most = max(1, min(_MOST_OPEN, _MOST_OPEN_COLUMNS // len(self._own)))
        schema = pa.schema([self._as_read.field(position) for position in columns])
        own = [position for position in columns if position < len(self._own)]

        def read(group: Group) -> Iterator[Any]:
            file, row = group.file, group.first
            if file not in opened and len(opened) == most:
                opened.pop(next(iter(opened))).close()
            opened[file] = opened.pop(file) if file in opened else self._open(file)
            positions = self._positions(opened[file], file, own)
            batches = opened[file].read(group.number, positions, size)
            while True:
                with self._naming(group, row):
                    batch = next(batches, None)
                if batch is None:
                    return
                keys = {name: pa.scalar(key) for name, key in self._keys[file].items()} if self._keys else {}
                yield self._conforming(batch, own, keys, schema, group)
                row += batch.num_rows

        try:
            yield read
        finally:
            for opened_file in opened.values():
                opened_file.close()

    def stamps(self) -> tuple[str, ...]:
        """See `Source.stamps`."""
        infos = self._location.system.get_file_info(list(self._location.paths))
        return tuple(
            f"{name} {info.size} {info.mtime_ns}" for name, info in zip(self._location.names, infos, strict=True)
        )

    def label(self, file: int, group: int, row: int) -> str:
        """The name of a row in messages."""
        with self._opened(file) as opened:
            return f"{self._location.names[file]}, {opened.place(row, group)}"

    def _open(self, file: int) -> TableFile:
        name = self._location.names[file]
        try:
            opened = self._format(self._location.system, self._location.paths[file], name, self._options)
        except FileFormatError:
            raise
        except UNREADABLE as error:
            kind = Path(name).suffix
            raise FileFormatError(f"{name}: not a readable {kind} file ({one_line(error)}); {_CUT_SHORT}") from error
        try:
            check_names(plain_schema(opened.schema), name)
        except BaseException:
            opened.close()
            raise
        return opened

    @contextmanager
    def _opened(self, file: int) -> Iterator[TableFile]:
        opened = self._open(file)
        try:
            yield opened
        finally:
            opened.close()

    def _with_later_types(self, own: Any, as_read: Any) -> tuple[Any, Any]:
        """The schemas with the types that later files have for columns that are empty in the first."""
        empty = {field.name for field in own if pa.types.is_null(field.type)}
        for file in range(1, len(self._location.paths) if empty else 0):
            with self._opened(file) as opened:
                later, later_as_read = _schemas(opened)
            for name in [
                name for name in later.names if name in empty and not pa.types.is_null(later.field(name).type)
            ]:
                position = own.get_field_index(name)
                own = own.set(position, later.field(name))
                as_read = as_read.set(position, later_as_read.field(name))
                empty.remove(name)
            if not empty:
                break
        return own, as_read

    def _partitions(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """The values that the folders of each file name, as in `year=2026/a.parquet`, and their fields."""
        location = self._location
        if location.root is None or not any("=" in path[len(location.root) :] for path in location.paths):
            return [], []
        with readable(self.name, "the folders name no partitions", "write them as column=value"):
            factory = ds.FileSystemDatasetFactory(
                location.system,
                list(location.paths),
                ds.ParquetFileFormat(),
                ds.FileSystemFactoryOptions(
                    partitioning=ds.HivePartitioning.discover(), partition_base_dir=location.root
                ),
            )
            inferred = factory.inspect(fragments=0)
            dataset = factory.finish(pa.schema([*self._own, *inferred]))
        keys = {
            fragment.path: ds.get_partition_keys(fragment.partition_expression) for fragment in dataset.get_fragments()
        }
        repeated = [name for name in inferred.names if name in self._own.names]
        if repeated:
            raise FileFormatError(
                f"{self.name}: the column {repeated[0]!r} is in the files and in the names of folders"
            )
        return [keys[path] for path in location.paths], list(inferred)

    def _positions(self, opened: TableFile, file: int, columns: Sequence[int]) -> list[int]:
        """The positions of columns of the schema in a file.

        Raises:
            InputError: The file lacks a column, or has something else in it.
        """
        names = [name.strip() for name in opened.schema.names]
        positions = []
        for column in columns:
            field, first = self._own.field(column), self._location.names[0]
            if field.name not in names:
                raise InputError(
                    f"{self._location.names[file]}: there is no column {field.name!r}, which {first} has; add it, with "
                    "empty cells where values are unknown, or leave the file out"
                )
            position = names.index(field.name)
            stored = opened.schema.field(position).type
            if not may_be_cast(stored, field.type):
                raise InputError(
                    f"{self._location.names[file]}: column {field.name!r} holds {stored}, expected {field.type} as in "
                    f"{first}; write the files with one schema"
                )
            positions.append(position)
        return positions

    def _conforming(self, batch: Any, own: Sequence[int], keys: dict[str, Any], schema: Any, group: Group) -> Any:
        """A batch with the columns and types of the source."""
        by_name = {self._own.field(column).name: array for column, array in zip(own, batch.columns, strict=True)}
        arrays = []
        for field in schema:
            if field.name not in by_name:
                arrays.append(pa.repeat(keys[field.name].cast(field.type), batch.num_rows))
                continue
            array = by_name[field.name]
            try:
                arrays.append(cast(array, field.type))
            except pa.ArrowException as error:
                raise InputError(
                    f"{group.label(group.first)}, column {field.name!r} and below: {one_line(error)}; expected "
                    f"{field.type} as in {self._location.names[0]}; write the files with one schema"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @contextmanager
    def _naming(self, group: Group, row: int) -> Iterator[None]:
        try:
            yield
        except FileFormatError:
            raise
        except UNREADABLE as error:
            where = f"row group {group.number}, " if group.num_rows is not None else ""
            name = self._location.names[group.file]
            raise FileFormatError(
                f"{name}: cannot be read from {where}row {row} on ({one_line(error)}); {_CUT_SHORT}"
            ) from error


class _Label:
    """The names of the rows of a group."""

    def __init__(self, source: FileSource, file: int, group: int) -> None:
        self._source, self._file, self._group = source, file, group

    def __call__(self, row: int) -> str:
        return self._source.label(self._file, self._group, row)


def _schemas(opened: TableFile) -> tuple[Any, Any]:
    """The columns of a file, and as they are read, without the spaces around their names."""
    as_read = pa.schema(list(zip(opened.schema.names, opened.read_types, strict=True)))
    return plain_schema(opened.schema), plain_schema(as_read)
