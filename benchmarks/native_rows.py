"""`python -m benchmarks.native_rows`: operations in files, as tensors that IREE compiles and as loop nests.

One thread on both sides, sizes of the first axis unknown, and the same nest in the process (`jit(backend="native")`)
beside them. A file copies arguments and results, which takes as long on both sides. Values are compared first. At the
end stands which operations are a fifth faster on tensors: these keep their rows for files that one thread runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads
from plica.tracing.scope import record

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[..., Any]
_FIFTH = 1.2


def _draw(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(shape[0]).standard_normal(shape).astype(dtype)


def _places(count: int, below: int) -> Array:
    return np.random.default_rng(count).integers(0, below, count)


def _normalized(xp: Any, x: Any) -> Any:
    mean = xp.mean(x, axis=1, keepdims=True)
    return (x - mean) / xp.sqrt(xp.mean((x - mean) ** 2, axis=1, keepdims=True) + 1e-5)


def _network(xp: Any, x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    return xp.maximum(x @ w + b, 0.0) @ v + c


def _mixture(xp: Any, x: Any, means: Any, scales: Any, weights: Any) -> Any:
    z = (x[:, None, :] - means) / scales
    return xp.logsumexp(xp.sum(-0.5 * z * z - xp.log(scales), axis=2) + xp.log(weights), axis=1)


_SQUARE, _LONG = (_draw(512, 512),), (_draw(64, 1000),)
_LOGS = -np.abs(_draw(8, 128, 32))
_WEIGHTS = np.abs(_draw(8, 32, 32)) + np.float32(0.1)
TASKS: dict[str, tuple[Call, tuple[Array, ...]]] = {
    # programs of several operations
    "normalized": (_normalized, _SQUARE),
    "network": (_network, (_draw(256, 64), _draw(64, 128), _draw(128), _draw(128, 16), _draw(16))),
    "mixture": (_mixture, (_draw(500, 4), _draw(16, 4), np.abs(_draw(16, 4)) + 0.5, np.abs(_draw(16)) + 0.1)),
    "tanh, exp": (lambda xp, x, y: xp.tanh(x) * y + xp.exp(-x * x), (_draw(512, 512), _draw(513, 512)[1:])),
    # products
    "matmul 512x256x256": (lambda _, x, y: x @ y, (_draw(512, 256), _draw(256, 256))),
    "matmul 64x64x64": (lambda _, x, y: x @ y, (_draw(64, 64), _draw(65, 64)[1:])),
    "matmul, turned": (lambda xp, x, y: x @ xp.permute_dims(y, (1, 0)), (_draw(512, 256), _draw(256, 256))),
    "einsum": (
        lambda xp, x, y, w: xp.einsum("bfi,bfi,foi->bfo", x, y, w),
        (_draw(128, 32, 32), _draw(129, 32, 32)[1:], _draw(32, 32, 32)),
    ),
    "log_einsum_exp": (lambda _, x, w: record("log_einsum_exp", x, w, equation="fbi,foi->fbo"), (_LOGS, _WEIGHTS)),
    "log_matmul_exp": (lambda _, x, w: record("log_matmul_exp", x, w), (_LOGS, _WEIGHTS)),
    # along an axis
    "sum": (lambda xp, x: xp.sum(x, axis=1), _SQUARE),
    "sum, first axis": (lambda xp, x: xp.sum(x, axis=0), _SQUARE),
    "prod": (lambda xp, x: xp.prod(x, axis=1), _SQUARE),
    "mean": (lambda xp, x: xp.mean(x, axis=1), _SQUARE),
    "max": (lambda xp, x: xp.max(x, axis=1), _SQUARE),
    "any": (lambda xp, x: xp.any(x > 3, axis=1), _SQUARE),
    "argmax": (lambda xp, x: xp.argmax(x, axis=1), _SQUARE),
    "softmax": (lambda xp, x: xp.softmax(x, axis=1), _SQUARE),
    "log_softmax": (lambda xp, x: xp.log_softmax(x, axis=1), _SQUARE),
    "logsumexp": (lambda xp, x: xp.logsumexp(x, axis=1), _SQUARE),
    "cumulative_sum": (lambda xp, x: xp.cumulative_sum(x, axis=1), _SQUARE),
    "sort": (lambda xp, x: xp.sort(x, axis=1), _LONG),
    "argsort": (lambda xp, x: xp.argsort(x, axis=1), _LONG),
    "searchsorted": (
        lambda xp, x, y: xp.searchsorted(x, y),
        (np.sort(_draw(1000)), _draw(20000)),
    ),
    # entries that move
    "concat": (lambda xp, x: xp.concat([x, x[:, :7]], axis=1), _SQUARE),
    "stack": (lambda xp, x: xp.stack([x, x + 1], axis=1), _SQUARE),
    "permute_dims": (lambda xp, x: xp.permute_dims(x, (1, 0)) + 0, _SQUARE),
    "flip": (lambda xp, x: xp.flip(x, axis=1), _SQUARE),
    "roll": (lambda xp, x: xp.roll(x, 3, axis=1), _SQUARE),
    "tril": (lambda xp, x: xp.tril(x), _SQUARE),
    "take": (lambda xp, x, i: xp.take(x, i, axis=0), (_draw(512, 64), _places(2000, 512))),
    "gather": (lambda xp, x, i: xp.take_along_axis(x, i[:, None], axis=1), (_draw(2000, 512), _places(2000, 512))),
    "update": (lambda xp, x: x.at[:, 3:9].set(xp.zeros(6, dtype=x.dtype)), _SQUARE),
    "fft": (lambda xp, x: xp.real(xp.fft.fft(x)), _LONG),
    "random": (lambda xp, x: x + xp.random.uniform(xp.random.key(0), x.shape), _SQUARE),
}
"""Functions of the array namespace and of arrays, and arrays."""


def contenders(name: str, folder: Path) -> tuple[dict[str, Callable[[], Any]], tuple[Array, ...]]:
    """A file of tensors, a file of nests, and the nest in the process."""
    import plica
    import plica.numpy as pnp

    written, arguments = TASKS[name]
    given = ", ".join(f"a{index}" for index in range(len(arguments)))
    function = eval(f"lambda {given}: written(xp, {given})", {"written": written, "xp": pnp})  # jit reads the names
    is_known = name in ("log_einsum_exp", "log_matmul_exp")  # the folds of both operands
    axes = tuple({} if index or is_known else {0: "n"} for index in range(len(arguments)))
    traced = plica.jit(function, abstracted_axes=axes)
    traced(*arguments)
    process = plica.jit(function, abstracted_axes=axes, backend="native")
    tensors, nests = (
        _file(traced, folder / f"{kind}.plicab", in_nests=kind == "nests") for kind in ("tensors", "nests")
    )
    calls: dict[str, Callable[[], Any]] = {
        "tensors": lambda: tensors(*arguments),
        "nests": lambda: nests(*arguments),
        "process": lambda: process(*arguments),
    }
    return calls, arguments


def _file(function: Any, path: Path, *, in_nests: bool) -> Any:
    """A file that one thread runs, where nests are asked for of what tensors are faster at too."""
    from plica import native
    from plica.backend.native.file import file_of
    from plica.backend.native.targets import target_of
    from plica.frontend.native import entry_programs_of
    from plica.runtime.container import write

    with patch("plica.backend.native.mlir.rows.nests.ON_TENSORS", {}):
        parts, manifest = file_of(entry_programs_of(function), [target_of("host")], "local-sync", {}, in_nests=in_nests)
    write(path, parts, manifest)
    return native.load(path)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """The comparison of one task.

    Raises:
        AssertionError: Values differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        calls, _ = contenders(name, Path(folder))
        wanted = calls["process"]()
        for kind in ("tensors", "nests"):
            np.testing.assert_allclose(calls[kind](), wanted, rtol=2e-3, atol=2e-3, err_msg=f"{name}, {kind}")
        return compare(calls, settings)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("native_rows", "Operations in files: tensors and loop nests.")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="what is measured (everything)")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds)
    report: dict[str, Any] = {}
    for name in options.task:
        report[name] = run(name, settings)
        print(table(report[name], name), flush=True)
        save(options.out, report, settings, options.threads, {})
    print(f"a fifth faster on tensors: {', '.join(faster_on_tensors(report)) or 'none'}")


def faster_on_tensors(report: dict[str, Any]) -> list[str]:
    """The tasks whose file of nests takes a fifth longer than that of tensors, by the lower quartiles."""
    return [
        name
        for name, part in report.items()
        if part["milliseconds"]["nests"]["q1"] > _FIFTH * part["milliseconds"]["tensors"]["q1"]
    ]


if __name__ == "__main__":
    main()
