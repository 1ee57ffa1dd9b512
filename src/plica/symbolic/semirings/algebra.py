"""Algebras: the meaning of + and x, and the laws that hold. One row each.

A rule that rewrites circuits names the laws that it needs, and is applied only if the algebra has them. The tests try
every law on random values of every algebra: the laws that a row lists hold, and each other law fails at some values.

>>> sorted(law.name for law in LAWS_OF_SEMIRINGS - MAX_PRODUCT.laws), Law.WEIGHTS_ADD in MAX_PRODUCT.laws
([], False)
"""

from dataclasses import dataclass
from enum import Enum
from typing import final


@final
class Law(Enum):
    """An equation on the numbers of an algebra; `w(u)` is the number of the algebra for a weight u >= 0."""

    ASSOCIATIVE_SUM = "a + (b + c) = (a + b) + c"
    COMMUTATIVE_SUM = "a + b = b + a"
    ASSOCIATIVE_PRODUCT = "a (b c) = (a b) c"
    COMMUTATIVE_PRODUCT = "a b = b a"
    DISTRIBUTIVE = "a (b + c) = a b + a c"
    ZERO = "0 + a = a"
    ONE = "1 a = a"
    ZERO_ANNIHILATES = "0 a = 0"
    IDEMPOTENT_SUM = "a + a = a"
    SELECTIVE_SUM = "a + b = a or a + b = b"  # the numbers are ordered, and a sum is the largest in that order
    NEGATIVES = "a + (-a) = 0"
    WEIGHTS_UNITS = "w(0) = 0, w(1) = 1"
    WEIGHTS_MULTIPLY = "w(u v) = w(u) w(v)"
    WEIGHTS_ADD = "w(u + v) = w(u) + w(v)"


@final
class Reduction(Enum):
    """How an input layer drops a variable without a value; the value of a member names a column of the layer's row.

    >>> REAL.reduction.name, MAX_PRODUCT.reduction.name
    ('INTEGRATE', 'MAXIMISE')
    """

    INTEGRATE = "marginal"  # the sum of the layer's numbers over the variable's values, or the integral
    MAXIMISE = "maximum"  # the largest of them; in truth values: whether any of them is possible


LAWS_OF_SEMIRINGS = frozenset(
    {
        Law.ASSOCIATIVE_SUM,
        Law.COMMUTATIVE_SUM,
        Law.ASSOCIATIVE_PRODUCT,
        Law.COMMUTATIVE_PRODUCT,
        Law.DISTRIBUTIVE,
        Law.ZERO,
        Law.ONE,
        Law.ZERO_ANNIHILATES,
        Law.WEIGHTS_UNITS,
        Law.WEIGHTS_MULTIPLY,
    }
)
"""The laws of every algebra here: a commutative semiring with a multiplicative map from the weights of circuits."""

SELECTIVE = LAWS_OF_SEMIRINGS | {Law.IDEMPOTENT_SUM, Law.SELECTIVE_SUM}
"""The laws of algebras whose sum chooses one of its terms."""


@final
@dataclass(frozen=True, slots=True)
class Algebra:
    """The meaning of + and x, whatever carrier represents the numbers.

    Args:
        name: Its name in messages.
        meaning: The meaning of a circuit's value, in words.
        laws: The laws that hold.
        reduction: The way in which input layers drop a variable.
    """

    name: str
    meaning: str
    laws: frozenset[Law]
    reduction: Reduction


REAL = Algebra(
    "real",
    "ordinary sums and products: probability, or the contraction of a tensor network",
    LAWS_OF_SEMIRINGS | {Law.NEGATIVES, Law.WEIGHTS_ADD},
    Reduction.INTEGRATE,
)

MAX_PRODUCT = Algebra(
    "max-product",
    "the largest product: the probability of the most probable explanation",
    SELECTIVE,
    Reduction.MAXIMISE,
)

MIN_PLUS = Algebra(
    "min-plus",
    "the least sum of costs, the cost of a number being minus its logarithm",
    SELECTIVE,
    Reduction.MAXIMISE,
)

BOOLEAN = Algebra(
    "boolean",
    "or, and: whether the value is possible at all",
    SELECTIVE | {Law.WEIGHTS_ADD},
    Reduction.MAXIMISE,
)
