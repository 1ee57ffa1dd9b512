"""Operators from circuit to circuit: exact, and described before anything is compiled.

A result shares the tensors of its operands by reference, and knows from which circuits it was made (`.operation`).
Each function takes `registry`: where the rules of layers are found, `find((operator, classes))`. By default these are
the rules of the active context, else the built-in ones.

>>> from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
>>> x, y = (CategoricalLayer([v], 4, num_categories=2) for v in range(2))
>>> product, total = HadamardLayer(4), SumLayer(4, 1)
>>> circuit = Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total])
>>> marginal(circuit, [1]).scope, evidence(circuit, {0: 1}).scope, rename(circuit, {0: 5}).scope
(Scope({1}), Scope({1}), Scope({1, 5}))
>>> concatenate([circuit, circuit]).operation.operator
'concatenate'

A coin that shows 1 with probability 0.25, and what circuits made from it compute:

>>> import plica, torch
>>> from plica.symbolic.layers import BernoulliLayer, EmbeddingLayer, PolynomialLayer
>>> from plica.symbolic.parameters import ConstantParameter
>>> layer, states = BernoulliLayer([0], 1, probs=ConstantParameter(1, value=[0.25])), torch.tensor([[0], [1]])
>>> coin = Circuit([layer], {}, [layer])
>>> def values(circuit, *rows):
...     return plica.compile(circuit, semiring="sum-product")(*rows).flatten().tolist()
>>> values(coin, states), values(power(coin, 2), states)
([0.75, 0.25], [0.5625, 0.0625])
>>> values(mixture([coin, power(coin, 2)], [0.5, 0.5]), states)
[0.65625, 0.15625]
>>> values(evidence(coin, {0: 1})), values(condition(coin, {0: 1}))
([0.25], [1.0])
>>> single = HadamardLayer(1, arity=1)
>>> list(simplify(Circuit([layer, single], {single: [layer]}, [single])).layers)
[BernoulliLayer(scope={0}, 1)]

The derivative of 1 + 2 x + 3 x^2 at 2, and its value; the conjugates of a table of complex numbers:

>>> curve = PolynomialLayer([0], 1, degree=2, coeff=ConstantParameter(1, 3, value=[[1.0, 2.0, 3.0]]))
>>> values(differentiate(Circuit([curve], {}, [curve])), torch.tensor([[2.0]]))
[14.0, 17.0]
>>> table = EmbeddingLayer([0], 1, weight=ConstantParameter(1, 2, value=[[1 + 2j, 3.0]]))
>>> conjugate(Circuit([table], {}, [table])).layers[0].params["weight"]
Parameter((1, 2): ConstantParameter -> ConjugateParameter)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plica.arguments import elements, found, integer
from plica.errors import DTypeError, InputError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import OperatorRegistry
from plica.symbolic.operators.differentiate import derivatives
from plica.symbolic.operators.joining import joined, mixed
from plica.symbolic.operators.multiply import product_of
from plica.symbolic.operators.normalizing import normalized
from plica.symbolic.operators.registry import current_registry
from plica.symbolic.operators.simplifying import simplified
from plica.symbolic.operators.smoothing import smoothed
from plica.symbolic.operators.unary import checked_scope, conjugate_of, integral, observed, renamed
from plica.symbolic.scope import Scope

__all__ = [
    "concatenate",
    "condition",
    "conjugate",
    "differentiate",
    "evidence",
    "integrate",
    "marginal",
    "mixture",
    "multiply",
    "normalize",
    "power",
    "rename",
    "simplify",
    "smooth",
]


def concatenate(circuits: Iterable[Circuit], *, registry: OperatorRegistry | None = None) -> Circuit:
    """The outputs of several circuits as the outputs of one.

    Raises:
        ShapeError: Outputs of unequal numbers of units.
    """
    current_registry(registry)
    operands = _circuits("concatenate", circuits)
    return joined(operands, CircuitOperation("concatenate", operands))


def condition(circuit: Circuit, obs: Mapping[int, Any], *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit given the values of some variables: its evidence divided by the integral of that.

    It is NaN where the integral is not positive. It raises as `evidence` and `normalize` do.
    """
    _check("condition", circuit)
    values = {_variable(variable): value for variable, value in _items("condition", obs)}
    operation = CircuitOperation("condition", (circuit,), {"obs": values})
    return normalized(observed(circuit, values, operation), "condition", current_registry(registry), operation)


