"""Builds Chow-Liu trees: the spanning trees of variables whose edges have the largest sum of mutual information.

>>> import numpy as np
>>> rows = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
>>> ChowLiuTree(rows, "categorical", as_region_graph=False)
array([ 1, -1,  1])
>>> ChowLiuTree(rows, "categorical")
RegionGraph(4 regions, 1 partitions, 3 variables)
"""

import math
from collections.abc import Sequence
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
from plica.templates.region_graph.graph import RegionGraph
from plica.templates.region_graph.nodes import RegionNode

Array: TypeAlias = NDArray[Any]

_TYPES = ("categorical", "gaussian")
_BINS = 8  # of a real variable, where there are categorical ones too
_MAX_NATS = 64 * math.log(2.0)  # the most information that two columns of float64 can share


@overload
def ChowLiuTree(
    data: Any,
    input_type: str | Sequence[str],
    root: int | None = None,
    chunk_size: int | None = None,
    num_categories: int | None = None,
    num_bins: int | None = None,
    as_region_graph: Literal[True] = True,
    *,
    cat_bins: int | None = None,
    heter_cont_bins: int | None = None,
    pseudocount: float | None = None,
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
    cat_bins: int | None = None,
    heter_cont_bins: int | None = None,
    pseudocount: float | None = None,
) -> Array: ...


def ChowLiuTree(  # noqa: N802 (a constructor to its users)
    data: Any,
    input_type: str | Sequence[str],
    root: int | None = None,
    chunk_size: int | None = None,
    num_categories: int | None = None,
    num_bins: int | None = None,
    as_region_graph: bool = True,
    *,
    cat_bins: int | None = None,
    heter_cont_bins: int | None = None,
    pseudocount: float | None = None,
) -> RegionGraph | Array:
    """The maximum spanning tree of the variables' mutual information.

    Args:
        data: `(N, D)` rows; NaN is missing. A pair of variables is counted in the rows that have both.
        input_type: `categorical`, whole numbers from 0 on, or `gaussian`, whose information follows from correlations;
            or a list with one for each variable. If both occur, real numbers are counted in bins.
        root: The variable at the root. By default the centre of the tree: the variable whose farthest variable is
            nearest, where the length of an edge is one plus the mutual information of its ends.
        chunk_size: How many pairs of variables are counted at once; memory is linear in it and in the number of pairs.
        num_categories: For categorical data, the states of each variable; by default as many as the data shows.
        num_bins: Count each variable in at most this many bins, with about as many rows in each. With variables of both
            types it is another name of `heter_cont_bins`; with `num_categories`, of `cat_bins`.
        as_region_graph: Whether to return a region graph; otherwise the tree.
        cat_bins: Join neighbouring states of categorical data, `num_categories // cat_bins` to a bin.
        heter_cont_bins: With variables of both types, the most bins of real ones; by default 8.
        pseudocount: How many imaginary rows are added to counted data, spread evenly over the joint states of a pair.
            By default one hundredth of the number of joint states. With 0, no other tree makes the data more likely.

    Returns:
        A region graph, in which the variables of the subtree at v split into v alone and the subtree at each child of
        v; or the tree, `(D,)` integers: the predecessor of each variable, and -1 for the root.

    Raises:
        InputError: A name is not known, a value is no state, or `cat_bins` is given without `num_categories`.

    Source: Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968.
    """
    name = "ChowLiuTree"
    rows, as_region_graph = table(name, data), flag(name, "as_region_graph", as_region_graph)
    types = _types(input_type, rows.shape[1])
    if "categorical" not in types and num_bins is None:
        if num_categories is not None:
            raise InputError(
                f"ChowLiuTree: num_categories={num_categories} is for input_type 'categorical'; leave it out, or pass "
                "num_bins to count real numbers in bins"
            )
        information = gaussian_mutual_information(name, rows)
    else:
        codes = _codes(rows, types, num_categories, num_bins, cat_bins, heter_cont_bins)
        num_imaginary = float(codes.num_states.max()) ** 2 / 100 if pseudocount is None else pseudocount
        information = discrete_mutual_information(codes, pseudocount=num_imaginary, chunk_size=chunk_size)
    tree = maximum_spanning_tree(name, information, root)
    if root is None:
        tree = rooted(tree, centre(tree, information))
    return tree_region_graph(tree) if as_region_graph else tree


def _codes(
    rows: Array,
    types: Sequence[str],
    num_categories: int | None,
    num_bins: int | None,
    cat_bins: int | None,
    heter_cont_bins: int | None,
) -> Codes:
    """The columns as integers: states, joined if `cat_bins` says so, and the bins of real numbers."""
    name, real = "ChowLiuTree", np.array([type_ == "gaussian" for type_ in types])
    if num_bins is not None and not real.any() and num_categories is not None and cat_bins is None:
        cat_bins = num_bins
    elif num_bins is not None and (real.all() or not real.any()):
        return Codes.of_bins(name, rows, num_bins)
    states = Codes.of_states(name, np.where(real, np.nan, rows), num_categories)
    if cat_bins is not None:
        states = _joined(states, num_categories, cat_bins)
    if not real.any():
        return states
    max_bins = next(number for number in (heter_cont_bins, num_bins, _BINS) if number is not None)
    bins = Codes.of_bins(name, rows[:, real], max_bins)
    states.values[real], states.num_states[real] = bins.values, bins.num_states
    return states


