"""`python -m benchmarks.tracing`: how long functions of 1,000 equations take until they run.

* elementwise: a mix of arithmetic, comparisons and functions of elements, 1,000 equations in one Program.
* loops: 100 loops of 10 steps, each with a body of 8 equations that captures an array, and one equation between them.

For each: what Plica's steps take; the same function recorded by peers, `jax.make_jaxpr` and torch's `make_fx` with
symbolic sizes (which records Python's own loops unrolled, so not the loops); and everything until the first result,
beside `jax.jit`. Sizes of the first axis are dynamic for Plica and for torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.libraries import LIBRARIES, installed, use_threads_of_peers, versions
from benchmarks.machine import save, use_threads

REPEATS = 100
STEPS = 10
SHAPE = (4, 3)
NAMES = ("plica", "jax", "torch")
Function = Callable[[Any, Any], Any]
Call = Callable[[], object]


def elementwise(numpy: ModuleType, repeats: int) -> Function:
    """Ten equations, `repeats` times, by the functions of any array namespace."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(repeats):
            x = numpy.tanh(x * 0.5 + y)
            y = numpy.where(x > 0.0, y, x)
            y = numpy.sqrt(numpy.abs(y) + 1.0)
            x = x - numpy.minimum(x, y)
        return x, y

    return function


def loops(numpy: ModuleType, for_loop: Callable[..., Any], repeats: int) -> Function:
    """Ten equations, `repeats` times: a loop, the eight of its body, and one more."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(repeats):

            def body(index: Any, a: Any, b: Any, y: Any = y) -> tuple[Any, Any]:
                a = numpy.tanh(a * 0.5 + y)
                b = numpy.abs(b + a * index)
                return a - b, b

            x, b = for_loop(body, x, y)
            y = b * 0.5
        return x, y

    return function


def _loop_of_plica(body: Callable[..., Any], *init: Any) -> Any:
    import plica

    return plica.for_loop(0, STEPS, 1, body, *init)


def _loop_of_jax(body: Callable[..., Any], *init: Any) -> Any:
    import jax

    return jax.lax.fori_loop(0, STEPS, lambda index, carry: body(index, *carry), init)


@dataclass(frozen=True, slots=True)
class Task:
    """A function, as each library is given it: by the number of its repeats.

    Args:
        functions: By library.
    """

    functions: Mapping[str, Callable[[int], Function]]


def _of_plica(make: Callable[..., Function], *more: Any) -> Callable[[int], Function]:
    def made(repeats: int) -> Function:
        import plica.numpy

        return make(plica.numpy, *more, repeats)

    return made


def _of_jax(make: Callable[..., Function], *more: Any) -> Callable[[int], Function]:
    def made(repeats: int) -> Function:
        import jax.numpy

        return make(jax.numpy, *more, repeats)

    return made


def _of_torch(repeats: int) -> Function:
    import torch

    return elementwise(torch, repeats)


TASKS: dict[str, Task] = {
    "elementwise": Task({"plica": _of_plica(elementwise), "jax": _of_jax(elementwise), "torch": _of_torch}),
    "loops": Task({"plica": _of_plica(loops, _loop_of_plica), "jax": _of_jax(loops, _loop_of_jax)}),
}


# Measuring


def run(name: str, libraries: Sequence[str], settings: Settings, repeats: int = REPEATS) -> Iterator[Any]:
    """Pairs of a title and a comparison, for one of `TASKS`."""
    task = TASKS[name]
    functions = {one: task.functions[one](repeats) for one in libraries if one in task.functions}
    check(functions)
    steps = plica_steps(functions["plica"])
    yield f"{name}: {count_equations(functions['plica'])} equations, Plica's steps", compare(steps, settings)
    recorded = {one: RECORDERS[one](function) for one, function in functions.items()}
    yield f"{name}: recording", compare(recorded, settings)
    ready = {one: COMPILERS[one](function) for one, function in functions.items() if one in COMPILERS}
    yield f"{name}: until the first result", compare(ready, settings)


def check(functions: Mapping[str, Function]) -> None:
    """Compare the values of all libraries.

    Raises:
        AssertionError: They differ.
    """
    found: dict[str, Any] = {one: COMPILERS.get(one, _eager)(function)() for one, function in functions.items()}
    for library, results in found.items():
        for result, wanted in zip(results, found["plica"], strict=True):
            np.testing.assert_allclose(np.asarray(result), np.asarray(wanted), rtol=1e-3, atol=1e-3, err_msg=library)


def count_equations(function: Function) -> int:
    """The equations of a function's Program and of those within."""
    from plica.ir.program import nested

    programs, count = [_program(function)], 0
    for program in programs:
        for equation in program.equations:
            count += 1
            programs.extend(nested(equation.params))
    return count


def plica_steps(function: Function) -> dict[str, Call]:
    """Plica's way from a function to code, step by step, and the whole of it with a first call."""
    from plica.backend.torch.emit import load, source
    from plica.passes.clean import clean

    program = _program(function)
    cleaned = clean(program)
    text = source(cleaned, "function", is_checked=True)
    return {
        "trace": lambda: _program(function),
        "clean": lambda: clean(program),
        "write the code": lambda: source(cleaned, "function", is_checked=True),
        "load the code": lambda: load(text, "function"),
        "jit and first call": _compiled_by_plica(function),
    }


def _program(function: Function) -> Any:
    import plica

    spec = plica.spec(("n", SHAPE[1]), "float32")
    return plica.trace(function, spec, spec)


def _compiled_by_plica(function: Function) -> Call:
    import plica

    arguments = _arguments("plica")
    return lambda: plica.jit(function, abstracted_axes={0: "n"})(*arguments)


def _recorded_by_jax(function: Function) -> Call:
    import jax

    arguments = _arguments("jax")
    return lambda: jax.make_jaxpr(_anew(function))(*arguments)


def _compiled_by_jax(function: Function) -> Call:
    import jax

    arguments = _arguments("jax")
    return lambda: jax.block_until_ready(jax.jit(_anew(function))(*arguments))


def _recorded_by_torch(function: Function) -> Call:
    from torch.fx.experimental.proxy_tensor import make_fx

    arguments = _arguments("torch")
    return lambda: make_fx(function, tracing_mode="symbolic")(*arguments)


def _eager(function: Function) -> Call:
    arguments = _arguments("torch")
    return lambda: function(*arguments)


def _anew(function: Function) -> Function:
    """The same function as an object of its own, for which nothing is cached."""
    return lambda x, y: function(x, y)


def _arguments(library: str) -> list[Any]:
    x, y = np.random.default_rng(0).uniform(0.1, 1.0, (2, *SHAPE)).astype("float32")
    return LIBRARIES[library].arrays((x, y))


RECORDERS: Mapping[str, Callable[[Function], Call]] = {
    "plica": lambda function: lambda: _program(function),
    "jax": _recorded_by_jax,
    "torch": _recorded_by_torch,
}
COMPILERS: Mapping[str, Callable[[Function], Call]] = {"plica": _compiled_by_plica, "jax": _compiled_by_jax}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("tracing", "How long functions of 1,000 equations take until they run.", rounds=10)
    options = parser.parse_args(arguments)
    use_threads_of_peers(options.threads)
    use_threads(options.threads)
    libraries = installed(NAMES)
    settings = Settings(rounds=options.rounds, warmup=1)
    report: dict[str, Any] = {}
    for name in TASKS:
        for title, part in run(name, libraries, settings):
            report[title] = part
            print(table(part, title), flush=True)
            save(options.out, report, settings, options.threads, versions(libraries))


if __name__ == "__main__":
    main()
