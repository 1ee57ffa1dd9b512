"""`python -m benchmarks.commits OTHER`: a named circuit compiled by this tree and by another source tree, side by side.

OTHER is the root of a checkout (`git worktree add OTHER COMMIT`). Each tree runs in processes of its own, which this
one asks for one sample after another: rounds are interleaved, and the control is a second process of this tree.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.circuits import CIRCUITS, Spec
from benchmarks.command import benchmark_parser
from benchmarks.harness import AGAIN, report_of, table, timed

_ROOT = Path(__file__).resolve().parent.parent
_NAMES = {"this": "this tree", "again": f"this tree{AGAIN}", "other": "the other tree"}
_TASKS = ("compile", "forward 1", "forward 128", "training step 128")
_AGREE = 1e-4  # of a log-likelihood


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and print."""
    parser = benchmark_parser("commits", "Compare two source trees.")
    parser.add_argument("other", type=Path, help="the root of the other tree")
    parser.add_argument("--circuit", nargs="+", choices=CIRCUITS, default=list(CIRCUITS), metavar="NAME")
    parser.add_argument("--serve", choices=CIRCUITS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve(CIRCUITS[options.serve], options.other.resolve())
        return
    reports = {}
    for name in options.circuit:
        reports[name] = _compare(name, options)
        for task, report in reports[name].items():
            print(table(report, f"{name}, {task}"), flush=True)
        if options.out:
            options.out.write_text(json.dumps(reports, indent=1) + "\n")


def _compare(circuit: str, options: argparse.Namespace) -> dict[str, Any]:
    other = options.other.resolve()
    with (
        _Worker(_ROOT, circuit, options.threads) as this,
        _Worker(other, circuit, options.threads) as compared,
        _Worker(_ROOT, circuit, options.threads) as again,
    ):
        workers = {_NAMES["this"]: this, _NAMES["other"]: compared, _NAMES["again"]: again}
        values = [worker.ask("values", 1) for worker in workers.values()]
        worst = max(abs(one - first) for found in values for one, first in zip(found, values[0], strict=True))
        if not worst <= _AGREE:
            raise SystemExit(f"{circuit}: the trees differ by {worst:.3g} of a log-likelihood; nothing was timed.")
        return {task: _interleaved(workers, task, options.rounds) for task in _TASKS}


def _interleaved(workers: dict[str, "_Worker"], task: str, rounds: int) -> dict[str, Any]:
    repeats = max(1, int(0.02 / max(min(worker.ask(task, 1) for worker in workers.values()), 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in workers}
    orders = random.Random(0)
    for _ in range(rounds):
        for name in orders.sample(list(workers), len(workers)):
            samples[name].append(workers[name].ask(task, repeats))
    return report_of(samples)


class _Worker:
    """A process that imports one tree and answers with seconds."""

    def __init__(self, root: Path, circuit: str, threads: int) -> None:
        paths = os.pathsep.join([str(root / "src"), str(_ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.commits", str(root), "--serve", circuit],
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: str, repeats: int) -> Any:
        """Seconds for each of `repeats` runs of a task, or the values."""
        assert self._process.stdin is not None, "a pipe was asked for"
        assert self._process.stdout is not None, "a pipe was asked for"
        self._process.stdin.write(json.dumps([task, repeats]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {task!r} ended; see above.")
        return json.loads(answer)

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process.stdin, "pipes were asked for"
        self._process.stdin.close()
        self._process.wait()


def _serve(spec: Spec, root: Path) -> None:
    """Answer requests until there are none left."""
    import plica
    from benchmarks.agreement import rows
    from benchmarks.contenders import CONTENDERS
    from benchmarks.measures import forward, training_step

    if not Path(plica.__file__).is_relative_to(root):
        raise SystemExit(f"expected plica of {root}, found {plica.__file__}")
    contender = CONTENDERS["plica"]
    module = contender.compile(contender.describe(spec))
    tasks: dict[str, Callable[[], object]] = {
        "compile": lambda: contender.compile(contender.describe(spec)),
        "forward 1": forward(module, spec.data(1, "cpu")),
        "forward 128": forward(module, spec.data(128, "cpu")),
        "training step 128": training_step(contender.compile(contender.describe(spec)), spec.data(128, "cpu")),
    }
    values = partial(_values, contender.compile(contender.equal(spec)), rows(spec))
    for line in sys.stdin:
        task, repeats = json.loads(line)
        print(json.dumps(values() if task == "values" else timed(tasks[task], repeats, "cpu")), flush=True)


def _values(module: Any, x: Any) -> list[float]:
    """The log-likelihoods of rows under numbers that are the same in every tree."""
    return [float(one) for one in module(x).detach().flatten()]


if __name__ == "__main__":
    main()
