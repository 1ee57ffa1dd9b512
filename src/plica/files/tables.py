r"""Reads a table or a stack of images from `.npy`, `.npz` or `.csv`; errors name the file, the row and the column.

Pickled objects in a file are refused. A table must have at least one value, and all must be finite numbers.
`datasets.py` decides how to interpret them.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
>>> _ = path.write_text("x,y\n1,2.5\n3,4\n")
>>> load_table(path).tolist()
[[1.0, 2.5], [3.0, 4.0]]
"""

import contextlib
import csv
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.paths import as_path, check_is_file

Array = np.ndarray[Any, np.dtype[Any]]
Reader = TypeVar("Reader", bound=Callable[..., Any])

_NPZ_KEYS = ("images", "train")  # the arrays to look for in an archive of several if no key is given
_DELIMITERS = (",", ";", "\t", "|")  # in the order in which they are tried
_MAX_LETTERS, _MAX_LINES = 2**16, 20  # the beginning of a text that decides about its delimiter
TEXTS = (".csv", ".tsv")
"""The endings of texts of cells."""
_MAX_SHOWN = 24  # characters of a bad cell that a message repeats


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The values of a file, and where they are in the file, for messages.

    Attributes:
        values: (N, D), (N, H, W) or (N, C, H, W); booleans, integers or floats.
        source: The file, and the array in it if it holds several.
        first_line: For text, the line of the first row, counted from 1; None for binary files.
        first_row: For a part of an array, the number of its first row.
    """

    values: Array
    source: str
    first_line: int | None = None
    first_row: int = 0

    def where(self, index: tuple[int, ...]) -> str:
        """The position of a value in words: as line and column for text, as indices from 0 for arrays."""
        if self.first_line is not None:
            return f"{self.source}, line {index[0] + self.first_line}, column {index[1] + 1}"
        first = self.first_row + index[0]
        if len(index) == 2:
            return f"{self.source}, row {first}, column {index[1]} (counted from 0)"
        *channel, row, column = index[1:]
        named = [f"image {first}", *(f"channel {c}" for c in channel), f"row {row}", f"column {column}"]
        return f"{self.source}, {', '.join(named)} (counted from 0)"


def load_table(path: str | os.PathLike[str], *, key: str | None = None) -> Array:
    """The values of a `.npy`, `.npz` or `.csv` file; see `read_table`."""
    return read_table(path, key=key).values


def read_table(path: str | os.PathLike[str], *, key: str | None = None, delimiter: str | None = None) -> Table:
    """Read and check one table.

    Args:
        path: The file; its ending decides how it is read. A CSV file may begin with one line of names.
        key: Which array of a `.npz`; by default the only one, else `images`, else `train`.
        delimiter: The delimiter of a CSV file; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or of another kind.
        InputError: A value is missing or not finite; the message says which.
    """
    path = as_path(path)
    table = choose_reader(path, _READERS, key=key, delimiter=delimiter)(path, key, delimiter)
    check_table(table)
    return table


def choose_reader(path: Path, readers: Mapping[str, Reader], *, key: str | None, delimiter: str | None) -> Reader:
    """The reader of a table by the ending of its file.

    Raises:
        FileFormatError: The file is missing, its ending is unknown, or it is of a kind that takes no key or delimiter.
    """
    reader = readers.get(path.suffix.lower())
    check_is_file(path)
    if reader is None:
        raise unknown_ending(str(path), path.suffix, readers)
    check_options(str(path), path.suffix.lower(), key=key, delimiter=delimiter)
    return reader


def unknown_ending(name: str, ending: str, known: Iterable[str]) -> FileFormatError:
    """The error of a file whose ending names no kind of table."""
    return FileFormatError(
        f"{name}: cannot tell what kind of table this is from its ending {ending or '(none)'!r}; expected one of "
        f"{', '.join(known)}"
    )


def check_options(name: str, ending: str, *, key: str | None, delimiter: str | None) -> None:
    """Raise for a key of what is no archive, or a delimiter that is not one letter or is for no text.

    Raises:
        FileFormatError: An option does not fit the file.
    """
    if key is not None and ending != ".npz":
        raise FileFormatError(f"{name}: holds one table, so there is no array {key!r} to choose; leave the key out")
    if delimiter is None:
        return
    if ending not in TEXTS:
        raise FileFormatError(f"{name}: only a .csv has a delimiter between cells; leave --delimiter out")
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise FileFormatError(f"--delimiter {delimiter!r}: expected one letter of ASCII, as in --delimiter ';'")


def npz_keys(path: Path) -> tuple[str, ...]:
    """The names of the arrays in a `.npz` file."""
    check_is_file(path)
    with open_npz(path) as archive:
        return tuple(archive.files)


def check_table(table: Table) -> None:
    """Raise unless the values are a non-empty table of finite numbers with two to four axes."""
    values, source = table.values, table.source
    if values.dtype.kind not in "biuf":
        raise FileFormatError(
            f"{source}: expected booleans, integers or floats, found {values.dtype}; convert it with .astype first"
        )
    if not 2 <= values.ndim <= 4:
        raise FileFormatError(
            f"{source}: expected shape (N, D), (N, H, W) or (N, C, H, W), found {values.shape}; reshape it first"
        )
    if values.size == 0:
        raise FileFormatError(f"{source}: the table is empty (shape {values.shape}); expected at least one value")
    if values.dtype.kind == "f":
        bad = first_index(~np.isfinite(values))
        if bad is not None:
            raise InputError(
                f"{table.where(bad)}: found {values[bad]}, expected a finite number; remove the row or fill the value"
            )


def first_index(mask: Array) -> tuple[int, ...] | None:
    """The index of the first true value in row order, or None."""
    if not mask.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(mask.argmax()), mask.shape))


def map_npy(path: Path) -> Array:
    """The array of a `.npy` file, memory-mapped: the system reads parts of it when they are used.

    Raises:
        FileFormatError: The file is damaged.
    """
    try:
        with path.open("rb") as file:
            read_header(file, path.stat().st_size)
        values: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return values
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: not a readable .npy file ({one_line(error)})") from error


def _read_npy(path: Path, _key: str | None, _delimiter: str | None) -> Table:
    try:
        with path.open("rb") as file:
            read_header(file, path.stat().st_size)
            file.seek(0)
            values = np.load(file, allow_pickle=False)
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: not a readable .npy file ({one_line(error)})") from error
    return Table(values, str(path))


def read_header(file: Any, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether it is in Fortran's order, and the dtype of an array by its header.

    Args:
        file: The array's file from its beginning; afterwards it is behind the header.
        size: The bytes of the file.

    Raises:
        ValueError: The header claims more bytes, which numpy would allocate, or axes of less than no entries.
    """
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"version {version} of the format is not known")
    shape, is_fortran, dtype = HEADERS[version](file)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"an array {dtype} {shape} does not fit into {size} bytes; cut short?")
    return shape, is_fortran, dtype


