"""Semirings: how a circuit's numbers are carried, added and multiplied. One row each.

A value is a tuple of arrays, the carrier: one array of numbers in linear space, one of logarithms in log space. The
bodies of layers call nothing but a row's functions, each of which takes the array namespace first.

>>> Semiring.from_name("lse-sum").name
'lse-sum'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from plica.errors import UnsupportedError

Array: TypeAlias = Any
Namespace: TypeAlias = Any
Value: TypeAlias = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Semiring:
    """One way to carry non-negative (or, in linear space, any real) numbers.

    Args:
        name: The name by which users choose it.
        from_linear: `(xp, array)` of ordinary numbers as a value.
        from_log: `(xp, array)` of logarithms as a value.
        categorical: `(xp, logits, index)`: the softmax of logits `(F, K, C)` at an index `(F, B)`, as `(F, B, K)`.
        to_log: `(xp, value)` as logarithms.
        to_linear: `(xp, value)` as ordinary numbers.
        result: `(xp, value)` as the one array that a compiled circuit returns.
        mul: `(xp, a, b)`, the product, entry by entry.
        outer: `(xp, a, b)`: products of all units of `a (F, B, I)` and `b (F, B, J)`, as `(F, B, I*J)`, J fastest.
        sum: `(xp, values)`, the sum, entry by entry.
        contract: `(xp, values, weight)`: H values `(F, B, I)` and a linear weight `(F, O, H*I)` give `(F, B, O)`.
        einsum: `(xp, equation, values, weight)`: values and, last, a linear weight multiplied and summed as an Einstein
            sum says: `fbi,fbj,foij->fbo`.
        normalise: `(xp, value)`: the same value in a form that later operations lose nothing of.
        zero: `(xp, shape, dtype)`, the neutral element of the sum.
        one: `(xp, shape, dtype)`, the neutral element of the product.
        negative: Whether negative numbers can be carried.
    """

    name: str
    from_linear: Callable[[Namespace, Array], Value]
    from_log: Callable[[Namespace, Array], Value]
    categorical: Callable[[Namespace, Array, Array], Value]
    to_log: Callable[[Namespace, Value], Array]
    to_linear: Callable[[Namespace, Value], Array]
    result: Callable[[Namespace, Value], Array]
    mul: Callable[[Namespace, Value, Value], Value]
    outer: Callable[[Namespace, Value, Value], Value]
    sum: Callable[[Namespace, Sequence[Value]], Value]
    contract: Callable[[Namespace, Sequence[Value], Array], Value]
    einsum: Callable[[Namespace, str, Sequence[Value], Array], Value]
    normalise: Callable[[Namespace, Value], Value]
    zero: Callable[[Namespace, Any, Any], Value]
    one: Callable[[Namespace, Any, Any], Value]
    negative: bool

    def map(self, xp: Namespace, fn: Callable[[Array], Array], value: Value) -> Value:  # noqa: ARG002
        """A change of shape, applied to every array of the carrier alike."""
        return tuple(fn(array) for array in value)

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
        if name not in SEMIRINGS:
            raise UnsupportedError(f"there is no semiring {name!r}; there are {', '.join(SEMIRINGS)}.")
        return SEMIRINGS[name]


def _accumulate(operation: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = operation(result, value)
    return result


def _unchanged(xp: Namespace, value: Value) -> Value:  # noqa: ARG001
    return value


def _outer(combine: str) -> Callable[[Namespace, Value, Value], Value]:
    """Units against units through one elementwise function of the namespace."""

    def outer(xp: Namespace, a: Value, b: Value) -> Value:
        (x,), (y,) = a, b
        pairs = getattr(xp, combine)(xp.expand_dims(x, axis=3), xp.expand_dims(y, axis=2))  # (F, B, I, J)
        return (xp.reshape(pairs, (*pairs.shape[:2], pairs.shape[2] * pairs.shape[3])),)

    return outer


def _linear_contract(xp: Namespace, values: Sequence[Value], weight: Array) -> Value:
    # y = sum over h of x_h @ W_h.T, where W_h are columns h*I to (h+1)*I
    units = values[0][0].shape[2]
    products = [
        xp.matmul(x, xp.matrix_transpose(weight[:, :, place * units : (place + 1) * units]))
        for place, (x,) in enumerate(values)
    ]
    return _accumulate(lambda a, b: (xp.add(a[0], b[0]),), [(product,) for product in products])


def _linear_einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array) -> Value:
    terms, _, result = equation.partition("->")
    *names, weighted = terms.split(",")
    factors: dict[str, Array] = {}
    for name, (x,) in zip(names, values, strict=True):
        factors[name] = xp.multiply(factors[name], x) if name in factors else x
    first, *others = factors
    # The weight comes second: pairs are contracted from the left, so that no product of two values is built.
    order = ",".join([first, weighted, *others])
    return (xp.einsum(f"{order}->{result}", factors[first], weight, *[factors[name] for name in others]),)


SUM_PRODUCT = Semiring(
    name="sum-product",
    from_linear=lambda _, x: (x,),
    from_log=lambda xp, x: (xp.exp(x),),
    categorical=lambda xp, logits, index: (xp.lookup(xp.softmax(logits, axis=-1), index),),
    to_log=lambda xp, value: xp.safe_log(value[0]),
    to_linear=lambda _, value: value[0],
    result=lambda _, value: value[0],
    mul=lambda xp, a, b: (xp.multiply(a[0], b[0]),),
    outer=_outer("multiply"),
    sum=lambda xp, values: _accumulate(lambda a, b: (xp.add(a[0], b[0]),), values),
    contract=_linear_contract,
    einsum=_linear_einsum,
    normalise=_unchanged,
    zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype),),
    negative=True,
)

LSE_SUM = Semiring(
    name="lse-sum",
    from_linear=lambda xp, x: (xp.safe_log(x),),
    from_log=lambda _, x: (x,),
    # one fused pass over the table, forward and backward; extreme logits stay finite
    categorical=lambda xp, logits, index: (xp.lookup(xp.log_softmax(logits, axis=-1), index),),
    to_log=lambda _, value: value[0],
    to_linear=lambda xp, value: xp.exp(value[0]),
    result=lambda _, value: value[0],
    mul=lambda xp, a, b: (xp.add(a[0], b[0]),),
    outer=_outer("add"),
    sum=lambda xp, values: values[0] if len(values) == 1 else (xp.logaddexp(*[value[0] for value in values]),),
    contract=lambda xp, values, weight: (xp.log_matmul_exp([value[0] for value in values], weight),),
    einsum=lambda xp, equation, values, weight: (xp.log_einsum_exp(equation, [value[0] for value in values], weight),),
    normalise=_unchanged,
    zero=lambda xp, shape, dtype: (xp.full(shape, float("-inf"), dtype=dtype),),
    one=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype),),
    negative=False,
)

SEMIRINGS = {row.name: row for row in (SUM_PRODUCT, LSE_SUM)}
