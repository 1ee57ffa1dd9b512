"""Simpler circuits of the same values: without layers that do nothing, and with equal layers as one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, Layer, OuterProductLayer, TransposeLayer, held_layers
from plica.symbolic.operators.building import Builder
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterInput, dereferenced, setting_key


def simplified(circuit: Circuit, operation: CircuitOperation) -> Circuit:
    """The circuit without layers that no output reads, products of one factor, and second copies of equal layers.

    Layers are equal if they are of one class and have the same settings, tensors and inputs.
    """
    builder = Builder()
    images: dict[Layer, Layer] = {}
    made: dict[Hashable, Layer] = {}
    for layer in circuit.live_layers:
        inputs = tuple(images[child] for child in circuit.layer_inputs(layer))
        if _does_nothing(layer):
            images[layer] = inputs[0]
            continue
        key = (_layer_key(layer), inputs)
        if key not in made:
            made[key] = builder.add(layer.copyref(), *inputs)
            builder.keep_factors(circuit, layer, made[key])
        images[layer] = made[key]
    return builder.circuit([images[layer] for layer in circuit.outputs], operation)


def _does_nothing(layer: Layer) -> bool:
    if isinstance(layer, TransposeLayer):
        kept = [axis for axis in layer.axes if layer.sizes[axis] > 1]
        return kept == sorted(kept)
    return isinstance(layer, HadamardLayer | KroneckerLayer | OuterProductLayer) and layer.arity == 1


def _layer_key(layer: Layer) -> Hashable:
    """A key that is equal for layers that compute the same from the same inputs."""
    keys: list[Hashable] = []
    for start, held in held_layers(layer):
        names = tuple(name.partition(".")[0] for name in held.sub_layers)
        settings = tuple((name, setting_key(value)) for name, value in held.config.items() if name not in names)
        params = tuple((name, _parameter_key(parameter)) for name, parameter in held.params.items())
        opaque = tuple((name, setting_key(value)) for name, value in held.opaque.items())
        keys.append((start, type(held), settings, params, opaque))
    return tuple(keys)


def _parameter_key(parameter: Parameter) -> Hashable:
    """A key that is equal for parameters that apply the same operations to the same tensors or equal constants."""
    number = {node: index for index, node in enumerate(parameter.nodes)}

    def key(node: Any) -> Hashable:
        if isinstance(node, ConstantParameter):
            return type(node), node.shape, setting_key(node.value)
        if isinstance(node, ParameterInput):
            return cast(Hashable, dereferenced(node))
        return (
            type(node),
            setting_key(node.config),
            node.in_shapes,
            tuple(number[one] for one in parameter.node_inputs(node)),
        )

    return tuple(map(key, parameter.nodes)), tuple(number[output] for output in parameter.outputs)
