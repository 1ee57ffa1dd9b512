"""Scaled numbers: linear mantissas with one logarithmic scale for each row, and a bound on what underflow has cost.

A value is four arrays: mantissas `m (F, B, K)`, the scale `s (F, B, 1)`, the error bound `e (F, B, 1)` and the cap
`c (F, B, 1)`; it stands for `m * exp(s)`. Sum layers are plain matrix products, and the exponentials and logarithms of
whole activations disappear. What underflow may lose is bounded as it happens:

* every mantissa is within `e` of its exact value (rounding aside), and neither is more than `c + e`;
* a mantissa below the smallest normal number t loses at most t, so inputs start with `e = t`;
* a weight has lost at most l t, where l is 1 for most and more for products of weights (`Weight.lost`); where nothing
  bounds l, the weight is the exponential of its logarithm, and l is 1;
* a product has `e = e1 (c2 + e2) + e2 (c1 + e1) + t`, a sum of I terms with weights of row sums up to R has
  `e = R e + I t (1 + l (c + e))`;
* dividing by a power of two p just above the largest mantissa, which `normalize` does, gives `e / p + t`.

Scale, bound and cap have one row, `(F, 1, 1)`, as long as they are alike for all rows.

At the end `e <= tolerance * m` proves the result right to that tolerance; where it does not, the caller takes the
log-space path. Mantissas and weights are not negative.

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
from plica.symbolic.semirings.semiring import Array, Namespace, Semiring, Value, outer_of
from plica.symbolic.semirings.weights import Weight

_outer_of_mantissas = outer_of("multiply")


def _smallest(array: Array) -> float:
    return float(np.finfo(str(array.dtype)).tiny)


def _lift(xp: Namespace, mantissa: Array, cap: Array) -> Value:
    """Numbers that may have underflowed once, of scale 1."""
    shape = (mantissa.shape[0], 1, 1)
    scale, bound = (xp.full(shape, number, dtype=mantissa.dtype) for number in (0.0, _smallest(mantissa)))
    return mantissa, scale, bound, cap


def _cap(xp: Namespace, mantissa: Array) -> Array:
    """The largest size of a mantissa of each row, `(F, B, 1)`."""
    return xp.stop_gradient(xp.max(xp.abs(mantissa), axis=2, keepdims=True))


def _from_linear(xp: Namespace, x: Array) -> Value:
    held = xp.where(xp.equal(x, 0.0), 0.0, x)  # no gradient through a zero, as in log space
    return _lift(xp, held, _cap(xp, x))


def _from_log(xp: Namespace, x: Array) -> Value:
    # exp(x) = exp(x - s) exp(s) with s the largest of the row, kept finite
    limits = np.finfo(str(x.dtype))
    scale = xp.clip(xp.stop_gradient(xp.max(x, axis=-1, keepdims=True)), float(limits.min), float(limits.max))
    mantissa, _, bound, cap = _lift(xp, xp.exp(x - scale), xp.ones((x.shape[0], 1, 1), dtype=x.dtype))
    return mantissa, scale, bound, cap


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    if math.isfinite(weight.most):
        mantissa = weight.linear
        cap = xp.full((mantissa.shape[0], 1, 1), max(weight.most, 1.0), dtype=mantissa.dtype)
        mantissa, scale, bound, _ = _lift(xp, mantissa, cap)
        return mantissa, scale, bound * max(weight.lost, 1.0), cap
    # exp(100) is infinite in float32, and sends NaN to its own gradient even from a state that no row has
    return _from_linear(xp, weight.linear) if weight.in_logs is None else _from_log(xp, weight.log(xp))


def _to_log(xp: Namespace, value: Value) -> Array:
    return xp.safe_log(value[0]) + value[1]


def _mul(xp: Namespace, a: Value, b: Value) -> Value:
    return _product(a, b, xp.multiply(a[0], b[0]))


def _outer(xp: Namespace, a: Value, b: Value) -> Value:
    (mantissa,) = _outer_of_mantissas(xp, (a[0],), (b[0],))
    return _product(a, b, mantissa)


def _product(a: Value, b: Value, mantissa: Array) -> Value:
    (_, s1, e1, c1), (_, s2, e2, c2) = a, b
    return mantissa, s1 + s2, e1 * (c2 + e2) + e2 * (c1 + e1) + _smallest(mantissa), c1 * c2


def _sum(xp: Namespace, values: Sequence[Value]) -> Value:
    aligned = _aligned(xp, values)
    mantissa, bound, cap = (_total(xp, [value[place] for value in aligned]) for place in (0, 2, 3))
    return mantissa, aligned[0][1], bound + _smallest(mantissa), cap


def _contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    aligned = _aligned(xp, values)
    (mantissa,) = linear.contract(xp, [value[:1] for value in aligned], numbers)
    row_sum = _row_sum(xp, numbers.linear, (2,))
    bound, cap = (_largest(xp, [value[place] for value in aligned]) for place in (2, 3))
    terms = int(numbers.linear.shape[2])
    return mantissa, aligned[0][1], bound * row_sum + _lost(mantissa, numbers, cap + bound) * terms, cap * row_sum


def _einsum(xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight) -> Value:
    numbers = Weight.of(weight)
    (mantissa,) = linear.einsum(xp, equation, [value[:1] for value in values], numbers)
    scale, bound, cap = values[0][1:]
    lost = _smallest(mantissa)  # by each term, whose factors are multiplied from the left
    for _, s, e, c in values[1:]:
        scale, bound, cap = scale + s, bound * (c + e) + e * (cap + bound) + _smallest(mantissa), cap * c
        lost = lost * c + _smallest(mantissa)
    terms, _, result = equation.partition("->")
    weighted = terms.split(",")[-1]
    summed = tuple(axis for axis, letter in enumerate(weighted) if axis and letter not in result)
    row_sum = _row_sum(xp, numbers.linear, summed)
    count = int(np.prod([numbers.linear.shape[axis] for axis in summed]))
    lost = lost + _lost(mantissa, numbers, cap + bound)
    return mantissa, scale, bound * row_sum + lost * count, cap * row_sum


def _lost(mantissa: Array, weight: Weight, cap: Array) -> Array:
    """What underflow may take from a term: the product, and the weight, which a number up to `cap` multiplies."""
    return (cap * max(weight.lost, 1.0) + 1.0) * _smallest(mantissa)


def _row_sum(xp: Namespace, weight: Array, axes: tuple[int, ...]) -> Array:
    """The largest sum of the weights' sizes over `axes` of each fold, `(F, 1, 1)`."""
    sums = xp.sum(xp.stop_gradient(xp.abs(weight)), axis=axes, keepdims=True)
    largest = xp.max(sums, axis=tuple(range(1, sums.ndim)), keepdims=True)
    return xp.reshape(largest, (weight.shape[0], 1, 1))


