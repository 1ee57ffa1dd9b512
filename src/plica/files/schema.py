"""Checks values from a file against Python's annotations; nothing here knows a layer by name.

Records of a file are `TypedDict`s. The settings of a layer, an operation or an initializer are checked against the
annotations of its constructor, so a new class needs no other schema. Annotations that cannot be checked allow any
value: names that only a type checker imports, protocols, type variables.

>>> check([1, 2], list[int], "outputs")
>>> check([1, "x"], list[int], "outputs")
Traceback (most recent call last):
plica.errors.FileFormatError: outputs[1]: expected an integer, found 'x'
"""

import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import count, repeat
from typing import Any

import numpy as np

from plica.errors import FileFormatError

_Problem = tuple[str, str]  # the place within a value, as in "[3].class", and what is wrong there
_Finder = Callable[[Any], _Problem | None]

DAMAGED = "the file is damaged"

_SHOWN_VALUE = 80  # characters of a value that a message shows
_SHOWN = 300  # characters of another error's message that our message repeats

# An annotation without parts, what messages call it, and whether a value fits. `bool` is no number here.
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Any: ("anything", lambda _: True),
    object: ("anything", lambda _: True),
    None: ("null", lambda value: value is None),
    type(None): ("null", lambda value: value is None),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: not isinstance(value, bool) and _is_real(value)),
    complex: ("a number", lambda value: isinstance(value, complex) or _is_real(value)),
    str: ("text", lambda value: isinstance(value, str)),
}
_UNIONS = (typing.Union, types.UnionType)


def check(value: Any, annotation: Any, where: str) -> None:
    """Raise unless a value fits an annotation.

    Args:
        value: From a file.
        annotation: A type as Python writes it: `int`, `list[int]`, `float | None`, a `TypedDict`, a class.
        where: The place in the file; parts of the value are named after it, as in `layers[3].class`.

    Raises:
        FileFormatError: The value does not fit; the message names the first part that does not.
    """
    problem = _finder(annotation)(value)
    if problem is not None:
        place, wrong = problem
        raise FileFormatError(f"{where}{place}: {wrong}")


