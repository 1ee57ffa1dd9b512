"""Rows as a stream: cells in a second of a core, beside polars and the cells of Python, and memory that does not grow.

A file of Parquet has 100 mixed columns: 40 reals and 20 counts with missing cells, 25 of text, 10 of them stored as
dictionaries, and 5 each of truth values, dates and time stamps. All contenders have one thread for their work.
Seconds are those of the processor, all threads together: the batch that is read ahead is read by a thread of its own.

Training of a small tree is measured as well: an epoch from a stream beside one from memory, and memory of the command.
With `--commands`, the commands that ask a model are measured instead, on files of 20 such columns, and nothing else.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "rows.parquet"
>>> write_table(path, 100, group=50)
>>> numbers(path), batches(path), columns_of(path)[0].kind
(10000, 10000, 'real')
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, report_of, summary, table
from benchmarks.machine import peak_memory_mib, save
from plica import data
from plica.data import Rows
from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.tables.files import open_table

_ROOT = Path(__file__).parents[1]
_GROUP = 100_000
_CATEGORIES = ("red", "green", "blue", "a longer category", *(f"category {number}" for number in range(16)))
_SIZES = (100_000, 2_000_000)
_COMMAND_SIZES = (50_000, 500_000)
_CHILDREN = ("speeds", "training speeds", "memory", "memory, shuffled", "training", "command")


def write_table(path: Path, num_rows: int, group: int = _GROUP, share: int = 1) -> None:
    """Write a file of 100 / `share` mixed columns, of Parquet or a text, in row groups of `group` rows."""
    draws, writer = np.random.default_rng(0), None
    for start in range(0, num_rows, group):
        part = _group(draws, min(group, num_rows - start), share)
        if path.suffix == ".csv":  # Arrow writes time stamps with as many decimals as their type has
            seconds = {pa.timestamp("us"): pa.timestamp("s")}
            part = part.cast(pa.schema([field.with_type(seconds.get(field.type, field.type)) for field in part.schema]))
        writer = writer or (pa.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter)(path, part.schema)
        writer.write_table(part, group)
    if writer is not None:
        writer.close()


def _group(draws: np.random.Generator, size: int, share: int) -> Any:
    def missing() -> Any:
        return draws.random(size) < 0.05

    def text() -> Any:
        return pa.array(np.asarray(_CATEGORIES)[draws.integers(0, len(_CATEGORIES), size)])

    made: dict[str, tuple[int, Callable[[], Any]]] = {
        "real": (40, lambda: pa.array(np.round(draws.normal(size=size), 4), mask=missing())),
        "count": (20, lambda: pa.array(draws.poisson(4, size), mask=missing())),
        "text": (15, text),
        "dictionary": (10, lambda: text().dictionary_encode()),
        "boolean": (5, lambda: pa.array(draws.random(size) < 0.3)),
        "date": (5, lambda: pa.array(draws.integers(10_000, 20_000, size, dtype=np.int32)).cast(pa.date32())),
        "stamp": (
            5,
            lambda: pa.array(draws.integers(10**9, 2 * 10**9, size) * 10**6).cast(pa.timestamp("us")),
        ),
    }
    return pa.table(
        {f"{name} {number}": make() for name, (count, make) in made.items() for number in range(count // share)}
    )


def columns_of(path: Path) -> tuple[TableColumn, ...]:
    """The columns of the file as a model has them."""
    of_kind: dict[str, Callable[[str], TableColumn]] = {
        "real": lambda name: TableColumn(name, "real"),
        "count": lambda name: TableColumn(name, "count"),
        "text": lambda name: TableColumn(name, "categorical", _CATEGORIES),
        "dictionary": lambda name: TableColumn(name, "categorical", _CATEGORIES),
        "boolean": lambda name: TableColumn(name, "boolean", (False, True)),
        "date": lambda name: TableColumn(name, "date", format="%Y-%m-%d", origin=15_000),
        "stamp": lambda name: TableColumn(name, "timestamp", format="%Y-%m-%d %H:%M:%S", origin=15 * 10**8),
    }
    return tuple(of_kind[name.split()[0]](name) for name in pq.read_schema(path).names)


def batches(path: Path) -> int:
    """Read all batches; how many cells there are."""
    return sum(batch.data.num_rows * batch.data.num_columns for batch in Rows(path).batches())


def numbers(path: Path, seed: int | None = None) -> int:
    """Read all cells as numbers, in random order if there is a seed; how many there are."""
    return sum(batch.numbers.size for batch in data.numbers(Encoding(columns_of(path)), Rows(path), seed=seed))


def _cells_of_python(path: Path) -> int:
    with open_table(path) as rows:
        read = Encoding(columns_of(path)).reader(rows)
        return sum(read(batch).size for batch in rows.batches(4096))


def _polars(path: Path) -> int:
    import polars

    height, width = polars.read_parquet(path).shape
    return int(height * width)


CONTENDERS: Mapping[str, Callable[[Path], int]] = {
    "numbers": numbers,
    "numbers (again)": numbers,
    "numbers, shuffled": partial(numbers, seed=0),
    "batches": batches,
    "polars": _polars,
    "cells of Python": _cells_of_python,
}


def speeds(path: Path, rounds: int) -> dict[str, Any]:
    """Of each contender the time, and the millions of cells in a second of the processor; the orders change."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    cells = {name: read(path) for name, read in CONTENDERS.items()}
    assert len(set(cells.values())) == 1, "all read the same cells"
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(CONTENDERS), len(CONTENDERS)):
            start = time.process_time()
            CONTENDERS[name](path)
            seconds[name].append(time.process_time() - start)
    rates = {name: summary([cells[name] / taken / 1e6 for taken in times]) for name, times in seconds.items()}
    return {**report_of(seconds), "million cells per second": rates}


