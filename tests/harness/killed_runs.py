"""Training runs that are killed at random moments: does the last one end like a run without a break?

Run as a program in a folder, with a number of kills: it trains only in children that it forks, since a process that has
trained cannot fork one that trains.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.learn import Adam, Checkpoint, Epoch, fit
from tests.harness.circuits import pixels

EPOCHS = 60


def train(out: Path, *, resume: bool) -> None:
    """Train, and write the result; each event is a line of `out/log` as soon as it happens."""
    rows = np.random.default_rng(0).integers(0, 3, (64, 4))
    torch.manual_seed(0)
    model = TorchCompiler().compile(pixels(2, 3))
    log = os.open(out / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def on_epoch(epoch: Epoch) -> None:
        os.write(log, f"epoch {epoch.number}\n".encode())

    def on_batch(_: int) -> None:
        os.write(log, b"batch\n")
        time.sleep(0.0005)  # so that kills fall into epochs as well as into writes

    result = fit(
        model,
        rows,
        0.25,
        learner=Adam(0.05, schedule="one-cycle"),
        epochs=EPOCHS,
        batch=8,
        checkpoint=Checkpoint(out / "checkpoint", seconds=0.004),
        resume=resume,
        on_batch=on_batch,
        on_epoch=on_epoch,
    )
    history = [[epoch.number, epoch.train, epoch.valid, epoch.best, epoch.rate] for epoch in result.history]
    state = {name: value.tolist() for name, value in result.best_state.items()}
    (out / "result.json").write_text(json.dumps([result.best_epoch, history, state]))


def child(work: Callable[[], None]) -> int:
    """The id of a child that does some work."""
    process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(0)
    return process


def lost_epochs(log: str) -> int:
    """The most epochs that one process had ended and the next one learned again."""
    most, ended, processes = 0, 0, log.split("begin\n")[1:]
    for lines in processes:
        first, _, _ = lines.partition("batch\n")
        resumed = [int(line.split()[1]) for line in first.splitlines()]
        if resumed:
            most = max(most, ended - resumed[-1])
        ended = max([ended, *(int(line.split()[1]) for line in lines.splitlines() if line.startswith("epoch"))])
    return most


def main(kills: int) -> None:
    """Print how many processes were killed while they trained, epochs that were lost, and whether the ends agree."""

    for name in ("whole", "killed"):
        Path(name).mkdir()
    start = time.monotonic()
    os.waitpid(child(lambda: train(Path("whole"), resume=False)), 0)
    seconds = time.monotonic() - start
    rng, killed, log = np.random.default_rng(0), 0, Path("killed/log")
    for _ in range(kills):
        with log.open("a") as file:
            file.write("begin\n")
        process = child(lambda: train(Path("killed"), resume=True))
        time.sleep(rng.uniform(0.02, max(0.06, 2 * seconds / (kills + 2))))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        killed += os.WIFSIGNALED(status)
    with log.open("a") as file:
        file.write("begin\n")
    os.waitpid(child(lambda: train(Path("killed"), resume=True)), 0)
    results = [Path(name, "result.json").read_text() for name in ("whole", "killed")]
    left = sorted(path.name for path in Path("killed").iterdir())
    print(json.dumps([killed, lost_epochs(log.read_text()), results[0] == results[1], left]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
