"""The same rows from every source, in batches of the size that was asked for."""

from __future__ import annotations

import decimal
import gzip
import itertools
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from plica.data import Rows, files
from plica.errors import DTypeError, FileFormatError, InputError
from tests.data.conftest import ROWS, numbers_of, table_of


def _parquet(table: Any, path: Path) -> Any:
    pq.write_table(table, path / "rows.parquet", row_group_size=300)
    return path / "rows.parquet"


def _feather(table: Any, path: Path) -> Any:
    pyarrow.feather.write_feather(table, path / "rows.feather", chunksize=300)
    return str(path / "rows.feather")


def _arrow(table: Any, path: Path) -> Any:
    with pa.OSFile(str(path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return path / "a.arrow"


def _folder(table: Any, path: Path) -> Any:
    for part in range(4):
        pq.write_table(table.slice(250 * part, 250), path / f"{part}.parquet", row_group_size=100)
    return path


def _list(table: Any, path: Path) -> Any:
    return sorted(_folder(table, path).iterdir())


SOURCES: Mapping[str, Callable[[Any, Path], Any]] = {
    "parquet": _parquet,
    "feather": _feather,
    "arrow": _arrow,
    "folder": _folder,
    "list": _list,
    "url": lambda table, path: _parquet(table, path).as_uri(),
    "table": lambda table, _: table,
    "chunks": lambda table, _: pa.Table.from_batches(table.to_batches(max_chunksize=7)),
    "reader": lambda table, _: table.to_reader(max_chunksize=70),
    "polars": lambda table, _: pl.from_arrow(table),
    "pandas": lambda table, _: table.to_pandas().set_index(np.arange(5, 5 + ROWS)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_rows_in_order(source: str, table: Any, tmp_path: Path) -> None:
    rows = Rows(SOURCES[source](table, tmp_path))
    assert rows.names == tuple(table.schema.names)
    assert rows.num_rows == (None if source == "reader" else ROWS)
    batches = list(rows.batches(size=64))
    assert [len(batch) for batch in batches] == [64] * 15 + [40]
    plain = table.set_column(3, "color", table["color"].cast(pa.string()))
    found = table_of(batches)
    assert found.to_pylist() == plain.to_pylist()
    if source == "reader":
        with pytest.raises(InputError, match="the stream of RecordBatchReader can be read once, and it was"):
            list(rows.batches())
    else:
        again = list(rows.batches(["pet", "row"], size=300))
        assert [len(batch) for batch in again] == [300, 300, 300, 100]
        assert table_of(again).to_pylist() == plain.select(["pet", "row"]).to_pylist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", [*SOURCES, "csv"])
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("world", [1, 3])
def test_shards_are_every_row_once(source: str, seed: int | None, world: int, table: Any, tmp_path: Path) -> None:
    def shard(rank: int) -> list[int]:
        made = tmp_path / str(next(folders))
        made.mkdir()
        rows = Rows(_csv(table, made) if source == "csv" else SOURCES[source](table, made))
        batches = rows.batches(["row"], size=32, shard=(rank, world), seed=seed)
        return list(map(int, numbers_of(batches)))

    folders = itertools.count()
    shards = [shard(rank) for rank in range(world)]
    assert sorted(row for shard in shards for row in shard) == list(range(ROWS))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert [shard(rank) for rank in range(world)] == shards  # again, the same
    assert (shards[0] == sorted(shards[0])) == (seed is None)


def _csv(table: Any, path: Path) -> Any:
    pyarrow.csv.write_csv(table.select(["row", "pet"]), path / "rows.csv")
    return path / "rows.csv"


def test_another_seed_is_another_order_and_the_size_of_batches_is_not(folder: Path) -> None:
    rows = Rows(folder)
    orders = [numbers_of(rows.batches(["row"], seed=seed)) for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert numbers_of(rows.batches(["row"], seed=0, size=10)) == orders[0]


def test_rows_beyond_the_buffer_are_mixed_too(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("plica.data.order._BUFFERED_ROWS", 100)
    order = numbers_of(Rows(folder).batches(["row"], seed=0, size=10))
    assert sorted(order) == list(range(ROWS))
    distances = np.abs(np.diff(order))
    assert np.mean(distances < 3) < 0.1  # rows that lie together are read apart
    assert len({row // 100 for row in order[:50]}) > 1  # and a batch has rows of several files


@pytest.mark.parametrize(("most", "columns"), [(1, 1 << 14), (2, 1 << 14), (32, 1), (32, 1 << 14)])
def test_few_files_are_open_at_once(monkeypatch: pytest.MonkeyPatch, folder: Path, most: int, columns: int) -> None:
    expected = numbers_of(Rows(folder).batches(size=64, seed=3))
    monkeypatch.setattr(files, "_MOST_OPEN", most)
    monkeypatch.setattr(files, "_MOST_OPEN_COLUMNS", columns)
    opened: list[int] = []
    closed: list[int] = []
    counts: list[int] = []

    def open_one(source: files.FileSource, file: int) -> Any:
        table = open_file(source, file)
        close = table.close
        monkeypatch.setattr(table, "close", lambda: (closed.append(file), close()))
        opened.append(file)
        counts.append(len(opened) - len(closed))
        return table

    open_file = files.FileSource._open
    monkeypatch.setattr(files.FileSource, "_open", open_one)
    rows = Rows(folder)
    opened.clear(), closed.clear(), counts.clear()
    assert numbers_of(rows.batches(size=64, seed=3)) == expected
    assert max(counts) <= min(most, max(1, columns // rows.width))
    assert sorted(opened) == sorted(closed)
    has_all_open = most > 10 and columns > 10 * rows.width
    assert (len(opened) == 2 * 10) is has_all_open  # once for the sizes of its groups, once for its rows


def test_places_of_rows_are_named(folder: Path, tmp_path: Path) -> None:
    (last,) = list(Rows(folder).batches(size=ROWS))
    assert last.labels[0] == f"{folder}/part-0.parquet, row 0 (row group 0)"
    assert last.labels[-1] == f"{folder}/part-9.parquet, row 99 (row group 3)"
    shuffled = next(Rows(folder).batches(size=50, seed=0))
    for label, number in zip(shuffled.labels, shuffled.data.column("row").to_pylist(), strict=True):
        assert label == (f"{folder}/part-{number // 100}.parquet, row {number % 100} (row group {number % 100 // 30})")
    assert Rows(pa.table({"a": [1, 2]})).batches(size=2).__next__().labels[:] == [
        "the table, row 0 (counted from 0)",
        "the table, row 1 (counted from 0)",
    ]
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    assert next(Rows(tmp_path / "a.parquet").batches()).labels[1] == f"{tmp_path / 'a.parquet'}, row 1"


# Texts


def test_cells_of_texts_are_text_and_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "pets.csv"
    path.write_text('\ufeff name ;age\n"Tom;\nCat";01\n"";2,5\n', encoding="utf-8")
    rows = Rows(path)
    assert (rows.names, rows.num_rows, rows.types) == (("name", "age"), None, (str, str))
    (batch,) = rows.batches()
    assert batch.data.to_pydict() == {"name": ["Tom;\nCat", None], "age": ["01", "2,5"]}
    assert batch.labels[:] == [f"{path}, line 3", f"{path}, line 4"]


def test_compressed_texts_and_texts_without_names(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"1\t2\n3\t\n"))
    rows = Rows(path)
    assert rows.names is None
    (batch,) = rows.batches()
    assert batch.data.to_pydict() == {"0": ["1", "3"], "1": ["2", None]}
    assert batch.labels[1] == f"{path}, line 2"
    named = Rows(path, named=True)
    assert named.names == ("1", "2")


def test_empty_cells_of_a_single_column_are_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\nx\n\ny\n")
    (batch,) = Rows(tmp_path / "a.csv").batches()
    assert batch.data.to_pydict() == {"a": ["x", None, "y"]}
    assert batch.labels[2] == f"{tmp_path / 'a.csv'}, line 4"


# Arrays


def test_arrays_are_mapped_and_flattened(tmp_path: Path) -> None:
    values = np.arange(24, dtype=">u2").reshape(6, 2, 2)
    np.save(tmp_path / "a.npy", values)
    rows = Rows(tmp_path / "a.npy")
    assert (rows.names, rows.num_rows, rows.width, rows.is_array) == (None, 6, 4, True)
    batches = list(rows.batches(["3", "0"], size=4))
    assert [batch.data.to_pydict() for batch in batches] == [
        {"3": [3, 7, 11, 15], "0": [0, 4, 8, 12]},
        {"3": [19, 23], "0": [16, 20]},
    ]
    assert batches[1].labels[1] == f"{tmp_path / 'a.npy'}, row 5"


# Schemas


def test_folders_name_partitions(table: Any, tmp_path: Path) -> None:
    for year, city in ((2025, "Rome"), (2026, "a%2Fb")):
        path = tmp_path / f"year={year}" / f"city={city}"
        path.mkdir(parents=True)
        pq.write_table(table.slice(0, 2).select(["row"]), path / "a.parquet")
    rows = Rows(tmp_path)
    assert rows.names == ("row", "year", "city")
    assert table_of(rows.batches()).to_pydict() == {
        "row": [0, 1, 0, 1],
        "year": [2025, 2025, 2026, 2026],
        "city": ["Rome", "Rome", "a/b", "a/b"],
    }
    assert table_of(rows.batches(["city"])).to_pydict() == {"city": ["Rome", "Rome", "a/b", "a/b"]}


def test_files_of_other_widths_have_the_types_of_the_first(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": pa.nulls(2)}), tmp_path / "0.parquet")
    other = pa.table(
        {"more": [1], "c": [2.5], "b": pa.array(["z"]).dictionary_encode(), " a ": pa.array([3.0], pa.float32())}
    )
    pq.write_table(other, tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.nulls(1), "b": pa.nulls(1), "c": pa.nulls(1)}), tmp_path / "2.parquet")
    rows = Rows(tmp_path)
    assert rows.schema == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert table_of(rows.batches()).to_pydict() == {
        "a": [1, 2, 3, None],
        "b": ["x", "y", "z", None],
        "c": [None, None, 2.5, None],
    }


def test_text_that_a_file_stores_as_codes_stays_codes_beside_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x", "y", "x"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": ["z", None]}), tmp_path / "1.parquet", use_dictionary=False)
    rows = Rows(tmp_path)
    assert rows.schema.field("a").type == pa.string()
    (batch,) = rows.batches()
    assert pa.types.is_dictionary(batch.data.schema.field("a").type)
    assert batch.data.column("a").to_pylist() == ["x", "y", "x", "z", None]


def test_files_of_wider_floats_are_refused_and_narrower_ones_are_widened(tmp_path: Path) -> None:
    for part, stored in enumerate((pa.float64(), pa.float32())):
        pq.write_table(pa.table({"a": pa.array([0.1], stored)}), tmp_path / f"{part}.parquet")
    paths = sorted(tmp_path.iterdir())
    assert [batch.data.column(0).to_pylist() for batch in Rows(paths).batches()] == [[0.1, float(np.float32(0.1))]]
    with pytest.raises(InputError, match=r"0\.parquet: column 'a' holds double, expected float as in .*1\.parquet"):
        list(Rows(paths[::-1]).batches())


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pa.array([decimal.Decimal("0.50")]), pa.array([0.123])),  # would be 0.12
        (pa.array([1.5], pa.float16()), pa.array([2049])),  # 2048
        (pa.array([1.5], pa.float16()), pa.array([decimal.Decimal("70000")])),  # infinity
        (pa.array([1.5]), pa.array([decimal.Decimal("12345678901234567890")])),
    ],
)
def test_files_whose_numbers_would_be_rounded_are_refused(tmp_path: Path, first: Any, other: Any) -> None:
    for part, numbers in enumerate((first, other)):
        pq.write_table(pa.table({"a": numbers}), tmp_path / f"{part}.parquet")
    with pytest.raises(InputError, match=r"1\.parquet: column 'a' holds .*, expected .* as in .*0\.parquet"):
        list(Rows(tmp_path).batches())


def test_whole_numbers_and_missing_ones_that_another_file_has_as_reals(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [math.nan, None, 2.0]}), tmp_path / "1.parquet")
    (batch,) = Rows(tmp_path).batches()
    assert batch.data.column(0).to_pylist() == [1, None, None, 2]


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("source", ["files", "table"])
def test_codes_of_eight_bits_are_joined(tmp_path: Path, source: str, seed: int | None) -> None:
    """As pandas writes categories, of which each file has others."""
    texts = [[f"{part} {number}" for number in range(100)] for part in range(3)]
    parts = [
        pa.record_batch({"a": pa.array(cells).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))})
        for cells in texts
    ]
    for part, batch in enumerate(parts):
        with pa.OSFile(str(tmp_path / f"{part}.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
    rows = Rows(tmp_path if source == "files" else pa.Table.from_batches(parts))
    (batch,) = rows.batches(seed=seed)
    assert sorted(batch.data.column(0).to_pylist()) == sorted(cell for cells in texts for cell in cells)


# Bad input


@pytest.mark.parametrize(
    ("tenth", "message"),
    [
        ({"row": [1]}, r"part-9\.parquet: there is no column 'weight', which .*part-0\.parquet has; add it"),
        (
            {"row": ["one"], "weight": [1.0]},
            r"part-9\.parquet: column 'row' holds string, expected int64 as in .*part-0\.parquet; write the files with",
        ),
        ({"row": [2.5], "weight": [1.0]}, r"part-9\.parquet, row 0, column 'row' and below: .*truncated.*int64"),
    ],
)
def test_a_file_of_another_schema_is_named_and_the_rows_before_it_are_read(
    tenth: dict[str, Any], message: str, folder: Path, table: Any
) -> None:
    for part in range(10):
        pq.write_table(table.slice(100 * part, 100).select(["row", "weight"]), folder / f"part-{part}.parquet")
    pq.write_table(pa.table(tenth), folder / "part-9.parquet")
    seen: list[int] = []
    with pytest.raises(InputError, match=message) as caught:
        seen.extend(len(batch) for batch in Rows(folder).batches(size=100))
    assert seen == [100] * 9
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0.3, 0.0, 0.999])
def test_a_file_that_is_cut_short_is_named(kept: float, folder: Path) -> None:
    path = folder / "part-7.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    seen: list[int] = []
    with pytest.raises(
        FileFormatError, match=r"part-7\.parquet: (cannot be read|not a readable).*; cut short\?$"
    ) as caught:
        seen.extend(len(batch) for batch in Rows(folder).batches(size=100))
    assert seen == [100] * 7
    assert "\n" not in str(caught.value)


