"""The region graph of Poon and Domingos against the rectangles that plain recursion reaches."""

import itertools
import math

import pytest

from plica.errors import InputError, ShapeError
from plica.symbolic.scope import Scope
from plica.templates.region_graph import PoonDomingos
from tests.harness.region_graphs import Split, splits
from tests.harness.together import grouped


def cuts_of(size: int, delta: float) -> list[int]:
    """Multiples of delta within (0, size - 1], rounded down."""
    return sorted({math.floor(k * delta) for k in range(1, size * 2) if k * delta <= size - 1})


def by_recursion(height: int, width: int, resolutions, max_depth: int = 99) -> set[Split]:
    """Every split of the rectangles of an image of one channel, each rectangle a set of pixels."""
    shallowest: dict[tuple[int, int, int, int], int] = {}
    found: set[Split] = set()

    def pixels(top: int, bottom: int, left: int, right: int) -> frozenset[int]:
        return frozenset(r * width + c for r in range(top, bottom) for c in range(left, right))

    def visit(box: tuple[int, int, int, int], depth: int) -> None:
        if shallowest.get(box, 99) <= depth or depth > max_depth:
            return
        shallowest[box] = depth
        top, bottom, left, right = box
        for delta_r, delta_c in resolutions:
            rows = [cut for cut in cuts_of(height, delta_r) if top < cut < bottom]
            columns = [cut for cut in cuts_of(width, delta_c) if left < cut < right]
            halves = [((top, cut, left, right), (cut, bottom, left, right)) for cut in rows]
            halves += [((top, bottom, left, cut), (top, bottom, cut, right)) for cut in columns]
            for one, other in halves:
                found.add((pixels(*box), frozenset({pixels(*one), pixels(*other)})))
                visit(one, depth + 1)
                visit(other, depth + 1)
            if halves:
                return

    visit((0, height, 0, width), 0)
    return found


@grouped(
    ("height", "width", "delta", "resolutions"),
    [
        (1, 1, 1, [(1, 1)]),
        (1, 6, 1, [(1, 1)]),
        (3, 5, 1, [(1, 1)]),
        (5, 3, 2, [(2, 2)]),
        (7, 7, 3, [(3, 3)]),
        (4, 4, 9, [(9, 9)]),
        (7, 5, 1.5, [(1.5, 1.5)]),
        (4, 6, [(2, 3)], [(2, 3)]),
        (6, 6, [3, 1], [(3, 3), (1, 1)]),
        (7, 6, [4, (2, 1)], [(4, 4), (2, 1)]),
        (8, 3, (4, 2, 1), [(4, 4), (2, 2), (1, 1)]),
    ],
)
@grouped("max_depth", [None, 0, 1, 2])
def test_rectangles_are_those_of_plain_recursion(height, width, delta, resolutions, max_depth) -> None:
    graph = PoonDomingos((height, width), delta=delta, max_depth=max_depth)
    found = splits(graph)
    assert len(set(found)) == len(found)
    assert set(found) == by_recursion(height, width, resolutions, 99 if max_depth is None else max_depth)
    scopes = [region.scope for region in graph.region_nodes]
    assert len(set(scopes)) == len(scopes)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (4, 4), (3, 6)])
def test_numbers_of_regions_and_partitions(height: int, width: int) -> None:
    graph = PoonDomingos((height, width), delta=1)
    regions = math.comb(height + 1, 2) * math.comb(width + 1, 2)
    boxes = itertools.product(range(1, height + 1), range(1, width + 1))  # of h x w pixels there are so many
    partitions = sum((height + 1 - h) * (width + 1 - w) * (h + w - 2) for h, w in boxes)
    assert (len(graph.region_nodes), len(graph.partition_nodes)) == (regions, partitions)
    assert sorted(list(region.scope) for region in graph.inputs) == [[v] for v in range(height * width)]


def test_channels_of_a_pixel_stay_together() -> None:
    flat, deep = PoonDomingos((2, 3), delta=1), PoonDomingos((3, 2, 3), delta=1)
    assert sorted(list(region.scope) for region in deep.inputs) == [[v, v + 6, v + 12] for v in range(6)]
    assert [[v for v in region.scope if v < 6] for region in deep.region_nodes] == [
        list(region.scope) for region in flat.region_nodes
    ]


def test_grids_of_other_ranks() -> None:
    line = PoonDomingos((5,), delta=2)
    assert sorted(list(region.scope) for region in line.inputs) == [[0, 1], [2, 3], [4]]
    cube = PoonDomingos((2, 2, 2, 2), delta=[(2, 1, 1)])
    assert cube.scope == Scope(range(16))
    assert sorted(list(region.scope) for region in cube.inputs) == [[v, v + 4, v + 8, v + 12] for v in range(4)]


def test_rectangles_are_shared_and_so_many_pixels_stay_few_nodes() -> None:
    graph = PoonDomingos((1, 28, 28), delta=4)  # 7 x 7 pieces
    assert (len(graph.region_nodes), len(graph.partition_nodes)) == (28 * 28, 2 * 28 * 56)
    fine = PoonDomingos((1, 28, 28), delta=[7, 2, 1])
    assert len(fine.nodes) < 8000
    assert all(len(region.scope) == 1 for region in fine.inputs)


@pytest.mark.parametrize(
    ("shape", "settings", "error", "message"),
    [
        ((), {"delta": 1}, ShapeError, r"expected a shape such as \(channels, height, width\), found \(\)"),
        ((1, 0, 3), {"delta": 1}, ShapeError, r"found \(1, 0, 3\)"),
        ((4, 4), {"delta": 0.5}, InputError, "numbers of at least 1 as delta, found 0.5"),
        ((4, 4), {"delta": -1}, InputError, "at least 1 as delta, found -1"),
        ((4, 4), {"delta": float("nan")}, InputError, "at least 1 as delta, found nan"),
        ((4, 4), {"delta": []}, InputError, "delta is an empty list"),
        ((4, 4), {"delta": [(2, 2, 1)]}, InputError, r"delta \(2, 2, 1\) has 3 numbers, expected 2"),
        ((4, 4), {"delta": 2, "max_depth": -1}, ShapeError, "max_depth must be at least 0, found -1"),
    ],
)
def test_refuses(shape, settings, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PoonDomingos(shape, **settings)
