"""`python -m benchmarks.updates`: loops of 100 updates at an index, beside the same loops of eager torch, in place.

Torch writes over a copy of the argument that it makes first, which is what Plica does by itself where nobody else holds
the array and no gradient is asked for. Values are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.libraries import versions
from benchmarks.machine import save, use_threads

STEPS = 100
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One loop.

    Args:
        update: What an iteration makes of the index, the array and the other argument, with `.at`.
        in_place: The same in torch, which writes over the array.
        rank: The number of axes of both arguments.
    """

    update: Callable[[Any, Any, Any], Any]
    in_place: Callable[[int, Any, Any], None]
    rank: int = 1


def _recurrence(i: int, x: Any, u: Any) -> None:
    x[i] = x[i - 1] * 0.9 + u[i]


def _number(i: int, x: Any, _: Any) -> None:
    x[i] = 1.0


def _row(i: int, x: Any, u: Any) -> None:
    x[i] = x[i - 1] * 0.9 + u[i]


def _column(i: int, x: Any, u: Any) -> None:
    x[:, i] = x[:, i - 1] * 0.9 + u[:, i]


def _added(i: int, x: Any, u: Any) -> None:
    x[i] += u[i]


def _tail(i: int, x: Any, u: Any) -> None:
    x[i:] = x[i:] * 0.9 + u[i]


def _window(i: int, x: Any, u: Any) -> None:
    x[i - 1 : i + 1] += u[i]


def _inner(_: int, x: Any, u: Any) -> None:
    x[1:-1] = (x[:-2] + x[2:]) * 0.5 + u[1:-1]


def _part_of_a_row(i: int, x: Any, u: Any) -> None:
    x[i, :i] = u[i, :i]


def _largest(i: int, x: Any, u: Any) -> None:
    x[i] = x[i].maximum(u[i])


CASES: dict[str, Case] = {
    "x[i] = x[i - 1] * 0.9 + u[i]": Case(lambda i, x, u: x.at[i].set(x[i - 1] * 0.9 + u[i]), _recurrence),
    "x[i] = 1": Case(lambda i, x, _: x.at[i].set(1.0), _number),
    "rows, x[i] = x[i - 1] * 0.9 + u[i]": Case(lambda i, x, u: x.at[i].set(x[i - 1] * 0.9 + u[i]), _row, 2),
    "columns, x[:, i] = x[:, i - 1] * 0.9 + u[:, i]": Case(
        lambda i, x, u: x.at[:, i].set(x[:, i - 1] * 0.9 + u[:, i]), _column, 2
    ),
    "x[i] += u[i]": Case(lambda i, x, u: x.at[i].add(u[i]), _added),
    "x[i:] = x[i:] * 0.9 + u[i]": Case(lambda i, x, u: x.at[i:].set(x[i:] * 0.9 + u[i]), _tail),
    "x[i - 1:i + 1] += u[i]": Case(lambda i, x, u: x.at[i - 1 : i + 1].add(u[i]), _window),
    "x[1:-1] = (x[:-2] + x[2:]) * 0.5 + u[1:-1]": Case(
        lambda _, x, u: x.at[1:-1].set((x[:-2] + x[2:]) * 0.5 + u[1:-1]), _inner
    ),
    "x[i, :i] = u[i, :i]": Case(lambda i, x, u: x.at[i, :i].set(u[i, :i]), _part_of_a_row, 2),
    "x[i] = max(x[i], u[i])": Case(lambda i, x, u: x.at[i].max(u[i]), _largest),
}
SIZES = (200, 4000)


def _torch(case: Case) -> Function:
    def function(x: Any, u: Any) -> Any:
        x = x.clone()
        for i in range(1, STEPS + 1):
            case.in_place(i, x, u)
        return x

    return function


def _plica(case: Case) -> Function:
    import plica

    @plica.jit(abstracted_axes={axis: "nm"[axis] for axis in range(case.rank)})
    def function(x: Any, u: Any) -> Any:
        return plica.for_loop(1, STEPS + 1, 1, lambda i, a: case.update(i, a, u), x)

    return function


def run(name: str, size: int, settings: Settings) -> dict[str, Any]:
    """The comparison of one of `CASES` on arrays of a size; eager torch is the baseline.

    Raises:
        AssertionError: The values differ, or an argument was changed.
    """
    import torch

    case = CASES[name]
    shape = (size, 200)[: case.rank]
    x, u = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    kept = x.clone()
    functions: Mapping[str, Function] = {"torch": _torch(case), "plica": _plica(case)}
    torch.testing.assert_close(functions["plica"](x, u), functions["torch"](x, u))
    assert torch.equal(x, kept), f"{name}: the argument was changed"
    return compare({library: partial(function, x, u) for library, function in functions.items()}, settings)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and print."""
    parser = benchmark_parser("updates", "Loops of updates at an index.")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds)
    report: dict[str, Any] = {}
    for name in CASES:
        for size in SIZES:
            title = f"{name}, size {size}"
            report[title] = run(name, size, settings)
            print(table(report[title], title), flush=True)
            save(options.out, report, settings, options.threads, versions(("torch", "plica")))


if __name__ == "__main__":
    main()
