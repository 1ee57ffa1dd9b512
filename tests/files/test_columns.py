"""Cells of typed columns as numbers, and back."""

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import FileFormatError, InputError
from plica.files.columns import decode, encode, is_missing
from plica.files.encoding import Encoding
from plica.files.infer import MOST_CODES, infer_columns, read_columns
from plica.files.kinds import KINDS, TableColumn
from tests.harness.together import grouped


def cells(*values: Any) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def numbers(column: TableColumn, *values: Any, **settings: Any) -> list[float]:
    found = encode(column, cells(*values), [f"row {place}" for place in range(len(values))], **settings)
    return [-1.0 if np.isnan(one) else float(one) for one in found]


def inferred(*values: Any, **settings: Any) -> TableColumn:
    (column,) = infer_columns(("c",), cells(*values)[:, None], **settings)
    return column


def test_what_is_missing() -> None:
    column = TableColumn("c", "real")
    assert numbers(column, "1.5", None, "", "  ", float("nan"), "?", words=("?",)) == [1.5, -1, -1, -1, -1, -1]
    with pytest.raises(InputError, match=r"row 0, column 'c': '\?' is no finite number"):
        numbers(column, "?")


@pytest.mark.parametrize(
    ("categories", "given", "states"),
    [
        (("a", "b"), ("b", " a "), [1, 0]),
        ((1, 4), ("4", 1, 4.0, "1.0"), [1, 0, 1, 0]),
        (("01", "1"), ("1", "01"), [1, 0]),
        ((False, True), (True, "false", "TRUE", 1, 0), [1, 0, 1, 1, 0]),
        (("1", "x"), (1, 1.0, "x"), [0, 0, 1]),
        (("x", 1), ("1", 1, 1.0, "x"), [1, 1, 1, 0]),
        (("x", True), (True, "true", "True", "x"), [1, 1, 1, 0]),
        (("false", "true"), (True, np.bool_(False), "true"), [1, 0, 1]),
        (("False", "True"), (True, np.bool_(False), "True"), [1, 0, 1]),
    ],
)
def test_categories(categories: Any, given: Any, states: list[int]) -> None:
    assert numbers(TableColumn("c", "categorical", categories), *given) == states


def test_a_category_that_is_not_known_is_refused_or_missing() -> None:
    column = TableColumn("pet", "categorical", ("cat", "dog"))
    with pytest.raises(InputError, match="row 1, column 'pet': 'bird' is none of the categories cat, dog; correct"):
        numbers(column, "cat", "bird")
    seen: list[tuple[str, Any]] = []
    assert numbers(column, "cat", "bird", unknown=lambda one, cell: seen.append((one.name, cell))) == [0, -1]
    assert seen == [("pet", "bird")]
    with pytest.raises(InputError, match="is no count"):
        numbers(TableColumn("n", "count"), "-1", unknown=lambda *_: None)


@pytest.mark.parametrize("wrong", ["-1", "1.5", "many", "inf", 2.0**60])
def test_counts(wrong: Any) -> None:
    column = TableColumn("n", "count")
    assert numbers(column, "0", 7, "12") == [0, 7, 12]
    with pytest.raises(InputError, match="is no count"):
        numbers(column, wrong)


def test_a_word_in_place_of_a_number_may_mean_that_it_is_missing() -> None:
    column = TableColumn("n", "whole")
    with pytest.raises(InputError, match=r"'n a' is no whole .*, or train with --missing 'n a' if"):
        numbers(column, "n a")
    for cell in ("1.5", 1.5, "x" * 99):
        with pytest.raises(InputError, match=r"\(--columns\)$"):
            numbers(column, cell)


@pytest.mark.parametrize(
    "cells",
    [
        np.array([1.0, -999.0, np.inf]),
        np.array([1, -999, 2**40], dtype=object),
        np.array(["1", " -999 ", "inf"], dtype=object),
        np.array([decimal.Decimal(1), decimal.Decimal("-999.00"), float("inf")], dtype=object),
        np.array([True, -999.0, np.inf], dtype=object),
    ],
)
def test_numbers_may_mean_that_a_value_is_missing(cells: Any) -> None:
    assert is_missing(cells, ["-999", "inf", "1099511627776"]).tolist() == [False, True, True]
    assert not is_missing(np.array([1, -999]), ["NA"]).any()


DAY = datetime.date(2026, 1, 31)
NOON = datetime.datetime(2026, 1, 31, 12, 30, 5)
VISITS = (0, 1, 1, 2, 5, 3, 0, 9)


