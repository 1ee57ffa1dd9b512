"""Numbers of batches are those that the cells have one by one, and so are the messages."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings

from plica.data import Rows, numbers, reader
from plica.data.arrow_cells import python_cells
from plica.data.encoding import ColumnReader
from plica.errors import InputError
from plica.files.columns import encode
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn

WORDS = ("NA", "-999", "2.5", "7")
COLUMNS = (
    TableColumn("real", "real"),
    TableColumn("real with a comma", "real", format="#.##0,00"),
    TableColumn("percent", "real", format="0.0%"),
    TableColumn("money", "whole", format="$#,##0"),
    TableColumn("whole", "whole"),
    TableColumn("whole far away", "whole", origin=2**40 + 3),
    TableColumn("whole beyond 64 bits", "whole", origin=10**30),
    TableColumn("whole at the end of 64 bits", "whole", origin=-(2**63)),
    TableColumn("count", "count"),
    TableColumn("text categories", "categorical", ("NA", "True", "a", "b c", "1", "2.5")),
    TableColumn("numbers as categories", "categorical", (-3, 0, 1, 7, 2**60)),
    TableColumn("truth values as categories", "categorical", (False, True)),
    TableColumn("boolean", "boolean", (False, True)),
    TableColumn("boolean words", "boolean", ("no", "yes")),
    TableColumn("boolean numbers", "boolean", (0, 1)),
    TableColumn("date", "date", format="%Y-%m-%d", origin=12000),
    TableColumn("date of digits", "date", format="%Y%m%d"),
    TableColumn("month", "date", format="%Y-%m"),
    TableColumn("quarter", "date", format="%Y-Q%q"),
    TableColumn("time stamp", "timestamp", format="%Y-%m-%d %H:%M:%S", origin=10**9),
    TableColumn("time stamp to the minute", "timestamp", format="%d.%m.%Y %H:%M"),
    TableColumn("fine time stamp", "timestamp", format="%Y-%m-%d %H:%M:%S%6f"),
    TableColumn("zoned", "timestamp", format="%Y-%m-%d %H:%M:%S%z[+02:00]"),
    TableColumn("short year", "date", format="%d.%m.%y"),
    TableColumn("stamp with fractions", "timestamp", format="%Y/%m/%dT%H:%M:%S%3f", origin=-5),
    TableColumn("time", "time", format="%H:%M:%S", origin=100),
    TableColumn("time to the minute", "time", format="%H:%M"),
)

_WORDS = (
    *("", " ", "NA", " NA ", "-999", "-999.0", "2.5", "a", "b c", " a", "True", "true", "yes", "NO", "1", "0", "t"),
    *("1.005,50", "1,005", "1,005.5", "1 005", "12.5%", "12 %", "$1,005", "$ 7", "7", "1e5", "1E-3", "1e999", "1_000"),
    *("+5", "-0", "-0.0", "12.0", "12.", ".5", "inf", "nan", "NaN", "0x10", "007", "\u2212" + "5", "9" * 20, "9" * 400),
    *(
        "2020-02-29",
        "2021-02-29",
        "2020-2-9",
        "20200229",
        "2020-05",
        "2020-Q3",
        "2020-02-29 12:30:15",
        "29.02.2020 12:30",
    ),
    *("2020-02-29 12:30:15.123456", "2020-02-29 12:30:15+02:00", "12:30:15", "12:30", "99:30", "0000-01-01", "٣"),
)
_FORMATS = (
    "%Y-%m-%d",
    "%Y%m%d",
    "%d.%m.%y",
    "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%dT%H:%M:%S.123",
    "%H:%M:%S",
)
_TIME_TEXTS = st.builds(
    lambda time, form, letter, at: (text := f"{time:{form}}")[:at] + letter + text[at + len(letter) :],
    st.datetimes(),
    st.sampled_from(_FORMATS),
    st.sampled_from(["", "", "", "9", "0", " ", "-", "\u0663"]),
    st.integers(0, 18),
)
_TEXTS = (
    _TIME_TEXTS
    | st.sampled_from(_WORDS)
    | st.integers(-(10**16), 10**16).map(str)
    | st.floats(allow_nan=False).map(str)
)
_TIMES = (
    st.integers(-(2**62) // 10**4, 2**62 // 10**4)
    | st.integers(-3, 3)
    | st.integers(0, 10**6).map(lambda n: n * 60 * 10**6)
)
_TYPES: dict[str, tuple[Any, Any]] = {
    **{
        str(width): (width, st.integers(-3, 9) | st.integers(*ends))
        for width, ends in (
            (pa.int8(), (-128, 127)),
            (pa.int32(), (-(2**31), 2**31 - 1)),
            (pa.int64(), (-(2**63), 2**63 - 1)),
        )
    },
    "uint64": (pa.uint64(), st.integers(0, 9) | st.integers(0, 2**64 - 1)),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "int64 of dates": (pa.int64(), st.sampled_from([20200229, 20210229, 7, -999, 1])),
    "double": (pa.float64(), st.floats() | st.sampled_from([2.5, -999.0, 7.0, -0.0, 1.0, 2.0**62, 1e300])),
    "float": (pa.float32(), st.floats(width=32) | st.sampled_from([2.5, -999.0, 7.0, -0.0])),
    "half": (pa.float16(), st.floats(width=16)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), _TEXTS),
    "large_string": (pa.large_string(), _TEXTS),
    "string_view": (pa.string_view(), _TEXTS),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3) | st.just(decimal.Decimal("2.500"))),
    "wide decimal": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "small decimal": (pa.decimal64(9, 0), st.integers(-999, 999).map(decimal.Decimal)),
    "date32": (pa.date32(), st.dates() | st.dates().map(lambda day: day.replace(day=1))),
    "date64": (pa.date64(), st.dates()),
    "timestamp[s]": (pa.timestamp("s"), _TIMES.map(lambda n: n // 10**6)),
    "timestamp[ms]": (pa.timestamp("ms"), _TIMES.map(lambda n: n // 10**3)),
    "timestamp[us]": (pa.timestamp("us"), _TIMES),
    "timestamp[ns]": (pa.timestamp("ns"), _TIMES | _TIMES.map(lambda n: n * 1000)),
    "timestamp[us, UTC]": (pa.timestamp("us", "UTC"), _TIMES),
    "timestamp[us, Berlin]": (pa.timestamp("us", "Europe/Berlin"), _TIMES),
    "time32": (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    "time64": (pa.time64("us"), st.times()),
    "time64[ns]": (pa.time64("ns"), st.times()),
    "null": (pa.null(), st.none()),
}


def _array(stored: Any, cells: list[Any]) -> Any:
    if pa.types.is_timestamp(stored):
        return pa.array(cells, pa.int64()).cast(stored)
    if pa.types.is_float16(stored):
        return pa.array([None if cell is None else np.float16(cell) for cell in cells], stored)
    return pa.array(cells, stored)


def _expected(column: TableColumn, cells: Any, words: tuple[str, ...], *, refuse: bool) -> tuple[Any, list[Any]]:
    """What cells of Python give, each by itself: numbers or a message, and the unknown categories."""
    unknown: list[Any] = []
    objects = np.empty(len(cells), dtype=object)
    objects[:] = python_cells(cells)
    labels = [f"row {row}" for row in range(len(cells))]
    try:
        keep = None if refuse else lambda _, cell: unknown.append(cell)
        return encode(column, objects, labels, words=words, unknown=keep), unknown
    except InputError as error:
        return str(error), unknown


def _found(column: TableColumn, cells: Any, words: tuple[str, ...], *, refuse: bool) -> tuple[Any, list[Any]]:
    unknown: list[Any] = []
    labels = [f"row {row}" for row in range(len(cells))]
    try:
        keep = None if refuse else lambda _, cell: unknown.append(cell)
        return ColumnReader(column, words, keep)(cells, labels), unknown
    except InputError as error:
        return str(error), unknown


def _check(column: TableColumn, cells: Any, words: tuple[str, ...] = WORDS, *, refuse: bool = True) -> None:
    expected, found = (answer(column, cells, words, refuse=refuse) for answer in (_expected, _found))
    assert found[1] == expected[1]
    if isinstance(expected[0], str) or isinstance(found[0], str):
        assert found[0] == expected[0]
    else:
        np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", _TYPES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_random_cells_of_a_type_are_read_as_each_by_itself(name: str, data: st.DataObject) -> None:
    stored, cell = _TYPES[name]
    column = data.draw(st.sampled_from(COLUMNS))
    cells = _array(stored, data.draw(st.lists(cell | st.none(), max_size=6)))
    if data.draw(st.booleans()) and not pa.types.is_null(stored) and not pa.types.is_string_view(stored):
        plain = cells.cast(pa.float32()) if pa.types.is_float16(stored) else cells
        if not (pa.types.is_decimal(stored) and stored.bit_width < 128):
            cells = plain.dictionary_encode()
    cells = cells.slice(data.draw(st.integers(0, 2)))
    _check(column, cells, data.draw(st.sampled_from([(), WORDS])), refuse=data.draw(st.booleans()))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", _TYPES)
def test_each_cell_alone_and_all_that_fit_together(name: str) -> None:
    stored, _ = _TYPES[name]
    listed: dict[str, list[Any]] = {
        "string": list(_WORDS),
        "large_string": list(_WORDS),
        "string_view": list(_WORDS),
        "bool": [True, False],
        "null": [None],
        "date32": [datetime.date(2020, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        "date64": [datetime.date(2020, 4, 1)],
    }
    samples = listed.get(name, [])
    if pa.types.is_timestamp(stored):
        samples = [0, -1, 1582979415, 1582979460]
    elif pa.types.is_time(stored):
        samples = [datetime.time(12, 30), datetime.time(23, 59, 59)]
    elif pa.types.is_decimal(stored):
        samples = [decimal.Decimal(text) for text in ("1", "-999", "0", "7", "300")]
    elif pa.types.is_integer(stored):
        samples = [0, 1, 7, 100]
    elif pa.types.is_floating(stored):
        samples = [0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), 7.0]
    for column in COLUMNS:
        fitting = []
        for sample in samples:
            cells = _array(stored, [None, sample])
            _check(column, cells)
            if not isinstance(_expected(column, cells, WORDS, refuse=True)[0], str):
                fitting.append(sample)
        _check(column, _array(stored, [*fitting, None, *fitting]))


def test_arrays_count_dates_from_1970(tmp_path: Any) -> None:
    values = np.array([[1, 0], [2, 1]], dtype=np.int32)
    np.save(tmp_path / "rows.npy", values)
    encoding = Encoding(
        (TableColumn("0", "date", format="%Y%m%d", origin=1), TableColumn("1", "boolean", (False, True)))
    )
    rows = Rows(tmp_path / "rows.npy")
    read = reader(encoding, rows)
    (batch,) = rows.batches()
    np.testing.assert_array_equal(read(batch), [[0, 0], [1, 1]])


def test_a_dictionary_is_read_once_and_only_what_occurs_in_it() -> None:
    column = TableColumn("pet", "categorical", ("cat", "dog"))
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 0], pa.int8()), ["cat", "unseen", "dog"])
    read = ColumnReader(column, (), None)
    np.testing.assert_array_equal(read(cells, [""] * 4), [0, 1, np.nan, 0])
    unseen = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["cat", "unseen", "dog"])
    with pytest.raises(InputError, match=r"^second, column 'pet': 'unseen' is none of the categories cat, dog"):
        read(unseen, ["first", "second"])
    with pytest.raises(InputError, match=r"^second, column 'pet': 'unseen'"):  # again, from what is remembered
        read(unseen, ["first", "second"])


def test_a_refused_cell_is_named_by_its_file_and_row(tmp_path: Any) -> None:
    path = tmp_path / "pets.csv"
    path.write_text('name,age\nTom,2.5\n"two\nlines",3\nRex,old\n')
    rows = Rows(path)
    read = reader(Encoding((TableColumn("age", "real"),)), rows)
    (batch,) = rows.batches()
    with pytest.raises(InputError, match=r"pets\.csv, line 5, column 'age': 'old' is no finite number"):
        read(batch)


def test_a_time_that_python_does_not_hold_is_named() -> None:
    column = TableColumn("seen", "timestamp", format="%Y-%m-%d %H:%M:%S")
    cells = pa.array([0, 2**45], pa.int64()).cast(pa.timestamp("s"))
    with pytest.raises(InputError, match=r"^row 1, column 'seen': a timestamp\[s\] that cannot be read"):
        ColumnReader(column, (), None)(cells, ["row 0", "row 1"])


@pytest.mark.parametrize("seed", [None, 1])
def test_numbers_of_all_rows_keep_their_places(seed: int | None, tmp_path: Any) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"more": ["x"] * 50, "pet": ["cat", "dog"] * 25, "row": range(50)})
    pa.parquet.write_table(table, path, row_group_size=20)
    columns = (
        TableColumn("row", "whole"),
        TableColumn("pet", "categorical", ("cat", "dog")),
        TableColumn("age", "real"),
    )
    seen = []
    for batch in numbers(Encoding(columns), Rows(path), size=8, seed=seed, unread="age"):
        assert batch.numbers.shape == (len(batch), 3)
        np.testing.assert_array_equal(batch.numbers[:, 0], batch.rows)
        np.testing.assert_array_equal(batch.numbers[:, 1], batch.rows % 2)
        assert np.isnan(batch.numbers[:, 2]).all()
        assert batch.labels[0] == f"{path}, row {batch.rows[0]} (row group {batch.rows[0] // 20})"
        seen += batch.rows.tolist()
    assert sorted(seen) == list(range(50))
    assert (seen == sorted(seen)) == (seed is None)
    with pytest.raises(
        InputError, match=r"a\.parquet: the model expects a column 'age', found the columns more, pet, row"
    ):
        numbers(Encoding(columns), Rows(path))


def test_a_name_in_another_unicode_form_is_said() -> None:
    """The two names look alike, so that the message alone would not say what is wrong."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    rows = Rows(pa.table({decomposed: [1.0]}))
    with pytest.raises(InputError, match=r"expects a column 'caf\u00e9', .* it is there in another form of Unicode"):
        numbers(Encoding((TableColumn(composed, "real"),)), rows)
