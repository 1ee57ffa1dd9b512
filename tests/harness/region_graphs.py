"""Region graphs of every builder, as makers by name, and what plain loops say of one.

for name, make in REGION_GRAPHS.items():
    graph = make()
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from plica.symbolic.scope import Scope
from plica.templates.region_graph import (
    ChowLiuTree,
    FullyFactorized,
    LinearTree,
    PoonDomingos,
    QuadGraph,
    QuadTree,
    RandomBinaryTree,
    RegionGraph,
    RegionNode,
)

Split = tuple[frozenset[int], frozenset[frozenset[int]]]


def dependent_rows(num_rows: int, num_variables: int, num_states: int, seed: int) -> Any:
    """Rows `(N, D)` of states in which each variable is often that of a random earlier one."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(num_states, size=(num_rows, num_variables))
    for variable in range(1, num_variables):
        copied = rng.random(num_rows) < 0.7
        rows[copied, variable] = rows[copied, rng.integers(variable)]
    return rows


def chow_liu(num_variables: int, seed: int = 0) -> RegionGraph:
    """The Chow-Liu tree of some rows of three states."""
    return ChowLiuTree(dependent_rows(60, num_variables, 3, seed), "categorical")


REGION_GRAPHS: dict[str, Callable[[], RegionGraph]] = {
    "fully factorized, 1": lambda: FullyFactorized(1),
    "fully factorized, 1, thrice": lambda: FullyFactorized(1, num_repetitions=3),
    "fully factorized, 5": lambda: FullyFactorized(5),
    "fully factorized, 4, thrice": lambda: FullyFactorized(4, num_repetitions=3),
    "linear, 1": lambda: LinearTree(1),
    "linear, 2": lambda: LinearTree(2),
    "linear, 6": lambda: LinearTree(6),
    "linear, ordering": lambda: LinearTree(5, ordering=[3, 1, 4, 0, 2]),
    "linear, twice": lambda: LinearTree(5, num_repetitions=2),
    "linear, random, thrice": lambda: LinearTree(6, num_repetitions=3, randomize=True, seed=7),
    "random binary, 1": lambda: RandomBinaryTree(1),
    "random binary, 2": lambda: RandomBinaryTree(2, num_repetitions=2),
    "random binary, 7": lambda: RandomBinaryTree(7),
    "random binary, 8, depth 2": lambda: RandomBinaryTree(8, depth=2),
    "random binary, 6, depth 3": lambda: RandomBinaryTree(6, depth=3),
    "random binary, 7, thrice": lambda: RandomBinaryTree(7, num_repetitions=3, seed=1),
    "quad tree, 1x1": lambda: QuadTree((1, 1, 1)),
    "quad tree, 1x7": lambda: QuadTree((1, 1, 7)),
    "quad tree, 3x3": lambda: QuadTree((1, 3, 3)),
    "quad tree, 2x5": lambda: QuadTree((1, 2, 5)),
    "quad tree, at once, 3x3": lambda: QuadTree((1, 3, 3), num_patch_splits=4),
    "quad tree, channels": lambda: QuadTree((3, 1, 3)),
    "quad graph, 1x1": lambda: QuadGraph((2, 1, 1)),
    "quad graph, 1x5": lambda: QuadGraph((1, 1, 5)),
    "quad graph, 3x3": lambda: QuadGraph((3, 3)),
    "quad graph, 2x4": lambda: QuadGraph((1, 2, 4)),
    "quad graph, channels": lambda: QuadGraph((2, 2, 2)),
    "Poon-Domingos, 1x1": lambda: PoonDomingos((1, 1), delta=1),
    "Poon-Domingos, 7": lambda: PoonDomingos((7,), delta=1),
    "Poon-Domingos, 3x3": lambda: PoonDomingos((1, 3, 3), delta=1),
    "Poon-Domingos, 3x3, by 2": lambda: PoonDomingos((1, 3, 3), delta=2),
    "Poon-Domingos, 1x8, to fine": lambda: PoonDomingos((1, 8), delta=[4, 2, 1]),
    "Poon-Domingos, 2x4, by axis": lambda: PoonDomingos((2, 4), delta=[(1, 2)]),
    "Poon-Domingos, 3x3, shallow": lambda: PoonDomingos((3, 3), delta=1, max_depth=2),
    "Poon-Domingos, channels": lambda: PoonDomingos((2, 2, 2), delta=1),
    "Poon-Domingos, 2x2x2": lambda: PoonDomingos((1, 2, 2, 2), delta=1),
    "Chow-Liu, 1": lambda: chow_liu(1),
    "Chow-Liu, 2": lambda: chow_liu(2),
    "Chow-Liu, 7": lambda: chow_liu(7),
    "Chow-Liu, normal": lambda: ChowLiuTree(np.random.default_rng(3).normal(size=(50, 6)), "gaussian"),
}


def splits(graph: RegionGraph) -> list[Split]:
    """What each partition splits, into what."""
    found = []
    for partition in graph.partition_nodes:
        parts = [frozenset(part.scope) for part in graph.partition_inputs(partition)]
        found.append((frozenset(partition.scope), frozenset(parts)))
    return found


def described(graph: RegionGraph) -> list[tuple[type, Scope, list[int]]]:
    """The nodes of a graph by their numbers: what two equal graphs have in common; the outputs last."""
    index = {node: number for number, node in enumerate(graph.nodes)}
    rows: list[Any] = []
    for node in graph.nodes:
        inputs = graph.region_inputs(node) if isinstance(node, RegionNode) else graph.partition_inputs(node)
        rows.append((type(node), node.scope, [index[one] for one in inputs]))
    return [*rows, (tuple, graph.scope, [index[one] for one in graph.outputs])]
