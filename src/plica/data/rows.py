"""Rows as a stream, from wherever they lie: `Rows(source).batches(...)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from plica.arguments import found, integer, listed
from plica.arguments import seed as as_seed
from plica.data.ahead import ahead
from plica.data.arrow_cells import cell_type
from plica.data.batch import Group, RowBatch
from plica.data.files import FileSource
from plica.data.locations import locate
from plica.data.order import AnyBatch, Shard, read
from plica.data.schemas import check_names
from plica.data.sources import ReadGroup, Source, of_object
from plica.data.table_file import Options
from plica.errors import FileFormatError, InputError
from plica.files.rows.batch import RowSource
from plica.forks import cached_property

ROWS = 8192
_CELLS_AT_ONCE = 1 << 20


def rows_at_once(width: int) -> int:
    """How many rows of so many columns are read at once."""
    return max(1, min(ROWS, _CELLS_AT_ONCE // width))


class Rows(RowSource):
    """Rows of columns, read a batch at a time; nothing is read before `batches` but the schema of the first file.

    Args:
        source: A path, a folder (whose folders may name partitions, as year=2026), an address such as
            s3://bucket/rows, a list of files, or an object with Arrow's stream: a frame of polars or pandas, a table
            or a reader of pyarrow, a relation of DuckDB, a cursor of ADBC.
        filesystem: The file system of the paths, of pyarrow or fsspec, where its options matter.
        delimiter: The delimiter of texts; by default the one that the first lines suggest.
        named: Whether the first line of a text holds names; by default it does if none of its cells is a number.
        key: Which array of a .npz; by default the only one, else `images`, else `train`.

    Attributes:
        schema: A `pyarrow.Schema`; names without the spaces around them. Where a file of Parquet stores text as codes
            of a small dictionary, batches have the codes.

    Raises:
        FileFormatError: The source cannot be read.
        DTypeError: It is none of these.
    """

    def __init__(
        self,
        source: Any,
        *,
        filesystem: Any = None,
        delimiter: str | None = None,
        named: bool | None = None,
        key: str | None = None,
    ) -> None:
        self._rows = _source(source, filesystem, Options(delimiter, named, key))
        self.source, self.schema = self._rows.name, self._rows.schema
        check_names(self.schema, self.source)
        self._columns = tuple(self.schema.names)
        self.header = self._rows.header or self._columns
        self.names = self._columns if self._rows.has_names else None
        self.width = len(self.schema)
        self.row_shape, self.stored = self._rows.row_shape or (self.width,), tuple(self.schema.types)
        self.delimiter, self.ending = self._rows.delimiter or ",", self._rows.ending
        self.is_text = self._rows.delimiter is not None
        self.types = tuple(cell_type(stored) for stored in self.stored)
        if not self.width:
            raise FileFormatError(f"{self.source}: it has no columns; give it at least one")

    @property
    def is_array(self) -> bool:
        """Whether the rows are an array of numbers, in which a date is a number of days from 1970."""
        return self._rows.row_shape is not None

    @cached_property
    def num_rows(self) -> int | None:  # type: ignore[override]
        """The number of rows; None for texts and streams, which would have to be read. All files are opened for it."""
        sizes = [group.num_rows for group in self.groups()]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def groups(self) -> Iterator[Group]:
        """See `Source.groups`."""
        return self._rows.groups()

    def reading(self, positions: Sequence[int], size: int) -> AbstractContextManager[ReadGroup]:
        """See `Source.reading`."""
        return self._rows.reading(positions, size)

    def stamps(self) -> tuple[str, ...]:
        """See `Source.stamps`."""
        return self._rows.stamps()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        size: int = ROWS,
        shard: tuple[int, int] = (0, 1),
        seed: int | None = None,
    ) -> Generator[RowBatch, None, None]:
        """The rows in batches; the next one is read by a thread, which ends when this is closed or was taken whole.

        Args:
            columns: The names of the columns to read, in the order of the result; by default all.
            size: The rows of each batch but the last.
            shard: `(rank, world)`: the rows of process `rank` of `world`. The shards of all ranks, with one seed, are
                every row once.
            seed: Of a random order, by groups and within a buffer; None for the order of the source. Another seed for
                each epoch gives another order.

        Raises:
            InputError: There is no such column or shard; a file has other columns than the first; a stream is read
                twice; there are fewer rows than processes.
            FileFormatError: A file is damaged, or there are no rows.
        """
        return self.converted(lambda batch: batch, self._positions(columns), size=size, shard=shard, seed=seed)

    def converted(
        self,
        convert: Callable[[RowBatch], AnyBatch],
        positions: Sequence[int],
        *,
        size: int = ROWS,
        shard: tuple[int, int] = (0, 1),
        seed: int | None = None,
        may_be_empty: bool = False,
    ) -> Generator[AnyBatch, None, None]:
        """What a function makes of batches, in the thread that reads them and before rows are shuffled.

        Args:
            convert: The function; it keeps the order of the rows, and may leave some out.
            positions: The columns to read, by their positions.
            size: See `batches`, as for `shard` and `seed`.
            shard: The rows of which process.
            seed: Of a random order.
            may_be_empty: Whether a source without rows gives no batch; else it is an error.

        Raises:
            PlicaError: See `batches`.
        """
        size = integer("Rows.batches", "size", size, least=1)
        seed = None if seed is None else as_seed("Rows.batches", seed)
        return ahead(self._read(convert, positions, size, _shard(shard), seed, may_be_empty))

    def _read(
        self,
        convert: Callable[[RowBatch], AnyBatch],
        positions: Sequence[int],
        size: int,
        shard: Shard,
        seed: int | None,
        may_be_empty: bool,
    ) -> Generator[AnyBatch, None, None]:
        at_once = min(size, rows_at_once(len(positions)))
        any_rows = may_be_empty

        def seen(batch: RowBatch) -> AnyBatch:
            nonlocal any_rows
            any_rows = True
            return convert(batch)

        groups = self.groups()
        with self.reading(positions, at_once) as read_group:
            batches = read(groups, read_group, source=self.source, size=size, shard=shard, seed=seed, convert=seen)
            with closing(batches):
                yield from batches
        if not any_rows and shard.world == 1:
            raise FileFormatError(f"{self.source}: the file holds no rows")

    def _positions(self, columns: Sequence[str] | None) -> list[int]:
        if columns is None:
            return list(range(self.width))
        lacking = [name for name in columns if name not in self._columns]
        if lacking or not columns:
            wanted = f"there is no column {lacking[0]!r}" if lacking else "no column is chosen"
            raise InputError(f"{self.source}: {wanted}; its columns are {', '.join(self._columns)}")
        return [self._columns.index(name) for name in columns]


def _source(source: Any, filesystem: Any, options: Options) -> Source:
    if isinstance(source, str | os.PathLike):
        return FileSource(os.fspath(source), locate(source, filesystem), options)
    if isinstance(source, list | tuple):
        location = locate(source, filesystem)
        more = f" and {len(location.names) - 1} more" if len(location.names) > 1 else ""
        return FileSource(f"{location.names[0]}{more}", location, options)
    return of_object(source)


def _shard(shard: tuple[int, int]) -> Shard:
    parts = listed(shard)
    if len(parts) != 2:
        raise InputError(f"Rows.batches: shard must be (rank, world), {found(shard)}")
    rank, world = (integer("Rows.batches", "shard", part) for part in parts)
    if not 0 <= rank < world:
        raise InputError(f"Rows.batches: shard ({rank}, {world}): expected (rank, world) with 0 <= rank < world")
    return Shard(rank, world)
