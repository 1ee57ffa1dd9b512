"""The commands that ask a trained model: score, marginal, complete and sample, on typed tables and on arrays."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from plica.backend.torch.compiler import TorchCompiler
from plica.cli.main import main
from plica.files.encoding import Encoding
from plica.files.model import load_model
from plica.queries import log_likelihood

Plica = Callable[..., Result]
MODEL = "out/model.plica"


def table(rows: int = 60, seed: int = 0) -> list[list[str]]:
    """Pets with names, one cell in ten missing, some as a question mark."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(rows):
        pet = rng.choice(["cat", "dog", "bird"])
        cells = [f"pet {number}", pet, "2" if pet == "bird" else "4", f"{rng.normal(5, 2):.3f}"]
        hidden = rng.random(4) < 0.1
        found.append(
            [("?" if column == 1 else "") if hidden[column] and column else cell for column, cell in enumerate(cells)]
        )
    return found


def write(path: str, rows: list[list[str]], names: str = "name,pet,legs,weight") -> None:
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([names.split(","), *rows])


def read(path: str) -> list[list[str]]:
    with Path(path).open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a typed table, `pets.csv`, and a model that was trained on it."""
    folder = tmp_path_factory.mktemp("pets")
    write(str(folder / "pets.csv"), table())
    (folder / "columns.json").write_text('{"name": "ignored", "weight": "real", "legs": "categorical"}')
    words = ("--columns", folder / "columns.json", "--missing", "?", "--units", 3, "--epochs", 2, "--quiet")
    arguments = ["train", folder / "pets.csv", "--out", folder / "out", *words]
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def pets(plica: Plica, trained: Path, tmp_path: Path) -> Plica:
    """The command, in a copy of that folder."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return plica


@pytest.mark.parametrize(
    "words",
    [
        ("score", MODEL, "pets.csv"),
        ("marginal", MODEL, "pets.csv", "--of", "pet"),
        ("complete", MODEL, "pets.csv"),
        ("sample", MODEL, "--given", "pets.csv"),
        ("export", "pets.csv"),
    ],
    ids=lambda words: words[0],
)
def test_what_is_read_is_never_lost(pets: Plica, words: tuple[str, ...]) -> None:
    before = Path("pets.csv").read_bytes()
    result = pets(*words, "-o", "out/../pets.csv")
    assert result.exit_code == 2
    assert "out/../pets.csv: the output would overwrite this input" in result.stderr
    assert Path("pets.csv").read_bytes() == before


def compiled() -> tuple[Any, Encoding]:
    loaded = load_model(MODEL)
    circuit = TorchCompiler().compile(loaded.circuit)
    circuit.load_state_dict({name: torch.from_numpy(value) for name, value in loaded.tensors.items()})
    return circuit.eval(), Encoding.of_json(loaded.options["encoding"])


def encoded(rows: list[list[str]]) -> Any:
    """Rows of pets as the circuit reads them."""
    states = {"bird": 0, "cat": 1, "dog": 2, "?": np.nan, "": np.nan, "2": 0, "4": 1}
    return torch.tensor(
        [[states[pet], states[legs], float(weight or "nan")] for _, pet, legs, weight in rows], dtype=torch.float64
    )


def assert_done(result: Result) -> None:
    assert result.exit_code == 0, result.output
    assert not result.output


@pytest.mark.usefixtures("pets")
def test_the_report_says_what_columns_are() -> None:
    columns = {one["name"]: one for one in json.loads(Path("out/report.json").read_text())["data"]["columns"]}
    assert list(columns) == ["name", "pet", "legs", "weight"]
    assert columns["name"] == {"name": "name", "kind": "ignored", "categories": [], "input": None, "missing": None}
    pet = columns["pet"]
    assert (pet["kind"], pet["categories"], pet["input"]) == ("categorical", ["bird", "cat", "dog"], "categorical")
    assert 0 < pet["missing"] < 20
    page = Path("out/report.html").read_text()
    for words in ("<td>weight</td><td>real</td><td></td><td>gaussian</td>", "<td>bird | cat | dog</td>"):
        assert words in page