@grouped(
    ("given", "kind", "form"),
    [
        (("a", "b", None), "categorical", ""),
        (("1", "b"), "categorical", ""),
        ((True, False), "boolean", ""),
        (("true", "FALSE", "True"), "boolean", ""),
        (("Y", "n"), "boolean", ""),
        (("0", "1", "1"), "boolean", ""),
        (("0,0", "1,0", "1,0"), "boolean", ""),
        (("0%", "1%"), "whole", "0%"),
        (("0 \u20ac", "1 \u20ac"), "whole", "0 \u20ac"),
        (("$0", "$1"), "whole", "$0"),
        (("n", "y", "maybe"), "categorical", ""),
        (VISITS, "count", ""),
        (tuple(map(str, VISITS)), "count", ""),
        ((*VISITS, -1), "whole", ""),
        (("2", "4", "4", "4"), "whole", ""),  # less spread than counts
        (tuple(f"{one}.0" for one in VISITS), "count", "0.0"),
        (("52000", "31000", "44000"), "whole", ""),
        (("1,005", "12", "3,000,000"), "whole", "#,##0"),
        (("1,005.50", "12.00"), "real", "#,##0.00"),
        (("$1,200.00", "$950.00"), "real", "$#,##0.00"),  # the next one may be $999.99
        (tuple(f"{one}.00" for one in VISITS), "real", "0.00"),
        (("1.005,50", "12,25"), "real", "#.##0,00"),
        (("1,5", "12,25"), "real", "0,##"),
        (("0,250", "1,500"), "real", "0,000"),  # no thousands begin with 0
        (("5%", "98%"), "whole", "0%"),
        (("5.5 %", "98.0 %"), "real", "0.0 %"),
        (("\u20ac\u00a012,50", "\u20ac\u00a07,25"), "real", "\u20ac\u00a00,00"),
        (("1.5", "2"), "real", "0.#"),
        (("1.5", "1e300"), "real", ""),
        ((1.5, 2.25), "real", ""),
        (("2026-01-31", "2025-12-01"), "date", "%Y-%m-%d"),
        (("31.01.2026", "01.12.2025"), "date", "%d.%m.%Y"),
        (("1/31/2026", "2/1/2026"), "date", "%-m/%-d/%Y"),
        (("01/02/2026", "01/12/2026"), "date", "%m/%d/%Y"),  # days of one month
        (("01/02/2026", "12/02/2026"), "date", "%d/%m/%Y"),
        (("31-Jan-2026", "01-feb-2026"), "date", "%d-%b-%Y"),
        (("20260131", "20251201"), "date", "%Y%m%d"),
        (("2026-01-31 12:30", "2025-12-01 00:00"), "timestamp", "%Y-%m-%d %H:%M"),
        (("2026-01-31T12:30:05Z", "2025-12-01T00:00:00Z"), "timestamp", "%Y-%m-%dT%H:%M:%S%z[Z]"),
        (("2026-01-31T12:30:05.25", "2025-12-01T00:00:00"), "timestamp", "%Y-%m-%dT%H:%M:%S%2f"),
        (("9:30", "12:05"), "time", "%-H:%M"),
        (("9:30 AM", "12:05 pm"), "time", "%-I:%M %p"),
        ((DAY, DAY), "date", "%Y-%m-%d"),
        ((NOON, NOON), "timestamp", "%Y-%m-%d %H:%M:%S"),
        ((NOON.replace(tzinfo=datetime.UTC),), "timestamp", "%Y-%m-%d %H:%M:%S%z[+00:00]"),
        ((np.datetime64("2026-01-31T12:30:05.123456789"),), "timestamp", "%Y-%m-%d %H:%M:%S%6f"),
        ((NOON.time(), NOON.time()), "time", "%H:%M:%S"),
        ((decimal.Decimal("1.50"), decimal.Decimal("2.25")), "real", ""),
        (("31.02.2026", "01.12.2025"), "categorical", ""),  # there is no such day
    ],
)
def test_kinds_that_cells_suggest(given: Any, kind: str, form: str) -> None:
    column = inferred(*given)
    assert (column.kind, column.format) == (kind, form)
    present = [cell for cell in given if cell is not None]
    values = encode(column, cells(*present), [""] * len(present))
    assert np.isfinite(values).all()
    assert {*KINDS} >= {kind}
    texts = decode(column, values, "text")
    again = encode(column, cells(*texts), [""] * len(texts))
    np.testing.assert_array_equal(again, values)
    if form and all(isinstance(cell, str) for cell in present) and "b" not in form and "p" not in form:
        assert [str(text).rstrip("0") for text in texts] == [text.rstrip("0") for text in present] or "%2f" in form
    kept = json.loads(json.dumps(Encoding((column,)).as_json()))
    assert Encoding.of_json(kept).columns == (column,)


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("customer_id", [str(place * 7919 % 1000) for place in range(30)], "an identifier: 30 different values"),
        ("orderId", [f"A{place}" for place in range(30)], "an identifier"),
        ("userID", [f"A{place}" for place in range(30)], "an identifier"),
        ("Key", [f"A{place}" for place in range(30)], "an identifier"),
        ("row", list(range(1, 31)), "the numbers of rows"),
        ("c", [f"name {place}" for place in range(40)], "names or remarks: 40 different texts"),
        ("c", [f"name {place % 1500}" for place in range(6000)], "names or remarks: 1,500 different texts"),
        ("c", [None, ""], "every cell is missing"),
        ("c", [b"1", b"2"], "cells of the type bytes"),
    ],
)
def test_columns_that_are_ignored_say_why(name: str, given: Any, why: str) -> None:
    (column,) = infer_columns((name,), cells(*given)[:, None])
    assert column.kind == "ignored"
    assert column.why.startswith(why)
    said = infer_columns((name,), cells(*given)[:, None], records={name: {"kind": "categorical", "categories": ["x"]}})
    assert said[0].kind == "categorical"


