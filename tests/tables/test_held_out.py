"""Figures of hidden cells, against predictions of the same cells."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm, poisson

import plica
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, PoissonLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter
from plica.tables import fit
from plica.tables.held_out import HIDDEN, held_out
from plica.tables.model import Model


@pytest.fixture(scope="module")
def pets() -> tuple[np.ndarray, dict[str, list[object]]]:
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=240)
    weights = np.where(kinds == 0, 4.0, 20.0) + rng.normal(size=240)
    weights[::7] = np.nan
    return np.column_stack([kinds, weights]), {
        "kind": [("cat", "dog")[kind] for kind in kinds],
        "weight": [None if np.isnan(weight) else float(weight) for weight in weights],
    }


def test_figures_are_those_of_predictions(pets) -> None:
    rows, table = pets
    model = fit(table, columns={"kind": "categorical", "weight": "real"}, epochs=5)
    train, test = rows[:120], rows[120:]
    kind, weight = held_out(model._model, train, test, seed=3)
    hidden = (np.random.default_rng(3).random(test.shape) < HIDDEN) & ~np.isnan(test)
    assert [column.cells for column in (kind, weight)] == hidden.sum(axis=0).tolist()
    cells = np.where(hidden, np.nan, test)
    frame = {
        "kind": [None if np.isnan(cell) else ("cat", "dog")[int(cell)] for cell in cells[:, 0]],
        "weight": [None if np.isnan(cell) else float(cell) for cell in cells[:, 1]],
    }
    of_kind, of_weight = hidden.T
    probabilities = np.array(list(model.predict("kind", frame).values()), dtype=float).T[of_kind]
    assert kind.right == pytest.approx((probabilities.argmax(axis=1) == test[of_kind, 0]).mean())
    assert kind.expected == pytest.approx(probabilities.max(axis=1).mean())
    assert (kind.error, kind.covered, weight.right, weight.expected) == (None, None, None, None)
    answer = model.predict("weight", frame, (0.05, 0.95))
    mean, low, high = (np.array(column, dtype=float)[of_weight] for column in answer.values())
    values = test[of_weight, 1]
    scale = np.sqrt(((values - np.nanmean(train[:, 1])) ** 2).mean())
    assert weight.error == pytest.approx(np.sqrt(((mean - values) ** 2).mean()) / scale, rel=1e-5)
    assert weight.covered == pytest.approx(((low <= values) & (values <= high)).mean())
    assert not held_out(model._model, train, np.full((3, 2), np.nan), seed=0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(4))
def test_figures_are_those_of_sums_over_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, states = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    weight, probs = rng.dirichlet(np.ones(units)), rng.dirichlet(np.ones(states), units)
    mean, stddev, rate = rng.normal(size=units) * 3, rng.uniform(0.2, 2.0, units), rng.uniform(0.5, 6.0, units)
    layers: list[Any] = [
        GaussianLayer(
            [0], units, mean=ConstantParameter(units, value=mean), stddev=ConstantParameter(units, value=stddev)
        ),
        CategoricalLayer([1], units, num_categories=states, probs=ConstantParameter(units, states, value=probs)),
        PoissonLayer([2], units, rate=ConstantParameter(units, value=rate)),
    ]
    product, total = HadamardLayer(units, 3), SumLayer(units, 1, weight=ConstantParameter(1, units, value=weight[None]))
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    names = tuple(f"c{state}" for state in range(states))
    columns = (TableColumn("x", "real"), TableColumn("c", "categorical", names), TableColumn("n", "count"))
    model = Model(plica.compile(circuit, dtype=torch.float64).eval(), Encoding(columns), None)
    kinds = rng.integers(units, size=80)
    rows = np.column_stack(
        [rng.normal(mean[kinds], stddev[kinds]), rng.integers(states, size=80), rng.poisson(rate[kinds])]
    )
    rows = np.where(rng.random(rows.shape) < 0.15, np.nan, rows)
    train, test = rows[:20], rows[20:]
    hidden = (np.random.default_rng(seed).random(test.shape) < HIDDEN) & ~np.isnan(test)

    def shares(row: Any) -> Any:
        likelihood = weight.copy()
        if not np.isnan(row[0]):
            likelihood = likelihood * norm.pdf(row[0], mean, stddev)
        if not np.isnan(row[1]):
            likelihood = likelihood * probs[:, int(row[1])]
        if not np.isnan(row[2]):
            likelihood = likelihood * poisson.pmf(row[2], rate)
        return likelihood / likelihood.sum()

    posteriors = np.array([shares(row) for row in np.where(hidden, np.nan, test)])
    figures = {column.column: column for column in held_out(model, train, test, seed)}
    for variable, (name, means) in enumerate({"x": mean, "c": mean, "n": rate}.items()):
        cells, of = test[hidden[:, variable], variable], posteriors[hidden[:, variable]]
        assert figures[name].cells == len(cells)
        if name == "c":
            assert figures[name].right == pytest.approx(((of @ probs).argmax(axis=1) == cells).mean())
            assert figures[name].expected == pytest.approx((of @ probs).max(axis=1).mean())
            continue
        law = norm(mean, stddev) if name == "x" else poisson(rate)
        up_to = (of * law.cdf(cells[:, None])).sum(axis=1)
        below = up_to if name == "x" else (of * law.cdf(cells[:, None] - 1)).sum(axis=1)
        assert figures[name].covered == pytest.approx(((up_to >= 0.05) & (below < 0.95)).mean())
        error = np.sqrt(((of @ means - cells) ** 2).mean() / ((cells - np.nanmean(train[:, variable])) ** 2).mean())
        assert figures[name].error == pytest.approx(error)


def test_a_column_of_one_value_has_no_error_and_lies_in_its_intervals() -> None:
    x = np.random.default_rng(0).normal(size=200)
    table = {"x": x, "tenth": np.full(200, 0.1), "far": np.full(200, 1234567.1)}
    rows = np.column_stack(list(table.values()))
    _, *constant = held_out(fit(table, epochs=1, members=(2,))._model, rows[:100], rows[100:], seed=0)
    assert [(column.error, column.covered) for column in constant] == [(None, 1.0)] * 2


def test_a_column_without_quantiles_takes_no_figures_of_others() -> None:
    x = np.random.default_rng(0).normal(size=(2, 200))
    rows = np.column_stack([x[0] * 1e30, x[1]])
    model = fit({"large": rows[:, 0], "x": rows[:, 1]}, epochs=1, members=(2,))._model
    large, other = held_out(model, rows[:100], rows[100:], seed=0)  # variances of 1e60 are none of float32
    assert large.covered is None
    assert large.error == pytest.approx(1.0, abs=0.2)
    assert other.covered is not None


def test_rows_of_probability_zero_have_no_figures_and_take_none_of_others() -> None:
    probs = ConstantParameter(1, 3, value=np.array([[0.25, 0.75, 0.0]]))
    layers = [CategoricalLayer([variable], 1, num_categories=3, probs=probs) for variable in range(2)]
    product = HadamardLayer(1, 2)
    columns = tuple(TableColumn(name, "categorical", ("a", "b", "c")) for name in "xy")
    circuit = plica.compile(Circuit([*layers, product], {product: layers}, [product]))
    model = Model(circuit.eval(), Encoding(columns), None)
    rows = np.random.default_rng(0).integers(2, size=(60, 2)).astype(float)
    figures = held_out(model, rows, rows, seed=1)
    impossible = np.full((60, 2), 2.0)  # a row has a figure where all its cells of the third category are hidden
    hidden = np.random.default_rng(1).random((120, 2))[60:] < HIDDEN
    beside = held_out(model, rows, np.concatenate([rows, impossible]), seed=1)
    assert [after.cells - before.cells for before, after in zip(figures, beside, strict=True)] == [
        hidden.all(axis=1).sum()
    ] * 2
