"""`python -m benchmarks.batch`: rows that two workers of an engine score a second, beside one worker.

Each run is the command `plica score ... --engine`, from its start to its end, in a process of its own. In each round an
engine scores by one worker (a), by two, and by one again (the control b, which should be as fast as a). The start of an
engine is timed apart, by a run of as many rows as one batch has. Answers of all runs must be those of `plica score`
without an engine, to the bit.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> make(folder, rows=200, files=2, units=2)
>>> sorted(path.name for path in folder.iterdir())
['few', 'model.plica', 'rows']
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_ENGINES = ("processes", "dask", "ray", "spark")
_COLUMNS, _BATCH = 32, 256


def make(folder: Path, *, rows: int, files: int, units: int) -> None:
    """Write a model, a folder of rows in `files` files, and a folder of one batch."""
    import plica.tables

    random = np.random.default_rng(0)
    group = random.integers(0, 5, rows)
    columns = {"id": pa.array(np.arange(rows))}
    for column in range(_COLUMNS):
        if column % 2:
            states = (group + random.integers(0, 3, rows)) % 5
            columns[f"c{column}"] = pa.array(np.array(["red", "green", "blue", "grey", "black"])[states])
        else:
            columns[f"x{column}"] = pa.array(np.round(random.normal(group * (column % 3), 1.0 + column % 4), 3))
    table = pa.table(columns)
    for name, part, count in (("rows", table, files), ("few", table.slice(0, _BATCH), 1)):
        (folder / name).mkdir()
        for file in range(count):
            start, stop = (len(part) * number // count for number in (file, file + 1))
            pq.write_table(part.slice(start, stop - start), folder / name / f"{file:04d}.parquet")
    model = plica.tables.fit(table.slice(0, 1000).drop_columns(["id"]), units=units, trees=1, epochs=1)
    model.save(folder / "model.plica")


def seconds(folder: Path, rows: str, out: Path, *more: str) -> float:
    """What the command takes to score rows."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "plica", "score", str(folder / "model.plica"), str(folder / rows), "-o", str(out)]
    usual = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    done = subprocess.run([*command, *more], env=usual, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(more)} failed: {done.stderr}")
    return taken


def main() -> None:
    """Measure, and print a line of JSON for each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, rows=args.rows, files=args.files, units=args.units)
        alone = folder / "alone.parquet"
        without = seconds(folder, "rows", alone)
        expected, out = pq.read_table(alone), folder / "out"
        print(json.dumps({"settings": vars(args), "without an engine": round(without, 2)}), flush=True)
        for engine in args.engines:
            rounds, starts = [], []
            for _ in range(args.rounds):
                taken = []
                for workers in (1, 2, 1):
                    taken.append(seconds(folder, "rows", out, "--engine", engine, "--workers", str(workers)))
                    parts = pa.concat_tables([pq.read_table(part) for part in sorted(out.glob("part-*"))])
                    if not parts.equals(expected):
                        raise SystemExit(f"{engine} by {workers} workers has other answers")
                rounds.append(taken)
                starts.append(seconds(folder, "few", out, "--engine", engine, "--workers", "1"))
            start = statistics.median(starts)
            result = {
                "engine": engine,
                "one": round(statistics.median(one for one, _, _ in rounds), 2),
                "two": round(statistics.median(two for _, two, _ in rounds), 2),
                "start": round(start, 2),
                "two over one": [round((a + b) / (2 * two), 3) for a, two, b in rounds],
                "two over one without the start": [
                    round(((a + b) / 2 - start) / (two - start), 3) for a, two, b in rounds
                ],
                "control": [round(a / b, 3) for a, _, b in rounds],
                "load": os.getloadavg(),
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
