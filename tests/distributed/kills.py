"""Kills at random moments, and whether each run ends as one that nobody disturbed: `python -m tests.distributed.kills`.

Each run of two processes is disturbed once, in one of four ways: SIGKILL of a process, SIGTERM of a process, SIGKILL of
all, SIGTERM of `torchrun`. After the last two, the command is given again if there are no results. A line for each run
says how and when it was disturbed, how many epochs were learned again, and whether its report and model are those of
the undisturbed run.
"""

import argparse
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tests.distributed import streamed
from tests.distributed.processes import WORDS, report_of, torchrun, wait_for, workers

STREAMED, HELD = "tests.distributed.streamed", "plica"
_WAYS = ("one killed", "one terminated", "all killed", "torchrun terminated")
_COMMANDS = {HELD: ("toy.npy", *WORDS, "--epochs", "40"), STREAMED: ("rows", *streamed.WORDS)}


@dataclass(frozen=True)
class DisturbedRun:
    """A run that was disturbed.

    Attributes:
        way: How.
        seconds: When, from its start or from its first checkpoint on.
        is_hit: Whether it still ran.
        epochs_again: The epochs that had ended and were learned again.
        is_same: Whether its report and its model are those of the undisturbed run, and its checkpoint is gone.
    """

    way: str
    seconds: float
    is_hit: bool
    epochs_again: int
    is_same: bool


def disturbed_runs(folder: Path, count: int, seed: int, module: str = HELD) -> Iterator[DisturbedRun]:
    """Train on `toy.npy` or `rows` of a folder without a disturbance, then with one each time."""
    random = np.random.default_rng(seed)
    began = time.monotonic()
    _said(torchrun(folder, *_COMMANDS[module], "--out", "whole", module=module))
    usual = time.monotonic() - began
    for number in range(count):
        yield _disturbed(folder, f"out{number}", _WAYS[number % len(_WAYS)], random, usual, module)


def _disturbed(
    folder: Path, out: str, way: str, random: np.random.Generator, usual: float, module: str
) -> DisturbedRun:
    command, checkpoint = (*_COMMANDS[module], "--out", out), folder / out / "checkpoint"
    process = torchrun(folder, *command, restarts=3, module=module)
    is_training = bool(random.random() < 0.7)  # else at any time: while modules are loaded, and results are written
    if is_training:
        wait_for(checkpoint, process)
    seconds = float(random.uniform(0.0, 1.5 if is_training else usual))
    time.sleep(seconds)
    ranks = workers(process) if process.poll() is None else []
    if ranks:
        _disturb(way, process, ranks, random)
        time.sleep(0.5)  # processes that start again load modules for longer
    ended = _epochs_of(checkpoint)
    said = _said(process)
    is_finished = not checkpoint.exists() and (folder / out / "report.json").exists()
    if process.returncode and not is_finished:
        process = torchrun(folder, *(("--resume", out) if checkpoint.exists() else command), restarts=3, module=module)
        said += _said(process)
    return DisturbedRun(
        way,
        seconds,
        is_hit=bool(ranks),
        epochs_again=max(0, _shown_before_a_restart(said) - ended),
        is_same=not checkpoint.exists() and _is_same(folder / out, folder / "whole"),
    )


def _disturb(way: str, process: subprocess.Popen[str], ranks: list[int], random: np.random.Generator) -> None:
    if way == "torchrun terminated":
        process.send_signal(signal.SIGTERM)
    elif way == "all killed":
        process.kill()
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
    else:
        os.kill(int(random.choice(ranks)), signal.SIGTERM if way == "one terminated" else signal.SIGKILL)


def _is_same(run: Path, other: Path) -> bool:
    models = [(folder / "model.plica").read_bytes() for folder in (run, other)]
    return report_of(run) == report_of(other) and models[0] == models[1]


def _said(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    return said


def _shown_before_a_restart(said: str) -> int:
    """The last epoch that a run shows before it starts again; 0 if it does not. A start shows what was resumed."""
    starts = re.split(r"^epoch 0/", said, flags=re.MULTILINE)[1:]
    shown = re.findall(r"^epoch (\d+)/", starts[0], re.MULTILINE) if len(starts) > 1 else []
    return int(shown[-1]) if shown else 0


def _epochs_of(checkpoint: Path) -> int:
    """The epochs that have ended by the checkpoint; 0 if there is none."""
    try:
        return len(torch.load(checkpoint, weights_only=False)["state"]["history"]) - 1
    except FileNotFoundError:
        return 0


def main() -> None:
    """Disturb runs, and print what happened and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--streamed", action="store_true", help="rows that are read as a stream")
    args = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "toy.npy", np.repeat(np.random.default_rng(0).integers(0, 3, (60, 2)), 3, axis=1))
        streamed.write_rows(Path(name) / "rows")
        for run in disturbed_runs(Path(name), args.runs, args.seed, STREAMED if args.streamed else HELD):
            runs.append(run)
            print(run, flush=True)
    print(
        f"{len(runs)} runs, {sum(run.is_hit for run in runs)} disturbed, {sum(run.is_same for run in runs)} end as the "
        f"undisturbed one; at most {max((run.epochs_again for run in runs), default=0)} epochs learned again"
    )


if __name__ == "__main__":
    main()