def _aligned(xp: Namespace, values: Sequence[Value]) -> list[Value]:
    """The values with the largest of their scales as the one scale."""
    if len(values) == 1:
        return list(values)
    scale = values[0][1]
    for value in values[1:]:
        scale = xp.maximum(scale, value[1])
    factors = [xp.exp(value[1] - scale) for value in values]
    # a factor may lose t as well, which its mantissa multiplies
    return [
        (m * f, scale, e * f + (c + e + 1.0) * _smallest(m), c) for (m, _, e, c), f in zip(values, factors, strict=True)
    ]


def _total(xp: Namespace, arrays: Sequence[Array]) -> Array:
    result = arrays[0]
    for array in arrays[1:]:
        result = xp.add(result, array)
    return result


def _largest(xp: Namespace, arrays: Sequence[Array]) -> Array:
    result = arrays[0]
    for array in arrays[1:]:
        result = xp.maximum(result, array)
    return result


def _normalize(xp: Namespace, value: Value) -> Value:
    mantissa, scale, bound, cap = value
    mantissa, largest = xp.rescale(mantissa)
    return mantissa, scale + xp.log(largest), bound / largest + _smallest(mantissa), xp.ones_like(cap)


def _constant(xp: Namespace, shape: Any, dtype: Any, number: float) -> Value:
    alike = (shape[0], 1, 1)
    scale, bound, cap = (xp.full(alike, value, dtype=dtype) for value in (0.0, 0.0, 1.0))
    return xp.full(shape, number, dtype=dtype), scale, bound, cap


def trusted(xp: Namespace, value: Value) -> Array:
    """Where the bound proves a mantissa right to the precision of its dtype, as a mask `(F, B, K)`.

    What has overflowed is not trusted: in log space it may be an ordinary number.
    """
    mantissa, scale, bound, _ = value
    proven = xp.less_equal(bound, mantissa * float(np.finfo(str(mantissa.dtype)).eps))
    return xp.logical_and(proven, xp.isfinite(mantissa + scale))


SCALED = Semiring(
    name="scaled",
    algebra=REAL,
    logarithmic=False,
    negative=False,
    from_linear=_from_linear,
    from_log=_from_log,
    from_weight=_from_weight,
    to_log=_to_log,
    to_linear=lambda xp, value: value[0] * xp.exp(value[1]),
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
