"""Flights: one fold at a time, and who is told of its error."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from plica.kept.flights import Flights


def _two(flights: Flights, second: str):
    """What a call gives that comes while "first" is folded, which fails."""
    started, waiting = threading.Event(), threading.Event()

    def fail():
        started.set()
        waiting.wait(5)
        raise MemoryError("no room")

    def later():
        started.wait(5)
        threading.Timer(0.02, waiting.set).start()
        return flights.once(second, lambda: "made", is_same=str.__eq__)

    with ThreadPoolExecutor(2) as threads:
        first, other = threads.submit(flights.once, "first", fail), threads.submit(later)
        with pytest.raises(MemoryError, match="no room"):
            first.result(5)
        return other


def test_an_error_reaches_those_who_wait_for_the_same_and_the_next_call_folds() -> None:
    flights = Flights()
    with pytest.raises(MemoryError, match="no room"):
        _two(flights, "first").result()
    assert _two(flights, "second").result() is None, "it looks again"
    assert flights.once("first", lambda: "made") == "made"


def test_what_is_not_wanted_any_more_is_not_folded() -> None:
    assert Flights().once("first", lambda: "made", is_wanted=lambda: False) is None
