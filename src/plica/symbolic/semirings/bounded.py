"""Scaled numbers whose error bound depends on weights alone: if it holds, all rows are right, and no row is checked.

A value is six arrays: mantissas `m (F, B, K)` and the scale `s (F, B, 1)`, as in `scaled.py`, and four bounds. These
have the shape `(F, 1, 1)`, for all rows, unless they depend on data:

* `low <= m <= high` for each mantissa of each row;
* `m[k] >= ratio * max(m)` for each unit k of a row;
* underflow has changed no mantissa by more than `error` times itself.

With t the smallest normal number, operations give these bounds:

* Numbers that were looked up in a table have the bounds of the whole table, and `error = l t / low`. Here l is the
  error of an entry of the table, in multiples of t.
* A product has the products of the bounds, and `error = error1 + error2 + error1 error2 + t / low`.
* A sum with weights W multiplies `low` by the smallest row sum of W, and `high` by the largest. Whatever the inputs
  are, its `ratio` is at least `min over i of (min over o of W[o, i]) / (max over o of W[o, i])`. Its `error` is that of
  the inputs, and the bound of `scaled.py` for the loss in each term, divided by `low`.
* Division by a power of two just above the largest mantissa gives `low = ratio / 2` and `high = 1`.

So after a normalization it does not matter how small numbers were before, and errors add up. At the end all rows are
right if `error` is below the precision of the dtype. Otherwise, for example if a weight is zero, nothing is known of
any row. Then `scaled.py` takes over, which has a bound for each row. A product is normalized only if `_FACTORS`
normalized values or more are multiplied in it, so every second product of pairs. By then a mantissa has used a part of
its range, not all of it.

Source: that positive matrices bring rows together whatever they are applied to is Birkhoff's theorem (Extensions of
Jentzsch's theorem, Transactions of the AMS 85, 1957); here its simplest case for the ratio of two units.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.symbolic.semirings import linear
from plica.symbolic.semirings.algebra import REAL
from plica.symbolic.semirings.exponents import largest, natural, of_logs, plus, smallest_normal, times_power
from plica.symbolic.semirings.semiring import (
    Array,
    Namespace,
    Semiring,
    Value,
    accumulate,
    are_one_number,
    choose_each,
    outer_of,
    with_logarithm,
)
from plica.symbolic.semirings.weights import Weight

_outer_of_mantissas = outer_of("multiply")
_FACTORS = 3


def _fold_bound(xp: Namespace, name: str, array: Array) -> Array:
    """The least or the largest number of each fold, `(F, 1, 1)`."""
    bounds = getattr(xp, name)(array, axis=tuple(range(1, array.ndim)), keepdims=True)
    return xp.reshape(bounds, (array.shape[0], 1, 1))


def _with_bounds(
    xp: Namespace, mantissa: Array, scale: Array | float, lost: float, table: Array | None = None
) -> Value:
    """A value of mantissas, each with an error of up to `lost` smallest normal numbers.

    If the mantissas were looked up in a table `(F, K, ...)`, its entries bound all rows. Without a table each row has
    bounds of its own.
    """
    if table is None:  # bounds of each row
        low, high = (getattr(xp, name)(mantissa, axis=2, keepdims=True) for name in ("min", "max"))
        ratio = low / high
    else:
        low, high = _fold_bound(xp, "min", table), _fold_bound(xp, "max", table)
        ratio = _fold_bound(xp, "min", xp.min(table, axis=1, keepdims=True) / xp.max(table, axis=1, keepdims=True))
    return mantissa, scale, low, high, ratio, lost * smallest_normal(mantissa) / low


def _from_linear(xp: Namespace, x: Array) -> Value:
    return _with_bounds(xp, with_logarithm(xp, x), 0.0, 1.0)


def _from_log(xp: Namespace, x: Array) -> Value:
    return _with_bounds(xp, *of_logs(xp, x), 1.0)


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    if not math.isfinite(weight.most) and weight.in_logs is not None:
        return _from_log(xp, weight.log(xp))
    mantissa = weight.linear
    table = None if weight.source_table is None else weight.source_table()
    return _with_bounds(xp, mantissa, 0.0, max(weight.lost, 1.0), table)


def _to_log(xp: Namespace, value: Value) -> Array:
    return plus(xp.log(value[0]), natural(value[1]))


def _mul(xp: Namespace, a: Value, b: Value) -> Value:
    return _product(a, b, xp.multiply(a[0], b[0]))


def _outer(xp: Namespace, a: Value, b: Value) -> Value:
    (mantissa,) = _outer_of_mantissas(xp, (a[0],), (b[0],))
    return _product(a, b, mantissa)


def _product(a: Value, b: Value, mantissa: Array) -> Value:
    (_, s1, low1, high1, ratio1, error1), (_, s2, low2, high2, ratio2, error2) = a, b
    low = low1 * low2
    error = error1 + error2 + error1 * error2 + smallest_normal(mantissa) / low
    return mantissa, plus(s1, s2), low, high1 * high2, ratio1 * ratio2, error


def _aligned(xp: Namespace, values: Sequence[Value]) -> tuple[list[Array], Array | float, Array | float]:
    """Mantissas at one scale, that scale, and a bound of the error that scaling makes, in smallest normal numbers.

    The scale is the largest of the values' scales. A value of a much smaller scale may lose all of its mantissas; the
    values of the largest scale lose nothing.
    """
    mantissas, scales = [value[0] for value in values], [value[1] for value in values]
    if are_one_number(scales):
        return mantissas, scales[0], 0.0
    scale = largest(xp, scales)
    mantissas = [value[0] * xp.exp2(value[1] - scale) for value in values]
    return mantissas, scale, accumulate(xp.maximum, [value[3] for value in values]) + 1.0


def _sum(xp: Namespace, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    mantissas, scale, lost = _aligned(xp, values)
    low, high, ratio, error = (_combined(xp, values, index) for index in (2, 3, 4, 5))
    lost = (lost + 1.0) * smallest_normal(mantissas[0]) * len(values)
    return accumulate(xp.add, mantissas), scale, low, high * len(values), ratio, error + lost / low


def _combined(xp: Namespace, values: Sequence[Value], index: int) -> Array:
    """A bound that holds for each of several values: the least `low` or `ratio`, the largest `high` or `error`."""
    return accumulate((xp.minimum, xp.maximum, xp.minimum, xp.maximum)[index - 2], [value[index] for value in values])


def _contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    mantissas, scale, lost = _aligned(xp, values)
    (mantissa,) = linear.contract(xp, [(array,) for array in mantissas], numbers)
    low, high, ratio, error = (_combined(xp, values, index) for index in (2, 3, 4, 5))
    array = numbers.linear
    parts = xp.reshape(array, (*array.shape[:2], len(values), -1))
    # of several values all but any one may have been lost: then its weights alone are summed
    row_sums = xp.sum(parts, axis=3)
    least, most = _fold_bound(xp, "min", row_sums), _fold_bound(xp, "max", xp.sum(array, axis=2))
    columns = _column_ratio(xp, array, (1,))
    ratio = xp.maximum(columns, ratio * least / most) if len(values) == 1 else columns
    # weights multiply the loss of scaling; each term loses as much again in its weight and in its product
    lost_by_terms = (1.0 + max(numbers.lost, 1.0) * high) * int(array.shape[2])
    lost = (lost * most + lost_by_terms) * smallest_normal(mantissa)
    return mantissa, scale, low * least, high * most, ratio, error + lost / (low * least)


def _column_ratio(xp: Namespace, weight: Array, outputs: tuple[int, ...]) -> Array:
    """The least ratio of two weights of one input, `(F, 1, 1)`."""
    least, most = (getattr(xp, name)(weight, axis=outputs, keepdims=True) for name in ("min", "max"))
    return _fold_bound(xp, "min", least / most)


def _einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    (mantissa,) = linear.einsum(xp, equation, [value[:1] for value in values], numbers)
    scale, low, high, ratio, error = values[0][1:]
    peak = xp.maximum(high, 1.0)  # no product of some of the factors is larger
    for _, *other in values[1:]:
        scale, error = plus(scale, other[0]), error + other[4] + error * other[4]
        low, high, ratio = low * other[1], high * other[2], ratio * other[3]
        peak = peak * xp.maximum(other[2], 1.0)
    terms, _, result = equation.partition("->")
    *names, weighted = terms.split(",")
    array = numbers.linear
    summed = tuple(axis for axis, letter in enumerate(weighted) if axis and letter not in result)
    outputs = tuple(axis for axis, letter in enumerate(weighted) if axis and letter in result)
    row_sums = xp.sum(array, axis=summed)
    least, most = _fold_bound(xp, "min", row_sums), _fold_bound(xp, "max", row_sums)
    ratio = ratio * least / most
    if set(result[2:]) <= set(weighted):  # no unit of a value is a unit of the result
        ratio = xp.maximum(ratio, _column_ratio(xp, array, outputs))
    count = int(np.prod([array.shape[axis] for axis in summed]))
    if not set("".join(names)) <= {*weighted, *result}:
        low = low * 0.0  # a sum over units without weights: nothing is known of it
    # each factor of a term may lose a smallest normal number, which the other factors multiply
    lost = (len(values) + max(numbers.lost, 1.0)) * peak * xp.maximum(most, 1.0) * smallest_normal(mantissa) * count
    return mantissa, scale, low * least, high * most, ratio, error + lost / (low * least)


def _normalize(xp: Namespace, value: Value) -> Value:
    mantissa, scale, low, high, ratio, error = value
    tiny = smallest_normal(mantissa)
    mantissa, divisor = xp.rescale(mantissa)
    lost = (high * 2.0 + 1.0) * tiny / low + tiny / ratio  # infinite where it may overflow, or all may be lost
    return mantissa, plus(scale, xp.log2(divisor)), ratio * 0.5, xp.ones_like(high), ratio, error + lost


def _constant(xp: Namespace, shape: Any, dtype: Any, number: float) -> Value:
    ratio, bound, error = (xp.full((shape[0], 1, 1), x, dtype=dtype) for x in (1.0, number, 1.0 - number))
    return xp.full(shape, number, dtype=dtype), 0.0, bound, bound, ratio, error


def choose(xp: Namespace, mask: Array, value: Value, other: Value) -> Value:
    """Rows of `other` where `mask (F, B, 1)` holds, else of `value`; the bounds are those of both."""
    numbers = choose_each(xp, mask, value[:2], other[:2])
    return (*numbers, *(_combined(xp, (value, other), index) for index in (2, 3, 4, 5)))


def bound_holds(xp: Namespace, value: Value) -> Array:
    """Whether all mantissas of a fold are right to a quarter of the precision of their dtype, `(F, 1, 1)`."""
    _, _, _, high, _, error = value
    return xp.logical_and(xp.less_equal(error, float(np.finfo(str(error.dtype)).eps) / 4), xp.isfinite(high))


BOUNDED = Semiring(
    name="bounded",
    algebra=REAL,
    logarithmic=False,
    negative=False,
    from_linear=_from_linear,
    from_log=_from_log,
    from_weight=_from_weight,
    to_log=_to_log,
    to_linear=lambda xp, value: times_power(xp, *value[:2]),
    result=_to_log,
    product=_mul,
    outer=_outer,
    total=_sum,
    contract=_contract,
    einsum=_einsum,
    normalize=_normalize,
    zero=lambda xp, shape, dtype: _constant(xp, shape, dtype, 0.0),
    one=lambda xp, shape, dtype: _constant(xp, shape, dtype, 1.0),
    proven=bound_holds,
    choose=choose,
    most_factors=_FACTORS,
)
