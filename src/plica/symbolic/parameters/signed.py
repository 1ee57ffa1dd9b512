"""Numbers of any sign as `sign * exp(size)`: sums and products of them that underflow nowhere.

A size is a finite logarithm, or -inf. A sign is 1, -1 or 0 to a rounding. The size is a constant of derivatives, and
the sign is differentiated: it is `x / |x|` with |x| taken for a constant. So a factor of 0 has the gradient that it has
in ordinary arithmetic. Products multiply signs and add sizes.

>>> LogSizeParameter((2, 3)).shape, StackParameter((2, 3), (2, 3)).shape
((2, 3), (2, 3, 2))
>>> SumSizeParameter((2, 3), (2, 3), axis=0).shape
(3,)

The sum of 3 and -5, whose logarithms and signs have a fold axis ahead:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> sizes, signs = np.log([[3.0, 5.0]]), SignParameter((2,)).evaluate(pnp, np.array([[3.0, -5.0]]))
>>> signs, np.exp(SumSizeParameter((2,), (2,)).evaluate(pnp, sizes, signs)).round(3)
(array([[ 1., -1.]]), array([2.]))
>>> SumSignParameter((2,), (2,)).evaluate(pnp, sizes, signs)
array([-1.])
>>> np.exp(ClampSizeParameter((2,), (2,), below=0.0).evaluate(pnp, sizes, signs)).round(3)  # at least -1
array([[3., 1.]])
>>> ClampSignParameter((2,), (2,), below=-inf).evaluate(pnp, sizes, signs)  # at least 0
array([[1., 0.]])
>>> SignedLogParameter((2,), (2,), positive_part=True).evaluate(pnp, sizes, signs).round(3)
array([[1.099,  -inf]])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log, nan
from typing import ClassVar, final

import numpy as np

from plica.ir.dtypes import as_dtype, headroom_of
from plica.ir.ranges import ANYTHING, Range
from plica.symbolic.parameters.elementwise import EntrywiseOp, common_shape
from plica.symbolic.parameters.nodes import Array, BinaryOp, Namespace, Shape, check_axis, fold_axis, range_as

_SIGNS = "give a sign for each size"


def log_size(xp: Namespace, x: Array) -> Array:
    """The logarithm of |x| as a constant; 0 where x is 0, so that exp(-log|x|) is finite."""
    limits = np.finfo(as_dtype(x.dtype).value)
    size = xp.stop_gradient(xp.abs(x))
    bounded = xp.clip(size, float(limits.tiny), float(limits.max))
    return xp.where(xp.greater(size, 0.0), xp.log(bounded), 0.0)


def sign(xp: Namespace, x: Array) -> Array:
    """The quotient x / |x| with |x| as a constant; x itself where it is 0.

    Where x is so small that a sum of derivatives would overflow, it has no derivative, as with `safe_log`.
    """
    limits = np.finfo(as_dtype(x.dtype).value)
    size, least = xp.stop_gradient(xp.abs(x)), float(limits.tiny) * headroom_of(float(limits.max))
    small = xp.logical_and(xp.greater(size, 0.0), xp.less(size, least))
    return xp.where(small, xp.stop_gradient(x), x) * xp.exp(-log_size(xp, x))


def scaled_sum(xp: Namespace, size: Array, sign: Array, axis: int) -> tuple[Array, Array]:
    """The sum of `sign * exp(size)` along an axis, divided by the exponential of a shift, and the shift.

    The shift is the largest size of a term that is not 0.
    """
    counted = xp.where(xp.equal(sign, 0.0), -inf, size)
    limits = np.finfo(str(size.dtype))
    largest, most = (xp.stop_gradient(xp.max(sizes, axis=axis, keepdims=True)) for sizes in (counted, size))
    shift = xp.clip(xp.where(xp.greater(largest, -inf), largest, most), float(limits.min), float(limits.max))
    # only terms whose sign is 0 can lie far above the shift
    terms = sign * xp.exp(xp.clip(size - shift, max=log(float(limits.max)) / 2))
    return xp.sum(terms, axis=axis), xp.squeeze(shift, axis=axis)


def _anything(op: object, *ranges: Range) -> Range:  # noqa: ARG001
    return ANYTHING


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogSizeParameter(EntrywiseOp):
    """The sizes of real numbers: the logarithms of their absolute values, and 0 at zero, as constants."""

    range: ClassVar[Callable[..., Range | None]] = _anything

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log|x|."""
        return log_size(xp, arrays[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class SignParameter(EntrywiseOp):
    """The signs of real numbers, with the derivatives of the numbers; `LogSizeParameter` gives the sizes."""

    range: ClassVar[Callable[..., Range | None]] = _anything

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """X / |x|."""
        return sign(xp, arrays[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class StackParameter(BinaryOp):
    """Two inputs of one shape side by side on a new last axis."""

    range: ClassVar[Callable[..., Range | None]] = range_as("concat")

    def infer_shape(self) -> Shape:
        """The shape of both inputs, with a last axis of size 2."""
        return (*common_shape(self, _SIGNS), 2)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """Both inputs."""
        return xp.stack(list(arrays), axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class SignedSumOp(BinaryOp):
    """An operation on the sum along an axis of numbers that are given by their sizes and signs."""

    range: ClassVar[Callable[..., Range | None]] = _anything

    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of both inputs without `axis`."""
        shape = common_shape(self, _SIGNS)
        check_axis(self, shape, self.axis)
        at = self.axis % len(shape)
        return shape[:at] + shape[at + 1 :]

    def total(self, xp: Namespace, size: Array, sign: Array) -> tuple[Array, Array]:
        """The sum divided by the exponential of a shift, and the shift."""
        return scaled_sum(xp, size, sign, fold_axis(self.axis))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SumSizeParameter(SignedSumOp):
    """The sizes of sums along an axis, as constants; from the sizes and the signs of the terms."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log|sum of sign * exp(size)|."""
        total, shift = self.total(xp, arrays[0], arrays[1])
        return log_size(xp, total) + shift


@final
@dataclass(frozen=True, slots=True, eq=False)
class SumSignParameter(SignedSumOp):
    """The signs of sums along an axis, with the derivatives; from the sizes and the signs of the terms."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sum over its size."""
        total, _ = self.total(xp, arrays[0], arrays[1])
        return sign(xp, total)


@dataclass(frozen=True, slots=True, eq=False)
class SignedClampOp(BinaryOp):
    """An operation on numbers that are clamped between bounds, and given by their sizes and signs.

    Args:
        below: The logarithm of the size of the lower bound, which is negative or 0; -inf for 0.
        above: The logarithm of the upper bound, which is positive or 0.
    """

    range: ClassVar[Callable[..., Range | None]] = _anything

    below: float = field(default=inf, kw_only=True)
    above: float = field(default=inf, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of both inputs."""
        return common_shape(self, _SIGNS)

    def bounds(self, xp: Namespace, size: Array, sign: Array) -> tuple[Array, Array]:
        """The logarithm of the largest size that a number may have, and where it has a larger one."""
        below = inf if self.below == -inf else self.below  # then a negative number becomes 0, which has any size
        bound = xp.astype(xp.where(xp.less(sign, 0.0), below, self.above), size.dtype)
        return bound, xp.logical_and(xp.not_equal(sign, 0.0), xp.greater(size, bound))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClampSizeParameter(SignedClampOp):
    """The sizes of clamped numbers."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The size, or that of the bound."""
        bound, beyond = self.bounds(xp, arrays[0], arrays[1])
        return xp.where(beyond, bound, arrays[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClampSignParameter(SignedClampOp):
    """The signs of clamped numbers, without a derivative where a bound replaces the number."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sign."""
        _, beyond = self.bounds(xp, arrays[0], arrays[1])
        signs = xp.where(beyond, xp.stop_gradient(arrays[1]), arrays[1])
        return xp.maximum(signs, 0.0) if self.below == -inf else signs


@final
@dataclass(frozen=True, slots=True, eq=False)
class SignedLogParameter(BinaryOp):
    """The logarithm of numbers from their sizes and their signs.

    Args:
        positive_part: Whether negative numbers count as 0; otherwise their logarithm is NaN.
    """

    range: ClassVar[Callable[..., Range | None]] = _anything

    positive_part: bool = field(default=False, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of both inputs."""
        return common_shape(self, _SIGNS)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log(sign) + size: -inf at zero, where the derivative is taken to be 0; NaN where the number is negative."""
        size, sign = arrays
        logs = xp.safe_log(xp.abs(sign)) + size
        negative = xp.logical_and(xp.less(sign, 0.0), xp.greater(size, -inf))
        return xp.where(negative, -inf if self.positive_part else nan, logs)
