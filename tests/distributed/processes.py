"""Starts processes that are one run, as `torchrun` does, and waits for them."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
