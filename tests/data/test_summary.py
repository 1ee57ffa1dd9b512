"""One pass with bounded memory finds the kinds that all cells give, and summaries of shards are that of the whole."""

from __future__ import annotations

import datetime
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from plica.data import Rows, Summary, summarise
from plica.data.arrow_cells import python_cells
from plica.data.distinct import MOST
from plica.errors import InputError
from plica.files.infer import infer_columns
from plica.files.kinds import TableColumn

_TEXTS = (
    st.sampled_from(["yes", "no", "Yes", "cat", "dog", " cat", "01", "5%", "1,005", "2.50", "$3", "3/14/2020", "12:30"])
    | st.integers(-3, 3).map(str)
    | st.dates(datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)).map(str)
)
_CELLS: list[tuple[Any, Any]] = [
    (pa.string(), _TEXTS),
    (pa.string(), st.sampled_from(["yes", "NO", "no"])),
    (pa.string(), st.integers(0, 10**6).map("{:,}".format)),
    (pa.string(), st.floats(-99, 99).map("{:.2f}".format)),
    (pa.string(), st.dates(datetime.date(2000, 1, 1), datetime.date(2030, 1, 1)).map("{:%d.%m.%Y}".format)),
    (pa.int64(), st.integers(-5, 5)),
    (pa.int64(), st.integers(0, 2**60)),
    (pa.int64(), st.integers(0, 1)),
    (pa.float64(), st.floats(-1e9, 1e9) | st.sampled_from([math.nan, math.inf])),
    (pa.float64(), st.integers(0, 60).map(float)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.time64("us"), st.times()),
]


def _from_all(table: Any, words: tuple[str, ...]) -> tuple[TableColumn, ...] | str:
    cells = np.empty((table.num_rows, table.num_columns), dtype=object)
    for position, column in enumerate(table.columns):
        cells[:, position] = python_cells(column.combine_chunks())
    try:
        return infer_columns(table.schema.names, cells, words=words, source="the table")
    except InputError as error:
        return str(error)


def _infer(summary: Summary) -> tuple[TableColumn, ...] | str:
    try:
        return summary.infer()
    except InputError as error:
        return str(error)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_kinds_are_those_that_all_cells_give(data: st.DataObject) -> None:
    stored, cell = data.draw(st.sampled_from(_CELLS))
    cells = data.draw(st.lists(cell | st.none(), min_size=2, max_size=40))
    words = data.draw(st.sampled_from([(), ("no", "3", "0")]))
    table = pa.table({"column_id": pa.array(cells, stored)})
    expected = _from_all(table, words)
    rows = Rows(table)
    assert _infer(summarise(rows, words=words)) == expected
    shards = [summarise(rows, words=words, size=3, shard=(rank, 2)) for rank in range(2)]
    merged = shards[0].merged(shards[1])
    assert _infer(merged) == expected
    whole, joined = (part.columns["column_id"] for part in (summarise(rows, words=words), merged))
    assert joined.distinct.counts == whole.distinct.counts
    assert (joined.num_rows, joined.num_null) == (whole.num_rows, whole.num_null) == (len(cells), whole.num_null)
    for name in ("number", "mean", "deviations", "least", "most"):
        found, wanted = getattr(joined.moments, name), getattr(whole.moments, name)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * max(1, abs(whole.moments.mean)) ** 2, nan_ok=True)


@pytest.fixture(scope="module")
def many() -> Any:
    """30,000 rows with more distinct cells than are kept."""
    random = np.random.default_rng(0)
    number = 30_000
    reals = random.normal(5, 2, number)
    wholes = random.permutation(number) * 3.0
    wholes[777] = 2.5
    names = np.asarray([f"name {row}" for row in range(number)])
    texts = np.char.mod("%.3f", reals)
    texts[555] = "N/A"
    return pa.table(
        {
            "real": pa.array(np.abs(reals) + 1, mask=random.random(number) < 0.1),
            "negative": np.where(np.arange(number) == 12_345, -1.0, np.abs(reals)),
            "almost whole": wholes,
            "whole": random.permutation(number) * 1000 + 2**30,
            "row": np.arange(1, number + 1),
            "almost row": np.append(np.arange(number - 1), 0),
            "name": names,
            "number as text": np.char.mod("%.3f", reals),
            "number as text with a word": texts,
            "stamp": pa.array(random.integers(10**9, 2 * 10**9, number)).cast(pa.timestamp("s")),
        }
    )


