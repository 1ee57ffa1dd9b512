"""`python -m benchmarks.native_loops`: loops of small steps as machine code, beside eager torch, torch code and JAX.

Machine code is made at once, in the process (`native`), or stands in a file (`file`).

* recurrence: `x[i] = x[i - 1] * 0.9 + u[i]`, for all i.
* rows: `A[i] = A[i - 1] * 0.9 + U[i]`, rows of 16 numbers.
* viterbi, kalman: the examples of these names; JAX, Catalyst and eager torch with the same text in their own words.
* growing: an array of squares that grows by one number in each turn; JAX has no such arrays.
* sinkhorn, forward_backward, mixture, lstm: `sequence_models.py`.

Values are checked equal first, with those of numpy where it has the program; what Catalyst does not accept is said.
Measured are calls when everything is compiled, and compilation: of native code once for all sizes, of JAX and Catalyst
for one size. The first contender runs twice in each round, which shows the noise.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import sequence_models as models
from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.libraries import LIBRARIES, Array, installed, use_threads_of_peers, versions
from benchmarks.machine import save, use_threads

KEPT = 0.9
EXAMPLES = Path(__file__).parents[1] / "examples"
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One loop.

    Args:
        arguments: Arrays and numbers of a size.
        function: The function as Plica's users write it, without `jit`.
        sizes: The sizes that are measured.
        axes: Its `abstracted_axes`, where annotations do not give them.
        others: What other libraries' users write, by library.
        reference: The function in numpy, whose values the others are compared with.
    """

    arguments: Callable[[int], tuple[Any, ...]]
    function: Callable[[], Function]
    sizes: tuple[int, ...]
    axes: Any
    others: Mapping[str, Callable[[], Function]]
    reference: Callable[[], Function] | None = None


def _random(*shape: int) -> Array:
    return np.random.default_rng(shape[0]).uniform(0.0, 1.0, shape)


# x[i] = x[i - 1] * 0.9 + u[i], of numbers and of rows


def _recurrence() -> Function:
    import plica

    def recurrence(x: Any, u: Any) -> Any:
        @plica.for_loop(1, x.shape[0])
        def loop(i: Any, x: Any) -> Any:
            return x.at[i].set(x[i - 1] * KEPT + u[i])

        return loop(x)

    return recurrence


def _recurrence_in_torch() -> Function:
    def recurrence(x: Any, u: Any) -> Any:
        x = x.clone()
        for i in range(1, x.shape[0]):
            x[i] = x[i - 1] * KEPT + u[i]
        return x

    return recurrence


def _recurrence_in_jax() -> Function:
    import jax

    def recurrence(x: Any, u: Any) -> Any:
        return jax.lax.fori_loop(1, x.shape[0], lambda i, x: x.at[i].set(x[i - 1] * KEPT + u[i]), x)

    return recurrence


def _recurrence_in_catalyst() -> Function:
    import catalyst

    def recurrence(x: Any, u: Any) -> Any:
        @catalyst.for_loop(1, x.shape[0], 1)
        def loop(i: Any, x: Any) -> Any:
            return x.at[i].set(x[i - 1] * KEPT + u[i])

        return loop(x)

    return recurrence


def _scan_of_catalyst(step: Function, carry: Any, rows: Any, *, reverse: bool = False) -> Any:
    """`jax.lax.scan` by a loop of Catalyst's, for one array of rows or several, and one array of each step."""
    import catalyst
    import jax
    import jax.numpy as jnp

    def row(i: Any) -> Any:
        return jax.tree.map(lambda one: one[i], rows)

    count = len(jax.tree.leaves(rows)[0])
    _, made = jax.eval_shape(step, carry, row(0))

    @catalyst.for_loop(0, count, 1)
    def loop(i: Any, carry: Any, found: Any) -> Any:
        i = count - 1 - i if reverse else i
        carry, result = step(carry, row(i))
        return carry, found.at[i].set(result)

    return loop(carry, jnp.zeros((count, *made.shape), made.dtype))


# Examples


def _example(name: str, function: str) -> Any:
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert found is not None and found.loader is not None, "it is a file of this project"  # noqa: PT018
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, function)


def _viterbi_arguments(steps: int) -> tuple[Any, ...]:
    generator = np.random.default_rng(steps)
    model = _example("viterbi", "random_model")(8, 4, seed=0)
    return (*model, generator.integers(4, size=(steps, 4)), generator.integers(1, steps + 1, size=4))


