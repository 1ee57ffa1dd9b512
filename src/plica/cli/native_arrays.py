"""Reads the arguments of native files from `.npy`, `.npz` and tables of numbers, and writes results to such files.

An entry is a function of a native file; the manifest has its name and the types of its arguments and results.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files.rows.batch import Array
from plica.files.tables import Member, map_npy, npz_keys, open_npz, read_member
from plica.paths import check_is_file, replacing
from plica.runtime.arrays import numpy_dtype
from plica.runtime.manifest import ArrayType, Entry
from plica.runtime.sizes import symbols
from plica.tables.files import TABLES, Location

_TABLES = (".csv", ".parquet")  # that results are written to
_ENDINGS = (".npy", ".npz", *_TABLES)
_ARRAYS = (".npy", ".npz")
_ROWS, _CELLS = 8192, 1 << 20  # that are computed at once, whichever is less


def check_can_write_arrays(path: Path, entry: Entry) -> None:
    """Refuse a path to which the results of an entry cannot be written.

    Raises:
        FileFormatError: The ending is unknown, or such a file cannot hold the results.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise FileFormatError(
            f"{path}: expected a file name that ends with one of {', '.join(_ENDINGS)}; choose another name"
        )
    if len(entry.shown) > 1 and path.suffix.lower() != ".npz":
        names = ", ".join(array.name for array in entry.shown)
        raise FileFormatError(f"{path}: {entry.name} gives {len(entry.shown)} arrays ({names}); write them to a .npz")
    if path.suffix.lower() in _TABLES and not entry.shown[0].shape:
        raise FileFormatError(f"{path}: {entry.shown[0]} does not fit a table; write it to a .npy")


def read_for_first_fitting(words: tuple[str, ...], entries: tuple[Entry, ...]) -> tuple[Entry, dict[str, Array]]:
    """The first entry whose dtypes hold the arrays of the files, else the first of all, with its arguments by name.

    Args:
        words: The words of the command line, as `read_arrays` takes them.
        entries: Entries that compute the same for arguments of different dtypes; at least one.

    Raises:
        InputError, FileFormatError: As `read_arrays`.
    """
    first, *alternatives = entries
    arguments = read_arrays(words, first)
    if _can_hold(first, arguments):
        return first, arguments
    for entry in alternatives:
        if _can_hold(entry, alternative_arguments := read_arrays(words, entry)):
            return entry, alternative_arguments
    return first, arguments


def _can_hold(entry: Entry, arguments: Mapping[str, Array]) -> bool:
    """Whether numpy casts each array safely to the dtype of its argument; missing arguments are left out."""
    return all(
        np.can_cast(arguments[argument.name].dtype, numpy_dtype(argument.dtype))
        for argument in entry.arguments
        if argument.name in arguments
    )


def read_arrays(words: tuple[str, ...], entry: Entry) -> dict[str, Array]:
    """The arguments of an entry by name, from words of the command line: `FILE`, or `NAME=FILE`.

    A `.npz` without a name gives every argument whose name it has. Images become rows if the entry takes rows.

    Raises:
        InputError: An argument is given twice, or a word has no name and there are several arguments.
        FileFormatError: A file is missing, damaged or of another kind.
    """
    types = {argument.name: argument for argument in entry.arguments}
    names = list(types)
    arguments: dict[str, Array] = {}
    for word in words:
        named, path = named_file(word)
        if not named and names and str(path).lower().endswith(".npz"):
            arrays = _load(path)
            read = {name: arrays[name] for name in names if name in arrays} or _only(path, arrays, names)
        elif named:
            read = {named: _read(path, types.get(named))}
        elif len(names) == 1:
            read = {names[0]: _read(path, types[names[0]])}
        else:
            advice = f"write --input NAME={word}" if names else "leave --input out"
            raise InputError(f"--input {word}: {entry.name} takes {', '.join(names) or 'nothing'}; {advice}")
        for key, array in read.items():
            if key in arguments or key not in names:
                problem = (
                    "is given twice" if key in arguments else f"is no argument; {entry.name} takes {', '.join(names)}"
                )
                raise InputError(f"--input {word}: {key} {problem}")
            arguments[key] = array
    return {name: _converted(array, types[name]) for name, array in arguments.items()}


def named_file(word: str) -> tuple[str, Location]:
    """The name of an argument and its file from a word `NAME=FILE`; the name is empty for a word `FILE`."""
    name, equals, path = word.partition("=")
    name, place = (name, path) if equals and name.isidentifier() else ("", word)
    return name, place if "://" in place else Path(place)


