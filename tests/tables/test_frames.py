"""Frames go in and come out as they are: their kind, types, categories, order and index."""

import copy
import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from plica.errors import DTypeError, InputError, ShapeError
from plica.tables import TableModel, fit
from plica.tables.frame_of import as_frame
from tests.tables.conftest import pets_table

UTC = datetime.UTC


def in_pandas(columns: dict[str, list[Any]]) -> Any:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    frame = frame.astype({"whole": "Int64", "real": "float32", "flag": "boolean", "text": "string"})
    frame["pet"] = pd.Categorical(columns["pet"], categories=["dog", "cat", "fish"], ordered=True)
    for name in ("day", "moment"):
        frame[name] = pd.to_datetime(frame[name])
    frame.index = pd.Index([f"r{number}" for number in range(len(frame))], name="row")
    return frame


def in_polars(columns: dict[str, list[Any]]) -> Any:
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        columns,
        schema={
            "text": pl.String,
            "pet": pl.Enum(["dog", "cat", "fish"]),
            "whole": pl.Int32,
            "real": pl.Float32,
            "flag": pl.Boolean,
            "day": pl.Datetime("ns"),
            "moment": pl.Datetime("us", "UTC"),
            "price": pl.Decimal(10, 2),
            "id": pl.Int64,
        },
    )


def in_pyarrow(columns: dict[str, list[Any]]) -> Any:
    types = {
        "text": pa.large_string(),
        "pet": pa.dictionary(pa.int8(), pa.string()),
        "whole": pa.int32(),
        "real": pa.float32(),
        "flag": pa.bool_(),
        "day": pa.timestamp("us"),
        "moment": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(10, 2),
        "id": pa.int64(),
    }
    return pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})


KINDS: dict[str, Any] = {"pandas": in_pandas, "polars": in_polars, "pyarrow": in_pyarrow, "dict": dict}


