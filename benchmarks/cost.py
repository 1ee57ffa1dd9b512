"""`python -m benchmarks.cost`: a model of what an epoch costs on many machines, checked on two processes.

A step of P processes on B rows takes `fixed + B / P * row`, and its sum of n bytes takes `2 (P - 1) latency` and
`2 (P - 1) / P * n / bandwidth`, as a ring does (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms").
Adam adds its gradients up in each step, full EM its expected counts once in an epoch. `fixed` and `row` come from one
process at two sizes of a batch, `latency` and `bandwidth` from sums of two processes. Training by two processes is
measured beside what the model says.

>>> cost = Cost(fixed=0.01, row=1e-5, latency=1e-4, bandwidth=1e9)
>>> [round(sum(cost.epoch(100_000, 1_000, 4_000_000, size).values()), 3) for size in (1, 2, 4)]
[2.0, 1.92, 1.91]
>>> cost.epoch(100_000, 1_000, 4_000_000, 2, sums=1)["network"] < cost.epoch(100_000, 1_000, 4_000_000, 2)["network"]
True
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.machine import facts
from benchmarks.ranks import rate, started

_BATCHES = (1_000, 4_000)
_BYTES = (4_000, 16_000_000)
_MACHINES = (1, 8, 64)
_NETWORK = {"latency": 5e-5, "bandwidth": 1.25e9}  # ten gigabits


@dataclass(frozen=True, slots=True)
class Cost:
    """What training costs.

    Args:
        fixed: Seconds of a step, whatever its rows.
        row: Seconds of a row on one core.
        latency: Seconds of a message.
        bandwidth: Bytes in a second between two processes.
    """

    fixed: float
    row: float
    latency: float
    bandwidth: float

    def epoch(self, rows: int, batch: int, size: int, processes: int, *, sums: int | None = None) -> dict[str, float]:
        """Seconds of an epoch, by where they go.

        Args:
            rows: In an epoch.
            batch: Rows of a step, of all processes together.
            size: Bytes that are added up.
            processes: How many.
            sums: How often in an epoch; None for each step.
        """
        steps = rows / batch
        message = 2 * (processes - 1) * (self.latency + size / processes / self.bandwidth)
        return {
            "rows": rows / processes * self.row,
            "steps": steps * self.fixed,
            "network": (steps if sums is None else sums) * message,
        }


def worker(size: int) -> None:
    """Add buffers up with the other processes, and print the seconds of a sum of `size` bytes."""
    import torch
    import torch.distributed as dist

    from plica.distributed.ranks import launched

    flat, seconds = torch.ones(size // 4), []
    with launched() as ranks:
        for _ in range(30):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(flat)
            seconds.append(time.perf_counter() - begin)
            flat.fill_(1)
        if ranks.is_first:
            print(statistics.median(seconds[5:]))


def fitted(learner: str, rounds: int, messages: tuple[float, float]) -> tuple[Cost, dict[str, Any]]:
    """The costs of a learner, and two processes as measured beside what the costs say, at each size of a batch."""

    def words(batch: int) -> list[str]:
        return ["--learner", learner, "--batch", str(batch)]

    measured = {
        (processes, batch): statistics.median(rate(processes, words(batch)) for _ in range(rounds))
        for batch in _BATCHES
        for processes in (1, 2)
    }
    low, high = (batch / measured[1, batch] for batch in _BATCHES)
    row = (high - low) / (_BATCHES[1] - _BATCHES[0])
    latency = messages[0] / 2
    bandwidth = (_BYTES[1] - _BYTES[0]) / (messages[1] - messages[0])
    cost = Cost(low - row * _BATCHES[0], row, latency, bandwidth)
    return cost, {f"{batch} rows": {"one": measured[1, batch], "two": measured[2, batch]} for batch in _BATCHES}


def message_bytes(learner: str) -> int:
    """Bytes that the learner adds up: gradients in float32, or expected counts in float64."""
    import numpy as np

    import plica
    from benchmarks.ranks import COLUMNS, UNITS
    from plica.templates import hclt

    rows = np.random.default_rng(0).integers(0, 2, (2000, COLUMNS))
    circuit = plica.compile(hclt(rows, UNITS))
    return sum(one.numel() for one in circuit.parameters()) * (4 if learner == "adam" else 8)


def main() -> None:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    first, second = (
        statistics.median(float(started("benchmarks.cost", 2, ["--worker", str(size)])) for _ in range(args.rounds))
        for size in _BYTES
    )
    report: dict[str, Any] = {"machine": facts(1, "cpu"), "load": os.getloadavg()}
    for learner in ("adam", "full-em"):
        cost, measured = fitted(learner, args.rounds, (first, second))
        size, sums = message_bytes(learner), 1 if learner == "full-em" else None
        for batch, found in zip(_BATCHES, measured.values(), strict=True):
            seconds = cost.epoch(20_000, batch, size, 2, sums=sums)
            found["two by the model"] = 20_000 / sum(seconds.values())
        far = Cost(cost.fixed, cost.row, **_NETWORK)
        report[learner] = {
            "cost": asdict(cost),
            "bytes of a sum": size,
            "rows a second": measured,
            "seconds for 10 million rows": {
                f"{machines} machines, {batch} rows a step": far.epoch(10_000_000, batch, size, machines, sums=sums)
                for batch in (4_000, 64_000)
                for machines in _MACHINES
            },
        }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