def test_scores_are_those_of_the_circuit(pets: Plica) -> None:
    assert_done(pets("score", MODEL, "pets.csv", "-o", "scores.npy", "--batch", 7))
    circuit, _ = compiled()
    expected = log_likelihood(circuit, encoded(table())).detach().numpy()
    found = np.load("scores.npy")
    assert found.shape == (60,)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert_done(pets("score", MODEL, "pets.csv", "-o", "scores.csv"))
    names, *rows = read("scores.csv")
    assert names == ["name", "log_likelihood"]
    assert [row[0] for row in rows] == [row[0] for row in table()]
    np.testing.assert_allclose([float(row[1]) for row in rows], expected, rtol=1e-5)
    write("scored.csv", [[*cells, "7"] for cells in table()], "name,pet,legs,weight,log_likelihood")
    assert_done(pets("score", MODEL, "scored.csv", "-o", "again.csv"))
    assert read("again.csv") == read("scores.csv")


def test_a_marginal_sums_out_all_other_columns(pets: Plica) -> None:
    assert_done(pets("marginal", MODEL, "pets.csv", "--of", "pet", "--of", "weight", "-o", "scores.npy"))
    circuit, _ = compiled()
    x = encoded(table())
    x[:, 1] = torch.nan
    np.testing.assert_allclose(np.load("scores.npy"), log_likelihood(circuit, x).detach().numpy(), rtol=1e-5)
    result = pets("marginal", MODEL, "pets.csv", "--of", "legz", "-o", "scores.npy")
    assert result.exit_code == 2
    assert (
        "--of legz: the model has no such column; it has pet, legs, weight; --of takes one, and may be repeated"
        in result.stderr
    )


@pytest.mark.parametrize("method", ["sample", "mpe", "mean"])
def test_a_completed_table_is_the_users_own(pets: Plica, method: str) -> None:
    assert_done(pets("complete", MODEL, "pets.csv", "-o", "full.csv", "--method", method, "--batch", 13))
    names, *rows = read("full.csv")
    assert names == ["name", "pet", "legs", "weight"]
    for before, after in zip(table(), rows, strict=True):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if old not in ("", "?"):
                assert new == old
            elif place < 3:
                assert new in (("cat", "dog", "bird"), ("2", "4"))[place - 1]
            else:
                assert np.isfinite(float(new))


def test_a_table_goes_through_parquet(pets: Plica) -> None:
    assert_done(pets("complete", MODEL, "pets.csv", "-o", "full.parquet"))
    assert_done(pets("complete", MODEL, "pets.csv", "-o", "full.csv"))
    assert_done(pets("score", MODEL, "full.parquet", "-o", "a.npy"))
    assert_done(pets("score", MODEL, "full.csv", "-o", "b.npy"))
    np.testing.assert_allclose(np.load("a.npy"), np.load("b.npy"), rtol=1e-6)


def test_rows_are_drawn_with_the_columns_that_the_model_knows(pets: Plica) -> None:
    assert_done(pets("sample", MODEL, "-n", 20, "-o", "drawn.csv", "--seed", 3, "--batch", 6))
    names, *rows = read("drawn.csv")
    assert names == ["pet", "legs", "weight"]
    assert len(rows) == 20
    assert {row[0] for row in rows} == {"cat", "dog", "bird"}
    assert len({tuple(row) for row in rows}) == 20  # batches have seeds of their own
    assert_done(pets("sample", MODEL, "-n", 20, "-o", "again.csv", "--seed", 3, "--batch", 6))
    assert read("again.csv") == read("drawn.csv")
    assert_done(pets("sample", MODEL, "-n", 2, "--given", "pets.csv", "-o", "filled.csv"))
    names, *rows = read("filled.csv")
    assert names == ["name", "pet", "legs", "weight"]
    for place, before in enumerate(table()):
        for after in rows[2 * place : 2 * place + 2]:
            assert all(old in ("", "?", new) for old, new in zip(before, after, strict=True))


def test_drawn_rows_have_the_delimiter_that_is_asked_for(pets: Plica) -> None:
    assert_done(pets("sample", MODEL, "-n", 2, "-o", "drawn.csv", "--delimiter", ";"))
    assert Path("drawn.csv").read_text().startswith("pet;legs;weight\n")
    for out, said in (("drawn.npy", "only a .csv has a delimiter"), ("drawn.csv", "expected one letter")):
        result = pets("sample", MODEL, "-n", 2, "-o", out, "--delimiter", ";;")
        assert result.exit_code == 2
        assert said in result.stderr


