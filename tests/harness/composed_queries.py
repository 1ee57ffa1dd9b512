"""Circuits for queries that are compositions of operators, and tables of what they say of all states.

    p = Asked.of(context, circuit)
    p.shares      # the probability of each assignment, from the oracle in float64
    p.entropy()

Splits are deterministic: each looks at one variable after another, in a fixed order, and what is left is learned.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import ParameterFactory
from tests.harness.circuits import constant
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.oracle import Oracle, numbers

Array = Any


@dataclass(frozen=True)
class Asked:
    """A compiled circuit of variables with states, and its value at each assignment."""

    circuit: Circuit
    compiled: Any
    assignments: Array
    worth: Array

    @staticmethod
    def of(context: PipelineContext, circuit: Circuit) -> "Asked":
        """A circuit that a context compiles."""
        compiled = context.compile(circuit)
        counts = [circuit.domains[variable].num_states or 0 for variable in circuit.scope]
        columns = np.full((int(np.prod(counts)), max(circuit.scope) + 1), 0.0)
        columns[:, list(circuit.scope)] = list(itertools.product(*map(range, counts)))
        worth = Oracle(circuit, numbers(compiled)).linear(columns)[:, 0, 0]
        return Asked(circuit, compiled, columns, np.asarray(worth, float))

    @property
    def shares(self) -> Array:
        """The probability of each assignment."""
        return self.worth / self.worth.sum()

    def marginal(self, variables: Sequence[int]) -> dict[tuple[float, ...], float]:
        """The probability of each assignment of some variables."""
        shares: dict[tuple[float, ...], float] = {}
        for row, share in zip(self.assignments[:, list(variables)], self.shares, strict=True):
            shares[tuple(row)] = shares.get(tuple(row), 0.0) + share
        return shares


def entropy_of(shares: Any) -> float:
    """`-sum p log p`, in which 0 log 0 is 0."""
    positive = np.array([share for share in shares if share > 0])
    return float(-(positive * np.log(positive)).sum())


def split(
    order: Sequence[int], rest: Sequence[int], states: int = 2, *, factory: ParameterFactory | None = None
) -> Circuit:
    """Sums that look at the variables of `order`, one after another; each leaf is learned over `rest`.

    Args:
        order: The variables that are looked at.
        rest: Those that leaves multiply.
        states: The number of states of each variable.
        factory: Makes the weights of sums, and the tables of leaves.
    """
    make = exp_normal if factory is None else factory
    edges: dict[Layer, tuple[Layer, ...]] = {}

    def add(layer: Layer, *inputs: Layer) -> Layer:
        edges[layer] = inputs
        return layer

    indicators = [
        [add(CategoricalLayer([v], 1, num_categories=states, probs=constant([row]))) for row in np.eye(states)]
        for v in order
    ]

    def node(depth: int) -> Layer | None:
        if depth == len(order):
            leaves = [add(CategoricalLayer([v], 1, num_categories=states, probs_factory=make)) for v in rest]
            return add(HadamardLayer(1, len(leaves)), *leaves) if len(leaves) > 1 else next(iter(leaves), None)
        terms = []
        for indicator in indicators[depth]:
            below = node(depth + 1)
            terms.append(indicator if below is None else add(HadamardLayer(1, 2), indicator, below))
        return add(SumLayer(1, 1, states, weight_factory=make), *terms)

    root = node(0)
    assert root is not None, "there is a variable"
    return Circuit(edges, {layer: inputs for layer, inputs in edges.items() if inputs}, [root])
