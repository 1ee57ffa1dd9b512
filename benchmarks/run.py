"""`python -m benchmarks.run`: measure named circuits, each in a process of its own, and print and save the figures.

`python -m benchmarks.run tracing call_overhead loops` measures traced functions instead, each module in a process.

This process starts the others and never imports torch: a process inherits the peak memory of the one that started it.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.circuits import CIRCUITS, FORWARD_BATCHES, QUICK
from benchmarks.contenders import CONTENDERS, FLAGS
from benchmarks.harness import Settings, table
from benchmarks.machine import SCHEMA, facts, use_threads

STUDIES = ("tracing", "call_overhead", "loops")
_ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := [one for one in options.study if one not in STUDIES]:
        parser.error(f"invalid study: {unknown[0]!r} (choose from {', '.join(STUDIES)})")
    if options.child:
        print(json.dumps(_child(options)))
        return
    if options.study:
        for name in options.study:
            _run_study(name, options)
        return
    names = options.circuit or list(QUICK if options.quick else CIRCUITS)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "date": datetime.date.today().isoformat(),
        "settings": {"rounds": _rounds(options), "seconds": _seconds(options), "contenders": _contenders(options)},
        "machine": _start(names[0], options, "facts"),
        "circuits": {},
    }
    print(json.dumps(result["machine"]))
    for name in names:
        report = _start(name, options, "speed")
        report["peak memory"] = {one: _start(name, options, "memory", one) for one in _contenders(options)}
        result["circuits"][name] = report
        print(_text(name, report), flush=True)
        if options.out:
            options.out.write_text(json.dumps(result, indent=1) + "\n")  # after each circuit: a run can be cut short


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure named circuits.")
    parser.add_argument("study", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}, in place of circuits")
    parser.add_argument("--circuit", nargs="+", choices=CIRCUITS, metavar="NAME", help=f"of {', '.join(CIRCUITS)}")
    parser.add_argument(
        "--contender", nargs="+", choices=CONTENDERS, metavar="NAME", help=f"of {', '.join(CONTENDERS)}"
    )
    parser.add_argument("--flags", action="store_true", help="compare folding and optimizing with doing neither")
    parser.add_argument("--rounds", type=int, help="samples of each contender (20)")
    parser.add_argument("--batch", type=int, nargs="+", default=FORWARD_BATCHES, help="sizes of batches forward")
    parser.add_argument("--quick", action="store_true", help="3 rounds of the 8x8 quad-trees")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures; a folder for those of studies")
    parser.add_argument("--child", choices=("facts", "speed", "memory"), help=argparse.SUPPRESS)
    return parser


def _run_study(name: str, options: argparse.Namespace) -> None:
    """One of `STUDIES` in a fresh process, which prints its figures."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--threads", str(options.threads)]
    rounds = options.rounds or (3 if options.quick else None)
    command += ["--rounds", str(rounds)] if rounds else []
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        command += ["--out", str((options.out / f"{name}.json").resolve())]
    if subprocess.run(command, cwd=_ROOT, env=_environment(options), check=False).returncode:
        raise SystemExit(f"measuring {name} failed; see above.")


def _start(name: str, options: argparse.Namespace, task: str, contender: str | None = None) -> Any:
    """The answer of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.run", "--child", task, "--circuit", name, "--device", options.device]
    command += ["--threads", str(options.threads), "--rounds", str(_rounds(options))]
    command += ["--batch", *map(str, options.batch)]
    command += ["--quick"] if options.quick else []
    command += ["--contender", *([contender] if contender else _contenders(options))]
    environment = _environment(options)
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring the {task} of {name} failed (exit status {done.returncode}); see above.")
    return json.loads(done.stdout.splitlines()[-1])


def _environment(options: argparse.Namespace) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(options.threads)}


def _child(options: argparse.Namespace) -> Any:
    """What the fresh process does."""
    from benchmarks.measures import measure_memory, measure_speed

    use_threads(options.threads)
    if options.child == "facts":
        return facts(options.threads, options.device)
    spec = CIRCUITS[options.circuit[0]]
    if options.child == "memory":
        return measure_memory(spec, options.contender[0], options.device)
    settings = Settings(rounds=_rounds(options), seconds=_seconds(options), device=options.device)
    return measure_speed(spec, options.contender, settings, options.batch)


def _rounds(options: argparse.Namespace) -> int:
    return int(options.rounds or (3 if options.quick else 20))


def _seconds(options: argparse.Namespace) -> float:
    return 0.0 if options.quick else Settings().seconds


def _contenders(options: argparse.Namespace) -> list[str]:
    return list(options.contender or (FLAGS if options.flags else ("plica",)))


def _text(name: str, report: dict[str, Any]) -> str:
    lines = [f"\n{name}"]
    for one, steps in report["compile"].items():
        times = ", ".join(f"{step} {times['median']:.1f} ms" for step, times in steps.items())
        memory = ", ".join(f"{step} {mib:.0f}" for step, mib in report["peak memory"][one].items())
        lines += [f" {one}: {report['parameters'][one]:,} numbers; {times}", f"   peak memory (MiB): {memory}"]
    lines += [table(part, f" {title}") for title, part in report.items() if "milliseconds" in part]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
