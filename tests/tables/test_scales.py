"""Columns on a logarithmic scale: which they are, and what a fitted model answers, also for numbers of 0 and below."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plica.errors import DTypeError, InputError
from plica.files.kinds import TableColumn
from plica.tables import TableModel, fit, load
from plica.tables.rules import choose
from plica.tables.scales import is_more_likely_in_logs, on_log_scale
from tests.tables.test_rules import bits


def prices(rows: int = 80, holes: float = 0.15) -> dict[str, Any]:
    """A log-normal price, whole numbers that depend on it, a shifted normal number, and categories."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    columns: dict[str, Any] = {
        "price": np.round(np.exp(2.0 + size + 0.3 * rng.normal(size=rows)), 3),
        "area": np.round(60.0 * np.exp(0.8 * size + 0.2 * rng.normal(size=rows))) + 10.0,
        "height": np.round(3.0 - size + rng.normal(size=rows), 3),
        "kind": np.where(size > 0, "a", "b").astype(object),
    }
    for cells in columns.values():
        is_hidden = rng.random(rows) < holes
        cells[is_hidden] = None if cells.dtype == object else np.nan
    columns["area"] = [None if np.isnan(cell) else int(cell) for cell in columns["area"]]
    return columns


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fit(prices(), epochs=10)


def scales(model: TableModel) -> list[tuple[int, Any]]:
    """The number of units of each layer of vectors, and its logs."""
    layers = model.circuit.symbolic.input_layers
    return [(layer.num_output_units, layer.config["logs"]) for layer in layers if "logs" in layer.config]


def test_skewed_positive_columns_are_on_a_logarithmic_scale_but_in_the_smallest_mixture(model: TableModel) -> None:
    marks = (True, True, False)
    assert sorted(scales(model)) == [(2, None), (5, marks), (5, marks), (10, marks), (10, marks)]
    assert {logs for _, logs in scales(fit(prices(), epochs=1, logs=False))} == {None}
    assert {logs for _, logs in scales(fit(prices(), epochs=1, members=[3]))} == {None}


def test_logarithms_make_hidden_cells_more_probable(model: TableModel) -> None:
    whole = prices(holes=0.0)
    plain = fit(prices(), epochs=10, logs=False)
    assert model.score(whole).mean() > plain.score(whole).mean() + 0.2


def test_answers_for_columns_on_a_logarithmic_scale(model: TableModel, tmp_path: Path) -> None:
    table = prices()
    for method in ("mean", "mpe", "sample"):
        full = model.complete(table, method)
        assert np.isfinite(full["price"]).all()
        assert all(isinstance(cell, int) and cell >= 0 for cell in full["area"])
    answer = model.predict("price", table, (0.05, 0.5, 0.95))
    assert (answer["0.05"] < answer["0.5"]).all()
    assert (answer["0.5"] < answer["0.95"]).all()
    drawn = np.asarray(model.sample(2000)["price"])
    assert (drawn >= 0).all()
    known = table["price"][~np.isnan(table["price"])]
    assert stats.ks_2samp(drawn, known).pvalue > 1e-3
    explained = model.explain_row({name: [cells[0]] for name, cells in prices(holes=0.0).items()})
    assert np.isfinite(np.array(list(explained.values()), dtype=float)).all()
    model.save(tmp_path / "model.plica")
    loaded = load(tmp_path / "model.plica")
    np.testing.assert_array_equal(loaded.score(table), model.score(table))
    assert loaded.recipe == model.recipe


@pytest.mark.full
def test_numbers_of_0_and_below_have_a_probability_and_are_learned(model: TableModel) -> None:
    row = {"price": [0.0, -3.5, 0.0], "area": [None, 100, 0], "height": [2.5, None, 3.0], "kind": ["a", None, "b"]}
    assert np.isfinite(model.score(row)).all()
    assert np.isfinite(model.score(row, comparable=True)).all()
    full = model.complete(row)
    assert full["price"][:2] == [0.0, -3.5]
    assert full["height"][1] is not None
    assert np.isfinite(list(model.predict("area", row, (0.1, 0.9)).values())).all()
    other = fit(prices(), epochs=1)
    table = prices()
    before = other.score(row)
    table["price"][:10] = 0.0
    other.update(table, epochs=2)
    assert other.score(row)[0] > before[0]


def column(kind: str, **settings: Any) -> TableColumn:
    return TableColumn("x", kind, **settings)  # type: ignore[arg-type]  # a name of a kind


SKEWED = np.exp(np.linspace(3.0, 7.0, 60))


@pytest.mark.parametrize(
    ("described", "cells", "expected"),
    [
        (column("real"), SKEWED, True),
        (column("real"), 1e-6 * SKEWED, True),
        (column("real"), 1e-50 * SKEWED, False),  # 0 in float32
        (column("real"), np.append(SKEWED, np.nan), True),
        (column("real"), np.append(SKEWED, 0.0), False),
        (column("real"), np.append(SKEWED, -1.0), False),
        (column("real"), np.append(SKEWED, np.inf), False),
        (column("real"), np.resize(SKEWED[::6], 60), False),  # ten different values
        (column("real"), np.resize(SKEWED[:55:5], 60), True),  # eleven
        (column("real"), 1e6 + SKEWED, False),  # a gain below 0.02 nats
        (column("real"), np.linspace(1.0, 9.0, 60), False),
        (column("real"), np.full(60, np.nan), False),
        (column("whole"), np.round(SKEWED), True),
        (column("count"), np.round(SKEWED), True),
        (column("whole"), np.round(SKEWED) - 11.0, False),  # from 9 on
        (column("whole", origin=5), np.round(SKEWED), False),
        (column("date"), np.round(SKEWED), False),
        (column("timestamp"), SKEWED, False),
        (column("time"), SKEWED, False),
    ],
)
def test_columns_on_a_logarithmic_scale(described: TableColumn, cells: Any, expected: bool) -> None:
    assert on_log_scale([described], cells[:, None]) == [expected]


def test_the_gain_is_that_of_the_likelihoods_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 1.0, 3.0, 4.0, 4.4, 4.8, 6.0, 30.0):
        values = rng.lognormal(size=200) + shift
        logs = np.log(values)
        plain = stats.norm(values.mean(), values.std()).logpdf(values).mean()
        other = stats.lognorm(logs.std(), scale=np.exp(logs.mean())).logpdf(values).mean()
        assert is_more_likely_in_logs(values) == (other - plain > 0.02)


def test_logs_are_a_setting_of_mixtures_alone() -> None:
    with pytest.raises(InputError, match="has no setting 'logs'"):
        choose(bits(30, 10), logs=False)
    with pytest.raises(DTypeError, match="logs must be True or False"):
        fit({"weight": [0.5, 1.5, 2.5, 3.5] * 5}, logs="price")
