"""`torchrun -m plica train`: one run of several processes, which speaks with one voice and survives its processes."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.kills import HELD, STREAMED, disturbed_runs
from tests.distributed.processes import WORDS, finish, report_of, start, torchrun, wait_for
from tests.distributed.streamed import write_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of 60 rows of states."""
    rows = np.repeat(np.random.default_rng(0).integers(0, 3, (60, 2)), 3, axis=1)
    np.save(tmp_path / "toy.npy", rows)
    return tmp_path


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


def own_lines(said: str) -> list[str]:
    """The lines that `plica` wrote, but for those of epochs."""
    return [line for line in said.splitlines() if line.startswith("plica")]


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
@pytest.mark.parametrize("module", [HELD, STREAMED])
def test_disturbed_runs_end_as_if_they_were_not(folder: Path, module: str) -> None:
    write_rows(folder / "rows")
    for run in disturbed_runs(folder, count=8, seed=0, module=module):
        assert run.is_same, run
        assert run.epochs_again <= 1, run


@pytest.mark.full
def test_a_run_with_results_is_not_learned_again(folder: Path, started: Callable[..., subprocess.Popen[str]]) -> None:
    """Neither a new run nor one that was resumed; a run that the user begins is learned."""
    command = ("toy.npy", "--out", "out", *WORDS)
    for words in (command, ("--resume", "out"), command):
        if words[0] == "--resume":
            interrupted = started(folder, *command)
            wait_for(folder / "out/checkpoint", interrupted)
            interrupted.send_signal(signal.SIGTERM)
            interrupted.communicate(timeout=60)
        process = started(folder, *words, restarts=1, module="tests.distributed.ended")
        printed, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert said.count("epoch 20/20") == 1, said
        assert printed.count("wrote model.plica") == 1


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
