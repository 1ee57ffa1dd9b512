"""A table of mixed columns, written in each format, and how rows are compared."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica.data import RowBatch

ROWS = 1000


@pytest.fixture(scope="session")
def table() -> Any:
    """1,000 rows, each with its number."""
    random = np.random.default_rng(0)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "row": pa.array(np.arange(ROWS)),
            "weight": pa.array(random.normal(size=ROWS), mask=random.random(ROWS) < 0.1),
            "pet": pa.array([("cat", "dog", None)[state] for state in random.integers(0, 3, ROWS)]),
            "color": pa.array([("red", "blue")[state] for state in random.integers(0, 2, ROWS)]).dictionary_encode(),
            "born": pa.array([day + datetime.timedelta(int(days)) for days in random.integers(0, 999, ROWS)]),
        }
    )


@pytest.fixture
def folder(table: Any, tmp_path: Path) -> Path:
    """The table as ten files of Parquet, in row groups of 30 rows, beside a mark of another program."""
    path = tmp_path / "rows"
    path.mkdir()
    for part in range(10):
        pq.write_table(table.slice(100 * part, 100), path / f"part-{part}.parquet", row_group_size=30)
    (path / "_SUCCESS").touch()
    return path


def table_of(batches: Iterable[RowBatch]) -> Any:
    """All rows of some batches, dictionaries as text."""
    plain = []
    for batch in batches:
        arrays = [
            array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in batch.data.columns
        ]
        plain.append(pa.RecordBatch.from_arrays(arrays, batch.data.schema.names))
    return pa.Table.from_batches(plain)


def numbers_of(batches: Iterable[RowBatch]) -> list[int]:
    """The column that numbers the rows."""
    return [row for batch in batches for row in batch.data.column("row").to_pylist()]
