"""The partial derivatives of a circuit, as a circuit.

A sum of derivatives is the derivative of a sum. Of a decomposable product, the one factor that reads the variable is
replaced by its derivative; so this holds for a derivative of any order with respect to one variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from plica.errors import ShapeError, UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import InputLayer, Layer, OperatorRegistry, ProductLayer, SumLayer, rule_of
from plica.symbolic.operators.building import Builder
from plica.symbolic.operators.flat_products import LAYOUTS


def derivatives(circuit: Circuit, order: int, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The derivative of each output with respect to each of its variables, in ascending order; then the output.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: An input layer has no rule, or an inner layer is no sum and no product.
    """
    circuit.check_smooth_and_decomposable("differentiate")
    walk = _Derivatives(circuit, order, registry)
    outputs: list[Layer] = []
    for layer in circuit.outputs:
        outputs += [walk.derivative(layer, variable) for variable in circuit.layer_scope(layer)]
        outputs.append(walk.builder.copy(circuit, layer))
    return walk.builder.circuit(outputs, operation)


@final
@dataclass(slots=True)
class _Derivatives:
    """The derivatives of layers, each made once."""

    circuit: Circuit
    order: int
    registry: OperatorRegistry
    builder: Builder = field(default_factory=Builder)
    known: dict[tuple[Layer, int], Layer] = field(default_factory=dict)

    def derivative(self, layer: Layer, variable: int) -> Layer:
        """The derivative of a layer with respect to a variable of its scope."""
        todo = [layer]
        while todo:  # inputs first
            top = todo[-1]
            read = [child for child in self.circuit.layer_inputs(top) if variable in self.circuit.layer_scope(child)]
            lacking = [child for child in read if (child, variable) not in self.known]
            if lacking and (top, variable) not in self.known:
                todo += lacking
                continue
            todo.pop()
            if (top, variable) not in self.known:
                self.known[top, variable] = self._layer(top, variable)
        return self.known[layer, variable]

    def _layer(self, layer: Layer, variable: int) -> Layer:
        if isinstance(layer, InputLayer):
            return self._of_input(layer, variable)
        inputs = self.circuit.layer_inputs(layer)
        is_product = isinstance(layer, ProductLayer) and type(layer) in LAYOUTS
        if not is_product and not isinstance(layer, SumLayer):
            raise UnsupportedError(
                f"differentiate: {self.circuit.layer_name(layer)} is no sum and no product layer of Plica; describe "
                "the circuit by these, before anything is optimized"
            )
        images = [
            self.known[child, variable] if (child, variable) in self.known else self.builder.copy(self.circuit, child)
            for child in inputs
        ]
        return self.builder.add(layer.copyref(), *images)

    def _of_input(self, layer: InputLayer, variable: int) -> Layer:
        row = rule_of(self.registry, "differentiate", layer)
        if row is None:
            raise UnsupportedError(
                f"differentiate: there is no rule for {self.circuit.layer_name(layer)}; give a context one by "
                f"add_operator_rule(OperatorRow('differentiate', ({type(layer).__name__},), rule))."
            )
        settings: dict[str, Any] = {"variable": variable, "order": self.order}
        result = self.builder.add_block(row.rule(layer, **settings))
        if result.num_output_units != layer.num_output_units:
            raise ShapeError(
                f"differentiate: the rule for {type(layer).__name__} gave {result!r}, expected "
                f"{layer.num_output_units} units, one for each of the layer"
            )
        return result
