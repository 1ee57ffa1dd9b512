"""Deterministic circuits: random decision trees over finite variables, whose leaves are learned."""

from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from tests.harness.circuits import constant


def decision_tree(num_variables: int, num_states: int, seed: int) -> Circuit:
    """Each sum looks at one variable, and each of its terms is for one state of it."""
    rng = np.random.default_rng(seed)
    layers: list[Any] = []
    edges: dict[Any, Any] = {}

    def learned(variable: int) -> Any:
        layers.append(CategoricalLayer([variable], 1, num_categories=num_states))
        return layers[-1]

    def product(parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        layers.append(HadamardLayer(1, len(parts)))
        edges[layers[-1]] = parts
        return layers[-1]

    def branch(variables: list[int]) -> Any:
        if len(variables) < 2 or rng.random() < 0.2:
            return product([learned(variable) for variable in variables])
        variable = int(rng.choice(variables))
        rest = [one for one in variables if one != variable]
        terms = []
        for state in range(num_states):
            layers.append(
                CategoricalLayer([variable], 1, num_categories=num_states, probs=constant(np.eye(num_states)[[state]]))
            )
            terms.append(product([layers[-1], branch(rest)]))
        layers.append(SumLayer(1, 1, num_states))
        edges[layers[-1]] = terms
        return layers[-1]

    root = branch(list(range(num_variables)))
    return Circuit(layers, edges, [root])
