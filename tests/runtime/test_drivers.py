import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plica.runtime.manifest import Rows
from plica.runtime.module import NativeModule, load
from tests.harness.native_files import ENTRIES, MANIFEST, WEIGHT, code_of, native_file


@pytest.fixture
def module(tmp_path: Path) -> NativeModule:
    """The file of the harness, for the driver that runs one call on several threads."""
    [host] = MANIFEST.targets
    return load(native_file(tmp_path / "tasks.plicab", targets=(replace(host, driver="local-task"),)))


def test_a_call_may_run_on_several_threads(module: NativeModule) -> None:
    for count in (0, 1, 300):
        x = np.random.default_rng(count).integers(-9, 10, (count, 4)).astype(np.float32)
        assert np.array_equal(module(x), x @ WEIGHT)


FORKING = """
import os, sys
import numpy as np
import plica.native

module = plica.native.load(sys.argv[1])
x = np.ones((300, 4), np.float32)
y = module(x)
child = os.fork()
if not child:
    if sys.argv[2] == "ask":
        assert np.array_equal(module(x), y)
        module.update(shift=[1, 1, 1])
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert np.array_equal(module(x), y)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("word", ["ask", "leave"])
@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_processes_that_fork_have_threads_of_their_own(tmp_path: Path, driver: str, word: str) -> None:
    """The child neither waits for threads that it does not have when it asks, nor when it ends."""
    [host] = MANIFEST.targets
    path = native_file(tmp_path / "forked.plicab", targets=(replace(host, driver=driver),))
    found = subprocess.run(
        [sys.executable, "-c", FORKING, str(path), word], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout == "7\n"


ENDING = """
import sys, threading, time
import numpy as np
import plica.native

module = plica.native.load(sys.argv[1])
x = np.ones((300, 4), np.float32)
asked = threading.Event()

def ask():
    while True:
        module(x)
        asked.set()

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
asked.wait()
"""


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_a_process_ends_while_daemon_threads_call(tmp_path: Path, driver: str) -> None:
    [host] = MANIFEST.targets
    path = native_file(tmp_path / "ending.plicab", targets=(replace(host, driver=driver),))
    found = subprocess.run([sys.executable, "-c", ENDING, path], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_calls_of_several_threads_at_one_time_run_on_one_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that share threads wait for each other at each dispatch, and take twice as long."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    [host] = MANIFEST.targets
    first = replace(ENTRIES[0], rows=Rows("n", chunk=100, alone=10))
    targets = (replace(host, driver="local-task"),)
    module = load(native_file(tmp_path / "wide.plicab", targets=targets, entries=(first, *ENTRIES[1:])))
    x = np.random.default_rng(0).integers(-9, 10, (50, 4)).astype(np.float32)
    drivers: list[str] = []
    code = code_of(module)
    session = code._session
    monkeypatch.setattr(code, "_session", lambda driver: drivers.append(driver) or session(driver))
    with code._wide("local-task"):
        assert np.array_equal(module(x), x @ WEIGHT)
        assert np.array_equal(module(x[:10]), x[:10] @ WEIGHT)
    module(x[:10])
    module(x)
    assert drivers == ["local-task", "local-sync", "local-sync", "local-sync", "local-task"]
    assert not code._calls
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(y, x @ WEIGHT) for y in pool.map(module, [x] * 40))
    assert not code._calls


def test_sessions_share_the_threads_of_a_device(module: NativeModule) -> None:
    x = np.random.default_rng(0).integers(-9, 10, (50, 4)).astype(np.float32)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(y, x @ WEIGHT) for y in pool.map(module, [x] * 40))
    devices = {id(session._memory.device) for session in code_of(module)._idle["local-task"]}
    assert len(devices) == 1
