"""Circuits of finite variables for tests of queries, and rows with something missing."""

from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.templates.region_graph import QuadGraph, RandomBinaryTree
from tests.harness.circuits import CIRCUITS, graph_circuit, mixing, unnormalized
from tests.harness.oracle import all_states

QUERIED = {
    "unnormalized": unnormalized,
    "two trees": lambda: graph_circuit(RandomBinaryTree(4, num_repetitions=2), "cp"),
    "quad graph, mixing": lambda: graph_circuit(QuadGraph((1, 2, 2)), "cp-t", nary_sum_weight_factory=mixing),
    "quad graph, tucker": lambda: graph_circuit(QuadGraph((1, 2, 2)), "tucker", nary_sum_weight_factory=mixing),
    "kronecker of 3": CIRCUITS["kronecker of 3"],
    "shared": CIRCUITS["shared"],
}


def evidence(circuit: Circuit, rows: int, seed: int) -> np.ndarray:
    """Rows of states, half of which are missing; the first row lacks all, the second nothing."""
    rng = np.random.default_rng(seed)
    states = all_states(circuit)
    x = states[rng.integers(len(states), size=rows)].astype(float)
    x[rng.random(x.shape) < 0.5] = np.nan
    x[0] = np.nan
    return x


def one_unit(circuit: Circuit) -> Circuit:
    """The first output of a circuit, or the sum of its units."""
    output = circuit.outputs[0]
    if output.num_output_units == 1:
        return circuit.subgraph(output)
    total = SumLayer(output.num_output_units, 1)
    part = circuit.subgraph(output)
    edges: dict[Any, Any] = {layer: part.layer_inputs(layer) for layer in part.inner_layers}
    return Circuit([*part.layers, total], {**edges, total: [output]}, [total])
