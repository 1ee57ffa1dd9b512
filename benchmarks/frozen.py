"""`python -m benchmarks.frozen`: packed weights that are folded, beside `torch.compile`'s freezing and ONNX Runtime.

Three products by weights packed into panels first: two weights known when compiling, one given at run time. Each
contender has a process of its own, which tells

* how long it takes to make the model, and its first and its second call: some libraries fold in the first, some before;
* the memory that is held afterwards, with the caller's three weights, which it keeps to write to them;
* whether the next call notices that a weight was written to by torch, or through `.data`, and how long it takes; how
  long it takes to give another weight in the way of the library, with the next call.

Then all contenders are timed side by side in one process. Values are compared first.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads

PANEL = 32  # columns of a panel
_ROOT = Path(__file__).resolve().parent.parent
_NAMES = ("w0", "w1", "w2")
_WARM = (2, PANEL)  # rows and units of a model that is served first, so that what a library loads is not counted


@dataclass(frozen=True, slots=True)
class Served:
    """A model that answers.

    Args:
        call: Its values for the rows that it was made with.
        replace: Give it another last weight, in the library's own way.
    """

    call: Callable[[], Any]
    replace: Callable[[Tensor], None]


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to serve a model.

    Args:
        make: From the three weights and the rows to the model.
        packages: What must be installed.
    """

    make: Callable[[Sequence[Tensor], Tensor], Served]
    packages: tuple[str, ...] = ()


class PackedMlp(nn.Module):
    """The model in torch, which packs its weights at each call.

    Args:
        weights: Three times `(I, O)`.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        for name, weight in zip(_NAMES, weights, strict=True):
            self.register_buffer(name, weight)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, O)` of `(B, I)`."""
        for name in _NAMES:
            weight: Tensor = getattr(self, name)
            packed = weight.reshape(weight.shape[0], -1, PANEL).permute(1, 0, 2).contiguous()
            x = (x @ packed).permute(1, 0, 2).reshape(len(x), -1)
        return x


def _torch(
    weights: Sequence[Tensor], x: Tensor, compile_: Callable[[nn.Module], Any] = lambda module: module
) -> Served:
    module = PackedMlp(weights)
    run = compile_(module)

    def call() -> Tensor:
        with torch.no_grad():
            result: Tensor = run(x)
        return result

    return Served(call, partial(setattr, module, _NAMES[-1]))


def _frozen(discard: bool, weights: Sequence[Tensor], x: Tensor) -> Served:
    """`torch.compile` with weights as constants; whether the module's own are given up."""
    from torch._inductor import config

    config.freezing, config.freezing_discard_parameters = True, discard
    return _torch(weights, x, torch.compile)


def _plica(weights: Sequence[Tensor], x: Tensor) -> Served:
    import plica
    import plica.numpy as pnp

    def mlp(x: Any, w0: Any, w1: Any, w2: Any) -> Any:
        for weight in (w0, w1, w2):
            packed = pnp.pack(weight, (1,), (PANEL,), outer_dims_perm=(1, 0))
            x = pnp.reshape(pnp.permute_dims(x @ packed, (1, 0, 2)), (-1, weight.shape[1]))
        return x

    shapes = [tuple(weight.shape) for weight in weights]
    program = plica.trace(mlp, plica.spec(tuple(x.shape)), *map(plica.spec, shapes))
    known = dict(zip(_NAMES[:2], weights, strict=False))
    run = plica.fold_constants(program, compile_time=known, run_time=_NAMES[2:], form="split").compile()
    given = {_NAMES[2]: weights[2]}  # at the first call

    def call() -> Any:
        now = dict(given)
        given.clear()
        return run(x, **now)

    return Served(call, lambda weight: run.update(w2=weight))


def _onnx(weights: Sequence[Tensor], x: Tensor) -> Served:
    """A model whose weights are its initializers; another weight takes another session."""
    rows = x.numpy()
    sessions = [_session(weights, len(x))]

    def replace(weight: Tensor) -> None:
        sessions[:] = [_session([*weights[:2], weight], len(x))]

    return Served(lambda: sessions[0].run(None, {"x": rows})[0], replace)