def _is_table(path: Location) -> bool:
    """Whether a file, a folder or an address is read as rows of columns."""
    ending = PurePosixPath(str(path)).suffix.lower()
    is_folder = isinstance(path, str) or path.is_dir()
    return ending in TABLES or (is_folder and ending not in _ARRAYS)


@dataclass(frozen=True, slots=True)
class RowStream:
    """The rows of one argument of an entry, which are computed a batch at a time.

    Attributes:
        argument: The argument.
        raw: Reads the rows from the beginning, in one batch at least.
        others: The words of the other arguments, which are read as a whole.
        dtype: The dtype of an array; None for tables.
    """

    argument: ArrayType
    raw: Callable[[], Iterator[Array]]
    others: tuple[str, ...]
    dtype: Any

    def batches(self) -> Iterator[Array]:
        """The rows as the argument takes them."""
        return map(self.converted, self.raw())

    def converted(self, rows: Array) -> Array:
        """Rows as the argument takes them; decimals of tables are rounded."""
        rows = _rounded(rows, self.argument.dtype) if self.dtype is None else rows
        return _converted(rows, self.argument)


def row_stream(words: tuple[str, ...], entry: Entry) -> RowStream | None:
    """The rows of an entry that computes each row by itself; None where all arguments are needed at once.

    These are functions of rows as a whole, entries with several arguments of rows, and draws of several arrays, which
    would be others in batches.
    """
    rows = None if entry.rows is None else entry.rows.symbol
    with_rows = [argument for argument in entry.arguments if any(rows in symbols(size) for size in argument.shape)]
    arrays = (*with_rows, *entry.draws, *entry.shown)
    if rows is None or len(with_rows) != 1 or len(entry.draws) > 1:
        return None
    if any(not array.shape or array.shape[0] != rows or rows in array.shape[1:] for array in arrays):
        return None
    (argument,) = with_rows
    names = [name or (argument.name if len(entry.arguments) == 1 else "") for name, _ in map(named_file, words)]
    if names.count(argument.name) != 1:
        return None
    at = names.index(argument.name)
    opened = _opened(named_file(words[at])[1], argument.name)
    return opened and RowStream(argument, opened[0], (*words[:at], *words[at + 1 :]), opened[1])