@pytest.mark.parametrize("name", ["paid", "Bid", "VALID", "grid", "covid", "monkey"])
def test_words_that_end_like_an_identifier_are_none(name: str) -> None:
    (column,) = infer_columns((name,), cells(*[str(place * 7919 % 1000) for place in range(30)])[:, None])
    assert column.kind == "whole"


def test_identifiers_of_few_values_are_categories_or_numbers() -> None:
    (column,) = infer_columns(("store_id",), cells(*["17", "23"] * 20)[:, None])
    assert column.kind == "whole"
    assert column.why == ""


@grouped(
    ("column", "cell", "number"),
    [
        (TableColumn("n", "count"), "10", 10),
        (TableColumn("n", "count"), "1,005", 1005),
        (TableColumn("n", "whole", format="#,##0"), "-2005", -2005),
        (TableColumn("n", "whole", origin=2**70), str(2**70 + 3), 3),
        (TableColumn("n", "whole", format="0%"), 7, 7),
        (TableColumn("n", "real", format="0,0"), "1234,25", 1234.25),
        (TableColumn("n", "real", format="0,00 \u20ac"), "1.250,00 \u20ac", 1250),
        (TableColumn("n", "real", format="0,00"), "1\u00a0250,50", 1250.5),
        (TableColumn("n", "real", format="0.00"), "1'250'000.50", 1250000.5),
        (TableColumn("n", "whole"), "-1 250", -1250),
        (TableColumn("n", "whole", format="#.##0"), "1.250", 1250),
        (TableColumn("n", "date", format="%Y-%m-%d"), "1969-12-31", -1),
        (TableColumn("n", "date", format="%d.%m.%Y"), datetime.date(1970, 1, 2), 1),
        (TableColumn("n", "date", format="%d.%m.%Y"), datetime.datetime(1970, 1, 2), 1),
        (TableColumn("n", "timestamp", format="%Y-%m-%d %H:%M"), datetime.datetime(1970, 1, 1, 0, 2), 2),
        (TableColumn("n", "timestamp", format="%Y-%m-%d %H:%M:%S%z[Z]"), "1970-01-01 01:00:01+01:00", 1),
        (TableColumn("n", "timestamp", format="%Y-%m-%d %H:%M"), np.datetime64("1970-01-01T00:03"), 3),
        (TableColumn("n", "time", format="%H:%M"), datetime.time(1, 1), 61),
        (TableColumn("n", "time", format="%H:%M"), "9:45", 585),
        (TableColumn("n", "time", format="%I:%M %p"), "9:45 AM", 585),
        (TableColumn("n", "date", format="%m/%d/%Y"), "1/5/1970", 4),
        (TableColumn("n", "date", format="%d%b%Y"), "5Jan1970", 4),
        (TableColumn("n", "timestamp", format="%Y-%m-%dT%H:%M%z[Z]"), "1970-1-1T1:00Z", 60),
        (TableColumn("n", "date", format="%Y%m%d"), 19700131, 30),
        (TableColumn("n", "date", format="%Y%m%d"), 19700131.0, 30),
        (TableColumn("n", "date", format="%d%m%Y"), decimal.Decimal(2011970), 1),
        (TableColumn("n", "date", format="%Y%m%d"), np.int64(30), 30),  # of an array
        (TableColumn("b", "boolean", ("no", "yes")), "TRUE", 1),
        (TableColumn("b", "boolean", (False, True)), "f", 0),
    ],
)
def test_values_that_were_not_seen_are_read(column: TableColumn, cell: Any, number: float) -> None:
    assert numbers(column, cell) == [number] or np.isclose(encode(column, cells(cell), [""])[0], number)


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        (TableColumn("n", "count"), "-1", "no count"),
        (TableColumn("n", "whole"), "1.5", "no whole number"),
        (TableColumn("n", "whole"), "1,05", "no whole number"),
        (TableColumn("n", "whole"), "0,250", "no whole number"),
        (TableColumn("n", "date", format="%d.%m.%Y"), "2026-01-31", r"no date such as '01.01.1970' \(%d.%m.%Y\)"),
        (TableColumn("n", "date", format="%d.%m.%Y"), datetime.datetime(1970, 1, 2, 1), "no date"),
        (
            TableColumn("n", "date", format="%d.%m.%Y"),
            20260131,
            r"row 0, column 'n': .* no date .* such as %Y%m%d. Write",
        ),
        (TableColumn("n", "date", format="%Y%m%d"), 20261301, "no date such as '19700101'"),
        (TableColumn("n", "date", format="%Y%m%d"), float("inf"), "no date"),
        (TableColumn("n", "time", format="%H:%M"), "25:00", "no time"),
        (TableColumn("n", "time", format="%H:%M"), "12:5", "no time"),
        (TableColumn("n", "date", format="%Y%m%d"), "2026131", "no date"),
        (TableColumn("n", "date", format="%d%m-%Y"), "131-2026", "no date"),
        (TableColumn("n", "timestamp", format="%Y-%m-%d %H:%M"), "2026-13-31 10:00", "no time stamp"),
    ],
)
def test_cells_of_another_kind_are_refused(column: TableColumn, cell: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        numbers(column, cell)


@pytest.mark.parametrize(
    ("zone", "micros", "text"),
    [
        ("+01:00", 1e18, "9999-12-31 23:59"),
        ("-01:00", 1e18, "9999-12-31 22:59"),
        ("-01:00", -1e18, "0001-01-01 00:00"),
        ("+01:00", -1e18, "0001-01-01 01:00"),
    ],
)
def test_times_with_a_zone_end_with_the_years(zone: str, micros: float, text: str) -> None:
    column = TableColumn("c", "timestamp", format=f"%Y-%m-%d %H:%M%z[{zone}]")
    assert decode(column, np.array([micros]), "text") == [f"{text}{zone}"]


def test_times_that_lie_beyond_the_years_in_utc_are_refused() -> None:
    column = TableColumn("c", "timestamp", format="%Y-%m-%d %H:%M%z[Z]")
    last = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-1)))
    with pytest.raises(InputError, match=r"row 0, column 'c': .* is no time stamp"):
        numbers(column, last)


