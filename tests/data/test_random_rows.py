"""Random tables of all types: what is written is read back, and shards of random sizes are every row once."""

import datetime
import decimal
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica.data import Rows, numbers
from plica.data.write import text_of, writing_rows
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn

_DAY = datetime.datetime(2026, 1, 31, 23, 59, 59, 999999)
_VALUES: dict[Any, Sequence[Any]] = {
    pa.string(): ["cat", "", 'say "a, b"', "two\nlines", "a\r\nb", "\u2603", " x ", "nan", "01", "x" * 100_000],
    pa.large_string(): ["cat", '"', "\r"],
    pa.float64(): [0.1, -0.0, 1e308, 5e-324, math.inf, -math.inf, 1 / 3],
    pa.float32(): [0.5, float(np.float32(0.1)), 2.0**-149, math.inf],
    pa.float16(): [0.5, 65504.0],
    pa.int64(): [0, 2**53 + 1, -(2**63), 2**63 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.int8(): [-128, 127],
    pa.bool_(): [True, False],
    pa.date32(): [datetime.date(1, 1, 1), datetime.date(2026, 1, 31), datetime.date(9999, 12, 31)],
    pa.date64(): [datetime.date(1969, 12, 31)],
    pa.timestamp("us"): [_DAY, datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)],
    pa.timestamp("ms", "Europe/Berlin"): [_DAY.replace(microsecond=0, tzinfo=datetime.UTC)],
    pa.timestamp("ns"): [np.datetime64("2026-01-31T12:30:00.000000001", "ns").item(), 0],
    pa.time64("us"): [datetime.time(23, 59, 59, 999999), datetime.time(0)],
    pa.time64("ns"): [1, 86_399_999_999_999],
    pa.duration("us"): [datetime.timedelta(days=-1, microseconds=1)],
    pa.duration("ns"): [1, 1_000],
    pa.decimal128(30, 4): [decimal.Decimal("12345678901234567890.1234"), decimal.Decimal("-0.0001")],
    pa.binary(): [b"\x00\xff"],
    pa.list_(pa.int32()): [[1, 2], []],
    pa.struct([("a", pa.int64())]): [{"a": 1}],
    pa.dictionary(pa.int8(), pa.string()): ["a, b", '"', ""],
    pa.dictionary(pa.int32(), pa.int64()): [2**60, 1],
    pa.null(): [None],
}


def column_of(cells: Sequence[Any], kind: Any) -> Any:
    if not pa.types.is_dictionary(kind):
        return pa.array(cells, kind)
    codes = pa.array(cells, kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes.indices.cast(kind.index_type), codes.dictionary)


def random_table(rng: np.random.Generator, count: int, kinds: Sequence[Any] = tuple(_VALUES)) -> Any:
    chosen = [kinds[place] for place in rng.permutation(len(kinds))[: int(rng.integers(1, 6))]]
    columns = []
    for kind in chosen:
        values = [*_VALUES[kind], None] if rng.random() < 0.8 else [None]
        cells = [values[place] for place in rng.integers(len(values), size=count)]
        columns.append(column_of(cells, kind))
    names = [f"{rng.choice(['c', 'c, ', 'c.', chr(0x2603)])}{place}" for place in range(len(columns))]
    return pa.table(dict(zip(names, columns, strict=True)))


def write_somehow(table: Any, path: Path, rng: np.random.Generator) -> None:
    groups = int(rng.integers(1, 12))
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=groups, use_dictionary=bool(rng.integers(2)))
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table.unify_dictionaries(), max_chunksize=groups)


def read_back(path: Path, columns: Sequence[str] | None = None, **options: Any) -> Any:
    return pa.Table.from_batches([batch.data for batch in Rows(path).batches(columns, **options)])


def same(one: Any, other: Any) -> bool:
    """Whether two columns have the same cells, whether they are codes or not."""
    arrays = [column.combine_chunks() for column in (one, other)]
    arrays = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in arrays]
    return bool(arrays[0].equals(arrays[1].cast(arrays[0].type)))


