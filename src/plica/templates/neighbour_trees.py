"""Builds the tree of columns in which neighbours share most information, of wide tables without a look at all pairs.

Up to 2,048 columns the mutual information of every pair is measured, and the tree is that of Chow and Liu. Of more
columns, some pairs are measured, so that time grows with D log D and memory with D:

1. *Sketch*: for random signs u of the rows, f_i(u) = sum_c (sum_n u_n z_nc)^2 describes column i, where z has for each
   state c the centred indicators, divided by sqrt(p_c). For two columns of k and m states, the correlation of f_i and
   f_j over all u is their mean square contingency over sqrt((k - 1)(m - 1)), Tschuprow's T^2. It does not depend on the
   names of the states.
2. *Forest*: columns are split in halves again and again, each time by which of two random ones they are more like,
   until 128 are left. A tree of such splits gives groups of columns that are alike; four trees give four chances.
3. *Groups*: the largest spanning tree of each group, by the information of all its pairs. No other pair of the group
   is in the largest spanning tree of all measured pairs, since each closes a cycle in which it is least.
4. The largest spanning tree of the edges of all groups. Parts that no edge joins are joined by a tree of their first
   columns, found in the same way.
5. *Again*, four times: columns that follow each other in this tree, depth first, are groups too. So the neighbours of
   neighbours are measured.

>>> import numpy as np
>>> rows = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
>>> information_tree("example", Codes.of_states("example", rows))
array([ 1, -1,  1])

Source: Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968; Dasgupta and
    Freund, "Random projection trees and low dimensional manifolds", 2008; Yan et al., "K-nearest neighbor search by
    random projection forests", 2019; Dong, Moses and Li, "Efficient k-nearest neighbor graph construction for generic
    similarity measures", 2011, for step 5; Tschuprow, "Principles of the mathematical theory of correlation", 1939.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.templates.mutual_information import Codes, information_above_chance
from plica.templates.region_graph.chow_liu import centre, checked_root, children_of, maximum_spanning_tree, rooted

Array: TypeAlias = NDArray[Any]

ALL_PAIRS = 2048
"""The most columns of which every pair is measured."""
_MOST_ROWS = 2048  # by which pairs of wide tables are measured
_SIGNS = 128  # random signs of rows by which columns are sketched
_GROUP = 128  # columns at most
_FOREST, _AGAIN = 4, 4  # trees of splits, and how often the tree that was found gives groups
_SKETCHED_AT_ONCE = 2**22  # numbers


def information_tree(
    name: str,
    codes: Codes,
    root: int | None = None,
    *,
    pseudocount: float = 1.0,
    chunk_size: int | None = None,
    seed: int = 0,
) -> Array:
    """The spanning tree of columns of the largest sum of information above chance, or one near it of a wide table.

    Args:
        name: The caller, for messages.
        codes: The columns. Of more than 2,048 columns, 2,048 rows at most are used, drawn without replacement.
        root: The root; by default the centre of the tree.
        pseudocount: As of `information_above_chance`.
        chunk_size: As there.
        seed: The seed of the pairs that are measured in a wide table.

    Returns:
        `(D,)` the predecessor of each variable, and -1 for the root.
    """

    def measured(columns: Codes) -> Array:
        return information_above_chance(columns, pseudocount=pseudocount, chunk_size=chunk_size)

    num_columns, num_rows = codes.values.shape
    if num_columns <= ALL_PAIRS:
        return maximum_spanning_tree(name, measured(codes), root)
    root, random = checked_root(name, root, num_columns), np.random.default_rng(seed)
    if num_rows > _MOST_ROWS:
        codes = codes.of_rows(np.sort(random.choice(num_rows, _MOST_ROWS, replace=False)))
    sketches = _sketches(codes, random)

    def joined(edges: Sequence[_Edges], groups: Iterable[Array]) -> _Edges:
        return _Edges.joined([*edges, *(_Edges.of_tree(at, measured(codes.of_variables(at))) for at in groups)])

    def connected(edges: _Edges) -> Array:
        """The largest spanning tree of some edges, and of others that join their parts."""
        while len(parts := edges.first_columns(num_columns)) > 1:
            edges = joined([edges], _groups_of_splits(sketches, random, parts))
        return edges.spanning_tree(num_columns)

    every = np.arange(num_columns)
    edges = joined([], (group for _ in range(_FOREST) for group in _groups_of_splits(sketches, random, every)))
    for _ in range(_AGAIN):
        edges = joined([edges], _groups_of_tree(connected(edges), random))
    tree = connected(edges)
    return rooted(tree, centre(tree) if root is None else root)


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Pairs of columns and their information.

    Args:
        first: `(E,)` the columns of lower number.
        second: `(E,)` the columns of higher number.
        information: `(E,)`.
    """

    first: Array
    second: Array
    information: Array

    @staticmethod
    def of_tree(columns: Array, information: Array) -> _Edges:
        """The edges of the largest spanning tree of some columns, of the information of all their pairs."""
        tree = maximum_spanning_tree("", information, 0)
        ends = np.arange(1, len(tree)), tree[1:]
        numbers = np.sort(columns[np.stack(ends)], axis=0)
        return _Edges(numbers[0], numbers[1], information[ends])

    @staticmethod
    def joined(parts: Iterable[_Edges]) -> _Edges:
        """All edges, each once."""
        first, second, information = map(
            np.concatenate, zip(*((part.first, part.second, part.information) for part in parts), strict=True)
        )
        _, chosen = np.unique(np.stack([first, second]), axis=1, return_index=True)
        return _Edges(first[chosen], second[chosen], information[chosen])

    def _graph(self, num_columns: int) -> Any:
        """A sparse matrix with a number above 0 for each edge, which is small where the information is large."""
        from scipy.sparse import coo_array

        costs = 1.0 + self.information.max() - self.information
        return coo_array((costs, (self.first, self.second)), shape=(num_columns, num_columns)).tocsr()

    def first_columns(self, num_columns: int) -> Array:
        """The first column of each part that edges join."""
        from scipy.sparse.csgraph import connected_components

        _, labels = connected_components(self._graph(num_columns), directed=False)
        _, first = np.unique(labels, return_index=True)
        return first

    def spanning_tree(self, num_columns: int) -> Array:
        """The predecessors in the largest spanning tree of these edges, and -1 for column 0."""
        from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

        tree = minimum_spanning_tree(self._graph(num_columns))
        _, predecessors = breadth_first_order(tree, 0, directed=False)
        result: Array = np.maximum(predecessors, -1).astype(np.int64)
        return result


