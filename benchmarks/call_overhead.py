"""`python -m benchmarks.call_overhead`: what a call of a compiled function costs beside what it computes.

The functions do next to nothing to arrays of three elements. The baseline is the same function as it stands, run by
torch (by numpy where the arguments are numpy's): what a contender takes beyond that is its overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.command import benchmark_parser
from benchmarks.harness import AGAIN, Settings, measure, report_of, summary
from benchmarks.libraries import LIBRARIES, installed, use_threads_of_peers, versions
from benchmarks.machine import save, use_threads

NAMES = ("torch", "plica", "torch.compile", "jax")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A function and what it is called with.

    Args:
        function: The same text for all libraries.
        arguments: Made of the arrays `x` and `y` of a library.
        dynamic: Whether the size of the arrays is declared unknown, where a library can be told so.
        plain: Whether arrays stay numpy's.
    """

    function: Function
    arguments: Callable[[Any, Any], tuple[Any, ...]]
    dynamic: bool = False
    plain: bool = False


CASES: dict[str, Case] = {
    "x + 1": Case(lambda x: x + 1, lambda x, _: (x,)),
    "x + y": Case(lambda x, y: x + y, lambda x, y: (x, y)),
    "x + 1, any size": Case(lambda x: x + 1, lambda x, _: (x,), dynamic=True),
    "x + y, any size": Case(lambda x, y: x + y, lambda x, y: (x, y), dynamic=True),
    "x * k, a Python number": Case(lambda x, k: x * k, lambda x, _: (x, 2.5)),
    "x + y of a dict": Case(lambda tree: tree["x"] + tree["y"], lambda x, y: ({"x": x, "y": y},)),
    "x + 1, numpy": Case(lambda x: x + 1, lambda x, _: (x,), plain=True),
}


def _plica(case: Case) -> Function:
    import plica

    return plica.jit(case.function, abstracted_axes={0: "n"} if case.dynamic else None)


def _torch_compiled(case: Case) -> Function:
    import torch

    return torch.compile(case.function, dynamic=case.dynamic)


def _jax(case: Case) -> Function:
    """Compiled for each size anew, whatever is asked for: results are waited for."""
    import jax

    compiled = jax.jit(case.function)
    return lambda *arguments: compiled(*arguments).block_until_ready()


COMPILERS: Mapping[str, Callable[[Case], Function]] = {
    "torch": lambda case: case.function,
    "plica": _plica,
    "torch.compile": _torch_compiled,
    "jax": _jax,
}


def run(name: str, libraries: Sequence[str], settings: Settings) -> dict[str, Any]:
    """The comparison of one of `CASES`; the first library is the baseline."""
    case = CASES[name]
    arrays = np.arange(3, dtype="float32"), np.arange(3, 6, dtype="float32")
    wanted = case.function(*case.arguments(*arrays))
    calls = {}
    for library in libraries:
        arguments = case.arguments(*(arrays if case.plain else LIBRARIES[library].arrays(arrays)))
        function = COMPILERS[library](case)
        np.testing.assert_allclose(np.asarray(function(*arguments)), wanted, err_msg=library)
        calls[library] = partial(function, *arguments)
    samples = measure(calls, settings)
    return report_of(samples) | {"microseconds above the baseline": overheads(samples)}


def overheads(samples: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Microseconds beyond the first contender, taken within a round like the harness's ratios."""
    baseline = samples[next(iter(samples))]
    return {
        name: summary([1e6 * (one - base) for one, base in zip(times, baseline, strict=True)])
        for name, times in samples.items()
    }


def text(title: str, report: Mapping[str, Any]) -> str:
    """One comparison in microseconds."""
    lines = [title]
    for name, above in report["microseconds above the baseline"].items():
        times = {key: 1e3 * value for key, value in report["milliseconds"][name].items()}
        shown = (
            "numpy" + name.removeprefix("torch") if _is_numpy(title) and name in ("torch", f"torch{AGAIN}") else name
        )
        spread = f"{times['q1']:.2f} to {times['q3']:.2f}"
        lines.append(
            f"  {shown:20s} {times['median']:8.2f} us  ({spread:>16s})  above the baseline {above['median']:+.2f}"
        )
    return "\n".join(lines)


def _is_numpy(title: str) -> bool:
    return title in CASES and CASES[title].plain


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("call_overhead", "What a call of a compiled function costs.", rounds=30)
    options = parser.parse_args(arguments)
    use_threads_of_peers(options.threads)
    use_threads(options.threads)
    libraries = installed(NAMES)
    settings = Settings(rounds=options.rounds, warmup=20)
    report: dict[str, Any] = {}
    for name in CASES:
        report[name] = run(name, libraries, settings)
        print(text(name, report[name]), flush=True)
        save(options.out, report, settings, options.threads, versions(libraries))


if __name__ == "__main__":
    main()
