"""Semirings: each is an algebra and a carrier, which represents its numbers as arrays. One row each.

A value is a tuple of arrays: one array of numbers in linear space, one of logarithms in log space. Arrays after the
first may be Python floats instead, if all entries are the same. Formulas of layers call only functions of a row; each
takes the array namespace first.

>>> from plica.symbolic.semirings import Semiring
>>> Semiring.from_name("lse-sum").algebra.name
'real'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from typing import Any, TypeAlias, TypeVar, final

from plica.arguments import known, shown
from plica.eager import namespace
from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.symbolic.semirings.algebra import Algebra
from plica.symbolic.semirings.weights import Weight

Array: TypeAlias = Any
Namespace: TypeAlias = Any
Value: TypeAlias = tuple[Array, ...]
Item = TypeVar("Item")


def choose_each(xp: Namespace, mask: Array, value: Value, other: Value) -> Value:
    """Entries of `other` where a mask holds, else of `value`, in each array."""
    return tuple(
        first if are_one_number([first, second]) else xp.where(mask, second, first)
        for first, second in zip(value, other, strict=True)
    )


class Bound(Enum):
    """The bound that says whether the results of a number format are right.

    >>> from plica.symbolic.semirings import LSE_SUM
    >>> [stage.bound.name for stage in LSE_SUM.faster]
    ['OF_WEIGHTS', 'OF_ROWS']
    """

    OF_WEIGHTS = "the weights, for all rows: a last result of shape (1,)"
    OF_ROWS = "each row: a last result of shape (B,); rows for which no bound holds are computed by the next stage"
    NONE = "nothing, they are right"


@final
@dataclass(frozen=True, slots=True)
class Stage:
    """One number format of a cascade.

    Args:
        semiring: The number format.
        bound: The bound that says whether its results are right.
        devices: The kinds of devices on which a Program may read the bound before it goes on; empty if it reads none.
        deepest: The number of nested sums up to which the bound may hold, given the smallest normal number of a dtype.

    >>> from plica.symbolic.semirings import LSE_SUM
    >>> [stage.semiring for stage in LSE_SUM.faster]
    [Semiring('bounded'), Semiring('scaled')]
    >>> LSE_SUM.faster[1].may_hold("cpu", depth=3, smallest=1e-38)
    True
    """

    semiring: Semiring
    bound: Bound
    devices: tuple[str, ...] = ()
    deepest: Callable[[float], float] = lambda _: math.inf

    def may_hold(self, device: str, depth: int, smallest: float) -> bool:
        """Whether a device can run the stage, and its bound may hold for so many nested sums."""
        return (not self.devices or device in self.devices) and depth <= self.deepest(smallest)


@dataclass(frozen=True, slots=True, eq=False)
class Semiring:
    """A way to compute with the numbers of an algebra.

    Args:
        name: The name by which users choose it.
        algebra: The meaning of + and x.
        logarithmic: Whether the carrier is made of logarithms.
        negative: Whether negative numbers can be carried.
        carries_complex: Whether complex numbers can be carried.
        from_linear: `(xp, array)` of ordinary numbers as a value.
        from_log: `(xp, array)` of logarithms as a value.
        from_weight: `(xp, weight)`: the numbers of a parameter as a value.
        to_log: `(xp, value)` as logarithms of ordinary numbers.
        to_linear: `(xp, value)` as ordinary numbers.
        result: `(xp, value)` as the one array that a compiled circuit returns.
        from_result: `(xp, array)`, such an array as a value.
        product: `(xp, a, b)`, the product, entry by entry.
        outer: `(xp, a, b)`: products of all units of `a (F, B, I)` and `b (F, B, J)`, as `(F, B, I*J)`, J fastest.
        total: `(xp, values)`, the sum, entry by entry.
        contract: `(xp, values, weight)`: H values `(F, B, I)` and a weight `(F, O, H*I)` give `(F, B, O)`.
        einsum: `(xp, equation, values, weight)`: values and, last, a weight multiplied and summed as an Einstein sum
            says: `fbi,fbj,foij->fbo`.
        normalize: `(xp, value)`: the same value, rescaled so that later operations do not underflow or overflow.
        zero: `(xp, shape, dtype)`, the neutral element of the sum.
        one: `(xp, shape, dtype)`, the neutral element of the product.
        proven: `(xp, value)`: which entries are right to the precision of their dtype, as a mask `(F, B, K)`; None
            where all are.
        faster: The stages that are tried before this number format, in order; their bounds may fail.
        at_zeros: Another carrier of the same results, for gradients where a weight may be 0: its derivatives are right
            there too. None where the derivatives of this carrier are.
        choose: `(xp, mask, value, other)`: `other` where a mask `(F, B, 1)` holds, else `value`.
        most_factors: A product of this many normalized values is normalized at once. If only sums of several values
            read it, the sums are normalized instead.
    """

    name: str
    algebra: Algebra
    logarithmic: bool
    negative: bool
    from_linear: Callable[[Namespace, Array], Value]
    from_log: Callable[[Namespace, Array], Value]
    from_weight: Callable[[Namespace, Weight], Value]
    to_log: Callable[[Namespace, Value], Array]
    to_linear: Callable[[Namespace, Value], Array]
    result: Callable[[Namespace, Value], Array]
    product: Callable[[Namespace, Value, Value], Value]
    outer: Callable[[Namespace, Value, Value], Value]
    total: Callable[[Namespace, Sequence[Value]], Value]
    contract: Callable[[Namespace, Sequence[Value], Array | Weight], Value]
    einsum: Callable[[Namespace, str, Sequence[Value], Array | Weight], Value]
    normalize: Callable[[Namespace, Value], Value]
    zero: Callable[[Namespace, Any, Any], Value]
    one: Callable[[Namespace, Any, Any], Value]
    carries_complex: bool = False
    from_result: Callable[[Namespace, Array], Value] = lambda _, array: (array,)
    proven: Callable[[Namespace, Value], Array] | None = None
    faster: tuple[Stage, ...] = ()
    at_zeros: Semiring | None = None
    choose: Callable[[Namespace, Array, Value, Value], Value] = choose_each
    most_factors: int = 1

    def __repr__(self) -> str:
        return f"Semiring({self.name!r})"

    def __post_init__(self) -> None:
        for carrier in (stage.semiring for stage in self.faster):
            if carrier.proven is None or carrier.name == self.name or carrier.algebra != self.algebra:
                raise UnsupportedError(
                    f"{self.name} cannot try the number format {carrier.name} first; give one of another name, of the "
                    "same algebra, and with a column `proven` that says where its results are right."
                )

    # Operations on tensors, for users who compute with results of circuits.

    def add(self, *arrays: Array) -> Array:
        """The sum of arrays in this semiring, entry by entry; they broadcast."""
        xp = self._namespace()
        return self.result(xp, self.total(xp, [self.from_result(xp, array) for array in xp.broadcast_arrays(*arrays)]))

    def mul(self, *arrays: Array) -> Array:
        """The product of arrays in this semiring, entry by entry; they broadcast."""
        xp = self._namespace()
        values = [self.from_result(xp, array) for array in xp.broadcast_arrays(*arrays)]
        return self.result(xp, accumulate(partial(self.product, xp), values))

    def sum(
        self, x: Array, axis: int = -1, keepdims: bool = False, *, dim: int | None = None, keepdim: bool = False
    ) -> Array:
        """The sum of `x` in this semiring along an axis; the neutral element where the axis is empty.

        Args:
            x: An array of any library.
            axis: The axis, the last one by default.
            keepdims: Whether the axis stays, with size 1.
            dim: The axis, as torch calls it.
            keepdim: `keepdims`, as torch calls it.

        Raises:
            ShapeError: There is no such axis.
            DTypeError: `axis` and `dim` are two axes.
        """
        chosen = _one_axis("sum", axis, dim)
        return self._along(lambda xp, a, b: self.total(xp, [a, b]), self.zero, x, chosen, keepdims or keepdim)

    def prod(
        self, x: Array, axis: int = -1, keepdims: bool = False, *, dim: int | None = None, keepdim: bool = False
    ) -> Array:
        """The product of `x` in this semiring along an axis; the neutral element where the axis is empty.

        Args and errors are those of `sum`.
        """
        return self._along(self.product, self.one, x, _one_axis("prod", axis, dim), keepdims or keepdim)

    def map_from(self, x: Array, other: Semiring) -> Array:
        """Numbers of another semiring in this one: `Semiring.from_name("lse-sum").map_from(0.5, linear)` is log 0.5.

        Raises:
            UnsupportedError: The numbers are complex, which this semiring does not carry.
        """
        if other is self:
            return x
        xp = self._namespace()
        return self.result(xp, self._converted(xp, other.from_result(xp, x), other))

    def _converted(self, xp: Namespace, value: Value, other: Semiring) -> Value:
        """A value of another semiring in this one: by logarithms, unless these would lose a sign."""
        if self.negative and other.negative:  # whose logarithms are complex
            if self.logarithmic and other.logarithmic:
                return self.from_result(xp, other.result(xp, value))
        elif self.logarithmic or other.logarithmic:
            return self.from_log(xp, self._carried(other.to_log(xp, value), other))
        return self.from_linear(xp, self._carried(other.to_linear(xp, value), other))

    def _carried(self, x: Array, other: Semiring) -> Array:
        """`x`, if this semiring carries numbers of its kind."""
        if as_dtype(x.dtype).kind == "complex" and not self.carries_complex:
            raise UnsupportedError(
                f"{self.name} represents real numbers alone, found complex numbers of {other.name}; take the real "
                "parts of ordinary numbers, or another semiring."
            )
        return x

    def _along(
        self, join: Callable[..., Value], neutral: Callable[..., Value], x: Array, axis: int, keep: bool
    ) -> Array:
        """The entries along an axis combined pairwise, so that rounding grows with the logarithm of its size."""
        xp = self._namespace()
        if not -x.ndim <= axis < x.ndim:
            raise ShapeError(f"axis {axis} is outside an array of shape {tuple(x.shape)}.")
        moved = xp.moveaxis(x, axis, 0)
        value = self.from_result(xp, moved) if moved.shape[0] else neutral(xp, (1, *moved.shape[1:]), x.dtype)
        while (size := value[0].shape[0]) > 1:
            half = size // 2
            joined = join(xp, tuple(array[:half] for array in value), tuple(array[half : 2 * half] for array in value))
            last = tuple(array[2 * half :] for array in value)
            value = tuple(map(partial(_concatenated, xp), joined, last)) if size % 2 else joined
        result = self.result(xp, value)
        return xp.moveaxis(result, 0, axis) if keep else result[0]

    def _namespace(self) -> Any:
        """The array namespace over arrays of any library."""
        if self.proven is not None:
            raise UnsupportedError(f"a number of {self.name} is several arrays; compute in 'lse-sum' instead.")
        return namespace

    def map(self, xp: Namespace, fn: Callable[[Array], Array], value: Value) -> Value:  # noqa: ARG002
        """A change of shape, applied to every array of the carrier alike."""
        return tuple(array if isinstance(array, float) else fn(array) for array in value)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Rows of the table are pickled by name."""
        if SEMIRINGS.get(self.name) is self:
            return Semiring.from_name, (self.name,)
        return Semiring, tuple(getattr(self, field.name) for field in fields(self))

    @staticmethod
    def from_name(name: str) -> Semiring:
        """The row called `name`.

        Raises:
            UnsupportedError: There is none.
        """
        if not known(name, SEMIRINGS):
            raise UnsupportedError(f"there is no semiring {shown(name)}; there are {', '.join(SEMIRINGS)}.")
        return SEMIRINGS[name]