def _sketches(codes: Codes, random: np.random.Generator) -> Array:
    """`(D, R)` vectors of length 1 (0 for a constant column), whose products estimate how columns depend."""
    from scipy.sparse import csr_array

    num_columns, num_rows = codes.values.shape
    signs = random.choice(np.array([-1.0, 1.0], np.float32), (num_rows, _SIGNS))
    result = np.empty((num_columns, _SIGNS), np.float32)
    at_once = max(1, _SKETCHED_AT_ONCE // num_rows)
    for start in range(0, num_columns, at_once):
        part = slice(start, start + at_once)
        values, ends = codes.values[part], np.cumsum(codes.num_states[part])
        columns, rows = np.nonzero(values >= 0)
        starts = ends - codes.num_states[part]
        states = starts[columns] + values[columns, rows]
        shape = (int(ends[-1]), num_rows)
        counts = np.bincount(states, minlength=shape[0])
        present = np.flatnonzero(counts)
        ones = csr_array((np.ones(len(states), np.float32), (states, rows)), shape=shape)[present]
        sums = ones @ signs  # (states, R)
        column_of = np.searchsorted(ends, present, side="right")
        known = np.bincount(columns, minlength=len(values))
        shares = (counts[present] / known[column_of]).astype(np.float32)
        by_state = csr_array((1.0 / shares, (column_of, np.arange(len(present)))), shape=(len(values), len(present)))
        by_column = csr_array((np.ones_like(shares), (column_of, np.arange(len(present)))), shape=by_state.shape)
        result[part] = by_state @ sums**2 - (by_column @ sums) ** 2
    result -= result.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(result, axis=1, keepdims=True)
    result /= np.where(lengths > 1e-3, lengths, np.inf)
    return result


def _groups_of_splits(sketches: Array, random: np.random.Generator, columns: Array) -> Iterator[Array]:
    """Columns in groups of 128 at most: each split halves them by which of two columns they are like."""
    if len(columns) <= _GROUP:
        yield columns
        return
    first, second = random.choice(columns, 2, replace=False)
    order = np.argsort(sketches[columns] @ (sketches[first] - sketches[second]), kind="stable")
    for half in np.array_split(order, 2):
        yield from _groups_of_splits(sketches, random, np.sort(columns[half]))


def _groups_of_tree(tree: Array, random: np.random.Generator) -> Iterator[Array]:
    """Columns in groups of up to 128 that follow each other in a tree, depth first from a random root."""
    tree = rooted(tree, int(random.integers(len(tree))))
    children, order, waiting = children_of(tree), [], [int(np.flatnonzero(tree < 0)[0])]
    while waiting:
        column = waiting.pop()
        order.append(column)
        waiting += random.permutation(children[column]).tolist() if len(children[column]) > 1 else children[column]
    for start in range(-int(random.integers(_GROUP)), len(order), _GROUP):
        group = np.sort(order[max(start, 0) : start + _GROUP])
        if len(group) > 1:
            yield group
