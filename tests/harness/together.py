"""Several checks in one test: a test costs milliseconds, most checks less."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
Each: TypeAlias = Callable[[Callable[[Any], object]], None]
"""Runs a check on each of some values."""

_TOGETHER = 20  # checks of one test


def each_of(values: Iterable[T], name: Callable[[T], str] = str) -> "pytest.MarkDecorator":
    """Parametrizes a test by `each`: a function that runs a check on each of some values.

    An error says which value it belongs to.

    >>> @each_of(range(100))
    ... def test_something(each):
    ...     each(lambda number: ...)
    """
    every = list(values)
    parts = [every[place : place + _TOGETHER] for place in range(0, len(every), _TOGETHER)]
    return in_parts(parts, [f"{name(part[0])} to {name(part[-1])}" for part in parts], name)


def in_parts(parts: Sequence[Iterable[T]], ids: Sequence[str], name: Callable[[T], str]) -> "pytest.MarkDecorator":
    """The same for values in parts, each of which is a test."""
    import pytest  # here alone: a machine with a GPU may lack it

    def runner(part: Iterable[T]) -> Each:
        def each(check: Callable[[T], object]) -> None:
            for value in part:
                with _noted(name(value)):
                    check(value)

        return each

    return pytest.mark.parametrize(
        "each", [pytest.param(runner(part), id=id_) for part, id_ in zip(parts, ids, strict=True)]
    )


@contextmanager
def _noted(name: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise
