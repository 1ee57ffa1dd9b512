"""The region graph of Poon and Domingos: every sub-rectangle, split at every cut.

>>> PoonDomingos((1, 4, 4), delta=2)
RegionGraph(9 regions, 6 partitions, 16 variables)
>>> PoonDomingos((1, 4, 4), delta=1), PoonDomingos((1, 4, 4), delta=[2, 1])
(RegionGraph(100 regions, 200 partitions, 16 variables), RegionGraph(41 regions, 30 partitions, 16 variables))
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from plica.arguments import integer, is_count, listed, shown
from plica.errors import InputError, ShapeError
from plica.templates.region_graph.assemble import Assembly
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.nodes import RegionNode

Cuts: TypeAlias = tuple[tuple[int, ...], ...]  # for each axis, the positions where it may be cut
Box: TypeAlias = tuple[tuple[int, int], ...]  # for each axis, the first position and the position after the last
Delta: TypeAlias = float | Sequence[float | Sequence[float]]


def PoonDomingos(  # noqa: N802 (a constructor to its users)
    shape: Sequence[int], *, delta: Delta, max_depth: int | None = None
) -> RegionGraph:
    """Sub-rectangles of a grid, each split in two at every multiple of `delta` within it, along each axis.

    Splits that lead to the same rectangle share its region. An axis of n pieces has n (n + 1) / 2 intervals, and there
    is a region for each choice of one interval per axis. A rectangle without a cut is an input region.

    Args:
        shape: (height, width) or (channels, height, width), or a grid of any other number of axes. If there are three
            axes or more, the first has the channels, which stay together.
        delta: The distance between cuts. A list goes from coarse to fine: a rectangle without a cut at one entry is cut
            at the next. An entry is a number, or a sequence with one for each axis (without channels), such as
            `[(4, 2)]`. Multiples that are not whole are rounded down; the last cut leaves at least one pixel.
        max_depth: How many splits may lead from the whole grid to a rectangle that is split again; 0 splits the whole
            grid alone.

    Raises:
        ShapeError: The shape has no axes, an axis has size 0, or the depth is below 0.
        InputError: A delta is below 1 or has another number of axes.

    Source: Poon and Domingos, "Sum-Product Networks: A New Deep Architecture", UAI 2011, section 4.
    """
    sizes = listed(shape)
    if not sizes or not all(map(is_count, sizes)):
        raise ShapeError(f"PoonDomingos: expected a shape such as (channels, height, width), found {shown(shape)}")
    if max_depth is not None:
        integer("PoonDomingos", "max_depth", max_depth, least=0)
    channels, grid = (sizes[0], sizes[1:]) if len(sizes) > 2 else (1, sizes)
    resolutions = [_cuts(entry, grid) for entry in _as_tuple(delta)]
    if not resolutions:
        raise InputError("PoonDomingos: delta is an empty list; give at least one distance between cuts")
    assembly = Assembly()
    whole: Box = tuple((0, size) for size in grid)
    regions: dict[Box, RegionNode] = {whole: assembly.region(_variables(whole, channels, grid))}
    level = [whole]
    for _ in itertools.count() if max_depth is None else range(max_depth + 1):
        next_level: list[Box] = []
        for box in level:
            for parts in _splits(box, resolutions):
                for part in parts:
                    if part not in regions:
                        regions[part] = assembly.region(_variables(part, channels, grid))
                        next_level.append(part)
                assembly.add_partition(regions[box], [regions[part] for part in parts])
        level = next_level
        if not level:
            break
    return assembly.graph(regions[whole])


def _cuts(entry: float | Sequence[float], grid: tuple[int, ...]) -> Cuts:
    """The cuts of each axis at one resolution, an entry of `delta`."""
    deltas = _as_tuple(entry, len(grid))
    if len(deltas) != len(grid):
        raise InputError(
            f"PoonDomingos: delta {deltas} has {len(deltas)} numbers, expected {len(grid)}, one for each axis of {grid}"
        )
    if not all(isinstance(delta, Real) and 1 <= float(delta) < math.inf for delta in deltas):
        raise InputError(f"PoonDomingos: expected numbers of at least 1 as delta, found {shown(entry)}")
    return tuple(
        tuple(math.floor(delta * multiple) for multiple in range(1, math.floor((size - 1) / delta) + 1))
        for delta, size in zip(deltas, grid, strict=True)
    )


def _as_tuple(value: Any, times: int = 1) -> tuple[Any, ...]:
    """The items of a list or an array; a number is repeated `times` times."""
    return tuple(value) if isinstance(value, Sequence) or np.ndim(value) else (value,) * times


def _splits(box: Box, resolutions: Sequence[Cuts]) -> Iterator[tuple[Box, Box]]:
    """The two parts of a box at each cut of the coarsest resolution that has one within it."""
    for resolution in resolutions:
        has_cut = False
        for axis, ((first, end), cuts) in enumerate(zip(box, resolution, strict=True)):
            for cut in cuts:
                if first < cut < end:
                    has_cut = True
                    before, after = box[:axis], box[axis + 1 :]
                    yield (*before, (first, cut), *after), (*before, (cut, end), *after)
        if has_cut:
            return


def _variables(box: Box, channels: int, grid: tuple[int, ...]) -> Iterator[int]:
    """The variables of the pixels of a box, in all channels: those of channel c come `c * num_pixels` later."""
    num_pixels = math.prod(grid)
    for pixel in itertools.product(*(range(*interval) for interval in box)):
        variable = 0
        for index, size in zip(pixel, grid, strict=True):
            variable = variable * size + index
        yield from range(variable, channels * num_pixels, num_pixels)
