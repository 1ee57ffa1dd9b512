r"""Rows written a batch at a time, whole files or none: `.npy`, `.npz`, `.csv` and `.parquet`.

A batch is columns of Arrow (a `pyarrow.RecordBatch`), an array of numbers, or lists of cells.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
>>> with writing_rows(path, ("name", "legs")) as write:
...     write([["cat", 4], ["bird", None]])
...     write(pa.RecordBatch.from_pydict({"name": ["a, b"], "legs": [2]}))
>>> path.read_text().split("\n")[:-1]
['name,legs', 'cat,4', 'bird,', '"a, b",2']
"""

from __future__ import annotations

import datetime
import decimal
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from plica.data.arrow_cells import python_cells
from plica.errors import FileFormatError, InputError
from plica.files.rows.batch import Array
from plica.paths import replacing

# Takes B rows of D cells.
Write = Callable[[Any], None]
Shape = tuple[int, ...]
Types = tuple[Any, ...]  # types of cells, or of columns in a file

_GROUP_ROWS, _GROUP_BYTES = 1 << 16, 1 << 24  # of a row group of Parquet, whichever is less
_ARROW_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us"),
    datetime.time: pa.time64("us"),
}


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


# Texts


@contextmanager
def _csv(
    path: Path, names: tuple[str, ...], _shape: Shape, _types: Types, *, named: bool = True, delimiter: str = ","
) -> Iterator[Write]:
    with path.open("wb") as file:
        if named:
            file.write(_lines([pa.array([name]) for name in names], delimiter))

        def write(rows: Any) -> None:
            if isinstance(rows, pa.RecordBatch):
                columns = [texts_of(column) for column in rows.columns]
            else:
                columns = [pa.array(map(text_of, column), pa.string()) for column in _columns(rows, len(names))]
            file.write(_lines(columns, delimiter))

        yield write


def _lines(columns: Sequence[Any], delimiter: str) -> bytes:
    """Lines of cells, `(B,)` texts in each column; a cell with a delimiter, a quote or the end of a line is quoted."""
    if not len(columns[0]):
        return b""
    special = f'[{re.escape(delimiter)}"\r\n]'
    cells = [pc.fill_null(column, "") for column in columns]
    if len(cells) == 1:  # an empty line would be no row
        cells = [pc.if_else(pc.equal(cells[0], ""), '""', _quoted(cells[0], special))]
    else:
        cells = [_quoted(column, special) for column in cells]
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, delimiter), "", "\n")
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(lines.buffers()[2][int(offsets[0]) : int(offsets[-1])])


def _quoted(column: Any, special: str) -> Any:
    is_special = pc.match_substring_regex(column, special)
    if not pc.any(is_special).as_py():
        return column
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(column, '"', '""'), '"', "")
    return pc.if_else(is_special, quoted, column)


def texts_of(column: Any) -> Any:
    """A column as texts, as `text_of` writes its cells; null where it writes nothing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text_alike(column.type):
        return column.cast(pa.string())
    return pa.array(map(text_of, python_cells(column)), pa.string())


def _is_text_alike(kind: Any) -> bool:
    """Whether Arrow and `text_of` write cells of a type alike."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_text or types.is_integer(kind) or types.is_boolean(kind) or types.is_date32(kind))