def train(path: Path) -> None:
    """`plica train` of a small tree for one epoch."""
    from plica.cli.main import main as command

    settings = "--columns auto --region-graph random-binary-tree --units 1 --batch 8192 --epochs 1 --quiet"
    with tempfile.TemporaryDirectory() as out:
        command(["train", str(path), "--out", out, *settings.split()], standalone_mode=False)


def training_speeds(path: Path, rounds: int) -> dict[str, Any]:
    """Times of an epoch of Adam on a tree, from a tensor and from a stream."""
    from plica.learn import Adam, fit
    from plica.tables.fitting import untrained
    from plica.tables.large import streamed_split
    from plica.tables.recipe import Recipe

    whole = data.NumberRows(Rows(path), Encoding(columns_of(path)))
    sample, valid, _, streamed = streamed_split(whole, len(whole), 0, with_test=False)
    recipe = Recipe(structure="random-binary-tree", units=8)
    table_ = Dataset("rows", sample, valid, valid, None, None, whole.encoding)
    held = np.concatenate(list(streamed.train.batches(dtype=np.float32)))
    sources = {"from memory": held, "from memory (again)": held, "streamed": streamed.train}
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(sources), len(sources)):
            model = untrained(recipe, table_, seed=0, dtype="float32")
            start = time.process_time()
            fit(model, sources[name], valid[:1000], learner=Adam(), epochs=1, batch=1024)
            seconds[name].append(time.process_time() - start)
    return report_of(seconds)


def ask(words: Sequence[str]) -> None:
    """A command."""
    from plica.cli.main import main as command

    command(list(words), standalone_mode=False)


