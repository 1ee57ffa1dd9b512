"""Mutual information of all pairs against plain tables of joint counts."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from plica.errors import InputError, ShapeError
from plica.templates import mutual_information
from plica.templates.mutual_information import (
    Codes,
    discrete_mutual_information,
    gaussian_mutual_information,
    information_above_chance,
    is_dependent,
)
from tests.harness.region_graphs import dependent_rows
from tests.harness.together import grouped


def by_table(rows: np.ndarray, num_states, pseudocount: float) -> np.ndarray:
    """The information of each pair from its full table, over rows that know both; 0 on the diagonal."""
    result = np.zeros((rows.shape[1], rows.shape[1]))
    for i, j in itertools.permutations(range(rows.shape[1]), 2):
        counts = np.full((num_states[i], num_states[j]), pseudocount / (num_states[i] * num_states[j]))
        for a, b in rows[:, [i, j]]:
            if not np.isnan(a + b):
                counts[int(a), int(b)] += 1
        if counts.sum() > 0:
            p = counts / counts.sum()
            ratio = p / (p.sum(axis=1, keepdims=True) * p.sum(axis=0)).clip(1e-300)
            result[i, j] = (p * np.log(ratio, where=p > 0, out=np.zeros_like(p))).sum()
    return result


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix * (1 - np.eye(len(matrix)))


@pytest.fixture(params=["products of matrices", "walks through the rows", "sorted rows"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 16 if request.param == "products of matrices" else 0
    monkeypatch.setattr(mutual_information, "_DENSE_STATES", most)
    if request.param == "sorted rows":
        monkeypatch.setattr(mutual_information, "_LARGEST_TABLE", 0)


@pytest.mark.usefixtures("method")
@grouped("missing", [0.0, 0.4])
@grouped("pseudocount", [0.0, 0.1, 4.0])
@grouped("chunk_size", [None, 1, 5])
def test_is_that_of_the_joint_counts(missing: float, pseudocount: float, chunk_size: int | None) -> None:
    rng = np.random.default_rng(0)
    rows = dependent_rows(80, 5, 4, seed=1).astype(float)
    rows[:, 3] = 2.0
    rows[rng.random(rows.shape) < missing] = np.nan
    codes = Codes.of_states("test", rows, 6)
    found = discrete_mutual_information(codes, pseudocount=pseudocount, chunk_size=chunk_size)
    np.testing.assert_allclose(off_diagonal(found), by_table(rows, [6] * 5, pseudocount), atol=1e-12)
    assert (found == found.T).all()


@pytest.mark.usefixtures("method")
def test_columns_of_unequal_numbers_of_states() -> None:
    rng = np.random.default_rng(0)
    states = np.array([2, 7, 3, 1])
    rows = np.stack([rng.integers(most, size=50) for most in states], axis=1).astype(float)
    rows[:, 2] = rows[:, 0]
    codes = Codes(rows.T.astype(np.int64), states)
    found = discrete_mutual_information(codes, pseudocount=0.5)
    np.testing.assert_allclose(off_diagonal(found), by_table(rows, states, 0.5), atol=1e-12)


@pytest.mark.usefixtures("method")
def test_pairs_that_no_row_knows_say_nothing() -> None:
    rows = np.array([[0.0, np.nan], [1.0, np.nan], [np.nan, 1.0]])
    for pseudocount in (0.0, 1.0):
        found = discrete_mutual_information(Codes.of_states("test", rows, 2), pseudocount=pseudocount)
        np.testing.assert_allclose(off_diagonal(found), 0.0, atol=1e-12)


def test_memory_is_not_that_of_all_joint_counts() -> None:
    rows = np.random.default_rng(0).integers(256, size=(400, 40))  # all tables at once: 40 * 40 * 256 * 256 numbers
    codes = Codes.of_states("test", rows)
    tracemalloc.start()
    discrete_mutual_information(codes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_columns_that_never_repeat_a_value_need_little_memory() -> None:
    rows = np.stack([np.arange(5000), np.arange(5000)[::-1], np.arange(5000) % 50], axis=1)  # 25 million joint states
    codes = Codes.of_states("test", rows)
    tracemalloc.start()
    found = discrete_mutual_information(codes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    np.testing.assert_allclose(found[[0, 0, 1], [1, 2, 2]], np.log([5000, 50, 50]))


def test_many_rows_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = Codes.of_states("test", dependent_rows(100, 6, 3, seed=0))
    whole = discrete_mutual_information(codes)
    monkeypatch.setattr(mutual_information, "_ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(discrete_mutual_information(codes), whole, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_of_normal_columns(missing: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    rows[rng.random(rows.shape) < missing] = np.nan
    found = gaussian_mutual_information("test", rows)
    for i, j in itertools.permutations(range(4), 2):
        both = rows[~np.isnan(rows[:, i] + rows[:, j])]
        assert found[i, j] == pytest.approx(-0.5 * np.log(1 - np.corrcoef(both[:, i], both[:, j])[0, 1] ** 2), abs=1e-9)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e200), (0.0, 1e-200), (1e6, 1.0), (-3e9, 1e3)])
def test_of_normal_columns_of_any_scale(shift: float, scale: float) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(100, 3))
    rows[:, 1] += rows[:, 0]
    rows[:, 2] = 0.1  # a constant says nothing
    expected = gaussian_mutual_information("test", rows)
    assert expected[0, 1] > 0.2
    assert (expected[2, :2] == 0).all()
    np.testing.assert_allclose(
        gaussian_mutual_information("test", rows * scale + shift), expected, rtol=1e-5, atol=1e-9
    )


def test_of_normal_columns_far_from_zero_with_few_known_rows() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(50, 2)) + 1e6
    rows[:, 1] += rows[:, 0]
    missing = np.full((5000, 2), np.nan)
    np.testing.assert_allclose(
        gaussian_mutual_information("test", np.concatenate([rows, missing])),
        gaussian_mutual_information("test", rows),
        rtol=1e-9,
    )


def test_bins_hold_about_as_many_rows_each() -> None:
    rows = np.random.default_rng(0).exponential(size=(1000, 1))
    rows[::10] = np.nan
    codes = Codes.of_bins("test", rows, 5)
    assert (codes.values[0, ::10] == -1).all()
    assert np.bincount(codes.values[0][codes.values[0] >= 0]).tolist() == [180] * 5
    ordered = np.argsort(rows[:, 0])[:900]
    assert (np.diff(codes.values[0][ordered]) >= 0).all()


@pytest.mark.parametrize("counts", [(90, 5, 5), (5, 90, 5), (5, 5, 90), (40, 10, 50)])
def test_equal_values_share_a_bin_and_frequent_ones_have_their_own(counts: tuple[int, ...]) -> None:
    column = np.repeat([0.0, 1.0, 2.0], counts)
    (codes,) = Codes.of_bins("test", column[:, None], 4).values
    bins = [set(codes[column == value]) for value in (0.0, 1.0, 2.0)]
    assert [len(one) for one in bins] == [1, 1, 1]
    frequent = int(np.argmax(counts))
    assert all(bins[frequent] != bins[other] for other in range(3) if other != frequent)
    assert (np.diff(codes) >= 0).all()


@pytest.mark.parametrize(("known", "bins"), [(1, 2), (19, 2), (45, 3), (500, 10), (5000, 16)])
def test_bins_are_as_many_as_the_known_rows_fill(known: int, bins: int) -> None:
    column = np.random.default_rng(0).normal(size=5000)
    column[known:] = np.nan
    codes = Codes.of_bins("test", column[:, None])
    assert codes.num_states.tolist() == [bins]
    assert len(np.unique(codes.values[0, :known])) == min(bins, known)


def test_few_values_have_a_bin_each() -> None:
    column = np.repeat([0.0, 1.0, 2.0, 3.0], [4000, 5, 3, 1])
    (codes,) = Codes.of_bins("test", column[:, None]).values
    assert codes.tolist() == column.tolist()


def test_columns_of_any_kind() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(3, size=500), rng.normal(size=500), rng.integers(9000, size=500)], axis=1)
    rows[::9] = np.nan
    codes = Codes.of_columns("test", rows, [3, None, 9000])
    assert codes.num_states.tolist() == [3, 9, 9]
    assert (codes.values[0] == np.where(np.isnan(rows[:, 0]), -1, rows[:, 0])).all()
    for column in (1, 2):
        assert (codes.values[column] == Codes.of_bins("test", rows[:, [column]]).values[0]).all()
    some = codes.of_rows(np.array([5, 5, 2]))
    assert (some.values == codes.values[:, [5, 5, 2]]).all()


def test_what_is_above_chance() -> None:
    rng = np.random.default_rng(0)
    rows = dependent_rows(300, 5, 4, seed=0).astype(float)
    rows[:, 4] = rng.integers(4, size=300)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    codes = Codes.of_states("test", rows)
    information, above = discrete_mutual_information(codes), information_above_chance(codes)
    dependent = is_dependent(codes, 0.001)
    for i, j in itertools.permutations(range(5), 2):
        both = rows[~np.isnan(rows[:, i] + rows[:, j])][:, [i, j]]
        table = np.zeros((4, 4))
        np.add.at(table, tuple(both.astype(int).T), 1)
        test = stats.chi2_contingency(table, lambda_="log-likelihood", correction=False)  # the G-test
        assert 2 * len(both) * information[i, j] == pytest.approx(test.statistic, abs=1e-8)
        assert dependent[i, j] == (test.pvalue < 0.001)
        chance = stats.chi2(9).isf(0.05) / (2 * len(both))
        assert above[i, j] == pytest.approx(information[i, j] - np.log1p(chance), abs=1e-9)
    assert 0 < dependent.sum() < dependent.size


def test_independent_columns_seldom_look_dependent() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(states, size=400) for states in (2, 3, 8) * 10], axis=1).astype(float)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    share = is_dependent(Codes.of_states("test", rows), 0.05)[np.triu_indices(30, 1)].mean()
    assert 0.02 < share < 0.08


def test_pairs_that_few_rows_know_are_not_preferred() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(8, size=(600, 3)).astype(float)
    rows[:, 1] = np.where(rng.random(600) < 0.6, rows[:, 0], rows[:, 1])
    rows[6:, 2] = np.nan  # six rows, in which all values differ: they tell as much as six rows can
    rows[:6] = np.arange(6)[:, None]
    codes = Codes.of_states("test", rows, 8)
    plain, above = discrete_mutual_information(codes), information_above_chance(codes)
    assert plain[0, 2] > plain[0, 1] > 0.4
    assert above[0, 1] > above[0, 2]


@pytest.mark.parametrize("rows", [[[np.nan, np.nan]] * 3, [[1.0, 2.0]], [[1.0, 2.0]] * 9], ids=["none", "one", "equal"])
def test_columns_without_information(rows: list[list[float]]) -> None:
    codes = Codes.of_columns("test", rows, [None, None])
    assert information_above_chance(codes)[0, 1] == 0
    assert not is_dependent(codes, 0.05)[0, 1]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Codes.of_states("f", [[0, 1], [0, -1]]), InputError, "f: row 1, column 1 holds -1, expected integers"),
        (
            lambda: Codes.of_states("f", [[0.5]]),
            InputError,
            "f: row 0, column 0 holds 0.5, expected integers from 0 on",
        ),
        (
            lambda: Codes.of_states("f", [[0], [3]], 3),
            InputError,
            "row 1, column 0 holds 3, expected the states 0 to 2",
        ),
        (lambda: Codes.of_states("f", [[np.inf]]), InputError, "row 0, column 0 holds inf"),
        (lambda: Codes.of_states("f", [0, 1]), ShapeError, r"f: expected data of shape \(rows, variables\).* \(2,\)"),
        (lambda: Codes.of_states("f", np.zeros((0, 3))), ShapeError, r"at least one of each; found \(0, 3\)"),
        (lambda: Codes.of_states("f", [["a", "b"]]), InputError, "f: the data is no table of numbers .*'a'"),
        (lambda: Codes.of_states("f", [[1, 2], [3]]), InputError, "f: the data is no table of numbers"),
        (lambda: Codes.of_bins("f", [[0.5]], 0), InputError, "f: num_bins must be at least 1, found 0"),
        (lambda: gaussian_mutual_information("f", [[np.inf]]), InputError, "f: the data holds infinite values"),
        (
            lambda: discrete_mutual_information(Codes.of_states("f", [[0]]), pseudocount=-1),
            InputError,
            "pseudocount must be at least 0, found -1",
        ),
        (
            lambda: discrete_mutual_information(Codes.of_states("f", [[0]]), chunk_size=0),
            InputError,
            "chunk_size must be at least 1, found 0",
        ),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