def test_columns_are_found_by_name(pets: Plica) -> None:
    write("other.csv", [["4", "1.5", "cat", "x"]], "legs,weight,pet,note")
    assert_done(pets("score", MODEL, "other.csv", "-o", "a.npy"))
    circuit, _ = compiled()
    x = encoded([["", "cat", "4", "1.5"]])
    np.testing.assert_allclose(np.load("a.npy"), log_likelihood(circuit, x).detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        ([["fish", "4", "1"]], "pet,legs,weight", "table.csv, line 2, column 'pet': 'fish' is none of the categories"),
        ([["cat", "3", "1"]], "pet,legs,weight", "line 2, column 'legs': '3' is none of the categories 2, 4"),
        ([["cat", "4", "heavy"]], "pet,legs,weight", "line 2, column 'weight': 'heavy' is no finite number"),
        ([["cat", "4"]], "pet,legs", "the model expects a column 'weight', found the columns pet, legs"),
        ([["cat", "4"]], "pet,legs,weight", "line 2: found 2 columns, expected 3"),
    ],
)
def test_tables_that_do_not_fit(pets: Plica, rows: Any, names: str, message: str) -> None:
    write("table.csv", rows, names)
    result = pets("score", MODEL, "table.csv", "-o", "scores.csv", "--unknown", "error")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("scores.csv").exists()


def test_unknown_categories_are_missing_and_counted_in_one_line(pets: Plica) -> None:
    write("table.csv", [["fish", "4", "1"], ["fish", "3", "1"], ["cat", "4", "1"]], "pet,legs,weight")
    result = pets("score", MODEL, "table.csv", "-o", "a.npy", "--batch", 1)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "plica: warning: table.csv: 3 cells have a category that the model has never seen ('fish' in column 'pet', "
        "'3' in column 'legs'), read as missing; to refuse such cells, pass --unknown error\n"
    )
    circuit, _ = compiled()
    rows = encoded([["", "?", "4", "1"], ["", "?", "", "1"], ["", "cat", "4", "1"]])
    np.testing.assert_allclose(np.load("a.npy"), log_likelihood(circuit, rows).detach().numpy(), rtol=1e-5)


def test_numbers_that_are_filled_in_have_the_decimals_of_their_column(pets: Plica) -> None:
    """Known ones keep all of theirs, though they may look like those of single precision."""
    known = "0.10000000149011612"
    write("table.csv", [["cat", "4", ""], ["cat", "", known]], "pet,legs,weight")
    for out in ("a.csv", "a.parquet", "b.csv"):
        command = ("sample", MODEL, "--given") if out == "b.csv" else ("complete", MODEL)
        assert_done(pets(*command, "table.csv", "-o", out))
        if out == "a.parquet":
            cells = [list(row.values()) for row in pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()]
            assert cells[0][2] == round(cells[0][2], 3)
        else:
            cells = read(out)[1:]
            assert len(cells[0][2].partition(".")[2]) == 3
        assert str(cells[1][2]) == known


@pytest.mark.parametrize("value", [np.float64(7.5), np.int64(7), np.float32(7.5)])
def test_messages_show_numbers_of_arrays_as_they_are(pets: Plica, value: Any) -> None:
    np.save("table.npy", np.array([[value, 0, 0]]))
    result = pets("score", MODEL, "table.npy", "-o", "a.npy", "--unknown", "error")
    assert result.exit_code == 2
    assert f"table.npy, row 0, column 'pet': {value} is none of the categories bird, cat, dog" in result.output


@pytest.mark.parametrize("out", ["full.csv", "full.parquet"])
def test_categories_that_are_not_known_are_not_written_over(pets: Plica, out: str) -> None:
    rows = [["Wanda", "fish", "", "0.050"], ["Rex", "?", "4", "21.50"], ["Tom", "", "3", ""]]
    write("table.csv", rows)
    result = pets("complete", MODEL, "table.csv", "-o", out, "--method", "mpe")
    assert result.exit_code == 0
    assert "2 cells have a category" in result.stderr
    if out == "full.csv":
        cells = read(out)[1:]
        assert (cells[0][0], cells[0][1], cells[0][3]) == ("Wanda", "fish", "0.050")
        assert cells[2][2] == "3"
    else:
        cells = [list(row.values()) for row in pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()]
        assert (cells[0][1], cells[0][3], cells[2][2]) == ("fish", 0.05, 3)
    assert cells[0][2] in ("2", "4", 2, 4)
    assert cells[1][1] in ("bird", "cat", "dog")
    assert cells[2][1] in ("bird", "cat", "dog")
    assert cells[2][3] not in ("", None)


