"""Checks of numbers that a semiring cannot carry: complex parameters, negative constants, negative learned weights."""

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from plica.errors import UnsupportedError
from plica.graph.order import topological_order
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.call_parameters import CallParameters
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.fold.settings import LayerRows
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.lowering import LoweringScope
from plica.lower.optimize.ranges import never_negative
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    FusedLayer,
    Layer,
    PolynomialLayer,
    SumLayer,
    held_layers,
)
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter, dereferenced
from plica.symbolic.semirings import SEMIRINGS, Reduction, Semiring
from plica.tracing import namespace as xp

_LINEAR_PARAMETERS = ("weight", "probs")  # parameters of built-in layers that hold weights
_OF_COMPLEX_NUMBERS = (
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    PolynomialLayer,
    SumLayer,
    FusedLayer,
)  # built-in layers whose parameters may be complex


def check_semiring(circuit: Circuit, semiring: Semiring, rows: LayerRows | None = None) -> None:
    """Refuse constant negative weights, and complex numbers, in a semiring that cannot carry them.

    Args:
        circuit: The circuit.
        semiring: The semiring.
        rows: The registry entries of a context, for layers that this check passes over: their parameters need not be
            weights.

    Raises:
        UnsupportedError: A weight is a constant with a negative entry, or a parameter is complex.
    """
    for layer in circuit.live.layers:
        for prefix, sub_layer in held_layers(layer):
            is_built_in = type(sub_layer) in LAYER_ROWS and type(sub_layer) not in (rows or {})
            params = sub_layer.evaluated_params
            for name, parameter in params.items():
                if parameter.dtype == DataType.COMPLEX:
                    built_in = sub_layer if is_built_in else None
                    _check_complex(circuit.layer_name(layer), prefix + name, semiring, built_in)
            if is_built_in and isinstance(sub_layer, PolynomialLayer) and not semiring.negative:
                raise UnsupportedError(
                    f"{circuit.layer_name(layer)}: a polynomial may be negative, and {semiring.name} cannot represent "
                    "negative numbers; compile with semiring='signed-lse-sum' or 'sum-product'."
                )
            names = _LINEAR_PARAMETERS if is_built_in and not semiring.negative else ()
            for name in names:  # constants alone: each call checks learned weights
                weight = params.get(name)
                if weight is not None and (value := _constant_value(weight)) is not None and (value < 0).any():
                    raise UnsupportedError(_message(circuit, layer, prefix + name, semiring, float(value.min())))


def has_signs(circuit: Circuit, rows: LayerRows | None = None) -> bool:
    """Whether a number of some layer may be negative or complex, for all that the ranges of parameters say.

    Of layers whose rows are a user's own nothing is known.
    """
    return any(
        type(held) not in LAYER_ROWS or type(held) in (rows or {}) or _has_signs(held)
        for layer in circuit.live_layers
        for _, held in held_layers(layer)
    )


def _has_signs(layer: Layer) -> bool:
    """Whether a built-in layer of inputs that are not negative, or without inputs, may be negative or complex."""
    params = layer.evaluated_params
    if isinstance(layer, PolynomialLayer) or any(parameter.dtype == DataType.COMPLEX for parameter in params.values()):
        return True
    names: tuple[str, ...] = _LINEAR_PARAMETERS
    if isinstance(layer, ConstantValueLayer):
        names = () if layer.log_space else ("value",)
    return not all(never_negative(params[name].output, params[name].node_inputs) for name in names if name in params)


def check_operation(circuit: Circuit, semiring: Semiring) -> None:
    """Refuse an integral in an algebra whose sum is another one: it would neither be a sum nor the largest number.

    Raises:
        UnsupportedError: The circuit, or one that it was made from, is an integral over some variables.
    """
    algebra = semiring.algebra
    if algebra.reduction is Reduction.INTEGRATE:
        return
    for origin in topological_order([circuit], operands_of):
        operation = origin.operation
        if operation is None or operation.operator not in ("integrate", "marginal"):
            continue
        gone = operation.operands[0].scope - origin.scope
        if gone:
            raise UnsupportedError(
                f"{operation.operator} adds and integrates real numbers over {gone!s}, which the algebra "
                f"{algebra.name} of semiring={semiring.name!r} does not; leave these variables out of the data instead "
                "(NaN), or compile with semiring='lse-sum'."
            )


