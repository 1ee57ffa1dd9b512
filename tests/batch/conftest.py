"""A folder of rows with a key, a small model of them, and its answers without an engine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica import tables
from tests.cli.conftest import plica as plica

ROWS, FILES, BATCH = 1000, 10, 16


def in_this_process(worker: Callable[[int], str], numbers: Sequence[int], workers: int) -> Iterator[str]:
    """An engine that is no other process, and deals parts out backwards."""
    assert 1 <= workers <= len(numbers)
    return map(worker, reversed(numbers))


@pytest.fixture(scope="session")
def table() -> Any:
    """1,000 rows of a key, text, numbers and dates, some of them missing."""
    random = np.random.default_rng(0)
    pets = random.integers(0, 3, ROWS)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "key": pa.array([f"row {number}" for number in range(ROWS)]),
            "pet": pa.array([("cat", "dog", "bird")[pet] for pet in pets], mask=random.random(ROWS) < 0.1),
            "weight": pa.array(np.round(random.normal(3.0 * pets), 2), mask=random.random(ROWS) < 0.1),
            "legs": pa.array(np.where(pets == 2, 2, 4), mask=random.random(ROWS) < 0.1),
            "born": pa.array([day + datetime.timedelta(int(days)) for days in random.integers(0, 999, ROWS)]),
        }
    )


@pytest.fixture(scope="session")
def model(table: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "pets.plica"
    tables.fit(table.drop_columns(["key"]), units=3, trees=1, epochs=1).save(path)
    return path


@pytest.fixture
def folder(table: Any, tmp_path: Path) -> Path:
    """The table as ten files of 100 rows, in row groups of 30."""
    path = tmp_path / "rows"
    path.mkdir()
    for part in range(FILES):
        pq.write_table(table.slice(100 * part, 100), path / f"{part}.parquet", row_group_size=30)
    return path


def parts_in(out: Path) -> list[Path]:
    return sorted(out.glob("part-*.parquet"))


def written(out: Path) -> Any:
    """The rows of all parts, in the order of their names; nothing else is there but marks of the run."""
    names = [path.name for path in parts_in(out)]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "_SUCCESS", "_job.json"])
    return pa.concat_tables([pq.read_table(path) for path in parts_in(out)])
