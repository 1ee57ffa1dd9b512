"""Softened inputs: probabilities of states that cannot come near 0 or 1, however rare a state is in the rows.

>>> import numpy as np
>>> from plica.templates import hclt
>>> circuit = soften(hclt(np.array([[0, 1], [1, 1], [0, 0]]), 2), 0.1)
>>> [sorted(layer.params) for layer in circuit.input_layers]
[['probs'], ['probs']]
"""

from __future__ import annotations

from plica.arguments import number
from plica.errors import InputError, UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, InputLayer, Layer
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    Parameter,
    SumParameter,
)


def soften(circuit: Circuit, share: float) -> Circuit:
    """The circuit whose categorical inputs take a share of their probability evenly from all states.

    Probabilities p of C states become (1 - share) p + share / C, while it learns and ever after. So a state that a unit
    never saw keeps share / C, which is a prior whose strength does not fade with the number of rows.

    Args:
        circuit: A circuit whose input layers are categorical, as those of templates for states are.
        share: From 0, for the circuit as it is, to below 1.

    Returns:
        A circuit that shares its other layers and its parameters.

    Raises:
        DTypeError: `share` is no number.
        InputError: It lies elsewhere.
        UnsupportedError: An input layer is not categorical, or no softmax makes its probabilities; it is named.

    Source: Liu and Van den Broeck, "Tractable Regularization of Probabilistic Circuits", NeurIPS 2021, data softening.
    """
    amount = number("soften", "share", share)
    if not 0.0 <= amount < 1.0:
        raise InputError(f"soften: share must be from 0 to below 1, found {amount}; 0.05 is a good start")
    if amount == 0.0:
        return circuit
    replaced: dict[Layer, Layer] = {layer: layer for layer in circuit.layers}
    for layer in circuit.input_layers:
        replaced[layer] = _softened(circuit, layer, amount)
    edges = {replaced[layer]: [replaced[child] for child in circuit.layer_inputs(layer)] for layer in circuit.layers}
    outputs = [replaced[output] for output in circuit.outputs]
    return Circuit(list(edges), edges, outputs, data_scope=circuit.data_scope)


def _softened(circuit: Circuit, layer: InputLayer, share: float) -> CategoricalLayer:
    if not isinstance(layer, CategoricalLayer) or not layer.normalized:
        raise UnsupportedError(
            f"soften: {circuit.layer_name(layer)} is not categorical by a softmax; take a pseudocount"
        )
    count, shape = layer.num_categories, (layer.num_output_units, layer.num_categories)
    if layer.probs is None:
        assert layer.logits is not None, "a layer has one of both"
        probs = Parameter.from_unary(ExpParameter(shape), layer.logits)
    else:
        probs = layer.probs
    kept, even = (ConstantParameter(*shape, value=value) for value in (1.0 - share, share / count))
    scaled = Parameter.from_nary(HadamardParameter(shape, shape), probs, kept)
    mixed = Parameter.from_nary(SumParameter(shape, shape), scaled, even)
    return CategoricalLayer(layer.scope, layer.num_output_units, num_categories=count, probs=mixed)
