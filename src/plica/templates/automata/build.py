"""Builds the circuit of an automaton: a chain that is split as that of a hidden Markov model of the same ordering."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import EmbeddingLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.templates.automata.table import Table, symbol_classes

Reals: TypeAlias = NDArray[np.float64]


class _Arcs(NamedTuple):
    """The transitions of a table, those to one state at the same symbols as one arc.

    Args:
        symbols: `(A, S)`, 1 at the symbols of an arc.
        target: `(A, Q)`, 1 at the state that an arc leads to.
        leaving: `(Q, A)`, 1 at the arcs that leave a state; no two of them share a symbol.
    """

    symbols: Reals
    target: Reals
    leaving: Reals


def chain(table: Table, steps: Sequence[int]) -> Circuit:
    """The circuit whose value is 1 at the words of a trimmed table, and 0 elsewhere.

    It follows the word from its end: `b_t[q] = sum over arcs a of q of [x_t in symbols of a] * b_{t+1}[target of a]`.

    Args:
        table: The automaton.
        steps: The variables in the order of the word, at least one.
    """
    arcs, num_symbols = _arcs(table), table.following.shape[1]
    ends = np.append(table.accepting, False)[table.following]  # state -1, where the automaton rejects, is the last
    symbols, target, leaving = map(_constant, arcs)
    start = _constant(arcs.leaving[table.start : table.start + 1])
    num_arcs, num_states = arcs.target.shape
    if len(steps) == 1:
        ends = ends[table.start : table.start + 1]
    state: Layer = EmbeddingLayer(steps[-1:], len(ends), num_states=num_symbols, weight=_constant(ends))
    inputs: dict[Layer, Sequence[Layer]] = {state: ()}
    for at in reversed(range(len(steps) - 1)):
        read = EmbeddingLayer([steps[at]], num_arcs, num_states=num_symbols, weight=symbols.ref())
        moved = SumLayer(num_states, num_arcs, weight=target.ref())
        both = HadamardLayer(num_arcs, 2)
        chosen = SumLayer(num_arcs, num_states, weight=leaving.ref()) if at else SumLayer(num_arcs, 1, weight=start)
        inputs |= {read: (), moved: (state,), both: (read, moved), chosen: (both,)}
        state = chosen
    edges: Mapping[Layer, Sequence[Layer]] = {layer: children for layer, children in inputs.items() if children}
    return Circuit(list(inputs), dict(edges), [state])


def _arcs(table: Table) -> _Arcs:
    classes, class_of = symbol_classes(table.following)
    sources: dict[tuple[int, bytes], list[int]] = {}
    for state, row in enumerate(classes):
        for following in dict.fromkeys(row.tolist()):
            if following >= 0:
                sources.setdefault((following, (row == following).tobytes()), []).append(state)
    num_arcs, num_states = max(len(sources), 1), len(classes)  # without an arc, one that reads no symbol
    symbols = np.zeros((num_arcs, classes.shape[1]))
    target, leaving = np.zeros((num_arcs, num_states)), np.zeros((num_states, num_arcs))
    for arc, ((following, taken), states) in enumerate(sources.items()):
        symbols[arc] = np.frombuffer(taken, dtype=np.bool_)
        target[arc, following] = 1.0
        leaving[states, arc] = 1.0
    return _Arcs(symbols[:, class_of], target, leaving)


def _constant(numbers: NDArray[np.generic]) -> Parameter:
    return Parameter.from_input(ConstantParameter(*numbers.shape, value=numbers.astype(np.float64)))
