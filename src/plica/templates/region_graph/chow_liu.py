"""Chow-Liu trees: the trees of variables whose neighbours say most of each other.

>>> import numpy as np
>>> rows = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
>>> ChowLiuTree(rows, "categorical", as_region_graph=False)
array([ 1, -1,  1])
>>> ChowLiuTree(rows, "categorical")
RegionGraph(4 regions, 1 partitions, 3 variables)
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from plica.arguments import flag, integer, known, shown
from plica.errors import InputError
from plica.templates.mutual_information import (
    Codes,
    discrete_mutual_information,
    gaussian_mutual_information,
    table,
)
from plica.templates.region_graph.assemble import Assembly
from plica.templates.region_graph.graph import RegionGraph, RegionNode

Array: TypeAlias = NDArray[Any]

_BINS = 8  # of real numbers beside categories


@overload
def ChowLiuTree(
    data: Any,
    input_type: str | Sequence[str],
    root: int | None = None,
    chunk_size: int | None = None,
    num_categories: int | None = None,
    num_bins: int | None = None,
    as_region_graph: Literal[True] = True,
) -> RegionGraph: ...


@overload
def ChowLiuTree(
    data: Any,
    input_type: str | Sequence[str],
    root: int | None = None,
    chunk_size: int | None = None,
    num_categories: int | None = None,
    num_bins: int | None = None,
    *,
    as_region_graph: Literal[False],
) -> Array: ...


def ChowLiuTree(  # noqa: N802 (a constructor to its users)
    data: Any,
    input_type: str | Sequence[str],
    root: int | None = None,
    chunk_size: int | None = None,
    num_categories: int | None = None,
    num_bins: int | None = None,
    as_region_graph: bool = True,
) -> RegionGraph | Array:
    """The maximum spanning tree of the variables' mutual information.

    Args:
        data: `(N, D)` rows; NaN is missing, and leaves its row out of the pairs that it touches.
        input_type: categorical (whole numbers from 0 on) or gaussian (from correlations), or one for each variable;
            beside categories real numbers are counted in bins.
        root: The variable at the root; by default the centre of the tree, so that it is as shallow as can be.
        chunk_size: How many pairs of variables are counted at once; memory is linear in it and in the number of pairs.
        num_categories: For categorical data, the states of each variable; by default as many as the data shows.
        num_bins: Put each variable into at most so many bins of about as many rows, and count those; where there are
            variables of both types the real ones, by default into 8.
        as_region_graph: Whether to return a region graph; otherwise the tree.

    Returns:
        A region graph, in which the variables from v down split into v alone and those from each child of v down; or
        the tree, `(D,)` integers: the predecessor of each variable, and -1 for the root.

    Raises:
        InputError: A name that is not known, or a value that is no state.

    Source: Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968.
    """
    name = "ChowLiuTree"
    rows, as_region_graph = table(name, data), flag(name, "as_region_graph", as_region_graph)
    types = _types(input_type, rows.shape[1])
    if len(set(types)) > 1:
        codes = _mixed_codes(rows, types, num_categories, _BINS if num_bins is None else num_bins)
    elif num_bins is not None:
        codes = Codes.of_bins(name, rows, num_bins)
    else:
        codes = None
    if codes is None:
        information = _MEASURES[types[0]](rows, num_categories, chunk_size)
    else:
        information = discrete_mutual_information(codes, chunk_size=chunk_size)
    tree = maximum_spanning_tree("ChowLiuTree", information, root)
    return tree_region_graph(tree) if as_region_graph else tree


def _types(input_type: Any, num_variables: int) -> list[str]:
    """The type of each variable."""
    types = list(input_type) if isinstance(input_type, list | tuple) else [input_type] * num_variables
    for one in types:
        if not known(one, _MEASURES):
            raise InputError(f"ChowLiuTree: unknown input_type {shown(one)}; expected one of {', '.join(_MEASURES)}")
    if len(types) != num_variables:
        raise InputError(
            f"ChowLiuTree: input_type names {len(types)} variables, and the data has {num_variables}; give one for "
            "each, or a name for all of them"
        )
    return types


def _mixed_codes(rows: Array, types: Sequence[str], num_categories: int | None, num_bins: int) -> Codes:
    """States as they are, real numbers in bins; columns in their order."""
    values, num_states = np.empty(rows.T.shape, dtype=np.int64), np.empty(len(types), dtype=np.int64)
    real = np.array([one == "gaussian" for one in types])
    states = Codes.of_states("ChowLiuTree", np.where(real, np.nan, rows), num_categories)
    bins = Codes.of_bins("ChowLiuTree", rows[:, real], num_bins)
    values[~real], num_states[~real] = states.values[~real], states.num_states[~real]
    values[real], num_states[real] = bins.values, bins.num_states
    return Codes(values, num_states)


def _categorical(rows: Array, num_categories: int | None, chunk_size: int | None) -> Array:
    return discrete_mutual_information(Codes.of_states("ChowLiuTree", rows, num_categories), chunk_size=chunk_size)


def _gaussian(rows: Array, num_categories: int | None, chunk_size: int | None) -> Array:  # noqa: ARG001 (one product)
    if num_categories is not None:
        raise InputError(
            f"ChowLiuTree: num_categories={num_categories} is for input_type 'categorical'; leave it out, or pass "
            "num_bins to count real numbers in bins"
        )
    return gaussian_mutual_information("ChowLiuTree", rows)


_MEASURES: dict[str, Callable[[Array, int | None, int | None], Array]] = {
    "categorical": _categorical,
    "gaussian": _gaussian,
}


def maximum_spanning_tree(name: str, weights: Array, root: int | None = None) -> Array:
    """The spanning tree of the largest sum of weights, by Prim's algorithm.

    Args:
        name: Who asks, for messages.
        weights: `(D, D)`, symmetric.
        root: Where it begins; by default at its centre.

    Returns:
        `(D,)` the predecessor of each variable, and -1 for the root. Among equal weights the first edge is taken.
    """
    variables = len(weights)
    if root is not None and not 0 <= (root := integer(name, "root", root)) < variables:
        raise InputError(f"{name}: root must be a variable from 0 to {variables - 1}, found {root}")
    tree = np.full(variables, -1, dtype=np.int64)
    best, nearest = np.array(weights[0], dtype=np.float64), np.zeros(variables, dtype=np.int64)
    outside = np.ones(variables, dtype=bool)
    outside[0] = False
    for _ in range(variables - 1):
        joined = int(np.where(outside, best, -np.inf).argmax())
        tree[joined] = nearest[joined]
        outside[joined] = False
        closer = outside & (weights[joined] > best)
        best[closer], nearest[closer] = weights[joined][closer], joined
    return rooted(tree, centre(tree) if root is None else root)


def order_from_root(tree: Array) -> list[int]:
    """The variables of a tree, each after its predecessor."""
    children = children_of(tree)
    order = [int(variable) for variable in np.flatnonzero(tree < 0)]
    for variable in order:  # grows while it is read
        order += children[variable]
    return order


def children_of(tree: Array) -> list[list[int]]:
    """The successors of each variable of a tree, in ascending order."""
    children: list[list[int]] = [[] for _ in tree]
    for variable, predecessor in enumerate(tree):
        if predecessor >= 0:
            children[predecessor].append(variable)
    return children


def rooted(tree: Array, root: int) -> Array:
    """The same edges with another root: those on the way to it turn round."""
    turned, before, variable = tree.copy(), -1, root
    while variable >= 0:
        turned[variable], before, variable = before, variable, int(tree[variable])
    return turned


def centre(tree: Array) -> int:
    """The variable from which the farthest one is nearest; the smaller where there are two."""
    one_end = order_from_root(tree)[-1]  # the farthest from the root is an end of a longest path
    path = [order_from_root(away := rooted(tree, one_end))[-1]]
    while (predecessor := int(away[path[-1]])) >= 0:
        path.append(predecessor)
    return min(path[(len(path) - 1) // 2], path[len(path) // 2])


def tree_region_graph(tree: Array) -> RegionGraph:
    """The region graph of a tree: from v down is split into v alone and from each child of v down."""
    parts = Assembly()
    children = children_of(tree)
    down: dict[int, RegionNode] = {}
    for variable in reversed(order_from_root(tree)):
        alone = parts.region([variable])
        below = [down[child] for child in children[variable]]
        down[variable] = parts.split([alone, *below]) if below else alone
    return parts.graph(down[order_from_root(tree)[0]])
