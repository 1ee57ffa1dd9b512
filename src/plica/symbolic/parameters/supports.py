"""Logarithms and powers of numbers where they are positive; a number that is 0 has none, and gives 0.

They are of weights and tables of deterministic circuits, in which 0 says that a term is outside of the support.

>>> LogOnSupportParameter((2, 3)).shape, PowerOnSupportParameter((2, 3), exponent=-1).config
((2, 3), {'exponent': -1, 'log_space': False})
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nan
from typing import ClassVar, final

from plica.arguments import flag, integer
from plica.ir.ranges import ANYTHING, Range
from plica.symbolic.parameters.elementwise import EntrywiseOp
from plica.symbolic.parameters.nodes import Array, Namespace, Shape


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogOnSupportParameter(EntrywiseOp):
    """The natural logarithm of positive numbers, and 0 where a number is 0, with derivative 0; NaN of negative ones.

    Args:
        log_space: Whether the input has the logarithms, with -inf for 0.
    """

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: ANYTHING  # noqa: ARG005

    log_space: bool = field(default=False, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        flag("LogOnSupportParameter", "log_space", self.log_space)
        return self.in_shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """Log x where x > 0."""
        (x,) = arrays
        if self.log_space:
            return xp.where(xp.equal(x, -inf), 0.0, x)
        is_positive = xp.greater(x, 0.0)
        logs = xp.log(xp.where(is_positive, x, 1.0))
        return xp.where(xp.logical_or(is_positive, xp.equal(x, 0.0)), logs, nan)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PowerOnSupportParameter(EntrywiseOp):
    """An integer power of positive numbers, and 0 where a number is 0, with derivative 0; NaN of negative ones.

    The exponent 0 gives the support: 1 where a number is positive.

    Args:
        exponent: The exponent, an integer of any sign.
        log_space: Whether the input, and the result, have the logarithms, with -inf for 0.
    """

    range: ClassVar[Callable[..., Range | None]] = lambda op, x: ANYTHING if op.log_space else (0.0, inf)  # noqa: ARG005

    exponent: int = field(kw_only=True)
    log_space: bool = field(default=False, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input."""
        flag("PowerOnSupportParameter", "log_space", self.log_space)
        object.__setattr__(self, "exponent", integer("PowerOnSupportParameter", "exponent", self.exponent))
        return self.in_shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """X ** exponent where x > 0."""
        (x,) = arrays
        if self.log_space:
            is_zero = xp.equal(x, -inf)
            return xp.where(is_zero, -inf, xp.where(is_zero, 0.0, x) * float(self.exponent))
        is_positive = xp.greater(x, 0.0)
        powers = xp.pow(xp.where(is_positive, x, 1.0), float(self.exponent))
        return xp.where(is_positive, powers, xp.where(xp.equal(x, 0.0), 0.0, nan))
