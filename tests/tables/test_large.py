"""Tables of more rows than are held: their parts, what is fitted to them, and runs of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plica.data import NumberRows, Rows
from plica.files.datasets import Dataset
from plica.tables import fit, large
from plica.tables.data_sets import from_typed
from plica.tables.recipe import Recipe
from plica.tables.rules import candidates
from plica.tables.trials import decide
from tests.harness.tables_of_users import run

ROWS = 1200


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that 1,200 rows exceed."""
    for name, bound in {
        "_MOST_HELD_CELLS": 2000,
        "_MOST_HELD_ROWS": 500,
        "_HELD_OUT_ROWS": 120,
        "_SAMPLE_ROWS": 200,
    }.items():
        monkeypatch.setattr(large, name, bound)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    group = random.integers(0, 2, ROWS)
    table = pa.table(
        {
            "weight": pa.array(random.normal(3.0 * group, 1.0), mask=random.random(ROWS) < 0.1),
            "height": random.normal(-2.0 * group, 1.0),
            "pet": pa.array(np.asarray(["cat", "dog"])[group ^ (random.random(ROWS) < 0.1)]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    return tmp_path / "rows.parquet"


def rows_of(values: Any) -> set[tuple[float, ...]]:
    return set(map(tuple, np.nan_to_num(np.asarray(values), nan=-99.0).tolist()))


def test_parts_are_every_row_once_and_the_sample_is_of_the_training_rows(path: Path) -> None:
    data = from_typed(path, records={}, seed=1)
    assert data.streamed is not None
    assert data.encoding is not None
    everything = rows_of(np.concatenate(list(NumberRows(Rows(path), data.encoding).batches())))
    train, with_valid = (
        rows_of(np.concatenate(list(stream.batches()))) for stream in (data.streamed.train, data.streamed.with_valid)
    )
    valid, test, sample = map(rows_of, (data.valid, data.test, data.train))
    assert len(everything) == ROWS == len(train) + len(valid) + len(test)
    assert train | valid | test == everything
    assert with_valid == train | valid
    assert sample < train
    assert 80 < len(valid) < 160 > len(test) > 80
    assert 150 < len(sample) < 250
    values = np.concatenate(list(data.streamed.train.batches()))
    assert data.num_train == len(values)
    np.testing.assert_array_equal(data.num_missing, np.isnan(values).sum(axis=0))
    without_test = from_typed(path, records={}, seed=2)
    assert rows_of(without_test.valid) != valid


def test_recipes_follow_from_all_rows_and_trials_from_the_sample(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = from_typed(path, records={})
    asked: list[Dataset] = []
    monkeypatch.setattr("plica.tables.trials.candidates", lambda data, **_: asked.append(data) or (Recipe(),))
    decide(data, seed=0, dtype="float32")
    assert asked[0].num_train == data.num_train > len(data.train)
    monkeypatch.undo()
    tried: list[Recipe] = []

    def hear(text: str, *about: Any) -> None:
        tried.extend(about[: text.startswith("tried")])

    monkeypatch.setattr("plica.tables.trials.LOGGER.info", hear)
    best = decide(data, seed=0, dtype="float32", members=(2,))
    assert tried == list(candidates(data, members=(2,)))
    assert len(tried) == 2
    assert best.widening is not None


@pytest.mark.full
def test_a_fit_of_rows_is_as_good_as_one_that_holds_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pq.read_table(path)
    chosen: dict[str, Any] = {"members": (2,), "epochs": 5, "pseudocount": 1.0}
    streamed = fit(Rows(path), **chosen)
    held = fit(table, **chosen)
    assert streamed.columns == held.columns == {"weight": "real", "height": "real", "pet": "categorical"}
    scores = [model.score(table).mean() for model in (streamed, held)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert streamed.result is not None
    before = streamed.result.history[-1].valid
    streamed.update(Rows(path), epochs=2)
    assert streamed.result.history[-1].valid >= before - 0.01
    monkeypatch.setattr(large, "_MOST_HELD_CELLS", 10**6)
    small = fit(Rows(path), **chosen)  # few rows are held, and split as those of tables
    assert small.score(table).tolist() == pytest.approx(held.score(table).tolist(), abs=1e-5)


def test_the_command_reports_all_rows(path: Path) -> None:
    out = path.parent / "out"
    done = run("train", path, "--out", out, "--columns", "auto", "--units", 4, "--epochs", 1, "--quiet")
    assert done.exit_code == 0, done.output
    report = json.loads((out / "report.json").read_text())
    data = from_typed(path, records={})
    recipe = Recipe.of_json(report["recipe"])
    learned = data.num_train + (0 if recipe.holds_out else len(data.valid))
    assert report["data"]["train"] == learned
    assert [column["missing"] for column in report["data"]["columns"]] == data.num_missing.tolist()
    assert np.isfinite(report["bits_per_dimension"]["train"])
