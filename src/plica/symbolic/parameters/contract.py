"""Contractions of parameters, and the joining of axes.

>>> MatMulParameter((2, 3), (3, 4)).shape, EinsumParameter((2, 3), (2, 5), equation="rm,rn->mn").shape
((2, 4), (3, 5))
>>> FlattenParameter((2, 3, 5, 7), start=1, end=2).shape
(2, 15, 7)

Of logarithms, with a fold axis ahead of their shape:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> logs = np.log([[[1.0, 2.0], [3.0, 4.0]]])
>>> np.exp(LogMatMulExpParameter((2, 2), (2, 2)).evaluate(pnp, logs, logs)).round(3)
array([[[ 7., 10.],
        [15., 22.]]])
>>> np.exp(LogEinsumExpParameter((2, 2), (2, 2), equation="ij,ij->i").evaluate(pnp, logs, logs)).round(3)
array([[ 5., 25.]])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from string import ascii_lowercase
from typing import Any, ClassVar, final

from plica.errors import ShapeError
from plica.ir.ranges import ANYTHING, Range, combined
from plica.symbolic.parameters.nodes import Array, BinaryOp, Namespace, Shape, UnaryOp, range_as, underflow_of_products

_FOLD = "F"


def _product_shape(op: BinaryOp) -> Shape:
    first, second = op.in_shape1, op.in_shape2
    if len(first) != 2 or len(second) != 2 or first[1] != second[0]:
        raise ShapeError(
            f"{type(op).__name__}: expected shapes (m, k) and (k, n), found {first} and {second}; "
            "check the order of the two inputs"
        )
    return (first[0], second[1])


def _product_range(op: Any, x: Range, y: Range) -> Range:
    """The range of sums of k products: at least 0 where no factor is negative."""
    low, _ = combined(x, y)
    if low < 0:
        return ANYTHING
    return (low, op.in_shape1[1] * x[1] * y[1] if 0 not in (x[1], y[1]) else 0.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatMulParameter(BinaryOp):
    """The product of two matrices."""

    range: ClassVar[Callable[..., Range | None]] = _product_range
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda op: op.in_shape1[1])

    def infer_shape(self) -> Shape:
        """`(m, n)` from `(m, k)` and `(k, n)`."""
        return _product_shape(self)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The product, fold by fold."""
        return xp.matmul(arrays[0], arrays[1])


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogMatMulExpParameter(BinaryOp):
    """The logarithm of the product of two matrices that are given as logarithms."""

    range: ClassVar[Callable[..., Range | None]] = range_as("log_matmul_exp")

    def infer_shape(self) -> Shape:
        """`(m, n)` from `(m, k)` and `(k, n)`."""
        return _product_shape(self)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log(exp(x) @ exp(y)), fold by fold; accurate also where the product underflows."""
        logs = xp.matrix_transpose(arrays[1])
        return xp.log_matmul_exp(arrays[0], xp.exp(logs), logs)


@dataclass(frozen=True, slots=True, eq=False)
class EinsumOp(BinaryOp):
    """An operation on the pairs of entries that an Einstein sum of two inputs multiplies, such as `rm,rn->mn`."""

    equation: str = field(kw_only=True)

    def infer_shape(self) -> Shape:
        """The sizes of the letters of the result."""
        terms, arrow, result = self.equation.partition("->")
        letters = terms.split(",")
        shapes = (self.in_shape1, self.in_shape2)
        sizes: dict[str, int] = {}
        fits = bool(arrow) and [len(term) for term in letters] == [len(shape) for shape in shapes]
        for term, shape in zip(letters, shapes, strict=False):
            for letter, size in zip(term, shape, strict=False):
                fits = fits and letter in ascii_lowercase and sizes.setdefault(letter, size) == size
        if not fits or any(letter not in sizes for letter in result) or len(dict.fromkeys(result)) != len(result):
            raise ShapeError(
                f"{type(self).__name__}: the equation {self.equation!r} does not fit inputs of shape {shapes[0]} and "
                f"{shapes[1]}; write one small letter for each axis, and '->' before those of the result"
            )
        return tuple(sizes[letter] for letter in result)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The letters of the inputs, and of the result."""
        terms, _, result = self.equation.partition("->")
        first, second = terms.split(",")
        return first, second, result

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each letter."""
        first, second, _ = self.parts
        return dict(zip(first + second, (*self.in_shape1, *self.in_shape2), strict=True))

    @property
    def summed(self) -> str:
        """The letters that the result lacks, in the order of the inputs."""
        first, second, result = self.parts
        return "".join(letter for letter in dict.fromkeys(first + second) if letter not in result)


@final
@dataclass(frozen=True, slots=True, eq=False)
class EinsumParameter(EinsumOp):
    """An Einstein sum of two inputs."""

    range: ClassVar[Callable[..., Range | None]] = range_as("einsum")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(
        lambda op: prod(op.sizes[letter] for letter in op.summed)
    )

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sum, fold by fold."""
        first, second, result = self.parts
        return xp.einsum(f"{_FOLD}{first},{_FOLD}{second}->{_FOLD}{result}", *arrays)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogEinsumExpParameter(EinsumOp):
    """The logarithm of an Einstein sum of two inputs that are given as logarithms."""

    range: ClassVar[Callable[..., Range | None]] = range_as("log_einsum_exp")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log(einsum(exp(x), exp(y))), fold by fold, as a matrix product; accurate also where products underflow."""
        first, second, result = self.parts
        x, first = _summed_alone(xp, arrays[0], first, second + result)
        y, second = _summed_alone(xp, arrays[1], second, first + result)
        inner = [letter for letter in self.summed if letter in first]
        if not inner:
            pairs = xp.add(_spread(xp, x, first, result), _spread(xp, y, second, result))
            return xp.broadcast_to(pairs, (arrays[0].shape[0], *self.shape))
        folds = [letter for letter in result if letter in first and letter in second]
        rows, columns = (
            [letter for letter in letters if letter not in (*folds, *inner)] for letters in (first, second)
        )
        left, right = _matrices(xp, x, first, (folds, rows, inner)), _matrices(xp, y, second, (folds, columns, inner))
        shape = (x.shape[0], *(self.sizes[letter] for letter in (*folds, *rows, *columns)))
        entries = xp.reshape(xp.log_matmul_exp(left, xp.exp(right), right), shape)
        return xp.einsum(f"{_FOLD}{''.join((*folds, *rows, *columns))}->{_FOLD}{result}", entries)


def _summed_alone(xp: Namespace, x: Array, letters: str, others: str) -> tuple[Array, str]:
    """Logarithms summed over the letters that `others` lacks, and the letters that remain.

    A repeated letter reads the diagonal.
    """
    once = "".join(dict.fromkeys(letters))
    if once != letters:
        x = xp.einsum(f"{_FOLD}{letters}->{_FOLD}{once}", x)
    summed = tuple(axis for axis, letter in enumerate(once, 1) if letter not in others)
    return (
        (xp.logsumexp(x, axis=summed), "".join(letter for letter in once if letter in others)) if summed else (x, once)
    )


def _spread(xp: Namespace, x: Array, letters: str, result: str) -> Array:
    """`x` with its axes in the order of the result, and axes of size 1 for the letters that it lacks."""
    ordered = xp.einsum(f"{_FOLD}{letters}->{_FOLD}{''.join(letter for letter in result if letter in letters)}", x)
    sizes = dict(zip(letters, x.shape[1:], strict=True))
    return xp.reshape(ordered, (x.shape[0], *(sizes.get(letter, 1) for letter in result)))


def _matrices(xp: Namespace, x: Array, letters: str, groups: tuple[list[str], ...]) -> Array:
    """`x` with its axes in groups, each as one axis: `(F, folds, rows, inner)`."""
    ordered = xp.einsum(f"{_FOLD}{letters}->{_FOLD}{''.join(letter for group in groups for letter in group)}", x)
    sizes = dict(zip(letters, x.shape[1:], strict=True))
    return xp.reshape(ordered, (x.shape[0], *(prod(sizes[letter] for letter in group) for group in groups)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class FlattenParameter(UnaryOp):
    """Axes `start` to `end`, both included, as one."""

    range: ClassVar[Callable[..., Range | None]] = range_as("reshape")

    start: int = field(kw_only=True)
    end: int = field(kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape with the product of the sizes in place of the axes."""
        if not 0 <= self.start <= self.end < len(self.in_shape):
            raise ShapeError(
                f"FlattenParameter: axes {self.start} to {self.end} are outside the input of shape {self.in_shape}; "
                f"use 0 <= start <= end <= {len(self.in_shape) - 1}"
            )
        joined = 1
        for size in self.in_shape[self.start : self.end + 1]:
            joined *= size
        return (*self.in_shape[: self.start], joined, *self.in_shape[self.end + 1 :])

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The same entries in the same order."""
        return xp.reshape(arrays[0], (arrays[0].shape[0], *self.shape))
