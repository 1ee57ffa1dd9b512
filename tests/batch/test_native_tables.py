"""Native files of tables answer in the cells of the table, as the model does, and without torch."""

import csv
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.native
from plica.batch import Completer, Predictor, Sampler, Scorer
from plica.batch.native_answers import native_model
from plica.errors import InputError, NativeFileError, UnsupportedError
from plica.files.native_tables import table_of_json
from plica.lower.data import column_domains
from plica.runtime.container import VERSION, read, version_of, write
from tests.harness import tables_of_users
from tests.harness.damaged_files import description_of, with_description
from tests.harness.tables_of_users import run, untrained
from tests.harness.typed_tables import KINDS, Table, texts, typed_table

QUERIES = ("marginal", "mpe", "conditional-sample")
WORDS = ("NA", "?")
COLUMNS = {kind: kind for kind in KINDS} | {"weight": "real", "size": "real"}


def _compiled(folder: Path, kinds: dict[str, str], random: np.random.Generator, **options: Any) -> None:
    """Writes a table, its model and the native file of that to a folder."""
    tables_of_users.write(folder / "seen.csv", texts(typed_table(random, kinds, 80), random, ("", *WORDS)))
    untrained(folder / "m.plica", folder / "seen.csv", words=WORDS, **options)
    plica.native.compile(folder / "m.plica", folder / "m.plicab", queries=QUERIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a table with columns of each kind; `size` has a gamma distribution, of positive numbers."""
    result = tmp_path_factory.mktemp("tables")
    _compiled(result, COLUMNS, np.random.default_rng(0), distributions={"size": "gamma"})
    return result


@pytest.fixture
def cells() -> Table:
    """Twenty rows, with the columns in another order, and a category that is new."""
    table = dict(reversed(typed_table(np.random.default_rng(1), COLUMNS, 20).items()))
    table["categorical"][3] = "newt"
    return table


def _as_text(table: Any) -> dict[str, list[str]]:
    return {name: list(map(str, table[name])) for name in (table if isinstance(table, dict) else table.columns)}


@pytest.mark.parametrize("library", [None, "pandas", "polars"])
def test_answers_are_those_of_the_model(folder: Path, cells: Table, library: str | None) -> None:
    made = dict if library is None else pytest.importorskip(library).DataFrame
    table, paths = made(cells), (folder / "m.plica", folder / "m.plicab")
    with pytest.warns(UserWarning, match="newt"):
        expected, found = (Scorer(path)(table) for path in paths)
    assert [*_as_text(found)] == [*_as_text(expected)] == ["ignored", "log_likelihood"]
    np.testing.assert_allclose(found["log_likelihood"], expected["log_likelihood"], rtol=1e-4)
    with pytest.warns(UserWarning, match="newt"):
        expected, found = (Scorer(path, of=("size",))(table)["log_likelihood"] for path in paths)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    with pytest.warns(UserWarning, match="newt"):
        expected, found = (Completer(path, "mpe")(table) for path in paths)
    assert _as_text(found) == _as_text(expected)
    for column in ("categorical", "boolean"):
        asked = made({name: column_cells for name, column_cells in cells.items() if name != column})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the newt, where that column is read
            expected, found = (Predictor(path, column)(asked) for path in paths)
        assert [*_as_text(found)] == [*_as_text(expected)]
        for name in [*_as_text(expected)][1:]:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4)


def test_draws_keep_what_is_known(folder: Path, cells: Table) -> None:
    cells["categorical"][3] = None
    drawn = Sampler(folder / "m.plicab", 3)(cells)
    assert list(drawn) == list(cells)
    for name, column in cells.items():
        for row, cell in enumerate(column):
            filled = [str(new).lower() for new in drawn[name][3 * row : 3 * row + 3]]  # truths are text in the model
            assert "none" not in filled if cell is None else filled == [str(cell).lower()] * 3
    assert np.isfinite(Scorer(folder / "m.plica")(drawn)["log_likelihood"]).all()


def test_what_needs_the_model_is_refused(folder: Path, cells: Table) -> None:
    for column in ("weight", "count"):
        with pytest.raises(UnsupportedError, match=r"give the \.plica"):
            Predictor(folder / "m.plicab", column)(cells)


def assert_refused_alike(folder: Path, ask: Any, table: Table, words: str) -> None:
    """The model and its native file refuse a table in the same words."""
    messages = []
    for path in (folder / "m.plica", folder / "m.plicab"):
        with pytest.raises(InputError, match=words) as refused:
            ask(path)(table)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("column", "cell"),
    [("count", -1), ("count", 1.5), ("whole", "much"), ("size", -2.0), ("weight", math.inf), ("date", "soon")],
)
def test_wrong_cells_are_refused_as_by_the_model(folder: Path, column: str, cell: object) -> None:
    table = typed_table(np.random.default_rng(2), COLUMNS, 5)
    table[column] = [*table[column][:3], cell, *table[column][4:]]
    assert_refused_alike(folder, Scorer, table, rf"row 3 .*, column '{column}'")


@pytest.mark.parametrize(
    "ask",
    [
        lambda path: Completer(path, "sample"),
        lambda path: Completer(path, "mpe"),
        Sampler,
        lambda path: Predictor(path, "boolean"),
    ],
)
def test_impossible_rows_are_refused_as_by_the_model(folder: Path, ask: Any) -> None:
    table = typed_table(np.random.default_rng(2), COLUMNS, 5)
    table["weight"] = [1.0, 2.0, 1e300, 1.0, 2.0]
    assert_refused_alike(folder, ask, table, r"row 2 .* probability of 0, .* column 'weight'")


def test_commands_need_no_torch(folder: Path) -> None:
    random = np.random.default_rng(3)
    rows = texts(typed_table(random, COLUMNS, 9), random, ("", *WORDS))
    tables_of_users.write(folder / "rows.csv", rows)
    path = str(folder / "rows.csv")
    answers = {
        "score": [path],
        "complete": [path, "--method", "mpe"],
        "predict": [path, "--column", "categorical"],
        "sample": ["-n", "4"],
        "given": ["--given", path, "-n", "3"],
    }
    commands = [
        ["plica", "sample" if name == "given" else name, str(folder / "m.plicab"), *words, "-o", f"{folder / name}.csv"]
        for name, words in answers.items()
    ]
    code = "import sys; sys.modules['torch'] = None\nfrom plica.cli.main import main\n"
    code += f"for command in {commands!r}: main(command[1:], standalone_mode=False)"
    subprocess.run([sys.executable, "-c", code], check=True)
    found = {name: list(csv.reader((folder / f"{name}.csv").open(encoding="utf-8"))) for name in answers}
    assert {name: len(table) - 1 for name, table in found.items()} == {
        "score": 9, "complete": 9, "predict": 9, "sample": 4, "given": 27,
    }  # fmt: skip
    _check_filled(rows[1:], found["complete"][1:])
    _check_filled([row for row in rows[1:] for _ in range(3)], found["given"][1:])
    assert {"cat", "dog", "eel é", "007"} - {*found["predict"][0]} == {"007"}
    assert all(len(row[found["sample"][0].index("weight")].partition(".")[2]) <= 2 for row in found["sample"][1:])
    for name in ("score", "predict", "complete"):
        words = ("--column", "categorical") if name == "predict" else ("--method", "mpe") if name == "complete" else ()
        assert run(name, folder / "m.plica", path, "-o", folder / "model.csv", *words).exit_code == 0
        _check_close(tables_of_users.read(folder / "model.csv"), found[name])


def _check_filled(before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> None:
    """Cells that are known stay, and the others are filled in."""
    for old, new in zip(before, after, strict=True):
        for known, cell in zip(old, new, strict=True):
            assert cell == known if known not in ("", *WORDS) else cell not in ("", *WORDS)


def _check_close(expected: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> None:
    """Texts are equal, and numbers to single precision."""
    for rows in zip(expected, found, strict=True):
        for one, other in zip(*rows, strict=True):
            assert one == other or math.isclose(float(one), float(other), rel_tol=1e-4, abs_tol=1e-5), rows


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 25))])
def test_random_tables_are_answered_as_by_the_model(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    chosen = ["categorical", *random.choice(list(KINDS), int(random.integers(1, 4)))]
    kinds = {f"{kind} {number}": str(kind) for number, kind in enumerate(chosen)}
    _compiled(tmp_path, kinds, random)
    names = list(random.permutation(list(kinds)))
    table = typed_table(random, {str(name): kinds[name] for name in names}, 30, unknown=0.3)
    table["categorical 0"][:2] = ["newt", None]
    rows = texts(table, random, ("", *WORDS))
    tables_of_users.write(tmp_path / "rows.csv", rows)
    batch = ("--batch", int(random.integers(1, 40)))
    for command in (("score",), ("complete", "--method", "mpe"), ("predict", "--column", "categorical 0")):
        answers = []
        for model in ("m.plica", "m.plicab"):
            out = tmp_path / "out.csv"
            result = run(command[0], tmp_path / model, tmp_path / "rows.csv", "-o", out, *command[1:], *batch)
            assert result.exit_code == 0, (result.output, result.exception)
            answers.append(tables_of_users.read(out))
        _check_close(*answers)
    out = tmp_path / "drawn.csv"
    assert run("sample", tmp_path / "m.plicab", "--given", tmp_path / "rows.csv", "-o", out).exit_code == 0
    assert run("score", tmp_path / "m.plica", out, "-o", tmp_path / "s.npy").exit_code == 0
    assert np.isfinite(np.load(tmp_path / "s.npy")).all()


def test_rows_without_names_have_the_order_of_the_model(folder: Path, tmp_path: Path) -> None:
    width = len(COLUMNS) - 1  # without the one that is ignored
    rows = np.where(np.random.default_rng(5).random((9, width)) < 0.5, np.nan, 1.0)
    np.save(tmp_path / "rows.npy", rows)
    for command in (("score",), ("complete", "--method", "mpe")):
        answers = []
        for model in ("m.plica", "m.plicab"):
            result = run(command[0], folder / model, tmp_path / "rows.npy", "-o", tmp_path / "out.npy", *command[1:])
            assert result.exit_code == 0, result.output
            answers.append(np.load(tmp_path / "out.npy"))
        assert not np.isnan(answers[0]).any()
        np.testing.assert_allclose(answers[1], answers[0], rtol=1e-4)


def test_run_names_the_commands_that_read_tables(folder: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    tables_of_users.write(tmp_path / "rows.csv", texts(typed_table(random, COLUMNS, 2), random))
    result = run("run", folder / "m.plicab", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out.npy")
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert "is not a finite number; " in line
    assert line.endswith("ask it with plica score, complete, sample or predict, which read cells")


def _with_encoding(folder: Path, path: Path, encoding: Any) -> None:
    image = read(folder / "m.plicab")
    parts = {name: image.part(name) for name in image.parts}
    write(path, parts, replace(image.manifest, encoding=encoding))


def test_files_without_columns_have_the_old_version(folder: Path, tmp_path: Path) -> None:
    _with_encoding(folder, tmp_path / "old.plicab", None)
    manifest = read(tmp_path / "old.plicab").manifest
    assert version_of(manifest) == VERSION
    assert manifest.encoding is None
    scores = Scorer(tmp_path / "old.plicab")(np.full((2, 11), np.nan))
    np.testing.assert_allclose(scores[:, 0], 0, atol=1e-4)


def test_damaged_columns_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    encoding: Any = read(folder / "m.plicab").manifest.encoding
    first, *others = encoding["columns"]
    domains = encoding["domains"]
    positive = {"name": "a", "refusal": "b", "advice": "c", "least": 0, "most": None, "whole": False, "above": True}
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
        {**encoding, "domains": domains[1:]},
        {**encoding, "domains": [*domains[:-1], "numbers"]},
        {**encoding, "domains": [*domains[:-1], "counts"]},
        {**encoding, "domains": [*domains[:-1], {**positive, "most": -1}]},
        {**encoding, "domains": [*domains[:-1], {**positive, "least": "0"}]},
    ]
    for number, changed in enumerate(damaged):
        path = tmp_path / f"{number}.plicab"
        _with_encoding(folder, path, changed)
        with pytest.raises(NativeFileError, match="its table") as refused:
            Scorer(path)({"categorical": ["cat"]})
        assert "\n" not in str(refused.value)


def _refusal(path: Path) -> str | None:
    """Why a file is refused; None where it is read."""
    try:
        native_model(path)
    except NativeFileError as error:
        return str(error)
    return None


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.full)])
def test_flipped_bits_of_columns_are_refused_or_read(folder: Path, tmp_path: Path, count: int) -> None:
    whole, damaged = (folder / "m.plicab").read_bytes(), tmp_path / "damaged.plicab"
    text = json.dumps(description_of(whole), separators=(",", ":")).encode()
    begin, end = text.rindex(b'"encoding"'), text.rindex(b'"parts"')
    assert text in whole
    random = np.random.default_rng(0)
    for _ in range(count):
        place, bit = int(random.integers(begin, end)), 1 << int(random.integers(8))
        flipped = bytearray(text)
        flipped[place] ^= bit
        damaged.write_bytes(whole.replace(text, bytes(flipped)))
        with pytest.raises(NativeFileError, match="damaged") as refused:
            native_model(damaged)
        assert "\n" not in str(refused.value)
        damaged.write_bytes(with_description(whole, bytes(flipped)))  # with the right hash
        message = _refusal(damaged)
        assert message is None or (message.startswith(f"{damaged}: ") and "\n" not in message), message


def test_tables_are_those_of_the_model(folder: Path) -> None:
    encoding, domains = table_of_json(read(folder / "m.plicab").manifest.encoding)
    model = plica.load(folder / "m.plica")
    assert encoding.as_json() == model.saved_with["encoding"]
    assert domains == column_domains(model.symbolic)
    assert [domain.name for domain in domains] == [domain.name for domain in column_domains(model.symbolic)]
    assert {column.kind for column in encoding.columns} == {*KINDS} - {"codes"}
