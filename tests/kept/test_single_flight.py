"""One thread makes, others wait: errors reach all, and neither re-entrance nor a fork waits for ever."""

import copy
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from plica.kept.single_flight import SingleFlight

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


def test_one_makes_and_all_get_it() -> None:
    flights, made = SingleFlight(), []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return len(made)

    first = _at_once(lambda: flights.once("key", make))
    assert set(first) <= set(range(1, len(made) + 1))
    assert len(made) < _THREADS
    assert flights.once("key", make) == len(made)


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


def test_who_waits_for_an_interrupted_thread_makes_it_itself() -> None:
    flights, inside, interrupt = SingleFlight(), Event(), Event()

    def interrupted() -> None:
        inside.set()
        interrupt.wait(10)
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            flights.once("key", interrupted)

    first, results = Thread(target=run), list[int]()
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
        os._exit(flights.once("key", lambda: 8))  # which would hang
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