def commands(folder: Path, sizes: Sequence[int]) -> dict[str, Any]:
    """Of each command and size the peak of memory in MiB and the seconds of the processor, imports among them.

    The rows in a second are those by which a size exceeds the one before, in the time by which it does.
    """
    import plica
    from plica.templates.pgms import fully_factorized

    sample, model = folder / "sample.parquet", folder / "model" / "model.plica"
    write_table(sample, 2000, share=5)
    settings = "--columns auto --region-graph random-binary-tree --units 2 --epochs 1 --quiet"
    ask(["train", str(sample), "--out", str(model.parent), *settings.split()])
    circuit, native = fully_factorized(20, input_layer="gaussian"), folder / "native.plicab"
    plica.native.compile(plica.compile(circuit), native)
    report: dict[str, Any] = {}
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for ending in (".parquet", ".csv"):
        for size in sizes:
            mixed, reals = folder / f"mixed{ending}", folder / f"reals{ending}"
            write_table(mixed, size, share=5)
            part = pa.table({f"x{number}": np.random.default_rng(number).normal(size=size) for number in range(20)})
            pq.write_table(part, reals) if ending == ".parquet" else pa.csv.write_csv(part, reals)
            del part
            out, asking = folder / f"out{ending}", (str(mixed), "--batch", "1024", "--quiet", "-o")
            for name, words in {
                "score": ("score", str(model), *asking),
                "complete": ("complete", str(model), *asking),
                "predict": ("predict", str(model), *asking[:1], "--column", "real 0", *asking[1:]),
                "run": ("run", str(native), "--input", str(reals), "--output"),
            }.items():
                peak = _in_a_process("--child", "command", "--words", json.dumps([*words, str(out)]))
                found = {**peak, "rows": size}
                before = last.get((name, ending))
                if before is not None:
                    found["rows per second"] = (size - before["rows"]) / (found["seconds"] - before["seconds"])
                last[name, ending] = report[f"{name}{ending}, {size} rows"] = found
                rate = f"{found['rows per second']:10,.0f} rows/s" if before is not None else ""
                print(f"{name:9s}{ending:9s}{size:12,} rows {found['peak']:8.0f} MiB {rate}", flush=True)
    return report


def _in_a_process(*arguments: str) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.rows", *arguments]
    done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed (exit status {done.returncode}); see above.")
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("rows", "Rows as a stream.", threads=1)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the file for speed (200,000)")
    parser.add_argument("--sizes", type=int, nargs="+", help="rows of the files for memory")
    parser.add_argument(
        "--child",
        choices=_CHILDREN,
        help=argparse.SUPPRESS,
    )
    parser.add_argument("--commands", action="store_true", help="measure the commands that ask a model instead")
    parser.add_argument("--words", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        if options.child == "speeds":
            print(json.dumps(speeds(options.path, options.rounds)))
        elif options.child == "training speeds":
            print(json.dumps(training_speeds(options.path, options.rounds)))
        else:
            before = peak_memory_mib("cpu")
            if options.child == "command":
                ask(options.words)
            elif options.child == "training":
                train(options.path)
            else:
                numbers(options.path, 0 if "shuffled" in options.child else None)
            peak = peak_memory_mib("cpu")
            print(json.dumps({"imports": before, "peak": peak, "seconds": time.process_time()}))
        return
    report: dict[str, Any] = {}
    if options.commands:
        with tempfile.TemporaryDirectory() as folder:
            report = commands(Path(folder), options.sizes or _COMMAND_SIZES)
        save(options.out, report, Settings(rounds=1), 1, {"pyarrow": version("pyarrow")})
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_table(path, options.rows)
        found = report["speeds"] = _in_a_process(
            "--child", "speeds", "--path", str(path), "--rounds", str(options.rounds)
        )
        print(table(found, f"{options.rows:,} rows of 100 columns, time of the processor"))
        for name, rate in found["million cells per second"].items():
            print(f"  {name:28s} {rate['median']:10.1f} million cells in a second of a core")
        found = report["training speeds"] = _in_a_process(
            "--child", "training speeds", "--path", str(path), "--rounds", str(options.rounds)
        )
        print(table(found, "an epoch of a tree of 8 units, time of the processor"))
        for size in options.sizes or _SIZES:
            write_table(path, size)
            for child in ("memory", "memory, shuffled", "training"):
                peak = report[f"{child}, {size} rows"] = _in_a_process("--child", child, "--path", str(path))
                print(
                    f"{child}, {size:,} rows: {peak['peak']:.0f} MiB at most, {peak['imports']:.0f} after imports",
                    flush=True,
                )
    libraries = {library: version(library) for library in ("pyarrow", "polars")}
    save(options.out, report, Settings(rounds=options.rounds), 1, libraries)


if __name__ == "__main__":
    main()
