"""Circuits of finite variables for tests of queries, and rows with something missing."""

from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import SumLayer
from plica.templates.region_graph import QuadGraph, RandomBinaryTree
from tests.harness.circuits import CIRCUITS, graph_circuit, mixing, unnormalized
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.statistics import assert_distribution, frequencies

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


def assert_conditional(compiled: Any, x: np.ndarray, found: np.ndarray, level: float) -> None:
    """Chi-squared tests of samples `(rows, number, D)` against what each row leaves open."""
    circuit = compiled.symbolic
    states = all_states(circuit)
    weights = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0].astype(float)
    for row, drawn in zip(x, found, strict=True):
        fits = (np.isnan(row) | (states == row)).all(axis=1)
        assert_distribution(frequencies(states, drawn), np.where(fits, weights, 0.0), level)


def normals_of(compiled: Any) -> tuple[np.ndarray, ...]:
    """Of a mixture of two normal variables: weights `(3,)`; means, deviations, logarithms of factors, each `(2, 3)`."""
    circuit = compiled.symbolic
    oracle = Oracle(circuit, numbers(compiled))
    params = (
        np.stack([np.ravel(oracle.parameter(layer.params[name])).astype(float) for layer in circuit.input_layers])
        if name in circuit.input_layers[0].params
        else np.zeros((2, 3))
        for name in ("mean", "stddev", "log_partition")
    )
    return np.ravel(oracle.parameter(circuit.sum_layers[0].weight)).astype(float), *params
