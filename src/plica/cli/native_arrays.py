"""Reads the arguments of native files from `.npy`, `.npz` and tables of numbers, and writes results to such files.

An entry is a function of a native file; the manifest has its name and the types of its arguments and results.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np

from plica.errors import FileFormatError, InputError
from plica.files.rows.batch import Array
from plica.paths import check_is_file, replacing
from plica.runtime.arrays import numpy_dtype
from plica.runtime.manifest import ArrayType, Entry

_TABLES = (".csv", ".parquet")
_BATCH = 4096  # rows of a table that are read at once
_ENDINGS = (".npy", ".npz", *_TABLES)


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
        if not named and names and path.suffix.lower() == ".npz":
            arrays = _load(path)
            read = {name: arrays[name] for name in names if name in arrays} or _only(path, arrays, names)
        elif named:
            read = {named: _read(path, types[named].dtype if named in types else "float64")}
        elif len(names) == 1:
            read = {names[0]: _read(path, types[names[0]].dtype)}
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
    return {
        name: _converted_if_exact(_in_rows(array, types[name]), types[name].dtype) for name, array in arguments.items()
    }


def named_file(word: str) -> tuple[str, Path]:
    """The name of an argument and its file from a word `NAME=FILE`; the name is empty for a word `FILE`."""
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals and name.isidentifier() else ("", Path(word))


def write_arrays(path: Path, entry: Entry, results: tuple[Array, ...]) -> None:
    """Write the results of an entry; the file appears whole or not at all.

    A table gets a row for each index of the first axis of the only result, and a column for each of its other entries.
    """
    names = [array.name for array in entry.shown]
    if path.suffix.lower() in _TABLES:
        from plica.data.write import writing_rows

        rows = results[0].reshape(len(results[0]), prod(results[0].shape[1:]))
        columns = names if rows.shape[1] == 1 else [f"{names[0]}_{index}" for index in range(rows.shape[1])]
        kind = {"b": bool, "i": int, "u": int}.get(rows.dtype.kind, float)
        with writing_rows(path, columns, types=(kind,) * len(columns)) as write:
            write(rows)
        return
    with replacing(path) as temporary, temporary.open("wb") as file:
        if path.suffix.lower() == ".npy":
            np.save(file, results[0], allow_pickle=False)
        else:
            np.savez(file, **dict(zip(names, results, strict=True)))  # type: ignore[arg-type]


def _read(path: Path, dtype: str) -> Array:
    """The only array of a file; a table is `(N, D)`, rounded to `dtype` where that is a dtype of floats."""
    if path.suffix.lower() in _TABLES:
        from plica.files.encoding import read_numbers
        from plica.tables.files import open_table

        with open_table(path) as rows:
            parts = [_rounded(read_numbers(batch), dtype) for batch in rows.batches(_BATCH)]
            return np.concatenate(parts) if parts else np.zeros((0, rows.width))
    arrays = _load(path)
    return next(iter(_only(path, arrays, [""]).values()))


def _load(path: Path) -> Mapping[str, Array]:
    """The arrays of a `.npy` (under no name) or of a `.npz`."""
    check_is_file(path)
    if path.suffix.lower() not in _ENDINGS:
        raise FileFormatError(f"{path}: expected a file of one of {', '.join(_ENDINGS)}")
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except Exception as error:  # numpy, zip and zlib raise many kinds of them for files that are damaged
        raise FileFormatError(f"{path}: holds no arrays that can be read ({str(error)[:100]})") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy gives other members of an archive as bytes
            raise FileFormatError(f"{path}: {name} is no array; write it with numpy.savez")
    return arrays


def _only(path: Path, arrays: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
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
