"""Builds circuits from logical circuits: conjunctions become products, disjunctions become sums with weights of one.

A literal is a categorical layer of one unit that is zero at the other value of its variable; `v or not v` is one layer
that is zero nowhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import found, function
from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import reals_of
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, InputLayer, Layer, SumLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    HadamardParameter,
    IndexParameter,
    Parameter,
    ParameterFactory,
    ParameterInput,
    ParameterLike,
)
from plica.symbolic.scope import Scope
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)
from plica.templates.parameterization import InputFactory, ones

LiteralWeights: TypeAlias = Mapping[int, Sequence[float | Fraction] | ParameterLike] | ParameterLike | ParameterFactory
Mask: TypeAlias = tuple[int, int]  # 0 where a layer is zero: if its variable is false, and if it is true

_FALSE, _TRUE, _EITHER, _NEITHER = (1, 0), (0, 1), (1, 1), (0, 0)
_SHAPE = (1, 2)  # of the weights of a variable: one unit, two values


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `LogicalCircuit.build_circuit`.

    Args:
        literals: The factories of negative and of positive literals; None for masked categorical layers.
        literal_weights: The weights of literals if there are no such factories.
        sum_weights: The factory for the weights of disjunctions; ones by default.
    """

    literals: tuple[InputFactory, InputFactory] | None
    literal_weights: LiteralWeights | None
    sum_weights: ParameterFactory | None


def literal_factories(
    positive: InputFactory | None, negative: InputFactory | None, weights: LiteralWeights | None
) -> tuple[InputFactory, InputFactory] | None:
    """The factories of negative and of positive literals; None if neither is given."""
    if positive is None and negative is None:
        return None
    if positive is None or negative is None or weights is not None:
        raise InputError(
            "build_circuit: pass both literal_input_factory and negated_literal_input_factory, and no literal_weights "
            "beside them"
        )
    return (
        function("build_circuit", "negated_literal_input_factory", negative),
        function("build_circuit", "literal_input_factory", positive),
    )


def circuit_scope(formula: Scope, scope: Iterable[int] | None, weights: LiteralWeights | None) -> Scope:
    """The variables of the circuit of a formula.

    Args:
        formula: The variables of the formula.
        scope: The variables that are wanted; by default those of the formula.
        weights: The weights of literals.

    Raises:
        InputError: There is no variable, or the scope lacks one of the formula or of the weights.
        ShapeError: A parameter of all weights has another shape.
    """
    wanted = formula if scope is None else Scope(scope)
    if not wanted:
        raise InputError("build_circuit: the formula has no variables; pass scope, the variables of the circuit")
    if not formula <= wanted:
        raise InputError(
            f"build_circuit: the scope {wanted!s} lacks variables of the formula: {formula - wanted!s}; add them"
        )
    if isinstance(weights, Parameter | ParameterInput):
        shape = weights.shape
        if len(shape) != 2 or shape[0] <= max(wanted) or shape[1] != 2:
            raise ShapeError(
                f"build_circuit: expected weights of all literals, a parameter (D, 2) with D above {max(wanted)}, the "
                f"highest variable, found {shape}"
            )
        return wanted
    if weights is not None and not isinstance(weights, Mapping):
        function("build_circuit", "literal_weights, where it is no mapping,", weights)
    if isinstance(weights, Mapping) and not Scope(weights) <= wanted:
        raise InputError(
            f"build_circuit: literal_weights names variables outside the scope {wanted!s}: "
            f"{Scope(weights) - wanted!s}; add them to the scope"
        )
    return wanted


def build_circuit(
    in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]],
    outputs: Iterable[tuple[LogicalNode, Scope]],
    scope: Scope,
    options: Options,
) -> Circuit:
    """The circuit of a formula, as `LogicalCircuit.build_circuit` describes it.

    Args:
        in_nodes: The inputs of each node, each node after its inputs.
        outputs: The output nodes, with the variables that each mentions.
        scope: The variables of the circuit.
        options: How literals and gates become layers.
    """
    stack = _Stack(options, {} if options.literal_weights is None else options.literal_weights, scope)
    for node, inputs in in_nodes.items():
        stack.push(node, inputs)
    layers = [stack.output(node, mentioned) for node, mentioned in outputs]
    return Circuit(stack.in_layers, stack.in_layers, layers)


