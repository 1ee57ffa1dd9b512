"""Native files of tables answer in the cells of the table, as the model does, and without torch."""

import csv
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.native
import plica.tables
from plica.batch import Completer, Predictor, Scorer
from plica.batch.native_answers import encoding_of
from plica.errors import NativeFileError, UnsupportedError
from plica.runtime.container import VERSION, read, version_of, write

pytestmark = pytest.mark.full  # a model of nine columns is trained and compiled

QUERIES = ("log-likelihood", "marginal", "mpe", "conditional-sample")


def _cells(number: int, seed: int) -> dict[str, list[Any]]:
    """A table with a column of each kind, and missing cells."""
    random = np.random.default_rng(seed)
    columns: Mapping[str, Any] = {
        "pet": lambda: str(random.choice(["cat", "dog", "eel é"])),
        "ok": lambda: bool(random.random() < 0.5),
        "visits": lambda: int(random.poisson(3)),
        "change": lambda: int(random.normal(0, 300)),
        "weight": lambda: round(float(random.normal(10, 2)), 2),
        "born": lambda: date(2020, 1, 1) + timedelta(days=int(random.integers(900))),
        "seen": lambda: datetime(2024, 1, 1) + timedelta(seconds=int(random.integers(10**6))),
        "at": lambda: time(int(random.integers(24)), int(random.integers(60))),
        "id": lambda: f"x{random.integers(10**9)}",
    }
    return {
        name: [cell() if name == "id" or random.random() > 0.15 else None for _ in range(number)]
        for name, cell in columns.items()
    }


def _write(path: Path, cells: Mapping[str, list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("tables")
    plica.tables.fit(_cells(80, 0), epochs=1).save(result / "m.plica")
    plica.native.compile(result / "m.plica", result / "m.plicab", queries=QUERIES)
    return result


def test_answers_are_those_of_the_model(folder: Path) -> None:
    cells = dict(reversed(_cells(20, 1).items()))
    cells["pet"][3] = "newt"
    model, native = folder / "m.plica", folder / "m.plicab"
    with pytest.warns(UserWarning, match="newt"):
        expected, found = (Scorer(path)(cells)["log_likelihood"] for path in (model, native))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    with pytest.warns(UserWarning, match="newt"):
        expected, found = (Completer(path, "mpe")(cells) for path in (model, native))
    assert {name: list(map(str, column)) for name, column in found.items()} == {
        name: list(map(str, column)) for name, column in expected.items()
    }
    for column in ("pet", "ok"):
        expected, found = (Predictor(path, column)({**cells, "pet": ["cat"] * 20}) for path in (model, native))
        assert list(found) == list(expected)
        for name in list(expected)[-2:]:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4)
    with pytest.raises(UnsupportedError, match=r"give the \.plica"):
        Predictor(native, "weight")(cells)


def test_commands_need_no_torch(folder: Path) -> None:
    _write(folder / "rows.csv", _cells(9, 2))
    rows = str(folder / "rows.csv")
    for name, arguments in {
        "score": [rows],
        "complete": [rows, "--method", "mpe"],
        "predict": [rows, "--column", "pet"],
        "sample": ["-n", "4"],
    }.items():
        command = ["plica", name, str(folder / "m.plicab"), *arguments, "-o", str(folder / f"{name}.csv")]
        code = f"import sys; sys.modules['torch'] = None; sys.argv = {command!r}\n"
        code += "from plica.cli.entry import main; main()"
        subprocess.run([sys.executable, "-c", code], check=True)
    completed = list(csv.DictReader((folder / "complete.csv").open(encoding="utf-8")))
    assert all(all(row.values()) for row in completed)
    predicted = list(csv.DictReader((folder / "predict.csv").open(encoding="utf-8")))
    assert {"cat", "dog", "eel é"} <= predicted[0].keys()
    drawn = list(csv.DictReader((folder / "sample.csv").open(encoding="utf-8")))
    assert len(drawn) == 4
    assert {row["ok"] for row in drawn} <= {"true", "false", "True", "False"}


def _with_encoding(folder: Path, path: Path, encoding: Any) -> None:
    image = read(folder / "m.plicab")
    parts = {name: image.part(name) for name in image.parts}
    write(path, parts, replace(image.manifest, encoding=encoding))


def test_files_without_columns_have_the_old_version(folder: Path, tmp_path: Path) -> None:
    _with_encoding(folder, tmp_path / "old.plicab", None)
    manifest = read(tmp_path / "old.plicab").manifest
    assert version_of(manifest) == VERSION
    assert manifest.encoding is None
    scores = Scorer(tmp_path / "old.plicab")(np.full((2, 8), np.nan))
    np.testing.assert_allclose(scores[:, 0], 0, atol=1e-4)


def test_damaged_columns_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    encoding: Any = read(folder / "m.plicab").manifest.encoding
    first, *others = encoding["columns"]
    damaged: list[Any] = [
        {},
        {"columns": []},
        {"columns": None, "missing": []},
        {**encoding, "columns": others},
        {**encoding, "columns": [{**first, "kind": "colour"}, *others]},
        {**encoding, "columns": [{**first, "categories": {}}, *others]},
        {**encoding, "columns": [{**first, "categories": []}, *others]},
        {**encoding, "columns": [{**first, "categories": [None]}, *others]},
        {**encoding, "columns": [{**first, "kind": "date", "format": "%"}, *others]},
        {**encoding, "columns": [first, first, *others[1:]]},
        {**encoding, "missing": [1]},
    ]
    for number, changed in enumerate(damaged):
        path = tmp_path / f"{number}.plicab"
        _with_encoding(folder, path, changed)
        with pytest.raises(NativeFileError, match="its table") as refused:
            Scorer(path)({"pet": ["cat"]})
        assert "\n" not in str(refused.value)


def test_encodings_are_those_of_the_model(folder: Path) -> None:
    manifest = read(folder / "m.plicab").manifest
    assert encoding_of(manifest).as_json() == plica.load(folder / "m.plica").saved_with["encoding"]
    kinds = {column.kind for column in encoding_of(manifest).columns}
    assert kinds >= {"categorical", "boolean", "count", "real", "date", "timestamp", "time", "ignored"}