def open_npz(path: Path) -> Any:
    """An archive of arrays, to be closed after use."""
    try:
        archive = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: not a readable .npz file ({one_line(error)})") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise FileFormatError(f"{path}: ends in .npz but holds a single .npy array; rename it to .npy")
    return archive


def read_array(path: Path, key: str | None, _delimiter: str | None = None) -> Table:
    """One array of a `.npz` file: the one called `key`; without a key the only one, else `images`, else `train`."""
    with open_npz(path) as archive:
        chosen = choose_key(path, tuple(archive.files), key)
        values = read_member(path, archive, chosen)
    return Table(values, f"{path}[{chosen}]")


def read_member(path: Path, archive: Any, name: str) -> Array:
    """One array of an open `.npz` file.

    Raises:
        FileFormatError: The member is damaged, or no array.
    """
    try:
        member = name if name in archive.zip.namelist() else f"{name}.npy"
        with archive.zip.open(member) as file:
            if file.peek(6)[:6] == np.lib.format.MAGIC_PREFIX:
                read_header(file, archive.zip.getinfo(member).file_size)
        values = archive[name]
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: array {name!r} cannot be read ({one_line(error)})") from error
    if not isinstance(values, np.ndarray):
        raise FileFormatError(f"{path}: {name!r} is no array; write the file with numpy.savez")
    return values


