"""Tables that are read from files, of any kind: `.csv`, arrays, and by pyarrow Parquet, Arrow and folders of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.files.rows import READERS
from plica.files.rows.arrow_cells import require_pyarrow
from plica.files.rows.batch import Array, Batch, RowFile
from plica.files.tables import choose_reader


def open_table(path: Path, *, key: str | None = None, named: bool = False, delimiter: str | None = None) -> RowFile:
    """A table, to be used as a context.

    Args:
        path: The file; its ending decides how it is read. Or a folder of files of Parquet or Arrow.
        key: Which array of a `.npz`; by default the only one, else `images`, else `train`.
        named: Whether the first line of a text holds names; else it does if none of its cells is a number.
        delimiter: The delimiter of a text; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or of another kind.
    """
    if path.is_dir():
        return _open_stream(path)
    return choose_reader(path, _READERS, key=key, delimiter=delimiter)(path, key, named, delimiter)


def numbers_reader(
    encoding: Encoding,
    rows: RowFile,
    *,
    unknown: Callable[[TableColumn, Any], None] | None = None,
    unread: str | None = None,
) -> Callable[[Batch], Array]:
    """A function from batches of a table to rows of the circuit; see `Encoding.reader`."""
    if rows.stream is None:
        return encoding.reader(rows, unknown=unknown, unread=unread)
    from plica.tables import streams

    assert isinstance(rows, streams.StreamFile), "which has a stream"
    return streams.numbers_reader(encoding, rows, unknown=unknown, unread=unread)


def _open_stream(path: Path, _key: str | None = None, _named: bool = False, _delimiter: str | None = None) -> RowFile:
    require_pyarrow()
    from plica.data import Rows
    from plica.tables.streams import StreamFile

    return StreamFile(Rows(path))


_READERS: Mapping[str, Callable[[Path, str | None, bool, str | None], RowFile]] = {
    **READERS,
    **dict.fromkeys((".parquet", ".arrow", ".feather"), _open_stream),
}
