"""Hidden cells, their figures, and methods that fill them in."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from plica.bench.completions import Completion, Filled, Method
from plica.bench.figures import measure
from plica.bench.imputers import Imputer, MeanMode, MultipleImputer, nearest
from plica.bench.sets import SETS, Array, Column, MixedTable, table_of
from plica.bench.tables import hide, mean_figure, summary, trials
from plica.extras import require
from tests.harness.pairwise import first_usual

NAN = math.nan
PETS = table_of({"size": [1.0, 2.0, 3.5, 6.0], "pet": ["cat", "dog", "cat", ""], "legs": ["4", "4", "2", None]})


def test_a_table_of_cells() -> None:
    assert PETS.columns == (Column("size"), Column("pet", ("cat", "dog")), Column("legs"))
    np.testing.assert_array_equal(PETS.values, [[1, 0, 4], [2, 1, 4], [3.5, 0, 2], [6, NAN, NAN]])
    assert [PETS.is_whole(position) for position in (0, 2)] == [False, True]


def test_numbers_that_are_codes_of_categories() -> None:
    table = table_of({"code": ["7", "3", "7"]}, ("code",))
    assert table.columns == (Column("code", ("3", "7")),)
    assert table.values[:, 0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", first_usual([name for name, row in SETS.items() if row.is_there], 4))
def test_tables_of_packages(name: str) -> None:
    table = SETS[name].load()
    assert not SETS[name].target or table.columns[[c.name for c in table.columns].index(SETS[name].target)].categories
    for position, column in enumerate(table.columns):
        known = table.values[:, position][~np.isnan(table.values[:, position])]
        assert len(np.unique(known)) > 1
        if column.categories:
            assert set(known) == set(range(len(column.categories)))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_hidden_cells_are_known_and_leave_two(share: float) -> None:
    values = np.random.default_rng(0).normal(size=(400, 3))
    values[::2, 1] = NAN
    values[2:, 2] = NAN
    hidden = hide(MixedTable((Column("a"), Column("b"), Column("c")), values), share, seed=3)
    assert not hidden[np.isnan(values)].any()
    assert ((~np.isnan(values) & ~hidden).sum(axis=0) >= 2).all()
    assert abs(hidden[:, 0].mean() - min(share, 398 / 400)) < 0.06


def test_masks_depend_on_seed_and_share_alone() -> None:
    table = MixedTable((Column("a"),), np.arange(100.0)[:, None])
    np.testing.assert_array_equal(hide(table, 0.3, 1), hide(table.replaced(table.values * 2), 0.3, 1))
    assert (hide(table, 0.3, 1) != hide(table, 0.3, 2)).any()


class Known(Completion):
    """Answers that a test gives: one normal distribution for all numbers, one category."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def filled(self) -> Array:
        return self.values

    def log_probability(self, position: int, rows: Array, values: Array) -> Array:
        return np.log([0.25] * len(rows)) if position == 1 else norm(2.0, 3.0).logpdf(values)

    def interval(self, position: int, rows: Array, low: float, high: float) -> tuple[Array, Array]:
        assert (position, low, high) == (0, 0.05, 0.95)
        return np.full(len(rows), 0.0), np.full(len(rows), 4.0)


def test_figures_by_hand() -> None:
    table = MixedTable(
        (Column("x"), Column("k", ("a", "b"))), np.array([[1.5, 0], [2.5, 1], [4.5, 1], [0.5, 0], [-1.0, 1]])
    )
    hidden = np.array([[False, True], [False, True], [True, False], [True, False], [False, True]])
    answers = np.array([[1.5, 0], [2.5, 0], [3.5, 1], [1.5, 0], [-1.0, 1]])
    found = measure(table, hidden, Known(answers))
    mean = (1.5 + 2.5 - 1.0) / 3
    stddev = np.std([1.5, 2.5, -1.0])
    assert found.error == pytest.approx(1.0 / math.sqrt(((4.5 - mean) ** 2 + (0.5 - mean) ** 2) / 2))
    assert found.right == pytest.approx(2 / 3)
    assert found.log_categories == pytest.approx(math.log(0.25))
    assert found.log_numbers == pytest.approx(norm(2, 3).logpdf([4.5, 0.5]).mean() + math.log(stddev))
    assert found.covered == 0.5


def test_the_error_of_the_mean_is_one_and_its_categories_the_most_frequent() -> None:
    rng = np.random.default_rng(1)
    table = MixedTable(
        (Column("x"), Column("k", ("a", "b", "c"))),
        np.stack([rng.normal(5, 2, 300), rng.choice(3, 300, p=[0.2, 0.7, 0.1]).astype(float)], axis=1),
    )
    hidden = hide(table, 0.4, 0)
    holed = table.replaced(np.where(hidden, NAN, table.values))
    completion = MeanMode().complete(holed, 0)
    found = measure(table, hidden, completion)
    assert found.error == pytest.approx(1.0, abs=1e-12)
    assert found.right == pytest.approx((table.values[hidden[:, 1], 1] == 1).mean())
    assert found.covered is not None
    assert abs(found.covered - 0.9) < 0.07
    rows = np.arange(3)
    logarithms = completion.log_probability(1, rows, np.arange(3.0))
    assert logarithms is not None
    shares = np.exp(logarithms)
    counts = np.bincount(holed.values[~hidden[:, 1], 1].astype(int)) + 1
    np.testing.assert_allclose(shares, counts / counts.sum())