def construct(
    cls: type[Any], where: str, shapes: Iterable[Any], settings: Mapping[str, Any], *, why: str = DAMAGED
) -> Any:
    """`cls(*shapes, **settings)` after checking every argument against the annotations of the constructor.

    Args:
        cls: The class.
        where: The place in the file.
        shapes: Arguments by position.
        settings: Arguments by name.
        why: The end of the message if the constructor refuses the arguments: what is at fault.

    Raises:
        FileFormatError: An argument is missing, unknown or does not fit, or the constructor refuses it.
    """
    signature, hints = _constructor(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
    try:
        bound = signature.bind(*shapes, **settings)
    except TypeError as error:
        expected = ", ".join(signature.parameters)
        raise FileFormatError(f"{where}: {cls.__name__}: {error}; it takes {expected}; {DAMAGED}") from error
    for name, value in bound.arguments.items():
        hint = hints.get(name, Any)
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            hint = types.GenericAlias(tuple, (hint, ...))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            hint = types.GenericAlias(dict, (str, hint))
        check(value, hint, f"{where}: {cls.__name__}: {name}")
    try:
        return cls(*bound.args, **bound.kwargs)
    except Exception as error:  # a constructor, perhaps a custom one, may raise any error
        raise cannot_rebuild(where, error, why) from error


def cannot_rebuild(where: str, error: BaseException, why: str = DAMAGED) -> FileFormatError:
    """The error of a file in which a value does not fit, made from the error that names the value."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if len(reason) > _SHOWN:
        reason = f"{reason[:_SHOWN]}..."
    return FileFormatError(f"{where} cannot be rebuilt ({type(error).__name__}: {reason}); {why}")


@cache
def _constructor(cls: Any) -> tuple[inspect.Signature, Mapping[str, Any]]:
    try:
        hints = typing.get_type_hints(cls.__init__)
    except Exception:  # an annotation that only a type checker can read may fail in any way
        hints = {}
    return inspect.signature(cls), hints


@cache
def _finder(hint: Any) -> _Finder:
    """A function that finds what does not fit an annotation in a value."""
    if hint in _PLAIN:
        return _where_not(_PLAIN[hint][1], hint)
    if typing.is_typeddict(hint):
        return _record_finder(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return _union_finder(hint, parts)
    if origin is typing.Literal:
        return _where_not(lambda value: any(type(value) is type(part) and value == part for part in parts), hint)
    kind = origin or hint
    return _instance_finder(hint, kind, parts) if isinstance(kind, type) else _nothing


def _nothing(_: Any) -> None:
    return None


def _where_not(fits: Callable[[Any], bool], hint: Any) -> _Finder:
    return lambda value: None if fits(value) else _expected(hint, value)


def _instance_finder(hint: Any, kind: type, parts: tuple[Any, ...]) -> _Finder:
    """For an instance of a class, and then its items where the annotation says what they are."""
    find = _items_finder(kind, parts) if parts else _nothing

    def of_instance(value: Any) -> _Problem | None:
        try:
            fits = isinstance(value, kind) and not (isinstance(value, str) and kind is not str)
        except TypeError:  # a protocol that cannot be checked
            return None
        return find(value) if fits else _expected(hint, value)

    return of_instance


def _items_finder(kind: type, parts: tuple[Any, ...]) -> _Finder:
    finders = [_finder(part) for part in parts if part is not Ellipsis]
    is_fixed = kind is tuple and parts[-1] is not Ellipsis

    def of_items(value: Any) -> _Problem | None:
        if isinstance(value, np.ndarray) or not isinstance(value, Iterable):
            return None
        if isinstance(value, Mapping):
            return _first(".{}", value, value.values(), repeat(finders[1])) if len(parts) == 2 else None
        if not is_fixed:
            return _first("[{}]", count(), value, repeat(finders[0]))
        if len(values := list(value)) != len(parts):
            return "", f"expected {len(parts)} items, found {len(values)}"
        return _first("[{}]", count(), values, finders)

    return of_items


def _first(name: str, keys: Iterable[Any], values: Iterable[Any], finders: Iterable[_Finder]) -> _Problem | None:
    """The problem of the first part that does not fit, and its place."""
    for key, value, find in zip(keys, values, finders, strict=False):  # keys and finders may have no end
        problem = find(value)
        if problem is not None:
            place, wrong = problem
            return f"{name.format(key)}{place}", wrong
    return None


def _record_finder(record: Any) -> _Finder:
    fields: Mapping[str, Any] = typing.get_type_hints(record)
    finders = cache(lambda: {name: _finder(hint) for name, hint in fields.items()})  # later: a record may have itself

    def of_record(value: Any) -> _Problem | None:
        if not isinstance(value, dict):
            return "", f"expected an object with {', '.join(fields)}, found {_short(value)}"
        missing = [name for name in fields if name in record.__required_keys__ and name not in value]
        if missing:
            return "", f"{missing[0]!r} is missing"
        unknown = [name for name in value if name not in fields]
        if unknown:
            return "", f"{_short(unknown[0])} is not known; expected {', '.join(fields)}"
        return _first(".{}", value, value.values(), map(finders().__getitem__, value))

    return of_record


def _union_finder(hint: Any, parts: tuple[Any, ...]) -> _Finder:
    finders = [_finder(part) for part in parts]
    real = [number for number, part in enumerate(parts) if part is not type(None)]

    def of_union(value: Any) -> _Problem | None:
        problems = []
        for find in finders:
            if (problem := find(value)) is None:
                return None
            problems.append(problem)
        return problems[real[0]] if len(real) == 1 and value is not None else _expected(hint, value)

    return of_union


def _expected(hint: Any, value: Any) -> _Problem:
    return "", f"expected {_words(hint)}, found {_short(value)}"


def _words(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint][0]
    if typing.get_origin(hint) in _UNIONS:
        return " or ".join(dict.fromkeys(_words(part) for part in typing.get_args(hint)))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(str, typing.get_args(hint)))
    origin = typing.get_origin(hint) or hint
    return str(getattr(origin, "__name__", origin))


def _short(value: Any) -> str:
    text = reprlib.repr(value)
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}..."


def _is_real(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    if isinstance(value, float):
        return True
    return isinstance(value, int) and value.bit_length() <= 1023


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object, for `object_pairs_hook`.

    Raises:
        ValueError: Two members have the same name, so the meaning is unclear.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return members
