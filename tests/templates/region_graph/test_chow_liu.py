"""Chow-Liu trees against networkx, and what their region graphs look like."""

import networkx
import numpy as np
import pytest

from plica.errors import InputError, ShapeError
from plica.templates.mutual_information import Codes, discrete_mutual_information
from plica.templates.region_graph import ChowLiuTree
from plica.templates.region_graph.chow_liu import centre, maximum_spanning_tree, rooted, tree_region_graph
from tests.harness.region_graphs import dependent_rows, described, splits


def edges(tree) -> set[frozenset[int]]:
    return {frozenset({v, int(before)}) for v, before in enumerate(tree) if before >= 0}


def depth(tree, variable: int) -> int:
    return 0 if tree[variable] < 0 else 1 + depth(tree, int(tree[variable]))


def random_tree(size: int, seed: int) -> np.ndarray:
    """A random tree with its root at 0."""
    rng = np.random.default_rng(seed)
    return np.array([-1, *(rng.integers(v) for v in range(1, size))])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_spanning_trees_have_the_largest_weight(size: int, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(size, size)) + seed
    weights += weights.T
    tree = maximum_spanning_tree("test", weights)
    expected = networkx.maximum_spanning_tree(networkx.from_numpy_array(weights))
    assert edges(tree) == {frozenset(edge) for edge in expected.edges if len(set(edge)) == 2}
    assert (tree < 0).sum() == 1


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 30])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_centre_is_where_the_farthest_is_nearest(size: int, seed: int) -> None:
    tree = random_tree(size, seed)
    graph = networkx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(tuple(edge) for edge in edges(tree))
    assert centre(tree) == min(networkx.center(graph))
    best = rooted(tree, centre(tree))
    assert max(depth(best, v) for v in range(size)) == networkx.radius(graph)


def test_of_equal_edges_those_of_the_first_variables_are_taken() -> None:
    for seed in range(20):
        weights = np.random.default_rng(seed).integers(3, size=(7, 7))
        weights += weights.T
        among: list[frozenset[int]] = []
        merged = networkx.utils.UnionFind(range(7))
        for _, one, other in sorted((-weights[i, j], i, j) for i in range(7) for j in range(i + 1, 7)):
            if merged[one] != merged[other]:
                merged.union(one, other)
                among.append(frozenset({one, other}))
        assert edges(maximum_spanning_tree("test", weights)) == set(among)


def test_an_edge_is_as_long_as_one_and_what_it_carries() -> None:
    chain = np.array([-1, 0, 1, 2])
    weights = np.zeros((4, 4))
    assert centre(chain, weights) == 1  # the first of two
    weights[0, 1] = weights[1, 0] = 0.2
    assert centre(chain, weights) == 1
    weights[2, 3] = weights[3, 2] = 0.3
    assert centre(chain, weights) == 2
    weights[0, 1] = weights[1, 0] = np.inf
    assert centre(chain, weights) in (0, 1)
    rows = dependent_rows(60, 9, 3, seed=0)
    tree = ChowLiuTree(rows, "categorical", as_region_graph=False)
    graph = networkx.Graph()
    pseudocount = 0.09  # one hundredth of 3 x 3 joint states
    information = discrete_mutual_information(Codes.of_states("test", rows), pseudocount=pseudocount)
    graph.add_weighted_edges_from((*edge, 1 + information[tuple(edge)]) for edge in map(sorted, edges(tree)))
    root = int(np.flatnonzero(tree < 0)[0])
    assert root in networkx.center(graph, weight="weight")


def test_few_rows_are_smoothed() -> None:
    """One hundredth of a row for each joint state; these rows are such that it matters."""
    rows = np.random.default_rng(29).integers(0, 3, (20, 10))
    trees = [ChowLiuTree(rows, "categorical", pseudocount=one, as_region_graph=False) for one in (None, 0.09, 0.0)]
    assert trees[0].tolist() == trees[1].tolist()
    assert edges(trees[0]) - edges(trees[2]) == {frozenset({4, 9})}