def _viterbi_in_torch() -> Function:
    import torch

    def viterbi(start: Any, transition: Any, emission: Any, seen: Any, length: Any) -> Any:
        n, states = seen.shape[0], torch.arange(start.shape[0])
        inside = torch.arange(n)[:, None] < length
        found = torch.where(inside[:, :, None], emission.T[torch.where(inside, seen, 0)], 0.0)
        score, pointers = start + found[0], []
        for step in range(1, n):
            best, before = (score[:, :, None] + transition).max(1)
            here = inside[step][:, None]
            pointers.append(torch.where(here, before, states))
            score = torch.where(here, best + found[step], score)
        path = [score.argmax(1)]
        for before in reversed(pointers):
            path.append(before.gather(1, path[-1][:, None])[:, 0])
        return torch.where(inside, torch.stack(path[::-1]), -1), score.max(1).values

    return viterbi


def _viterbi_in_jax() -> Function:
    import jax

    return _viterbi_by(jax.lax.scan)


def _viterbi_in_catalyst() -> Function:
    return _viterbi_by(_scan_of_catalyst)


def _viterbi_by(scan: Function) -> Function:
    """The decoder of the example with the functions of JAX."""
    import jax.numpy as jnp

    def viterbi(start: Any, transition: Any, emission: Any, seen: Any, length: Any) -> Any:
        n, states = seen.shape[0], jnp.arange(start.shape[0])
        inside = jnp.arange(n)[:, None] < length
        found = jnp.where(inside[:, :, None], emission.T[jnp.where(inside, seen, 0)], 0.0)

        def forward(score: Any, row: Any) -> Any:
            now, here = row
            ways = score[:, :, None] + transition
            best = jnp.where(here[:, None], jnp.argmax(ways, axis=1), states)
            return jnp.where(here[:, None], jnp.max(ways, axis=1) + now, score), best

        def backward(state: Any, pointers: Any) -> Any:
            before = jnp.take_along_axis(pointers, state[:, None], axis=1)[:, 0]
            return before, before

        score, pointers = scan(forward, start + found[0], (found[1:], inside[1:]))
        last = jnp.argmax(score, axis=1)
        _, path = scan(backward, last, pointers, reverse=True)
        return jnp.where(inside, jnp.concatenate([path, last[None]]), -1), jnp.max(score, axis=1)

    return viterbi


def _kalman_arguments(steps: int) -> tuple[Any, ...]:
    _, observed = _example("kalman", "simulate")(steps, acceleration=2.0, blur=0.3, missing=0.4, seed=0)
    return observed, np.asarray(2.0), np.asarray(0.3)


def _kalman_by(arrays: Any, scan: Function) -> Function:
    """The filter of the example with the functions of torch or JAX."""
    constants = [arrays.asarray(_example("kalman", name)) for name in ("MOVE", "PUSH", "LOOK")]

    def kalman(observed: Any, acceleration: Any, blur: Any) -> Any:
        move, push, look_all = constants
        process = acceleration**2 * (push @ push.T)

        def step(carry: Any, row: Any) -> Any:
            mean, covariance, total = carry
            mean, covariance = move @ mean, move @ covariance @ move.T + process
            seen = ~arrays.isnan(row)
            look = arrays.where(seen[:, None], look_all, 0.0)
            noise = arrays.eye(2, dtype=observed.dtype) * arrays.where(seen, blur**2, 1.0)
            spread = look @ covariance @ look.T + noise
            error = arrays.where(seen, row, 0.0) - look @ mean
            gain = arrays.linalg.solve(spread, look @ covariance).T
            size = error @ arrays.linalg.solve(spread, error) + arrays.linalg.slogdet(spread)[1]
            total = total - 0.5 * (size + seen.sum() * np.log(2 * np.pi))
            mean, covariance = mean + gain @ error, covariance - gain @ look @ covariance
            return (mean, covariance, total), mean

        first = (arrays.zeros(4, dtype=observed.dtype), arrays.eye(4, dtype=observed.dtype), observed.sum() * 0.0)
        first = (*first[:2], arrays.zeros((), dtype=observed.dtype))
        (_, _, total), means = scan(step, first, observed)
        return total, means

    return kalman


