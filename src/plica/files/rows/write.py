"""Rows written a batch at a time, whole files or none: `.npy`, `.npz`, `.csv` and `.parquet`.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
>>> with writing_rows(path, ("name", "legs")) as write:
...     write([["cat", 4], ["bird", None]])
>>> path.read_text().split()
['name,legs', 'cat,4', 'bird,']
"""

import csv
import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files.rows.batch import Array
from plica.paths import replacing

# Takes (B, D) cells: an array of numbers, or lists of cells.
Write = Callable[[Any], None]
Shape = tuple[int, ...]
Types = tuple[Any, ...]  # types of cells, or of columns in a file


@contextmanager
def writing_rows(
    path: Path,
    names: Sequence[str],
    row_shape: Shape | None = None,
    types: Sequence[Any] | None = None,
    *,
    named: bool = True,
    delimiter: str = ",",
) -> Iterator[Write]:
    """A function that adds rows to a file; the file appears once the block ends without an error.

    Args:
        path: The file; its ending decides how it is written.
        names: The names of the columns, for files that store names.
        row_shape: The shape of a row in an array, such as `()` for single numbers; by default `(D,)`.
        types: The type of each column for files that store types: a Python type, or the `stored` of another such
            file; by default floats.
        named: Whether a text begins with a line of names; names that are numbers would be read as a row.
        delimiter: The delimiter of a text.

    Raises:
        FileFormatError: The ending is not known, or there is no folder to write to.
        InputError: An array cannot hold the cells.
    """
    check_can_write(path)
    shape = (len(names),) if row_shape is None else row_shape
    kinds = (float,) * len(names) if types is None else tuple(types)
    writer: Any = _WRITERS[path.suffix.lower()]
    if path.suffix.lower() == ".csv":
        writer = partial(_csv, named=named, delimiter=delimiter)
    with replacing(path) as temporary, writer(temporary, tuple(names), shape, kinds) as write:
        yield write


def check_can_write(path: Path) -> None:
    """Raise unless rows can be written to a file of that ending."""
    if path.suffix.lower() not in _WRITERS:
        raise FileFormatError(
            f"{path}: cannot tell how to write a table from its ending {path.suffix or '(none)'!r}; expected one of "
            f"{', '.join(_WRITERS)}"
        )


@contextmanager
def _csv(
    path: Path, names: tuple[str, ...], _shape: Shape, _types: Types, *, named: bool = True, delimiter: str = ","
) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        # The writer quotes cells that hold a character of its line end; a \r alone ends a line for readers.
        writer = csv.writer(_LineFeeds(file), delimiter=delimiter, lineterminator="\r\n")
        if named:
            writer.writerow(names)

        def write(rows: Any) -> None:
            cells = rows.tolist() if isinstance(rows, np.ndarray) else rows
            writer.writerows([text_of(cell) for cell in row] for row in cells)

        yield write


@dataclass(frozen=True, slots=True)
class _LineFeeds:
    """A text file that writes lines that end in CR LF with LF instead."""

    file: IO[str]

    def write(self, line: str) -> None:
        self.file.write(line[:-2] + "\n")


@contextmanager
def _npy(path: Path, _names: tuple[str, ...], shape: Shape, _types: Types) -> Iterator[Write]:
    """Writes the header twice: first with room for the number of rows, which is known only at the end."""
    with path.open("w+b") as file:
        state: dict[str, Any] = {"rows": 0, "dtype": np.dtype(np.float64)}

        def write(rows: Any) -> None:
            values = _numbers(rows)
            if not state["rows"]:
                state["dtype"] = values.dtype
                _header(file, shape, 0, values.dtype)
            if values.dtype != state["dtype"]:
                values = values.astype(state["dtype"])
            file.write(np.ascontiguousarray(values).tobytes())
            state["rows"] += len(values)

        yield write
        start = file.tell()
        file.seek(0)
        _header(file, shape, state["rows"], state["dtype"])
        assert not start or file.tell() <= start, "headers leave room for any number of rows"


def _header(file: IO[bytes], shape: Shape, rows: int, dtype: Any) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, *shape)}
    np.lib.format.write_array_header_1_0(file, described)


@contextmanager
def _npz(path: Path, names: tuple[str, ...], shape: Shape, _types: Types) -> Iterator[Write]:
    parts: list[Array] = []
    yield lambda rows: parts.append(_numbers(rows))
    joined = np.concatenate(parts) if parts else np.zeros((0, len(names)))
    with path.open("wb") as file:
        np.savez(file, rows=joined.reshape(len(joined), *shape))


def _numbers(rows: Any) -> Array:
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return rows
    try:
        return np.asarray([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            "arrays hold numbers alone, and these rows hold text; write them as .csv or .parquet"
        ) from error


@contextmanager
def _parquet(path: Path, names: tuple[str, ...], _shape: Shape, types: Types) -> Iterator[Write]:
    import pyarrow as arrow
    import pyarrow.parquet

    of_type = {
        str: arrow.string(),
        int: arrow.int64(),
        float: arrow.float64(),
        bool: arrow.bool_(),
        datetime.date: arrow.date32(),
        datetime.datetime: arrow.timestamp("us"),
        datetime.time: arrow.time64("us"),
    }
    schema = arrow.schema(
        [(name, of_type.get(column_type, column_type)) for name, column_type in zip(names, types, strict=True)]
    )

    def write(rows: Any) -> None:
        cells = rows.tolist() if isinstance(rows, np.ndarray) else rows
        columns = zip(*cells, strict=True) if len(cells) else ([] for _ in names)
        try:
            filled = [_of_type(arrow, stored, column) for stored, column in zip(schema.types, columns, strict=True)]
            writer.write_table(arrow.table(filled, schema=schema))
        except (arrow.ArrowException, TypeError, OverflowError) as error:
            raise InputError(f"a column holds cells of several kinds ({error}); write the rows as .csv") from error

    with arrow.parquet.ParquetWriter(path, schema) as writer:
        yield write


def _of_type(arrow: Any, stored: Any, cells: Sequence[Any]) -> list[Any]:
    """Converts cells to the type of their column: true and a decimal 1 to the integer 1, 2.5 among text to "2.5"."""
    types = arrow.types
    if types.is_integer(stored):
        return [int(cell) if isinstance(cell, bool | decimal.Decimal) else cell for cell in cells]
    if types.is_floating(stored):
        return [float(cell) if isinstance(cell, decimal.Decimal) else cell for cell in cells]
    if types.is_string(stored) or types.is_large_string(stored):
        return [cell if cell is None or isinstance(cell, str) else text_of(cell) for cell in cells]
    if types.is_timestamp(stored) and (stored.unit, stored.tz is None) == ("ns", False):
        return [None if cell is None else _nanoseconds(cell) for cell in cells]
    if types.is_decimal(stored):
        return [decimal.Decimal(repr(cell)) if isinstance(cell, float) else cell for cell in cells]
    return list(cells)


def _nanoseconds(cell: Any) -> int:
    """Nanoseconds from 1970 in UTC: pyarrow does not take numpy's time stamps for a column with a zone."""
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return int(np.datetime64(cell, "ns").astype(np.int64))


def text_of(cell: object) -> str:
    """The text of a cell: empty if the cell is missing; a number has all digits that reading it back needs."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    return repr(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


_WRITERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
