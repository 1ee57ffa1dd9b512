import itertools
from collections.abc import Callable
from functools import partial

import pytest

from plica.errors import InputError, ShapeError
from plica.symbolic.scope import Scope
from plica.templates.region_graph import FullyFactorized, LinearTree, QuadGraph, QuadTree, RandomBinaryTree, RegionGraph
from tests.harness.region_graphs import described
from tests.harness.together import grouped


def splits(graph: RegionGraph) -> set[tuple[Scope, frozenset[Scope]]]:
    return {(p.scope, frozenset(part.scope for part in graph.partition_inputs(p))) for p in graph.partition_nodes}


def split(*parts: list[int]) -> tuple[Scope, frozenset[Scope]]:
    scopes = [Scope(part) for part in parts]
    return Scope.union(*scopes), frozenset(scopes)


def test_quad_tree_of_four_pixels() -> None:
    halves = {split([0, 1], [2, 3]), split([0], [1]), split([2], [3])}
    assert splits(QuadTree((1, 2, 2))) == halves
    assert splits(QuadTree((1, 2, 2), num_patch_splits=4)) == {split([0], [1], [2], [3])}
    assert splits(QuadGraph((1, 2, 2))) == halves | {split([0, 2], [1, 3]), split([0], [2]), split([1], [3])}


def test_odd_sizes_leave_smaller_blocks() -> None:
    # 0 1 2 / 3 4 5: the last column is a block of two pixels, then two blocks side by side
    expected = {split([0, 1], [3, 4]), split([0], [1]), split([3], [4]), split([2], [5]), split([0, 1, 3, 4], [2, 5])}
    assert splits(QuadTree((1, 2, 3))) == expected
    assert splits(QuadTree((1, 1, 3))) == {split([0], [1]), split([0, 1], [2])}
    assert splits(QuadTree((1, 3, 1))) == {split([0], [1]), split([0, 1], [2])}


def test_quarters_are_shared_between_both_ways() -> None:
    graph = QuadGraph((1, 2, 2))
    assert len(graph.inputs) == 4
    assert all(len(graph.region_outputs(pixel)) == 2 for pixel in graph.inputs)


@pytest.mark.parametrize("make", [QuadTree, QuadGraph])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 5), (3, 5, 7), (2, 8, 3), (6, 6)])
def test_any_image_shape(make, shape) -> None:
    channels, height, width = shape if len(shape) == 3 else (1, *shape)
    graph = make(shape)
    assert graph.scope == Scope(range(channels * height * width))
    pixels = [Scope(p + c * height * width for c in range(channels)) for p in range(height * width)]
    assert sorted(map(list, (region.scope for region in graph.inputs))) == sorted(map(list, pixels))


# of a block of four smaller ones: (regions beside these, partitions)
OF_FOUR = {
    "2": (partial(QuadTree, num_patch_splits=2), 3, 3),
    "4": (partial(QuadTree, num_patch_splits=4), 1, 1),
    "both ways": (QuadGraph, 5, 6),
}


@pytest.mark.parametrize(("make", "regions_of_four", "partitions_of_four"), OF_FOUR.values(), ids=OF_FOUR)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 6), (9, 1), (3, 5), (7, 7), (8, 4), (2, 13)])
def test_nodes_are_those_of_the_blocks_of_each_size(
    make, regions_of_four: int, partitions_of_four: int, height: int, width: int
) -> None:
    regions, partitions, side = height * width, 0, 1
    while side < max(height, width):
        for top, left in itertools.product(range(0, height, 2 * side), range(0, width, 2 * side)):
            smaller = (1 + (top + side < height)) * (1 + (left + side < width))
            regions += {1: 0, 2: 1, 4: regions_of_four}[smaller]
            partitions += {1: 0, 2: 1, 4: partitions_of_four}[smaller]
        side *= 2
    graph = make((2, height, width))
    assert (len(graph.region_nodes), len(graph.partition_nodes)) == (regions, partitions)


