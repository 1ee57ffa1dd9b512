"""Fitted models, and their files, which the command line reads and writes too; what bad tables are answered."""

import csv
import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, FileFormatError, InputError, PlicaError
from plica.files.datasets import Dataset
from plica.tables import TableModel, fit, load
from plica.tables.rules import choose
from tests.harness.tables_of_users import run
from tests.tables.conftest import pets_table


def write(path: Path, table: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow(["" if cell is None or cell != cell else cell for cell in row])


def read(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return {name: [row[position] for row in rows] for position, name in enumerate(header)}


def test_the_command_line_reads_a_model_of_python(pets: TableModel, tmp_path: Path) -> None:
    model, data, out = tmp_path / "m.plica", tmp_path / "pets.csv", tmp_path / "out.csv"
    table = pets_table()
    pets.save(model)
    write(data, table)
    for words, own in (((), pets.score(table)), (("--comparable",), pets.score(table, comparable=True))):
        result = run("score", model, data, "-o", out, *words)
        assert result.exit_code == 0, result.output
        name = "comparable_score" if words else "log_likelihood"
        np.testing.assert_allclose(np.array(read(out)[name], dtype=float), own, rtol=1e-5, atol=1e-5)
    loaded = load(model)
    np.testing.assert_array_equal(loaded.score(table), pets.score(table))
    assert loaded.columns == pets.columns
    for method in ("mean", "mpe", "sample"):
        assert run("complete", model, data, "-o", out, "--method", method, "--seed", 5).exit_code == 0
        full = loaded.complete(table, method, seed=5)
        assert read(out)["pet"] == full["pet"]
        np.testing.assert_allclose(np.array(read(out)["weight"], dtype=float), full["weight"], rtol=1e-6)
    assert run("sample", model, "-n", 7, "-o", out, "--seed", 2).exit_code == 0
    assert read(out)["pet"] == [*pets.sample(7, seed=2)["pet"]]
    assert run("predict", model, data, "--column", "weight", "--quantiles", ".05,.5", "-o", out).exit_code == 0
    predicted = loaded.predict("weight", table, [0.05, 0.5])
    assert list(read(out)) == ["name", "weight", "mean", "0.05", "0.5"]
    for name in ("mean", "0.05", "0.5"):
        np.testing.assert_allclose(np.array(read(out)[name], dtype=float), predicted[name], rtol=1e-6)


@pytest.mark.full
def test_python_reads_a_model_of_the_command_line(tmp_path: Path) -> None:
    data, out = tmp_path / "pets.csv", tmp_path / "out.csv"
    table = {name: cells for name, cells in pets_table().items() if name != "tame"}
    write(data, table)
    folder = tmp_path / "run"
    words = ("--columns", "auto", "--units", 2, "--epochs", 1, "--quiet")
    result = run("train", data, "--out", folder, *words)
    assert result.exit_code == 0, result.output
    model = load(folder / "model.plica")
    assert model.columns == fit(table, units=2, epochs=1).columns
    assert run("score", folder / "model.plica", data, "-o", out).exit_code == 0
    np.testing.assert_allclose(np.array(read(out)["log_likelihood"], dtype=float), model.score(table), rtol=1e-6)
    model.save(tmp_path / "again.plica")
    np.testing.assert_array_equal(load(tmp_path / "again.plica").score(table), model.score(table))


def test_next_month(pets: TableModel) -> None:
    """Another order, further columns, a larger count, a category that is new: as on the command line."""
    rows = {"weight": [3.0, None], "more": ["x", "y"], "pet": ["fish", "cat"], "tame": [True, False], "legs": [4, 90]}
    with pytest.warns(UserWarning, match=r"1 cell has a category .*'fish' in column 'pet'.*pass unknown=\"error\""):
        scores = pets.score(rows)
    np.testing.assert_array_equal(scores, pets.score(rows | {"pet": [None, "cat"]}))
    with pytest.warns(UserWarning, match="'fish'"):
        full = pets.complete(rows)
    assert list(full) == list(rows)
    assert full["pet"] == ["fish", "cat"]
    assert full["more"] == ["x", "y"]
    assert full["weight"][1] is not None
    with pytest.warns(UserWarning, match="'fish'"):
        drawn = pets.sample(2, rows)
    assert set(drawn["pet"][:2]) <= {"bird", "cat", "dog"}
    for ask in (pets.score, pets.explain_row, pets.complete, partial(pets.sample, 2), partial(pets.predict, "legs")):
        with pytest.warns(UserWarning, match="'fish'") as caught:
            ask(rows)
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(InputError, match=r"row 0 \(counted from 0\), column 'pet': 'fish' is none of the categories"):
        pets.score(rows, unknown="error")
    with pytest.raises(InputError, match=r"row 1 .*column 'legs': 'four' is no whole number"):
        pets.score(rows | {"pet": ["cat", "cat"], "legs": [4, "four"]})
    with pytest.raises(InputError, match="the model expects a column 'legs'"):
        pets.score({name: cells for name, cells in rows.items() if name != "legs"})
    with pytest.raises(InputError, match="expected 'missing' or 'error'"):
        pets.score(rows, unknown="warn")  # type: ignore[arg-type]


def test_columns_of_the_user(pets: TableModel) -> None:
    table = pets_table()
    model = fit(
        table,
        columns={"legs": {"kind": "categorical", "categories": [2, 4, 6]}, "name": "ignored", "weight": "real"},
        units=2,
        epochs=1,
    )
    assert model.columns["legs"] == "categorical"
    assert list(model.predict("legs", table)) == ["2", "4", "6"]
    with pytest.raises(InputError, match="there is no column 'leg'"):
        fit(table, columns={"leg": "real"})
    with pytest.raises(FileFormatError, match=r"column 'legs'.*expected"):
        fit(table, columns={"legs": "number"})
    with pytest.raises(InputError, match="a recipe has no 'unit'; it has structure"):
        fit(table, unit=3)
    with pytest.raises(InputError, match="there is no structure 'tree'"):
        fit(table, structure="tree")
    assert (pets.recipe is not None and pets.recipe.units, pets.recipe and pets.recipe.layer) == (3, "cp")
    assert len(pets.result.history if pets.result else ()) == 3


NO_KINDS: Any = ["legs"]
BAD_ARGUMENTS: dict[str, tuple[Any, type[Exception], str]] = {
    "kinds": (lambda _, rows: fit(rows, columns=NO_KINDS), DTypeError, "columns: expected kinds by name"),
    "seed": (lambda _, rows: fit(rows, seed=-1), InputError, "fit: seed must not be negative, found -1"),
    "seed of draws": (lambda model, _: model.sample(2, seed=1.5), DTypeError, "sample: seed must be an integer"),
    "seed of cells": (lambda model, rows: model.complete(rows, seed=-1), InputError, "complete: seed must not be"),
    "one level": (lambda model, rows: model.predict("weight", rows, 0.5), DTypeError, r"such as \(0.05, 0.95\), found"),
    "level": (
        lambda model, rows: model.predict("weight", rows, ["a"]),
        DTypeError,
        "level must be a number, found 'a'",
    ),
    "device": (lambda _, rows: fit(rows, device="meta"), InputError, r'device="meta": not available.*device="cpu"'),
    "word": (lambda model, rows: model.score({**rows, "weight": ["old"] * 60}), InputError, r"missing=\['old'\] if"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_arguments_that_are_no_arguments_are_refused(name: str, pets: TableModel) -> None:
    call, error, message = BAD_ARGUMENTS[name]
    with pytest.raises(error, match=message):
        call(pets, pets_table())


def test_a_missing_number_may_stand_alone() -> None:
    table = {"a": [-999, *range(1000, 1040)], "b": np.arange(41.0) ** 1.5}
    assert fit(table, missing=-999, units=2, epochs=1).complete(table)["a"][0] >= 0


def test_missing_words_and_numbers() -> None:
    numbers = np.where(np.arange(50) % 5 == 0, -999.0, np.arange(50.0) ** 1.5)
    table = {"a": numbers, "b": ["?" if row % 7 == 0 else "xy"[row % 2] for row in range(50)]}
    model = fit(table, missing=["-999", "?"], units=2, epochs=1)
    assert model.columns == {"a": "real", "b": "categorical"}
    full = model.complete(table)
    assert set(full["b"]) == {"x", "y"}
    assert (full["a"] >= 0.0).all()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "one row": ({"a": [1.5]}, r"1 row\(s\), expected at least 2"),
    "no rows": ({"a": []}, "holds no rows"),
    "all missing": ({"a": [None] * 9, "b": [np.nan] * 9}, "every column is ignored.*every cell is missing"),
    "infinities": ({"a": [*np.arange(30) + 0.5, np.inf]}, r"most cells are numbers and 1 of 31 are not, such as 'inf'"),
    "other types": ({"a": [[1], [2], [3]]}, "every column is ignored.*cells of the type list"),
    "words among numbers": ({"a": [*np.arange(30) + 0.5, "NA"]}, r"such as 'NA'.*say so with missing=\['NA'\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_tables_that_cannot_be_fitted_are_refused(name: str) -> None:
    table, message = BAD[name]
    with pytest.raises((InputError, FileFormatError), match=message):
        fit(table)


def test_constant_columns_empty_categories_and_rows_without_cells() -> None:
    table: dict[str, Any] = {
        "constant": [3.5] * 40,
        "word": ["same"] * 40,
        "x": [None if row in (3, 4) else float(row**2) for row in range(40)],
        "pet": ["cat" if row % 2 else None for row in range(40)],
    }
    for column in ("constant", "word"):
        table[column] = [None if row == 3 else cell for row, cell in enumerate(table[column])]
    record = {"pet": {"kind": "categorical", "categories": ["cat", "dog", "fish"]}}
    model = fit(table, columns=record, units=2, epochs=3)
    assert np.isfinite(model.score(table)).all()
    full = model.complete(table)
    assert full["word"] == ["same"] * 40
    np.testing.assert_allclose(full["constant"], 3.5, rtol=0.1)
    assert np.isnan(model.score({name: [None] for name in table}, comparable=True)).all()
    np.testing.assert_allclose(model.score({name: [None] for name in table}), 0.0, atol=1e-5)
    probabilities = np.stack(list(model.predict("pet", table).values()), axis=1)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    with pytest.raises(InputError, match="inf is no whole number"):
        model.score(table | {"x": [np.inf] * 40})


def random_column(rng: np.random.Generator, num_rows: int) -> list[Any]:
    """A column of a random kind, its cells in its least and largest values too."""
    day = datetime.date(2024, 1, 1)
    makers: list[Any] = [
        lambda: rng.exponential(2.0, num_rows).tolist(),
        lambda: (rng.exponential(2.0, num_rows) * (rng.random(num_rows) < 0.5)).tolist(),
        lambda: rng.normal(size=num_rows).tolist(),
        lambda: rng.poisson(2.0, num_rows).tolist(),
        lambda: rng.geometric(0.001, num_rows).tolist(),
        lambda: [f"{number:.2f}" for number in rng.exponential(1.0, num_rows)],
        lambda: [str(word) for word in rng.choice(["a", "b", "c"], num_rows)],
        lambda: [bool(flag) for flag in rng.random(num_rows) < 0.1],
        lambda: [day + datetime.timedelta(days=int(number)) for number in rng.integers(0, 400, num_rows)],
        lambda: [f"{number}%" for number in rng.integers(0, 100, num_rows)],
    ]
    return makers[rng.integers(len(makers))]()


@pytest.mark.parametrize(
    "seed", [24, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(40) if seed != 24)]
)
def test_nothing_is_filled_in_that_a_column_cannot_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = {f"c{position}": random_column(rng, 40) for position in range(5)}
    rows = {name: [None if rng.random() < 0.3 else cell for cell in cells] for name, cells in full.items()}
    model = fit(rows, units=2, epochs=1, learning_rate=0.5, seed=seed)
    for method in ("mean", "mpe", "sample"):
        completed = model.complete(rows, method, seed=seed)
        assert np.isfinite(model.score(completed)).all()
        for name, cells in completed.items():
            check_cells(model.columns[name], [cell for cell in rows[name] if cell is not None], cells)
        for name in (name for name, kind in model.columns.items() if kind in ("real", "count", "whole")):
            least = model.predict(name, rows, [0.01])["0.01"]
            own = [float(str(cell).rstrip("%")) for cell in full[name]]
            assert min(own) < 0 or least.min() >= 0


def check_cells(kind: str, known: list[Any], cells: list[Any]) -> None:
    assert {type(cell) for cell in cells} == {type(cell) for cell in known}
    if kind in ("categorical", "boolean"):
        assert set(cells) <= set(known) | ({True, False} if kind == "boolean" else set())
    elif isinstance(cells[0], str):
        suffix = "%" if known[0].endswith("%") else ""
        assert all(cell.endswith(suffix) for cell in cells)
        decimals = 0 if suffix else 2
        assert all(len(cell.rstrip("%").partition(".")[2]) == decimals for cell in cells)
        assert all(float(cell.rstrip("%")) >= 0 for cell in cells)
    elif kind in ("real", "count", "whole") and min(known) >= 0:
        assert min(cells) >= 0


def test_a_fit_is_what_its_seed_says_and_leaves_the_random_state_of_torch() -> None:
    import torch

    table = {"a": np.random.default_rng(0).normal(size=40), "b": ["x", "y"] * 20}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first, second, third = (fit(table, units=2, epochs=1, seed=seed).score(table) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(2), expected)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    model = fit(table, units=2, epochs=1, dtype="float64")
    assert str(model.circuit.dtype) in ("torch.float64", "float64")
    with pytest.raises(InputError, match="expected 'float32' or 'float64'"):
        fit(table, dtype="float16")


def test_a_model_prints_short(pets: TableModel) -> None:
    assert repr(pets) == "TableModel(5 columns: 1 ignored, 1 categorical, 1 whole, 1 real, 1 boolean)"


def test_a_file_of_images_is_a_model_of_numbers(tmp_path: Path) -> None:
    circuit = plica.templates.data_modalities.image_data(
        (1, 2, 2), input_layer="categorical", num_values=3, num_input_units=2, sum_product_layer="cp", num_sum_units=2
    )
    plica.save(plica.compile(circuit), tmp_path / "m.plica")
    model = load(tmp_path / "m.plica")
    rows = np.array([[0.0, 1.0, 2.0, np.nan], [np.nan, 1.0, 1.0, 0.0]])
    full = model.complete(rows)
    assert set(full.ravel()) <= {0.0, 1.0, 2.0}
    assert model.predict(3, rows).shape == (2, 3)
    np.testing.assert_allclose(model.predict("3", rows).sum(axis=1), 1.0, rtol=1e-6)
    assert model.explain_row(rows).shape == (2, 4)


def test_a_rule_is_overruled_by_what_is_chosen() -> None:
    rows = np.zeros((8, 3))
    data = Dataset("reals", rows, rows, rows, None, None)
    assert choose(data, units=None).units == 32
    assert choose(data, units=5, structure="linear-tree").structure == "linear-tree"


def test_a_hidden_tree_joins_columns_that_say_most_of_each_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (3, 120))
    table: dict[str, Any] = {name: np.where(row, "yes", "no") for name, row in zip("abc", bits, strict=True)}
    table["d"], table["e"] = table["a"].copy(), np.round(10.0 * bits[1] + rng.normal(size=120), 2)
    model = fit(table, structure="hidden-tree", units=3, epochs=40, seed=0)
    assert model.recipe is not None
    assert model.recipe.structure == "hidden-tree"
    unknown = {**table, "d": np.full(120, ""), "e": np.full(120, np.nan)}
    assert (model.complete(unknown)["d"] == table["a"]).mean() > 0.95
    assert np.abs(model.complete(unknown)["e"] - table["e"]).mean() < 1.5
    write(tmp_path / "table.csv", table)
    words = ("--columns", "auto", "--region-graph", "hidden-tree", "--units", "2", "--epochs", "1", "--quiet")
    result = run("train", tmp_path / "table.csv", "--out", tmp_path / "run", *words)
    assert result.exit_code == 0, result.output
    assert "; hidden-tree, " in result.output
    assert load(tmp_path / "run" / "model.plica").columns == dict(model.columns)


@pytest.mark.parametrize(
    "nothing", [[None, None], [float("nan")] * 2, np.full(2, np.nan), np.array([None, None], object)]
)
def test_columns_without_cells_get_cells_of_the_model_s_types(pets: TableModel, nothing: Any) -> None:
    completed = pets.complete({"pet": ["cat", "dog"], "legs": nothing, "weight": nothing, "tame": nothing})
    assert {type(cell) for name in ("legs", "weight") for cell in np.asarray(completed[name]).tolist()} <= {int, float}
    assert set(np.asarray(completed["tame"]).tolist()) <= {True, False}


def numbers_table(rows: int = 40) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=rows)
    height = rng.normal(size=rows) + 3 * group
    table: dict[str, list[Any]] = {
        "group": [("a", "b")[number] for number in group],
        "height": [round(float(value), 3) for value in height],
        "visits": [
            max(0, round(float(value + noise))) for value, noise in zip(height, rng.normal(size=rows), strict=True)
        ],
        "day": [datetime.date(2026, 1, 1) + datetime.timedelta(days=round(10 * float(value))) for value in height],
    }
    return {name: [None if rng.random() < 0.2 else cell for cell in cells] for name, cells in table.items()}


@pytest.fixture(scope="module")
def vectors() -> TableModel:
    return fit(numbers_table(), epochs=6)


def test_a_table_with_numbers_has_mixtures_of_normal_vectors(vectors: TableModel) -> None:
    assert vectors.recipe is not None
    assert (vectors.recipe.structure, vectors.recipe.members) == ("normal-mixtures", (2, 5, 5))
    predicting = fit(numbers_table(), epochs=1, target="group").recipe
    assert predicting is not None
    assert predicting.members == (1, 2, 3, 5)
    assert fit(numbers_table(), epochs=1, units=2).recipe.structure == "random-binary-tree"
    named = fit(numbers_table(), epochs=1, units=2, structure="normal-mixtures")
    assert [layer.num_output_units for layer in named.circuit.symbolic.input_layers] == [2, 2]


@pytest.mark.full
def test_numbers_that_vectors_fill_in_are_cells_of_their_columns(vectors: TableModel, tmp_path: Path) -> None:
    table = numbers_table()
    for method in ("mean", "mpe", "sample"):
        full = vectors.complete(table, method)
        assert all(isinstance(cell, int) and cell >= 0 for cell in full["visits"])
        assert all(type(cell) is datetime.date for cell in full["day"])
        known = [cell for cell in table["height"] if cell is not None]
        assert [full["height"][row] for row, cell in enumerate(table["height"]) if cell is not None] == known
    drawn = vectors.sample(200)
    assert min(drawn["visits"]) == 0
    assert all(cell == int(cell) for cell in drawn["visits"])
    answer = vectors.predict("visits", table, (0.05, 0.95))
    assert all(
        low <= mean <= high for low, mean, high in zip(answer["0.05"], answer["mean"], answer["0.95"], strict=True)
    )
    assert all(cell == int(cell) for cell in answer["0.05"])
    vectors.save(tmp_path / "model.plica")
    loaded = load(tmp_path / "model.plica")
    np.testing.assert_array_equal(loaded.score(table), vectors.score(table))
    assert loaded.complete(table) == vectors.complete(table)


def test_a_quantile_of_whole_numbers_is_the_first_whose_probability_suffices(vectors: TableModel) -> None:
    """A whole number w has the probability of w - 1/2 to w + 1/2."""
    row = {"group": ["a"], "height": [0.5], "visits": [None], "day": [None]}
    levels = (0.05, 0.5, 0.95)
    answer = vectors.predict("visits", row, levels)
    grid = np.arange(-5.0, 12.0, 0.01)
    density = _density_of_visits(vectors, grid)
    for level in levels:
        (whole,) = answer[str(level)]
        up_to = density[grid < whole + 0.5].sum() * 0.01
        before = density[grid < whole - 0.5].sum() * 0.01
        assert up_to >= level - 5e-3
        assert before < level + 5e-3 or whole == 0


def test_the_density_of_a_whole_number_is_about_the_mass_of_its_step(vectors: TableModel) -> None:
    total = _density_of_visits(vectors, np.arange(-30.0, 30.0)).sum()
    assert abs(total - 1.0) < 0.1


def _density_of_visits(model: TableModel, numbers: Any) -> Any:
    """The density of numbers of the column `visits`, given two others."""
    x = torch.full((len(numbers), 4), torch.nan, dtype=torch.float64)
    x[:, 0], x[:, 1] = 0, 0.5
    rest = plica.queries.log_likelihood(model.circuit, x)
    x[:, 2] = torch.as_tensor(numbers)
    return (plica.queries.log_likelihood(model.circuit, x) - rest).exp().detach().double().numpy()


def test_a_table_whose_only_number_has_a_distribution_of_its_own_has_no_vectors() -> None:
    table = {"visits": [0, 3, 1, 2] * 10, "group": ["a", "b", "b", "a"] * 10}
    model = fit(table, columns={"visits": {"kind": "count", "input": "poisson"}}, epochs=1)
    assert model.recipe is not None
    assert model.recipe.structure == "random-binary-tree"
    assert np.isfinite(model.score(table)).all()


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        (3, DTypeError, "members must be a sequence, found 3 of type int"),
        ([2, 2.5], DTypeError, "must be an integer, found 2.5 of type float"),
        ([0], PlicaError, "must be at least 1, found 0"),
    ],
)
def test_members_are_numbers_of_components(members: Any, error: type[Exception], message: str) -> None:
    table = {"weight": [0.5, 1.5, 2.5, 3.5] * 5}
    assert fit(table, members=[1, np.int64(2)], epochs=1).recipe.members == (1, 2)
    with pytest.raises(error, match=message):
        fit(table, members=members)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", [None, "group"])
def test_a_model_of_a_file_goes_on_as_the_model_that_was_saved(target: str | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=60)
    table = {"weight": 1e-3 * weight, "group": np.where(weight + rng.normal(size=60) > 0, "a", "b")}
    later = {"weight": 1e-3 * (1.0 - weight), "group": np.where(weight > 0, "b", "a")}
    model = fit(table, target=target, epochs=2, members=(2,), predicting_epochs=0 if target is None else 1)
    model.save(tmp_path / "model.plica")
    loaded = load(tmp_path / "model.plica")
    assert loaded.recipe == model.recipe
    before = model.predict("group", table)["a"]
    for each in (model, loaded):
        each.update(later, epochs=2)
    np.testing.assert_array_equal(model.predict("group", table)["a"], loaded.predict("group", table)["a"])
    assert np.abs(before - model.predict("group", table)["a"]).max() > 0.1