@pytest.mark.one_in(78)
@pytest.mark.parametrize("seed", range(312))
def test_tables_are_written_and_read_back(seed: int, tmp_path: Path) -> None:
    """Tables pass through `Rows` and `writing_rows`, to which each cell is what it was."""
    rng = np.random.default_rng(seed)
    table = random_table(rng, int(rng.integers(1, 40)))
    start = tmp_path / rng.choice(["a.parquet", "a.arrow"])
    write_somehow(table, start, rng)
    size = int(rng.integers(1, 50))
    rows = Rows(start)
    assert rows.schema.names == table.schema.names
    for ending in (".parquet", ".csv"):
        path = tmp_path / f"b{ending}"
        with writing_rows(path, table.schema.names, types=rows.stored) as write:
            for batch in rows.batches(size=size):
                write(batch.data)
        back = read_back(path, size=size)
        for before, after in zip(table.columns, back.columns, strict=True):
            if ending == ".parquet":
                lost = pa.types.is_date64(before.type) or pa.types.is_dictionary(before.type)  # in Parquet itself
                is_same_type = after.type == before.type or pa.types.is_dictionary(after.type)
                assert is_same_type or lost, (before.type, after.type)
                assert same(before, after), before.type
    if len(table.schema) > 1:
        chosen = list(rng.permutation(table.schema.names))
        back = read_back(start, chosen, size=size)
        assert back.schema.names == chosen
        assert all(same(table[name], back[name]) for name in chosen)


_TEXT_ALIKE = tuple(kind for kind in _VALUES if not pa.types.is_null(kind))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", _TEXT_ALIKE, ids=str)
def test_each_type_is_a_text_and_is_read_back_from_it(kind: Any, tmp_path: Path) -> None:
    values = [*_VALUES[kind], None]
    batch = pa.record_batch({"a": column_of(values, kind)})
    with writing_rows(tmp_path / "a.csv", ["a"]) as write:
        write(batch)
    cells = read_back(tmp_path / "a.csv")["a"].to_pylist()
    assert len(cells) == len(values)
    for cell, value in zip(cells, values, strict=True):
        if isinstance(value, str | float | bool | datetime.date | datetime.time | decimal.Decimal | None):
            assert (cell or "") == text_of(value) or getattr(kind, "tz", None)


@pytest.mark.one_in(53)
@pytest.mark.parametrize("seed", range(212))
def test_shards_of_random_files_are_every_row_once(seed: int, tmp_path: Path) -> None:
    """Shards of files of random sizes are every row once, in an order that the seed decides alone."""
    rng = np.random.default_rng(seed)
    ending = str(rng.choice([".parquet", ".arrow", ".csv", ".npy"]))
    partitioned = bool(rng.integers(2)) and ending != ".npy"
    first = 0
    for file in range(int(rng.integers(1, 5))):
        count = int(rng.choice([0, 1, 3, 40, 300])) if file else int(rng.choice([1, 3, 40]))
        place = tmp_path / "rows" / (f"part={file % 2}" if partitioned else "") / f"{file}{ending}"
        place.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"row": np.arange(first, first + count), "x": rng.normal(size=count)})
        first += count
        if ending == ".csv":
            place.write_text(
                "row,x\n" + "".join(f"{row},{x}\n" for row, x in zip(*table.to_pydict().values(), strict=True))
            )
        elif ending == ".npy":
            np.save(place, np.stack([column.to_numpy() for column in table.columns], axis=1))
        else:
            write_somehow(table, place, rng)
    rows = Rows(tmp_path / "rows")
    names = rows.schema.names[:2]
    encoding = Encoding((TableColumn(names[1], "real"), TableColumn(names[0], "whole")))
    if ending == ".npy":
        encoding = Encoding((TableColumn(names[0], "whole"), TableColumn(names[1], "real")))
    in_row = 0 if ending == ".npy" else 1
    world = int(rng.integers(1, 7)) if rng.random() < 0.8 else first + 3
    if rows.num_rows is not None:
        world = min(world, first)
    size, order = int(rng.choice([1, 7, 64, 1000])), (None if rng.random() < 0.4 else int(rng.integers(9)))

    def shard(rank: int) -> list[np.ndarray]:
        batches = [batch.numbers for batch in numbers(encoding, rows, size=size, shard=(rank, world), seed=order)]
        copies = [batch.copy() for batch in batches]
        assert all(len(batch) == size for batch in batches[:-1])
        for batch in batches:
            assert not any(np.shares_memory(batch, other) for other in batches if other is not batch)
        for batch, copy in zip(batches, copies, strict=True):
            np.testing.assert_array_equal(batch, copy)
        return copies

    shards = [shard(rank) for rank in range(world)]
    seen = [int(row[in_row]) for batches in shards for batch in batches for row in batch]
    whole = [int(row) for batch in numbers(encoding, rows, size=17) for row in batch.numbers[:, in_row]]
    assert sorted(seen) == sorted(whole) == list(range(first))
    if order is None and rows.num_rows is not None:
        assert seen == whole
    again = shard(world - 1)
    assert all(np.array_equal(one, other) for one, other in zip(again, shards[-1], strict=True))
    of_rows = list(rows.batches(size=size, shard=(0, world), seed=order))
    in_batches = [int(cell) for batch in of_rows for cell in batch.data.column(0).to_pylist()]
    assert in_batches == [int(row[in_row]) for batch in shards[0] for row in batch]
