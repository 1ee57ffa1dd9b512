"""`python -m benchmarks.inference`: circuits in eval mode and in training beside a peer and the machine's roofline.

Each circuit has a process of its own, which measures the machine's rates before each batch (`roofline.py`). Before they
are timed, contenders must agree on the values under equal parameters, in eval mode, and the timed circuit must give in
eval mode what it gives in train mode. At the end are geometric means over the circuits, beside what is aimed for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.circuits import CIRCUITS, FORWARD_BATCHES, TARGETS, Spec
from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, table
from benchmarks.machine import save, use_threads

Call = Callable[[], object]

PEER = "cirkit"
_PACKAGE = "libcirkit"
_ROOT = Path(__file__).resolve().parent.parent
_TRAINING = ("forward and backward", "training step")

SPEEDUPS = {
    "eval forward 1": 20,
    "eval forward 16": 8,
    "eval forward 128": 4,
    "eval forward 512": 4,
    "forward and backward 128": 4,
}
"""How many times as long as Plica the peer is to take, at least."""

ROOFLINES = {"eval forward 128": 2, "eval forward 512": 2}
"""How many times as long as the roofline Plica may take."""


def measure_circuit(spec: Spec, names: Sequence[str], settings: Settings, batches: Sequence[int]) -> dict[str, Any]:
    """Comparisons of contenders, the first of which is Plica; those of eval mode have a `roofline`.

    Raises:
        DisagreementError: A contender's values differ from those of the first; then nothing is timed.
    """
    import torch

    from benchmarks.agreement import compare_values, rows
    from benchmarks.contenders import CONTENDERS
    from benchmarks.harness import compare
    from benchmarks.measures import TRAIN_BATCH, forward, forward_backward, training_step
    from benchmarks.roofline import measure_rates, work_of

    contenders = {name: CONTENDERS[name] for name in names}
    equal = {name: one.compile(one.equal(spec)).to(settings.device).eval() for name, one in contenders.items()}
    compare_values(equal, rows(spec).to(settings.device))  # the first call may fold parameters
    report: dict[str, Any] = {"agreement": compare_values(equal, rows(spec).to(settings.device))}
    del equal
    torch.manual_seed(0)
    modules = {name: one.compile(one.describe(spec)).to(settings.device) for name, one in contenders.items()}
    work = work_of(spec.build())
    report["work"] = {"weights": work.weights, "activations": work.activations}
    for batch in batches:
        x = spec.data(batch, settings.device)
        _check_modes(modules[names[0]], forward, x)
        calls: dict[str, Call] = {name: forward(module.eval(), x) for name, module in modules.items()}
        rates = measure_rates(settings)
        found = compare(calls, settings)
        bound = work.milliseconds(batch, rates)
        ratio = found["milliseconds"][names[0]]["median"] / bound
        found["roofline"] = {"rates": rates, "milliseconds": float(f"{bound:.4g}"), "ratio": float(f"{ratio:.4g}")}
        report[f"eval forward {batch}"] = found
    x = spec.data(TRAIN_BATCH, settings.device)
    for title, task in zip(_TRAINING, (forward_backward, training_step), strict=True):
        calls = {name: task(module.train(), x) for name, module in modules.items()}
        report[f"{title} {TRAIN_BATCH}"] = compare(calls, settings)
    return report


def _check_modes(module: Any, forward: Any, x: Any) -> None:
    """Check that eval mode gives what train mode gives, at its first call and later."""
    import torch

    expected = forward(module.train(), x)()
    for _ in range(2):
        torch.testing.assert_close(forward(module.eval(), x)(), expected, rtol=1e-4, atol=1e-4)


def geometric_means(circuits: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each comparison: how many times Plica's time the peer takes, and how many rooflines Plica takes."""
    means: dict[str, dict[str, float]] = {}
    reports = list(circuits.values())
    for title in [title for title, part in reports[0].items() if "ratios" in part]:
        parts = [report[title] for report in reports]
        found: dict[str, list[float]] = {}
        if all(PEER in part["ratios"] for part in parts):
            found[PEER] = [part["ratios"][PEER]["median"] for part in parts]
        if all("roofline" in part for part in parts):
            found["rooflines"] = [part["roofline"]["ratio"] for part in parts]
        if found:
            means[title] = {name: float(f"{statistics.geometric_mean(one):.3g}") for name, one in found.items()}
    return means


def text_of_means(means: Mapping[str, Mapping[str, float]]) -> str:
    """Geometric means beside what is aimed for."""
    lines = ["geometric means over the circuits"]
    for title, found in means.items():
        parts = []
        if PEER in found:
            parts.append(f"{PEER} / plica {found[PEER]:6.2f}{_aim('at least', SPEEDUPS.get(title))}")
        if "rooflines" in found:
            parts.append(f"plica / roofline {found['rooflines']:6.2f}{_aim('at most', ROOFLINES.get(title))}")
        lines.append(f"  {title:26s} {'   '.join(parts)}")
    return "\n".join(lines)


def _aim(word: str, limit: int | None) -> str:
    return "" if limit is None else f" ({word} {limit})"


def text_of_circuit(name: str, report: Mapping[str, Any]) -> str:
    """The figures of one circuit."""
    work = report["work"]
    lines = [f"\n{name}: {work['weights']:,} weights, {work['activations']:,} activations of a row"]
    for title, part in report.items():
        if "milliseconds" not in part:
            continue
        lines.append(table(part, f" {title}"))
        if "roofline" in part:
            bound = part["roofline"]
            rates = {unit: f"{1e-9 * rate:.1f}" for unit, rate in bound["rates"].items()}
            lines.append(
                f"  roofline {bound['milliseconds']:.3f} ms at {rates['operations']} billion operations and "
                f"{rates['bytes']} billion bytes a second; plica takes {bound['ratio']:.2f} of them"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser(
        "inference", "Circuits in eval mode beside a peer and the roofline.", threads=2, device=True
    )
    parser.add_argument("--circuit", nargs="+", choices=CIRCUITS, default=list(TARGETS), metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", default=FORWARD_BATCHES, help="sizes of batches forward")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    settings = Settings(rounds=options.rounds, device=options.device)
    if options.child:
        use_threads(options.threads)
        print(json.dumps(measure_circuit(CIRCUITS[options.circuit[0]], options.child, settings, options.batch)))
        return
    names = ["plica"]
    if importlib.util.find_spec(PEER) is None:
        print(f"{_PACKAGE} is not installed, so Plica is measured beside the roofline alone.")
    else:
        names.append(PEER)
    report: dict[str, Any] = {"circuits": {}}
    for name in options.circuit:
        report["circuits"][name] = _in_a_process(name, names, options)
        print(text_of_circuit(name, report["circuits"][name]), flush=True)
        report["geometric means"] = geometric_means(report["circuits"])
        save(options.out, report, settings, options.threads)  # after each circuit: a run can be cut short
    print("\n" + text_of_means(report["geometric means"]))


def _in_a_process(circuit: str, names: Sequence[str], options: argparse.Namespace) -> Any:
    command = [sys.executable, "-m", "benchmarks.inference", "--circuit", circuit, "--device", options.device]
    command += ["--threads", str(options.threads), "--rounds", str(options.rounds)]
    command += ["--batch", *map(str, options.batch), "--child", *names]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring {circuit} failed (exit status {done.returncode}); see above.")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
