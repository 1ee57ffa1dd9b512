"""Circuits made from others by hand: integrals, evidence and products, and their values by enumeration in float64.

c = tree()
z = integrated(c, range(5))
expected = sums_over(c, numbers(compiled), range(5), x)  # numpy; knows nothing of z
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EvidenceLayer,
    HadamardLayer,
    InputLayer,
    Layer,
    SumLayer,
)
from plica.symbolic.parameters import Parameter, ReduceLSEParameter, TensorParameter
from plica.symbolic.scope import Scope
from tests.harness.oracle import Oracle

Array = Any
STATES = 3


def leaf(*shape: int) -> TensorParameter:
    """A learnable tensor of normal draws."""
    return TensorParameter(*shape, initializer=NormalInitializer())


def tree(outputs: int = 1) -> Circuit:
    """Five variables of 3 states, two units of unnormalised logits each: sums of ((0 1) (2 3)) 4."""
    x = [CategoricalLayer([v], 2, num_categories=STATES, logits=leaf(2, STATES)) for v in range(5)]
    pairs = [HadamardLayer(2) for _ in range(4)]
    sums = [SumLayer(2, 2) for _ in range(3)]
    tops = [SumLayer(2, 1) for _ in range(outputs)]
    edges: dict[Layer, list[Layer]] = {pairs[0]: [x[0], x[1]], pairs[1]: [x[2], x[3]], pairs[2]: [sums[0], sums[1]]}
    for number in range(3):
        edges[sums[number]] = [pairs[number]]
    edges[pairs[3]] = [sums[2], x[4]]
    for top in tops:
        edges[top] = [pairs[3]]
    return Circuit([*x, *pairs, *sums, *tops], edges, tops)


def integrated(circuit: Circuit, scope: Iterable[int]) -> Circuit:
    """The circuit with the variables of a scope summed out."""
    gone = Scope(scope)

    def new(layer: Layer) -> Layer:
        if isinstance(layer, CategoricalLayer) and layer.scope <= gone:
            assert layer.logits is not None
            total = Parameter.from_unary(ReduceLSEParameter(layer.logits.shape, axis=1), layer.logits.ref())
            return ConstantValueLayer(layer.num_output_units, log_space=True, value=total)
        return layer.copyref()

    return _derived(circuit, new, CircuitOperation("integrate", (circuit,), {"scope": gone}))


def observed(circuit: Circuit, observations: Mapping[int, int]) -> Circuit:
    """The circuit with some variables observed."""

    def new(layer: Layer) -> Layer:
        if isinstance(layer, InputLayer) and all(variable in observations for variable in layer.scope):
            return EvidenceLayer(layer.copyref(), observation=[observations[variable] for variable in layer.scope])
        return layer.copyref()

    return _derived(circuit, new, CircuitOperation("evidence", (circuit,), {"obs": dict(observations)}))


def copied(circuit: Circuit) -> Circuit:
    """The circuit as an operator would give it that changes nothing."""
    return _derived(circuit, lambda layer: layer.copyref(), CircuitOperation("copy", (circuit,), {}))


def product(*circuits: Circuit) -> Circuit:
    """The product of circuits of one output and one unit, whose scopes are disjoint."""
    layers: dict[Layer, Layer] = {layer: layer.copyref() for circuit in circuits for layer in circuit.layers}
    edges = {
        layers[layer]: [layers[child] for child in circuit.layer_inputs(layer)]
        for circuit in circuits
        for layer in circuit.layers
    }
    top = HadamardLayer(1, len(circuits))
    edges[top] = [layers[circuit.outputs[0]] for circuit in circuits]
    operation = CircuitOperation("multiply", circuits, {})
    return Circuit.from_operation([*layers.values(), top], edges, [top], operation=operation)


def _derived(circuit: Circuit, new: Callable[[Layer], Layer], operation: CircuitOperation) -> Circuit:
    layers = {layer: new(layer) for layer in circuit.layers}
    edges = {layers[layer]: [layers[child] for child in circuit.layer_inputs(layer)] for layer in circuit.layers}
    outputs = [layers[layer] for layer in circuit.outputs]
    return Circuit.from_operation(layers.values(), edges, outputs, operation=operation)


def sums_over(circuit: Circuit, values: Mapping[str, Array], scope: Iterable[int], x: Array) -> Array:
    """The sums of a circuit over all states of some variables, for each row of the others: `(B, outputs, units)`."""
    variables, oracle, total = list(scope), Oracle(circuit, values), 0.0
    for states in itertools.product(range(STATES), repeat=len(variables)):
        rows = np.array(x, float)
        rows[:, variables] = states
        total = total + oracle.linear(rows)
    return np.asarray(total)