class Member:
    """An array of a `.npz` file, of which rows are read as they are asked for.

    Args:
        path: The file.
        key: The name of the array; None for the only one, else `images`, else `train`.

    Attributes:
        key: Its name.
        dtype: Its dtype.
        shape: Its shape.

    Raises:
        FileFormatError: The archive or the array is damaged, or there is no such array.
    """

    def __init__(self, path: Path, key: str | None) -> None:
        self._path, self._archive = path, open_npz(path)
        try:
            self.key = choose_key(path, tuple(self._archive.files), key)
            with self._reading():
                self._open()
        except BaseException:
            self._archive.close()
            raise

    def _open(self) -> None:
        archive = self._archive
        member = self.key if self.key in archive.zip.namelist() else f"{self.key}.npy"
        file = archive.zip.open(member)
        self._held: Array | None = None
        if file.peek(6)[:6] == np.lib.format.MAGIC_PREFIX:
            self.shape, is_fortran, self.dtype = read_header(file, archive.zip.getinfo(member).file_size)
            if self.shape and not is_fortran and not self.dtype.hasobject:
                self._file, self._start = file, file.tell()
                return
        file.close()
        self._held = read_member(self._path, archive, self.key)
        self.shape, self.dtype = self._held.shape, self._held.dtype

    def __getitem__(self, rows: slice) -> Array:
        """Consecutive rows."""
        if self._held is not None:
            return self._held[rows]
        start, stop, _ = rows.indices(self.shape[0])
        size = math.prod(self.shape[1:]) * self.dtype.itemsize
        with self._reading():
            at = self._start + start * size
            if self._file.tell() != at:  # a jump would leave the check sum out
                self._file.seek(at)
            content = self._file.read((stop - start) * size)
            return np.frombuffer(content, self.dtype).reshape(stop - start, *self.shape[1:])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileFormatError:
            raise
        except UNREADABLE as error:
            raise FileFormatError(f"{self._path}: array {self.key!r} cannot be read ({one_line(error)})") from error

    def close(self) -> None:
        """Close the file."""
        if self._held is None:
            self._file.close()
        self._archive.close()


def choose_key(path: Path, names: tuple[str, ...], key: str | None) -> str:
    """The name of the array of an archive to read: `key`, else the only one, else `images`, else `train`.

    Raises:
        FileFormatError: There is no such array, or there are several.
    """
    if not names:
        raise FileFormatError(f"{path}: the archive holds no arrays")
    if key is not None:
        if key not in names:
            raise FileFormatError(f"{path}: no array {key!r}; found {', '.join(names)}")
        return key
    for candidate in names if len(names) == 1 else _NPZ_KEYS:
        if candidate in names:
            return candidate
    raise FileFormatError(
        f"{path}: holds {len(names)} arrays and none is called {' or '.join(_NPZ_KEYS)}; "
        f"choose one by its key: {', '.join(names)}"
    )


def _read_csv(path: Path, _key: str | None, delimiter: str | None) -> Table:
    try:  # split at line feeds alone: names may hold other characters at which `splitlines` splits
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        with path.open("rb") as file:
            raise not_utf8(str(path), file) from error
    delimiter = guess_delimiter(path) if delimiter is None else delimiter
    while lines and not lines[-1].strip():
        lines.pop()
    cells = _cells(path, lines[0], 1, delimiter) if lines else []
    first = 1 if lines and is_header(cells) else 0
    if len(lines) == first:
        raise FileFormatError(f"{path}: the file holds no rows of numbers")
    rows = lines[first:]
    try:
        if not all(line.strip() for line in rows):
            raise ValueError("numpy would skip an empty line")
        values = np.loadtxt(rows, delimiter=delimiter, ndmin=2, dtype=np.float64, comments=None, quotechar='"')
    except ValueError as error:
        _find_bad_cell(path, rows, first + 1, delimiter)
        raise FileFormatError(f"{path}: not a table of numbers ({one_line(error)})") from error
    return Table(values, str(path), first + 1)


def _cells(path: Path, line: str, number: int, delimiter: str) -> list[str]:
    """The cells of one line."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise no_cells(f"{path}, line {number}", error) from error


def guess_delimiter(path: Path) -> str:
    """The delimiter of a text that its first lines suggest; see `delimiter_of`."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return delimiter_of(file.read(_MAX_LETTERS))