def _joined(states: Codes, num_categories: int | None, cat_bins: int) -> Codes:
    """The columns with neighbouring states joined into one."""
    if num_categories is None or not 1 <= integer("ChowLiuTree", "cat_bins", cat_bins) <= num_categories:
        raise InputError(
            f"ChowLiuTree: cat_bins={shown(cat_bins)} joins neighbouring states; pass num_categories with it, at least "
            f"as many; found num_categories={shown(num_categories)}"
        )
    width = num_categories // cat_bins
    return Codes(states.values // width, -(-states.num_states // width))


def _types(input_type: Any, num_variables: int) -> list[str]:
    """The type of each variable."""
    types = list(input_type) if isinstance(input_type, list | tuple) else [input_type] * num_variables
    for type_ in types:
        if not known(type_, _TYPES):
            raise InputError(f"ChowLiuTree: unknown input_type {shown(type_)}; expected one of {', '.join(_TYPES)}")
    if len(types) != num_variables:
        raise InputError(
            f"ChowLiuTree: input_type names {len(types)} variables, and the data has {num_variables}; give one for "
            "each, or a name for all of them"
        )
    return types


def maximum_spanning_tree(name: str, weights: Array, root: int | None = None) -> Array:
    """The spanning tree of the largest sum of weights, by Prim's algorithm.

    Args:
        name: The caller, for messages.
        weights: `(D, D)`, symmetric.
        root: The root; by default the centre of the tree.

    Returns:
        `(D,)` the predecessor of each variable, and -1 for the root. Among edges of equal weight the tree takes those
        of the first variables, as Kruskal's algorithm does with sorted edges.
    """
    num_variables = len(weights)
    root = checked_root(name, root, num_variables)
    tree = np.full(num_variables, -1, dtype=np.int64)
    # of each variable outside of the tree, its best edge: the weight, and the variable of the tree at its other end
    best, nearest = np.array(weights[0], dtype=np.float64), np.zeros(num_variables, dtype=np.int64)
    indices, is_outside = np.arange(num_variables), np.arange(num_variables) > 0

    def edge_numbers(ends: Any) -> Array:
        """The number of the edge from each variable to its entry of `ends`; of equal edges the first is taken."""
        numbers: Array = np.minimum(indices, ends) * num_variables + np.maximum(indices, ends)
        return numbers

    for _ in range(num_variables - 1):
        largest = np.where(is_outside, best, -np.inf).max()
        candidates = is_outside & (best == largest)
        joined = int(np.where(candidates, edge_numbers(nearest), num_variables**2).argmin())
        tree[joined] = nearest[joined]
        is_outside[joined] = False
        is_first = edge_numbers(joined) < edge_numbers(nearest)
        is_better = is_outside & ((weights[joined] > best) | ((weights[joined] == best) & is_first))
        best[is_better], nearest[is_better] = weights[joined][is_better], joined
    return rooted(tree, centre(tree) if root is None else root)


def checked_root(name: str, root: int | None, num_variables: int) -> int | None:
    """The root of a tree, or None.

    Raises:
        InputError: There is no such variable.
    """
    if root is not None and not 0 <= (root := integer(name, "root", root)) < num_variables:
        raise InputError(f"{name}: root must be a variable from 0 to {num_variables - 1}, found {root}")
    return root


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
    """The tree with the same edges and another root: edges between the old and the new root change their direction."""
    result, predecessor, variable = tree.copy(), -1, root
    while variable >= 0:
        result[variable], predecessor, variable = predecessor, variable, int(tree[variable])
    return result


def centre(tree: Array, weights: Array | None = None) -> int:
    """The centre of a tree: the variable whose farthest variable is nearest; of several the first.

    Args:
        tree: The predecessors.
        weights: `(D, D)`; the length of an edge is one plus its weight. By default all weights are 0.
    """
    # the variable that is farthest from any other one is an end of a longest path
    start = int(_distances(tree, 0, weights).argmax())
    from_start = _distances(tree, start, weights)
    end = int(from_start.argmax())
    return int(np.maximum(from_start, _distances(tree, end, weights)).round(9).argmin())


def _distances(tree: Array, start: int, weights: Array | None) -> Array:
    """The distance of each variable from `start`."""
    from_start, distances = rooted(tree, start), np.zeros(len(tree))
    for variable in order_from_root(from_start)[1:]:
        predecessor = int(from_start[variable])
        weight = 0.0 if weights is None else min(float(weights[predecessor, variable]), _MAX_NATS)
        distances[variable] = distances[predecessor] + 1 + weight
    return distances


def tree_region_graph(tree: Array) -> RegionGraph:
    """The region graph of a tree: the variables of a subtree split into its root and the subtrees of its children."""
    assembly = Assembly()
    children = children_of(tree)
    subtrees: dict[int, RegionNode] = {}
    for variable in reversed(order_from_root(tree)):
        alone = assembly.region([variable])
        below = [subtrees[child] for child in children[variable]]
        subtrees[variable] = assembly.split([alone, *below]) if below else alone
    return assembly.graph(subtrees[order_from_root(tree)[0]])
