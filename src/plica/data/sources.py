"""Where rows come from: files, tables in memory, and streams; each gives groups, and reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa

from plica.data.batch import Group
from plica.data.locations import UNREADABLE, readable
from plica.data.schemas import cast, plain_schema
from plica.data.table_file import sliced
from plica.errors import DTypeError, FileFormatError, InputError
from plica.files.tables import one_line

# Reads a group as RecordBatches.
ReadGroup = Callable[[Group], Iterator[Any]]


class Source(ABC):
    """Rows of columns.

    Attributes:
        name: Its name in messages.
        schema: A `pyarrow.Schema`. Batches may have codes of a dictionary for a column of text.
        header: The names with the spaces around them, where these were taken off.
        has_names: Whether its columns have names of their own.
        row_shape: The shape of a row where it is an array of numbers, in which a date is a number of days from 1970;
            else None.
        delimiter: The delimiter where it is a text; else None.
        ending: That of its files, which names their format; else nothing.
    """

    name: str
    schema: Any
    header: tuple[str, ...] = ()
    has_names: bool = True
    row_shape: tuple[int, ...] | None = None
    delimiter: str | None = None
    ending: str = ""

    @abstractmethod
    def groups(self) -> Iterator[Group]:
        """The groups in their order; a file is opened when its first group is asked for."""

    @abstractmethod
    def reading(self, columns: Sequence[int], size: int) -> AbstractContextManager[ReadGroup]:
        """A function that reads groups, each as RecordBatches of about `size` rows.

        Args:
            columns: The positions of the columns to read.
            size: Rows that are read at once.
        """

    def stamps(self) -> tuple[str, ...]:
        """For each file its name, size and time of change, by which another process knows it again; else nothing."""
        return ()


class TableSource(Source):
    """A table in memory, such as a frame of polars or pandas.

    Args:
        table: A `pyarrow.Table`.
        name: Its name in messages.
    """

    def __init__(self, table: Any, name: str) -> None:
        self.name, self.schema, self.header = name, plain_schema(table.schema), tuple(table.schema.names)
        arrays = [cast(column, kind) for column, kind in zip(table.columns, self.schema.types, strict=True)]
        self._table = pa.Table.from_arrays(arrays, schema=self.schema)

    def groups(self) -> Iterator[Group]:
        """See `Source.groups`; the chunks of a table are no groups, since it is at hand as a whole."""
        if self._table.num_rows:
            yield Group(0, 0, 0, self._table.num_rows, lambda row: f"{self.name}, row {row} (counted from 0)")

    @contextmanager
    def reading(self, columns: Sequence[int], size: int) -> Iterator[ReadGroup]:
        """See `Source.reading`."""
        chosen = self._table.select(list(columns)).unify_dictionaries()
        yield lambda _: iter(chosen.to_batches(max_chunksize=size))


class StreamSource(Source):
    """A stream of batches: a query of a database, a reader of record batches.

    Args:
        make: Makes a `pyarrow.RecordBatchReader`.
        once: Whether its rows can be read only once.
        name: Its name in messages.
    """

    def __init__(self, make: Callable[[], Any], once: bool, name: str) -> None:
        self.name, self._make, self._once = name, make, once
        self._begun = False
        with readable(name, "cannot be read"):
            self._reader = make()
        self.schema, self.header = plain_schema(self._reader.schema), tuple(self._reader.schema.names)
        if not once:  # a query that is not over would stand in the way of others
            self._reader.close()
            self._reader = None

    def groups(self) -> Iterator[Group]:
        """See `Source.groups`."""
        yield Group(0, 0, 0, None, lambda row: f"{self.name}, row {row} (counted from 0)")

    @contextmanager
    def reading(self, columns: Sequence[int], size: int) -> Iterator[ReadGroup]:
        """See `Source.reading`.

        Raises:
            InputError: The stream was read before.
        """
        if self._begun and self._once:
            raise InputError(
                f"{self.name} can be read once, and it was; open it again, or make a table of it, as by its read_all()"
            )
        reader, self._reader, self._begun = self._reader, None, True
        if reader is None:
            reader = self._make()

        schema = pa.schema([self.schema.field(position) for position in columns])

        def read(_: Group) -> Iterator[Any]:
            row = 0
            while True:
                try:
                    batch = next(reader, None)
                except UNREADABLE as error:
                    raise FileFormatError(
                        f"{self.name}: ended in an error after row {row} ({one_line(error)})"
                    ) from error
                if batch is None:
                    return
                row += batch.num_rows
                arrays = [cast(batch.column(position), self.schema.types[position]) for position in columns]
                yield from sliced(pa.RecordBatch.from_arrays(arrays, schema=schema), size)

        try:
            yield read
        finally:
            reader.close()


def of_object(source: Any) -> Source:
    """The rows of an object that gives Arrow: a frame, a reader, a relation of DuckDB, a cursor of ADBC.

    Raises:
        DTypeError: It gives none.
    """
    import narwhals.stable.v2 as nw  # names that stay what they are

    kind = type(source).__name__
    if not hasattr(source, "__arrow_c_stream__"):
        if hasattr(source, "fetch_record_batch"):  # a cursor
            return StreamSource(source.fetch_record_batch, True, f"the result of {kind}")
        raise DTypeError(
            f"expected a path, an address, a list of these, or an object with Arrow's stream (a frame of polars or "
            f"pandas, a table of pyarrow, a relation of DuckDB, a cursor of ADBC), found {kind}"
        )
    if nw.dependencies.is_pandas_dataframe(source):
        with readable("the table", "cannot be read", "give each column cells of one type"):
            return TableSource(pa.Table.from_pandas(source, preserve_index=False), "the table")
    if isinstance(nw.from_native(source, eager_only=True, pass_through=True), nw.DataFrame):
        return TableSource(source if isinstance(source, pa.Table) else pa.table(source), "the table")
    if isinstance(source, pa.RecordBatch):
        return TableSource(pa.Table.from_batches([source]), "the batch")
    is_relation = hasattr(source, "__len__")  # a query, which runs again
    return StreamSource(lambda: pa.RecordBatchReader.from_stream(source), not is_relation, f"the stream of {kind}")
