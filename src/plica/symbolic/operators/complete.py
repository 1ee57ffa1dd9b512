"""The circuit of complete rows: a product of circuits as the outer product of their values.

A product of circuits has layers of K^2 units, so that variables can be summed out. Where no variable is missing, the
product of the values of both operands is the same number, and takes the time of the operands alone. The result is not
decomposable: no variable of it can be missing.

>>> from plica.symbolic.functional import multiply
>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer
>>> x, y = (CategoricalLayer([variable], 4, num_categories=2) for variable in (0, 1))
>>> product = HadamardLayer(4)
>>> square = multiply(*[Circuit([x, y, product], {product: [x, y]}, [product])] * 2)
>>> form = complete_form(square)
>>> [layer.num_output_units for layer in square.layers], [layer.num_output_units for layer in form.layers]
([16, 16, 16], [4, 4, 4, 16])
"""

from __future__ import annotations

from typing import TypeAlias

from plica.graph.order import topological_order
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import Layer
from plica.symbolic.operators.building import Builder
from plica.symbolic.operators.flat_products import FlatProduct, Operand

_Node: TypeAlias = tuple[Circuit, Operand]


def complete_form(circuit: Circuit) -> Circuit:
    """The circuit with the values of `circuit` for rows without missing variables.

    Its layers refer to the tensors of those of the circuit and of its operands.
    """
    if circuit.known_complete_form is not None:
        return circuit.known_complete_form
    builder = Builder()
    images: dict[_Node, Layer] = {}
    outputs: list[_Node] = [(circuit, layer) for layer in circuit.outputs]
    for node in topological_order(outputs, _inputs):
        images[node] = _image(builder, node, [images[child] for child in _inputs(node)])
    layers = [images[node] for node in outputs]
    form = builder.circuit(layers, CircuitOperation("complete", ()), circuit.data_scope)
    circuit.remember_complete_form(form)
    return form


def _inputs(node: _Node) -> tuple[_Node, ...]:
    circuit, operand = node
    if isinstance(operand, FlatProduct):
        return tuple((circuit, factor) for factor in operand.factors)
    if operand in circuit.factors:
        return circuit.factors[operand]
    return tuple((circuit, child) for child in circuit.layer_inputs(operand))


def _image(builder: Builder, node: _Node, inputs: list[Layer]) -> Layer:
    circuit, operand = node
    if isinstance(operand, FlatProduct):
        return builder.product(list(zip(inputs, operand.axes, strict=True)), operand.sizes)
    if operand in circuit.factors:
        first, second = inputs
        return builder.product([(first, (0,)), (second, (1,))], [layer.num_output_units for layer in inputs])
    return builder.add(operand.copyref(), *inputs)
