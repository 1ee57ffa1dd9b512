"""`python -m benchmarks.loops`: loops of 100 steps over arrays whose size changes from call to call.

* scaling: `x = x * a + b`, with arrays `a` and `b` of the size of `x` that the loop captures.
* recurrence: `x[i] = x[i - 1] * 0.9 + u[i]`, an index and an update at each step.

Each library is written as its own users write it: eager torch with Python's loop (and in place for the recurrence),
Plica with `for_loop`, JAX with `lax.fori_loop`, Catalyst with its `for_loop` and a named axis. Their values are checked
equal to numpy's first. Three things are measured: calls of one size when everything is compiled, those with gradients
(by torch's autograd, and by `jax.grad` inside `jax.jit`), and 20 sizes one after the other from nothing, compilation
included, beside how often the function was traced for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.libraries import LIBRARIES, Array, installed, use_threads_of_peers, versions
from benchmarks.machine import save, use_threads

STEPS = 100
KEPT = 0.9
SIZES = tuple(range(200, 4001, 200))
LIBRARY_NAMES = ("torch", "plica", "jax", "catalyst")
Function = Callable[..., Any]


@dataclass(slots=True)
class Traces:
    """How often the body of a function ran: once for each compilation, where a library compiles."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One loop.

    Args:
        arguments: Arrays of one size.
        reference: The values, by numpy in float64.
        functions: For each library, what makes a function that was never called.
        gradients: The same for gradients of the sum with respect to all arguments.
    """

    arguments: Callable[[int], tuple[Array, ...]]
    reference: Callable[..., Array]
    functions: Mapping[str, Callable[[Traces], Function]]
    gradients: Mapping[str, Callable[[Traces], Function]]


# x = x * a + b


def _scaling_arguments(size: int) -> tuple[Array, ...]:
    random = np.random.default_rng(size)
    x, a, b = random.uniform(0.5, 1.0, (3, size)).astype("float32")
    return x, a, b


def _scaling_by_numpy(x: Array, a: Array, b: Array) -> Array:
    for _ in range(STEPS):
        x = x * a + b
    return x


def _scaling_in_torch(_: Traces) -> Function:
    return _scaling_by_numpy  # the same text


def _scaling_in_plica(traces: Traces) -> Function:
    import plica

    @plica.jit(abstracted_axes={0: "n"})
    def scaling(x: Any, a: Any, b: Any) -> Any:
        traces.count += 1

        @plica.for_loop(0, STEPS)
        def loop(_: Any, x: Any) -> Any:
            return x * a + b

        return loop(x)

    return scaling


def _scaling_in_jax(traces: Traces) -> Function:
    import jax

    @jax.jit
    def scaling(x: Any, a: Any, b: Any) -> Any:
        traces.count += 1
        return jax.lax.fori_loop(0, STEPS, lambda _, x: x * a + b, x)

    return scaling


def _scaling_in_catalyst(traces: Traces) -> Function:
    import catalyst

    @catalyst.qjit(abstracted_axes={0: "n"})
    def scaling(x: Any, a: Any, b: Any) -> Any:
        traces.count += 1

        @catalyst.for_loop(0, STEPS, 1)
        def loop(_: Any, x: Any) -> Any:
            return x * a + b

        return loop(x)

    return scaling


# x[i] = x[i - 1] * 0.9 + u[i]


def _recurrence_arguments(size: int) -> tuple[Array, ...]:
    x, u = np.random.default_rng(size).uniform(0.0, 1.0, (2, size)).astype("float32")
    return x, u


def _recurrence_by_numpy(x: Array, u: Array) -> Array:
    x = x.copy()
    for i in range(1, STEPS + 1):
        x[i] = x[i - 1] * KEPT + u[i]
    return x


def _recurrence_in_torch(_: Traces) -> Function:
    def recurrence(x: Any, u: Any) -> Any:
        x = x.clone()
        for i in range(1, STEPS + 1):
            x[i] = x[i - 1] * KEPT + u[i]
        return x

    return recurrence


def _recurrence_in_plica(traces: Traces) -> Function:
    import plica

    @plica.jit(abstracted_axes={0: "n"})
    def recurrence(x: Any, u: Any) -> Any:
        traces.count += 1

        @plica.for_loop(1, STEPS + 1)
        def loop(i: Any, x: Any) -> Any:
            return x.at[i].set(x[i - 1] * KEPT + u[i])

        return loop(x)

    return recurrence


def _recurrence_in_jax(traces: Traces) -> Function:
    import jax

    @jax.jit
    def recurrence(x: Any, u: Any) -> Any:
        traces.count += 1
        return jax.lax.fori_loop(1, STEPS + 1, lambda i, x: x.at[i].set(x[i - 1] * KEPT + u[i]), x)

    return recurrence


def _recurrence_in_catalyst(traces: Traces) -> Function:
    import catalyst

    @catalyst.qjit(abstracted_axes={0: "n"})
    def recurrence(x: Any, u: Any) -> Any:
        traces.count += 1

        @catalyst.for_loop(1, STEPS + 1, 1)
        def loop(i: Any, x: Any) -> Any:
            return x.at[i].set(x[i - 1] * KEPT + u[i])

        return loop(x)

    return recurrence


# Gradients


def _by_torch(make: Callable[[Traces], Function]) -> Callable[[Traces], Function]:
    """Gradients of the sum of the values, by torch's autograd."""

    def made(traces: Traces) -> Function:
        import torch

        function = make(traces)

        def gradients(*arguments: Any) -> Any:
            watched = [one.detach().requires_grad_() for one in arguments]
            return torch.autograd.grad(function(*watched).sum(), watched)

        return gradients

    return made