def test_columns_that_nothing_can_be_said_of() -> None:
    with pytest.raises(InputError, match=r"there is no column 'd'; its columns are c"):
        inferred("1", records={"d": {"kind": "real"}})
    with pytest.raises(InputError, match="no categories in its cells; list them"):
        inferred(None, records={"c": {"kind": "categorical"}})
    with pytest.raises(InputError, match="no known format fits its cells; say how they are written"):
        inferred("31st of May", records={"c": {"kind": "date"}})
    for kind, form in (("date", "%H:%M"), ("time", "%Y"), ("whole", "x"), ("date", "%q"), ("categorical", "0")):
        with pytest.raises(InputError, match=f"the format '{form}' is invalid"):
            inferred("1", records={"c": {"kind": kind, "format": form}})


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("boolean", ("0,0", "1,0")),
        ("boolean", ("0%", "1%")),
        ("categorical", ("0,0", "1,0")),
        ("categorical", ("0%", "1%")),
        ("categorical", ("1.005,00", "2,00")),
    ],
)
def test_numbers_that_are_said_to_be_categories_are_read_as_they_are_written(kind: Any, given: Any) -> None:
    column = inferred(*given, records={"c": {"kind": kind}})
    assert decode(column, np.array(numbers(column, *given)), "text") == list(given)


def test_truth_values_that_are_written_in_two_ways_are_numbers() -> None:
    assert inferred("0,0", "1,0", "1").kind == "whole"


SCALARS = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1), min_size=1, max_size=6),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=MOST_CODES),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
)


