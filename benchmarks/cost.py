"""`python -m benchmarks.cost`: a model of what an epoch costs on many machines, checked on two processes.

A step of P processes on B rows takes what one process takes for B / P rows, interpolated between measured numbers of
rows. Its sum of n bytes takes `2 (P - 1) latency` and `2 (P - 1) / P * n / bandwidth`, as a ring does (Patarasuk and
Yuan 2009, "Bandwidth optimal all-reduce algorithms"). Adam adds its gradients up in each step, full EM its expected
counts once in an epoch. Latency and bandwidth come from sums of two processes. Two processes of one machine share its
memory: two that know nothing of each other say how much slower a step is beside another one. Training by two processes
is measured beside what the model says, which knows nothing of it.

>>> cost = Cost((100, 1_000, 4_000), (0.011, 0.02, 0.05), latency=1e-4, bandwidth=1e9)
>>> [round(cost.step(rows), 6) for rows in (0, 100, 500, 1_000, 5_000)]
[0.01, 0.011, 0.015, 0.02, 0.06]
>>> [round(sum(cost.epoch(100_000, 1_000, 4_000_000, size).values()), 2) for size in (1, 2, 4)]
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.machine import facts
from benchmarks.ranks import rate, started

_BATCHES = (1_000, 4_000)  # of two processes together
_SIZES = (250, 500, 1_000, 2_000, 4_000)  # of one
_BYTES = (4_000, 16_000_000)
_MACHINES = (1, 8, 64)
_LATENCY, _BANDWIDTH = 5e-5, 1.25e9  # of ten gigabits


@dataclass(frozen=True, slots=True)
class Cost:
    """What training costs.

    Args:
        sizes: Numbers of rows, ascending.
        seconds: Of a step of one process on so many rows.
        latency: Seconds of a message.
        bandwidth: Bytes in a second between two processes.
        beside: How many times the seconds of a step are those of one beside which another process computes.
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    latency: float
    bandwidth: float
    beside: float = 1.0

    def step(self, rows: float) -> float:
        """Seconds of a step of one process; beyond the sizes the line goes on."""
        last = len(self.sizes) - 2
        at = next((place for place in range(last) if rows < self.sizes[place + 1]), last)
        (low, high), (first, second) = self.sizes[at : at + 2], self.seconds[at : at + 2]
        return self.beside * max(0.0, first + (rows - low) * (second - first) / (high - low))

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
        return {"steps": steps * self.step(batch / processes), "network": (steps if sums is None else sums) * message}


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

    def median(processes: int, batch: int) -> float:
        return statistics.median(rate(processes, words(batch)) for _ in range(rounds))

    def slowed(batch: int) -> float:
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda _: rate(1, words(batch)), range(2)))
        return 2 * alone[batch] / sum(both)

    alone = {batch: median(1, batch) for batch in _SIZES}
    beside = statistics.median(slowed(batch // 2) for batch in _BATCHES for _ in range(rounds))
    latency = messages[0] / 2
    bandwidth = (_BYTES[1] - _BYTES[0]) / (messages[1] - messages[0])
    cost = Cost(_SIZES, tuple(batch / alone[batch] for batch in _SIZES), latency, bandwidth, beside)
    return cost, {f"{batch} rows": {"one": alone[batch], "two": median(2, batch)} for batch in _BATCHES}


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
        far = replace(cost, beside=1.0, latency=_LATENCY, bandwidth=_BANDWIDTH)
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
