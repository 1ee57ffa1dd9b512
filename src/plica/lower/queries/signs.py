"""Which circuits are never negative: squares and what operators make of them, and circuits without negative weights.

A square has weights of both signs. So that it describes a distribution follows from the operators that made it
(`Circuit.operation`), and from no layer. Of a circuit that a file brings the file says it.

>>> from plica.symbolic.functional import integrate, multiply, power
>>> from plica.templates.tensor_factorizations import cp
>>> c = cp((2, 3), rank=2)
>>> is_never_negative(c), is_never_negative(multiply(c, c)), is_never_negative(integrate(power(c, 4), [1]))
(False, True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.graph.order import topological_order
from plica.lower.checks import has_signs
from plica.lower.optimize.ranges import never_negative
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import Parameter, ParameterInput

_OF_ONE = ("integrate", "marginal", "evidence", "condition", "normalize", "rename", "smooth", "simplify", "conjugate")
"""Operators whose result is never negative if their operand is not."""


def is_never_negative(circuit: Circuit) -> bool:
    """Whether its operators, or the ranges of its parameters, prove that no value of a circuit is negative."""
    proven: dict[Circuit, bool] = {}
    for part in topological_order([circuit], _operands):
        proven[part] = _is_proven(part, proven)
    return proven[circuit]


def _operands(circuit: Circuit) -> Sequence[Circuit]:
    return () if circuit.operation is None else circuit.operation.operands


def _is_proven(circuit: Circuit, proven: dict[Circuit, bool]) -> bool:
    operation = circuit.operation
    if circuit.is_known_never_negative:
        return True
    if operation is not None:
        are_proven = [proven[operand] for operand in operation.operands]
        match operation.operator:
            case "multiply":
                is_proven = all(proven[rest] for rest in _without_squares(operation.operands))
            case "power":
                (base,) = operation.operands
                is_proven = proven[base] or (operation.metadata["n"] % 2 == 0 and _is_real_number(base))
            case "mixture":
                is_proven = all(are_proven) and _are_positive(operation.metadata["weights"])
            case operator:
                is_proven = operator in (*_OF_ONE, "concatenate") and all(are_proven)
        if is_proven:
            return True
    return not has_signs(circuit)


def _without_squares(operands: Sequence[Circuit]) -> list[Circuit]:
    """The factors of a product that no other one makes a square."""
    rest: list[Circuit] = []
    for operand in operands:
        other = next((factor for factor in rest if _is_square(factor, operand)), None)
        if other is None:
            rest.append(operand)
        else:
            rest.remove(other)
    return rest


def _is_square(first: Circuit, second: Circuit) -> bool:
    """Whether the product of two circuits is the squared absolute value of one."""
    for circuit, other in ((first, second), (second, first)):
        is_conjugate = other.operation is not None and other.operation.operator == "conjugate"
        if is_conjugate and _operands(other) == (circuit,) and _is_number(circuit):
            return True
    return first is second and _is_real_number(first)


def _is_number(circuit: Circuit) -> bool:
    """Whether the value is one number: products of several are those of all pairs."""
    return len(circuit.outputs) == 1 and circuit.outputs[0].num_output_units == 1


def _is_real_number(circuit: Circuit) -> bool:
    return _is_number(circuit) and not any(
        parameter.dtype == DataType.COMPLEX
        for layer in circuit.live_layers
        for parameter in layer.all_evaluated_params.values()
    )


def _are_positive(weights: Any) -> bool:
    """Whether the weights of a mixture are never negative."""
    if isinstance(weights, Parameter | ParameterInput):
        parameter = Parameter.from_input(weights)
        return never_negative(parameter.output, parameter.node_inputs)
    numbers = np.asarray(weights)
    return numbers.dtype.kind in "biuf" and bool((numbers >= 0).all())
