"""Reads the JSON of a file's head as frozen dataclasses; an error is one line that says where the JSON is wrong.

The tables at the end name every field with its reader; an object has exactly the keys of its class. The readers trust
nothing: numbers are whole and not negative, names are short words, and JSON of any depth or length ends in an error.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from plica.errors import NativeFileError
from plica.runtime.manifest import (
    ArrayType,
    Entry,
    Fallback,
    Fault,
    Fold,
    Manifest,
    NonNegativeCheck,
    Rows,
    Target,
    Tensor,
    Tree,
)

Reader = Callable[[Any, str], Any]

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}\Z")
_MAX_TEXT = 10_000  # letters
_MAX_NUMBER = (
    2**48
)  # bytes and entries: more than any memory holds, and products of two are still exact in JSON's tools


def parse(text: bytes, where: str) -> Any:
    """The JSON value of some bytes.

    Raises:
        NativeFileError: `text` is no JSON, is nested too deeply, or has an object with a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_no_constant)
    except RecursionError:
        raise NativeFileError(f"{where}: is nested too deeply") from None
    except ValueError as error:  # bytes that are no UTF-8, numbers of too many digits, or invalid JSON
        raise NativeFileError(f"{where}: is not what was written: {str(error)[:100]}") from None


def record(kind: Callable[..., Any], /, *optional: str, **readers: Reader) -> Reader:
    """A reader of objects with a key for each field of `kind`; `optional` keys may be left out."""

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict) or value.keys() | set(optional) != readers.keys():
            shown = f"the keys {', '.join(sorted(value))[:200]}" if isinstance(value, dict) else f"{value!r:.60}"
            raise NativeFileError(f"{where}: expected the keys {', '.join(sorted(readers))}, found {shown}")
        return kind(
            **{name: reader(value[name], f"{where}.{name}") for name, reader in readers.items() if name in value}
        )

    return read


def many(reader: Reader) -> Reader:
    """A reader of lists whose items `reader` reads."""

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple([reader(item, f"{where}[{index}]") for index, item in enumerate(value)])

    return read


def number(value: Any, where: str) -> int:
    """Reads a number of bytes or entries."""
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise _wrong(where, f"a number from 0 to {_MAX_NUMBER}", value)
    return value


def word(value: Any, where: str) -> str:
    """Reads a name."""
    if not isinstance(value, str) or not _WORD.match(value):
        raise _wrong(where, "a name of letters, digits and _ . + - /", value)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise _wrong(where, f"text of at most {_MAX_TEXT} letters", value)
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _dim(value: Any, where: str) -> int | str:
    return _text(value, where) if isinstance(value, str) else number(value, where)


def _optional(reader: Reader) -> Reader:
    return lambda value, where: None if value is None else reader(value, where)


def word_or_empty(value: Any, where: str) -> str:
    """Reads a name that may be empty."""
    return value if value == "" else word(value, where)


def _tree(value: Any, where: str) -> Tree | int | None:
    if value is None or isinstance(value, int):
        return value if value is None else number(value, where)
    tree: Tree = _NODE(value, where)
    return tree


def _key(value: Any, where: str) -> str | int:
    return _text(value, where) if isinstance(value, str) else number(value, where)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _words(value: Any, where: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return {word(name, where): _text(item, where) for name, item in value.items()}


def _wrong(where: str, expected: str, value: Any) -> NativeFileError:
    return NativeFileError(f"{where}: expected {expected}, found {value!r:.60}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text[:30]} is no whole number")


_ARRAY = record(ArrayType, name=word, dtype=word, shape=many(_dim))
_ROWS = record(Rows, symbol=word, chunk=_optional(number), alone=number)
_FALLBACK = record(Fallback, entry=word, bound=word)
_FAULT = record(Fault, error=word, message=many(_key))
_NODE = record(Tree, kind=word, items=many(_tree), keys=many(_key), name=word_or_empty)
_ENTRY = record(
    Entry,
    name=word,
    function=word,
    arguments=many(_ARRAY),
    results=many(_ARRAY),
    draws=many(_ARRAY),
    constants=many(word),
    rows=_optional(_ROWS),
    fallback=_optional(_FALLBACK),
    public=_flag,
    text=_text,
    takes=_optional(_NODE),
    gives=_optional(_NODE),
    faults=many(_FAULT),
)
_TENSOR = record(
    Tensor,
    name=word,
    dtype=word,
    shape=many(number),
    part=word,
    offset=number,
    updatable=_flag,
    parts=many(word_or_empty),
)
_FOLD = record(Fold, function=word, inputs=many(word), outputs=many(word), faults=many(_FAULT))
_CHECK = record(NonNegativeCheck, tensor=word, names=many(word))
_TARGET = record(Target, name=word, architecture=word, features=many(word), part=word)
read_manifest = record(
    Manifest,
    "encoding",
    main=word,
    entries=many(_ENTRY),
    targets=many(_TARGET),
    tensors=many(_TENSOR),
    folds=many(_FOLD),
    non_negative=many(_CHECK),
    provenance=_words,
    also=many(word),
    encoding=_object,
)
