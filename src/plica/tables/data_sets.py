"""Data sets of tables with typed columns: from files and frames, their kinds inferred, as numbers in three parts.

Of a stream (`streams.py`) no cell becomes an object of Python: one pass finds the kinds of the columns, another the
numbers. Of a large one training rows are not held (`large.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files.datasets import SPLITS, Dataset, ImageShape, from_path, name_of, split_rows
from plica.files.encoding import Encoding
from plica.files.infer import ColumnRecord, infer_columns
from plica.files.kinds import TableColumn
from plica.files.rows.batch import Array, Batch, RowFile
from plica.files.tables import npz_keys
from plica.paths import as_path
from plica.symbolic.domains import Domain
from plica.tables.files import Location, open_table

_SHOWN = 5  # columns that a message lists
_ROWS_AT_ONCE = 4096

Records: TypeAlias = Mapping[str, ColumnRecord]


def from_typed(
    path: Location,
    *,
    records: Mapping[str, ColumnRecord],
    words: Sequence[str] = (),
    seed: int = 0,
    key: str | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """A table whose cells are text, whole numbers or reals, or missing, its rows split at random 72 / 14 / 14.

    Args:
        path: A text with names in its first line, a file of Parquet or Arrow, an array; a folder or an
            address of these.
        records: The user's records of some columns, by name; other columns are inferred from their cells.
        words: Text that means that a cell is missing, beside empty text.
        seed: The seed of the random split.
        key: Which array of a `.npz` to read.
        delimiter: The delimiter of a `.csv`; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file cannot be read.
        InputError: A cell does not fit its column, or there are too few rows.
    """
    is_archive = isinstance(path, Path) and path.suffix.lower() == ".npz"
    is_split = is_archive and key is None and set(SPLITS) <= set(npz_keys(Path(path)))
    if is_split and "num_variables" in npz_keys(Path(path)):
        raise InputError(f"{path}: packed bits (num_variables) are rows of one kind; leave --columns out")
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(open_table(path, key=name, named=True, delimiter=delimiter))
            for name in (SPLITS if is_split else (key,))
        ]
        return of_rows(files, name=name_of(Path(path)), source=str(path), records=records, words=words, seed=seed)


def from_numbers(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    key: str | None = None,
    image_shape: ImageShape | None = None,
    num_values: int | None = None,
    domain: Domain | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """Rows of one kind; see `plica.files.datasets.from_path`. Training rows of a large array are not held.

    Raises:
        FileFormatError: The file cannot be read.
        InputError: A value does not fit, or there are too few rows.
    """
    path = as_path(path)
    ending = path.suffix.lower()
    is_split = ending == ".npz" and key is None and set(SPLITS) <= set(npz_keys(path))
    if ending in (".npy", ".npz") and delimiter is None and path.is_file() and not is_split:
        from plica.tables.large import large_array

        of_array = large_array(path, seed=seed, key=key, image_shape=image_shape, num_values=num_values, domain=domain)
        if of_array is not None:
            return of_array
    return from_path(
        path,
        seed=seed,
        key=key,
        image_shape=image_shape,
        num_values=num_values,
        domain=domain,
        delimiter=delimiter,
    )


def of_rows(
    files: Sequence[RowFile],
    *,
    name: str,
    source: str,
    records: Mapping[str, ColumnRecord],
    words: Sequence[str] = (),
    seed: int = 0,
    with_test: bool = True,
) -> Dataset:
    """A table of typed columns: one open file, split at random, or the open files of three splits.

    Args:
        files: One file, or those of the training, validation and test rows.
        name: The name of the data set in reports.
        source: The name of the table in messages.
        records: The user's records of some columns, by name; other columns are inferred from their cells.
        words: Text that means that a cell is missing, beside empty text.
        seed: The seed of the random split.
        with_test: Whether to split 72 / 14 / 14; else 86 / 14, without test rows.

    Raises:
        FileFormatError: A file cannot be read.
        InputError: A cell does not fit its column, or there are too few rows.
    """
    names = files[0].names or tuple(map(str, range(files[0].width)))
    for rows in files:
        if rows.width != len(names):
            raise InputError(f"{rows.source}: rows of {rows.width} cells, expected {len(names)}")
    for position, column_name in enumerate(names):
        if column_name in records and records[column_name]["kind"] != "ignored":
            files[0].check_can_model(position)
    if files[0].stream is not None:
        from plica.data import NumberRows, Summary, summarise
        from plica.data.rows import rows_at_once

        size = rows_at_once(len(names))
        summaries = [summarise(rows.stream, words=words, size=size) for rows in files]
        encoding = _encoding(reduce(Summary.merged, summaries).infer(records), words, source)
        streams = [(rows.stream, summary.num_rows) for rows, summary in zip(files, summaries, strict=True)]
        if len(streams) == 1:
            (rows, num_rows) = streams[0]
            return _of_stream(rows, encoding, num_rows, name=name, seed=seed, with_test=with_test)
        train, valid, test = (_numbers(NumberRows(rows, encoding), num_rows) for rows, num_rows in streams)
        return Dataset(name, train, valid, test, None, None, encoding)
    encoding, values = _read_cells(files, names, source=source, records=records, words=words)
    return Dataset(name, *split_rows(values[0], source, seed, with_test=with_test), None, None, encoding)


def _read_cells(
    files: Sequence[RowFile], names: Sequence[str], *, source: str, records: Records, words: Sequence[str]
) -> tuple[Encoding, list[Array]]:
    parts = [_whole(rows) for rows in files]
    cells = np.concatenate([part.cells for part in parts])
    encoding = _encoding(infer_columns(names, cells, records=records, words=words, source=source), words, source)
    return encoding, [encoding.reader(rows)(part) for rows, part in zip(files, parts, strict=True)]


def _of_stream(rows: Any, encoding: Encoding, num_rows: int, *, name: str, seed: int, with_test: bool) -> Dataset:
    """A table of known columns from `plica.data.Rows`; its training rows are not held if it is large."""
    from plica.data import NumberRows
    from plica.tables.large import is_large, streamed_split

    stream = NumberRows(rows, encoding)
    if is_large(num_rows, stream.width):
        train, valid, test, streamed = streamed_split(stream, num_rows, seed, with_test=with_test)
        return Dataset(name, train, valid, test, None, None, encoding, streamed)
    parts = split_rows(_numbers(stream, num_rows), rows.source, seed, with_test=with_test)
    return Dataset(name, *parts, None, None, encoding)


def _numbers(rows: Any, num_rows: int) -> Array:
    """All rows of a `plica.data.NumberRows`."""
    values, stop = np.empty((num_rows, rows.width)), 0
    for part in rows.batches():
        start, stop = stop, stop + len(part)
        values[start:stop] = part
    return values[:stop]


def _encoding(columns: tuple[TableColumn, ...], words: Sequence[str], source: str) -> Encoding:
    """The encoding of inferred columns.

    Raises:
        InputError: Every column is ignored.
    """
    encoding = Encoding(columns, tuple(words))
    if not encoding.modelled:
        why = "; ".join(f"{column.name!r}: {column.why or 'as said'}" for column in columns[:_SHOWN])
        raise InputError(f"{source}: every column is ignored, so there is nothing to model ({why})")
    return encoding


def read_split(rows: RowFile, encoding: Encoding, *, name: str = "table", seed: int = 0) -> Dataset:
    """A table of columns that are known, its rows split at random 86 / 14 for training and validation.

    Raises:
        InputError: A cell does not fit its column, or there are too few rows.
    """
    if rows.stream is not None:
        from plica.data import NumberRows

        num_rows = len(NumberRows(rows.stream, encoding))
        return _of_stream(rows.stream, encoding, num_rows, name=name, seed=seed, with_test=False)
    values = encoding.reader(rows)(_whole(rows))
    return Dataset(name, *split_rows(values, rows.source, seed, with_test=False), None, None, encoding)


def _whole(rows: RowFile) -> Batch:
    """All rows of a file at once."""
    batches = list(rows.batches(_ROWS_AT_ONCE))
    if not batches:
        raise FileFormatError(f"{rows.source}: the file holds no rows")
    return Batch(
        np.concatenate([batch.cells for batch in batches]), [label for batch in batches for label in batch.labels]
    )
