"""Cells of typed columns as numbers, and back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import FileFormatError, InputError
from plica.files.columns import TableColumn, decode, encode
from plica.files.encoding import Encoding
from plica.files.infer import MOST_CATEGORIES, MOST_CODES, infer_columns, read_columns


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
    assert numbers(column, "cat", "bird", unknown=True) == [0, -1]
    with pytest.raises(InputError, match="is no count"):
        numbers(TableColumn("n", "count"), "-1", unknown=True)


@pytest.mark.parametrize("wrong", ["-1", "1.5", "many", "inf", 2.0**60])
def test_counts(wrong: Any) -> None:
    column = TableColumn("n", "count")
    assert numbers(column, "0", 7, "12") == [0, 7, 12]
    with pytest.raises(InputError, match="is no count"):
        numbers(column, wrong)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (("a", "b", None), "categorical"),
        (("1", "2", "2"), "categorical"),
        ((True, False), "categorical"),
        (("1", "b"), "categorical"),
        (("1.5", "2"), "real"),
        (tuple(range(MOST_CODES)), "categorical"),
        (tuple(range(MOST_CODES + 1)), "count"),
        (tuple(range(-1, MOST_CODES)), "real"),
    ],
)
def test_kinds_that_cells_suggest(given: Any, kind: str) -> None:
    assert inferred(*given).kind == kind


def test_columns_that_nothing_can_be_said_of() -> None:
    with pytest.raises(InputError, match="every cell is missing"):
        inferred(None, "")
    with pytest.raises(InputError, match=f"more than {MOST_CATEGORIES}, are likely names"):
        inferred(*(f"name {place}" for place in range(MOST_CATEGORIES + 1)))
    with pytest.raises(InputError, match=r"there is no column 'd'; its columns are c"):
        inferred("1", said={"d": {"kind": "real"}})


SCALARS = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1), min_size=1, max_size=6),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=MOST_CODES),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
)


@given(SCALARS)
def test_cells_come_back_as_they_were(values: list[Any]) -> None:
    column = inferred(*values)
    back = decode(column, encode(column, cells(*values), [""] * len(values)))
    if all(isinstance(one, str) for one in values) and not any(isinstance(one, str) for one in back):
        assert [float(one) for one in values] == back  # text that is a number in every cell
    else:
        assert back == values
    kept = json.loads(json.dumps(Encoding((column,)).as_json()))
    assert Encoding.of_json(kept).columns == (column,)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{", "no JSON"),
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
    found = infer_columns(("a", "b", "c", "d"), table, said=read_columns(path))
    assert [one.kind for one in found] == ["real", "categorical", "ignored", "categorical"]
    assert found[1].categories == ("y", "x")


@pytest.mark.parametrize(
    ("given", "kind", "categories"),
    [
        (("01", "1", "01"), "categorical", ("01", "1")),  # postal codes
        (
            tuple(f"0{place}" for place in range(100, 130)),
            "categorical",
            tuple(f"0{place}" for place in range(100, 130)),
        ),
        (("9007199254740992", "9007199254740993"), "categorical", (2**53, 2**53 + 1)),
        ((2**53, 2**53 + 1), "categorical", (2**53, 2**53 + 1)),
        (("1_0", "1_1"), "categorical", ("1_0", "1_1")),
        (("\u0661", "\u0662"), "categorical", ("\u0661", "\u0662")),
        (("1.0", "2.", "+3", "-0"), "categorical", (0, 1, 2, 3)),
        (tuple(str(2**60 + place) for place in range(30)), "real", ()),
        (("true", "False"), "categorical", ("False", "true")),
        ((True, 2, 0.5), "categorical", ("0.5", "2", "True")),
    ],
)
def test_texts_are_numbers_only_where_nothing_is_lost(given: Any, kind: str, categories: Any) -> None:
    column = inferred(*given)
    assert (column.kind, column.categories) == (kind, categories)
    found = numbers(column, *given)
    if kind == "categorical":
        assert len(set(found)) == len(categories)
        assert -1 not in found


def test_numbers_among_which_a_word_stands_for_missing_ones() -> None:
    reals = [str(place / 7) for place in range(1, 60)]
    with pytest.raises(InputError, match=r"column 'c': most cells are numbers and 2 of 61 .* --missing 'NA'; else"):
        inferred(*reals, "NA", "NA")
    assert inferred(*reals, "NA", words=("NA",)).kind == "real"
    assert inferred("1", "2", "3", "NA").categories == ("1", "2", "3", "NA")
    assert inferred(*reals, "NA", said={"c": {"kind": "categorical"}}).kind == "categorical"
