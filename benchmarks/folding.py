"""`python -m benchmarks.folding`: whether folding ever trains slower than not folding, on each named circuit.

Forward and backward of the circuit compiled with `fold=True`, beside the same one compiled with `fold=False` and equal
parameters. Values are compared first. Folded layers of irregular circuits, like hidden Chow-Liu trees, read their
inputs in many runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from benchmarks.agreement import compare_values, rows
from benchmarks.circuits import CIRCUITS, HIDDEN_TREES, Spec
from benchmarks.command import benchmark_parser
from benchmarks.contenders import CONTENDERS
from benchmarks.harness import AGAIN, Settings, compare, table
from benchmarks.machine import save, use_threads
from benchmarks.measures import TRAIN_BATCH, forward_backward

FOLDED, UNFOLDED = "plica", "plica fold=False"
TREE_BATCH = 512  # rows of hidden trees: as many as data sets of their size are trained with


def run(spec: Spec, settings: Settings, batch: int) -> dict[str, Any]:
    """The comparison of one circuit.

    Raises:
        DisagreementError: Folding changes the values; then nothing is timed.
    """
    torch.manual_seed(0)
    circuit = spec.build()
    modules = {name: CONTENDERS[name].compile(circuit).to(settings.device) for name in (FOLDED, UNFOLDED)}
    modules[UNFOLDED].load_state_dict(modules[FOLDED].state_dict())
    compare_values(modules, rows(spec).to(settings.device))
    x = spec.data(batch, settings.device)
    return compare({name: forward_backward(module, x) for name, module in modules.items()}, settings)


def slower(report: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The circuits that train slower folded, beyond what the control shows.

    There the upper quartile of the unfolded circuit's ratio is below 1, and below the lower quartile of the control's.
    """
    names = []
    for name, part in report.items():
        ratios = part["ratios"]
        if ratios[UNFOLDED]["q3"] < min(1.0, ratios[FOLDED + AGAIN]["q1"]):
            names.append(name)
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("folding", "Training with and without folds.", threads=2, device=True)
    parser.add_argument("--circuit", nargs="+", choices=CIRCUITS, default=list(CIRCUITS), metavar="NAME")
    parser.add_argument("--batch", type=int, help=f"rows ({TREE_BATCH} for hidden trees, {TRAIN_BATCH} for images)")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds, device=options.device)
    report: dict[str, Any] = {}
    for name in options.circuit:
        batch = options.batch or (TREE_BATCH if name in HIDDEN_TREES else TRAIN_BATCH)
        report[name] = {"rows": batch} | run(CIRCUITS[name], settings, batch)
        print(table(report[name], f"{name}, forward and backward of {batch} rows"), flush=True)
        save(options.out, report, settings, options.threads)  # after each circuit: a run can be cut short
    found = slower(report)
    print(f"folding trains slower on {', '.join(found)}" if found else "folding trains no circuit slower")


if __name__ == "__main__":
    main()