def test_nearest_neighbours_are_those_of_scikit_learn() -> None:
    values = np.random.default_rng(0).normal(3, 2, (40, 3))
    values[np.random.default_rng(1).random(values.shape) < 0.2] = NAN
    mean, stddev = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    expected = require("sklearn.impute").KNNImputer().fit_transform((values - mean) / stddev) * stddev + mean
    table = MixedTable((Column("a"), Column("b"), Column("c")), values)
    np.testing.assert_allclose(Imputer(nearest).complete(table, 0).filled(), expected, atol=1e-12)


def test_categories_of_imputers_are_those_of_the_neighbours() -> None:
    """Rows near 0 are `a`, near 10 `b`, near 20 `c`: the missing cells are too."""
    numbers = np.repeat([0.0, 10.0, 20.0], 8) + np.tile(np.linspace(0, 1, 8), 3)
    kinds = np.repeat([0.0, 1.0, 2.0], 8)
    lacking = kinds.copy()
    lacking[[3, 12, 20]] = NAN
    table = MixedTable((Column("x"), Column("k", ("a", "b", "c"))), np.stack([numbers, lacking], axis=1))
    np.testing.assert_array_equal(Imputer(nearest).complete(table, 0).filled()[:, 1], kinds)


class Fails(Method):
    """A method that cannot learn."""

    def complete(self, table: MixedTable, seed: int) -> Completion:
        raise ValueError(f"{len(table.columns)} columns, seed {seed}")


class Twice(Method):
    """Fills in the seed, so that a test sees which trial it was."""

    def complete(self, table: MixedTable, seed: int) -> Completion:
        return Filled(np.where(np.isnan(table.values), seed, table.values))


def test_trials_go_on_when_a_method_fails() -> None:
    table = MixedTable((Column("x"),), np.arange(30.0)[:, None])
    results = list(trials({"t": table}, {"fails": Fails(), "twice": Twice()}, (0.2, 0.5), (4, 5)))
    assert [(r.share, r.seed, r.method) for r in results] == [
        (share, seed, method) for share in (0.2, 0.5) for seed in (4, 5) for method in ("fails", "twice")
    ]
    assert results[0].figures is None
    assert results[0].failure == "ValueError: 1 columns, seed 4"
    assert results[1].figures is not None
    assert results[1].figures.log_numbers is None
    assert mean_figure(results, "error", "t", 0.2, "fails") is None
    errors = [r.figures.error for r in results if r.figures is not None and r.share == 0.2]
    assert mean_figure(results, "error", "t", 0.2, "twice") == pytest.approx(np.mean([e for e in errors if e]))
    head, first, second = summary(results, "error").splitlines()
    assert head.split() == ["table", "holes", "fails", "twice"]
    assert first.split()[:3] == ["t", "20%", "-"]
    assert second.split()[1] == "50%"


def test_draws_of_an_imputer_are_normal_distributions_and_shares() -> None:
    class Constant:
        """Fills in a number in place of each hole, of standardized columns."""

        def __init__(self, number: float) -> None:
            self.number = number

        def fit_transform(self, matrix: Array) -> Array:
            return np.where(np.isnan(matrix), self.number, matrix)

    table = table_of({"size": [1.5, 3.5, None], "pet": ["cat", "dog", ""], "legs": [2, 4, None]})
    completion: Any = MultipleImputer(Constant, draws=3).complete(table, 1)  # numbers 3, 4 and 5 standard deviations
    row = np.array([2])
    np.testing.assert_allclose(completion.filled()[2], [2.5 + 4, 1, 3 + 4])
    sizes = completion.log_probability(0, row, np.array([7.0]))
    np.testing.assert_allclose(sizes, norm(6.5, 1).logpdf([7.0]))
    legs = completion.log_probability(2, row, np.array([6.0]))
    np.testing.assert_allclose(legs, np.log(norm(7, 1).cdf(6.5) - norm(7, 1).cdf(5.5)))
    pets = [completion.log_probability(1, row, np.array([code])) for code in (0.0, 1.0)]
    np.testing.assert_allclose(np.exp(pets).ravel(), [0.5 / 4, 3.5 / 4])
    np.testing.assert_allclose(completion.interval(0, row, 0.05, 0.95), 6.5 + norm.ppf([[0.05], [0.95]]))
