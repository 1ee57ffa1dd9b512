"""`plica predict`: tables in and out, and what it refuses."""

import csv
import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from plica.tables import TableModel, fit
from tests.harness.tables_of_users import run

ROWS = "id,pet,day,n\nr1,cat,2024-01-03,\nr2,,2024-02-01,4\n"


@pytest.fixture(scope="module")
def fitted() -> TableModel:
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {
        "pet": [str(pet) for pet in rng.choice(["cat", "dog"], 50)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(int(days)) for days in rng.integers(0, 60, 50)],
        "n": rng.poisson(3.0, 50).tolist(),
    }
    return fit(table, units=2, epochs=1)


@pytest.fixture
def model(fitted: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableModel:
    monkeypatch.chdir(tmp_path)
    fitted.save("m.plica")
    Path("rows.csv").write_text(ROWS)
    return fitted


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def predict(*words: Any) -> str:
    result = run("predict", "m.plica", *words)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_categories(model: TableModel) -> None:
    predict("rows.csv", "--column", "pet", "-o", "out.csv")
    rows = read("out.csv")
    assert list(rows[0]) == ["id", "pet", "cat", "dog"]
    assert [row["pet"] for row in rows] == ["cat", ""]
    own = model.predict("pet", {"pet": [None] * 2, "day": ["2024-01-03", "2024-02-01"], "n": [None, 4]})
    for name in ("cat", "dog"):
        np.testing.assert_allclose([float(row[name]) for row in rows], own[name], rtol=1e-6)
    predict("rows.csv", "--column", "pet", "-o", "out.npy")
    np.testing.assert_allclose(np.load("out.npy").sum(axis=1), 1.0, rtol=1e-6)


def test_dates_and_counts(model: TableModel) -> None:
    predict("rows.csv", "--column", "day", "--quantiles", ".05,.95", "-o", "out.parquet")
    table = pyarrow.parquet.read_table("out.parquet")
    assert table.column_names == ["id", "day", "mean", "0.05", "0.95"]
    assert [str(field.type) for field in table.schema][2:] == ["date32[day]"] * 3
    rows = table.to_pylist()
    assert all(row["0.05"] <= row["mean"] <= row["0.95"] for row in rows)
    predict("rows.csv", "--column", "day", "--quantiles", ".05,.95", "-o", "out.csv")
    assert [row["0.05"] for row in read("out.csv")] == [str(row["0.05"]) for row in rows]
    Path("without.csv").write_text("day,pet\n2024-01-03,cat\n")
    predict("without.csv", "--column", "n", "--quantiles", "0.5", "-o", "out.csv")
    (row,) = read("out.csv")
    assert list(row) == ["mean", "0.5"]
    assert int(row["0.5"]) == model.predict("n", {"day": ["2024-01-03"], "pet": ["cat"]}, [0.5])["0.5"][0]


def test_a_table_without_rows(model: TableModel) -> None:  # noqa: ARG001
    Path("none.csv").write_text("pet,day,n\n")
    predict("none.csv", "--column", "n", "-o", "out.csv")
    assert Path("out.csv").read_text() == "n,mean\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--column", "legs", "-o", "o.csv"), "--column legs: the model has no such column; it has pet, day, n"),
        (("--column", "pet", "--quantiles", ".5", "-o", "o.csv"), "'pet' has categories"),
        (("--column", "n", "--quantiles", "5", "-o", "o.csv"), "5 is no level"),
        (("--column", "n", "--quantiles", "a,b", "-o", "o.csv"), "'a,b' is no list of numbers"),
        (("--column", "day", "-o", "o.npy"), "arrays hold numbers alone"),
        (("--column", "n", "-o", "o.txt"), "cannot tell how to write"),
        (("--column", "n", "-o", "rows.csv"), "rows.csv"),
        (("-o", "o.csv"), "Missing option '--column'"),
    ],
)
def test_what_is_refused(model: TableModel, words: tuple[str, ...], message: str) -> None:  # noqa: ARG001
    result = run("predict", "m.plica", "rows.csv", *words)
    assert result.exit_code == 2
    assert message in result.output
    assert not Path("o.csv").exists()
    assert Path("rows.csv").read_text() == ROWS
