"""Scaled numbers: linear mantissas with one power of two for each row, and a bound on what underflow has cost.

A value is mantissas `m (F, B, K)`, a scale `s`, a depth `d`, and the numbers `a`, `c` and `h`; its numbers are
`m * 2**s`. Sum layers are plain matrix products, and the exponentials and logarithms of whole activations disappear.
The loss by underflow is bounded as it happens:

* every mantissa is within `e = a / 2**d` of its exact value (rounding aside), and neither is more than `c + e`;
* `2**d` is at most h, and h is at least 1.

In the code a is called `amount`, c `cap` and h `rise`.

`normalize` divides by powers of two. The depth is the sum of their exponents along the path of layers on which that sum
is least. The number a is the loss, counted as if all of it had come at the beginning of that path. So each row of data
has a scale and a depth, and all else depends on weights alone: on each fold, `(F, 1, 1)`, or on nothing, where it is a
number of Python.

* A mantissa below the smallest normal number t loses at most t, so inputs start with a = t, d = 0 and h = 1.
* A weight has lost at most l t, where l is 1 for most and more for products of weights (`Weight.lost`); where nothing
  bounds l, the weight is the exponential of its logarithm, and l is 1.
* A product has `e = e1 (c2 + e2) + e2 (c1 + e1) + t`. With the smaller of both depths, and every e at most DELTA c,
  that is `a = (1 + DELTA) (a1 c2 + a2 c1) + t h`.
* A sum of I terms with weights of row sums up to R has `e = R e + I t (1 + l (c + e))`.
* Dividing by a power of two p just above the largest mantissa, which `normalize` does, gives `e / p + t` and the depth
  `d + log2(p)`. As p is at most `2 (c + e)`, h becomes as many times as large, and no smaller.

At the end `e <= tolerance * m` and `h e <= DELTA c` prove the result right to that tolerance. Only these divisors, and
caps of terms that differ, make `e / c` smaller, and h counts both: so `e / c` was at most DELTA everywhere before. If
they do not hold, the caller takes the log-space path. Mantissas and weights are not negative.

Gradients of such rows are finite: the derivative of the result's logarithm with respect to any mantissa or weight is at
most `tolerance / t`, since the bound covers a change of that mantissa by t.

Source: the scaling of forward algorithms (Rabiner, "A tutorial on hidden Markov models", 1989, section V.A); the bound
is a running error analysis (Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.3).
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.symbolic.semirings import linear
from plica.symbolic.semirings.algebra import REAL
from plica.symbolic.semirings.exponents import largest, least, natural, of_logs, plus, smallest_normal, times_power
from plica.symbolic.semirings.semiring import (
    Array,
    Namespace,
    Semiring,
    Value,
    accumulate,
    are_one_number,
    outer_of,
    with_logarithm,
)
from plica.symbolic.semirings.weights import Weight

DELTA = 2.0**-10
"""The largest share of its cap that a bound may be."""

ONE_PLUS_DELTA = 1.0 + DELTA

_outer_of_mantissas = outer_of("multiply")


def deepest(smallest: float) -> float:
    """The number of nested sums beyond which the bound holds for hardly any row: 64 in float32, 512 in float64.

    After L of them h is `2**L` or more, and a is `h t`: `h e <= DELTA c` asks for a depth d of `2 L - 116` in float32,
    and where weights add up to 1, d is hardly ever above 1.

    Args:
        smallest: The smallest normal number t of a dtype.
    """
    return 1.0 - math.log2(smallest) / 2.0


def with_bounds(mantissa: Array, scale: Array | float, cap: Array | float, lost: float = 1.0) -> Value:
    """A value of mantissas that may have underflowed."""
    return mantissa, scale, 0.0, smallest_normal(mantissa) * max(lost, 1.0), cap, 1.0


def _from_linear(xp: Namespace, x: Array) -> Value:
    x = with_logarithm(xp, x)
    mantissa = xp.where(xp.equal(x, 0.0), 0.0, x)  # no gradient through a zero, as in log space
    most = xp.stop_gradient(xp.max(xp.abs(x), axis=2, keepdims=True))
    return with_bounds(mantissa, 0.0, xp.maximum(most, smallest_normal(x) / DELTA**2))


def _from_log(xp: Namespace, x: Array) -> Value:
    return with_bounds(*of_logs(xp, x), 1.0)


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    if math.isfinite(weight.most):
        return with_bounds(weight.linear, 0.0, max(weight.most, 1.0), weight.lost)
    # exp(100) is infinite in float32, and sends NaN to its own gradient even from a state that no row has
    return _from_linear(xp, weight.linear) if weight.in_logs is None else _from_log(xp, weight.log(xp))


def _to_log(xp: Namespace, value: Value) -> Array:
    return plus(xp.safe_log(value[0]), natural(value[1]))


def _mul(xp: Namespace, a: Value, b: Value) -> Value:
    mantissa = xp.multiply(a[0], b[0])
    return (mantissa, *_product_bounds(xp, a[1:], b[1:], smallest_normal(mantissa)))


def _outer(xp: Namespace, a: Value, b: Value) -> Value:
    (mantissa,) = _outer_of_mantissas(xp, (a[0],), (b[0],))
    return (mantissa, *_product_bounds(xp, a[1:], b[1:], smallest_normal(mantissa)))


def _product_bounds(xp: Namespace, a: Value, b: Value, tiny: float) -> Value:
    """The scale and the bounds of a product."""
    (s1, d1, a1, c1, h1), (s2, d2, a2, c2, h2) = a, b
    rise = largest(xp, [h1, h2])
    return plus(s1, s2), least(xp, [d1, d2]), (a1 * c2 + a2 * c1) * ONE_PLUS_DELTA + rise * tiny, c1 * c2, rise


def _sum(xp: Namespace, values: Sequence[Value]) -> Value:
    mantissas, scales, depths, lost, caps, rises = zip(*_aligned(xp, values), strict=True)
    rise, mantissa, cap = largest(xp, rises), accumulate(operator.add, mantissas), accumulate(operator.add, caps)
    amount = accumulate(operator.add, lost) + rise * smallest_normal(mantissa)
    return mantissa, scales[0], least(xp, depths), amount, cap, rise * (cap / least(xp, caps))


def _contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    aligned = _aligned(xp, values)
    (mantissa,) = linear.contract(xp, [value[:1] for value in aligned], numbers)
    _, scales, depths, lost, caps, rises = zip(*aligned, strict=True)
    cap, rise = largest(xp, caps), largest(xp, rises)
    if len(values) > 1:
        rise = rise * (cap / least(xp, caps))
    bounds = scales[0], least(xp, depths), largest(xp, lost), cap, rise
    return (mantissa, *_sum_bounds(xp, bounds, numbers, (2,), 0.0, smallest_normal(mantissa)))


def _einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    (mantissa,) = linear.einsum(xp, equation, [value[:1] for value in values], numbers)
    tiny = smallest_normal(mantissa)
    bounds, lost = values[0][1:], tiny  # by each term, whose factors are multiplied from the left
    for _, *factor in values[1:]:
        bounds = _product_bounds(xp, bounds, tuple(factor), tiny)
        lost = factor[3] * (lost * ONE_PLUS_DELTA) + tiny
    terms, _, result = equation.partition("->")
    weighted = terms.split(",")[-1]
    summed = tuple(axis for axis, letter in enumerate(weighted) if axis and letter not in result)
    return (mantissa, *_sum_bounds(xp, bounds, numbers, summed, lost, tiny))


def _sum_bounds(
    xp: Namespace, bounds: Value, weight: Weight, axes: tuple[int, ...], lost: Array | float, tiny: float
) -> Value:
    """The scale and the bounds of a weighted sum.

    Args:
        xp: The array namespace.
        bounds: The scale and the bounds of the terms before they are weighted.
        weight: The weight.
        axes: Its axes that are summed over.
        lost: The most that underflow may take from each term before it is weighted.
        tiny: The smallest normal number.
    """
    scale, depth, amount, cap, rise = bounds
    row_sum = _row_sum(xp, weight, axes)
    terms = float(np.prod([weight.linear.shape[axis] for axis in axes]))
    lost = cap * (ONE_PLUS_DELTA * max(weight.lost, 1.0) * tiny) + (lost + tiny)  # in the weight, and in the product
    return scale, depth, amount * row_sum + lost * rise * terms, cap * row_sum, rise


def _row_sum(xp: Namespace, weight: Weight, axes: tuple[int, ...]) -> Array | float:
    """The largest sum of the weights' sizes over `axes` of each fold, `(F, 1, 1)`."""
    numbers = weight.linear
    if math.isfinite(weight.row_sum) and axes == tuple(range(2, numbers.ndim)):
        return weight.row_sum
    sums = xp.sum(xp.stop_gradient(xp.abs(numbers)), axis=axes, keepdims=True)
    largest = xp.max(sums, axis=tuple(range(1, sums.ndim)), keepdims=True)
    return xp.reshape(largest, (numbers.shape[0], 1, 1))