def _kalman_in_torch() -> Function:
    import torch

    def scan(step: Function, carry: Any, rows: Any) -> Any:
        made = []
        for row in rows:
            carry, result = step(carry, row)
            made.append(result)
        return carry, torch.stack(made)

    return _kalman_by(torch, scan)


def _kalman_in_jax() -> Function:
    import jax

    return _kalman_by(jax.numpy, jax.lax.scan)


def _kalman_in_catalyst() -> Function:
    import jax

    return _kalman_by(jax.numpy, _scan_of_catalyst)


# An array that grows


def _growing() -> Function:
    import plica
    import plica.numpy as pnp

    def squares(n: int) -> Any:
        @plica.for_loop(0, n, preserve_dimensions=False)
        def grow(i: Any, found: Any) -> Any:
            return pnp.concat([found, pnp.reshape(i * i, (1,))])

        return grow(pnp.zeros(0, dtype="int64"))

    return squares


def _growing_in_torch() -> Function:
    import torch

    def squares(n: int) -> Any:
        found = torch.zeros(0, dtype=torch.int64)
        for i in range(n):
            found = torch.cat([found, torch.tensor([i * i])])
        return found

    return squares


def _in_words(
    program: Callable[[models.Words], Function],
    arguments: Callable[[int], tuple[Any, ...]],
    sizes: tuple[int, ...],
    axes: Any,
) -> Task:
    """A program of `sequence_models.py`."""
    ways = {library: lambda words=words: program(words()) for library, words in models.WORDS.items()}
    return Task(arguments, ways["plica"], sizes, axes, {name: ways[name] for name in ("torch", "jax")}, ways["numpy"])


_NAMED = ({0: "n"}, {0: "n"})
_RECURRENCES = {"torch": _recurrence_in_torch, "jax": _recurrence_in_jax, "catalyst": _recurrence_in_catalyst}
TASKS: dict[str, Task] = {
    "recurrence": Task(
        lambda size: (_random(size), _random(size + 1)[1:]),
        _recurrence,
        (100, 1000),
        _NAMED,
        _RECURRENCES,
    ),
    "rows": Task(
        lambda size: (_random(size, 16), _random(size, 16) + 1),
        _recurrence,
        (100, 1000),
        _NAMED,
        _RECURRENCES,
    ),
    "viterbi": Task(
        _viterbi_arguments,
        lambda: _example("viterbi", "viterbi").__wrapped__,
        (100,),
        None,
        {"torch": _viterbi_in_torch, "jax": _viterbi_in_jax, "catalyst": _viterbi_in_catalyst},
    ),
    "kalman": Task(
        _kalman_arguments,
        lambda: _example("kalman", "kalman").__wrapped__,
        (100,),
        None,
        {"torch": _kalman_in_torch, "jax": _kalman_in_jax, "catalyst": _kalman_in_catalyst},
    ),
    "growing": Task(lambda size: (size,), _growing, (100, 1000), None, {"torch": _growing_in_torch}),
    "sinkhorn": _in_words(
        models.sinkhorn, models.sinkhorn_arguments, (20, 100), ({0: "n", 1: "m"}, {0: "n"}, {0: "m"}, {})
    ),
    "forward_backward": _in_words(
        models.forward_backward, models.forward_backward_arguments, (100, 1000), ({}, {}, {0: "n"})
    ),
    "mixture": _in_words(models.mixture, models.mixture_arguments, (100, 2000), ({0: "n"}, {}, {})),
    "lstm": _in_words(models.lstm, models.lstm_arguments, (16, 64), ({0: "n", 1: "b"}, {}, {}, {})),
}


# Measuring


def _written(task: Task, library: str) -> Function:
    """The function of a library as users write it."""
    return task.function() if library in ("native", "file", "plica") else task.others[library]()


def _compiled(task: Task, library: str, function: Function) -> Function:
    """A function, compiled where its library compiles."""
    if library in ("native", "plica"):
        import plica

        backend = {"native": "native", "plica": "torch"}[library]
        compiled: Function = plica.jit(function, abstracted_axes=task.axes, backend=backend)
        return compiled
    if library == "file":
        return _of_file(task, function)
    if library in ("jax", "catalyst"):
        import jax

        jax.config.update("jax_enable_x64", True)
        compile_: Function = jax.jit if library == "jax" else importlib.import_module("catalyst").qjit
        function = compile_(function)
    return function


