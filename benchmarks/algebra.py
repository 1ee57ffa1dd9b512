"""`python -m benchmarks.algebra`: the square of a circuit and its total, and what making them costs, beside a peer.

Each contender is a process of its own. They describe one circuit with equal numbers, multiply it with itself, integrate
the square over all variables, and compile all three. The totals must agree before anything is timed; then calls
alternate, with the first contender a second time as a control.

* total: the integral of the square, forward without gradients, and forward and backward;
* square 128: values of the square for 128 rows, beside those of the circuit;
* making: seconds of multiplying, integrating and compiling, after all that was done with a small circuit;
* memory: the peak of a process that computes the total forward and backward, above that of one with the circuit alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from benchmarks.agreement import DisagreementError, described
from benchmarks.circuits import CircuitSpec
from benchmarks.command import benchmark_parser
from benchmarks.elsewhere import Elsewhere
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import peak_memory_mib, save, use_threads

BATCH = 128
_RELATIVE = 1e-4
_TINY = 2.0**-126  # below it float32 rounds to a few bits
SEMIRINGS = ("sum-product", "complex-lse-sum")
SPECS = {
    spec.name: spec
    for spec in (
        CircuitSpec("quad-tree-2", "cp", 28, 256, 32),
        CircuitSpec("quad-tree-2", "cp", 16, 256, 16),
        CircuitSpec("quad-tree-2", "tucker", 28, 256, 16),
        CircuitSpec("quad-tree-2", "cp", 8, 17, 16),
    )
}
_SMALL = "quad-tree-2-cp-8x8-16"


class Algebra:
    """The circuit, its square and the total of that, compiled by one library; it is asked by name.

    Args:
        library: `plica`, or a package with the same names.
        name: The circuit, of `SPECS`.
        semiring: The name of the semiring.
        threads: How many torch computes with.
        only: `circuit` or `total`: what is compiled; by default everything.
    """

    def __init__(self, library: str, name: str, semiring: str, threads: int, only: str = "") -> None:
        use_threads(threads)
        import torch

        self._torch = torch
        spec = SPECS[name]
        functional = import_module(f"{library}.symbolic.functional")
        pipeline = import_module(f"{library}.pipeline")
        circuit = described(spec, library)
        context = pipeline.PipelineContext(backend="torch", semiring=semiring, fold=True, optimize=True)
        self.seconds: dict[str, float] = {}
        self._compiled: dict[str, Any] = {}
        if not only:  # first calls of everything are over when making is timed
            Algebra(library, _SMALL, semiring, threads, "total")
        self._add("circuit", lambda: context.compile(circuit))
        if only != "circuit":
            square = self._timed("multiply", lambda: functional.multiply(circuit, circuit))
            total = self._timed("integrate", lambda: functional.integrate(square))
            self._add("total", lambda: context.compile(total))
            if not only:
                self._add("square", lambda: context.compile(square))
        self._rows = spec.data(BATCH, "cpu")

    def __call__(self, question: str) -> Any:
        """The answer to a question: seconds of making, a logarithm of the total, or nothing for what is timed."""
        return getattr(self, f"_{question}")()

    def _add(self, name: str, compile_: Callable[[], Any]) -> None:
        self._compiled[name] = self._timed(f"compile {name}", compile_)

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        self.seconds[name] = time.perf_counter() - start
        return result

    def _making(self) -> dict[str, float]:
        return self.seconds

    def _value(self) -> complex:
        with self._torch.no_grad():
            return complex(self._compiled["total"]().flatten()[0].item())

    def _forward(self) -> None:
        with self._torch.no_grad():
            self._compiled["total"]()

    def _backward(self) -> None:
        self._compiled["total"]().real.sum().backward()

    def _circuit(self) -> None:
        with self._torch.no_grad():
            self._compiled["circuit"](self._rows)

    def _square(self) -> None:
        with self._torch.no_grad():
            self._compiled["square"](self._rows)

    def _memory(self) -> float:
        if "total" in self._compiled:
            self._backward()
        else:
            self._circuit()
        return peak_memory_mib("cpu")


def measure(name: str, semiring: str, libraries: Sequence[str], settings: Settings, threads: int) -> dict[str, Any]:
    """What is measured of one circuit in one semiring, for each library.

    Raises:
        DisagreementError: The totals differ.
    """
    report: dict[str, Any] = {"memory above the circuit, MiB": _memory(name, semiring, libraries, threads)}
    with ExitStack() as stack:
        processes = {
            library: stack.enter_context(Elsewhere(Algebra, library, name, semiring, threads)) for library in libraries
        }

        def asked(question: str) -> dict[str, Any]:
            return {library: process.asked(question) for library, process in processes.items()}

        report["totals"] = _agreed({library: call() for library, call in asked("value").items()})
        report["making, seconds"] = {library: call() for library, call in asked("making").items()}
        for question in ("forward", "backward"):
            report[f"total {question}"] = compare(asked(question), settings)
        both = {f"{library} {kind}": call for kind in ("circuit", "square") for library, call in asked(kind).items()}
        report[f"square {BATCH}"] = compare(both, settings)
    return report


def _memory(name: str, semiring: str, libraries: Sequence[str], threads: int) -> dict[str, float]:
    """The peak of the total forward and backward above that of the circuit, in processes of their own."""
    above = {}
    for library in libraries:
        peaks = []
        for only in ("circuit", "total"):
            with Elsewhere(Algebra, library, name, semiring, threads, only) as process:
                peaks.append(process.asked("memory")())
        above[library] = round(peaks[1] - peaks[0], 1)
    return above


def _agreed(totals: Mapping[str, complex]) -> dict[str, str]:
    first, *others = totals.values()
    if any(abs(first - other) > _RELATIVE * abs(first) + _TINY for other in others):
        raise DisagreementError(f"the totals differ: {totals}")
    return {library: str(total) for library, total in totals.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print and save.

    Args:
        arguments: The command line; that of the process if None.
    """
    parser = benchmark_parser("algebra", "Squares of circuits and their totals.", rounds=7, threads=2)
    parser.add_argument("--circuit", nargs="+", default=list(SPECS)[:2], choices=SPECS, help="which circuits")
    parser.add_argument("--semiring", nargs="+", default=SEMIRINGS, help="which semirings")
    parser.add_argument("--contenders", nargs="+", default=["plica"], help="plica, and packages with the same names")
    options = parser.parse_args(arguments)
    settings = Settings(rounds=options.rounds, warmup=1, seconds=0)
    report: dict[str, Any] = {}
    for name in options.circuit:
        for semiring in options.semiring:
            part = measure(name, semiring, options.contenders, settings, options.threads)
            report[f"{name}, {semiring}"] = part
            print(f"{name}, {semiring}")
            for title, figures in part.items():
                print(table(figures, title) if "ratios" in figures else f"{title}: {figures}", flush=True)
            save(options.out, report, settings, options.threads)


if __name__ == "__main__":
    main()
