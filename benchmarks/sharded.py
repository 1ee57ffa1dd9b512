"""`python -m benchmarks.sharded`: a step of a circuit that no process could hold, divided among processes.

The circuit is an inhomogeneous hidden Markov model, made on the meta device and divided by `plica.distributed.shard`.
A leaf is updated as soon as its gradient is there, and its gradient is freed: a process never holds all gradients.
Each process may hold `--limit` GiB (RLIMIT_DATA); beyond it a request for memory fails. One thread in each process.

>>> round(parameters(98, 3200, 2) / 1e6), parameters(3, 4, 2)
(994, 60)
"""

from __future__ import annotations

import argparse
import json
import os
import time

from benchmarks.machine import facts, peak_memory_mib
from benchmarks.ranks import started

_ROWS = 64


def parameters(steps: int, states: int, categories: int) -> int:
    """How many numbers the model learns: transitions, first probabilities, emissions."""
    return (steps - 1) * states**2 + states + steps * states * categories


def step(args: argparse.Namespace) -> None:
    """Make the circuit in this process, divide it, learn one step and print what it took."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (int(args.limit * 2**30),) * 2)
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    import plica
    from plica.distributed import shard
    from plica.distributed.ranks import launched
    from plica.templates.pgms import hmm

    with launched() as ranks:
        mesh = init_device_mesh("cpu", (ranks.size,))
        imports, begin = peak_memory_mib("cpu"), time.perf_counter()
        symbolic = hmm(range(args.steps), "categorical", args.states, input_layer_kwargs={"num_categories": 2})
        with torch.device("meta"):
            circuit = plica.compile(symbolic, dtype="float32")
        shard(circuit, mesh, seed=0)
        local = sum(getattr(tensor, "to_local", lambda t=tensor: t)().nbytes for tensor in circuit.parameters())
        making, drawn = time.perf_counter() - begin, peak_memory_mib("cpu")

        def descend(leaf: torch.Tensor) -> None:
            assert leaf.grad is not None
            with torch.no_grad():
                leaf.add_(leaf.grad, alpha=-args.rate)
            leaf.grad = None

        for leaf in circuit.parameters():
            leaf.register_post_accumulate_grad_hook(descend)  # type: ignore[no-untyped-call]
        rows = torch.randint(0, 2, (_ROWS, args.steps), generator=torch.Generator().manual_seed(ranks.rank))
        losses, seconds = [], []
        for _ in range(args.updates):
            begin = time.perf_counter()
            loss = -circuit(rows).mean()
            loss.backward()
            losses.append(float(loss.detach()))
            seconds.append(time.perf_counter() - begin)
        with torch.no_grad():
            losses.append(float(-circuit(rows).mean()))
        peak = peak_memory_mib("cpu")
        if ranks.is_first:
            report = {
                "parameters": sum(leaf.numel() for leaf in circuit.parameters()),
                "weights of a process, MiB": round(local / 2**20, 1),
                "peaks, MiB": {"imports": imports, "drawn": drawn, "updated": peak},
                "seconds": {"made": making, "updates": seconds},
                "losses": losses,
            }
            print(json.dumps(report))


def main() -> None:
    """Measure, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=99)
    parser.add_argument("--states", type=int, default=3200)
    parser.add_argument("--updates", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=4.0, help="GiB that a process may hold")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        step(args)
        return
    words = [f"--{name}={value}" for name, value in vars(args).items() if name not in ("worker", "processes")]
    report = json.loads(started("benchmarks.sharded", args.processes, ["--worker", *words]))
    print(json.dumps({"machine": facts(1, "cpu"), "load": os.getloadavg(), "settings": vars(args), **report}, indent=1))


if __name__ == "__main__":
    main()
