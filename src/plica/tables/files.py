"""Tables that are read from files: paths, folders and addresses, all of them by `plica.data.Rows`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

from plica.files.encoding import Encoding, read_numbers
from plica.files.kinds import TableColumn
from plica.files.rows.batch import Array, Batch, RowFile
from plica.files.tables import check_options, unknown_ending
from plica.paths import check_is_file

if TYPE_CHECKING:
    from plica.tables.streams import StreamFile

Location: TypeAlias = Path | str
"""Where rows lie: a path, or an address such as s3://bucket/rows."""

TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc")
"""The endings of files of columns."""


def local_path(location: Location) -> Path | None:
    """The path of rows on this machine; None for those that lie elsewhere."""
    if isinstance(location, Path):
        return location
    address = urlsplit(location)
    return Path(url2pathname(address.path)) if address.scheme in ("file", "local") else None


def open_table(
    path: Location, *, key: str | None = None, named: bool = False, delimiter: str | None = None
) -> StreamFile:
    """A table, to be used as a context.

    Args:
        path: The file, whose ending decides how it is read; a folder of such files; or the address of either.
        key: Which array of a `.npz`; by default the only one, else `images`, else `train`.
        named: Whether the first line of a text holds names; else it does if none of its cells is a number.
        delimiter: The delimiter of a text; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or of another kind.
    """
    from plica.data import Rows
    from plica.data.formats import FORMATS, ending_of
    from plica.tables.streams import StreamFile

    ending = ending_of(str(path))
    if isinstance(path, Path) and not path.is_dir():
        check_is_file(path)
        if ending not in FORMATS:
            raise unknown_ending(str(path), ending, FORMATS)
    if ending in FORMATS:  # else the files of a folder have one
        check_options(str(path), ending, key=key, delimiter=delimiter)
    rows = Rows(path, key=key, named=True if named else None, delimiter=delimiter)
    check_options(str(path), rows.ending, key=key, delimiter=delimiter)
    return StreamFile(rows)


def numbers_reader(
    encoding: Encoding | None,
    rows: RowFile,
    *,
    unknown: Callable[[TableColumn, Any], None] | None = None,
    unread: str | None = None,
) -> Callable[[Batch], Array]:
    """A function from batches of a table to rows of the circuit; see `Encoding.reader`.

    Without an encoding the rows are numbers; see `plica.files.encoding.read_numbers`.
    """
    if rows.stream is None:
        return read_numbers if encoding is None else encoding.reader(rows, unknown=unknown, unread=unread)
    from plica.tables import streams

    assert isinstance(rows, streams.StreamFile), "which has a stream"
    return streams.numbers_reader(encoding, rows, unknown=unknown, unread=unread)
