"""One thread makes, others wait: errors reach who needs the same, and neither re-entrance nor a fork waits for ever."""

import copy
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread, Timer
from typing import Any

import pytest

from plica.single_flight import SingleFlight

_THREADS = 8


def _at_once(run: Any) -> list[Any]:
    """What `run` gives, or raises, in several threads that begin together."""
    barrier = Barrier(_THREADS)

    def call(_: int) -> Any:
        barrier.wait()
        try:
            return run()
        except Exception as error:
            return error

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(call, range(_THREADS)))


def test_one_makes_and_others_look_again() -> None:
    flights, made = SingleFlight(), list[int]()

    def make() -> int:
        time.sleep(0.05)
        made.append(len(made) + 1)
        return made[-1]

    first = _at_once(lambda: flights.once("key", make))
    assert [one for one in first if one is not None] == made
    assert len(made) < _THREADS
    assert flights.once("key", make) == made[-1]


def test_other_keys_do_not_wait() -> None:
    flights, inside, done = SingleFlight(), Event(), Event()
    thread = Thread(target=lambda: flights.once("slow", lambda: (inside.set(), done.wait(10))))
    thread.start()
    assert inside.wait(10)
    assert flights.once("other", lambda: 3) == 3
    done.set()
    thread.join()


def test_an_error_reaches_all_and_is_forgotten() -> None:
    flights = SingleFlight()

    def fail() -> None:
        time.sleep(0.05)
        raise ValueError("no")

    errors = _at_once(lambda: flights.once("key", fail))
    assert {repr(error) for error in errors} == {"ValueError('no')"}
    assert flights.once("key", lambda: 4) == 4


def _behind_a_failure(flights: SingleFlight, subject: str) -> Any:
    """What a call gives for a subject that comes while "first" is made, which fails."""
    started, waiting = Event(), Event()

    def fail() -> None:
        started.set()
        waiting.wait(5)
        raise MemoryError("no room")

    def later() -> Any:
        started.wait(5)
        Timer(0.02, waiting.set).start()
        return flights.once("key", lambda: "made", subject, str.__eq__)

    with ThreadPoolExecutor(2) as threads:
        first, other = threads.submit(flights.once, "key", fail, "first"), threads.submit(later)
        with pytest.raises(MemoryError, match="no room"):
            first.result(5)
        return other.result()


def test_an_error_reaches_those_who_wait_for_the_same_subject() -> None:
    flights = SingleFlight()
    with pytest.raises(MemoryError, match="no room"):
        _behind_a_failure(flights, "first")
    assert _behind_a_failure(flights, "second") is None, "it looks again"
    assert flights.once("key", lambda: "made", "first") == "made"


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")
def test_a_thread_that_waits_can_be_interrupted() -> None:
    flights, inside, done = SingleFlight(), Event(), Event()
    thread = Thread(target=lambda: flights.once("key", lambda: (inside.set(), done.wait(10))))
    thread.start()
    assert inside.wait(10)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    Timer(3, done.set).start()  # what ends the test where the interrupt is lost
    try:
        with pytest.raises(KeyboardInterrupt):
            flights.once("key", lambda: None)
        assert not done.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)
        done.set()
        thread.join()


def test_who_waits_for_an_interrupted_thread_makes_it_itself() -> None:
    flights, inside, interrupt = SingleFlight(), Event(), Event()

    def interrupted() -> None:
        inside.set()
        interrupt.wait(10)
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            flights.once("key", interrupted)

    first, results = Thread(target=run), list[int | None]()
    first.start()
    assert inside.wait(10)
    second = Thread(target=lambda: results.append(flights.once("key", lambda: 5)))
    second.start()
    interrupt.set()
    first.join()
    second.join()
    assert results == [5]


def test_a_thread_that_asks_for_what_it_makes_does_not_wait_for_itself() -> None:
    flights = SingleFlight()
    assert flights.once("key", lambda: flights.once("key", lambda: 6)) == 6
    assert flights.once("key", lambda: 7) == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_makes_what_a_thread_of_its_parent_was_making() -> None:
    flights, inside, done = SingleFlight(), Event(), Event()
    thread = Thread(target=lambda: flights.once("key", lambda: (inside.set(), done.wait(30))))
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if not child:
        os._exit(flights.once("key", lambda: 8) or 0)  # which would hang
    deadline = time.monotonic() + 20
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
    done.set()
    thread.join()
    assert ended[0] == child
    assert os.waitstatus_to_exitcode(ended[1]) == 8


def test_a_copy_has_no_flights() -> None:
    flights = SingleFlight()
    copies = flights.once("key", lambda: (copy.deepcopy(flights), pickle.loads(pickle.dumps(flights))))
    assert [one.once("key", lambda: 9) for one in copies] == [9, 9]