def text_of(cell: object) -> str:
    """The text of a cell: empty if the cell is missing; a number has all digits that reading it back needs."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    return repr(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


# Arrays


@contextmanager
def _npy(path: Path, _names: tuple[str, ...], shape: Shape, _types: Types) -> Iterator[Write]:
    with path.open("w+b") as file, writing_array(file, shape) as write:
        yield write


@contextmanager
def writing_array(file: IO[bytes], shape: Shape) -> Iterator[Write]:
    """A function that adds rows of a shape to a `.npy`.

    The header is written twice: first with room for the number of rows, which is known only at the end.
    """
    state: dict[str, Any] = {"rows": 0, "dtype": np.dtype(np.float64)}

    def write(rows: Any) -> None:
        values = _numbers(rows)
        if not state["rows"]:
            state["dtype"] = values.dtype
            file.seek(0)
            file.truncate()
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
def _npz(path: Path, _names: tuple[str, ...], shape: Shape, _types: Types) -> Iterator[Write]:
    with writing_archive(path, {"rows": shape}) as (write,):
        yield write


@contextmanager
def writing_archive(path: Path, shapes: dict[str, Shape]) -> Iterator[list[Write]]:
    """Functions that add rows to the arrays of a `.npz`; each array lies in a file beside it until all are written.

    Args:
        path: The archive.
        shapes: By the name of each array the shape of its rows.
    """
    parts = [path.with_name(f"{path.name}.{number}") for number in range(len(shapes))]
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(part.open("w+b")) for part in parts]
            yield [
                stack.enter_context(writing_array(file, shape))
                for file, shape in zip(files, shapes.values(), strict=True)
            ]
        with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
            for name, part in zip(shapes, parts, strict=True):
                archive.write(part, f"{name}.npy")
                part.unlink()
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _numbers(rows: Any) -> Array:
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return rows
    try:
        if isinstance(rows, pa.RecordBatch):
            return np.stack([numbers_of(column) for column in rows.columns], axis=1)
        return np.asarray([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            "arrays hold numbers alone, and these rows hold text; write them as .csv or .parquet"
        ) from error


def numbers_of(column: Any) -> Array:
    """A column as floats, NaN where a cell is missing.

    Raises:
        TypeError, ValueError: A cell is no number.
    """
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return np.asarray([np.nan if cell is None else cell for cell in python_cells(column)], dtype=np.float64)


# Parquet


@contextmanager
def _parquet(path: Path, names: tuple[str, ...], _shape: Shape, types: Types) -> Iterator[Write]:
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in zip(names, types, strict=True)])
    waiting: list[Any] = []
    rows_waiting = bytes_waiting = 0

    def write(rows: Any) -> None:
        nonlocal rows_waiting, bytes_waiting
        cells = rows.columns if isinstance(rows, pa.RecordBatch) else _columns(rows, len(names))
        columns = [column_of(column, field.type, field.name) for column, field in zip(cells, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        waiting.append(batch)
        rows_waiting, bytes_waiting = rows_waiting + len(batch), bytes_waiting + batch.nbytes
        if rows_waiting >= _GROUP_ROWS or bytes_waiting >= _GROUP_BYTES:
            flush()

    def flush() -> None:
        nonlocal rows_waiting, bytes_waiting
        rows_waiting = bytes_waiting = 0
        writer.write_table(pa.Table.from_batches(waiting, schema=schema))
        waiting.clear()

    with pq.ParquetWriter(path, schema) as writer:
        yield write
        flush()


def arrow_type(kind: Any) -> Any:
    """The type of Arrow of a column's cells: that of a Python type; those of Arrow as they are."""
    return _ARROW_TYPES.get(kind, kind)


def column_of(cells: Any, kind: Any, name: str) -> Any:
    """Cells as a `pyarrow.Array` of a type.

    Args:
        cells: An array of Arrow or numpy, or cells.
        kind: The type.
        name: The name of the column in messages.

    Raises:
        InputError: A cell is none of that type.
    """
    if isinstance(cells, pa.Array):
        if cells.type == kind:
            return cells
        if pa.types.is_dictionary(cells.type):
            return column_of(cells.dictionary_decode(), kind, name)
        if pa.types.is_string(kind) and _is_text_alike(cells.type):
            return cells.cast(kind)
        cells = python_cells(cells)
    try:
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            return pa.array(cells).cast(kind)
        return pa.array(_of_type(kind, cells), kind)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InputError(
            f"column {name!r} holds a cell that {kind} cannot hold ({error}); correct it, or write the rows as .csv"
        ) from error


def _columns(rows: Any, width: int) -> Iterable[Sequence[Any]]:
    """Rows of cells as D columns."""
    cells = rows.tolist() if isinstance(rows, np.ndarray) else rows
    return zip(*cells, strict=True) if len(cells) else ((),) * width


def _of_type(stored: Any, cells: Sequence[Any]) -> list[Any]:
    """Converts cells to the type of their column: true and a decimal 1 to the integer 1, 2.5 among text to "2.5"."""
    types = pa.types
    if types.is_integer(stored):
        return [int(cell) if isinstance(cell, bool | decimal.Decimal) else cell for cell in cells]
    if types.is_floating(stored):
        return [float(cell) if isinstance(cell, decimal.Decimal | bool) else cell for cell in cells]
    if types.is_string(stored) or types.is_large_string(stored):
        return [cell if cell is None or isinstance(cell, str) else text_of(cell) for cell in cells]
    if types.is_timestamp(stored):
        cells = [_with_time(cell) for cell in cells]
    if types.is_timestamp(stored) and (stored.unit, stored.tz is None) == ("ns", False):
        return [None if cell is None else _nanoseconds(cell) for cell in cells]
    if types.is_decimal(stored):
        cells = [int(cell) if isinstance(cell, bool) else cell for cell in cells]
        return [decimal.Decimal(repr(cell)) if isinstance(cell, float) else cell for cell in cells]
    return list(cells)


def _with_time(cell: Any) -> Any:
    """A date as the time at its beginning."""
    is_date = isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime)
    return datetime.datetime.combine(cell, datetime.time()) if is_date else cell


def _nanoseconds(cell: Any) -> int:
    """Nanoseconds from 1970 in UTC: pyarrow does not take numpy's time stamps for a column with a zone."""
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    return int(np.datetime64(cell, "ns").astype(np.int64))


_WRITERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
