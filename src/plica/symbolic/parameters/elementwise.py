"""Parameter operations that compute each entry from the entries of the inputs at its position: sums, logarithms, ...

>>> ScaledSigmoidParameter((3,), 0.1, 2.0).config
{'vmin': 0.1, 'vmax': 2.0}

Numbers of an operation have a fold axis ahead of their shape:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> x, y = np.array([[-1.0, 0.0, 2.0]]), np.array([[0.5, 0.25, 2.0]])
>>> HadamardParameter((3,), (3,)).evaluate(pnp, x, y)
array([[-0.5,  0. ,  4. ]])
>>> LogAddExpParameter((3,), (3,)).evaluate(pnp, np.log(y), np.log(y))
array([[ 0.        , -0.69314718,  1.38629436]])
>>> LogParameter((3,)).evaluate(pnp, y)
array([[-0.69314718, -1.38629436,  0.69314718]])
>>> SoftplusParameter((3,)).evaluate(pnp, x).round(3)
array([[0.313, 0.693, 2.127]])
>>> LogSoftplusParameter((3,)).evaluate(pnp, x).round(3)
array([[-1.161, -0.367,  0.755]])
>>> SigmoidParameter((3,)).evaluate(pnp, x).round(3)
array([[0.269, 0.5  , 0.881]])
>>> LogSigmoidParameter((3,)).evaluate(pnp, x).round(3)
array([[-1.313, -0.693, -0.127]])
>>> ClampParameter((3,), vmin=0.0, vmax=1.0).evaluate(pnp, x)
array([[0., 0., 1.]])
>>> ConjugateParameter((1,)).evaluate(pnp, np.array([[1 + 2j]]))
array([[1.-2.j]])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log
from typing import Any, ClassVar, final

import numpy as np

from plica.errors import InputError, ShapeError
from plica.ir.ranges import ANYTHING, Range, between
from plica.symbolic.parameters.nodes import (
    Array,
    BinaryOp,
    Namespace,
    Shape,
    UnaryOp,
    check_bound,
    logarithm,
    underflow_of_products,
)


def common_shape(op: BinaryOp, advice: str) -> Shape:
    """The shape of both inputs.

    Raises:
        ShapeError: They differ; `advice` ends the message.
    """
    if op.in_shape1 != op.in_shape2:
        raise ShapeError(
            f"{type(op).__name__}: expected two inputs of one shape, found {op.in_shape1} and {op.in_shape2}; {advice}"
        )
    return op.in_shape1


@dataclass(frozen=True, slots=True, eq=False)
class EntrywisePairOp(BinaryOp):
    """The function of the array namespace called `operation`, on two inputs of one shape."""

    def infer_shape(self) -> Shape:
        """The shape of both inputs."""
        return common_shape(self, "to combine all pairs of entries, use an outer or Kronecker parameter")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The operation, entry by entry."""
        return getattr(xp, str(self.operation))(*arrays)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SumParameter(EntrywisePairOp):
    """The sum of two inputs of one shape."""

    operation: ClassVar[str | None] = "add"


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogAddExpParameter(EntrywisePairOp):
    """`log(exp(a) + exp(b))` of two inputs of one shape: the logarithm of a sum, from the logarithms of its terms."""

    operation: ClassVar[str | None] = "logaddexp"


@final
@dataclass(frozen=True, slots=True, eq=False)
class HadamardParameter(EntrywisePairOp):
    """The product, entry by entry, of two inputs of one shape."""

    operation: ClassVar[str | None] = "multiply"
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)


def _softplus_inverse(xp: Namespace, y: Array) -> Array:
    """X with log(1 + exp(x)) = y: y + log(1 - exp(-y))."""
    y = xp.clip(y, float(xp.finfo(y.dtype).smallest_normal), None)
    return y + logarithm(xp, -xp.expm1(-y))


def _logit(xp: Namespace, y: Array) -> Array:
    """log(y / (1 - y)), finite for 0 and 1 too."""
    return logarithm(xp, y) - logarithm(xp, 1.0 - y)


@dataclass(frozen=True, slots=True, eq=False)
class EntrywiseOp(UnaryOp):
    """An operation whose result has the shape of its input."""

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        return self.in_shape


@dataclass(frozen=True, slots=True, eq=False)
class NamedOp(EntrywiseOp):
    """The function of the array namespace called `operation`."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The operation, entry by entry."""
        return getattr(xp, str(self.operation))(*arrays)


def exponential(xp: Namespace, x: Array) -> Array:
    """exp(x), with derivative 0 where the exponential overflows to infinity.

    The derivative of `exp` itself is infinite there. Where the result does not matter, its gradient is 0, and 0 times
    infinity is NaN.
    """
    if str(x.dtype) not in _LARGEST_EXPONENT:
        return xp.exp(x)
    largest = _LARGEST_EXPONENT[str(x.dtype)]
    return xp.where(xp.greater(x, largest), inf, xp.exp(xp.clip(x, max=largest)))


