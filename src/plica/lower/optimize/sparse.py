"""Sums whose constant weight is mostly zeros: each sum reads the few units that it needs.

>>> import numpy as np
>>> terms, weights = terms_of(np.array([[0, 0, 2, 0], [1, 0, 0, 3]]), arity=1)
>>> terms, weights.tolist()
((Term(input=0, units=(2, 0)), Term(input=0, units=(-1, 3))), [[2, 0], [1, 3]])
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.graph.optimize import Replacement
from plica.graph.view import GraphOptMatch
from plica.lower.optimize.columns import constant
from plica.lower.optimize.costs import layers_cost
from plica.symbolic.layers import SparseSumLayer, SumLayer, TensorDotLayer, Term
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.semirings import Law

Match = GraphOptMatch[Any]
New = Replacement[Any]

SELECTIVE = 100
"""How many times as long a sum of products takes that chooses a term: no matrix product, it writes all terms."""


def is_sparse(weight: Parameter) -> bool:
    """Whether a weight is a constant of which more than half of the numbers are 0."""
    value = constant(weight.output)
    if value is None or not (0 not in value.strides or value.size == 1):
        return False  # one number for all entries
    return bool(2 * np.count_nonzero(value) < value.size)


def terms_of(weight: NDArray[Any], arity: int) -> tuple[tuple[Term, ...], NDArray[Any]]:
    """The terms of a sparse weight `(O, H*I)`, and the weights `(O, T)` of them; a sum of fewer terms reads unit -1."""
    sums = len(weight)
    terms: list[Term] = []
    columns: list[NDArray[Any]] = []
    for index, block in enumerate(np.split(weight, arity, axis=1)):
        rows, units = np.nonzero(block)
        starts = np.searchsorted(rows, np.arange(sums))
        number = np.arange(len(rows)) - starts[rows]  # of an entry among those of its row
        count = int(number.max(initial=0)) + 1 if len(rows) or index == arity - 1 else 0
        read = np.full((count, sums), -1)
        numbers = np.zeros((count, sums), dtype=weight.dtype)
        read[number, rows], numbers[number, rows] = units, block[rows, units]
        terms += [Term(index, tuple(map(int, term))) for term in read]
        columns += list(numbers)
    return tuple(terms), np.stack(columns, axis=1)


def sparse(match: Match) -> New:
    """The sparse layer of a sum layer or of a tensor-dot layer."""
    return Replacement.chain(match["inputs"], _sparse(match["layer"]))


def _sparse(layer: SumLayer | TensorDotLayer) -> SparseSumLayer:
    weight = constant(layer.weight.output)
    assert weight is not None, "the pattern asks for a constant"
    terms, numbers = terms_of(weight, layer.arity)
    entries = ConstantParameter(*numbers.shape, value=numbers)
    if isinstance(layer, TensorDotLayer):
        return SparseSumLayer(layer.num_summed, terms, layer.num_left, layer.num_right, entries)
    return SparseSumLayer(layer.num_input_units, terms, weight=entries)


def sparse_costs_more(match: Match) -> str | None:
    """Why a sparse layer is not better: it costs more in the algebra of the circuit."""
    layer = match["layer"]
    after, before = layers_cost([_sparse(layer)]).work, layers_cost([layer]).work
    if Law.SELECTIVE_SUM in match.context.algebra.laws:
        before *= SELECTIVE
    return None if after < before else "so many gathers cost no less than one matrix product"
