"""Kills at random moments, and whether each run ends as one that nobody disturbed: `python -m tests.distributed.kills`.

Each run of two processes is disturbed once, in one of four ways: SIGKILL of a process, SIGTERM of a process, SIGKILL of
all, SIGTERM of `torchrun`. After the last two, the command is given again. A line for each run says how and when it was
disturbed, how many epochs were learned again, and whether its report and model are those of the undisturbed run.
"""

import argparse
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.distributed.test_command import WORDS, report_of, torchrun, wait_for, workers

EPOCHS = ("--epochs", "40")


def finished(process: subprocess.Popen[str]) -> str:
    """What a run says until its end."""
    _, said = process.communicate(timeout=300)
    return said


def shown_before_a_restart(said: str) -> int:
    """The last epoch that a run shows before it starts again; 0 if it does not. A start shows what was resumed."""
    starts = re.split(r"^epoch 0/", said, flags=re.MULTILINE)[1:]
    shown = re.findall(r"^epoch (\d+)/", starts[0], re.MULTILINE) if len(starts) > 1 else []
    return int(shown[-1]) if shown else 0


def epochs_kept(checkpoint: Path) -> int:
    """The epochs that have ended by the checkpoint; 0 if there is none."""
    try:
        return len(torch.load(checkpoint, weights_only=False)["state"]["history"]) - 1
    except FileNotFoundError:
        return 0


def disturbed(folder: Path, out: str, way: str, moments: np.random.Generator, usual: float) -> dict[str, Any]:
    """Disturb a run, have it go on, and say what happened."""
    process = torchrun(folder, "toy.npy", "--out", out, *WORDS, *EPOCHS, restarts=3)
    within = bool(moments.random() < 0.7)  # while it trains; else at any time
    if within:
        wait_for(folder / out / "checkpoint", process)
    moment = float(moments.uniform(0.0, 1.5 if within else usual))
    time.sleep(moment)
    ranks = workers(process) if process.poll() is None else []
    hit = bool(ranks)
    if hit and way == "all killed":
        process.kill()
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
    elif hit and way == "torchrun terminated":
        process.send_signal(signal.SIGTERM)
    elif hit:
        os.kill(int(moments.choice(ranks)), signal.SIGTERM if way == "one terminated" else signal.SIGKILL)
    if hit:
        time.sleep(0.5)  # processes that start again load modules for longer
    kept = epochs_kept(folder / out / "checkpoint")
    said = finished(process)
    if process.returncode:
        there = (folder / out / "checkpoint").exists()
        words = ("--resume", out) if there else ("toy.npy", "--out", out, *WORDS, *EPOCHS)
        process = torchrun(folder, *words, restarts=3)
        said += finished(process)
    lost = max(0, shown_before_a_restart(said) - kept)
    same = process.returncode == 0 and all(
        (
            report_of(folder / out) == report_of(folder / "whole"),
            (folder / out / "model.plica").read_bytes() == (folder / "whole/model.plica").read_bytes(),
            not (folder / out / "checkpoint").exists(),
        )
    )
    return {"way": way, "while training": within, "seconds": moment, "hit": hit, "epochs lost": lost, "same": same}


def main() -> None:
    """Disturb runs, and print what happened and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    moments, found = np.random.default_rng(args.seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "toy.npy", np.repeat(np.random.default_rng(0).integers(0, 3, (60, 2)), 3, axis=1))
        began = time.monotonic()
        finished(torchrun(folder, "toy.npy", "--out", "whole", *WORDS, *EPOCHS))
        usual = time.monotonic() - began
        for number in range(args.runs):
            way = ("one killed", "one terminated", "all killed", "torchrun terminated")[number % 4]
            found.append(disturbed(folder, f"out{number}", way, moments, usual))
            print(found[-1], flush=True)
    hits = [one for one in found if one["hit"]]
    print(
        f"{len(found)} runs, {len(hits)} disturbed, {sum(one['same'] for one in found)} end as the undisturbed one; "
        f"at most {max((one['epochs lost'] for one in found), default=0)} epochs learned again"
    )


if __name__ == "__main__":
    main()