def _by_jax(make: Callable[[Traces], Function]) -> Callable[[Traces], Function]:
    def made(traces: Traces) -> Function:
        import jax

        function = make(Traces())

        @jax.jit
        def gradients(*arguments: Any) -> Any:
            traces.count += 1
            places = tuple(range(len(arguments)))
            return jax.grad(lambda *found: function(*found).sum(), argnums=places)(*arguments)

        return gradients

    return made


def _task(
    arguments: Callable[[int], tuple[Array, ...]],
    reference: Callable[..., Array],
    *functions: Callable[[Traces], Function],
) -> Task:
    by_name = dict(zip(LIBRARY_NAMES, functions, strict=True))
    ways = {"torch": _by_torch, "plica": _by_torch, "jax": _by_jax}
    return Task(arguments, reference, by_name, {name: way(by_name[name]) for name, way in ways.items()})


TASKS: dict[str, Task] = {
    "scaling": _task(
        _scaling_arguments,
        _scaling_by_numpy,
        _scaling_in_torch,
        _scaling_in_plica,
        _scaling_in_jax,
        _scaling_in_catalyst,
    ),
    "recurrence": _task(
        _recurrence_arguments,
        _recurrence_by_numpy,
        _recurrence_in_torch,
        _recurrence_in_plica,
        _recurrence_in_jax,
        _recurrence_in_catalyst,
    ),
}


# Measuring


def run(name: str, libraries: Sequence[str], settings: Settings, sizes: Sequence[int] = SIZES) -> Iterator[Any]:
    """Pairs of a title and a comparison, for one of `TASKS`; the first library is the baseline."""
    task = TASKS[name]
    differentiable = [one for one in libraries if one in task.gradients]
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        for library in libraries:
            check(task, library, size)
        check_gradients(task, differentiable, size)
        yield f"{name}, size {size}, forward", compare(_calls(task, libraries, task.functions, size), settings)
        title = f"{name}, size {size}, forward and backward"
        yield title, compare(_calls(task, differentiable, task.gradients, size), settings)
    for title, chosen, functions in (
        ("forward", libraries, task.functions),
        ("forward and backward", differentiable, task.gradients),
    ):
        calls = {one: _all_sizes(task, one, functions[one], sizes) for one in chosen}
        report = compare(calls, replace(settings, rounds=min(settings.rounds, 5), warmup=1, seconds=0.0))
        report["compilations"] = {one: count_compilations(task, one, functions[one], sizes) for one in chosen}
        yield f"{name}, {len(sizes)} sizes from nothing, {title}", report


def check(task: Task, library: str, size: int) -> None:
    """Compare the values of a library with numpy's.

    Raises:
        AssertionError: They differ.
    """
    found = task.functions[library](Traces())(*_arguments(task, library, size))
    wanted = task.reference(*(one.astype("float64") for one in task.arguments(size)))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, err_msg=library)


def check_gradients(task: Task, libraries: Sequence[str], size: int) -> None:
    """Compare the gradients of libraries with those of the first.

    Raises:
        AssertionError: They differ.
    """
    found = [task.gradients[one](Traces())(*_arguments(task, one, size)) for one in libraries]
    for library, gradients in zip(libraries, found, strict=True):
        for one, wanted in zip(gradients, found[0], strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(wanted), rtol=1e-4, atol=1e-4, err_msg=library)


def count_compilations(task: Task, library: str, make: Callable[[Traces], Function], sizes: Sequence[int]) -> int:
    """How often a function is traced for all `sizes`; eager functions are not."""
    traces = Traces()
    _all_sizes(task, library, lambda _: make(traces), sizes)()
    return traces.count


def _all_sizes(
    task: Task, library: str, make: Callable[[Traces], Function], sizes: Sequence[int]
) -> Callable[[], object]:
    """A new function, called once for each size."""
    arguments = [_arguments(task, library, size) for size in sizes]
    wait = LIBRARIES[library].wait

    def call() -> None:
        function = make(Traces())
        for one in arguments:
            wait(function(*one))

    return call


def _calls(
    task: Task, libraries: Sequence[str], functions: Mapping[str, Callable[[Traces], Function]], size: int
) -> dict[str, Callable[[], object]]:
    return {one: _call(functions[one](Traces()), one, _arguments(task, one, size)) for one in libraries}


def _call(function: Function, library: str, arguments: Sequence[Any]) -> Callable[[], object]:
    wait = LIBRARIES[library].wait
    return lambda: wait(function(*arguments))


def _arguments(task: Task, library: str, size: int) -> list[Any]:
    return LIBRARIES[library].arrays(task.arguments(size))


def text(title: str, report: Mapping[str, Any]) -> str:
    """One comparison, and how often each library compiled where that was counted."""
    counted = [f"{name} {count}" for name, count in report.get("compilations", {}).items()]
    return table(report, title) + (f"\n  compilations: {', '.join(counted)}" if counted else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("loops", "Loops of 100 steps over arrays of sizes that change.")
    options = parser.parse_args(arguments)
    use_threads_of_peers(options.threads)
    use_threads(options.threads)
    libraries = installed(LIBRARY_NAMES)
    settings = Settings(rounds=options.rounds)
    report: dict[str, Any] = {}
    for name in TASKS:
        for title, part in run(name, libraries, settings):
            report[title] = part
            print(text(title, part), flush=True)
            save(options.out, report, settings, options.threads, versions(libraries))


if __name__ == "__main__":
    main()