@dataclass(slots=True)
class _Stack:
    """The layers made so far, with their inputs.

    Args:
        options: The options of the caller.
        weights: The weights of literals.
        scope: The variables of the circuit.
    """

    options: Options
    weights: LiteralWeights
    scope: Scope
    in_layers: dict[Layer, tuple[Layer, ...]] = field(default_factory=dict)
    _gates: dict[LogicalNode, Layer] = field(default_factory=dict)
    _inputs: dict[tuple[int, Mask], Layer] = field(default_factory=dict)
    _parameters: dict[int, Parameter] = field(default_factory=dict)

    def push(self, node: LogicalNode, inputs: Sequence[LogicalNode]) -> None:
        """Add the layer of a gate; layers of literals are made when a gate first reads them."""
        match node:
            case ConjunctionNode():
                self._gates[node] = self._product([self._layer(child) for child in inputs])
            case DisjunctionNode():
                either = _either(inputs)
                self._gates[node] = self._sum(map(self._layer, inputs)) if either is None else self._both(either)

    def output(self, node: LogicalNode, scope: Scope) -> Layer:
        """The layer of an output, multiplied with the variables that it does not mention; constants mention none."""
        known = [] if isinstance(node, TopNode | BottomNode) else [self._layer(node)]
        free = list(self.scope - scope)
        if isinstance(node, BottomNode):
            known.append(self._input(free.pop(0), _NEITHER))
        return self._product([*known, *map(self._both, free)])

    def _layer(self, node: LogicalNode) -> Layer:
        match node:
            case LiteralNode(variable):
                return self._input(variable, _TRUE)
            case NegatedLiteralNode(variable):
                return self._input(variable, _FALSE)
            case _:
                return self._gates[node]

    def _product(self, factors: Sequence[Layer]) -> Layer:
        if len(factors) == 1:
            return factors[0]
        layer = HadamardLayer(1, len(factors))
        self.in_layers[layer] = tuple(factors)
        return layer

    def _sum(self, terms: Iterable[Layer]) -> Layer:
        inputs, weights = tuple(terms), self.options.sum_weights
        layer = SumLayer(1, 1, len(inputs), weight_factory=ones if weights is None else weights)
        self.in_layers[layer] = inputs
        return layer

    def _both(self, variable: int) -> Layer:
        """`v or not v`: one layer if its literals and weights are the default ones, otherwise a sum of two layers."""
        if self.options.literals is None and self.options.sum_weights is None:
            return self._input(variable, _EITHER)
        return self._sum([self._input(variable, _TRUE), self._input(variable, _FALSE)])

    def _input(self, variable: int, mask: Mask) -> Layer:
        """The input layer of a variable that is zero outside a mask; all nodes share it."""
        if (variable, mask) not in self._inputs:
            layer = self._new_input(variable, mask)
            self.in_layers[layer] = ()
            self._inputs[variable, mask] = layer
        return self._inputs[variable, mask]

    def _new_input(self, variable: int, mask: Mask) -> InputLayer:
        literals = self.options.literals
        if literals is None or mask == _NEITHER:
            return CategoricalLayer([variable], 1, num_categories=2, probs=self._masked(variable, mask))
        layer = literals[mask == _TRUE](Scope([variable]), 1)
        if not isinstance(layer, InputLayer):
            raise DTypeError(f"build_circuit: the factories of literals make input layers, {found(layer)}")
        return layer

    def _masked(self, variable: int, mask: Mask) -> ParameterLike:
        """The weights of a variable, with zeros outside a mask; a parameter is one tensor for all masks."""
        known = self._parameters.get(variable)
        weight = self._weight(variable) if known is None else known.ref()
        if not isinstance(weight, Parameter):
            return ConstantParameter(*_SHAPE, value=[weight * mask])
        self._parameters.setdefault(variable, weight)
        if mask == _EITHER and not isinstance(self.weights, Parameter | ParameterInput):
            return weight  # entries of one parameter stay alike: all are masked, and read in one order
        return Parameter.from_binary(
            HadamardParameter(_SHAPE, _SHAPE), weight, ConstantParameter(*_SHAPE, value=[mask])
        )

    def _weight(self, variable: int) -> Parameter | NDArray[Any]:
        """The weights of a variable: a parameter `(1, 2)`, or numbers `(2,)`."""
        if isinstance(self.weights, Parameter | ParameterInput):
            shared = Parameter.from_input(self.weights)
            row = IndexParameter(shared.shape, indices=[variable], axis=0)
            return Parameter.from_sequence(shared.ref() if self._parameters else shared, row)
        if not isinstance(self.weights, Mapping):
            return Parameter.from_input(self.weights(_SHAPE))
        given = self.weights.get(variable, (1.0, 1.0))
        if isinstance(given, Parameter | ParameterInput):
            weight = Parameter.from_input(given)
            if weight.shape != _SHAPE:
                raise ShapeError(
                    f"build_circuit: expected a parameter of shape {_SHAPE} for the weights of variable {variable}, "
                    f"found {weight.shape}"
                )
            return weight
        numbers = reals_of("build_circuit", _without_fractions(given))
        if numbers.shape != _SHAPE[1:]:
            raise ShapeError(
                f"build_circuit: expected two weights of variable {variable}, of its negative and its positive "
                f"literal, found {given!r}"
            )
        if not np.isfinite(numbers).all():
            raise InputError(
                f"build_circuit: the weights of variable {variable} are {given!r}, and 0 times those is no number; "
                "pass finite weights"
            )
        return numbers


def _without_fractions(numbers: Any) -> Any:
    """The numbers, but the fractions of a sequence, which are the weights of files, as the nearest floats.

    Raises:
        InputError: A fraction is too large for a float.
    """
    if not isinstance(numbers, Sequence):
        return numbers
    try:
        return [float(number) if isinstance(number, Fraction) else number for number in numbers]
    except OverflowError:
        raise InputError("build_circuit: a weight is too large for a float; scale the weights down") from None


def _either(inputs: Sequence[LogicalNode]) -> int | None:
    """The variable v if a disjunction is `v or not v`, else None."""
    match inputs:
        case [LiteralNode(first), NegatedLiteralNode(second)] | [NegatedLiteralNode(first), LiteralNode(second)]:
            return first if first == second else None
        case _:
            return None
