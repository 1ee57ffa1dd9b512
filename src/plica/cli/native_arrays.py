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
        FileFormatError: They cannot.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise FileFormatError(f"{path}: the results go to a file of one of {', '.join(_ENDINGS)}; choose another name")
    if len(entry.shown) > 1 and path.suffix.lower() != ".npz":
        names = ", ".join(one.name for one in entry.shown)
        raise FileFormatError(f"{path}: {entry.name} gives {len(entry.shown)} arrays ({names}); write them to a .npz")
    if path.suffix.lower() in _TABLES and not entry.shown[0].shape:
        raise FileFormatError(f"{path}: {entry.shown[0]} is no table; write it to a .npy")


def read_for(words: tuple[str, ...], entries: tuple[Entry, ...]) -> tuple[Entry, dict[str, Array]]:
    """The first of some entries whose arguments hold what is in the files, or the first of all, and these arguments.

    Raises:
        InputError, FileFormatError: As `read_arrays`.
    """
    first, *others = entries
    given = read_arrays(words, first)
    if _holds(first, given):
        return first, given
    for entry in others:
        if _holds(entry, found := read_arrays(words, entry)):
            return entry, found
    return first, given


def _holds(entry: Entry, given: Mapping[str, Array]) -> bool:
    return all(
        np.can_cast(given[one.name].dtype, numpy_dtype(one.dtype)) for one in entry.arguments if one.name in given
    )


def read_arrays(words: tuple[str, ...], entry: Entry) -> dict[str, Array]:
    """The arguments of an entry from words of the command line: `FILE`, or `NAME=FILE`.

    A `.npz` without a name brings every argument of which it has the name. Images become rows where rows are asked.

    Raises:
        InputError: An argument is there twice, or a word has no name and there are several arguments.
        FileFormatError: A file is missing, damaged or of another kind.
    """
    types = {one.name: one for one in entry.arguments}
    names = list(types)
    found: dict[str, Array] = {}
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
            if key in found or key not in names:
                problem = "is there twice" if key in found else f"is no argument; {entry.name} takes {', '.join(names)}"
                raise InputError(f"--input {word}: {key} {problem}")
            found[key] = array
    return {name: _fitting(_in_rows(array, types[name]), types[name].dtype) for name, array in found.items()}


def named_file(word: str) -> tuple[str, Path]:
    """The name of an argument, or none, and the file that holds it, from a word of the command line."""
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals and name.isidentifier() else ("", Path(word))


def write_arrays(path: Path, entry: Entry, results: tuple[Array, ...]) -> None:
    """Write the results of an entry, whole or not at all."""
    names = [one.name for one in entry.shown]
    if path.suffix.lower() in _TABLES:
        from plica.files.rows.write import writing_rows

        rows = results[0].reshape(len(results[0]), prod(results[0].shape[1:]))
        columns = names if rows.shape[1] == 1 else [f"{names[0]}_{place}" for place in range(rows.shape[1])]
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
        found = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except Exception as error:  # numpy, zip and zlib raise many kinds of them for files that are damaged
        raise FileFormatError(f"{path}: holds no arrays that can be read ({str(error)[:100]})") from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # numpy gives other members of an archive as bytes
            raise FileFormatError(f"{path}: {name} is no array; write it with numpy.savez")
    return found


def _only(path: Path, arrays: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    if len(arrays) != 1 or len(names) != 1:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"{path}: holds {held}; expected one array, or arrays called {', '.join(names)}")
    return {names[0]: next(iter(arrays.values()))}


def _rounded(numbers: Array, name: str) -> Array:
    """Numbers of a table, which are as many digits as somebody wrote, as floats of a dtype that can hold them."""
    dtype = numpy_dtype(name)
    if dtype.kind != "f":
        return numbers
    with np.errstate(over="ignore"):
        rounded = numbers.astype(dtype)
    return rounded if np.array_equal(np.isfinite(rounded), np.isfinite(numbers)) else numbers


def _in_rows(array: Array, wanted: ArrayType) -> Array:
    """Images `(N, H, W)` or `(N, C, H, W)` as rows `(N, D)`, if these are what is wanted."""
    (*_, width), size = wanted.shape or (None,), prod(array.shape[1:])
    return array.reshape(len(array), size) if len(wanted.shape) == 2 < array.ndim and width == size else array


def _fitting(array: Array, name: str) -> Array:
    """The array in a dtype, if every entry stays what it is."""
    dtype = numpy_dtype(name)
    if array.dtype == dtype or array.dtype.kind not in "biuf":
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        same = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return converted if same else array
