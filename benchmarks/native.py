"""`python -m benchmarks.native`: circuits in native files, beside the torch backend in eval mode and other runtimes.

Calls of 1, 16, 128 and 512 rows of images, each contender in a process of its own, in interleaved rounds, parameters
folded on all sides; values are compared first. Contenders that do not accept a model are named with their reason. Then
one file asked by one Python thread and by two, each call on the thread that makes it. Then the size of the file, the
time from the start of Python to the first answer beyond that of importing numpy, and the memory that is resident then.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import benchmark_parser
from benchmarks.elsewhere import Elsewhere
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads

BATCHES = (1, 16, 128, 512)
_ROOT = Path(__file__).resolve().parent.parent
Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[Array], Any]


@dataclass(frozen=True, slots=True)
class Image:
    """A circuit of images: a quad tree of CP layers of 32 units.

    Args:
        side: Rows and columns of pixels.
        values: The values of a pixel.
    """

    side: int
    values: int

    def make(self) -> Any:
        """The circuit, compiled for torch, in eval mode."""
        import torch

        import plica
        from plica.templates.data_modalities import image_data

        torch.manual_seed(0)
        units: dict[str, Any] = {"num_input_units": 32, "num_sum_units": 32, "sum_product_layer": "cp"}
        shape = (1, self.side, self.side)
        described = image_data(shape, "quad-tree-2", input_layer="categorical", num_values=self.values, **units)
        return plica.compile(described).eval()

    def rows(self, count: int) -> Array:
        """Rows of any pixels."""
        return np.random.default_rng(0).integers(0, self.values, (count, self.side**2))


CIRCUITS = {"digits": Image(8, 17), "28x28": Image(28, 256)}


def _torch(circuit: Any, folder: Path, compile_: bool = False) -> Call:
    import torch

    del folder
    if compile_:
        from torch._inductor import config

        config.freezing = True
        circuit = torch.compile(circuit, dynamic=True)

    def call(x: Array) -> Any:
        with torch.inference_mode():
            return circuit(torch.from_numpy(x)).numpy()

    return call


def _native(circuit: Any, folder: Path, driver: str | None = None) -> Call:
    from plica import native

    path = folder / f"{driver}.plicab"
    native.compile(circuit, path, queries="log-likelihood", driver=driver)
    return native.load(path)


def _onnx(circuit: Any, folder: Path) -> Path:
    import torch

    path = folder / "circuit.onnx"
    if not path.exists():
        x = torch.zeros((2, circuit.num_variables), dtype=torch.int64)
        with torch.no_grad():
            torch.onnx.export(circuit, (x,), path, dynamo=True, dynamic_shapes=({0: torch.export.Dim("b")},))
    return path


def _onnxruntime(circuit: Any, folder: Path) -> Call:
    import torch

    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(_onnx(circuit, folder), options, providers=["CPUExecutionProvider"])
    (name,) = (one.name for one in session.get_inputs())
    return lambda x: session.run(None, {name: x})[0]


def _openvino(circuit: Any, folder: Path) -> Call:
    runtime = importlib.import_module("openvino")
    settings = {"INFERENCE_PRECISION_HINT": "f32"}  # by itself it takes 16 bits where the processor has them
    model = runtime.Core().compile_model(_onnx(circuit, folder), "CPU", settings)
    return lambda x: next(iter(model(x).values()))


CONTENDERS: Mapping[str, tuple[Callable[[Any, Path], Call], str]] = {
    "torch": (_torch, "torch"),
    "native": (_native, "ziglang"),
    "native, one thread": (partial(_native, driver="local-sync"), "ziglang"),
    "native, threads": (partial(_native, driver="local-task"), "ziglang"),
    "torch.compile": (partial(_torch, compile_=True), "torch"),
    "onnxruntime": (_onnxruntime, "onnxruntime"),
    "openvino": (_openvino, "openvino"),
}
"""What serves a circuit, and the package that must be installed; the first is what ratios are to."""


def contender(name: str, image: Image, folder: Path, threads: int) -> Call:
    """One of `CONTENDERS`, made in the process that calls it."""
    use_threads(threads)
    make, _ = CONTENDERS[name]
    return make(image.make(), folder)


def calls(image: Image, settings: Settings, batches: Sequence[int], threads: int) -> dict[str, Any]:
    """Comparisons by batch, and by contender why it is left out."""
    expected = _torch(image.make(), Path())(image.rows(7))
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        found: dict[str, Elsewhere] = {}
        for name, (_, package) in CONTENDERS.items():
            if importlib.util.find_spec(package) is None:
                report[name] = f"{package} is not installed"
                continue
            try:
                process = processes.enter_context(Elsewhere(contender, name, image, Path(folder), threads))
                wrong = float(np.abs(np.asarray(process.asked(image.rows(7))()) - expected).max())
            except RuntimeError as error:
                report[name] = f"does not accept it: {error}"
                continue
            if not wrong < 1e-3 * np.abs(expected).max():
                report[name] = f"gives other values, by {wrong:.3g}"
                continue
            found[name] = process
        for batch in batches:
            x = image.rows(batch)
            report[f"batch {batch}"] = compare({name: one.asked(x) for name, one in found.items()}, settings)
    return report


def rate(call: Call, x: Array, threads: int, seconds: float) -> float:
    """Calls per second of several Python threads at one time."""
    counts, ends, ready = [0] * threads, threading.Event(), threading.Barrier(threads + 1)

    def ask(place: int) -> None:
        call(x)
        ready.wait()
        while not ends.is_set():
            call(x)
            counts[place] += 1

    workers = [threading.Thread(target=ask, args=(place,)) for place in range(threads)]
    for one in workers:
        one.start()
    ready.wait()
    begin = time.perf_counter()
    time.sleep(seconds)
    ends.set()
    for one in workers:
        one.join()
    return sum(counts) / (time.perf_counter() - begin)


def side_by_side(image: Image, batches: Sequence[int], rounds: int = 5, seconds: float = 0.5) -> dict[str, Any]:
    """By batch, calls per second of one thread, of two, and their ratio: the best of rounds that take turns."""
    with tempfile.TemporaryDirectory() as folder:
        call = _native(image.make(), Path(folder), "local-sync")
        report = {}
        for batch in batches:
            x = image.rows(batch)
            best = dict.fromkeys((1, 2), 0.0)
            for count in (*best,) * rounds:
                best[count] = max(best[count], rate(call, x, count, seconds))
            report[f"batch {batch}"] = {"one": best[1], "two": best[2], "ratio": round(best[2] / best[1], 2)}
    return report


_START = """
import sys, time
import numpy as np
begin = time.perf_counter()
x = np.zeros((1, int(sys.argv[2])), np.int64)
{body}
took = time.perf_counter() - begin
status = open("/proc/self/status").read()
resident = int(status.split("VmRSS:")[1].split()[0]) / 1024
print(took * 1e3, resident)
"""
_OF_NATIVE = "import plica.native; plica.native.load(sys.argv[1])(x)"
_OF_TORCH = """import torch
from benchmarks.native import CIRCUITS
circuit = CIRCUITS[sys.argv[1]].make()
with torch.inference_mode(): circuit(torch.from_numpy(x))"""


def start(name: str, threads: int) -> dict[str, Any]:
    """What starting to answer takes: in milliseconds, and MiB."""
    from plica import native

    image = CIRCUITS[name]
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "circuit.plicab"
        native.compile(image.make(), path, queries="log-likelihood")
        report["file, MiB"] = round(path.stat().st_size / 2**20, 2)
        for title, body, given in (("native", _OF_NATIVE, str(path)), ("torch", _OF_TORCH, name)):
            command = [sys.executable, "-c", _START.format(body=body), given, str(image.side**2)]
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPYCACHEPREFIX": folder}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)  # later runs find bytecode, as installed packages have
            took = [
                subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                for _ in range(3)
            ]
            numbers = [tuple(map(float, one.stdout.split())) for one in took]
            report[title] = {
                "to the first answer, ms": round(min(one for one, _ in numbers), 1),
                "resident, MiB": round(min(one for _, one in numbers), 1),
            }
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("native", "Circuits in native files.", threads=2)
    parser.add_argument("--circuit", nargs="*", choices=tuple(CIRCUITS), default=list(CIRCUITS), help="which (all)")
    parser.add_argument("--batch", nargs="*", type=int, default=list(BATCHES), help="rows of a call")
    options: argparse.Namespace = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds, pause=0.02)
    report: dict[str, Any] = {}
    for name in options.circuit:
        report[name] = calls(CIRCUITS[name], settings, options.batch, options.threads)
        for title, part in report[name].items():
            text = f"{name}: {title}: {part}" if isinstance(part, str) else table(part, f"{name}, {title}")
            print(text, flush=True)
        report[name]["threads"] = side_by_side(CIRCUITS[name], options.batch)
        print(f"{name}: calls per second of one thread and of two: {json.dumps(report[name]['threads'])}", flush=True)
        if sys.platform == "linux":
            report[name]["start"] = start(name, options.threads)
            print(f"{name}: {json.dumps(report[name]['start'])}", flush=True)
        save(options.out, report, settings, options.threads)


if __name__ == "__main__":
    main()
