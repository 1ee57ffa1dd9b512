"""Scaled numbers: linear mantissas with one power of two for each row, and a bound on what underflow has cost.

A value is mantissas `m (F, B, K)`, a scale `s`, a depth `d`, and the numbers `a`, `c` and `h`; it stands for
`m * 2**s`. Sum layers are plain matrix products, and the exponentials and logarithms of whole activations disappear.
What underflow may lose is bounded as it happens:

* every mantissa is within `e = a / 2**d` of its exact value (rounding aside), and neither is more than `c + e`;
* `2**d` is at most h, and h is at least 1.

The depth is the sum of the exponents of what `normalize` has divided by, along the path of layers on which that is
least, and a is what was lost, were all of it lost at the beginning of that path. So each row of data has a scale and a
depth, and all else depends on weights alone: on each fold, `(F, 1, 1)`, or on nothing, where it is a number of Python.

* A mantissa below the smallest normal number t loses at most t, so inputs start with a = t, d = 0 and h = 1.
* A weight has lost at most l t, where l is 1 for most and more for products of weights (`Weight.lost`); where nothing
  bounds l, the weight is the exponential of its logarithm, and l is 1.
* A product has `e = e1 (c2 + e2) + e2 (c1 + e1) + t`. With the smaller of both depths, and every e at most DELTA c,
  that is `a = (1 + DELTA) (a1 c2 + a2 c1) + t h`.
* A sum of I terms with weights of row sums up to R has `e = R e + I t (1 + l (c + e))`.
* Dividing by a power of two p just above the largest mantissa, which `normalize` does, gives `e / p + t` and the depth
  `d + log2(p)`. As p is at most `2 (c + e)`, h becomes as many times as large, and no smaller.

At the end `e <= tolerance * m` and `h e <= DELTA c` prove the result right to that tolerance: nothing makes `e / c`
smaller but what h counts (these divisors, and caps of terms that differ), so that it was at most DELTA everywhere
before. Where they do not hold, the caller takes the log-space path. Mantissas and weights are not negative.

Backwards, the derivative of a proven result's logarithm with respect to any mantissa or weight is at most
`tolerance / t`: the bound holds what t more of that mantissa would change. So gradients of proven rows are finite.

Source: the scaling of forward algorithms (Rabiner, "A tutorial on hidden Markov models", 1989, section V.A); the bound
is a running error analysis (Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.3).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.symbolic.semirings import linear
from plica.symbolic.semirings.algebra import REAL
from plica.symbolic.semirings.exponents import largest, least, natural, of_logs, plus, times_power
from plica.symbolic.semirings.semiring import (
    Array,
    Namespace,
    Semiring,
    Value,
    are_one_number,
    outer_of,
    with_logarithm,
)
from plica.symbolic.semirings.weights import Weight

DELTA = 2.0**-10
"""How large a bound may be beside its cap."""

_ABOVE = 1.0 + DELTA

_outer_of_mantissas = outer_of("multiply")


def deepest(smallest: float) -> float:
    """Sums above one another from which on hardly any row is proven: 64 in float32, 512 in float64.

    After L of them h is `2**L` or more, and a is `h t`: `h e <= DELTA c` asks for a depth d of `2 L - 116` in float32,
    and where weights add up to 1, d is hardly ever above 1.

    Args:
        smallest: The smallest normal number t of a dtype.
    """
    return 1.0 - math.log2(smallest) / 2.0


def _smallest(array: Array) -> float:
    return float(np.finfo(str(array.dtype)).tiny)


def _lift(mantissa: Array, scale: Array | float, cap: Array | float, lost: float = 1.0) -> Value:
    """Numbers that may have underflowed."""
    return mantissa, scale, 0.0, _smallest(mantissa) * max(lost, 1.0), cap, 1.0


def _from_linear(xp: Namespace, x: Array) -> Value:
    x = with_logarithm(xp, x)
    held = xp.where(xp.equal(x, 0.0), 0.0, x)  # no gradient through a zero, as in log space
    most = xp.stop_gradient(xp.max(xp.abs(x), axis=2, keepdims=True))
    return _lift(held, 0.0, xp.maximum(most, _smallest(x) / DELTA**2))


def _from_log(xp: Namespace, x: Array) -> Value:
    return _lift(*of_logs(xp, x), 1.0)


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    if math.isfinite(weight.most):
        return _lift(weight.linear, 0.0, max(weight.most, 1.0), weight.lost)
    # exp(100) is infinite in float32, and sends NaN to its own gradient even from a state that no row has
    return _from_linear(xp, weight.linear) if weight.in_logs is None else _from_log(xp, weight.log(xp))


def _to_log(xp: Namespace, value: Value) -> Array:
    return plus(xp.safe_log(value[0]), natural(value[1]))


def _mul(xp: Namespace, a: Value, b: Value) -> Value:
    mantissa = xp.multiply(a[0], b[0])
    return (mantissa, *_factors(xp, a[1:], b[1:], _smallest(mantissa)))


def _outer(xp: Namespace, a: Value, b: Value) -> Value:
    (mantissa,) = _outer_of_mantissas(xp, (a[0],), (b[0],))
    return (mantissa, *_factors(xp, a[1:], b[1:], _smallest(mantissa)))


def _factors(xp: Namespace, a: Value, b: Value, tiny: float) -> Value:
    """What a product has beside its mantissas."""
    (s1, d1, a1, c1, h1), (s2, d2, a2, c2, h2) = a, b
    rise = largest(xp, [h1, h2])
    return plus(s1, s2), least(xp, [d1, d2]), (a1 * c2 + a2 * c1) * _ABOVE + rise * tiny, c1 * c2, rise


def _sum(xp: Namespace, values: Sequence[Value]) -> Value:
    mantissas, scales, depths, lost, caps, rises = zip(*_aligned(xp, values), strict=True)
    rise, mantissa, cap = largest(xp, rises), _total(mantissas), _total(caps)
    amount = _total(lost) + rise * _smallest(mantissa)
    return mantissa, scales[0], least(xp, depths), amount, cap, rise * (cap / least(xp, caps))


def _contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    aligned = _aligned(xp, values)
    (mantissa,) = linear.contract(xp, [value[:1] for value in aligned], numbers)
    _, scales, depths, lost, caps, rises = zip(*aligned, strict=True)
    cap, rise = largest(xp, caps), largest(xp, rises)
    if len(values) > 1:
        rise = rise * (cap / least(xp, caps))
    beside = scales[0], least(xp, depths), largest(xp, lost), cap, rise
    return (mantissa, *_weighted(xp, beside, numbers, (2,), 0.0, _smallest(mantissa)))


def _einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    (mantissa,) = linear.einsum(xp, equation, [value[:1] for value in values], numbers)
    tiny = _smallest(mantissa)
    beside, lost = values[0][1:], tiny  # by each term, whose factors are multiplied from the left
    for _, *factor in values[1:]:
        beside = _factors(xp, beside, tuple(factor), tiny)
        lost = factor[3] * (lost * _ABOVE) + tiny
    terms, _, result = equation.partition("->")
    weighted = terms.split(",")[-1]
    summed = tuple(axis for axis, letter in enumerate(weighted) if axis and letter not in result)
    return (mantissa, *_weighted(xp, beside, numbers, summed, lost, tiny))


def _weighted(
    xp: Namespace, beside: Value, weight: Weight, axes: tuple[int, ...], lost: Array | float, tiny: float
) -> Value:
    """What a sum has beside its mantissas.

    Args:
        xp: The array namespace.
        beside: What the terms have, but for the weight.
        weight: The weight.
        axes: Its axes that are summed over.
        lost: What underflow may take from each term before it is weighted.
        tiny: The smallest normal number.
    """
    scale, depth, amount, cap, rise = beside
    row_sum = _row_sum(xp, weight, axes)
    terms = float(np.prod([weight.linear.shape[axis] for axis in axes]))
    lost = cap * (_ABOVE * max(weight.lost, 1.0) * tiny) + (lost + tiny)  # the weight, and the product
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
    # a factor may lose t as well, which its mantissa multiplies
    tiny = _smallest(values[0][0])
    return [
        (m * xp.exp2(s - scale), scale, depth, amount + (cap * _ABOVE + 1.0) * (rise * tiny), cap, rise)
        for m, s, depth, amount, cap, rise in values
    ]


def _total(arrays: Sequence[Array | float]) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = result + array
    return result


def _normalize(xp: Namespace, value: Value) -> Value:
    mantissa, scale, depth, amount, cap, rise = value
    mantissa, divisor = xp.rescale(mantissa)
    exponent = xp.log2(divisor)
    rise = rise * largest(xp, [cap, 1.0]) * (2.0 * _ABOVE)
    return mantissa, plus(scale, exponent), plus(depth, exponent), amount + rise * _smallest(mantissa), 1.0, rise


def _constant(xp: Namespace, shape: Any, dtype: Any, number: float) -> Value:
    return _lift(xp.full(shape, number, dtype=dtype), 0.0, 1.0)


def trusted(xp: Namespace, value: Value) -> Array:
    """Where the bound proves a mantissa right to the precision of its dtype, as a mask `(F, B, K)`.

    What has overflowed is not trusted: in log space it may be an ordinary number.
    """
    mantissa, scale, depth, amount, cap, rise = value
    # twice the bound, for the rounding of all of this
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
    proven=trusted,
)
