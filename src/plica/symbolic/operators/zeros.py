"""Circuits without terms that constants make 0: products of circuits of indicators are mostly of such terms.

>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer
>>> from plica.symbolic.parameters import ConstantParameter
>>> nothing = CategoricalLayer([0], 1, num_categories=2, probs=ConstantParameter(1, 2, value=0.0))
>>> product = HadamardLayer(1, 1)
>>> list(zero_layers(Circuit([nothing, product], {product: [nothing]}, [product])))
[CategoricalLayer(scope={0}, 1), HadamardLayer(arity=1, 1 -> 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.eager import namespace
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import CategoricalLayer, ConstantValueLayer, EmbeddingLayer, Layer, ProductLayer, SumLayer
from plica.symbolic.operators.building import Builder
from plica.symbolic.parameters import (
    ConstantParameter,
    IndexParameter,
    MixingWeightParameter,
    Parameter,
    ParameterInput,
    dereferenced,
)


def without_zeros(circuit: Circuit, operation: CircuitOperation) -> Circuit:
    """The circuit without the terms of sums that constants make 0; unchanged if an output is 0 as a whole."""
    zeros = zero_layers(circuit)
    if not zeros or any(output in zeros for output in circuit.outputs):
        return circuit
    builder = Builder()
    images: dict[Layer, Layer] = {}
    for layer in circuit.live_layers:
        if layer in zeros:
            continue
        inputs = circuit.layer_inputs(layer)
        kept = [at for at, child in enumerate(inputs) if child not in zeros]
        copy = layer.copyref()
        if len(kept) < len(inputs):
            assert isinstance(layer, SumLayer), "products with a factor 0 are 0"
            weight = _columns(layer, kept)
            copy = SumLayer(layer.num_input_units, layer.num_output_units, len(kept), weight)
        images[layer] = builder.add(copy, *(images[inputs[at]] for at in kept))
    return builder.circuit([images[output] for output in circuit.outputs], operation)


def zero_layers(circuit: Circuit) -> dict[Layer, None]:
    """The layers that constants make 0 everywhere: zeros alone, products with one of them, sums of them alone."""
    zeros: dict[Layer, None] = {}
    for layer in circuit.live_layers:
        inputs = circuit.layer_inputs(layer)
        if isinstance(layer, ProductLayer):
            is_zero = any(child in zeros for child in inputs)
        elif isinstance(layer, SumLayer):
            is_zero = all(child in zeros for child in inputs)
        else:
            is_zero = _has_zeros_alone(layer)
        if is_zero:
            zeros[layer] = None
    return zeros


def _has_zeros_alone(layer: Layer) -> bool:
    if not isinstance(layer, CategoricalLayer | EmbeddingLayer | ConstantValueLayer):
        return False
    ((name, parameter),) = layer.params.items()
    numbers = _constant_of(parameter)
    is_log = name == "logits" or (isinstance(layer, ConstantValueLayer) and layer.log_space)
    return numbers is not None and bool((numbers == (-np.inf if is_log else 0.0)).all())


def _constant_of(parameter: Parameter) -> Any:
    """The numbers of a parameter of constants alone; None of another one."""
    leaves = [dereferenced(leaf) for leaf in parameter.leaves]
    if not all(isinstance(leaf, ConstantParameter) for leaf in leaves):
        return None
    values: dict[Any, Any] = {}
    for node in parameter.nodes:
        if isinstance(node, ParameterInput):
            leaf = dereferenced(node)
            assert isinstance(leaf, ConstantParameter), "all leaves are constants"
            numbers = np.asarray(leaf.value)
            values[node] = np.broadcast_to(numbers.astype(np.result_type(numbers, float)), (1, *leaf.shape))
        else:
            values[node] = node.evaluate(namespace, *(values[child] for child in parameter.node_inputs(node)))
    return np.asarray(values[parameter.output])


def _columns(layer: SumLayer, kept: Sequence[int]) -> Parameter:
    """The weights of some inputs of a sum; those of a mixing layer stay such."""
    weight = (layer.evaluated_params["weight"] if layer.mixing else layer.weight).ref()
    width = 1 if layer.mixing else layer.num_input_units
    columns = [at * width + unit for at in kept for unit in range(width)]
    chosen = Parameter.from_unary(IndexParameter(weight.shape, indices=columns, axis=-1), weight)
    return Parameter.from_unary(MixingWeightParameter(chosen.shape), chosen) if layer.mixing else chosen
