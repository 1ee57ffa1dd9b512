"""Region graphs of images: blocks of 2x2 smaller blocks, from the pixels up.

Blocks are paired (0, 1), (2, 3), ... along rows and columns; if their number is odd, the last stays a smaller block.
A pixel is a region of its channels: variable `c*height*width + row*width + column`.

    >>> QuadGraph((1, 28, 28))
    RegionGraph(2085 regions, 1560 partitions, 784 variables)
"""

import operator
from collections.abc import Callable, Sequence

from plica.arguments import is_count, known, listed, shown
from plica.errors import InputError, ShapeError
from plica.templates.region_graph.assemble import Assembly
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.nodes import RegionNode

Block = tuple[RegionNode, RegionNode, RegionNode, RegionNode]  # top left, top right, bottom left, bottom right
Join = Callable[[Assembly, Block], RegionNode]


def QuadTree(shape: Sequence[int], *, num_patch_splits: int = 2) -> RegionGraph:  # noqa: N802 (a constructor to its users)
    """The tree of blocks.

    Args:
        shape: (channels, height, width), or (height, width).
        num_patch_splits: 2 splits a block into top and bottom and each half into left and right; 4 splits it at once.
    """
    if not known(num_patch_splits, _TREE_JOINS):
        raise InputError(f"QuadTree: num_patch_splits must be 2 or 4, found {shown(num_patch_splits)}")
    return _bottom_up("QuadTree", shape, _TREE_JOINS[num_patch_splits])


def QuadGraph(shape: Sequence[int]) -> RegionGraph:  # noqa: N802 (a constructor to its users)
    """The graph of blocks, each split both into top and bottom and into left and right.

    Args:
        shape: (channels, height, width), or (height, width).
    """
    return _bottom_up("QuadGraph", shape, _join_both_ways)


def _join_halves(parts: Assembly, block: Block) -> RegionNode:
    return parts.split([parts.split(block[:2]), parts.split(block[2:])])


def _join_at_once(parts: Assembly, block: Block) -> RegionNode:
    return parts.split(block)


def _join_both_ways(parts: Assembly, block: Block) -> RegionNode:
    top_left, top_right, bottom_left, bottom_right = block
    rows = [parts.split([top_left, top_right]), parts.split([bottom_left, bottom_right])]
    columns = [parts.split([top_left, bottom_left]), parts.split([top_right, bottom_right])]
    return parts.split(rows, columns)


_TREE_JOINS: dict[int, Join] = {2: _join_halves, 4: _join_at_once}


def _bottom_up(name: str, shape: Sequence[int], join: Join) -> RegionGraph:
    channels, height, width = image_shape(name, shape)
    parts = Assembly()
    grid = [
        [
            parts.region(range(row * width + column, channels * height * width, height * width))
            for column in range(width)
        ]
        for row in range(height)
    ]
    while len(grid) > 1 or len(grid[0]) > 1:
        grid = [
            [
                _joined(parts, [line[column : column + 2] for line in grid[row : row + 2]], join)
                for column in _pairs(grid[0])
            ]
            for row in _pairs(grid)
        ]
    return parts.graph(grid[0][0])


def _pairs(sequence: Sequence[object]) -> range:
    return range(0, len(sequence), 2)


def _joined(parts: Assembly, cells: list[list[RegionNode]], join: Join) -> RegionNode:
    """The block of one, two or four smaller blocks."""
    match [cell for line in cells for cell in line]:
        case [only]:
            return only
        case [top_left, top_right, bottom_left, bottom_right]:
            return join(parts, (top_left, top_right, bottom_left, bottom_right))
        case pair:
            return parts.split(pair)


def image_shape(name: str, shape: Sequence[int]) -> tuple[int, int, int]:
    """`shape` as (channels, height, width)."""
    sizes_given = listed(shape)
    sizes = (1, *sizes_given) if len(sizes_given) == 2 else sizes_given
    if len(sizes) != 3 or not all(map(is_count, sizes)):
        raise ShapeError(f"{name}: expected an image shape (channels, height, width), found {shown(shape)}")
    channels, height, width = map(operator.index, sizes)
    return channels, height, width
