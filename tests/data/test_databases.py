"""Rows of databases and of other file systems: DuckDB, SQLite by ADBC, fsspec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi
import duckdb
import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica.data import Rows, reader
from plica.errors import FileFormatError, InputError
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from tests.data.conftest import ROWS, numbers_of, table_of


def test_a_query_of_duckdb_runs_for_each_reading(table: Any) -> None:
    with duckdb.connect() as connection:
        connection.register("pets", table)
        rows = Rows(connection.sql("select row, pet from pets where row < 500 order by row"))
        assert (rows.names, rows.num_rows) == (("row", "pet"), None)
        assert numbers_of(rows.batches(size=64)) == list(range(500))
        assert sorted(numbers_of(rows.batches(["row"], seed=0))) == list(range(500))
        other = Rows(connection.sql("select 1 as row union all select 2"))
        assert connection.sql("select count(*) from pets").fetchall() == [(ROWS,)]  # no query stands in the way
        assert sorted(numbers_of(other.batches())) == [1, 2]
        shards = [numbers_of(rows.batches(["row"], shard=(rank, 2))) for rank in range(2)]
    assert shards == [list(range(0, 500, 2)), list(range(1, 500, 2))]


def test_a_cursor_of_a_database_is_read_once(table: Any, tmp_path: Path) -> None:
    with adbc_driver_sqlite.dbapi.connect(str(tmp_path / "pets.db")) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("pets", table.select(["row", "weight"]))
        cursor.execute("select row, weight from pets order by row")
        rows = Rows(cursor)
        batches = list(rows.batches(size=300))
        assert [len(batch) for batch in batches] == [300, 300, 300, 100]
        assert table_of(batches).to_pydict() == table.select(["row", "weight"]).to_pydict()
        with pytest.raises(InputError, match="the result of Cursor can be read once, and it was"):
            next(rows.batches())


def test_files_of_other_file_systems(table: Any) -> None:
    memory = fsspec.filesystem("memory")
    for part in range(2):
        with memory.open(f"/pets/{part}.parquet", "wb") as file:
            pq.write_table(table.slice(500 * part, 500), file, row_group_size=100)
    try:
        for rows in (Rows("memory://pets"), Rows("/pets", filesystem=memory)):
            assert rows.num_rows == ROWS
            assert numbers_of(rows.batches(size=77)) == list(range(ROWS))
        with pytest.raises(FileFormatError, match=r"^memory://pets/2\.parquet: no such file or folder"):
            Rows("memory://pets/2.parquet")
    finally:
        memory.rm("/pets", recursive=True)


def test_an_error_of_a_stream_is_one_line() -> None:
    def batches() -> Any:
        yield pa.record_batch({"a": [1, 2]})
        raise ValueError("the connection\nis lost")

    rows = Rows(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches()))
    with pytest.raises(
        FileFormatError, match=r"the stream of RecordBatchReader: ended in an error after row 2 \(.*is lost"
    ):
        list(rows.batches(size=1))


def test_frames_of_polars_have_views_and_categories() -> None:
    frame = pl.DataFrame({"pet": pl.Series(["cat", "dog", None], dtype=pl.Categorical), "age": ["1", "NA", "2.50"]})
    encoding = Encoding((TableColumn("pet", "categorical", ("cat", "dog")), TableColumn("age", "real")), ("NA",))
    rows = Rows(frame)
    (batch,) = rows.batches()
    assert str(reader(encoding, rows)(batch).tolist()) == "[[0.0, 1.0], [1.0, nan], [nan, 2.5]]"
