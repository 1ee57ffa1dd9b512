"""Answers of a mixture whose every number numpy and scipy give too."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

from plica.errors import InputError
from plica.tables import TableModel
from tests.tables.conftest import MEAN, PETS, PROBS, RATE, STDDEV, WEIGHT

ROWS: dict[str, Any] = {
    "x": [0.3, np.nan, -2.0, np.nan, 40.0],
    "pet": ["cat", "dog", None, None, "bird"],
    "n": [2.0, 0.0, 7.0, np.nan, np.nan],
}
WIDTH = 5


def terms(row: int, without: str = "") -> np.ndarray:
    """The logarithms of the two terms of the mixture for the known cells of a row."""
    x, pet, n = (None if name == without else ROWS[name][row] for name in ROWS)
    total = np.log(WEIGHT)
    if x is not None and x == x:
        total = total + stats.norm.logpdf(x, MEAN, STDDEV)
    if pet is not None:
        total = total + np.log(PROBS[:, PETS.index(pet)])
    if n is not None and n == n:
        total = total + stats.poisson.logpmf(n, RATE)
    return total


def given(row: int, without: str) -> np.ndarray:
    """The probabilities of the terms, given the known cells of a row but one."""
    logs = terms(row, without)
    return np.exp(logs - logsumexp(logs))


def test_score(mixture: TableModel) -> None:
    expected = [logsumexp(terms(row)) for row in range(WIDTH)]
    np.testing.assert_allclose(mixture.score(ROWS), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mixture.score(ROWS, batch=2), expected, rtol=1e-9, atol=1e-9)


def test_explain_row(mixture: TableModel) -> None:
    surprises = mixture.explain_row(ROWS)
    assert list(surprises) == ["x", "pet", "n"]
    for name, cells in ROWS.items():
        for row, cell in enumerate(cells):
            if cell is None or cell != cell:
                assert np.isnan(surprises[name][row])
            else:
                expected = logsumexp(terms(row, name)) - logsumexp(terms(row))
                np.testing.assert_allclose(surprises[name][row], expected, rtol=1e-9, atol=1e-9)


def test_predict_categories(mixture: TableModel) -> None:
    expected = np.array([given(row, "pet") @ PROBS for row in range(WIDTH)])
    without = {name: cells for name, cells in ROWS.items() if name != "pet"}
    for rows in (ROWS, without):
        frame = mixture.predict("pet", rows)
        assert list(frame) == list(PETS)
        np.testing.assert_allclose(np.stack(list(frame.values()), axis=1), expected, rtol=1e-9)


def test_predict_reals(mixture: TableModel) -> None:
    frame = mixture.predict("x", ROWS, (0.05, 0.5, 0.95))
    assert list(frame) == ["mean", "0.05", "0.5", "0.95"]
    for row in range(WIDTH):
        weights = given(row, "x")
        np.testing.assert_allclose(frame["mean"][row], weights @ MEAN, rtol=1e-9)
        for level in (0.05, 0.5, 0.95):
            expected = optimize.brentq(
                lambda x, p=level, w=weights: w @ stats.norm.cdf(x, MEAN, STDDEV) - p, -50, 50, xtol=1e-13
            )
            np.testing.assert_allclose(frame[repr(level)][row], expected, rtol=1e-9, atol=1e-9)


def test_predict_counts(mixture: TableModel) -> None:
    frame = mixture.predict("n", ROWS, [0.1, 0.9])
    numbers = np.arange(60)
    for row in range(WIDTH):
        weights = given(row, "n")
        np.testing.assert_allclose(frame["mean"][row], weights @ RATE, rtol=1e-9)
        cdf = np.cumsum(weights @ stats.poisson.pmf(numbers, RATE[:, None]))
        assert [frame["0.1"][row], frame["0.9"][row]] == [int(np.argmax(cdf >= 0.1)), int(np.argmax(cdf >= 0.9))]


def test_means_and_most_probable_categories_are_filled_in(mixture: TableModel) -> None:
    full = mixture.complete(ROWS)
    for row in range(WIDTH):
        assert full["pet"][row] == (ROWS["pet"][row] or PETS[int(np.argmax(given(row, "pet") @ PROBS))])
        if np.isnan(ROWS["x"][row]):
            np.testing.assert_allclose(full["x"][row], given(row, "x") @ MEAN, rtol=1e-9)
        if np.isnan(ROWS["n"][row]):
            assert full["n"][row] == round(given(row, "n") @ RATE)


def test_comparable_scores_are_deviations_from_the_mean_in_standard_deviations(mixture: TableModel) -> None:
    """Means and variances of surprises by enumeration and quadrature, within the noise of the draws."""
    drawn = mixture.sample(4000, seed=7)
    surprises = mixture.explain_row(drawn)
    mean = {name: float(np.mean(cells)) for name, cells in surprises.items()}
    variance = {name: float(np.var(cells)) for name, cells in surprises.items()}
    scores, own = mixture.score(ROWS, comparable=True), mixture.explain_row(ROWS)
    for row in range(WIDTH - 2):
        known = [name for name in ROWS if not np.isnan(own[name][row])]
        expected = -sum(own[name][row] - mean[name] for name in known) / np.sqrt(sum(variance[name] for name in known))
        np.testing.assert_allclose(scores[row], expected, rtol=0.1, atol=0.15)
    assert np.isnan(scores[3])
    assert scores[4] < -10


def test_comparable_scores_of_impossible_rows_are_minus_infinity(mixture: TableModel) -> None:
    """Also where the row stays impossible without its worst cell, which has no surprise then."""
    rows = {"x": [1e300, 1e300, 0.0], "pet": ["cat", None, "cat"], "n": [1.0, np.nan, 1.0]}
    scores = mixture.score(rows, comparable=True)
    assert scores[:2].tolist() == mixture.score(rows)[:2].tolist() == [-np.inf, -np.inf]
    assert np.isfinite(scores[2])


@pytest.mark.parametrize("seed", range(2))
def test_rows_with_holes_are_not_less_often_unusual(mixture: TableModel, seed: int) -> None:
    """Half of the rows have holes; of the lowest tenth by the comparable score about half do, not by log-likelihood."""
    rng = np.random.default_rng(seed)
    drawn = mixture.sample(1200, seed=seed)
    x, n = (np.asarray(drawn[name], dtype=float) for name in ("x", "n"))
    has_hole, in_x = rng.random(1200) < 0.5, rng.random(1200) < 0.5
    rows = {
        "x": np.where(has_hole & in_x, np.nan, x),
        "pet": list(drawn["pet"]),
        "n": np.where(has_hole & ~in_x, np.nan, n),
    }
    shares = [has_hole[np.argsort(mixture.score(rows, comparable=flag))[:120]].mean() for flag in (False, True)]
    assert shares[0] < 0.3
    assert 0.35 < shares[1] < 0.65


def test_what_cannot_be_predicted_is_named(mixture: TableModel) -> None:
    with pytest.raises(InputError, match=r"column legs: the model has no such column; it has x, pet, n"):
        mixture.predict("legs", ROWS)
    with pytest.raises(InputError, match=r"'pet' has categories, which have probabilities and no quantiles"):
        mixture.predict("pet", ROWS, [0.5])
    for level in (0.0, 1.0, 5.0, -0.1, np.nan):
        with pytest.raises(InputError, match="is no level; expected numbers above 0 and below 1"):
            mixture.predict("x", ROWS, [level])
    with pytest.raises(InputError, match="a level occurs twice"):
        mixture.predict("x", ROWS, [0.5, 0.5])
    with pytest.raises(InputError, match="method='median': expected one of mean, mpe, sample"):
        mixture.complete(ROWS, "median")  # type: ignore[arg-type]
    for n in (-1, 2.5, True):
        with pytest.raises(InputError, match="expected a number of rows"):
            mixture.sample(n)  # type: ignore[arg-type]


def test_no_rows(mixture: TableModel) -> None:
    empty = {"x": np.zeros(0), "pet": [], "n": np.zeros(0)}
    assert mixture.score(empty).shape == mixture.score(empty, comparable=True).shape == (0,)
    assert [len(cells) for cells in mixture.complete(empty).values()] == [0, 0, 0]
    assert [len(cells) for cells in mixture.predict("pet", empty).values()] == [0, 0, 0]
    assert [len(cells) for cells in mixture.predict("x", empty, [0.5]).values()] == [0, 0]
    assert [len(cells) for cells in mixture.explain_row(empty).values()] == [0, 0, 0]
    assert [len(cells) for cells in mixture.sample(2, empty).values()] == [0, 0, 0]
