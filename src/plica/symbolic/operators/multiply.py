"""The product of circuits, as a circuit: the pairs of `pairs.py`, built.

The units of a product of layers with K1 and K2 units: unit `i * K2 + j` is unit i of the first times unit j of the
second. Where both are sums, the weight has the block `A_h kron B_g` for the product of input h and input g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from plica.errors import ShapeError, UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import InputLayer, Layer, OperatorRegistry, SumLayer, rule_of
from plica.symbolic.operators.building import Builder
from plica.symbolic.operators.flat_products import FlatProduct, Operand
from plica.symbolic.operators.pairs import Apart, Distribute, Inputs, Match, Pair, Pairs
from plica.symbolic.parameters import (
    ConstantParameter,
    MixingWeightParameter,
    Parameter,
    block_kronecker,
)


def product_of(
    first: Circuit, second: Circuit, registry: OperatorRegistry, operation: CircuitOperation | None = None
) -> Circuit:
    """The circuit whose outputs are the products of all pairs of outputs, those of the first circuit slowest.

    Raises:
        StructuralPropertyError: The circuits are not smooth, decomposable and compatible.
        UnsupportedError: There is no rule for two input layers, or a layer cannot be multiplied.
    """
    return _Product(first, second, registry).circuit(operation)


@final
@dataclass(slots=True)
class _Product:
    """The product under construction: the layer of each pair."""

    first: Circuit
    second: Circuit
    registry: OperatorRegistry
    builder: Builder = field(default_factory=Builder)
    products: dict[Pair, Layer] = field(default_factory=dict)
    _copies: dict[tuple[Circuit, FlatProduct], Layer] = field(default_factory=dict)

    def circuit(self, operation: CircuitOperation | None) -> Circuit:
        pairs = Pairs(self.first, self.second)
        outputs = pairs.outputs(self.first.outputs, self.second.outputs)
        for pair in pairs.ordered(outputs):
            step = pairs.step(pair)
            match step:
                case Apart():
                    self.products[pair] = self._apart(*pair)
                case Inputs():
                    self.products[pair] = self._of_inputs(*pair)
                case Distribute():
                    self.products[pair] = self._distributed(pair, step)
                case Match():
                    self.products[pair] = self._matched(step)
            if not isinstance(step, Apart):
                factors = (self.first, pair[0]), (self.second, pair[1])
                self.builder.factors.setdefault(self.products[pair], factors)
        operation = operation or CircuitOperation("multiply", (self.first, self.second))
        return self.builder.circuit([self.products[pair] for pair in outputs], operation)

    def _apart(self, left: Operand, right: Operand) -> Layer:
        layers = self._copy(self.first, left), self._copy(self.second, right)
        return self.builder.product([(layers[0], (0,)), (layers[1], (1,))], [_units(left), _units(right)])

    def _copy(self, circuit: Circuit, operand: Operand) -> Layer:
        if isinstance(operand, Layer):
            return self.builder.copy(circuit, operand)
        key = (circuit, operand)
        if key not in self._copies:
            factors = [self.builder.copy(circuit, factor) for factor in operand.factors]
            self._copies[key] = self.builder.product(list(zip(factors, operand.axes, strict=True)), operand.sizes)
        return self._copies[key]

    def _of_inputs(self, left: Operand, right: Operand) -> Layer:
        assert isinstance(left, InputLayer), "the step says so"
        assert isinstance(right, InputLayer), "the step says so"
        row = rule_of(self.registry, "multiply", left, right)
        if row is None:
            names = f"{self.first.layer_name(left)} and {self.second.layer_name(right)}"
            raise UnsupportedError(
                f"multiply: there is no rule for the product of {names}; give a context one by "
                f"add_operator_rule(OperatorRow('multiply', ({type(left).__name__}, {type(right).__name__}), rule))."
            )
        layer = self.builder.add_block(row.rule(left, right))
        expected = left.num_output_units * right.num_output_units
        if layer.num_output_units != expected:
            raise ShapeError(
                f"multiply: the rule for {type(left).__name__} and {type(right).__name__} gave {layer!r}, expected "
                f"{expected} units: one for each pair, those of the first layer slowest"
            )
        return layer

    def _distributed(self, pair: Pair, step: Distribute) -> Layer:
        weight = _weight(*pair, step.sums)
        inputs = [self.products[term] for term in step.pairs]
        units = _units(pair[0]) * _units(pair[1])
        return self.builder.add(SumLayer(inputs[0].num_output_units, units, len(inputs), weight), *inputs)

    def _matched(self, step: Match) -> Layer:
        factors = []
        for part in step.parts:
            left, right = part.operands
            if left is None or right is None:
                circuit, operand = (self.first, left) if right is None else (self.second, right)
                assert operand is not None, "a part has an operand"
                layer = self._copy(circuit, operand)
            else:
                layer = self.products[left, right]
            factors.append((layer, part.axes))
        return self.builder.product(factors, step.sizes)


def _units(operand: Operand) -> int:
    return operand.num_output_units


def _weight(left: Operand, right: Operand, sums: tuple[bool, bool]) -> Parameter:
    """The weight of the product of two sums, or of a sum and another operand, which counts as the identity.

    Mixing weights stay mixing weights: those of both are multiplied, for each pair of units and of inputs.
    """
    layers = [operand if is_sum else None for operand, is_sum in zip((left, right), sums, strict=True)]
    arities = [1 if layer is None else _sum(layer).arity for layer in layers]
    units = _units(left), _units(right)
    if all(layer is None or _sum(layer).mixing for layer in layers):
        factors = [
            _ones(count) if layer is None else _sum(layer).evaluated_params["weight"].ref()
            for layer, count in zip(layers, units, strict=True)
        ]
        weight = _kronecker(factors, (1, 1))
        return Parameter.from_unary(MixingWeightParameter(weight.shape), weight)
    if layers[0] is layers[1] and layers[0] is not None:
        factor = _sum(layers[0]).weight.ref()
        return _kronecker((factor, factor), (arities[0], arities[1]))
    factors = [
        _identity(count) if layer is None else _sum(layer).weight.ref()
        for layer, count in zip(layers, units, strict=True)
    ]
    return _kronecker(factors, (arities[0], arities[1]))


def _sum(operand: Operand) -> SumLayer:
    assert isinstance(operand, SumLayer), "only sums are distributed"
    return operand


def _ones(units: int) -> Parameter:
    return Parameter.from_input(ConstantParameter(units, 1, value=1.0))


def _identity(units: int) -> Parameter:
    return Parameter.from_input(ConstantParameter(units, units, value=np.eye(units)))


def _kronecker(factors: Sequence[Parameter], blocks: tuple[int, int]) -> Parameter:
    """`[A_1 kron B_1, A_1 kron B_2, ..]`: a plain Kronecker product where the columns of that are in this order."""
    first, second = factors
    for factor, other in ((first, second), (second, first)):
        if factor.shape == (1, 1) and isinstance(factor.output, ConstantParameter) and np.all(factor.output.value == 1):
            return other
    return block_kronecker(first, second, *blocks)