@grouped(
    ("num_variables", "depth"),
    [
        (variables, depth)
        for variables, deepest in ((1, 0), (2, 1), (3, 2), (8, 3), (13, 4))
        for depth in (*range(deepest + 1), None)
    ],
)
@grouped("num_repetitions", [1, 3])
def test_nodes_of_random_binary_trees(num_variables: int, depth: int | None, num_repetitions: int) -> None:
    sizes, partitions, inputs = [num_variables], 0, 0
    for _ in range(4 if depth is None else depth):
        partitions += sum(size > 1 for size in sizes)
        inputs += sum(size == 1 for size in sizes)
        sizes = [half for size in sizes if size > 1 for half in (size - size // 2, size // 2)]
    graph = RandomBinaryTree(num_variables, depth=depth, num_repetitions=num_repetitions)
    once = num_variables == 1 or depth == 0
    assert len(graph.partition_nodes) == partitions * num_repetitions
    assert len(graph.inputs) == (1 if once else (inputs + len(sizes)) * num_repetitions)
    assert len(graph.region_nodes) == 1 + 2 * partitions * num_repetitions


@pytest.mark.parametrize("num_variables", [1, 2, 5])
@pytest.mark.parametrize("num_repetitions", [1, 4])
def test_nodes_of_chains_and_of_independent_variables(num_variables: int, num_repetitions: int) -> None:
    times = 0 if num_variables == 1 else num_repetitions
    chain = LinearTree(num_variables, num_repetitions=num_repetitions)
    assert len(chain.partition_nodes) == (num_variables - 1) * times
    assert len(chain.region_nodes) == 1 + (2 * num_variables - 2) * times
    flat = FullyFactorized(num_variables, num_repetitions=num_repetitions)
    assert (len(flat.partition_nodes), len(flat.region_nodes)) == (times, 1 + num_variables * times)


@pytest.mark.parametrize(("make", "partitions"), [(QuadTree, 783), (QuadGraph, 1560)])
def test_partitions_of_digits(make, partitions: int) -> None:
    assert len(make((1, 28, 28)).partition_nodes) == partitions


def test_fully_factorized() -> None:
    graph = FullyFactorized(3, num_repetitions=2)
    assert splits(graph) == {split([0], [1], [2])}
    assert (len(graph.partition_nodes), len(graph.inputs)) == (2, 6)
    assert FullyFactorized(1).partition_nodes == ()


def test_linear_tree() -> None:
    assert splits(LinearTree(4)) == {split([0], [1, 2, 3]), split([1], [2, 3]), split([2], [3])}
    assert splits(LinearTree(3, ordering=[2, 0, 1])) == {split([2], [0, 1]), split([0], [1])}
    chains = [LinearTree(6, randomize=True, num_repetitions=2, seed=s) for s in (1, 1, 2)]
    assert splits(chains[0]) == splits(chains[1]) != splits(chains[2])
    assert len(chains[0].partition_nodes) == 10
    assert LinearTree(1).partition_nodes == ()


def test_random_binary_tree() -> None:
    first, again, other = (RandomBinaryTree(9, num_repetitions=2, seed=s) for s in (1, 1, 2))
    assert splits(first) == splits(again) != splits(other)
    assert len(first.partition_nodes) == 16
    assert all(len(region.scope) == 1 for region in first.inputs)
    for partition in first.partition_nodes:
        sizes = [len(part.scope) for part in first.partition_inputs(partition)]
        assert sizes[0] - sizes[1] in (0, 1)
    shallow = RandomBinaryTree(9, depth=2)
    assert sorted(len(region.scope) for region in shallow.inputs) == [2, 2, 2, 3]


@pytest.mark.parametrize("make", [FullyFactorized, LinearTree, RandomBinaryTree])
def test_the_number_of_variables_has_two_names(make: Callable[..., RegionGraph]) -> None:
    assert described(make(num_variables=5, num_repetitions=2)) == described(make(n=5, num_repetitions=2))
    for given in ({}, {"n": 5, "num_variables": 5}):
        with pytest.raises(InputError, match="pass the number of variables once, as n or as num_variables"):
            make(**given)


def test_many_variables_need_no_recursion() -> None:
    assert len(LinearTree(3000).partition_nodes) == 2999


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: QuadTree((1, 4, 4), num_patch_splits=3), InputError, "num_patch_splits must be 2 or 4, found 3"),
        (lambda: QuadTree((4,)), ShapeError, r"expected an image shape \(channels, height, width\), found \(4,\)"),
        (lambda: QuadGraph((1, 0, 4)), ShapeError, r"QuadGraph: expected an image shape .* found \(1, 0, 4\)"),
        (lambda: FullyFactorized(0), ShapeError, "FullyFactorized: expected at least one variable"),
        (lambda: LinearTree(3, num_repetitions=0), ShapeError, "num_repetitions=0"),
        (lambda: LinearTree(3, ordering=[0, 1]), InputError, r"permutation of 0\.\.2, used as given; found \[0, 1\]"),
        (lambda: LinearTree(2, ordering=[1, 0], randomize=True), InputError, "found randomize=True with it"),
        (lambda: RandomBinaryTree(4, depth=-1), ShapeError, "depth must be at least 0, found -1"),
        (lambda: RandomBinaryTree(5, depth=4), ShapeError, "5 variables are single after 3 splits .* found depth=4"),
        (lambda: RandomBinaryTree(1, depth=1), ShapeError, "found depth=1"),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