def columns(num_rows: int = 60) -> dict[str, list[Any]]:
    rng = np.random.default_rng(1)
    start, moment = datetime.datetime(2024, 1, 1), datetime.datetime(2024, 3, 1, 12, tzinfo=UTC)
    full: dict[str, list[Any]] = {
        "text": [str(word) for word in rng.choice(["red", "green"], num_rows)],
        "pet": [str(word) for word in rng.choice(["dog", "cat"], num_rows)],
        "whole": [int(number) for number in rng.integers(1000, 2000, num_rows)],
        "real": [float(np.float32(number)) for number in rng.normal(size=num_rows)],
        "flag": [bool(flag) for flag in rng.random(num_rows) < 0.5],
        "day": [start + datetime.timedelta(days=int(number)) for number in rng.integers(0, 90, num_rows)],
        "moment": [moment + datetime.timedelta(seconds=int(number)) for number in rng.integers(0, 9999, num_rows)],
        "price": [Decimal(int(cents)) / 100 for cents in rng.integers(100, 900, num_rows)],
    }
    for cells in full.values():
        for row in rng.choice(num_rows, num_rows // 5, replace=False):
            cells[row] = None
    full["id"] = list(range(num_rows))
    return full


def listed(frame: Any) -> dict[str, list[Any]]:
    return dict(zip(as_frame(frame).names or (), as_frame(frame).cells().T.tolist(), strict=True))


def types(frame: Any) -> Any:
    if isinstance(frame, dict):
        return [type(cells) for cells in frame.values()]
    return frame.schema if isinstance(frame, pa.Table) else list(frame.dtypes)


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fit(columns(), units=2, epochs=1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_completed_frame_has_the_types_of_its_own(kind: str, model: TableModel) -> None:
    rows = columns()
    frame = KINDS[kind](rows)
    scores = model.score(frame)
    np.testing.assert_allclose(scores, model.score(rows), rtol=1e-6)
    for method in ("mean", "mpe", "sample"):
        full = model.complete(frame, method)
        assert type(full) is type(frame)
        assert types(full) == types(frame)
        for name, cells in listed(full).items():
            assert None not in cells
            assert all(old in (None, new) for old, new in zip(listed(frame)[name], cells, strict=True))
        assert set(listed(full)["pet"]) <= {"dog", "cat"}
        assert all(moment.time() == datetime.time() for moment in listed(full)["day"])
        assert all(price == round(price, 2) >= 0 for price in listed(full)["price"])
        assert all(isinstance(number, int) and number >= 0 for number in listed(full)["whole"])
    np.testing.assert_array_equal(model.score(frame), scores)  # the frame itself has not changed
    if kind == "pandas":
        assert full.index.equals(frame.index)
        assert list(full["pet"].cat.categories) == ["dog", "cat", "fish"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_drawn_and_predicted_frames_are_of_the_same_kind(kind: str, model: TableModel) -> None:
    frame = KINDS[kind](columns())
    fitted = fit(frame, units=2, epochs=1)
    assert {name: kind for name, kind in fitted.columns.items() if name != "pet"} == {
        "text": "categorical",
        "whole": "whole",
        "real": "real",
        "flag": "boolean",
        "day": "date",
        "moment": "timestamp",
        "price": "real",
        "id": "ignored",
    }
    drawn = fitted.sample(5, seed=3)
    assert type(drawn) is type(frame)
    assert len(listed(drawn)["real"]) == 5
    dropped = frame.drop(columns="id") if kind == "pandas" else None if kind == "dict" else frame.drop(["id"])
    if dropped is not None:
        assert types(drawn) == types(dropped)
    many = model.sample(3, frame)
    assert types(many) == types(frame)
    assert listed(many)["id"] == [number for number in range(60) for _ in range(3)]
    predicted = model.predict("day", frame, [0.5])
    assert type(predicted) is type(frame)
    assert list(listed(predicted)) == ["mean", "0.5"]
    assert len(listed(predicted)["mean"]) == 60
    surprises = model.explain_row(frame)
    known = [cell is not None for cell in columns()["real"]]
    assert [cell is not None for cell in listed(surprises)["real"]] == known
    if kind == "pandas":
        assert surprises.index.equals(frame.index)
        assert predicted.index.equals(frame.index)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_no_rows_are_numbers_too(kind: str, model: TableModel) -> None:
    frame = KINDS[kind](columns())
    empty = {name: cells[:0] for name, cells in frame.items()} if kind == "dict" else frame[:0]
    for column, levels in (("flag", ()), ("real", (0.5,))):
        no_rows, rows = (model.predict(column, part, levels) for part in (empty, frame))
        assert types(no_rows) == types(rows)
        assert [cells == [] for cells in listed(no_rows).values()] == [True, True]


def test_arrays(pets: TableModel) -> None:
    table = pets_table()
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((60, 3)) < 0.2, np.nan, rng.normal(size=(60, 3))).astype(np.float32)
    model = fit(rows, units=2, epochs=1)
    full = model.complete(rows)
    assert (full.dtype, full.shape) == (np.float32, rows.shape)
    assert not np.isnan(full).any()
    np.testing.assert_array_equal(full[~np.isnan(rows)], rows[~np.isnan(rows)])
    assert model.predict(1, rows, [0.5]).shape == (60, 2)
    assert model.sample(4).shape == (4, 3)
    assert model.sample(4).dtype == np.float32
    cells = np.array([list(row) for row in zip(*(table[name] for name in table), strict=True)], dtype=object)
    np.testing.assert_array_equal(pets.score(cells), pets.score(table))
    full = pets.complete(cells)
    assert full.dtype == object
    assert [cell for cell in full[:, 1] if cell not in ("cat", "dog", "bird")] == []


def test_a_column_that_cannot_hold_what_is_filled_in_becomes_wider(pets: TableModel) -> None:
    """Whole weights, of which one is missing: its mean is no whole number."""
    rows = pa.table({"pet": ["cat", "dog"], "legs": [4, 4], "weight": pa.array([4, None], pa.int64()), "tame": [1, 0]})
    full = pets.complete(rows)
    assert full.schema.field("weight").type == pa.float64()
    assert full["weight"].to_pylist()[0] == 4.0
    assert full.schema.field("legs").type == pa.int64()


def test_a_fitted_table_holds_no_memory_of_the_frame() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    model = fit(rows, units=2, epochs=1)
    before, full = model.score(rows[:5]), model.complete(rows)
    full[:] = 0.0
    assert (rows != 0.0).all()
    kept = rows[:5].copy()
    rows[:] = 7.0
    np.testing.assert_array_equal(model.score(kept), before)


def test_categories_of_a_type_are_those_of_the_model() -> None:
    """Also those that no cell has, and those that are no texts."""
    cells = pa.array([0, 1, None, 1] * 10, pa.int8())
    for values in (["no", "yes", "perhaps"], [1, 2, 3], [0.5, 1.5, 2.5]):
        column = pa.DictionaryArray.from_arrays(cells, pa.array(values))
        table = pa.table({"a": column, "b": np.arange(40) ** 1.5})
        model = fit(table, units=2, epochs=1)
        assert model.columns["a"] == "categorical"
        full = model.complete(table)
        assert full.schema == table.schema
        assert set(full["a"].to_pylist()) <= set(values)
        assert (
            list(as_frame(model.predict("a", table)).names or ())
            == [str(value) for value in values][: 3 if values[0] != 0.5 else 2]
        )


def test_models_are_copied_and_pickled() -> None:
    for frame in (in_pyarrow(columns()), columns()):
        model = fit(frame, units=2, epochs=1)
        for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            np.testing.assert_array_equal(twin.score(frame), model.score(frame))
            assert types(twin.sample(2)) == types(model.sample(2))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, DTypeError, "expected a pandas, polars or pyarrow table, a dict of columns, a row by names, or an array"),
        ("pets.csv", DTypeError, r"type str; read a file by plica.data.Rows\('pets.csv'\)"),
        ([[1.0, 2.0]], DTypeError, "expected a pandas, polars or pyarrow table"),
        ({"a": [1, 2], "b": [1]}, ShapeError, "column 'b' has 1 cells, expected 2 as in 'a'"),
        ({"a": "text", "b": [1]}, DTypeError, "expected lists or arrays as columns"),
        ({"a": np.zeros((2, 2))}, ShapeError, r"column 'a' has the shape \(2, 2\)"),
        ({"a": [1], " a ": [2]}, InputError, "two columns are called 'a'"),
        ({"": [1]}, InputError, "a column has no name"),
        ({}, InputError, "it has no columns"),
        (np.zeros(3), ShapeError, r"expected an array \(N, D\), found the shape \(3,\)"),
        (np.zeros((3, 0)), InputError, "it has no columns"),
        (np.ma.masked_less(np.arange(6.0).reshape(3, 2), 2.0), DTypeError, r"masked array.*filled\(np.nan\)"),
        (np.zeros((3, 1), dtype=complex), DTypeError, "found an array of complex128"),
        (pa.table([[1], [2]], names=["a", "a"]), InputError, "two columns have one name"),
    ],
)
def test_what_is_no_table_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_frame(data)