def _session(weights: Sequence[Tensor], batch: int) -> Any:
    runtime = importlib.import_module("onnxruntime")
    onnx, helper, arrays = (importlib.import_module(f"onnx{name}") for name in ("", ".helper", ".numpy_helper"))
    numbers, sizes = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes: list[Any] = []
    initializers = [arrays.from_array(w.numpy(), name) for name, w in zip(_NAMES, weights, strict=True)]
    value = "x"
    for name, weight in zip(_NAMES, weights, strict=True):
        inputs, outputs = weight.shape
        shapes = {f"{name} cut": [inputs, outputs // PANEL, PANEL], f"{name} joined": [batch, outputs]}
        initializers += [helper.make_tensor(key, sizes, [len(to)], to) for key, to in shapes.items()]
        for kind, sources, result in (
            ("Reshape", [name, f"{name} cut"], f"{name} panels"),
            ("Transpose", [f"{name} panels"], f"{name} packed"),
            ("MatMul", [value, f"{name} packed"], f"{name} products"),
            ("Transpose", [f"{name} products"], f"{name} rows"),
            ("Reshape", [f"{name} rows", f"{name} joined"], f"{name} result"),
        ):
            settings = {"perm": [1, 0, 2]} if kind == "Transpose" else {}
            nodes.append(helper.make_node(kind, sources, [result], **settings))
        value = f"{name} result"
    arguments = [helper.make_tensor_value_info("x", numbers, [batch, weights[0].shape[0]])]
    results = [helper.make_tensor_value_info(value, numbers, [batch, weights[2].shape[1]])]
    graph = helper.make_graph(nodes, "mlp", arguments, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


CONTENDERS: dict[str, Contender] = {
    "plica": Contender(_plica, ("plica",)),
    "torch": Contender(_torch, ("torch",)),
    "torch.compile freezing": Contender(partial(_frozen, False), ("torch",)),
    "torch.compile freezing, discarding": Contender(partial(_frozen, True), ("torch",)),
    "onnxruntime": Contender(_onnx, ("onnxruntime", "onnx")),
}
_TOGETHER = "together"


def make_model(batch: int, units: int) -> tuple[list[Tensor], Tensor]:
    """Three weights and some rows."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(units, units, generator=generator) / units**0.5 for _ in _NAMES]
    return weights, torch.randn(batch, units, generator=generator)


def serve(contender: Contender, batch: int, units: int) -> dict[str, Any]:
    """What one process tells of one contender.

    Raises:
        AssertionError: Its values are wrong before any weight changes.
    """
    contender.make(*make_model(*_WARM)).call()
    before = _held_mib()
    weights, x = make_model(batch, units)
    made, served = _clocked(lambda: contender.make(weights, x))
    first, value = _clocked(served.call)
    second, _ = _clocked(served.call)
    held = _held_mib()
    _check(value, weights, x)
    report: dict[str, Any] = {"making": made, "first call": first, "second call": second}
    report["MiB held"] = None if held is None or before is None else round(held - before, 1)

    def replaced() -> Any:
        served.replace(weights[2] * 2)
        return served.call()

    changes: dict[str, tuple[Callable[[], object], Callable[[], Any]]] = {
        "written to by torch": (lambda: weights[2].mul_(2), served.call),
        "written to through .data": (lambda: weights[2].data.mul_(2), served.call),
        "given anew": (lambda: None, replaced),
    }
    expected = _values(weights, x)
    for title, (change, call) in changes.items():
        change()
        expected = 2 * expected
        report[title] = _after(call, expected)
    return report


def _after(call: Callable[[], Any], expected: Tensor) -> dict[str, Any]:
    """How long the call after a change takes, and whether its values are those of the new weight."""
    try:
        milliseconds, value = _clocked(call)
    except Exception as error:  # a library of others may fail in any way; that is what is to be found out
        return {"values": f"no ({type(error).__name__})"}
    return {"values": "new" if _is_close(value, expected) else "old", "milliseconds": milliseconds}


def together(contenders: Mapping[str, Contender], batch: int, units: int, settings: Settings) -> dict[str, Any]:
    """Calls after the second one of all contenders, in interleaved rounds."""
    weights, x = make_model(batch, units)
    calls = {}
    for name, contender in contenders.items():
        calls[name] = contender.make([one.clone() for one in weights], x).call
        _check(calls[name](), weights, x)
    return compare(calls, settings)


def _values(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    value = x.double()
    for weight in weights:
        value = value @ weight.double()
    return value


def _is_close(value: Any, expected: Tensor) -> bool:
    return torch.allclose(torch.as_tensor(value).double(), expected, rtol=1e-3, atol=1e-3)


def _check(value: Any, weights: Sequence[Tensor], x: Tensor) -> None:
    assert _is_close(value, _values(weights, x)), "other values than those of three products"


def _clocked(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = call()
    return float(f"{1e3 * (time.perf_counter() - start):.4g}"), value


def _held_mib() -> float | None:
    """The memory of this process that is in use, where the system says so."""
    gc.collect()
    if sys.platform != "linux":
        return None
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def text_of(name: str, report: Mapping[str, Any]) -> str:
    """What was found of one contender."""
    lines = [
        f"{name}: made in {report['making']:.1f} ms, first call {report['first call']:.1f} ms, "
        f"second {report['second call']:.2f} ms, {report['MiB held']} MiB held"
    ]
    for title, after in report.items():
        if isinstance(after, Mapping):
            took = f", {after['milliseconds']:.2f} ms" if "milliseconds" in after else ""
            lines.append(f"  a weight {title}: {after['values']} values{took}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("frozen", "Packed weights, folded.", threads=2)
    parser.add_argument("--units", type=int, default=2048, help="rows and columns of each weight (2048)")
    parser.add_argument("--batch", type=int, default=16, help="rows of a call (16)")
    parser.add_argument("--child", choices=(*CONTENDERS, _TOGETHER), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    there = {name: one for name, one in CONTENDERS.items() if all(map(importlib.util.find_spec, one.packages))}
    settings = Settings(rounds=options.rounds)
    if options.child:
        use_threads(options.threads)
        if options.child == _TOGETHER:
            found = together(there, options.batch, options.units, settings)
        else:
            found = serve(CONTENDERS[options.child], options.batch, options.units)
        print(json.dumps(found))
        return
    for name in CONTENDERS.keys() - there.keys():
        print(f"{name} is left out: {' or '.join(CONTENDERS[name].packages)} is not installed.")
    report: dict[str, Any] = {}
    for name in (*there, _TOGETHER):
        report[name] = _in_a_process(name, options)
        title = f"calls of {options.batch} rows, {options.units} units"
        print(table(report[name], title) if name == _TOGETHER else text_of(name, report[name]), flush=True)
    packages = sorted({package for one in there.values() for package in one.packages} - {"plica"})
    save(options.out, report, settings, options.threads, {package: version(package) for package in packages})


def _in_a_process(name: str, options: argparse.Namespace) -> Any:
    command = [sys.executable, "-m", "benchmarks.frozen", "--child", name, "--units", str(options.units)]
    command += ["--batch", str(options.batch), "--rounds", str(options.rounds), "--threads", str(options.threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring {name} failed (exit status {done.returncode}); see above.")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
