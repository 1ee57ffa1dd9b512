"""`python -m benchmarks.commits OTHER`: circuits, files, loops and start-up in this source tree and in another one.

OTHER is the root of a checkout (`git worktree add OTHER COMMIT`). Each tree runs in processes of its own, which this
one asks for one sample after another: rounds are interleaved, and the control is a second process of this tree.

A subject is a named circuit of `circuits.py`, a loop of `native_loops.py`, or `start-up`: processes that import.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.circuits import CIRCUITS, Spec
from benchmarks.command import benchmark_parser
from benchmarks.harness import AGAIN, report_of, table, timed
from benchmarks.native_loops import TASKS as LOOPS
from benchmarks.native_loops import Task as Loop
from benchmarks.native_loops import call_of

_ROOT = Path(__file__).resolve().parent.parent
_NAMES = {"this": "this tree", "again": f"this tree{AGAIN}", "other": "the other tree"}
_START_UP = "start-up"
_STARTS = {
    "import plica": "import plica",
    "import plica.templates, plica.queries": "import plica.templates, plica.queries",
    "import torch, plica.learn": "import torch, plica.learn",
    "plica --version": "import sys; sys.argv = ['plica', '--version']; from plica.cli.entry import main; main()",
}
_SUBJECTS = (*CIRCUITS, *LOOPS, _START_UP)
_AGREE = 1e-4  # of values, relative to them where they are above 1
Tasks = dict[str, Callable[[], object]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and print."""
    parser = benchmark_parser("commits", "Compare two source trees.")
    parser.add_argument("other", type=Path, help="the root of the other tree")
    parser.add_argument("--subject", nargs="+", choices=_SUBJECTS, default=list(_SUBJECTS), metavar="NAME")
    parser.add_argument("--serve", choices=_SUBJECTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve(options.serve, options.other.resolve())
        return
    reports = {}
    for name in options.subject:
        reports[name] = _compare(name, options)
        for task, report in reports[name].items():
            print(table(report, f"{name}, {task}"), flush=True)
        if options.out:
            options.out.write_text(json.dumps(reports, indent=1) + "\n")


def _compare(subject: str, options: argparse.Namespace) -> dict[str, Any]:
    other = options.other.resolve()
    with (
        _Worker(_ROOT, subject, options.threads) as this,
        _Worker(other, subject, options.threads) as compared,
        _Worker(_ROOT, subject, options.threads) as again,
    ):
        workers = {_NAMES["this"]: this, _NAMES["other"]: compared, _NAMES["again"]: again}
        values = [worker.ask("values", 1) for worker in workers.values()]
        pairs = [pair for found in values for pair in zip(found, values[0], strict=True)]
        worst = max((abs(one - first) / max(1.0, abs(first)) for one, first in pairs), default=0.0)
        if not worst <= _AGREE:
            raise SystemExit(f"{subject}: the trees differ by {worst:.3g}; nothing was timed.")
        return {task: _interleaved(workers, task, options.rounds) for task in this.ask("tasks", 1)}


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

    def __init__(self, root: Path, subject: str, threads: int) -> None:
        paths = os.pathsep.join([str(root / "src"), str(_ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.commits", str(root), "--serve", subject],
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: str, repeats: int) -> Any:
        """Seconds for each of `repeats` runs of a task; the names of all tasks; or values for comparison."""
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


def _serve(subject: str, root: Path) -> None:
    """Answer requests until there are none left."""
    import plica

    if not Path(plica.__file__).is_relative_to(root):
        raise SystemExit(f"expected plica of {root}, found {plica.__file__}")
    tasks, values = (
        (_starts(), list)
        if subject == _START_UP
        else _of_loop(LOOPS[subject])
        if subject in LOOPS
        else _of_circuit(CIRCUITS[subject])
    )
    for line in sys.stdin:
        task, repeats = json.loads(line)
        answers: dict[str, Callable[[], object]] = {"values": values, "tasks": lambda: list(tasks)}
        print(json.dumps(answers[task]() if task in answers else timed(tasks[task], repeats, "cpu")), flush=True)


def _starts() -> Tasks:
    """Processes that start with this one's paths, and end."""

    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    return {name: partial(start, code) for name, code in _STARTS.items()}


def _of_circuit(spec: Spec) -> tuple[Tasks, Callable[[], list[float]]]:
    """A circuit in torch and in a file, and its log-likelihoods under numbers that are the same in every tree."""
    import plica
    from benchmarks.agreement import rows
    from benchmarks.contenders import CONTENDERS
    from benchmarks.measures import forward, training_step

    contender = CONTENDERS["plica"]
    module = contender.compile(contender.describe(spec))
    tasks: Tasks = {
        "compile": lambda: contender.compile(contender.describe(spec)),
        "forward 1": forward(module, spec.data(1, "cpu")),
        "forward 128": forward(module, spec.data(128, "cpu")),
        "training step 128": training_step(contender.compile(contender.describe(spec)), spec.data(128, "cpu")),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "circuit.plicab"
        plica.native.compile(contender.compile(contender.describe(spec)).eval(), path, queries="log-likelihood")
        file = plica.native.load(path)
    for count in (1, 128):
        tasks[f"file {count}"] = partial(file, spec.data(count, "cpu").numpy())
    equal = contender.compile(contender.equal(spec))
    return tasks, lambda: [float(one) for one in equal(rows(spec)).detach().flatten()]


def _of_loop(loop: Loop) -> tuple[Tasks, Callable[[], list[float]]]:
    """A function in the process and in a file, for its largest size, and the sum of each of its results."""
    size = max(loop.sizes)
    call, file = call_of(loop, "native", size), call_of(loop, "file", size)

    def values() -> list[float]:
        results = [result for one in (call(), file()) for result in (one if isinstance(one, tuple) else (one,))]
        return [float(np.sum(np.asarray(result))) for result in results]

    # a function is compiled anew by the first call of each `jit`
    return {"in process": call, "file": file, "compile": lambda: call_of(loop, "native", size)()}, values


if __name__ == "__main__":
    main()
