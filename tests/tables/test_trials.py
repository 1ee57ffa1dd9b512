"""Held-out cells choose how strong the prior of normal mixtures is, and how wide their covariances are."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import plica
from plica.errors import InputError
from plica.files.datasets import Dataset
from plica.learn import run
from plica.symbolic.layers import MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.tables import fit, trials
from plica.tables.recipe import Recipe
from plica.templates.fitted import tensor

NAN = np.nan


def test_the_best_factor_is_that_of_the_conditional_density_of_hidden_cells() -> None:
    mean, factor = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 0, 0], [0.75, 0.5, 0], [-0.25, 0.5, 2.0]])
    of_mean, of_factor = (Parameter.from_input(tensor(value[None])) for value in (mean, factor))
    layer = MultivariateGaussianLayer([0, 1, 2], 1, mean=of_mean, scale_tril=of_factor)
    mix = SumLayer(1, 1)
    circuit = plica.Circuit([layer, mix], {mix: [layer]}, [mix])
    covariance = factor @ factor.T
    rows = np.random.default_rng(0).normal(size=(6, 3)) @ factor.T + mean
    holed = rows.copy()
    holed[:3, 0] = holed[3, 1] = holed[3, 2] = NAN

    def density(row: Any, factor: float) -> float:
        known = np.flatnonzero(~np.isnan(row))
        normal = multivariate_normal(mean[known], factor * covariance[np.ix_(known, known)])
        return float(normal.logpdf(row[known]))

    factors = (0.25, 1.0, 3.0)
    expected = [np.mean([density(a, f) - density(b, f) for a, b in zip(rows, holed, strict=True)]) for f in factors]
    for number in range(1, 4):
        model = plica.compile(circuit).double()
        chosen, score = trials._best_widening(model, rows, holed, factors[:number])
        best = int(np.argmax(expected[:number]))
        assert chosen == factors[best]
        assert score == pytest.approx(expected[best], abs=1e-9)


def test_cells_are_hidden_but_in_columns_that_are_constant_or_hardly_known() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 4))
    rows[:, 1], rows[19:, 2], rows[:40, 3] = 5.0, NAN, NAN
    data = Dataset("table", rows[:350], rows[350:], rows[:0], None, None)
    first, second = (trials._with_hidden_cells(data, seed) for seed in (0, 1))
    seen = np.concatenate([first.train, first.valid])
    np.testing.assert_array_equal(seen[:, 1:3], rows[:, 1:3])
    known = np.isfinite(rows[:, [0, 3]])
    assert 0.1 < np.isnan(seen[:, [0, 3]])[known].mean() < 0.2
    shown = np.isfinite(seen)
    np.testing.assert_array_equal(seen[shown], rows[shown])
    assert (np.isnan(first.train) != np.isnan(second.train)).any()
    np.testing.assert_array_equal(first.train, trials._with_hidden_cells(data, 0).train)
    assert len(first.valid) == 50


def test_trials_draw_rows_of_large_tables() -> None:
    rows = np.arange(2000.0 + 500)[:, None]
    data = Dataset("table", rows[:2200], rows[2200:], rows[:0], None, None)
    drawn = trials._drawn(data, 0)
    assert drawn.train.shape == (2000, 1)
    assert len(drawn.valid) == 0
    assert len(np.unique(drawn.train)) == 2000
    assert drawn.train.max() > 2200  # of the validation rows too
    small = replace(data, train=rows[:1500])
    assert trials._drawn(small, 0) is small


def bent(rows: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=rows)
    columns = {"x": x, "square": x**2, "wave": np.sin(3 * x), "other": rng.normal(size=rows)}
    return {name: [float(cell) for cell in column] for name, column in columns.items()}


def noise(rows: int) -> dict[str, list[Any]]:
    return {f"n{number}": list(np.random.default_rng(number).normal(size=rows)) for number in range(8)}


def recipe_of(table: dict[str, list[Any]], **chosen: Any) -> Recipe:
    recipe = fit(table, epochs=3, members=(8,), **chosen).recipe
    assert recipe is not None
    return recipe


def test_numbers_that_depend_on_each_other_in_many_ways_get_a_weak_prior_and_noise_the_usual_one() -> None:
    recipe = recipe_of(bent(143))
    assert recipe.pseudocount == 0.25
    independent = recipe_of(noise(143))
    assert independent.pseudocount is None
    assert independent.widening in trials._WIDENINGS


def test_what_is_given_or_cannot_be_tried_is_not_chosen() -> None:
    usual = recipe_of(bent(100))
    assert (usual.pseudocount, usual.widening) == (None, None)  # 14 validation rows
    assert recipe_of(bent(150), structure="normal-mixtures", pseudocount=0.5) == replace(usual, pseudocount=0.5)
    for given in (2, np.float32(2)):
        assert recipe_of(bent(150), widening=given).widening == 2
    for wrong in (0, -1.0, NAN, "1"):
        with pytest.raises(InputError, match="widening: expected a finite factor of more than 0"):
            fit(bent(30), widening=wrong)
    with pytest.raises(InputError, match="has no setting 'widening'"):
        fit(bent(30), structure="linear-tree", widening=1.0)


def test_fits_leave_random_generators_and_data_as_they_are() -> None:
    table: dict[str, Any] = {name: np.array(column) for name, column in bent(143).items()}
    kept = {name: column.copy() for name, column in table.items()}
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"]
    recipe_of(table)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state(legacy=False)["state"]["key"])
    for name, column in table.items():
        np.testing.assert_array_equal(column, kept[name])


def test_scales_of_columns_change_no_choice() -> None:
    table = bent(143)
    usual = recipe_of(table)
    scales = dict(zip(table, (1e-8, 1.0, 1e8, 1e4), strict=True))
    scaled = {name: [scales[name] * cell for cell in column] for name, column in table.items()}
    for dtype in ("float32", "float64"):
        assert recipe_of(scaled, dtype=dtype) == usual


@pytest.mark.parametrize("epoch", [1, 6, 12])
def test_an_interrupt_in_a_trial_ends_the_fit(epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs, next_epoch = itertools.count(1), run.Run._next_epoch

    def interrupted(self: run.Run) -> None:
        if next(epochs) == epoch:
            raise KeyboardInterrupt
        next_epoch(self)

    monkeypatch.setattr(run.Run, "_next_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(noise(143), epochs=8, members=(2,))
    assert next(epochs) == epoch + 1
