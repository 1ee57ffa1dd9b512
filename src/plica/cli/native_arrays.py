"""Arrays of files for native files, which take any shape and dtype: `.npy`, `.npz`, and tables of numbers."""

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
_ROWS = 4096  # of a table that are read at once
_ENDINGS = (".npy", ".npz", *_TABLES)


def check_can_write_arrays(path: Path, entry: Entry) -> None:
    """Raise unless the results of an entry can be written to a file of that ending.

    Raises:
        FileFormatError: The ending is unknown, or such a file cannot hold the results.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise FileFormatError(f"{path}: the results go to a file of one of {', '.join(_ENDINGS)}; choose another name")
    if len(entry.shown) > 1 and path.suffix.lower() != ".npz":
        names = ", ".join(array.name for array in entry.shown)
        raise FileFormatError(f"{path}: {entry.name} gives {len(entry.shown)} arrays ({names}); write them to a .npz")
    if path.suffix.lower() in _TABLES and not entry.shown[0].shape:
        raise FileFormatError(f"{path}: {entry.shown[0]} is no table; write it to a .npy")


def read_for(words: tuple[str, ...], entries: tuple[Entry, ...]) -> tuple[Entry, dict[str, Array]]:
    """The first entry whose dtypes can hold the arrays of the files, else the first entry, and its arguments.

    Raises:
        InputError, FileFormatError: As `read_arrays`.
    """
    first, *alternatives = entries
    arguments = read_arrays(words, first)
    if _holds(first, arguments):
        return first, arguments
    for entry in alternatives:
        if _holds(entry, alternative_arguments := read_arrays(words, entry)):
            return entry, alternative_arguments
    return first, arguments


def _holds(entry: Entry, arguments: Mapping[str, Array]) -> bool:
    return all(
        np.can_cast(arguments[argument.name].dtype, numpy_dtype(argument.dtype))
        for argument in entry.arguments
        if argument.name in arguments
    )


def read_arrays(words: tuple[str, ...], entry: Entry) -> dict[str, Array]:
    """The arguments of an entry from words of the command line: `FILE`, or `NAME=FILE`.

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
        if not named and path.suffix.lower() == ".npz":
            arrays = _load(path)
            read = {name: arrays[name] for name in names if name in arrays} or _only(path, arrays, names)
        elif named:
            read = {named: _read(path, types[named].dtype if named in types else "float64")}
        elif len(names) == 1:
            read = {names[0]: _read(path, types[names[0]].dtype)}
        else:
            raise InputError(
                f"--input {word}: {entry.name} takes {', '.join(names) or 'nothing'}; write --input NAME={word}"
            )
        for key, array in read.items():
            if key in arguments or key not in names:
                problem = (
                    "is there twice" if key in arguments else f"is no argument; {entry.name} takes {', '.join(names)}"
                )
                raise InputError(f"--input {word}: {key} {problem}")
            arguments[key] = array
    return {name: _fitting(_in_rows(array, types[name]), types[name].dtype) for name, array in arguments.items()}


def named_file(word: str) -> tuple[str, Path]:
    """The name of an argument, or none, and the file that holds it, from a word of the command line."""
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals and name.isidentifier() else ("", Path(word))


def write_arrays(path: Path, entry: Entry, results: tuple[Array, ...]) -> None:
    """Write the results of an entry, whole or not at all."""
    names = [array.name for array in entry.shown]
    if path.suffix.lower() in _TABLES:
        from plica.files.rows.write import writing_rows

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
    if path.suffix.lower() in _TABLES:
        from plica.files.encoding import read_numbers
        from plica.files.rows import open_rows

        with open_rows(path) as rows:
            parts = [_rounded(read_numbers(batch), dtype) for batch in rows.batches(_ROWS)]
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
    if len(arrays) != 1 or len(names) != 1:
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


def _in_rows(array: Array, wanted: ArrayType) -> Array:
    """Images `(N, H, W)` or `(N, C, H, W)` as rows `(N, D)`, if the argument takes such rows."""
    (*_, width), size = wanted.shape or (None,), prod(array.shape[1:])
    return array.reshape(len(array), size) if len(wanted.shape) == 2 < array.ndim and width == size else array


def _fitting(array: Array, name: str) -> Array:
    """The array in a dtype if no entry changes its value, else the array itself."""
    dtype = numpy_dtype(name)
    if array.dtype == dtype or array.dtype.kind not in "biuf":
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return converted if same else array
