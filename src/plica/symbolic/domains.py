"""Domains: the values that a variable takes, as intervals of real numbers or of whole ones.

A domain defines which data is legal, its name in messages, and the dtype of data as layers read it and of samples. NaN
means that a value is missing, and is in no domain. Infinity is a real number here, of density zero.

>>> import numpy as np
>>> x = np.array([[0.0, 2.0, 3.0, -1.0, 0.5, np.nan]])
>>> outside(np, x, [finite(3)])
array([[False, False,  True,  True,  True, False]])
>>> finite(3).meet(COUNTS) == finite(3), finite(3).meet(REALS), finite(5).meet(finite(3)) == finite(3)
(True, Domain('3 states'), True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.errors import DTypeError, InputError
from plica.ir.dtypes import DType, as_dtype

__all__ = [
    "ANGLES",
    "BOOLEANS",
    "COUNTS",
    "INTEGERS",
    "NONNEGATIVE_REALS",
    "POSITIVE_REALS",
    "REALS",
    "UNIT_INTERVAL",
    "Domain",
    "finite",
    "nearest",
    "outside",
]

Number: TypeAlias = int | float
Array: TypeAlias = Any
Namespace: TypeAlias = Any
Constant: TypeAlias = Callable[[NDArray[Any]], Array]

_LARGEST = 2**63 - 1  # the largest of int64


@dataclass(frozen=True, slots=True, repr=False)
class Domain:
    """The values of a variable: those from `least` to `most`, all real numbers or the whole ones among them.

    Two domains are equal if they contain the same values, even under different names.

    Args:
        name: The name of the domain.
        refusal: Completes "the value 7 is ..." where 7 is outside.
        advice: An imperative: how to make the data legal.
        least: The smallest value; `-inf` if there is no bound.
        most: The largest value.
        whole: Whether values are integers; bounds between integers become the nearest ones inside.
        above: Whether `least` itself is outside.

    Raises:
        DTypeError: A bound is no real number, or a text is none.
        InputError: No number lies between the bounds, or no integer of 64 bits.
    """

    name: str = field(compare=False)
    refusal: str = field(compare=False)
    advice: str = field(compare=False)
    least: Number = -math.inf
    most: Number = math.inf
    whole: bool = False
    above: bool = False

    def __post_init__(self) -> None:
        for text in (self.name, self.refusal, self.advice):
            if not isinstance(text, str):
                raise DTypeError(f"Domain: expected a name, a refusal and an advice as texts, found {text!r:.60}")
        for bound in (self.least, self.most):
            if not isinstance(bound, Real) or bound != bound:
                raise DTypeError(f"Domain {self.name!r}: a bound is {bound!r:.60}, expected a number or an infinity")
        least, most, above = self.least, self.most, self.above
        if self.whole:  # bounds that are values themselves
            least = _ceil(least) + (above and _ceil(least) == least)
            most, above = min(_floor(most), _LARGEST), False
            least = max(least, -_LARGEST)
            for name, value in (("least", least), ("most", most), ("above", above)):
                object.__setattr__(self, name, value)
        if least > most or (above and least == most) or least == math.inf or most == -math.inf:
            raise InputError(
                f"Domain {self.name!r}: there is no value from {least} to {most}; give a least value that is not above "
                "the most"
            )

    @property
    def num_states(self) -> int | None:
        """The number of values, if they are the integers from 0 to a bound."""
        counted = self.whole and self.least == 0 and self.most < _LARGEST
        return int(self.most) + 1 if counted else None

    @property
    def inside(self) -> Number:
        """A legal value, which replaces missing and wrong ones so that layers compute with legal numbers."""
        if self.least < 0 <= self.most:
            return 0
        if self.least > -math.inf and not self.above:
            return self.least
        if self.most < math.inf:
            return self.most
        return self.least + max(1, abs(self.least)) if self.above else 0

    def dtype(self, real: DType) -> DType:
        """The dtype of data as layers read it and of samples; `real` is that of the parameters."""
        return DType.INT64 if self.whole else real

    def meet(self, other: Domain) -> Domain:
        """The domain of the values in both.

        Raises:
            InputError: There is no such value.
        """
        if self == other:
            return self
        least, most = max(self.least, other.least), min(self.most, other.most)
        above = any(domain.above and domain.least == least for domain in (self, other))
        try:
            both = Domain(
                f"{self.name}, {other.name}",
                f"{self.refusal}, or {other.refusal}",
                f"{self.advice} and {other.advice}",
                least,
                most,
                self.whole or other.whole,
                above,
            )
        except InputError:
            raise InputError(f"no value is in both domains, {self.name} and {other.name}") from None
        return next((domain for domain in (self, other) if domain == both), both)

    def has_measure_of(self, other: Domain) -> bool:
        """Whether sums or integrals over both are equal for any function: a bound of real numbers counts as inside."""
        return (self.whole, self.least, self.most) == (other.whole, other.least, other.most)

    def __repr__(self) -> str:
        return f"Domain({self.name!r})"


def _ceil(value: Number) -> Number:
    return value if math.isinf(value) else math.ceil(value)


def _floor(value: Number) -> Number:
    return value if math.isinf(value) else math.floor(value)


@cache
def finite(num_states: int) -> Domain:
    """The states 0 to `num_states` - 1."""
    return Domain(
        f"{num_states} state{'' if num_states == 1 else 's'}",
        f"none of the {num_states} states 0 to {num_states - 1}",
        "encode the data as these integers",
        0,
        num_states - 1,
        whole=True,
    )


BOOLEANS = finite(2)
COUNTS = Domain("counts", "no count", "give integers of at least 0", 0, _LARGEST, whole=True)
INTEGERS = Domain("whole numbers", "no whole number", "give integers of 64 bits", -_LARGEST, _LARGEST, whole=True)
REALS = Domain("real numbers", "no real number", "give numbers")
NONNEGATIVE_REALS = Domain("real numbers of at least 0", "below 0", "give numbers of at least 0", 0)
POSITIVE_REALS = Domain("positive real numbers", "not above 0", "give positive numbers", 0, above=True)
UNIT_INTERVAL = Domain("the unit interval", "not between 0 and 1", "rescale the data to this interval", 0, 1)
_PI = 3.1415927410125732  # pi rounded to float32, which is above pi: data of float32 and of float64 may contain pi
ANGLES = Domain("angles", "not between -pi and pi", "wrap angles into this turn", -_PI, _PI)


def outside(
    xp: Namespace,
    x: Array,
    domains: Sequence[Domain],
    constant: Constant = np.asarray,
    real: DType = DType.FLOAT64,
) -> Array | None:
    """The mask of entries outside the domain of their row; None if no entry can be outside. NaN is never outside.

    Bounds are rounded into the domain in the dtype of `x`, so that comparing with them is exact. A positive number that
    becomes 0 in the dtype in which it is read counts as 0.

    Args:
        xp: An array namespace.
        x: `(D, B)`, real or integer or boolean, in a dtype whose numbers the namespace compares.
        domains: D of them.
        constant: Brings an array `(D, 1)` into the namespace.
        real: The dtype in which real numbers will be read.
    """
    dtype = as_dtype(x.dtype)
    wrong: Array | None = None
    if not domains:
        return wrong
    low: Sequence[Number]
    high: Sequence[Number]
    if dtype.kind != "float":
        x, dtype, low, high, bounded = _limited(xp, x, domains)
    else:
        low, high = ([_rounded(domain, dtype, real)[end] for domain in domains] for end in (0, 1))
        bounded = (min(high) < math.inf, max(low) > -math.inf)
    for is_bounded, compare, bounds in zip(bounded, (xp.greater, xp.less), (high, low), strict=True):
        if is_bounded:
            wrong = either(wrong, compare(x, by_row(bounds, dtype, constant)))
    are_whole = np.asarray([domain.whole for domain in domains])
    if dtype.kind == "float" and are_whole.any():
        has_fraction = xp.greater(x, xp.floor(x))
        wrong = either(wrong, has_fraction if are_whole.all() else has_fraction & constant(are_whole[:, None]))
    return wrong


def nearest(
    xp: Namespace, x: Array, domains: Sequence[Domain], constant: Constant = np.asarray
) -> tuple[Array, Array] | None:
    """Clip integers to the domain of their row; returns the clipped integers, and the mask of those that changed.

    This takes two operations, while `outside` and a selection take four. If the dtype has no integers above, or none
    below the domains, `outside` takes as few: then the result is None.

    Args:
        xp: An array namespace.
        x: `(D, B)`, integers or booleans.
        domains: D of them.
        constant: Brings an array `(D, 1)` into the namespace.

    >>> nearest(np, np.array([[-1, 0, 2, 3]]), [finite(3)])
    (array([[0, 0, 2, 2]]), array([[ True, False, False,  True]]))
    """
    if not domains:
        return None
    x, dtype, low, high, bounded = _limited(xp, x, domains)
    if not all(bounded):
        return None
    is_same_for_all = (
        len(dict.fromkeys(zip(low, high, strict=True))) == 1
    )  # else both limits are arrays, as backends ask
    limits = (
        (low[0], high[0])
        if is_same_for_all
        else [constant(np.asarray([end], dtype=dtype.value).T) for end in (low, high)]
    )
    clipped = xp.clip(x, *limits)
    return clipped, xp.not_equal(clipped, x)


def _limited(
    xp: Namespace, x: Array, domains: Sequence[Domain]
) -> tuple[Array, DType, list[int], list[int], tuple[bool, bool]]:
    """The integers in a dtype that holds all bounds, the bounds, and whether integers may lie above or below them."""
    dtype = as_dtype(x.dtype)
    low, high = list(map(_first, domains)), list(map(_last, domains))
    smallest, largest = _range(dtype)
    bounded = (min(high) < largest, max(low) > smallest)
    if dtype == DType.BOOL or max(low) > largest or min(high) < smallest:  # numbers that the dtype does not have
        dtype = DType.UINT8 if max(low) <= 255 and min(high) >= 0 else DType.INT64
        x, (smallest, largest) = xp.astype(x, getattr(xp, dtype.value)), _range(dtype)
    return x, dtype, [max(bound, smallest) for bound in low], [min(bound, largest) for bound in high], bounded


def by_row(values: Sequence[Number], dtype: DType, constant: Constant) -> Array:
    """One number for each row, `(D, 1)`; a Python number where all are equal."""
    if all(value == values[0] for value in values):
        return values[0]
    return constant(np.asarray(values, dtype=dtype.value)[:, None])


def either(first: Array | None, second: Array | None) -> Any:
    """The union of two masks; None is an empty mask."""
    if first is None or second is None:
        return first if second is None else second
    return first | second


def _range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of a dtype of integers, or of booleans."""
    return (0, 1) if dtype == DType.BOOL else (np.iinfo(dtype.value).min, np.iinfo(dtype.value).max)


def _first(domain: Domain) -> int:
    """The smallest integer of a domain, as far as int64 holds it."""
    low = max(domain.least, -_LARGEST - 1)
    first = math.ceil(low)
    return first + 1 if domain.above and first == low else first


def _last(domain: Domain) -> int:
    return math.floor(min(domain.most, _LARGEST))


def _rounded(domain: Domain, dtype: DType, real: DType) -> tuple[float, float]:
    """The smallest and the largest number of a dtype that lie in a domain, also after conversion to `real`."""
    kind = dtype.numpy.type
    with np.errstate(over="ignore"):
        low, high = kind(domain.least), kind(domain.most)
    if float(low) < domain.least or (domain.above and float(low) == domain.least):
        low = np.nextafter(low, kind(math.inf))
    if float(high) > domain.most:
        high = np.nextafter(high, kind(-math.inf))
    if domain.above and real != dtype and not domain.whole:
        low = max(low, kind(_rounded(domain, real, real)[0]))
    return float(low), float(high)
