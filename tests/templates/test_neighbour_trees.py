"""Trees of columns whose neighbours share most information, where not every pair is measured."""

from __future__ import annotations

import numpy as np
import pytest

from plica.errors import InputError
from plica.templates import hclt, neighbour_trees
from plica.templates.mutual_information import Codes, information_above_chance
from plica.templates.neighbour_trees import information_tree
from plica.templates.region_graph.chow_liu import maximum_spanning_tree

COLUMNS, ROWS = 500, 100


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that 500 columns exceed."""
    for name, bound in {"ALL_PAIRS": 50, "_GROUP": 32}.items():
        monkeypatch.setattr(neighbour_trees, name, bound)


def columns(states: int = 2, *, kept: float = 0.9, missing: float = 0.0) -> Codes:
    """Columns of a random tree, each of which repeats most cells of another, with other names for its states."""
    random = np.random.default_rng(0)
    values = random.integers(states, size=(COLUMNS, ROWS))
    for column in range(1, COLUMNS):
        before = values[random.integers(max(0, column - 20), column)]
        same = random.random(ROWS) < kept
        values[column, same] = random.permutation(states)[before[same]]
    shuffled = random.permutation(values)
    shuffled[random.random(shuffled.shape) < missing] = -1
    return Codes(shuffled, np.full(COLUMNS, states))


def depth_of(tree: np.ndarray) -> np.ndarray:
    """The number of steps from each column to the root; the test fails if one does not get there."""
    depths = np.zeros(len(tree), dtype=int)
    for column in range(len(tree)):
        at = column
        while tree[at] >= 0:
            at = int(tree[at])
            depths[column] += 1
            assert depths[column] < len(tree), "a circle"
    return depths


@pytest.mark.parametrize(
    "codes", [columns(), columns(5), columns(missing=0.3)], ids=["two states", "five states", "missing cells"]
)
def test_the_tree_shares_nearly_as_much_information_as_that_of_all_pairs(codes: Codes) -> None:
    information = information_above_chance(codes, pseudocount=1.0)

    def total(tree: np.ndarray) -> float:
        (ends,) = np.nonzero(tree >= 0)
        assert len(ends) == COLUMNS - 1
        return float(information[ends, tree[ends]].sum())

    tree = information_tree("test", codes)
    depth_of(tree)
    assert total(tree) > 0.97 * total(maximum_spanning_tree("test", information))
    np.testing.assert_array_equal(tree, information_tree("test", codes))


def test_columns_that_share_nothing_are_one_tree() -> None:
    codes = Codes(np.zeros((COLUMNS, 3), dtype=np.int64), np.full(COLUMNS, 2))
    codes.values[:5] = -1
    assert (information_tree("test", codes) < 0).sum() == 1
    depth_of(information_tree("test", codes))


def test_a_few_groups_that_no_edge_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_trees, "_FOREST", 1)
    monkeypatch.setattr(neighbour_trees, "_AGAIN", 0)
    tree = information_tree("test", columns())
    assert (tree < 0).sum() == 1
    depth_of(tree)


def test_the_root_is_the_given_one_or_the_centre() -> None:
    codes = columns()
    given = information_tree("test", codes, 7)
    assert given[7] == -1
    assert depth_of(information_tree("test", codes)).max() <= depth_of(given).max()
    with pytest.raises(InputError, match="root must be a variable from 0 to 499, found 500"):
        information_tree("test", codes, 500)


def test_many_rows_are_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = columns()
    monkeypatch.setattr(neighbour_trees, "_MOST_ROWS", ROWS - 1)
    information = information_above_chance(codes)
    tree = information_tree("test", codes, 0)
    assert information[np.arange(1, COLUMNS), tree[1:]].mean() > 0.2


def test_a_sketch_does_not_depend_on_the_names_of_states() -> None:
    codes = columns(4, missing=0.2)
    renamed = Codes(np.where(codes.values < 0, -1, np.array([2, 0, 3, 1])[codes.values]), codes.num_states)
    first, second = (neighbour_trees._sketches(columns, np.random.default_rng(0)) for columns in (codes, renamed))
    np.testing.assert_allclose(first, second, atol=1e-4)
    np.testing.assert_allclose((first**2).sum(axis=1), 1.0, atol=1e-4)


def test_products_of_sketches_estimate_tschuprows_t(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_trees, "_SIGNS", 20_000)
    codes = columns(3).of_variables(np.arange(12))
    sketches = neighbour_trees._sketches(codes, np.random.default_rng(0))
    hits = (codes.values[:, None] == np.arange(3)[:, None]).astype(float)  # (columns, states, rows)
    shares = hits.mean(axis=-1)
    joint = np.einsum("ian,jbn->ijab", hits, hits) / ROWS
    independent = shares[:, None, :, None] * shares[None, :, None, :]
    expected = ((joint - independent) ** 2 / independent).sum(axis=(2, 3)) / 2  # of 2 * 2 degrees of freedom
    np.testing.assert_allclose(sketches @ sketches.T, expected, atol=0.06)


def test_hidden_trees_of_wide_tables_take_this_tree() -> None:
    codes = columns()
    circuit = hclt(codes.values.T, 2)
    assert circuit.num_variables == COLUMNS
    assert len(circuit.sum_layers) == COLUMNS
