"""Circuits side by side, and mixtures of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError, StructuralPropertyError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import SumLayer
from plica.symbolic.operators.building import Builder
from plica.symbolic.parameters import ConstantParameter, MixingWeightParameter, Parameter, ParameterInput


def joined(circuits: Sequence[Circuit], operation: CircuitOperation) -> Circuit:
    """The circuit of the outputs of all circuits, one circuit after another.

    Raises:
        ShapeError: Outputs of unequal numbers of units.
    """
    builder = Builder()
    outputs = [builder.copy(circuit, layer) for circuit in circuits for layer in circuit.outputs]
    units = list(dict.fromkeys(circuit.outputs[0].num_output_units for circuit in circuits))
    if len(units) > 1:
        layers = [
            next(
                circuit.layer_name(circuit.outputs[0])
                for circuit in circuits
                if circuit.outputs[0].num_output_units == k
            )
            for k in units[:2]
        ]
        raise ShapeError(
            f"{operation.operator}: outputs need one number of units, found {units[0]} in {layers[0]} and {units[1]} "
            f"in {layers[1]}; put a SumLayer on one of them"
        )
    return builder.circuit(outputs, operation)


def mixed(circuits: Sequence[Circuit], weights: Any, operation: CircuitOperation) -> Circuit:
    """The circuit whose output m, unit k, is the weighted sum of output m, unit k, of all circuits.

    Raises:
        ShapeError: Circuits of unequal numbers of outputs or units, or another number of weights.
        StructuralPropertyError: Outputs of different scopes.
    """
    first = circuits[0]
    sizes = [(len(circuit.outputs), circuit.outputs[0].num_output_units) for circuit in circuits]
    if any(size != sizes[0] for size in sizes):
        raise ShapeError(
            "mixture: expected circuits of one number of outputs and units, found (outputs, units) "
            f"{' and '.join(map(str, sizes))}; put a SumLayer on top of one of them"
        )
    count, units = sizes[0]
    weight = _weight(weights, units, len(circuits))
    builder = Builder()
    outputs = []
    for at in range(count):
        layers = [circuit.outputs[at] for circuit in circuits]
        scopes = [circuit.layer_scope(layer) for circuit, layer in zip(circuits, layers, strict=True)]
        if any(scope != scopes[0] for scope in scopes):
            raise StructuralPropertyError(
                f"mixture needs circuits of one scope, so that it is smooth, but the scopes of output {at} are "
                f"{' and '.join(map(str, scopes))}; multiply each circuit by one over the variables that it lacks"
            )
        copies = [builder.copy(circuit, layer) for circuit, layer in zip(circuits, layers, strict=True)]
        mixing = Parameter.from_unary(MixingWeightParameter(weight.shape), weight.ref())
        outputs.append(builder.add(SumLayer(units, units, len(copies), mixing), *copies))
    assert first.outputs, "a circuit has an output"
    return builder.circuit(outputs, operation)


def _weight(weights: Any, units: int, count: int) -> Parameter:
    """Weights as a parameter `(units, count)`: a parameter of this shape, or a number for each circuit."""
    if isinstance(weights, Parameter | ParameterInput):
        parameter = Parameter.from_input(weights)
        if parameter.shape != (units, count):
            raise ShapeError(
                f"mixture: expected a weight of shape {(units, count)}, units and circuits, found {parameter.shape}"
            )
        return parameter
    try:
        numbers = np.asarray(weights)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"mixture: the weights {weights!r:.60} are no array ({error}); give a number for each circuit, or a "
            "parameter"
        ) from error
    if numbers.dtype.kind not in "biufc":
        raise InputError(f"mixture: expected numbers or a parameter as weights, found {weights!r:.60}")
    if numbers.shape != (count,):
        raise ShapeError(
            f"mixture: expected {count} weight(s), one for each circuit, found an array of shape {numbers.shape}"
        )
    return Parameter.from_input(ConstantParameter(units, count, value=np.broadcast_to(numbers, (units, count)).copy()))
