"""Files and folders of Parquet and Arrow as commands read them: the numbers and columns that their cells give."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from plica.errors import FileFormatError, InputError
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.tables.data_sets import _read_cells, from_typed
from plica.tables.files import numbers_reader, open_table
from tests.harness.tables_of_users import run, untrained

ROWS = 60


@pytest.fixture
def table() -> Any:
    random = np.random.default_rng(0)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "pet": pa.array([("cat", "dog", "NA", None)[state] for state in random.integers(0, 4, ROWS)]),
            "legs": pa.array(random.poisson(4, ROWS), mask=random.random(ROWS) < 0.2),
            "weight": random.normal(size=ROWS).round(2),
            "born": [day + datetime.timedelta(int(days)) for days in random.integers(0, 999, ROWS)],
            "seen": pa.array(random.integers(0, 10**6, ROWS) * 60).cast(pa.timestamp("s")),
            "tags": [["a"]] * ROWS,
            " key ": [f"key {row}" for row in range(ROWS)],
        }
    )


@pytest.fixture
def folder(table: Any, tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    for part in range(3):
        pq.write_table(table.slice(20 * part, 20), tmp_path / "rows" / f"{part}.parquet", row_group_size=7)
    return tmp_path / "rows"


def test_streams_have_the_numbers_of_their_cells(table: Any, folder: Path) -> None:
    pyarrow.feather.write_feather(table, folder.parent / "rows.feather")
    encoding = Encoding(
        (
            TableColumn("weight", "real"),
            TableColumn("pet", "categorical", ("cat", "dog")),
            TableColumn("born", "date", format="%Y-%m-%d", origin=18000),
        ),
        ("NA",),
    )
    for path in (folder, folder.parent / "rows.feather"):
        with open_table(path) as rows:
            assert (rows.num_rows, rows.header[-1], (rows.names or ())[-1]) == (ROWS, " key ", "key")
            by_cells, read = encoding.reader(rows), numbers_reader(encoding, rows)
            batches = list(rows.batches(9))
            assert [len(batch) for batch in batches] == [9] * 6 + [6]
            for batch in batches:
                np.testing.assert_array_equal(read(batch), by_cells(batch))
            assert [cell for batch in batches for cell in batch.cells[:, 6]] == table[" key "].to_pylist()


def test_a_data_set_of_a_stream_is_that_of_its_cells(folder: Path) -> None:
    found = from_typed(folder, records={}, words=("NA",))
    with open_table(folder) as rows:
        names = rows.names or ()
        encoding, (values,) = _read_cells([rows], names, source=str(folder), records={}, words=("NA",))
    assert found.encoding == encoding
    kinds = [column.kind for column in encoding.columns]
    assert kinds == ["categorical", "count", "real", "date", "timestamp", "ignored", "ignored"]
    assert [column.why for column in found.encoding.columns[5:]] == ["cells of the type list", encoding.columns[6].why]
    parts = np.concatenate([found.train, found.valid, found.test])
    np.testing.assert_array_equal(np.sort(parts, axis=0), np.sort(values, axis=0))


def test_commands_take_folders(table: Any, folder: Path) -> None:
    model, whole = folder.parent / "m.plica", folder.parent / "whole.parquet"
    pq.write_table(table.drop_columns(["tags"]), whole)
    for part in sorted(folder.iterdir()):
        pq.write_table(pq.read_table(part).drop_columns(["tags"]), part)
    untrained(model, whole)
    for command in ("score", "complete"):
        for data, out in ((whole, "a.parquet"), (folder, "b.parquet")):
            done = run(command, model, data, "-o", folder.parent / out, "--batch", 8)
            assert done.exit_code == 0, done.output
        first, second = (pq.read_table(folder.parent / out) for out in ("a.parquet", "b.parquet"))
        assert first.equals(second)
        assert first.num_rows == ROWS


def test_what_cannot_be_read_is_one_line(table: Any, folder: Path) -> None:
    pq.write_table(table.slice(0, 0), folder.parent / "none.parquet")
    with open_table(folder.parent / "none.parquet") as rows:
        assert list(rows.batches(3)) == []
    pq.write_table(table.slice(0, 9).drop_columns(["legs"]), folder / "2.parquet")
    with pytest.raises(InputError, match=r"2\.parquet: there is no column 'legs'"):
        open_table(folder)
    with pytest.raises(
        FileFormatError, match=r"one of \.npy, \.npz, \.csv, \.tsv, \.parquet, \.arrow, \.feather, \.ipc$"
    ):
        open_table(Path(__file__))
