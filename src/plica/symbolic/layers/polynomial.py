"""The polynomial layer: polynomials of one real variable.

>>> from plica.symbolic.scope import Scope
>>> PolynomialLayer(Scope([0]), 4, degree=3).params["coeff"].shape
(4, 4)
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from plica.errors import DTypeError, ShapeError
from plica.ir.op import unsupported
from plica.symbolic.domains import REALS, Domain
from plica.symbolic.layers.base import (
    FieldsLayer,
    assign,
    at_most_one,
    choose_parameter,
    input_scope,
    positive,
)
from plica.symbolic.layers.blocks import check_equal_scopes
from plica.symbolic.layers.operator_rows import CircuitBlock, OperatorRow
from plica.symbolic.layers.rows import InputRow
from plica.symbolic.layers.states import StateTable, TabulatedLayer
from plica.symbolic.parameters import (
    Array,
    ConstantParameter,
    MatMulParameter,
    Namespace,
    Parameter,
    ParameterFactory,
    ParameterLike,
    PolynomialDifferential,
    PolynomialProduct,
    normal,
)
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Params, Semiring, Value

_NO_INTEGRAL = "the integral of a polynomial over all real numbers does not exist; give the variable a value"
_NO_DENSITY = "a polynomial is no density over all real numbers, whose integral does not exist"


@final
@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class PolynomialLayer(FieldsLayer, TabulatedLayer):
    """Polynomials of one real variable: `coeff[k, 0] + coeff[k, 1] x + coeff[k, 2] x^2 + ...`.

    Their values have any sign: a number format of positive numbers, such as `lse-sum`, gives NaN where one is negative.

    Args:
        scope: The variable.
        num_output_units: K, the number of polynomials.
        degree: The highest power, at least 0.
        coeff: `(K, degree+1)` coefficients, that of the lowest power first; standard normal draws by default.
        coeff_factory: Makes the coefficients from their shape.

    Raises:
        ShapeError: More than one variable, coefficients of another shape, or a degree below 0.
        InputError: Both coefficients and a factory.
    """

    has_conjugate: ClassVar[bool] = True
    scope: Scope
    num_output_units: int
    degree: int
    coeff: Parameter

    def __init__(
        self,
        scope: Iterable[int],
        num_output_units: int,
        *,
        degree: int,
        coeff: ParameterLike | None = None,
        coeff_factory: ParameterFactory | None = None,
    ) -> None:
        name = "PolynomialLayer"
        at_most_one(name, coeff=coeff, coeff_factory=coeff_factory)
        units, highest = positive(name, "num_output_units", num_output_units), _degree(name, degree)
        chosen = choose_parameter(name, "coeff", (units, highest + 1), coeff, coeff_factory, normal)
        assign(self, scope=input_scope(name, scope, 1), num_output_units=units, degree=highest, coeff=chosen)

    @property
    def domain(self) -> Domain:
        """The variable is real."""
        return REALS

    @property
    def padded(self) -> dict[str, str]:
        """The coefficients, by degree."""
        return {"coeff": "degree"}

    def state_table(self, num_states: int) -> StateTable:
        """The values at states: coefficients times powers."""
        powers = np.vander(np.arange(float(num_states)), self.degree + 1, increasing=True).T  # (degree + 1, C)
        op = MatMulParameter(self.coeff.shape, powers.shape)
        values = Parameter.from_binary(op, self.coeff.ref(), ConstantParameter(*powers.shape, value=powers))
        return StateTable(values, signed=True)


def _degree(name: str, degree: int) -> int:
    try:
        number = operator.index(degree)
    except TypeError:
        raise DTypeError(f"{name}: degree must be an integer, found {degree!r}") from None
    if number < 0:
        raise ShapeError(f"{name}: degree must be at least 0, found {number}")
    return number


def _body(xp: Namespace, semiring: Semiring, layer: PolynomialLayer, params: Params, x: Array) -> Value:
    # c0 + x (c1 + x (c2 + ...)), Horner's rule
    coeff = params["coeff"]
    value = xp.expand_dims(coeff[:, :, layer.degree], axis=1) + xp.zeros_like(x)  # (F, B, K)
    for power in reversed(range(layer.degree)):
        value = value * x + xp.expand_dims(coeff[:, :, power], axis=1)
    return semiring.from_linear(xp, value)


ROW = InputRow(
    PolynomialLayer,
    body=_body,
    marginal=unsupported(_NO_INTEGRAL),
    sample=unsupported(_NO_DENSITY),
    maximum=unsupported("a polynomial has no largest number, or one that has no formula"),
    mode=unsupported(_NO_DENSITY),
    mean=unsupported(_NO_DENSITY),
    variance=unsupported(_NO_DENSITY),
    interval=unsupported(_NO_DENSITY),
    padding={"coeff": 0.0},
)


def _multiply(first: PolynomialLayer, second: PolynomialLayer) -> CircuitBlock:
    check_equal_scopes(first, second)
    coefficients = [layer.coeff.ref() for layer in (first, second)]
    product = Parameter.from_nary(PolynomialProduct(*(coeff.shape for coeff in coefficients)), *coefficients)
    return CircuitBlock.from_layer(_of_coefficients(first.scope, product))


def _differentiate(layer: PolynomialLayer, *, variable: int, order: int) -> CircuitBlock:  # noqa: ARG001 - its own
    derivative = Parameter.from_unary(PolynomialDifferential(layer.coeff.shape, order=order), layer.coeff.ref())
    return CircuitBlock.from_layer(_of_coefficients(layer.scope, derivative))


def _of_coefficients(scope: Scope, coeff: Parameter) -> PolynomialLayer:
    units, size = coeff.shape
    return PolynomialLayer(scope, units, degree=size - 1, coeff=coeff)


OPERATORS = (
    OperatorRow("multiply", (PolynomialLayer, PolynomialLayer), _multiply),
    OperatorRow("differentiate", (PolynomialLayer,), _differentiate),
)