@given(SCALARS)
def test_cells_come_back_as_they_were(values: list[Any]) -> None:
    column = inferred(*values)
    if column.kind == "ignored":
        return
    back = decode(column, encode(column, cells(*values), [""] * len(values)))
    if all(isinstance(one, str) for one in values) and not any(isinstance(one, str) for one in back):
        places = [""] * len(values)  # text that is a number, a date or a truth value in every cell
        known = encode(column, cells(*values), places)
        np.testing.assert_array_equal(encode(column, cells(*decode(column, known, "text")), places), known)
    else:
        assert back == values
    kept = json.loads(json.dumps(Encoding((column,)).as_json()))
    assert Encoding.of_json(kept).columns == (column,)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected"),
        ('{"a": "text"}', "column 'a'.kind"),
        ('{"a": {"kind": "real", "categories": ["x"]}}', "only a column of the kind"),
        ('{"a": {"kind": "categorical", "categories": ["x", "x"]}}', "different categories"),
        ('{"a": {"kind": "categorical", "categories": []}}', "at least one"),
        ('{"a": {"kind": "real", "unit": "m"}}', "'unit' is not known"),
    ],
)
def test_files_that_say_something_else(tmp_path: Path, said: str, message: str) -> None:
    path = tmp_path / "columns.json"
    path.write_text(said)
    with pytest.raises(FileFormatError, match=message):
        read_columns(path)


def test_a_file_says_what_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "columns.json"
    path.write_text('{"a": "real", "b": {"kind": "categorical", "categories": ["y", "x"]}, "c": "ignored"}')
    table = np.stack([cells("1", "2"), cells("x", "y"), cells("u", "v"), cells("1", "2")], axis=1)
    found = infer_columns(("a", "b", "c", "d"), table, records=read_columns(path))
    assert [one.kind for one in found] == ["real", "categorical", "ignored", "whole"]
    assert found[1].categories == ("y", "x")


@pytest.mark.parametrize(
    ("given", "kind", "categories"),
    [
        (("01", "1", "01"), "categorical", ("01", "1")),  # postal codes
        (
            tuple(f"0{place % 15}" for place in range(45)),
            "categorical",
            tuple(sorted(f"0{place}" for place in range(15))),
        ),
        (("9007199254740992", "9007199254740993"), "whole", ()),
        ((2**53, 2**53 + 1), "whole", ()),
        (("1_0", "1_1"), "categorical", ("1_0", "1_1")),
        (("\u0661", "\u0662"), "categorical", ("\u0661", "\u0662")),
        (("1.0", "2.", "+3", "-0"), "count", ()),
        (tuple(str(2**60 + 7 * place) for place in range(30)), "whole", ()),
        ((str(2**70), str(-(2**70))), "real", ()),
        (("true", "False"), "boolean", ("False", "true")),
        ((True, 2, 0.5), "categorical", ("0.5", "2", "True")),
    ],
)
def test_texts_are_numbers_only_where_nothing_is_lost(given: Any, kind: str, categories: Any) -> None:
    column = inferred(*given)
    assert (column.kind, column.categories) == (kind, categories)
    found = encode(column, cells(*given), [""] * len(given))
    assert len(set(found.tolist())) == len(set(given)) or kind == "real"
    assert np.isfinite(found).all()


def test_numbers_among_which_a_word_stands_for_missing_ones() -> None:
    reals = [str(place / 7) for place in range(1, 60)]
    with pytest.raises(InputError, match=r"column 'c': most cells are numbers and 2 of 61 .* --missing 'NA'; else"):
        inferred(*reals, "NA", "NA")
    assert inferred(*reals, "NA", words=("NA",)).kind == "real"
    days = [f"2026-{1 + place % 12:02}-{1 + place % 28:02}" for place in range(60)]
    with pytest.raises(InputError, match=r"column 'c': most cells are dates and 1 of 61 .* --missing 'soon'; else"):
        inferred(*days, "soon")
    with pytest.raises(InputError, match=r"column 'c': some cells are numbers and 3 of 5 .* --missing 'NULL'; else"):
        inferred("1", "2", "NULL", "NULL", "n/a")
    for written in ("{}.50 €", "{},25", "{}%", "$1,{:03}.00", "1'{:03}"):
        prices = [written.format(7 * place % 61) for place in range(60)]
        with pytest.raises(
            InputError, match=r"column 'c': most cells are numbers and 1 of 61 .* --missing 'N/A'; else"
        ):
            inferred(*prices, "N/A")
        assert inferred(*prices, "N/A", words=("N/A",)).kind in ("real", "whole", "count")
    with pytest.raises(InputError, match=r"column 'c': some cells are times and 1 of 3 .* --missing 'N/A'; else"):
        inferred("09:30", "10:15", "N/A")
    assert inferred("1", "2", "3", "other").categories == ("1", "2", "3", "other")
    assert inferred(*reals, "NA", records={"c": {"kind": "categorical"}}).kind == "categorical"