@pytest.mark.full
def test_more_distinct_cells_than_are_kept(many: Any) -> None:
    summary = summarise(Rows(many))
    with pytest.raises(
        InputError, match=r"'number as text with a word': most cells are numbers and 1 of 30000 are not, such"
    ):
        summary.infer()
    many = many.drop_columns(["number as text with a word"])
    summary = summarise(Rows(many))
    columns = {column.name: column for column in summary.infer()}
    assert {name: column.kind for name, column in columns.items()} == {
        "real": "real",
        "negative": "real",
        "almost whole": "real",
        "whole": "whole",
        "row": "ignored",
        "almost row": "whole",
        "name": "ignored",
        "number as text": "real",
        "stamp": "timestamp",
    }
    expected = {column.name: column for column in infer_columns(many.schema.names, _objects(many))}
    for name, column in columns.items():
        assert (column.kind, column.format, column.least) == (
            expected[name].kind,
            expected[name].format,
            expected[name].least,
        ), name
    assert columns["row"].why == expected["row"].why
    for name, known in summary.columns.items():
        assert len(known.distinct.counts) <= 2 * MOST, name
        assert known.distinct.number == pytest.approx(len(set(many[name].drop_null().to_pylist())), rel=0.1)
    real = many["real"].drop_null().to_numpy()
    assert summary.columns["real"].moments.mean == pytest.approx(real.mean(), rel=1e-12)
    assert summary.columns["real"].moments.variance == pytest.approx(real.var(), rel=1e-12)
    assert (summary.columns["real"].moments.least, summary.columns["real"].moments.most) == (real.min(), real.max())
    spread = 30_000 * 1000
    assert abs(columns["whole"].origin - expected["whole"].origin) < 0.05 * spread


def _objects(table: Any) -> Any:
    cells = np.empty((table.num_rows, table.num_columns), dtype=object)
    for position, column in enumerate(table.columns):
        cells[:, position] = python_cells(column.combine_chunks())
    return cells


def test_a_sample_does_not_depend_on_batches_or_shards(many: Any) -> None:
    rows = Rows(many.select(["real", "name", "row"]))
    whole = summarise(rows)
    shards = [summarise(rows, size=1000, shard=(rank, 3)) for rank in range(3)]
    merged = shards[0].merged(shards[1]).merged(shards[2])
    for name in ("real", "name", "row"):
        parts = whole.columns[name].distinct, merged.columns[name].distinct
        bound = min(part.bound for part in parts)
        assert bound < 2**64
        common = [{cell for cell in part.counts if part._hashes[cell] < bound} for part in parts]
        assert common[0] == common[1]
        assert len(common[0]) > MOST // 3
        assert all(parts[0].counts[cell] == parts[1].counts[cell] for cell in common[0])
    assert merged.columns["row"].cells().are_row_numbers
    assert merged.infer()[2].why == "the numbers of rows"


def test_deviations_beyond_float64_are_infinite() -> None:
    table = pa.table({"a": [1e300, -2.5, 1.0, 1.5]})
    summary = summarise(Rows(table), size=2)
    assert summary.infer() == _from_all(table, ())
    moments = summary.columns["a"].moments
    assert (moments.deviations, moments.least, moments.most) == (math.inf, -2.5, 1e300)


def test_summaries_of_other_tables_do_not_merge() -> None:
    first, second = (summarise(Rows(pa.table({name: [1]}))) for name in "ab")
    with pytest.raises(InputError, match=r"the table: the columns b, expected a as in the table; merge summaries of"):
        first.merged(second)
