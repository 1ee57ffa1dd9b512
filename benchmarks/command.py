"""The command line of benchmarks: what they all take, and all of it for those that go through a list of shapes."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Settings, table
from benchmarks.machine import save, use_threads

Run = Callable[[Sequence[Any], Settings], dict[str, Any]]


def benchmark_parser(
    name: str, description: str, *, rounds: int = 20, threads: int = 1, device: bool = False
) -> argparse.ArgumentParser:
    """The options of every benchmark.

    Args:
        name: The module: the command is `python -m benchmarks.NAME`.
        description: What it measures.
        rounds: Samples of each contender by default.
        threads: Threads by default.
        device: Whether there is a choice of devices.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"samples of each contender ({rounds})")
    parser.add_argument("--threads", type=int, default=threads, help=f"threads ({threads})")
    if device:
        parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    return parser


def measure_shapes(
    name: str, description: str, axes: str, shapes: Sequence[tuple[int, ...]], run: Run, arguments: Sequence[str] | None
) -> None:
    """Parse the command line of `python -m benchmarks.NAME`, and print and save what `run` finds for each shape.

    Args:
        name: The module.
        description: What it measures.
        axes: The letters of a shape.
        shapes: What to measure.
        run: Comparisons by title for some shapes.
        arguments: The command line; that of the process if None.
    """
    options = benchmark_parser(name, description, device=True).parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds, device=options.device)
    report: dict[str, Any] = {}
    for shape in shapes:
        found = run([shape], settings)
        report |= found
        for title, part in found.items():
            print(table(part, f"({axes}) = {title}"), flush=True)
        save(options.out, report, settings, options.threads)
