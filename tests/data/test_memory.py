"""Memory of training from a stream does not depend on the number of rows."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica.data import memory

COLUMNS, GROUP = 16, 50_000
TRAIN = """
import sys, tempfile
from pathlib import Path
from plica.cli.main import main
with tempfile.TemporaryDirectory() as out:
    settings = "--columns auto --region-graph random-binary-tree --units 1 --batch 8192 --epochs 1 --quiet"
    main(["train", sys.argv[1], "--out", out, *settings.split()], standalone_mode=False)
status = Path("/proc/self/status").read_text()  # `getrusage` counts the process that started this one
print(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")))
"""


def write(path: Path, rows: int) -> None:
    random = np.random.default_rng(0)
    schema = pa.schema([(f"column {number}", pa.float64()) for number in range(COLUMNS)])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(0, rows, GROUP):
            cells = random.normal(size=(COLUMNS, GROUP))
            writer.write_table(pa.table(list(cells), schema=schema), row_group_size=GROUP)


def peak_kib(path: Path) -> int:
    done = subprocess.run([sys.executable, "-c", TRAIN, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say a process's peak memory")
def test_training_on_four_times_the_rows_needs_as_much_memory(tmp_path: Path) -> None:
    """The larger table has 230 MiB more than the smaller one, as float64."""
    few, many = tmp_path / "few.parquet", tmp_path / "many.parquet"
    write(few, 600_000)
    write(many, 2_400_000)
    assert abs(peak_kib(many) - peak_kib(few)) < 100 * 2**10


class OtherLibrary:
    """A C library without `malloc_trim`."""


def statically_linked(_: None) -> OtherLibrary:
    raise OSError("dynamic loading is not supported")


@pytest.fixture
def forgetful() -> Iterator[None]:
    memory._malloc_trim.cache_clear()
    yield
    memory._malloc_trim.cache_clear()


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("library", [lambda _: OtherLibrary(), statically_linked])
def test_memory_is_given_back_without_glibc(
    monkeypatch: pytest.MonkeyPatch, library: Callable[[None], OtherLibrary]
) -> None:
    logged = pa.proxy_memory_pool(pa.system_memory_pool())
    former = pa.default_memory_pool()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", library)
    pa.set_memory_pool(logged)
    try:
        memory.give_back()
        assert memory._malloc_trim() is None
    finally:
        pa.set_memory_pool(former)
