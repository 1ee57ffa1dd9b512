"""Operations on coefficients of polynomials; the coefficient of the lowest power comes first.

>>> PolynomialProduct((2, 3), (4, 5)).shape
(8, 7)
>>> PolynomialDifferential((2, 5), order=2).shape, PolynomialDifferential((2, 1)).shape
((2, 3), (2, 1))
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

from plica.errors import DTypeError, InputError, ShapeError
from plica.ir.ranges import Range
from plica.symbolic.parameters.nodes import (
    Array,
    BinaryOp,
    Namespace,
    ParameterOp,
    Shape,
    UnaryOp,
    range_as,
    underflow_of_products,
)


def _check_coefficients(op: ParameterOp) -> None:
    for shape in op.in_shapes:
        if len(shape) != 2:
            raise ShapeError(
                f"{type(op).__name__}: expected coefficients of shape (K, degree+1), found {shape}; give the parameter "
                "of a PolynomialLayer"
            )


@final
@dataclass(frozen=True, slots=True, eq=False)
class PolynomialProduct(BinaryOp):
    """The products of all pairs of polynomials; the product of i and j is entry `i * K2 + j`."""

    range: ClassVar[Callable[..., Range | None]] = range_as("einsum")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda op: min(op.in_shape1[1], op.in_shape2[1]))

    def infer_shape(self) -> Shape:
        """`(K1 * K2, d1 + d2 + 1)` from `(K1, d1 + 1)` and `(K2, d2 + 1)`."""
        _check_coefficients(self)
        (units1, size1), (units2, size2) = self.in_shapes
        return (units1 * units2, size1 + size2 - 1)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The convolutions: each row of products gets one column more, so that a reshape shifts it by one."""
        (units1, size1), (units2, size2) = self.in_shapes
        folds = arrays[0].shape[0]
        pairs = xp.einsum("Fia,Fjb->Fijab", *arrays)
        wide = xp.concat([pairs, xp.zeros((folds, units1, units2, size1, size1), dtype=pairs.dtype)], axis=4)
        rows = xp.reshape(wide, (folds, units1 * units2, size1 * (size2 + size1)))
        shifted = xp.reshape(rows[:, :, : size1 * (size2 + size1 - 1)], (folds, *self.shape[:1], size1, self.shape[1]))
        return xp.sum(shifted, axis=2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PolynomialDifferential(UnaryOp):
    """The derivatives of polynomials; a derivative of 0 has one coefficient."""

    range: ClassVar[Callable[..., Range | None]] = range_as("einsum")
    order: int = field(default=1, kw_only=True)

    def infer_shape(self) -> Shape:
        """`(K, d + 1 - order)` from `(K, d + 1)`, and at least `(K, 1)`."""
        _check_coefficients(self)
        try:
            object.__setattr__(self, "order", operator.index(self.order))
        except TypeError:
            raise DTypeError(f"PolynomialDifferential: order must be an integer, found {self.order!r}") from None
        if self.order < 1:
            raise InputError(f"PolynomialDifferential: order must be at least 1, found {self.order}")
        units, size = self.in_shape
        return (units, max(size - self.order, 1))

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """Coefficient c of power n becomes n (n-1) ... c of power n - order."""
        (coeff,) = arrays
        if self.in_shape[1] <= self.order:
            return xp.zeros_like(coeff[:, :, :1])
        remaining = coeff[:, :, self.order :]
        factors = [float(math.perm(power, self.order)) for power in range(self.order, self.in_shape[1])]
        return xp.concat([remaining[:, :, at : at + 1] * factor for at, factor in enumerate(factors)], axis=2)