SEMIRINGS: dict[str, Semiring] = {}
"""The rows that users choose by name, filled once by the package; other rows, such as `scaled`, are their stages."""


def accumulate(operation: Callable[[Item, Item], Item], values: Sequence[Item]) -> Item:
    """Values combined by an operation, from left to right."""
    result = values[0]
    for value in values[1:]:
        result = operation(result, value)
    return result


def _one_axis(operation: str, axis: int, dim: int | None) -> int:
    """The axis of an operation, which has two names.

    Raises:
        DTypeError: Both are given, and differ.
    """
    if dim is None or axis == dim:
        return axis
    if axis != -1:
        raise DTypeError(
            f"{operation}: axis and dim are one setting, found axis={axis} and dim={dim}; give one of them"
        )
    return dim


def _concatenated(xp: Namespace, first: Array, last: Array) -> Array:
    """Two arrays as one, along the first axis."""
    return xp.concat([first, last], axis=0)


def spread(xp: Namespace, x: Array, term: Sequence[str], letters: Sequence[str]) -> Array:
    """`x` with its axes in the order of `letters`, and axes of size 1 for those that it lacks."""
    order = sorted(range(len(term)), key=lambda axis: letters.index(term[axis]))
    x = xp.permute_dims(x, tuple(order))
    for axis, letter in enumerate(letters):
        if letter not in term:
            x = xp.expand_dims(x, axis=axis)
    return x


def are_one_number(parts: Sequence[Array | float]) -> bool:
    """Whether parts of values are equal Python numbers."""
    return all(isinstance(part, float) and part == parts[0] for part in parts)


def unchanged(xp: Namespace, value: Value) -> Value:  # noqa: ARG001
    """The value as it is."""
    return value


def with_logarithm(xp: Namespace, x: Array) -> Array:
    """Ordinary numbers, with NaN for negative ones as in log space; else two of them would have a positive product."""
    return xp.where(xp.less(x, 0.0), float("nan"), x)


def outer_of(combine: str) -> Callable[[Namespace, Value, Value], Value]:
    """The column `outer` of a carrier of one array, whose product is the function `combine` of the namespace."""

    def outer(xp: Namespace, a: Value, b: Value) -> Value:
        (x,), (y,) = a, b
        pairs = getattr(xp, combine)(xp.expand_dims(x, axis=3), xp.expand_dims(y, axis=2))  # (F, B, I, J)
        return (xp.reshape(pairs, (*pairs.shape[:2], pairs.shape[2] * pairs.shape[3])),)

    return outer