def test_a_damaged_row_group_is_named(folder: Path) -> None:
    path = folder / "part-7.parquet"
    content = bytearray(path.read_bytes())
    at = pq.ParquetFile(path).metadata.row_group(2).column(1).data_page_offset
    content[at : at + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    with pytest.raises(FileFormatError, match=r"part-7\.parquet: cannot be read from row group 2, row 60 on"):
        list(Rows(folder).batches(size=10))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(FileFormatError, match=r"a\.csv, line 3: found 1 columns, expected 2 as in line 1"):
        list(Rows(tmp_path / "a.csv").batches())


def test_empty_folders_empty_files_and_empty_tables(folder: Path, table: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    with pytest.raises(FileFormatError, match=r"empty: the folder has no files of rows"):
        Rows(tmp_path / "empty")
    pq.write_table(table.slice(0, 0), folder / "part-5.parquet")
    assert Rows(folder).num_rows == len(numbers_of(Rows(folder).batches())) == 900
    for source in (table.slice(0, 0), folder / "part-5.parquet"):
        with pytest.raises(FileFormatError, match=r"holds no rows"):
            list(Rows(source).batches())
    with pytest.raises(InputError, match=r"the table: 2 row\(s\) for 3 processes, so process 1 may have none; use 2"):
        list(Rows(table.slice(0, 2)).batches(shard=(1, 3)))


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nothing.parquet", FileFormatError, r"nothing\.parquet: no such file or folder"),
        ("nope://bucket/rows", FileFormatError, r"nope://bucket/rows: cannot be reached \(Protocol not known: nope"),
        ([], FileFormatError, r"the list of files is empty"),
        ("a\0b", FileFormatError, r"null byte"),
        (12, DTypeError, r"expected a path, an address, .* found int"),
        (pl.LazyFrame({"a": [1]}), DTypeError, r"expected a path, .* found LazyFrame"),
        (pa.table([[1], [2]], [" a", "a "]), FileFormatError, r"the table: two columns are called 'a'; rename one"),
        (pa.table({}), FileFormatError, r"the table: it has no columns"),
        (pd.DataFrame({"a": [1, "x"]}), FileFormatError, r"the table: cannot be read .*give each column cells of one"),
    ],
)
def test_what_is_no_source_is_said_in_one_line(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        Rows(source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("entry", ["link to nowhere", "pipe"])
def test_what_lies_among_the_files_and_cannot_be_read_is_named(entry: str, folder: Path) -> None:
    """Rows are not left out without a word."""
    odd = folder / "5.parquet"
    if entry == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(folder / "nowhere")
    with pytest.raises(FileFormatError, match=r"5\.parquet: is no file, but "):
        Rows(folder)
    odd.rename(folder / "_5.parquet")  # a mark of another program
    assert sum(batch.data.num_rows for batch in Rows(folder).batches()) == ROWS


@pytest.mark.parametrize("target", [".", "..", "deep"])
def test_a_link_to_a_folder_that_it_lies_in_is_refused(target: str, folder: Path) -> None:
    """Its rows would be read again and again."""
    inner = folder / "deep" / "inner"
    inner.mkdir(parents=True)
    link = folder / "again" if target != "deep" else inner / "again"
    link.symlink_to(folder / target, target_is_directory=True)
    with pytest.raises(FileFormatError, match=r"again: is a link to a folder that it lies in, "):
        Rows(folder)


def test_links_to_other_files_and_folders_are_read(folder: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for file in sorted(folder.iterdir()):
        (links / file.name).symlink_to(file)
    (links / "z").symlink_to(folder, target_is_directory=True)
    assert sum(batch.data.num_rows for batch in Rows(links).batches()) == 2 * ROWS


def test_unknown_endings_and_mixed_folders(folder: Path) -> None:
    (folder / "readme.txt").touch()
    with pytest.raises(FileFormatError, match=r"readme\.txt: cannot tell what kind of table this is from its ending"):
        Rows(folder)
    (folder / "readme.txt").rename(folder / "more.csv")
    with pytest.raises(FileFormatError, match=r"part-0\.parquet: of another kind than .*more\.csv"):
        Rows(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nothing"]}, "there is no column 'nothing'; its columns are row, weight, pet, color, born"),
        ({"columns": []}, "no column is chosen"),
        ({"shard": (2, 2)}, r"shard \(2, 2\): expected \(rank, world\) with 0 <= rank < world"),
        ({"shard": 3}, r"shard must be \(rank, world\), found 3"),
        ({"size": 0}, "size must be at least 1, found 0"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_what_batches_refuses(options: dict[str, Any], message: str, table: Any) -> None:
    with pytest.raises(ValueError, match=message):
        Rows(table).batches(**options)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_two_columns_of_one_name_in_a_later_file_are_refused(ending: str, tmp_path: Path) -> None:
    first, second = pa.table({"k": [1]}), pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k "])
    for number, table in enumerate((first, second)):
        write = pq.write_table if ending == ".parquet" else pa.feather.write_feather
        write(table, tmp_path / f"{number}{ending}")
    with pytest.raises(FileFormatError, match=rf"1\{ending}: two columns are called 'k'"):
        list(Rows(tmp_path).batches())
