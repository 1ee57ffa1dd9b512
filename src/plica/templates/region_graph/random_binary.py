"""Random binary trees: variables split at random into halves.

>>> RandomBinaryTree(8, depth=2, num_repetitions=3)
RegionGraph(19 regions, 9 partitions, 8 variables)
"""

import numpy as np

from plica.arguments import integer
from plica.arguments import seed as checked_seed
from plica.errors import ShapeError
from plica.templates.region_graph.assemble import Assembly
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.linear import counted
from plica.templates.region_graph.nodes import RegionNode


def RandomBinaryTree(  # noqa: N802 (a constructor to its users)
    n: int | None = None,
    *,
    depth: int | None = None,
    num_repetitions: int = 1,
    seed: int = 42,
    num_variables: int | None = None,
) -> RegionGraph:
    """Random halves of random halves.

    Args:
        n: The number of variables.
        depth: The number of splits after which to stop; by default, when every region is a single variable.
        num_repetitions: The number of trees, which share the root alone.
        seed: The seed; one seed gives one graph.
        num_variables: Another name of `n`.

    Raises:
        ShapeError: There is no variable or no repetition, or `depth` is not from 0 to the number of splits there are.

    Source: Peharz et al., "Random Sum-Product Networks", 2019, algorithm 1.
    """
    n = counted("RandomBinaryTree", n, num_variables, num_repetitions)
    most = (n - 1).bit_length()
    if depth is not None and integer("RandomBinaryTree", "depth", depth, least=0) > most:
        raise ShapeError(
            f"RandomBinaryTree: {n} variables are single after {most} splits into halves, found depth={depth}; pass at "
            "most that, or leave it out"
        )
    generator = np.random.default_rng(checked_seed("RandomBinaryTree", seed))
    parts = Assembly()
    root = parts.region(range(n))
    for _ in range(num_repetitions):
        level = [root]
        for _ in range(most if depth is None else depth):
            level = [half for region in level for half in _split(parts, region, generator)]
    return parts.graph(root)


def _split(parts: Assembly, region: RegionNode, generator: np.random.Generator) -> list[RegionNode]:
    """Two random halves of a region, the first no smaller; an empty list for a single variable."""
    variables = [int(variable) for variable in generator.permutation(list(region.scope))]
    if len(variables) < 2:
        return []
    middle = (len(variables) + 1) // 2
    halves = [parts.region(variables[:middle]), parts.region(variables[middle:])]
    parts.add_partition(region, halves)
    return halves
