"""The two simplest region graphs: no structure at all, and one variable split off after another.

>>> FullyFactorized(4)
RegionGraph(5 regions, 1 partitions, 4 variables)
>>> LinearTree(4)
RegionGraph(7 regions, 3 partitions, 4 variables)
"""

import operator
from collections.abc import Sequence

import numpy as np

from plica.arguments import elements, flag, is_count, is_permutation, shown
from plica.arguments import seed as checked_seed
from plica.errors import InputError, ShapeError
from plica.templates.region_graph.assemble import Assembly
from plica.templates.region_graph.graph import RegionGraph


def FullyFactorized(  # noqa: N802 (a constructor to its users)
    n: int | None = None, *, num_repetitions: int = 1, num_variables: int | None = None
) -> RegionGraph:
    """All variables split into single ones at once.

    Args:
        n: The number of variables.
        num_repetitions: The number of such partitions; they do not share input regions.
        num_variables: Another name of `n`.
    """
    n = counted("FullyFactorized", n, num_variables, num_repetitions)
    parts = Assembly()
    root = parts.region(range(n))
    if n > 1:
        for _ in range(num_repetitions):
            parts.add_partition(root, [parts.region([variable]) for variable in range(n)])
    return parts.graph(root)


def LinearTree(  # noqa: N802 (a constructor to its users)
    n: int | None = None,
    *,
    num_repetitions: int = 1,
    ordering: Sequence[int] | None = None,
    randomize: bool = False,
    seed: int = 42,
    num_variables: int | None = None,
) -> RegionGraph:
    """Variables split off one after another, the first of the ordering first.

    Args:
        n: The number of variables.
        num_repetitions: The number of chains, which share the root alone.
        ordering: A permutation of 0..n-1; ascending by default.
        randomize: Draw an ordering for each chain.
        seed: The seed of the draws.
        num_variables: Another name of `n`.
    """
    n = counted("LinearTree", n, num_variables, num_repetitions)
    randomize = flag("LinearTree", "randomize", randomize)
    chosen_order = tuple(range(n)) if ordering is None else elements("LinearTree", "ordering", ordering)
    if ordering is not None and (randomize or not is_permutation(chosen_order, n)):
        problem = "found randomize=True with it" if randomize else f"found {shown(list(chosen_order))}"
        raise InputError(f"LinearTree: ordering must be a permutation of 0..{n - 1}, used as given; {problem}")
    generator = np.random.default_rng(checked_seed("LinearTree", seed))
    parts = Assembly()
    root = parts.region(range(n))
    for _ in range(num_repetitions if n > 1 else 0):
        order = generator.permutation(n).tolist() if randomize else list(chosen_order)
        rest = parts.region([order[-1]])
        for variable in reversed(order[1:-1]):
            rest = parts.split([parts.region([variable]), rest])
        parts.add_partition(root, [parts.region([order[0]]), rest])
    return parts.graph(root)


def counted(name: str, n: int | None, num_variables: int | None, num_repetitions: int) -> int:
    """The number of variables, under either of its names.

    Raises:
        InputError: The number is given under neither name or under both.
        ShapeError: There is no variable, or no repetition.
    """
    if (n is None) == (num_variables is None):
        raise InputError(
            f"{name}: pass the number of variables once, as n or as num_variables; found n={shown(n)} and "
            f"num_variables={shown(num_variables)}"
        )
    variables = num_variables if n is None else n
    if not all(is_count(count) for count in (variables, num_repetitions)):
        raise ShapeError(
            f"{name}: expected at least one variable and one repetition, found n={shown(variables)} and "
            f"num_repetitions={shown(num_repetitions)}"
        )
    return operator.index(variables)  # type: ignore[arg-type]
