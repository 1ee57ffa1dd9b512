"""The thread that reads ahead reads one batch, and ends with its iterator; another process has an error, not a hang."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from typing import Any

import pytest

from plica.data import Rows
from plica.data.ahead import ahead
from plica.errors import InputError
from tests.harness.forks import fate_of_child


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("plica-rows")]


def test_one_item_is_computed_ahead_and_closing_ends_the_thread() -> None:
    begun = [threading.Event() for _ in range(4)]
    closed: list[bool] = []

    def items() -> Generator[int, None, None]:
        try:
            for number, event in enumerate(begun):
                event.set()
                yield number
        finally:
            closed.append(True)

    numbers = ahead(items())
    assert next(numbers) == 0
    assert begun[1].wait(10)  # while the caller has item 0
    assert not begun[2].is_set()
    assert _threads()
    numbers.close()
    assert closed == [True]
    assert not _threads()
    assert not begun[2].is_set()


def test_the_thread_ends_with_the_rows_with_an_error_and_with_the_iterator(table: Any) -> None:
    rows = Rows(table)
    assert sum(len(batch) for batch in rows.batches(size=100)) == 1000
    assert not _threads()
    for _ in rows.batches(size=100):
        break
    assert not _threads()  # the loop had the only reference

    def fails() -> Generator[int, None, None]:
        yield 1
        raise InputError("row 2 is bad")

    seen: list[int] = []
    with pytest.raises(InputError, match="row 2 is bad"):
        seen.extend(ahead(fails()))
    assert seen == [1]
    assert not _threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_does_not_go_on_but_begins_for_itself(table: Any) -> None:
    rows = Rows(table)
    batches = rows.batches(size=100)
    next(batches)

    def work() -> bool:
        with pytest.raises(InputError, match=r"call batches\(\) there"):
            next(batches)
        return sum(len(batch) for batch in rows.batches(size=100)) == 1000

    assert fate_of_child(work, limit=20) == "right"
    assert sum(len(batch) for batch in batches) == 900