def operands_of(circuit: Circuit) -> tuple[Circuit, ...]:
    """The circuits from which a circuit was made."""
    return () if circuit.operation is None else circuit.operation.operands


def _check_complex(layer: str, name: str, semiring: Semiring, built_in: Layer | None) -> None:
    """Refuse a complex parameter with which the semiring, or a built-in layer, does not compute."""
    if not semiring.carries_complex:
        carriers = " or ".join(repr(other.name) for other in SEMIRINGS.values() if other.carries_complex)
        raise UnsupportedError(
            f"{layer}: its {name} has complex numbers, which {semiring.name} cannot represent; compile with "
            f"semiring={carriers}, or give real numbers."
        )
    if built_in is not None and not isinstance(built_in, _OF_COMPLEX_NUMBERS):
        raise UnsupportedError(
            f"{layer}: its {name} has complex numbers, but a {type(built_in).__name__} takes real ones alone; give "
            "real numbers, or complex weights to the sums above it."
        )


def is_never_negative(group: FoldedLayer, name: str) -> bool:
    """Whether no layer of a group can have a negative number in its parameter `name`."""
    parameters = [layer.all_evaluated_params[name] for layer in group.members]
    return all(never_negative(parameter.output, parameter.node_inputs) for parameter in parameters)


def lower_least(
    folded: FoldedCircuit,
    semiring: Semiring,
    dtype: DType,
    weights: Sequence[tuple[FoldedLayer, str]],
    owners: Owners,
    given: CallParameters | None = None,
) -> tuple[Program, tuple[Leaf | Constant, ...]]:
    """The Program that computes the least number of each weight of each layer, in one array.

    Args:
        folded: The circuit.
        semiring: Its number format.
        dtype: The dtype of its real parameters.
        weights: The weights, by group and name. The array has their folds one after another.
        owners: The leaves that exist already.
        given: The parameters passed at call time.

    Returns:
        The Program, and the leaf or constant of each array that it captures.
    """
    scope = LoweringScope(folded, semiring, dtype, owners, given or {})
    with scope.trace.active():
        least = []
        for group, name in weights:
            numbers, rows = scope.parameters(group)[name], scope.by_row(group)
            numbers = numbers if rows is None else rows.split_parameter(numbers, group.num_folds)
            least.append(xp.min(xp.reshape(numbers, (group.num_folds, prod(numbers.shape[1:]))), axis=1))
        result = xp.concat(least)
    return scope.build([result]), tuple(scope.captured)


def refuse_weight(circuit: Circuit, layer: Layer, name: str, semiring: Semiring, value: float) -> NoReturn:
    """Raise on a weight that has become negative."""
    raise UnsupportedError(_message(circuit, layer, name, semiring, value))


def _constant_value(parameter: Parameter) -> NDArray[Any] | None:
    """The numbers of a parameter that is a leaf with a constant initial value; None for others."""
    leaf = parameter.output
    target = dereferenced(leaf)
    if isinstance(target, ConstantParameter):
        return np.asarray(target.value)
    if isinstance(target, TensorParameter) and isinstance(target.initializer, ConstantTensorInitializer):
        return np.asarray(target.initializer.value)
    return None


def _message(circuit: Circuit, layer: Layer, name: str, semiring: Semiring, value: float) -> str:
    return (
        f"{circuit.layer_name(layer)}: its {name} has the entry {value:g}, and {semiring.name} stores "
        "logarithms, which negative numbers do not have; compile with semiring='sum-product' or 'signed-lse-sum', or "
        "give weights that are not negative."
    )
