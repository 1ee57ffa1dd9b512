"""Circuits divided by their integrals: the integral is a parameter, computed from the parameters of the layers.

The quotient is the circuit times a constant layer of the logarithms `-log Z`. So Z is a number in every algebra, and
its logarithm is as accurate as that of any parameter, also where Z underflows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias, final

import numpy as np

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import (
    CircuitBlock,
    ConstantValueLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    OperatorRegistry,
    OperatorRow,
    OuterProductLayer,
    SumLayer,
    TransposeLayer,
    rule_of,
)
from plica.symbolic.operators.building import Builder
from plica.symbolic.operators.unary import integral
from plica.symbolic.parameters import (
    ConcatParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogParameter,
    Parameter,
    ParameterOp,
)

Node: TypeAlias = Any  # of a parameter


def normalized(circuit: Circuit, what: str, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The circuit with each unit of each output divided by its integral over all variables.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: The integral, or the value, of an input layer is no parameter.
    """
    total = integral(circuit, circuit.scope, registry, operation)
    totals = Values(total, what, registry)
    builder = Builder()
    outputs = []
    for layer, total_layer in zip(circuit.outputs, total.outputs, strict=True):
        units = layer.num_output_units
        minus = ConstantParameter(units, value=-1.0)
        logs = Parameter.from_unary(LogParameter((units,)), totals.parameter(total_layer))
        value = Parameter.from_binary(HadamardParameter((units,), (units,)), logs, minus)
        factor = builder.add(ConstantValueLayer(units, log_space=True, value=value))
        outputs.append(builder.add(HadamardLayer(units, 2), builder.copy(circuit, layer), factor))
    return builder.circuit(outputs, operation)


@final
@dataclass(slots=True)
class Values:
    """The values of the layers of a circuit without variables, as nodes of one parameter."""

    circuit: Circuit
    what: str
    registry: OperatorRegistry
    in_nodes: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    nodes: dict[Layer, Node] = field(default_factory=dict)
    values: Parameter = field(init=False)

    def __post_init__(self) -> None:
        for layer in self.circuit.live_layers:
            read = [self.nodes[child] for child in self.circuit.layer_inputs(layer)]
            self.nodes[layer] = self._value(layer, read)
        outputs = [self.nodes[layer] for layer in self.circuit.outputs]
        self.values = Parameter(self.in_nodes, self.in_nodes, outputs)  # checked once for all outputs

    def parameter(self, layer: Layer) -> Parameter:
        """The value `(K,)` of an output."""
        return self.values.subgraph(self.nodes[layer])

    def _value(self, layer: Layer, read: list[Node]) -> Node:
        match layer:
            case SumLayer():
                weight = self._add(layer.weight.ref())
                units = self._joined(read)
                return self._apply(EinsumParameter(weight.shape, units.shape, equation="oi,i->o"), weight, units)
            case HadamardLayer():
                return self._accumulated(HadamardParameter, read)
            case KroneckerLayer() | OuterProductLayer():
                return self._accumulated(KroneckerParameter, read)
            case TransposeLayer():
                places = np.arange(prod(layer.sizes)).reshape(layer.sizes).transpose(layer.axes)
                return self._apply(IndexParameter(read[0].shape, indices=places.ravel().tolist()), read[0])
        if not isinstance(layer, ConstantValueLayer):
            row = rule_of(self.registry, "constant", layer)
            block = None if row is None else self._block(row, layer)
            if block is None or not isinstance(block.output, ConstantValueLayer):
                raise UnsupportedError(
                    f"{self.what}: the value of {self.circuit.layer_name(layer)} is no parameter; give a context a "
                    f"rule by add_operator_rule(OperatorRow('constant', ({type(layer).__name__},), rule)) that gives a "
                    "ConstantValueLayer"
                )
            layer = block.output
        value = self._add(layer.value.ref())
        return self._apply(ExpParameter(value.shape), value) if layer.log_space else value

    def _block(self, row: OperatorRow, layer: Layer) -> CircuitBlock:
        try:
            return row.rule(layer)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.what}: {self.circuit.layer_name(layer)}: {error}") from error

    def _add(self, parameter: Parameter) -> Node:
        self.in_nodes.update((node, parameter.node_inputs(node)) for node in parameter.nodes)
        return parameter.output

    def _apply(self, op: ParameterOp, *inputs: Node) -> Node:
        self.in_nodes[op] = inputs
        return op

    def _accumulated(self, kind: Any, read: list[Node]) -> Node:
        product, *factors = read
        for factor in factors:
            product = self._apply(kind(product.shape, factor.shape), product, factor)
        return product

    def _joined(self, read: list[Node]) -> Node:
        """Vectors one after another, joined two by two."""
        while len(read) > 1:
            pairs = [read[at : at + 2] for at in range(0, len(read), 2)]
            read = [
                self._apply(ConcatParameter(pair[0].shape, pair[1].shape), *pair) if len(pair) == 2 else pair[0]
                for pair in pairs
            ]
        return read[0]
