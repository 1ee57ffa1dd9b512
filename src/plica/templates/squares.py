"""Squares of circuits, and what is made of squares: circuits with weights of any sign, or complex ones, as densities.

A circuit whose weights have signs is negative somewhere, but its square is not. Each function gives an ordinary
circuit, made by the operators of `plica.symbolic.functional`: it shares the tensors of its operands. Compile it in a
semiring that carries signs, such as `signed-lse-sum`, or `complex-lse-sum` for complex weights.

>>> from plica.templates.tensor_factorizations import cp
>>> first, second = cp((2, 3), rank=4), cp((2, 3), rank=4)
>>> squared(first)
Circuit(4 layers, 2 variables, 1 output(s) of 1 unit(s))
>>> sum_of_squares([first, second], weights=[0.25, 0.75]).operation.operator
'mixture'
>>> psd_mixture([first, second], rank=2).scope
Scope({0, 1})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from plica.arguments import elements, found
from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import conjugate, mixture, multiply, simplify
from plica.symbolic.layers.base import positive
from plica.symbolic.parameters import ConstantParameter, IndexParameter, Parameter, ParameterInput, normal

Factory: TypeAlias = Callable[[tuple[int, ...]], Parameter]


def squared(circuit: Circuit) -> Circuit:
    """The square of a circuit, `c(x) c(x)`; with complex parameters `c(x) conj(c(x))`, the squared absolute value.

    Args:
        circuit: Smooth, decomposable and compatible with itself, with one output of one unit.

    Raises:
        ShapeError: More than one output or unit.
        StructuralPropertyError, UnsupportedError: As for `multiply`.

    Source: Loconte et al., "Subtractive mixture models via squaring", 2024, equation 3; Loconte et al., "Sum of squares
    circuits", 2025, definition 2 (complex ones).
    """
    _check("squared", circuit)
    return multiply(circuit, conjugate(circuit) if _is_complex(circuit) else circuit)


def sum_of_squares(circuits: Iterable[Circuit], weights: Any = None) -> Circuit:
    """The weighted sum of the squares of some circuits: `sum over n of w_n |c_n(x)|^2`.

    Args:
        circuits: N circuits of equal scopes, as `squared` takes them.
        weights: A number for each that is not negative, or a parameter `(1, N)`; by default each is 1.

    Raises:
        InputError: There are no circuits, or a weight is negative or no real number.
        ShapeError, StructuralPropertyError, UnsupportedError: As for `squared` and `mixture`.

    Source: Loconte et al., "Sum of squares circuits", 2025, definition 3.
    """
    operands = _operands("sum_of_squares", circuits)
    if weights is None:
        weights = [1.0] * len(operands)
    if not isinstance(weights, Parameter | ParameterInput):
        _check_weights(weights)
    squares = [squared(operand) for operand in operands]
    return mixture(squares, weights)


def psd_mixture(
    circuits: Iterable[Circuit], rank: int | None = None, *, weight: Any = None, weight_factory: Factory = normal
) -> Circuit:
    """A quadratic form of N circuits f that no x makes negative: `f(x)^T A A^* conj(f(x))`, with `A = W^T`.

    That is the sum of R squares of mixtures: `sum over r of |sum over n of W[r, n] f_n(x)|^2`.

    Args:
        circuits: N circuits of equal scopes, with one output of one unit each, whose mixtures `squared` takes.
        rank: R, the number of squares; N by default.
        weight: W, a parameter or an array `(R, N)`, of any sign or complex.
        weight_factory: Makes W if it is not given; normal draws by default.

    Raises:
        InputError: There are no circuits, or the weight is no array of numbers.
        ShapeError: The weight is no `(R, N)`, or as for `squared`.
        StructuralPropertyError, UnsupportedError: As for `squared` and `mixture`.

    Source: Rudi and Ciliberto, "PSD representations for effective probability models", 2021, equation 3; Sladek, Trapp
    and Solin, "Encoding negative dependencies in probabilistic circuits", 2023.
    """
    operands = _operands("psd_mixture", circuits)
    rows = None if rank is None else positive("psd_mixture", "rank", rank)
    form = weight_factory((rows or len(operands), len(operands))) if weight is None else _form(weight)
    if len(form.shape) != 2 or form.shape[1] != len(operands) or rows not in (None, form.shape[0]):
        raise ShapeError(
            f"psd_mixture: expected a weight of shape ({'R' if rows is None else rows}, {len(operands)}), a row for "
            f"each square and a column for each circuit, found {form.shape}"
        )
    mixtures = []
    for row in range(form.shape[0]):
        chosen = Parameter.from_unary(IndexParameter(form.shape, indices=[row], axis=0), form.ref())
        mixtures.append(mixture(operands, chosen))
    return simplify(sum_of_squares(mixtures))


def _operands(name: str, circuits: Iterable[Circuit]) -> tuple[Circuit, ...]:
    """Circuits of one output of one unit.

    Raises:
        InputError: There are none.
    """
    operands: tuple[Circuit, ...] = elements(name, "circuits", circuits)
    if not operands:
        raise InputError(f"{name}: there are no circuits; give at least one")
    for operand in operands:
        _check(name, operand)
    return operands


def _check(name: str, circuit: Any) -> None:
    """Raise unless a value is a circuit of one output of one unit."""
    if not isinstance(circuit, Circuit):
        raise DTypeError(f"{name}: expected a circuit of plica.symbolic.circuit, {found(circuit)}")
    outputs, units = len(circuit.outputs), circuit.outputs[0].num_output_units
    if (outputs, units) != (1, 1):
        raise ShapeError(
            f"{name}: expected a circuit with one output of one unit, found {outputs} output(s) of {units} unit(s); "
            "put a SumLayer of one unit on top of it"
        )


def _check_weights(weights: Any) -> None:
    """Raise where a weight of a square is negative, or no real number; `mixture` checks the rest."""
    try:
        numbers = np.asarray(weights)
    except (RuntimeError, TypeError, ValueError):
        return
    if numbers.dtype.kind == "c" or (numbers.dtype.kind in "biuf" and not bool((numbers >= 0).all())):
        raise InputError(
            f"sum_of_squares: expected weights that are real and not negative, found {weights!r:.60}; take absolute "
            "values, or give a parameter that is never negative, such as a softmax"
        )


def _form(weight: Any) -> Parameter:
    """The weight of a quadratic form as a parameter.

    Raises:
        InputError: It is no array of numbers.
    """
    if isinstance(weight, Parameter | ParameterInput):
        return Parameter.from_input(weight)
    try:
        numbers = np.asarray(weight)
    except (RuntimeError, TypeError, ValueError):
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biufc":
        raise InputError(f"psd_mixture: expected an array of numbers or a parameter, found {weight!r:.60}")
    return Parameter.from_input(ConstantParameter(*numbers.shape, value=numbers))


def _is_complex(circuit: Circuit) -> bool:
    """Whether some parameter of a circuit is complex."""
    return any(
        parameter.dtype == DataType.COMPLEX
        for layer in circuit.live_layers
        for parameter in layer.all_evaluated_params.values()
    )