def delimiter_of(head: str) -> str:
    """The delimiter of a text: the first of `_DELIMITERS` that splits its first lines into equally many cells.

    The last line may have fewer, since the text is cut there. Without any such delimiter it is a comma.
    """
    lines = list(islice(io.StringIO(head[:_MAX_LETTERS], newline=""), _MAX_LINES))
    try:
        widths = {
            delimiter: [len(row) for row in csv.reader(lines, delimiter=delimiter) if row] for delimiter in _DELIMITERS
        }
    except csv.Error:
        return _DELIMITERS[0]
    for delimiter, counts in widths.items():
        if counts and counts[0] > 1 and set(counts[:-1]) <= {counts[0]}:
            return delimiter
    return _DELIMITERS[0]


def no_cells(where: str, error: csv.Error) -> FileFormatError:
    """The error of a line that the csv library cannot read."""
    if "field limit" in str(error):
        limit = csv.field_size_limit()
        return FileFormatError(
            f"{where}: a cell has more than {limit:,} letters, the most that are read; shorten it or take the column "
            "out of the file, and look for a quote that is not closed"
        )
    return FileFormatError(
        f"{where}: cannot be read as cells ({one_line(error)}); double the quotes within quoted cells"
    )


def not_utf8(source: str, file: io.BufferedReader) -> FileFormatError:
    """The error of a text in another encoding, with its first line that shows it.

    Args:
        source: The name of the file.
        file: The file from its beginning.
    """
    if file.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return FileFormatError(f"{source}: the text is UTF-16; save it as UTF-8 (iconv -f utf-16 -t utf-8)")
    for number, line in enumerate(file, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            return FileFormatError(
                f"{source}, line {number}: not UTF-8: found the byte {byte:#x}, which is {chr(byte)!r} in Latin-1; "
                "save it as UTF-8 (iconv -f latin1 -t utf-8)"
            )
    return FileFormatError(f"{source}: not UTF-8; save it as UTF-8")


def is_header(cells: list[str]) -> bool:
    """Whether a line holds names: no cell is a number or empty. A line with some numbers is a faulty row of data."""
    return not any(_is_number(cell) or not cell.strip() for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _find_bad_cell(path: Path, rows: list[str], first_line: int, delimiter: str) -> None:
    """Raise for the first cell that is no number, or the first row of another width than the first row."""
    width = len(_cells(path, rows[0], first_line, delimiter))
    for number, line in enumerate(rows, start=first_line):
        cells = _cells(path, line, number, delimiter)
        if not line.strip():
            raise FileFormatError(f"{path}, line {number}: the line is empty, expected {width} numbers")
        for column, cell in enumerate(cells, start=1):
            if not cell.strip():
                raise InputError(f"{path}, line {number}, column {column}: the cell is empty, expected a number")
            if not _is_number(cell):
                shown = cell if len(cell) <= _MAX_SHOWN else cell[:_MAX_SHOWN] + "..."
                raise FileFormatError(
                    f"{path}, line {number}, column {column}: {shown!r} is not a number "
                    "(only a first line without any number is taken as names); "
                    "a table with text is trained with --columns auto"
                )
        if len(cells) != width:
            raise FileFormatError(
                f"{path}, line {number}: found {len(cells)} columns, expected {width} as in line {first_line}"
            )


def one_line(error: BaseException) -> str:
    """The message of a library's error, on one line."""
    return " ".join(str(error).split())


# The errors of numpy and zipfile for damaged bytes. Headers of arrays are Python text, which numpy parses.
UNREADABLE = (
    *(ValueError, TypeError, KeyError, IndexError, EOFError, OSError, SyntaxError, MemoryError, RecursionError),
    *(OverflowError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, struct.error),
    tokenize.TokenError,
)
# The reader of headers of each version of the format. Numpy has no public one for version 3: names of any letters.
HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

# (path, key, delimiter) -> the table
_READERS: dict[str, Callable[[Path, str | None, str | None], Table]] = {
    ".npy": _read_npy,
    ".npz": read_array,
    ".csv": _read_csv,
}
