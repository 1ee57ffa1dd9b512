"""Starts processes that are one run, as `torchrun` does, and waits for them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WORDS = ("--epochs", "20", "--batch", "4", "--units", "4", "--dtype", "float64")  # of `plica train`


def environment(**settings: str) -> dict[str, str]:
    """The environment of a process that has one thread, and finds the tests."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **settings}


def start(module: str, words: Sequence[object], size: int, cwd: Path) -> list[subprocess.Popen[str]]:
    """Processes that run a module, the first one first; they find each other at a port that is free."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            cwd=cwd,
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **where),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes: Sequence[subprocess.Popen[str]], seconds: float = 120.0) -> list[tuple[int, str, str]]:
    """The status, stdout and stderr of each; those that do not end in time are killed."""
    try:
        said = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(processes, said, strict=True)]


def torchrun(
    folder: Path, *words: str, size: int = 2, restarts: int = 0, module: str = "plica"
) -> subprocess.Popen[str]:
    """`torchrun -m plica train` in a folder, or the same of another module."""
    options = ("--standalone", "--nproc-per-node", str(size), "--max-restarts", str(restarts))
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, "-m", module, "train", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report_of(folder: Path) -> Any:
    """The report without what differs between two runs of the same."""
    report = json.loads((folder / "report.json").read_text())
    for entry in (report, *report["history"]):
        entry.pop("seconds")
    return report | {"rows_per_second": None, "launches": None, "settings": report["settings"] | {"out": None}}


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    """Wait until a file is there, as long as a process runs."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that `torchrun` has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in children.read_text().split()]