@pytest.mark.parametrize(
    "words",
    [
        ("score", MODEL, "pets.csv", "-o", "a.txt"),
        ("complete", MODEL, "pets.csv", "-o", "nowhere/a.csv"),
        ("complete", MODEL, "pets.csv", "-o", "a.npy"),
        ("sample", MODEL, "-o", "out"),
        ("score", "pets.csv", "pets.csv", "-o", "a.csv"),
        ("score", MODEL, "none.csv", "-o", "a.csv"),
        ("score", MODEL, "pets.csv", "-o", "a.csv", "--key", "x"),
        ("score", MODEL, "pets.csv", "-o", "a.csv", "--device", "abacus"),
    ],
)
def test_wrong_arguments_leave_nothing(pets: Plica, words: Any) -> None:
    before = sorted(path.name for path in Path().iterdir())
    result = pets(*words)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("plica: error: ")
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.usefixtures("without_pictures")
def test_images_are_completed_and_drawn_as_images(plica: Plica, toy: str) -> None:
    assert plica("train", toy, "--out", "out", "--units", 3, "--epochs", 2, "--quiet").exit_code == 0
    images = np.load(toy).astype(np.float32)
    images[:, 2:] = np.nan
    np.save("holes.npy", images)
    assert_done(plica("complete", MODEL, "holes.npy", "-o", "full.npy"))
    full = np.load("full.npy")
    assert full.shape == images.shape
    assert full.dtype == np.float32
    np.testing.assert_array_equal(full[:, :2], images[:, :2])
    assert set(np.unique(full)) <= {0, 1, 2}
    assert_done(plica("score", MODEL, toy, "-o", "a.npy"))
    assert_done(plica("sample", MODEL, "-n", 3, "-o", "drawn.npy"))
    assert np.load("drawn.npy").shape == (3, 1, 4, 4)
    images[1, 0, 0] = 7
    np.save("wrong.npy", images)
    result = plica("score", MODEL, "wrong.npy", "-o", "b.npy")
    assert "wrong.npy, row 1, column 0 (counted from 0): 7.0 is none of the 3 states" in result.stderr
    assert not Path("b.npy").exists()


@pytest.mark.usefixtures("without_pictures")
def test_a_table_without_names_is_read_by_position(plica: Plica) -> None:
    values = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(float)
    values[3, 1] = np.nan
    np.save("rows.npy", values)
    words = ("--columns", "auto", "--units", 2, "--epochs", 1, "--quiet")
    assert plica("train", "rows.npy", "--out", "out", *words).exit_code == 0
    assert_done(plica("complete", MODEL, "rows.npy", "-o", "full.npy"))
    full = np.load("full.npy")
    assert not np.isnan(full).any()
    np.testing.assert_array_equal(full[~np.isnan(values)], values[~np.isnan(values)])


@pytest.mark.usefixtures("without_pictures")
def test_arrays_that_are_drawn_hold_the_categories_that_are_whole_numbers(plica: Plica) -> None:
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.choice([1, 2, 4], 50), rng.normal(size=50).round(2)])
    np.save("rows.npy", table)
    Path("columns.json").write_text('{"0": "categorical"}')
    words = ("--columns", "columns.json", "--units", 2, "--epochs", 1, "--quiet")
    assert plica("train", "rows.npy", "--out", "out", *words).exit_code == 0
    table[:, 1] = np.nan
    np.save("holes.npy", table)
    assert_done(plica("sample", MODEL, "-n", 30, "-o", "drawn.npy", "--quiet"))
    assert set(np.load("drawn.npy")[:, 0]) == {1, 2, 4}
    assert_done(plica("sample", MODEL, "--given", "holes.npy", "-o", "filled.npz", "--quiet"))
    np.testing.assert_array_equal(np.load("filled.npz")["rows"][:, 0], table[:, 0])
    for drawn in ("drawn.npy", "filled.npz"):
        assert_done(plica("score", MODEL, drawn, "-o", "scores.npy", "--quiet"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--missing", "?"), "add --columns auto"),
        (("--columns", "auto", "--image-shape", "1x3"), "--image-shape applies to rows of one kind"),
        (("--columns", "none.json"), "none.json: no such file"),
        (
            ("--columns", "ignored.json"),
            "every column is ignored, so there is nothing to model ('name': as said; 'pet'",
        ),
    ],
)
def test_typed_tables_that_cannot_be_trained_on(plica: Plica, words: Any, message: str) -> None:
    write("pets.csv", table())
    Path("ignored.json").write_text(json.dumps(dict.fromkeys(("name", "pet", "legs", "weight"), "ignored")))
    result = plica("train", "pets.csv", "--out", "out", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("out").exists()
