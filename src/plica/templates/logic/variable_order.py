"""Orders the variables of clauses, so that those of one clause are near each other: diagrams over it are small.

>>> from plica.templates.logic.dimacs import CNF
>>> shuffled = CNF([[1, 4], [-4, 2], [2, 5], [-5, 3]])  # a chain of variables 0, 3, 1, 4, 2
>>> order = variable_order(shuffled)
>>> order, separation(order, neighbours(shuffled)), separation(range(5), neighbours(shuffled))
([2, 4, 1, 3, 0], 1, 3)

Two variables are neighbours if a clause has both. The separation of an order is the largest number of variables before
a cut that have neighbours after it. A diagram over the order is linear in the number of variables, and at worst
exponential in the separation. Three orders are compared, and the first of the least separation is taken:

* ascending numbers;
* reverse Cuthill-McKee, which is good for chains, ladders and grids;
* the elimination tree of least degrees, depth first, largest subtrees first. For trees, and other graphs of small tree
  width, its separation is the width times a logarithm.

Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969; Liu, "The role of elimination
trees in sparse factorization", 1990; Bodlaender, Gilbert, Hafsteinsson and Kloks, "Approximating treewidth, pathwidth,
frontsize, and shortest elimination tree", 1995.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TypeAlias

from plica.templates.logic.dimacs import CNF

Neighbours: TypeAlias = Mapping[int, Sequence[int]]

_LONG = 32  # a longer clause joins only neighbours in ascending order: all pairs would be too many
_WIDEST = 64  # no diagram of such a width can be built, so that its order does not matter


def variable_order(cnf: CNF) -> list[int]:
    """The variables of clauses, in the order of the least separation that is found."""
    graph = neighbours(cnf)
    candidates = (list(graph), _cuthill_mckee(graph), _by_elimination(graph))
    return min(candidates, key=lambda order: separation(order, graph))


def neighbours(cnf: CNF) -> Neighbours:
    """The variables that share a clause with each variable, in ascending order."""
    graph: dict[int, dict[int, None]] = {variable: {} for variable in cnf.scope}
    for clause in cnf.clauses:
        members = sorted({abs(literal) - 1 for literal in clause})
        pairs: Iterable[tuple[int, int]] = combinations(members, 2) if len(members) <= _LONG else pairwise(members)
        for first, second in pairs:
            graph[first][second] = graph[second][first] = None
    return {variable: sorted(others) for variable, others in graph.items()}


def separation(order: Iterable[int], graph: Neighbours) -> int:
    """The largest number of variables before a cut of an order that have neighbours after it."""
    position = {variable: index for index, variable in enumerate(order)}
    changes = [0] * (len(position) + 1)
    for variable, index in position.items():
        last = max((position[other] for other in graph[variable]), default=-1)
        if last > index:
            changes[index] += 1
            changes[last] -= 1
    largest = open_variables = 0
    for change in changes:
        open_variables += change
        largest = max(largest, open_variables)
    return largest


def _cuthill_mckee(graph: Neighbours) -> list[int]:
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    variables = list(graph)
    if not variables:
        return []  # SciPy refuses an empty matrix
    position = {variable: index for index, variable in enumerate(variables)}
    columns = [position[other] for others in graph.values() for other in others]
    starts = np.cumsum([0, *map(len, graph.values())])
    matrix = csr_matrix((np.ones(len(columns), dtype=np.int8), columns, starts), shape=(len(graph), len(graph)))
    return [variables[index] for index in reverse_cuthill_mckee(matrix, symmetric_mode=True)]


def _by_elimination(graph: Neighbours) -> list[int]:
    """The elimination tree of least degrees, depth first: each variable before those below it."""
    parents = _elimination_tree(graph)
    children: dict[int | None, list[int]] = {None: [], **{variable: [] for variable in parents}}
    sizes = dict.fromkeys(parents, 1)
    for variable, parent in parents.items():  # a variable is eliminated before its parent
        children[parent].append(variable)
        if parent is not None:
            sizes[parent] += sizes[variable]
    order: list[int] = []
    waiting = sorted(children[None], key=sizes.__getitem__)
    while waiting:
        variable = waiting.pop()
        order.append(variable)
        waiting.extend(sorted(children[variable], key=sizes.__getitem__, reverse=True))
    return order


def _elimination_tree(graph: Neighbours) -> dict[int, int | None]:
    """Each variable, in the order of elimination, and of its neighbours then the one that is eliminated first."""
    remaining = {variable: set(others) for variable, others in graph.items()}
    heap = [(len(others), variable) for variable, others in remaining.items()]
    heapq.heapify(heap)
    fronts: dict[int, list[int]] = {}
    while heap:
        degree, variable = heapq.heappop(heap)
        if variable not in remaining or degree != len(remaining[variable]):
            continue
        front = sorted(remaining.pop(variable))
        fronts[variable] = front
        for other in front:
            remaining[other].discard(variable)
            if degree <= _WIDEST:
                remaining[other].update(front)
                remaining[other].discard(other)
            heapq.heappush(heap, (len(remaining[other]), other))
    number = {variable: index for index, variable in enumerate(fronts)}
    return {variable: min(front, key=number.__getitem__, default=None) for variable, front in fronts.items()}