def _aligned(xp: Namespace, values: Sequence[Value]) -> list[Value]:
    """The values with the largest of their scales as the one scale."""
    if len(values) == 1 or are_one_number([value[1] for value in values]):
        return list(values)
    scale = largest(xp, [value[1] for value in values])
    # the factor of a mantissa may lose t too, which the mantissa multiplies
    tiny = smallest_normal(values[0][0])
    return [
        (m * xp.exp2(s - scale), scale, depth, amount + (cap * ONE_PLUS_DELTA + 1.0) * (rise * tiny), cap, rise)
        for m, s, depth, amount, cap, rise in values
    ]


def _normalize(xp: Namespace, value: Value) -> Value:
    mantissa, scale, depth, amount, cap, rise = value
    mantissa, divisor = xp.rescale(mantissa)
    exponent = xp.log2(divisor)
    rise = rise * largest(xp, [cap, 1.0]) * (2.0 * ONE_PLUS_DELTA)
    return mantissa, plus(scale, exponent), plus(depth, exponent), amount + rise * smallest_normal(mantissa), 1.0, rise


def _constant(xp: Namespace, shape: Any, dtype: Any, number: float) -> Value:
    return with_bounds(xp.full(shape, number, dtype=dtype), 0.0, 1.0)


def bound_holds(xp: Namespace, value: Value) -> Array:
    """Where the bound proves a mantissa right to the precision of its dtype, as a mask `(F, B, K)`.

    Where a number has overflowed the bound does not hold: in log space the number may be an ordinary one.
    """
    mantissa, scale, depth, amount, cap, rise = value
    # twice the bound, for the rounding of this function
    bound = xp.exp2(xp.full((1, 1, 1), 0.0, dtype=mantissa.dtype) - depth) * (amount * 2.0)
    proven = xp.less_equal(bound, mantissa * float(np.finfo(str(mantissa.dtype)).eps))
    small = xp.less_equal(bound * rise, cap * DELTA)
    return xp.logical_and(xp.logical_and(proven, small), xp.isfinite(plus(mantissa, scale)))


SCALED = Semiring(
    name="scaled",
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
)