def evidence(circuit: Circuit, obs: Mapping[int, Any], *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit with the values of some variables, which it reads no more.

    Args:
        circuit: The circuit.
        obs: The value of each observed variable: a number; for real variables also a parameter `(1,)`.
        registry: Checked, and not asked: every input layer can be observed.

    Raises:
        InputError: A variable that the circuit does not have, or a value outside its domain.
        UnsupportedError: Only some of the variables of a layer of several are observed.
    """
    current_registry(registry)
    _check("evidence", circuit)
    values = {_variable(variable): value for variable, value in _items("evidence", obs)}
    return observed(circuit, values, CircuitOperation("evidence", (circuit,), {"obs": values}))


def integrate(
    circuit: Circuit, scope: Iterable[int] | None = None, *, registry: OperatorRegistry | None = None
) -> Circuit:
    """The circuit summed or integrated over some variables; over all of them by default.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        InputError: A variable that the circuit does not have.
        UnsupportedError: An input layer that cannot be summed or integrated.
    """
    _check("integrate", circuit)
    variables = circuit.scope if scope is None else checked_scope("integrate", circuit, scope)
    operation = CircuitOperation("integrate", (circuit,), {"scope": variables})
    return integral(circuit, variables, current_registry(registry), operation)


def marginal(circuit: Circuit, scope: Iterable[int], *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit of some of its variables: the others are summed or integrated out. It raises as `integrate` does."""
    _check("marginal", circuit)
    variables = checked_scope("marginal", circuit, scope)
    operation = CircuitOperation("marginal", (circuit,), {"scope": variables})
    return integral(circuit, circuit.scope - variables, current_registry(registry), operation)


def multiply(first: Circuit, *others: Circuit, registry: OperatorRegistry | None = None) -> Circuit:
    """The product of circuits; its outputs are the products of all pairs of outputs, those of the first slowest.

    Unit `i * K2 + j` of a product of outputs of K1 and K2 units is unit i times unit j. Several circuits are multiplied
    from left to right.

    Raises:
        StructuralPropertyError: The circuits are not smooth, decomposable and compatible.
        UnsupportedError: There is no rule for two input layers, or a layer cannot be multiplied.
    """
    operands = _circuits("multiply", (first, *others))
    rules, result = current_registry(registry), operands[0]
    if len(operands) == 1:
        return joined(operands, CircuitOperation("multiply", operands))
    for operand in operands[1:]:
        result = product_of(result, operand, rules, CircuitOperation("multiply", operands))
    return result


def normalize(circuit: Circuit, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit with each unit of each output divided by its integral over all variables.

    It is NaN where the integral is not positive.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: The integral of an input layer, or the value of a layer without variables, is no parameter.
    """
    _check("normalize", circuit)
    return normalized(circuit, "normalize", current_registry(registry), CircuitOperation("normalize", (circuit,)))


def power(circuit: Circuit, n: int, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit multiplied by itself n times, at least once, by repeated squaring. It raises as `multiply` does."""
    _check("power", circuit)
    exponent = integer("power", "n", n, least=1)
    operation, rules = CircuitOperation("power", (circuit,), {"n": exponent}), current_registry(registry)
    result, square = None, circuit
    while exponent:
        if exponent % 2:
            result = square if result is None else product_of(result, square, rules, operation)
        exponent //= 2
        if exponent:
            square = product_of(square, square, rules, operation)
    assert result is not None, "n is at least 1"
    return joined([circuit], operation) if result is circuit else result


def differentiate(circuit: Circuit, order: int = 1, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The partial derivatives of a circuit, and the circuit itself.

    For each output in turn: its derivative of the given order with respect to each variable of its scope, in ascending
    order of the variables, then the output.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        UnsupportedError: An input layer has no rule, for example because its variable is discrete.
    """
    _check("differentiate", circuit)
    number = integer("differentiate", "order", order, least=1)
    operation = CircuitOperation("differentiate", (circuit,), {"order": number})
    return derivatives(circuit, number, current_registry(registry), operation)


def conjugate(circuit: Circuit, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit whose values are the complex conjugates.

    Raises:
        UnsupportedError: A layer with complex parameters has no rule.
    """
    _check("conjugate", circuit)
    return conjugate_of(circuit, current_registry(registry), CircuitOperation("conjugate", (circuit,)))


def mixture(circuits: Iterable[Circuit], weights: Any, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The weighted sum of circuits, output by output and unit by unit.

    Args:
        circuits: Circuits of one number of outputs and units, and of one scope.
        weights: A number for each circuit, or a parameter `(units, circuits)`.
        registry: Checked, and not asked.

    Raises:
        ShapeError: Circuits of unequal outputs, or another number of weights.
        StructuralPropertyError: Circuits of different scopes.
    """
    current_registry(registry)
    operands = _circuits("mixture", circuits)
    return mixed(operands, weights, CircuitOperation("mixture", operands, {"weights": weights}))


def rename(circuit: Circuit, mapping: Mapping[int, int], *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit that reads other variables: variable v becomes `mapping[v]`; variables that are left out stay.

    Raises:
        InputError: A variable that the circuit does not have, or two variables that would become one.
        UnsupportedError: The order of the variables of a layer of several would change.
    """
    current_registry(registry)
    _check("rename", circuit)
    names = {_variable(old): _variable(new) for old, new in _items("rename", mapping)}
    return renamed(circuit, names, CircuitOperation("rename", (circuit,), {"mapping": names}))


def smooth(circuit: Circuit, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit with equal scopes for all inputs of each sum; its values are the same.

    Raises:
        UnsupportedError: No layer is the number 1 over a variable that an input of a sum lacks.
    """
    current_registry(registry)
    _check("smooth", circuit)
    return smoothed(circuit, CircuitOperation("smooth", (circuit,)))


def simplify(circuit: Circuit, *, registry: OperatorRegistry | None = None) -> Circuit:
    """The circuit without layers that do nothing, and with equal layers as one; its values are the same."""
    current_registry(registry)
    _check("simplify", circuit)
    return simplified(circuit, CircuitOperation("simplify", (circuit,)))


def _check(what: str, circuit: Any) -> None:
    if not isinstance(circuit, Circuit):
        raise DTypeError(f"{what}: expected a circuit of plica.symbolic.circuit, {found(circuit)}")


def _circuits(what: str, circuits: Any) -> tuple[Circuit, ...]:
    operands = elements(what, "circuits", circuits)
    for operand in operands:
        _check(what, operand)
    if not operands:
        raise InputError(f"{what}: there are no circuits; give at least one")
    return operands


def _items(what: str, mapping: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(mapping, Mapping):
        raise DTypeError(f"{what}: expected a mapping from variables, such as {{0: 1}}, {found(mapping)}")
    return mapping.items()


def _variable(variable: Any) -> int:
    """A variable, as a scope takes it."""
    (checked,) = Scope([variable])
    return checked
