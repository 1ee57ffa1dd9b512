"""Arranges the nodes of a DAG in rows so that trees do not cross; it knows neither circuits nor pictures.

Nodes are the integers 0 .. n - 1 in topological order.

>>> inputs = ((), (), (), (0, 1), (3, 2))
>>> layout = lay_out(inputs, outputs=(4,))
>>> layout.rows
((4,), (3, 2), (0, 1))
>>> layout.x
(0.0, 1.0, 2.0, 0.5, 1.25)
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

Inputs = Sequence[Sequence[int]]

_EVENNESS = 0.6  # the least distance of neighbours, as a share of the distance in an evenly spread row


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows from the outputs down, each from left to right.

    Attributes:
        rows: The nodes of each row.
        x: The coordinate of each node; neighbours of one row are at least 1 apart.
        width: The width of the widest row.
    """

    rows: tuple[tuple[int, ...], ...]
    x: tuple[float, ...]
    width: float

    def gap(self, row: int) -> float:
        """The least distance between neighbours of a row; the whole width if it has one node."""
        xs = [self.x[node] for node in self.rows[row]]
        return min((right - left for left, right in itertools.pairwise(xs)), default=max(self.width, 1.0))


def lay_out(inputs: Inputs, outputs: Sequence[int]) -> Layout:
    """The layout with each node one row below its lowest reader, as centred over its inputs as its neighbours allow."""
    depth = depths(inputs)
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node, level in enumerate(depth):
        rows[level].append(node)
    widest = max(map(len, rows), default=1)
    wanted = [0.0] * len(inputs)
    leaves = _leaf_order(inputs, outputs)
    for number, leaf in enumerate(leaves):
        wanted[leaf] = number * max(1.0, (widest - 1) / max(len(leaves) - 1, 1))
    for node, children in enumerate(inputs):
        if children:
            wanted[node] = sum(wanted[child] for child in children) / len(children)
    x = [0.0] * len(inputs)
    for row in rows:
        row.sort(key=lambda node: (wanted[node], node))
        gap = max(1.0, _EVENNESS * widest / len(row))
        for node, position in zip(row, spread([wanted[node] / gap for node in row]), strict=True):
            x[node] = position * gap
    left = min(x, default=0.0)
    moved = tuple(value - left for value in x)
    return Layout(tuple(map(tuple, rows)), moved, max(moved, default=0.0))


def depths(inputs: Inputs) -> list[int]:
    """The length of the longest path from each node up to a node that nothing reads."""
    depth = [0] * len(inputs)
    for node in reversed(range(len(inputs))):
        for child in inputs[node]:
            depth[child] = max(depth[child], depth[node] + 1)
    return depth


def _leaf_order(inputs: Inputs, outputs: Sequence[int]) -> list[int]:
    """Nodes without inputs in the order of a depth-first search from the outputs, then the rest."""
    seen = [False] * len(inputs)
    leaves = []
    stack = [*reversed(range(len(inputs))), *reversed(outputs)]
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        if not inputs[node]:
            leaves.append(node)
        stack.extend(reversed(inputs[node]))
    return leaves


def spread(wanted: Sequence[float]) -> list[float]:
    """Ascending positions at least 1 apart with the least sum of squared distances from the wanted positions.

    With `q[i] = position[i] - i` this is isotonic regression, solved by pooling adjacent violators.

    >>> spread([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    pools: list[tuple[float, int]] = []  # the mean and the number of members of each pool
    for i, value in enumerate(wanted):
        mean, size = value - i, 1
        while pools and pools[-1][0] > mean:
            pooled, count = pools.pop()
            mean, size = (mean * size + pooled * count) / (size + count), size + count
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    return [mean + i for i, mean in enumerate(means)]
