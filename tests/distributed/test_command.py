"""`torchrun -m plica train`: one run of several processes, which speaks with one voice and survives its processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.processes import environment, finish, start

WORDS = ("--epochs", "20", "--batch", "4", "--units", "4", "--dtype", "float64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of 60 rows of states."""
    rows = np.repeat(np.random.default_rng(0).integers(0, 3, (60, 2)), 3, axis=1)
    np.save(tmp_path / "toy.npy", rows)
    return tmp_path


def torchrun(folder: Path, *words: str, size: int = 2, restarts: int = 0) -> subprocess.Popen[str]:
    options = ("--standalone", "--nproc-per-node", str(size), "--max-restarts", str(restarts))
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, "-m", "plica", "train", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`torchrun`; what it started ends with the test."""
    processes = []

    def begin(*words: Any, **settings: Any) -> subprocess.Popen[str]:
        processes.append(torchrun(*words, **settings))
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)


def report_of(folder: Path) -> Any:
    """The report without what differs between two runs of the same."""
    report = json.loads((folder / "report.json").read_text())
    for entry in (report, *report["history"]):
        entry.pop("seconds")
    return report | {"rows_per_second": None, "settings": report["settings"] | {"out": None}}


def own_lines(said: str) -> list[str]:
    """The lines that `plica` wrote, but for those of epochs."""
    return [line for line in said.splitlines() if line.startswith("plica")]


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that `torchrun` has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in children.read_text().split()]


@pytest.mark.full
def test_two_processes_train_as_one_and_the_first_one_speaks(folder: Path) -> None:
    """One failure is one line: as of a file that is missing for both."""
    results = finish(start("plica", ["train", "toy.npy", "--out", "two", *WORDS, "--epochs", "2"], 2, folder))
    assert [status for status, _, _ in results] == [0, 0], results
    (_, printed, shown), (_, *others) = results
    assert others == ["", ""]
    lines = [line.partition(":")[0] for line in shown.splitlines()]
    assert lines == ["trying 2 settings", "epoch 0/2", "epoch 1/2", "epoch 2/2"]
    assert printed.splitlines()[-1].startswith("wrote model.plica")
    assert not (folder / "two/checkpoint").exists()
    failed = finish(start("plica", ["train", "none.npy", "--out", "failed"], 2, folder))
    assert [status for status, _, _ in failed] == [2, 2]
    (line,) = own_lines("".join(said for _, _, said in failed))
    assert line.startswith("plica: error: none.npy: no such file")


@pytest.mark.full
def test_results_are_those_of_one_process(folder: Path, started: Callable[..., subprocess.Popen[str]]) -> None:
    for out, size in (("one", 1), ("two", 2)):
        process = started(folder, "toy.npy", "--out", out, *WORDS, size=size)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert report_of(folder / "one") == report_of(folder / "two")  # figures of six digits


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes of torchrun in /proc")
def test_killed_and_terminated_runs_end_as_if_they_were_not(
    folder: Path, started: Callable[..., subprocess.Popen[str]]
) -> None:
    whole = started(folder, "toy.npy", "--out", "whole", *WORDS)
    began = time.monotonic()
    assert whole.communicate(timeout=120)
    assert whole.returncode == 0
    usual = time.monotonic() - began
    rng = np.random.default_rng(0)
    for number in range(8):
        out = f"out{number}"
        process = started(folder, "toy.npy", "--out", out, *WORDS, restarts=3)
        if number % 2:  # else at any time: while modules are loaded, and while results are written
            wait_for(folder / out / "checkpoint", process)
        time.sleep(float(rng.uniform(0.0, 0.8 if number % 2 else usual)))
        if process.poll() is None and workers(process):
            os.kill(int(rng.choice(workers(process))), signal.SIGTERM if number % 4 == 3 else signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert report_of(folder / out) == report_of(folder / "whole"), said
        assert (folder / out / "model.plica").read_bytes() == (folder / "whole/model.plica").read_bytes()
        assert not (folder / out / "checkpoint").exists()


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_and_any_number_goes_on(
    folder: Path, started: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = started(folder, "toy.npy", "--out", "out", *WORDS)
    wait_for(folder / "out/checkpoint", process)
    began = time.monotonic()
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    assert (folder / "out/checkpoint").exists(), said
    if number == signal.SIGTERM:
        assert own_lines(said) == ["plica: terminated; go on with: plica train --resume out"]
        assert time.monotonic() - began < 10.0
    else:
        assert printed.splitlines()[-1] == "go on with: plica train --resume out"
    whole, resumed = started(folder, "toy.npy", "--out", "whole", *WORDS), started(folder, "--resume", "out", size=3)
    for one in (whole, resumed):
        _, said = one.communicate(timeout=120)
        assert one.returncode == 0, said
    assert report_of(folder / "out") == report_of(folder / "whole")


HANGING = """
import os, signal, sys
from plica.cli.errors import one_line_errors
from plica.distributed.ranks import launched
from tests.distributed.cases import learn

@one_line_errors
def main() -> None:
    with launched(3.0) as ranks:
        steps = []

        def on_batch(_: int) -> None:
            steps.append(1)
            if len(steps) == 5 and ranks.rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)

        learn("adam", on_batch=on_batch)

main()
"""


@pytest.mark.full
def test_a_process_that_hangs_is_noticed(folder: Path) -> None:
    (folder / "hanging.py").write_text(HANGING)
    first, second = start("hanging", [], 2, folder)
    try:
        _, said = first.communicate(timeout=60)
    finally:
        second.kill()
        second.communicate()
    assert first.returncode == 2
    (line,) = own_lines(said)
    assert line.startswith("plica: error: process 0 of 2 has lost another one, which has ended or hangs: ")