def _of_file(task: Task, written: Function) -> Function:
    """The function as a file, which the first call writes."""
    import plica

    loaded: list[Function] = []

    def call(*arguments: Any) -> Any:
        if not loaded:
            function = plica.jit(written, abstracted_axes=task.axes)
            function(*arguments)  # which says of what types they are
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "loop.plicab"
                plica.native.compile(function, path)
                loaded.append(plica.native.load(path))
        return loaded[0](*arguments)

    return call


def _arguments(task: Task, library: str, size: int) -> tuple[Any, ...]:
    """Arguments as users of a library have them; of native code they are numpy's."""
    given = task.arguments(size)
    if library in ("native", "file"):
        return given
    return tuple(LIBRARIES[library].arrays([one])[0] if isinstance(one, np.ndarray) else one for one in given)


def call_of(task: Task, library: str, size: int) -> Callable[[], Any]:
    """A call of a library's function, compiled by the first call, with arguments of a size."""
    function, arguments = _compiled(task, library, _written(task, library)), _arguments(task, library, size)
    wait = _wait(library)
    return lambda: wait(function(*arguments))


def _wait(library: str) -> Function:
    return LIBRARIES[library].wait if library in LIBRARIES else lambda result: result


def compilation(task: Task, library: str, size: int, rounds: int) -> float:
    """Milliseconds from a function to the result of its first call, less those of the second; the least of several."""
    found = []
    for _ in range(rounds):
        arguments, written = _arguments(task, library, size), _written(task, library)
        start = time.perf_counter()
        function = _compiled(task, library, written)
        wait = _wait(library)
        wait(function(*arguments))
        middle = time.perf_counter()
        wait(function(*arguments))
        found.append((middle - start) - (time.perf_counter() - middle))
    return 1e3 * min(found)


def refusal(task: Task, library: str) -> str:
    """Why a library does not compile a task; empty if it does."""
    try:
        call_of(task, library, min(task.sizes))()
    except Exception as error:  # a library of others may fail in any way; that is what is to be found out
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    return ""


def check(task: Task, libraries: Sequence[str], size: int) -> None:
    """Compare the values of all libraries with the reference's, or else with those of the first.

    Raises:
        AssertionError: They differ.
    """
    results: dict[str, Any] = {library: call_of(task, library, size)() for library in libraries}
    first = next(iter(results.values())) if task.reference is None else task.reference()(*task.arguments(size))
    for library, result in results.items():
        pairs = zip(result, first, strict=True) if isinstance(first, tuple) else [(result, first)]
        for one, wanted in pairs:
            np.testing.assert_allclose(np.asarray(one), np.asarray(wanted), rtol=1e-7, atol=1e-9, err_msg=library)


def run(name: str, libraries: Sequence[str], settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Titles and comparisons of one task; the first library is the baseline."""
    task = TASKS[name]
    chosen = [one for one in libraries if one in ("native", "file", "plica") or one in task.others]
    if "catalyst" in chosen and (reason := refusal(task, "catalyst")):
        print(f"{name}: catalyst does not accept it: {reason}", flush=True)
        chosen.remove("catalyst")
    reports = []
    for size in task.sizes:
        check(task, chosen, size)
        report = compare({one: call_of(task, one, size) for one in chosen}, settings)
        compiling = [one for one in chosen if one != "torch"]
        report["compilation"] = {one: compilation(task, one, size, 3) for one in compiling}
        reports.append((f"{name}, size {size}", report))
    return reports


def text(title: str, report: Mapping[str, Any]) -> str:
    """One comparison, and how long compilation took."""
    compiled = ", ".join(f"{name} {milliseconds:.1f} ms" for name, milliseconds in report["compilation"].items())
    return f"{table(report, title)}\n  compilation: {compiled}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("native_loops", "Loops of small steps as machine code, and by others.")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="what is measured (everything)")
    options = parser.parse_args(arguments)
    use_threads_of_peers(options.threads)
    use_threads(options.threads)
    peers = installed(("torch", "jax", "catalyst"))
    libraries = ["native", "file", "plica", *peers]
    settings = Settings(rounds=options.rounds, seconds=0.0005)  # eager code takes a thousand times as long
    report: dict[str, Any] = {}
    for name in options.task:
        for title, part in run(name, libraries, settings):
            report[title] = part
            print(text(title, part), flush=True)
            save(options.out, report, settings, options.threads, versions(peers))


if __name__ == "__main__":
    main()
