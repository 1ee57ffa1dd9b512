"""`python -m benchmarks.ranks`: rows that two processes of one thread learn a second, beside one process of one thread.

Each run trains in new processes, in turn: one process (a), two processes, and one process again (the control b, which
should be as fast as a). The first epoch, in which code is generated, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

COLUMNS, UNITS = 60, 32


def train(args: argparse.Namespace) -> None:
    """Train in this process, alone or with others, and print rows a second."""
    import plica
    from plica.distributed.ranks import launched
    from plica.learn import fit
    from plica.learn.learners import LEARNERS
    from plica.templates import hclt

    rows = np.random.default_rng(0).integers(0, 2, (args.rows, args.columns))
    circuit = plica.compile(hclt(rows[:2000], args.units))
    circuit.reset_parameters(seed=0)
    ends: list[float] = []
    with launched() as ranks:
        learner = LEARNERS[args.learner]()
        scored = rows[: ranks.size]  # next to nothing
        fit(
            circuit,
            rows,
            scored,
            learner=learner,
            epochs=args.epochs,
            batch=args.batch,
            on_epoch=lambda _: ends.append(time.perf_counter()),
        )
        if ranks.is_first:
            print((args.epochs - 1) * args.rows / (ends[-1] - ends[1]))


def rate(size: int, words: list[str]) -> float:
    """Rows a second of so many processes."""
    return float(started("benchmarks.ranks", size, ["--worker", *words]))


def started(module: str, size: int, words: list[str]) -> str:
    """What the first of so many processes prints, each of one thread."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = str(chosen.getsockname()[1])
    usual = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", module, *words]
    processes = [
        subprocess.Popen(
            command, env={**usual, "WORLD_SIZE": str(size), "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
    printed = [process.communicate()[0] for process in processes]
    return printed[0]


def main() -> None:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--learner", default="adam")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        train(args)
        return
    words = sys.argv[1:]
    rounds = [(rate(1, words), rate(2, words), rate(1, words)) for _ in range(args.rounds)]
    result = {
        "settings": vars(args),
        "one": statistics.median(a for a, _, _ in rounds),
        "two": statistics.median(two for _, two, _ in rounds),
        "two over one": [round(2 * two / (a + b), 3) for a, two, b in rounds],
        "control": [round(b / a, 3) for a, _, b in rounds],
        "load": os.getloadavg(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
