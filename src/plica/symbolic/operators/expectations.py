"""Integrals of products of circuits, also of input layers whose product is no layer: a normal density times x^2.

A rule of the operator `expectation` gives the integral of the product of two input layers. It comes before the rule of
`multiply`: the product is a layer that is integrated at once, and that nobody compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.domains import Domain
from plica.symbolic.layers import (
    CircuitBlock,
    InputLayer,
    Layer,
    OperatorKey,
    OperatorRegistry,
    OperatorRow,
    rule_of,
)
from plica.symbolic.layers.base import FieldsLayer
from plica.symbolic.operators.multiply import product_of
from plica.symbolic.operators.unary import integral
from plica.symbolic.operators.zeros import without_zeros
from plica.symbolic.scope import Scope


@dataclass(frozen=True, slots=True, eq=False)
class UnevaluatedLayer(FieldsLayer, InputLayer):
    """A layer of a circuit that is integrated, whose values no row computes."""

    first: InputLayer

    @property
    def scope(self) -> Scope:
        """The variables of the layer."""
        return self.first.scope

    @property
    def num_output_units(self) -> int:
        """The number of units of the layer."""
        return self.first.num_output_units

    @property
    def domain(self) -> Domain:
        """The domain of the layer."""
        return self.first.domain

    @property
    def sub_layers(self) -> dict[str, Layer]:
        """The layer."""
        return {"first": self.first}


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogarithmLayer(UnevaluatedLayer):
    """The logarithms of the units of a layer that are positive everywhere."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProductOfInputsLayer(UnevaluatedLayer):
    """The products of the units of two layers, those of the first slowest."""

    second: InputLayer

    @property
    def num_output_units(self) -> int:
        """The product of the numbers of units."""
        return self.first.num_output_units * self.second.num_output_units

    @property
    def domain(self) -> Domain:
        """The values in the domains of both layers."""
        return self.first.domain.meet(self.second.domain)

    @property
    def sub_layers(self) -> dict[str, Layer]:
        """Both layers."""
        return {"first": self.first, "second": self.second}


@final
@dataclass(frozen=True, slots=True)
class ExpectationRules:
    """The rules of a registry, and beside them those by which products that are no layers are integrated."""

    registry: OperatorRegistry

    def find(self, key: OperatorKey) -> OperatorRow | None:
        """The row for exactly these classes."""
        operator, layers = key
        if operator == "multiply" and (layers[1] is LogarithmLayer or self._expectation(layers) is not None):
            return OperatorRow(operator, layers, _product)
        if key == ("integrate", (ProductOfInputsLayer,)):
            return OperatorRow(operator, layers, self._integral)
        return self.registry.find(key)

    def _expectation(self, layers: tuple[type[Layer], ...]) -> OperatorRow | None:
        return self.registry.find(("expectation", layers))

    def _integral(self, layer: ProductOfInputsLayer, *, scope: Scope) -> CircuitBlock:  # noqa: ARG002 - all of them
        if not isinstance(layer.second, LogarithmLayer):
            row = rule_of(self.registry, "expectation", layer.first, layer.second)
            assert row is not None, "else the product was a layer"
            return row.rule(layer.first, layer.second)
        logarithm = layer.second.first
        row = rule_of(self.registry, "expected_log", layer.first, logarithm)
        if row is None:
            names = f"({type(layer.first).__name__}, {type(logarithm).__name__})"
            raise UnsupportedError(
                f"the logarithm of {logarithm!r} has no known mean under {layer.first!r}; give a context a rule by "
                f"add_operator_rule(OperatorRow('expected_log', {names}, rule))."
            )
        return row.rule(layer.first, logarithm)


def _product(first: InputLayer, second: InputLayer) -> CircuitBlock:
    if first.scope != second.scope:
        raise UnsupportedError(
            f"{first!r} times {second!r} is integrated where both read the same variables; take layers of equal scopes."
        )
    return CircuitBlock.from_layer(ProductOfInputsLayer(first, second))


def expected(weighting: Circuit, function: Circuit, registry: OperatorRegistry, operation: CircuitOperation) -> Circuit:
    """The integral of the product of two circuits, for all pairs of outputs, those of the first slowest.

    Raises:
        StructuralPropertyError: The circuits are not smooth, decomposable and compatible.
        UnsupportedError: There is no rule for two input layers.
    """
    rules = ExpectationRules(registry)
    product = without_zeros(product_of(weighting, function, rules, operation), operation)
    return integral(product, product.scope, rules, operation)
