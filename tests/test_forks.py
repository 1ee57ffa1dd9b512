"""Children of a process find no lock of Plica taken by a thread that they do not have."""

import ast
import builtins
import gc
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plica
from plica import forks
from plica.backend.torch.garbage import without_collection
from plica.forks import ForkSafeLock
from plica.single_flight import SingleFlight
from tests.harness.forks import WORK, fate_of_child

ROOT = Path(plica.__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.full
@pytest.mark.parametrize("num_forks", [1, pytest.param(4, marks=pytest.mark.full)])
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


DELAYS = (0.05, 0.1, 0.3, 0.5, 0.8, 1.2)
"""Seconds after which a process forks whose thread imports and compiles what it needs for the first time."""

IMPORTER = "def import_slowly():\n    import slow\n    return slow.END == 'reached'\n"
SLOW = "import time\nBEGUN = True\ntime.sleep(0.3)\nEND = 'reached'\n"


def test_a_fork_waits_for_an_import_of_another_thread(tmp_path, monkeypatch) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    importer: dict[str, Any] = {"__name__": "plica.importer"}
    exec(IMPORTER, importer)
    thread = threading.Thread(target=importer["import_slowly"])
    thread.start()
    try:
        while not hasattr(sys.modules.get("slow"), "BEGUN"):
            pass
        assert fate_of_child(importer["import_slowly"], limit=5) == "right"
    finally:
        thread.join()
        del sys.modules["slow"]


FIRST_CALL = """
import sys, threading, time
import numpy as np
import plica
import plica.numpy as pnp
from tests.harness.forks import fate_of_child

x = np.ones(3)
run = plica.jit(lambda x: pnp.cumulative_sum(x), backend="native")
thread = threading.Thread(target=run, args=(x,))
thread.start()
time.sleep(float(sys.argv[1]))
print(fate_of_child(lambda: run(x).tolist() == [1.0, 2.0, 3.0], limit=60))
thread.join()
"""


@pytest.mark.parametrize("delay", [0.2, *(pytest.param(delay, marks=pytest.mark.full) for delay in DELAYS)])
def test_a_child_that_is_forked_within_the_first_call_makes_its_own(delay: float) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FIRST_CALL, str(delay)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=Path(__file__).parents[1]
    )
    assert done.stdout == "right\n", done.stderr


def test_a_fork_does_not_wait_for_a_module_that_runs_plica_while_it_is_imported(tmp_path, monkeypatch) -> None:
    (tmp_path / "trains.py").write_text("import builtins\nbuiltins.run_plica()\n")
    monkeypatch.syspath_prepend(tmp_path)
    begun, ending = threading.Event(), threading.Event()

    def run_plica() -> None:
        begun.set()
        ending.wait(30)

    calling = {"__name__": "plica.calls", "run_plica": run_plica}
    monkeypatch.setattr(builtins, "run_plica", lambda: eval("run_plica()", calling), raising=False)
    thread = threading.Thread(target=importlib.import_module, args=("trains",))
    thread.start()
    try:
        assert begun.wait(10)
        assert not forks._is_importing()
    finally:
        ending.set()
        thread.join()


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
