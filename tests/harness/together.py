"""Several checks in one test: a test costs milliseconds, most checks less."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

Ids: TypeAlias = Callable[[Any], Any] | Iterable[Any] | None

_TOGETHER = 20  # checks of one test


class _Check(NamedTuple):
    arguments: dict[str, Any]
    name: str
    marks: tuple[Any, ...]


def grouped(names: str | Sequence[str], values: Iterable[Any], ids: Ids = None) -> Callable[[Callable[..., None]], Any]:
    """Parametrizes a test as `pytest.mark.parametrize` does, but 20 values share one test.

    Their checks share its fixtures too. An error says which value it belongs to; after it, the other values of the
    test are not checked.

    >>> @grouped("number", range(100))
    ... def test_something(number): ...
    """
    every = list(values)
    return in_parts(names, [every[start : start + _TOGETHER] for start in range(0, len(every), _TOGETHER)], ids)


def in_parts(
    names: str | Sequence[str], parts: Iterable[Sequence[Any]], ids: Ids = None
) -> Callable[[Callable[..., None]], Any]:
    """The same for values in parts, each of which is a test; values of different marks are never in one."""
    import pytest  # here alone: a machine with a GPU may lack it

    parameters = re.findall(r"\w+", names) if isinstance(names, str) else list(names)
    group = f"some_{parameters[0]}"
    named = ids if ids is None or callable(ids) else map(str, ids)
    params = []
    for part in parts:
        checks = [_check(parameters, value, named) for value in part]
        for marks, alike in groupby(checks, lambda check: check.marks):
            some = list(alike)
            name = some[0].name if len(some) == 1 else f"{some[0].name} to {some[-1].name}"
            params.append(pytest.param(some, id=name, marks=marks))

    def decorate(test: Callable[..., None]) -> Any:
        signature = inspect.signature(test)
        if missing := [name for name in parameters if name not in signature.parameters]:
            raise TypeError(f"{test.__name__} takes no {', '.join(missing)}")

        @functools.wraps(test)
        def run(**given: Any) -> None:
            for check in given.pop(group):
                try:
                    test(**given, **check.arguments)
                except pytest.skip.Exception as skip:
                    raise AssertionError(f"a skip of {check.name} would leave others unchecked") from skip
                except BaseException as error:
                    error.add_note(f"case: {check.name}")
                    raise

        fixtures = [one for name, one in signature.parameters.items() if name not in parameters]
        taken = [*fixtures, inspect.Parameter(group, inspect.Parameter.KEYWORD_ONLY)]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in taken]
        )
        return pytest.mark.parametrize(group, params)(run)

    return decorate


def _check(parameters: list[str], value: Any, ids: Callable[[Any], Any] | Iterator[str] | None) -> _Check:
    import pytest

    marks: tuple[Any, ...] = ()
    name: Any = None
    values = value if len(parameters) > 1 else (value,)
    if isinstance(value, type(pytest.param())):
        values, marks, name = value.values, tuple(value.marks), value.id
    if isinstance(ids, Iterator):
        name = next(ids)
    else:
        name = name or "-".join(str(ids(one)) if ids else _shortened(one) for one in values)
    return _Check(dict(zip(parameters, values, strict=True)), name, marks)


def _shortened(value: Any) -> str:
    """Alike in every process: no addresses, and nothing of a set, whose order is by chance."""
    name = getattr(value, "__name__", None) or str(value)
    if name == "<lambda>":
        return f"line {value.__code__.co_firstlineno}"
    return type(value).__name__ if re.search("{| at 0x", name) else name[:40]
