"""Children of a process find no lock of Plica taken by a thread that they do not have."""

import ast
import gc
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import plica
from plica.backend.torch.garbage import without_collection
from plica.forks import ForkSafeLock
from plica.single_flight import SingleFlight
from tests.harness.forks import WORK, fate_of_child

ROOT = Path(plica.__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.parametrize("num_forks", [2, pytest.param(4, marks=pytest.mark.full)])
def test_a_child_that_is_forked_while_a_thread_folds_folds_for_itself(num_forks: int) -> None:
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # torch's own threads hang too
    command = [sys.executable, "-W", "ignore", "-m", "tests.harness.forks", str(num_forks)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env=one_thread, cwd=Path(__file__).parents[1]
    )
    assert done.stdout.splitlines() == [f"{name}: {' '.join(['right'] * (num_forks + 1))}" for name in WORK], (
        done.stderr
    )


def _while_held(hold: Callable[[Callable[[], None]], object], work: Callable[[], bool]) -> str:
    """What becomes of a child while another thread of its parent is within `hold(wait)`."""
    reached, leaving = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        leaving.wait(30)

    thread = threading.Thread(target=hold, args=(wait,))
    thread.start()
    try:
        assert reached.wait(10)
        return fate_of_child(work, limit=5)
    finally:
        leaving.set()
        thread.join()


def test_locks_and_flights_of_other_threads_are_free_in_a_child() -> None:
    lock, flights = ForkSafeLock(), SingleFlight()

    def locked(wait) -> None:
        with lock:
            wait()

    def take() -> bool:
        with lock, lock:
            return True

    assert _while_held(locked, take) == "right"
    assert _while_held(lambda wait: flights.once("one", wait), lambda: flights.once("one", lambda: 5) == 5) == "right"


def test_a_lock_stays_with_the_thread_that_forks() -> None:
    lock = ForkSafeLock()

    def is_still_locked() -> bool:
        thread = threading.Thread(target=lock.__enter__, daemon=True)
        thread.start()
        thread.join(0.05)
        return thread.is_alive()

    with lock:
        assert fate_of_child(is_still_locked) == "right"


def test_a_child_collects_garbage_though_another_thread_had_stopped_that() -> None:
    def stopped(wait) -> None:
        with without_collection():
            wait()

    assert gc.isenabled()
    assert _while_held(stopped, gc.isenabled) == "right"
    with without_collection():
        assert fate_of_child(lambda: not gc.isenabled()) == "right"
    assert gc.isenabled()


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


LOCKING = {
    f"threading.{name}" for name in ("Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier")
} | {"functools.cached_property", "queue.Queue", "multiprocessing.Lock", "multiprocessing.RLock"}
RENEWED = {"forks.py": "makes the locks"}


def test_all_locks_are_those_that_children_find_free() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if re.search("threading|cached_property|queue|multiprocessing", path.read_text())
        and any(name in LOCKING for name in _names(path))
    }
    assert found == set(RENEWED), "take plica.forks.ForkSafeLock and plica.forks.cached_property instead"
