"""Smooth circuits: inputs of sums are multiplied by layers of the number 1 over the variables that they lack."""

from __future__ import annotations

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.domains import Domain
from plica.symbolic.layers import (
    EmbeddingLayer,
    FusedLayer,
    HadamardLayer,
    InputLayer,
    Layer,
    PolynomialLayer,
    ProductLayer,
)
from plica.symbolic.operators.building import Builder
from plica.symbolic.parameters import ConstantParameter
from plica.symbolic.scope import Scope


def smoothed(circuit: Circuit, operation: CircuitOperation) -> Circuit:
    """The circuit with equal scopes for all inputs of each sum; its values are the same.

    A variable of finitely many states is lacking as an embedding of ones, whose sum is the number of states. A real one
    is lacking as a polynomial of degree 0, which has no integral.

    Raises:
        UnsupportedError: A variable that an input lacks has integers without a bound, or another domain.
    """
    builder = Builder()
    images: dict[Layer, Layer] = {}
    ones: dict[tuple[Scope, int], Layer] = {}
    for layer in circuit.live_layers:
        inputs = circuit.layer_inputs(layer)
        read = [images[child] for child in inputs]
        if inputs and not isinstance(layer, ProductLayer | FusedLayer):
            scope = circuit.layer_scope(layer)
            for at, child in enumerate(inputs):
                lacking = scope - circuit.layer_scope(child)
                if lacking:
                    factor = _ones(builder, ones, circuit, lacking, child.num_output_units)
                    read[at] = builder.add(HadamardLayer(child.num_output_units, 2), read[at], factor)
        images[layer] = builder.add(layer.copyref(), *read)
        builder.keep_factors(circuit, layer, images[layer])
    return builder.circuit([images[layer] for layer in circuit.outputs], operation)


def _ones(builder: Builder, ones: dict[tuple[Scope, int], Layer], circuit: Circuit, scope: Scope, units: int) -> Layer:
    """The number 1 for each unit, over some variables; equal ones are made once."""
    if (scope, units) not in ones:
        factors = []
        for variable in scope:
            key = (Scope([variable]), units)
            if key not in ones:
                ones[key] = builder.add(_one(variable, units, circuit.domains[variable]))
            factors.append(ones[key])
        product = factors[0] if len(factors) == 1 else builder.add(HadamardLayer(units, len(factors)), *factors)
        ones[scope, units] = product
    return ones[scope, units]


def _one(variable: int, units: int, domain: Domain) -> InputLayer:
    states = domain.num_states
    if states is not None:
        weight = ConstantParameter(units, states, value=1.0)
        return EmbeddingLayer([variable], units, num_states=states, weight=weight)
    if not domain.whole and not domain.above and domain.least == -float("inf") and domain.most == float("inf"):
        return PolynomialLayer([variable], units, degree=0, coeff=ConstantParameter(units, 1, value=1.0))
    raise UnsupportedError(
        f"smooth: variable {variable} is lacking in an input of a sum, and no layer of Plica is the number 1 for "
        f"{domain.name}; multiply that input by an input layer over the variable"
    )
