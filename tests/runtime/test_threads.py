"""Rows of a call that threads share: each once, in order, whoever computes them, and with the same results."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import ProgramWithConstants, with_constants
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.file import file_of
from plica.backend.native.targets import target_of
from plica.errors import InputError, ZeroDivisorError
from plica.ir.program import Program
from plica.runtime import entries, library_code, threads
from plica.runtime.container import write
from plica.runtime.manifest import Fallback
from plica.runtime.module import NativeModule, load
from plica.runtime.threads import num_threads, share
from tests.harness.forks import fate_of_child

WEIGHT = np.arange(12.0).reshape(4, 3)
COUNTS = (0, 1, 7, 8, 9, 64, 130, 1000)
_ROWS: dict[str, Any] = {"rows": "n", "chunk": 64}


def _entry(name: str, program: Program, *results: str, **settings: Any) -> EntryProgram:
    return EntryProgram(name, ProgramWithConstants(program, {}), results, **{**_ROWS, **settings})


def _product() -> EntryProgram:
    program = plica.trace(lambda x, w: x @ w, plica.spec(("n", 4), "float64"), plica.spec((4, 3), "float64"))
    weight = UpdatableConstant(WEIGHT, "w")
    opened = Program(program.inputs[-1:], program.inputs[:-1], program.equations, program.outputs)
    return EntryProgram("product", with_constants(opened, [weight]), ("y",), updatable=(weight,), **_ROWS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Entries with a weight that changes, a fallback, draws whose rows are columns, and errors."""
    numbers, integers = plica.spec(("n",), "float64"), plica.spec(("n",), "int64")
    entry_programs = [
        _product(),
        _entry(
            "score",
            plica.trace(lambda x: (x * x, x < 10.0), numbers),
            "y",
            "holds",
            fallback=Fallback("exact", "holds"),
        ),
        _entry("exact", plica.trace(lambda x: -x, numbers), "y", public=False),
        _entry(
            "noisy",
            plica.trace(lambda x, u: x + u[0] - u[1], numbers, plica.spec((2, "n"), "float64")),
            "y",
            draws=1,
        ),
        _entry("quotient", plica.trace(lambda x, y: x // y, integers, integers), "y"),
    ]
    parts, manifest = file_of(entry_programs, [target_of("host")], {})
    found = tmp_path_factory.mktemp("threads") / "rows.plicab"
    write(found, parts, manifest)
    return found


@pytest.fixture
def module(path: Path) -> NativeModule:
    return load(path)


@pytest.fixture
def use_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many threads share a call."""

    def use(count: int) -> None:
        monkeypatch.setattr(entries, "num_threads", lambda: count)

    return use


# Pieces


def test_results_of_pieces_are_in_order() -> None:
    for count in range(5):
        for workers in (1, 2, 9):
            assert share(lambda piece: piece * 2, range(count), workers) == [2 * piece for piece in range(count)]


def test_another_thread_computes_what_one_cannot() -> None:
    together = threading.Barrier(2, timeout=20)
    assert len({*share(lambda _: together.wait(), [0, 1], 2)}) == 2


def test_the_thread_that_calls_does_not_wait_for_busy_ones() -> None:
    """All threads are busy until the call is over."""
    release, workers = threading.Event(), max(num_threads() - 1, 1)
    busy = [threads._POOL.submit(lambda: release.wait(20)) for _ in range(workers)]  # type: ignore[arg-type]
    try:
        assert share(lambda _: threading.get_ident(), range(4), workers + 1) == [threading.get_ident()] * 4
    finally:
        release.set()
        assert all(one is not None and one.result() for one in busy)


def test_after_an_error_nothing_begins() -> None:
    begun = []

    def fail(piece: int) -> None:
        begun.append(piece)
        raise InputError(str(piece))

    with pytest.raises(InputError):
        share(fail, range(100), 2)
    assert len(begun) <= 2

    main = threading.get_ident()
    started = threading.Event()

    def fail_elsewhere(_: int) -> None:
        if threading.get_ident() != main:
            started.set()
            raise InputError("of a helper")
        assert started.wait(20)

    with pytest.raises(InputError, match="of a helper"):
        share(fail_elsewhere, range(2), 2)


def test_pieces_are_of_about_one_size_and_begin_at_tiles() -> None:
    for total in (0, 1, 7, 8, 9, 63, 64, 65, 200, 513, 1000):
        for most in (7, 64, 512):
            for workers in (1, 2, 3, 8):
                pieces = entries._pieces(total, most, workers)
                assert [row for piece in pieces for row in range(total)[piece]] == list(range(total))
                sizes = [piece.stop - piece.start for piece in pieces]
                assert max(sizes) <= most
                if workers == 1:
                    assert len(pieces) == max(-(-total // most), 1)
                elif most % entries.TILE == 0:
                    assert all(piece.start % entries.TILE == 0 for piece in pieces)
                    assert len(pieces) <= max(-(-total // (most * workers)) * workers, 1)
                    assert len(pieces) >= min(workers, -(-total // entries.TILE)) / 2


# Files


def test_any_number_of_threads_gives_the_same(module: NativeModule, use_threads: Callable[[int], None]) -> None:
    rng = np.random.default_rng(0)
    for count in COUNTS:
        x, y = rng.normal(size=(count, 4)), rng.uniform(0, 13, count)
        for workers in (1, 2, 5):
            use_threads(workers)
            np.testing.assert_allclose(module(x), x @ WEIGHT, atol=1e-12)
            assert np.array_equal(module.score(y), np.where(y < 10, y * y, -y))
            drawn = np.random.default_rng(3).random((2, count))
            assert np.array_equal(module.noisy(y, seed=3), y + drawn[0] - drawn[1])


def test_few_rows_stay_with_the_thread_that_calls(
    module: NativeModule, use_threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_threads(4)
    asked: list[int] = []
    call = library_code.LibraryCode.call

    def counted(self: Any, function: str, arguments: Any, *rest: Any) -> Any:
        asked.append(len(arguments[0]))
        return call(self, function, arguments, *rest)

    monkeypatch.setattr(library_code.LibraryCode, "call", counted)
    entry = module._entries["product"]
    assert entry.rows is not None
    for alone, count, expected in (
        (0, 8, [8]),
        (0, 24, [8, 8, 8]),
        (0, 64, [16] * 4),
        (30, 30, [30]),
        (30, 31, [16, 15]),
        (30, 62, [16, 16, 16, 14]),
        (2**48, 130, [64, 64, 2]),
    ):
        object.__setattr__(entry.rows, "alone", alone)
        asked.clear()
        module(np.zeros((count, 4)))
        assert sorted(asked, reverse=True) == expected, (alone, count)


def test_errors_of_any_piece_reach_the_caller(module: NativeModule, use_threads: Callable[[int], None]) -> None:
    x, y = np.arange(300), np.ones(300, int)
    for workers in (1, 3):
        use_threads(workers)
        for wrong in (0, 299):
            y[:] = 1
            y[wrong] = 0
            with pytest.raises(ZeroDivisorError):
                module.quotient(x, y)
        assert np.array_equal(module.quotient(x, np.full(300, 7)), x // 7)


def test_a_call_sees_one_update_throughout(module: NativeModule, use_threads: Callable[[int], None]) -> None:
    use_threads(3)
    stop, x = threading.Event(), np.ones((1000, 4))

    def ask(_: int) -> list[float]:
        seen = []
        while not stop.is_set():
            rows = module(x)
            assert (rows == rows[0, 0]).all()
            seen.append(float(rows[0, 0]))
        return seen

    module.update(w=np.zeros((4, 3)))
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask, number) for number in range(2)]
        for value in range(100):
            module.update(w=np.full((4, 3), value))
        stop.set()
        for one in asking:
            assert one.result() == sorted(one.result())


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_has_threads_of_its_own(module: NativeModule, use_threads: Callable[[int], None]) -> None:
    use_threads(2)
    x = np.ones((500, 4))
    expected = module(x)

    def ask() -> bool:
        together = threading.Barrier(2, timeout=5)
        share(lambda _: together.wait(), [0, 1], 2)
        return np.array_equal(module(x), expected)

    assert fate_of_child(ask, limit=10) == "right"
    assert np.array_equal(module(x), expected)


FORKING = """
import os, sys
import numpy as np
import plica.native
from plica.runtime import entries

entries.num_threads = lambda: 3
module = plica.native.load(sys.argv[1])
x = np.ones((300, 4))
y = module(x)
child = os.fork()
if not child:
    if sys.argv[2] == "ask":
        assert np.array_equal(module(x), y)
        module.update(w=np.zeros((4, 3)))
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert np.array_equal(module(x), y)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("word", ["ask", "leave"])
def test_a_child_ends_as_it_would(path: Path, word: str) -> None:
    """It neither waits for threads that it does not have when it asks, nor when it ends."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(path), word],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert found.stdout == "7\n"


ENDING = """
import sys, threading, time
import numpy as np
import plica.native
from plica.runtime import entries

entries.num_threads = lambda: 3
module = plica.native.load(sys.argv[1])
x = np.ones((300, 4))
asked = threading.Event()

def ask():
    while True:
        module(x)
        asked.set()

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
asked.wait()
"""


def test_a_process_ends_while_daemon_threads_call(path: Path) -> None:
    for _ in range(5):
        found = subprocess.run([sys.executable, "-c", ENDING, path], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, "")