def test_a_row_by_names_is_a_table() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame({"legs": [4, 2], "pet": ["cat", None]}, index=["x", "y"])
    row = as_frame(frame.iloc[1])
    assert (row.names, row.types[0], row.cells().tolist()) == (("legs", "pet"), int, [[2, None]])
    for cells in ({"legs": 2, "pet": None}, pl.from_pandas(frame).row(1, named=True)):
        assert as_frame(cells).cells().tolist() == [[2, None]]
    for column in (pd.Series([1.0, 2.0], name="legs"), pl.Series("legs", [1.0, 2.0])):
        with pytest.raises(DTypeError, match="a row by names, or an array"):
            as_frame(column)


def test_frames_of_libraries_that_are_refused() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with pytest.raises(DTypeError, match=r"a lazy frame has no rows yet: call its collect\(\)"):
        as_frame(pl.LazyFrame({"a": [1]}))
    with pytest.raises(InputError, match="names of several levels"):
        as_frame(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])))
    with pytest.raises(InputError, match="two columns have one name"):
        as_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_frames_without_names_of_columns() -> None:
    """pandas numbers them; such numbers are names, in any order."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2))).mask(np.eye(40, 2) > 0)
    model = fit(frame, units=2, epochs=1)
    full = model.complete(frame[[1, 0]])
    assert list(full.columns) == [1, 0]
    assert not full.isna().any().any()
    assert list(model.predict(1, frame, [0.5]).columns) == ["mean", "0.5"]
    assert list(model.sample(2).columns) == [0, 1]


@pytest.mark.parametrize("number", [0, 3])
def test_drawn_rows_have_types_of_pandas_that_have_no_missing_cell(number: int) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "whole": rng.integers(1000, 2000, 40),
            "small": rng.integers(0, 9, 40).astype(np.uint8),
            "flag": rng.random(40) < 0.5,
            "real": rng.normal(size=40).astype(np.float32),
        }
    )
    drawn = fit(frame, units=2, epochs=1).sample(number)
    assert list(drawn.dtypes) == list(frame.dtypes)
    assert len(drawn) == number


@pytest.mark.parametrize(("unit", "kind"), [("D", "date"), ("s", "timestamp"), ("ns", "timestamp")])
def test_dates_of_numpy_are_those_of_python(unit: str, kind: str) -> None:
    days = np.datetime64("2024-01-01", "D") + np.random.default_rng(0).integers(0, 90, 40)
    moments = days.astype(f"M8[{unit}]") + np.timedelta64(0 if unit == "D" else 3600, "D" if unit == "D" else "s")
    moments[3] = np.datetime64("NaT")
    cells = [None if np.isnat(moment) else moment.astype("M8[us]").item() for moment in moments]
    model = fit({"a": moments}, units=2, epochs=1)
    assert model.columns == {"a": kind}
    listed_cells = [cell.date() if cell and unit == "D" else cell for cell in cells]
    np.testing.assert_array_equal(model.score({"a": moments}), model.score({"a": listed_cells}))
    full = model.complete({"a": moments})["a"]
    assert full.dtype == moments.dtype
    assert not np.isnat(full).any()


def test_a_fitted_model_holds_no_view_of_a_dict_of_arrays() -> None:
    rows = {"a": np.random.default_rng(0).normal(size=50)}
    template = fit(rows, units=2, epochs=1)._template
    assert template is not None
    assert all(column.base is None for column in template._columns)  # type: ignore[attr-defined]


def test_true_and_one_are_two_categories_beside_text() -> None:
    table = {"a": [1, "b", True, None] * 10}
    model = fit(table, units=2, epochs=1)
    assert list(model.predict("a", table)) == ["1", "True", "b"]