def _opened(path: Location, name: str) -> tuple[Callable[[], Iterator[Array]], Any] | None:
    if _is_table(path):
        return lambda: _table(path), None
    if not isinstance(path, Path) or path.suffix.lower() not in _ARRAYS or not path.is_file():
        return None
    values: Any
    if path.suffix.lower() == ".npy":
        values = _load(path)[""]
    else:
        try:
            keys = npz_keys(path)
            values = Member(path, name if len(keys) > 1 else None)
        except FileFormatError:  # which is said where arguments are read as a whole
            return None
    if not values.shape:
        return None
    step = max(1, min(_ROWS, _CELLS // max(1, prod(values.shape[1:]))))
    starts = range(0, max(values.shape[0], 1), step)
    return lambda: (np.asarray(values[start : start + step]) for start in starts), values.dtype


def _table(path: Location) -> Iterator[Array]:
    """The numbers of a table, a batch at a time."""
    from plica.tables.files import numbers_reader, open_table

    with open_table(path) as rows:
        read, is_empty = numbers_reader(None, rows), True
        for batch in rows.batches(max(1, min(_ROWS, _CELLS // rows.width))):
            is_empty = False
            yield read(batch)
        if is_empty:
            yield np.zeros((0, rows.width))


def stream_for_first_fitting(words: tuple[str, ...], entries: tuple[Entry, ...]) -> tuple[Entry, RowStream] | None:
    """The first entry whose dtypes hold all rows of a stream, else the first of all, with these rows.

    Rows are read once more where the dtype of the file does not decide. None where arguments are needed at once.
    """
    first = row_stream(words, entries[0])
    if first is None:
        return None
    streams = [row_stream(words, entry) for entry in entries]
    fitting = [(entry, stream) for entry, stream in zip(entries, streams, strict=True) if stream is not None]
    if len(fitting) < len(entries):
        return None
    chosen = fitting[0]
    if first.dtype is not None and np.can_cast(first.dtype, numpy_dtype(first.argument.dtype)):
        return chosen
    for rows in first.raw() if len(fitting) > 1 else ():
        fitting = [
            (entry, stream)
            for entry, stream in fitting
            if _can_hold(entry, {stream.argument.name: stream.converted(rows)})
        ]
        if len(fitting) < 2:
            break
    return fitting[0] if fitting else chosen


@contextmanager
def writing_results(path: Path, entry: Entry) -> Iterator[Callable[[tuple[Array, ...]], None]]:
    """A function that adds the results for some rows to a file, which appears whole or not at all."""
    from plica.data.write import writing_archive, writing_rows

    with ExitStack() as stack:
        writes: list[Any] = []

        def write(results: tuple[Array, ...]) -> None:
            if not writes:
                shapes = {array.name: result.shape[1:] for array, result in zip(entry.shown, results, strict=True)}
                if path.suffix.lower() == ".npz":
                    temporary = stack.enter_context(replacing(path))
                    writes.extend(stack.enter_context(writing_archive(temporary, shapes)))
                else:
                    names, types = _columns(entry, results[0])
                    shape = results[0].shape[1:]
                    writes.append(stack.enter_context(writing_rows(path, names, shape, types)))
            for write_array, result in zip(writes, results, strict=True):
                is_table = path.suffix.lower() in _TABLES
                write_array(result.reshape(len(result), prod(result.shape[1:])) if is_table else result)

        yield write


def _columns(entry: Entry, result: Array) -> tuple[list[str], tuple[type, ...]]:
    """The names and types of the columns of a result: one for each entry of a row."""
    width, name = prod(result.shape[1:]), entry.shown[0].name
    names = [name] if width == 1 else [f"{name}_{index}" for index in range(width)]
    return names, ({"b": bool, "i": int, "u": int}.get(result.dtype.kind, float),) * width


def write_arrays(path: Path, entry: Entry, results: tuple[Array, ...]) -> None:
    """Write the results of an entry; the file appears whole or not at all.

    A table gets a row for each index of the first axis of the only result, and a column for each of its other entries.
    """
    if path.suffix.lower() in _TABLES:
        with writing_results(path, entry) as write:
            write(results)
        return
    names = [array.name for array in entry.shown]
    with replacing(path) as temporary, temporary.open("wb") as file:
        if path.suffix.lower() == ".npy":
            np.save(file, results[0], allow_pickle=False)
        else:
            np.savez(file, **dict(zip(names, results, strict=True)))  # type: ignore[arg-type]


def _read(path: Location, argument: ArrayType | None) -> Array:
    """The only array of a file; a table is `(N, D)`, rounded to the dtype of the argument if that is one of floats."""
    if _is_table(path):
        rows = np.concatenate(list(_table(path)))
        return rows if argument is None else _rounded(rows, argument.dtype)
    arrays = _load(path)
    return next(iter(_only(path, arrays, [""]).values()))


def _load(path: Location) -> Mapping[str, Array]:
    """The arrays of a `.npy` (under no name, memory-mapped) or of a `.npz`."""
    if not isinstance(path, Path):
        raise FileFormatError(f"{path}: arrays are read from this machine alone; copy it here, or write .parquet")
    check_is_file(path)
    if path.suffix.lower() not in _ENDINGS:
        raise FileFormatError(f"{path}: expected a file of one of {', '.join(_ENDINGS)}")
    if path.suffix.lower() == ".npy":
        return {"": map_npy(path)}
    with open_npz(path) as archive:
        return {name: read_member(path, archive, name) for name in archive.files}


def _only(path: Location, arrays: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    """The only array of a file, by the only name in `names`; an InputError if there are several of either."""
    if len(arrays) != 1 or len(names) > 1:
        names_there = ", ".join(arrays) or "nothing"
        raise InputError(f"{path}: holds {names_there}; expected one array, or arrays called {', '.join(names)}")
    return {names[0]: next(iter(arrays.values()))}


def _rounded(numbers: Array, name: str) -> Array:
    """Rounds numbers of a table to a dtype of floats, unless one of them would become infinite."""
    dtype = numpy_dtype(name)
    if dtype.kind != "f":
        return numbers
    with np.errstate(over="ignore"):
        rounded = numbers.astype(dtype)
    return rounded if np.array_equal(np.isfinite(rounded), np.isfinite(numbers)) else numbers


def _converted(array: Array, argument: ArrayType) -> Array:
    """An array as an argument takes it, if no entry changes its value."""
    return _converted_if_exact(_in_rows(array, argument), argument.dtype)


def _in_rows(array: Array, expected: ArrayType) -> Array:
    """Images `(N, H, W)` or `(N, C, H, W)` as rows `(N, D)`, if the argument takes such rows."""
    (*_, width), size = expected.shape or (None,), prod(array.shape[1:])
    return array.reshape(len(array), size) if len(expected.shape) == 2 < array.ndim and width == size else array


def _converted_if_exact(array: Array, name: str) -> Array:
    """The array in the dtype `name` if no entry changes its value, else the array itself."""
    dtype = numpy_dtype(name)
    if array.dtype == dtype or array.dtype.kind not in "biuf":
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return converted if same else array
