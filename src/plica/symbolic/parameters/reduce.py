"""Operations along one axis: reductions, which drop it, and normalizations, which keep it.

>>> ReduceSumParameter((2, 3), axis=0).shape, SoftmaxParameter((2, 3)).shape
((3,), (2, 3))

Numbers of an operation have a fold axis ahead of their shape:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> x = np.array([[1.0, 2.0, 5.0]])
>>> ReduceProductParameter((3,)).evaluate(pnp, x)
array([10.])
>>> ReduceLSEParameter((3,)).evaluate(pnp, np.log(x)).round(3)  # log 8
array([2.079])
>>> CountedSoftmaxParameter((3,)).evaluate(pnp, np.log(x))
array([[0.125, 0.25 , 0.625]])
>>> CountedLogSoftmaxParameter((3,)).evaluate(pnp, np.log(x)).round(3)
array([[-2.079, -1.386, -0.47 ]])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, final

from plica.ir.ranges import Range
from plica.symbolic.parameters.nodes import Array, Namespace, Shape, UnaryOp, check_axis, fold_axis, logarithm, range_as


@dataclass(frozen=True, slots=True, eq=False)
class ReduceOp(UnaryOp):
    """An operation that drops its axis."""

    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input without `axis`."""
        check_axis(self, self.in_shape, self.axis)
        at = self.axis % len(self.in_shape)
        return self.in_shape[:at] + self.in_shape[at + 1 :]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReduceSumParameter(ReduceOp):
    """The sum along an axis."""

    range: ClassVar[Callable[..., Range | None]] = range_as("sum")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sum."""
        return xp.sum(arrays[0], axis=fold_axis(self.axis))


def _underflow_of_product(op: Any, errors: Sequence[float], largest: Callable[[int], float]) -> float:
    """The other factors multiply the error of each factor and partial product; if one may be above 1, infinity."""
    num_factors: int = op.in_shape[op.axis]
    return num_factors * (errors[0] + 1.0) if num_factors == 1 or largest(0) <= 1 else inf


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReduceProductParameter(ReduceOp):
    """The product along an axis."""

    range: ClassVar[Callable[..., Range | None]] = range_as("prod")
    underflow: ClassVar[Callable[..., float]] = _underflow_of_product

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The product."""
        return xp.prod(arrays[0], axis=fold_axis(self.axis))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReduceLSEParameter(ReduceOp):
    """The logarithm of the sum of exponentials along an axis."""

    range: ClassVar[Callable[..., Range | None]] = range_as("logsumexp")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """log(sum(exp(x)))."""
        return xp.logsumexp(arrays[0], axis=fold_axis(self.axis), keepdims=False)


@dataclass(frozen=True, slots=True, eq=False)
class NormalizeOp(UnaryOp):
    """An operation along an axis that keeps the shape."""

    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        check_axis(self, self.in_shape, self.axis)
        return self.in_shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The function of the array namespace called `operation`, along the axis."""
        return getattr(xp, str(self.operation))(arrays[0], axis=fold_axis(self.axis))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxParameter(NormalizeOp):
    """exp(x) / sum(exp(x)) along an axis."""

    operation: ClassVar[str | None] = "softmax"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: logarithm(xp, y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogSoftmaxParameter(NormalizeOp):
    """x - log(sum(exp(x))) along an axis."""

    operation: ClassVar[str | None] = "log_softmax"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, __, y: y


@dataclass(frozen=True, slots=True, eq=False)
class CountedOp(NormalizeOp):
    """A normalization whose total counts as constant in derivatives.

    So the derivative of a log-likelihood by an entry is how often its weight is expected to be used. `SoftmaxParameter`
    and `LogSoftmaxParameter` subtract the total from it.
    """

    def log_shares(self, xp: Namespace, x: Array) -> Array:
        """X - log(sum(exp(x))) along the axis."""
        return x - xp.stop_gradient(xp.logsumexp(x, axis=fold_axis(self.axis), keepdims=True))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CountedSoftmaxParameter(CountedOp):
    """The softmax along an axis, with derivatives that count."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: (0.0, 1.0)  # noqa: ARG005

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """exp(x) / sum(exp(x))."""
        return xp.exp(self.log_shares(xp, arrays[0]))


@final
@dataclass(frozen=True, slots=True, eq=False)
class CountedLogSoftmaxParameter(CountedOp):
    """The logarithm of the softmax along an axis, with derivatives that count."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: (-inf, 0.0)  # noqa: ARG005

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """X - log(sum(exp(x)))."""
        return self.log_shares(xp, arrays[0])