_LARGEST_EXPONENT = {
    limits.dtype.name: log(float(limits.max)) * (1 - 4 * float(limits.eps))
    for limits in map(np.finfo, ("float16", "float32", "float64"))
}
"""For each dtype the largest number whose exponential is finite, less four roundings for inexact `exp`."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ExpParameter(EntrywiseOp):
    """The exponential."""

    operation: ClassVar[str | None] = "exp"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: logarithm(xp, y)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """exp(x)."""
        return exponential(xp, arrays[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogParameter(NamedOp):
    """The natural logarithm: -inf at zero, with derivative 0 there."""

    operation: ClassVar[str | None] = "safe_log"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: xp.exp(y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SquareParameter(NamedOp):
    """The square."""

    operation: ClassVar[str | None] = "square"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: xp.sqrt(xp.clip(y, 0.0, None))
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SoftplusParameter(NamedOp):
    """log(1 + exp(x)), non-negative."""

    operation: ClassVar[str | None] = "softplus"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: _softplus_inverse(xp, y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogSoftplusParameter(EntrywiseOp):
    """The logarithm of `log(1 + exp(x))`, accurate also where `log(1 + exp(x))` underflows to 0."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: ANYTHING  # noqa: ARG005
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: xp.where(
        y < -20.0, y, _softplus_inverse(xp, xp.exp(y))
    )

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The logarithm; x where exp(x) < eps, since log(1 + y) is y (1 - y/2 + ...), which is y up to rounding."""
        (x,) = arrays
        least = log(float(np.finfo(str(x.dtype)).eps))
        return xp.where(xp.less(x, least), x, xp.log(xp.softplus(xp.clip(x, least))))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SigmoidParameter(NamedOp):
    """1 / (1 + exp(-x)), between 0 and 1."""

    operation: ClassVar[str | None] = "sigmoid"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: _logit(xp, y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogSigmoidParameter(EntrywiseOp):
    """The logarithm of `1 / (1 + exp(-x))`, accurate also where `1 / (1 + exp(-x))` underflows to 0."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: (-inf, 0.0)  # noqa: ARG005
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: y - logarithm(xp, -xp.expm1(y))

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """-log(1 + exp(-x))."""
        return -xp.softplus(-arrays[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConjugateParameter(NamedOp):
    """The complex conjugate. Real numbers stay the same."""

    operation: ClassVar[str | None] = "conj"
    inverse: ClassVar[Callable[..., Array] | None] = lambda _, xp, y: xp.conj(y)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScaledSigmoidParameter(UnaryOp):
    """A sigmoid stretched to lie between `vmin` and `vmax`."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, _: (op.vmin, op.vmax)
    inverse: ClassVar[Callable[..., Array] | None] = lambda op, xp, y: _logit(xp, (y - op.vmin) / (op.vmax - op.vmin))

    vmin: float
    vmax: float

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        check_bound(self, "vmin", self.vmin)
        check_bound(self, "vmax", self.vmax)
        if not self.vmin < self.vmax:
            raise InputError(f"ScaledSigmoidParameter needs vmin < vmax, found vmin={self.vmin} and vmax={self.vmax}")
        return self.in_shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sigmoid, stretched."""
        return self.vmin + (self.vmax - self.vmin) * xp.sigmoid(arrays[0])


def _clamped(op: Any, x: Range) -> Range:
    low, high = -inf if op.vmin is None else op.vmin, inf if op.vmax is None else op.vmax
    return between(x, (low, low), (high, high))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClampParameter(UnaryOp):
    """The input clipped to the interval from `vmin` to `vmax`; None leaves that side open."""

    range: ClassVar[Callable[..., Range | None]] = _clamped
    inverse: ClassVar[Callable[..., Array] | None] = lambda op, xp, y: xp.clip(y, op.vmin, op.vmax)

    vmin: float | None = field(default=None, kw_only=True)
    vmax: float | None = field(default=None, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        for name, value in (("vmin", self.vmin), ("vmax", self.vmax)):
            if value is not None:
                check_bound(self, name, value)
        if self.vmin is None and self.vmax is None:
            raise InputError("ClampParameter needs at least one bound; pass vmin=, vmax= or both")
        if self.vmin is not None and self.vmax is not None and self.vmin > self.vmax:
            raise InputError(f"ClampParameter needs vmin <= vmax, found vmin={self.vmin} and vmax={self.vmax}")
        return self.in_shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """min(max(x, vmin), vmax)."""
        return xp.clip(arrays[0], self.vmin, self.vmax)