def test_neighbouring_states_are_joined() -> None:
    rows = dependent_rows(200, 6, 10, seed=2)
    expected = ChowLiuTree(rows // 2, "categorical", num_categories=5, as_region_graph=False).tolist()
    for name in ("cat_bins", "num_bins"):
        settings = {"num_categories": 10, name: 4}
        assert ChowLiuTree(rows, "categorical", as_region_graph=False, **settings).tolist() == expected
    rows[0, 0] = 9
    with pytest.raises(InputError, match="cat_bins=11 joins neighbouring states; pass num_categories with it"):
        ChowLiuTree(rows, "categorical", num_categories=10, cat_bins=11)


def test_another_root_keeps_the_edges() -> None:
    tree = random_tree(20, seed=0)
    for root in range(20):
        turned = rooted(tree, root)
        assert edges(turned) == edges(tree)
        assert np.flatnonzero(turned < 0).tolist() == [root]
        assert all(depth(turned, v) < 20 for v in range(20))


@pytest.mark.parametrize("input_type", ["categorical", "gaussian"])
@pytest.mark.parametrize("settings", [{}, {"num_bins": 3}, {"chunk_size": 2}, {"root": 4}])
def test_the_tree_of_a_chain_of_copies(input_type: str, settings) -> None:
    # a chain 0 - 3 - 1 - 4 - 2 of noisy copies; its centre is 1
    rng = np.random.default_rng(0)
    rows = np.zeros((3000, 5))
    rows[:, 0] = rng.integers(3, size=3000)
    for before, after in ((0, 3), (3, 1), (1, 4), (4, 2)):
        rows[:, after] = np.where(rng.random(3000) < 0.15, rng.integers(3, size=3000), rows[:, before])
    tree = ChowLiuTree(rows, input_type, **settings, as_region_graph=False)
    assert tree.tolist() == ([3, 4, 4, 1, -1] if "root" in settings else [3, -1, 4, 1, 1])


def test_the_tree_is_the_best_by_likelihood() -> None:
    """What the name promises: no tree gives the rows a higher likelihood."""
    rows = dependent_rows(50, 5, 2, seed=3)
    tree = ChowLiuTree(rows, "categorical", pseudocount=0, as_region_graph=False)

    def log_likelihood(one) -> float:
        total = 0.0
        for v, before in enumerate(one):
            given = rows[:, before] if before >= 0 else np.zeros(len(rows), int)
            for state in range(2):
                counts = np.bincount(rows[given == state, v], minlength=2)
                total += sum(n * np.log(n / counts.sum()) for n in counts if n)
        return total

    graph = networkx.complete_graph(5)
    every = [rooted_at_0(one) for one in networkx.SpanningTreeIterator(graph)]
    assert len(every) == 125
    assert log_likelihood(tree) == pytest.approx(max(map(log_likelihood, every)), abs=1e-9)


def rooted_at_0(tree: "networkx.Graph") -> list[int]:
    before = dict(networkx.bfs_predecessors(tree, 0))
    return [before.get(v, -1) for v in range(len(tree))]


def test_region_graphs_split_a_variable_from_each_subtree() -> None:
    graph = tree_region_graph(np.array([2, 2, -1, 1, 1]))  # 2 above 0 and 1, 1 above 3 and 4
    whole, lower = frozenset(range(5)), frozenset({1, 3, 4})
    assert splits(graph) == [
        (lower, frozenset({frozenset({1}), frozenset({3}), frozenset({4})})),
        (whole, frozenset({frozenset({2}), frozenset({0}), lower})),
    ]
    assert [list(part.scope) for part in graph.partition_inputs(graph.partition_nodes[-1])] == [[2], [0], [1, 3, 4]]
    assert graph.is_structured_decomposable


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_region_graph_is_that_of_the_tree(size: int) -> None:
    rows = dependent_rows(100, size, 3, seed=0)
    tree = ChowLiuTree(rows, "categorical", as_region_graph=False)
    graph = ChowLiuTree(rows, "categorical")
    assert described(graph) == described(tree_region_graph(tree))
    inner = len({int(before) for before in tree if before >= 0})
    assert (len(graph.inputs), len(graph.partition_nodes), len(graph.region_nodes)) == (size, inner, size + inner)


def test_long_chains_need_no_recursion() -> None:
    graph = tree_region_graph(np.arange(-1, 2999))
    assert (len(graph.partition_nodes), graph.num_variables) == (2999, 3000)


def test_missing_values_leave_their_row_out() -> None:
    rows = dependent_rows(400, 6, 2, seed=5).astype(float)
    holes = rows.copy()
    holes[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    whole, some = (ChowLiuTree(one, "categorical", root=0, as_region_graph=False) for one in (rows, holes))
    assert edges(whole) == edges(some)


def test_variables_of_both_types() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    length = 2 * kind + rng.normal(size=300) / 2
    rows = np.stack([length + rng.normal(size=300), np.where(rng.random(300) < 0.3, 0, kind), length, kind], axis=1)
    types = ["gaussian", "categorical", "gaussian", "categorical"]
    for settings in (
        {},
        {"num_bins": 4, "num_categories": 5, "chunk_size": 1},
        {"heter_cont_bins": 4, "cat_bins": 3, "num_categories": 3},
    ):
        tree = ChowLiuTree(rows, types, as_region_graph=False, **settings)
        assert edges(tree) == {frozenset(edge) for edge in ((0, 2), (2, 3), (3, 1))}
    for one in ("gaussian", "categorical"):
        columns = rows[:, [name == one for name in types]]
        alike = [ChowLiuTree(columns, named, as_region_graph=False) for named in (one, (one, one))]
        assert alike[0].tolist() == alike[1].tolist()


def test_data_of_any_kind_of_array() -> None:
    rows = dependent_rows(50, 4, 2, seed=0)
    expected = ChowLiuTree(rows, "categorical", as_region_graph=False).tolist()
    for given in (rows.tolist(), rows.astype("uint8"), rows.astype(bool), np.asfortranarray(rows, "float32")):
        assert ChowLiuTree(given, "categorical", as_region_graph=False).tolist() == expected


@pytest.mark.parametrize(
    ("data", "settings", "error", "message"),
    [
        (
            [[0, 1]],
            {"input_type": "normal"},
            InputError,
            "unknown input_type 'normal'; expected one of categorical, ga",
        ),
        ([[0, 1]], {"input_type": ["gaussian", "normal"]}, InputError, "unknown input_type 'normal'"),
        ([[0, 1]], {"input_type": ["gaussian"]}, InputError, "input_type names 1 variables, and the data has 2"),
        ([[0, 1]], {"root": 2}, InputError, "ChowLiuTree: root must be a variable from 0 to 1, found 2"),
        ([[0, 1]], {"root": -1}, InputError, "root must be a variable from 0 to 1, found -1"),
        ([[0, 4]], {"num_categories": 3}, InputError, "row 0, column 1 holds 4, expected the states 0 to 2"),
        ([[0.5]], {}, InputError, "holds 0.5, expected integers from 0 on; encode .* with num_bins"),
        (
            [[0.5]],
            {"input_type": "gaussian", "num_categories": 3},
            InputError,
            "num_categories=3 is for input_type 'cat",
        ),
        ([0, 1], {}, ShapeError, r"ChowLiuTree: expected data of shape \(rows, variables\)"),
        ([[0, 1]], {"chunk_size": 0}, InputError, "chunk_size must be at least 1"),
        ([[0, 1]], {"num_bins": 0}, InputError, "num_bins must be at least 1"),
        ([[0, 1]], {"cat_bins": 2}, InputError, "cat_bins=2 joins .* found num_categories=None"),
        ([[0, 1]], {"pseudocount": -1}, InputError, "pseudocount must be at least 0"),
    ],
)
def test_refuses(data, settings, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ChowLiuTree(data, **{"input_type": "categorical", **settings})
