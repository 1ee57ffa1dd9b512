"""Numbers of any sign, and complex ones, in log space: a direction times the exponential of a size.

    z = direction * exp(size),  direction = z / |z|,  size = log |z|

A size is finite: zero is a direction of 0, and -inf is never subtracted from -inf. Sizes are constants of every
derivative, which goes through the directions; so a number that is 0 has the derivative that it has in ordinary
arithmetic. A product of many numbers has one branch of the logarithm, since one logarithm is taken, at the end.

Products multiply directions and add sizes. Sums add terms divided by the largest of them.

    result = log|z| + i arg z,  -pi < arg z <= pi;  of zero -inf + 0i

An argument that rounds to -pi becomes pi, so that negative numbers have one logarithm.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from plica.ir.dtypes import DType, as_dtype
from plica.symbolic.parameters.signed import log_size, sign
from plica.symbolic.semirings.algebra import REAL
from plica.symbolic.semirings.semiring import Array, Namespace, Semiring, Value, accumulate, spread, unchanged
from plica.symbolic.semirings.weights import Weight

_ROUNDING = 2.0**-18
"""An argument that differs by less than this share of pi from that of a real number counts as rounded from it."""
_ROUNDING_OF_DOUBLES = 2.0**-40


def _from_linear(xp: Namespace, x: Array) -> Value:
    return sign(xp, x), log_size(xp, x)


def _from_log(xp: Namespace, x: Array) -> Value:
    """Numbers from logarithms, real or complex; -inf is zero, whatever its imaginary part is."""
    real = xp.stop_gradient(xp.real(x))
    limits = np.finfo(as_dtype(real.dtype).value)
    size = xp.clip(xp.where(xp.equal(real, -math.inf), 0.0, real), float(limits.min), float(limits.max))
    if is_complex(x):  # -inf with an argument that is NaN would have the exponential NaN
        x = xp.where(xp.equal(real, -math.inf), -math.inf, x)
    return xp.exp(x - size), size


def _from_direction(xp: Namespace, direction: Array, size: Array) -> Value:
    """Numbers `direction * exp(size)` whose sizes have derivatives, and may be -inf."""
    limits = np.finfo(as_dtype(size.dtype).value)
    constant = xp.stop_gradient(size)
    constant = xp.clip(xp.where(xp.equal(constant, -math.inf), 0.0, constant), float(limits.min), float(limits.max))
    return direction * xp.exp(size - constant), constant


def _from_weight(xp: Namespace, weight: Weight) -> Value:
    """Numbers of a parameter: from its logarithms if no number is negative or may be 0."""
    if weight.in_directions is not None:
        return _from_direction(xp, *weight.directions)
    if weight.in_logs is not None and (weight.least >= 0 or is_complex(weight.log(xp))):
        return _from_log(xp, weight.log(xp))
    if weight.least >= 0 and not weight.may_be_zero:  # a Program may know the logarithms of numbers that underflow
        return _from_log(xp, weight.log(xp))
    return _from_linear(xp, weight.linear)


def _to_linear(xp: Namespace, value: Value) -> Array:
    return value[0] * xp.exp(value[1])


def real_logarithms(xp: Namespace, value: Value) -> Array:
    """Logarithms of real numbers, NaN where they are negative."""
    return xp.safe_log(value[0]) + value[1]


def logarithms(xp: Namespace, value: Value) -> Array:
    """The logarithms of numbers, which are complex: -inf + 0i of zero."""
    direction, size = value
    if not is_complex(direction):
        direction = xp.astype(direction, f"complex{max(64, 2 * as_dtype(direction.dtype).bits)}")  # none are narrower
    is_zero = xp.equal(direction, 0.0)
    logs = xp.log(xp.where(is_zero, 1.0, direction)) + size
    rounding = _ROUNDING if as_dtype(logs.dtype) == DType.COMPLEX64 else _ROUNDING_OF_DOUBLES
    above = logs + 2j * math.pi
    beyond = xp.stop_gradient(xp.maximum(xp.imag(above) - math.pi, 0.0))
    above = above - 1j * xp.astype(beyond, logs.dtype)
    turned = xp.where(xp.less_equal(xp.imag(logs), (rounding - 1.0) * math.pi), above, logs)
    return xp.where(is_zero, complex(-math.inf, 0.0), turned)


def _product(xp: Namespace, a: Value, b: Value) -> Value:  # noqa: ARG001
    return a[0] * b[0], a[1] + b[1]


def _outer(xp: Namespace, a: Value, b: Value) -> Value:
    """All units of `a` against all of `b`."""
    pairs = _product(
        xp, tuple(xp.expand_dims(array, axis=3) for array in a), tuple(xp.expand_dims(array, axis=2) for array in b)
    )
    return tuple(xp.reshape(array, (*array.shape[:2], array.shape[2] * array.shape[3])) for array in pairs)


def _total(xp: Namespace, values: Sequence[Value]) -> Value:
    """The sum, of terms divided by the largest; a sum that is zero has the size of its terms."""
    if len(values) == 1:
        return values[0]
    counted = accumulate(xp.maximum, [_counted(xp, *value) for value in values])
    shift = xp.where(xp.greater(counted, -math.inf), counted, accumulate(xp.maximum, [size for _, size in values]))
    most = math.log(float(np.finfo(as_dtype(shift.dtype).value).max)) / 2  # only zeros have sizes above the shift
    terms = [direction * xp.exp(xp.clip(size - shift, max=most)) for direction, size in values]
    total = accumulate(xp.add, terms)
    return sign(xp, total), log_size(xp, total) + shift


def _counted(xp: Namespace, direction: Array, size: Array) -> Array:
    """The sizes, with -inf for zeros."""
    return xp.where(xp.equal(direction, 0.0), -math.inf, size)


def _contract(xp: Namespace, values: Sequence[Value], weight: Array | Weight, *, least: float = -math.inf) -> Value:
    joined = [list(parts) for parts in zip(*values, strict=True)]
    direction, size = (parts[0] if len(parts) == 1 else xp.concat(parts, axis=2) for parts in joined)
    return _times_matrix(xp, direction, size, Weight.of(weight), least)


def _times_matrix(xp: Namespace, direction: Array, size: Array, weight: Weight, least: float) -> Value:
    """Rows times a weight, no entry of which is less than `least`.

    Shapes: direction and size (F, B, I), weight (F, O, I) or, where its logarithms are not read, (F, O, ...).
    """
    numbers = weight.linear
    if len(numbers.shape) > 3:
        numbers = xp.reshape(numbers, (*numbers.shape[:2], math.prod(numbers.shape[2:])))
    if weight.logs is None or max(weight.least, least) < 0:
        product: Value = xp.directed_matmul(direction, size, numbers)
    else:
        product = xp.directed_matmul(direction, size, numbers, weight.logs.array, weight.logs.form)
    return product


def _einsum(
    xp: Namespace, equation: str, values: Sequence[Value], weight: Array | Weight, *, least: float = -math.inf
) -> Value:
    """An Einstein sum as a product of matrices.

    The values are multiplied to one value of all their letters, whose rows a matrix, the weight, multiplies:
    `fbi,fbj,foij->fbo` has rows `fb`, columns `ij`. If a value has a letter of the result that the weight has too, the
    weight is multiplied as the values are, and the matrix is of ones.
    """
    terms, _, result = equation.partition("->")
    *names, weighted = terms.split(",")
    numbers, matrix_weight = list(values), Weight.of(weight)
    summed = [letter for letter in weighted if letter not in result]
    sums = [letter for letter in weighted[1:] if letter in result]
    is_matrix = (
        len(sums) == 1
        and list(weighted) == [weighted[0], *sums, *summed]
        and not any(sums[0] in name for name in names)
    )
    if not is_matrix:
        names, numbers, sums = [*names, weighted], [*numbers, _from_weight(xp, matrix_weight)], []
        summed = list(dict.fromkeys(letter for name in names for letter in name if letter not in result))
    rows = [letter for letter in result[1:] if letter not in sums]
    letters = [result[0], *rows, *summed]
    factors = [
        tuple(spread(xp, array, name, letters) for array in value) for name, value in zip(names, numbers, strict=True)
    ]
    direction, size = accumulate(lambda a, b: _product(xp, a, b), factors)
    shape, axes = direction.shape, len(rows) + 1
    matrix = (shape[0], math.prod(shape[1:axes]), math.prod(shape[axes:]))
    if not is_matrix:
        matrix_weight = Weight.of(xp.ones((shape[0], 1, matrix[2]), dtype=size.dtype))
    product = _times_matrix(xp, xp.reshape(direction, matrix), xp.reshape(size, matrix), matrix_weight, least)
    order = tuple([result[0], *rows, *sums].index(letter) for letter in result)
    ends = product[0].shape[2:] if sums else ()
    return tuple(xp.permute_dims(xp.reshape(array, (*shape[:axes], *ends)), order) for array in product)


def is_complex(x: Array) -> bool:
    """Whether an array has complex numbers."""
    return as_dtype(x.dtype).kind == "complex"


def _directed(
    name: str,
    *,
    carries_complex: bool,
    from_result: Any,
    to_log: Any,
    result: Any = logarithms,
    least: float = -math.inf,
) -> Semiring:
    """The row with a name; no weight is less than `least`."""
    return Semiring(
        name=name,
        algebra=REAL,
        logarithmic=True,
        negative=True,
        carries_complex=carries_complex,
        from_linear=_from_linear,
        from_log=_from_log,
        from_weight=_from_weight,
        from_result=from_result,
        to_log=to_log,
        to_linear=_to_linear,
        result=result,
        product=_product,
        outer=_outer,
        total=_total,
        contract=partial(_contract, least=least),
        einsum=partial(_einsum, least=least),
        normalize=unchanged,
        zero=lambda xp, shape, dtype: (xp.zeros(shape, dtype=dtype), _no_size(xp, shape, dtype)),
        one=lambda xp, shape, dtype: (xp.ones(shape, dtype=dtype), _no_size(xp, shape, dtype)),
    )


def _no_size(xp: Namespace, shape: Any, dtype: Any) -> Array:
    return xp.real(xp.zeros(shape, dtype=dtype))


def _from_signed_result(xp: Namespace, x: Array) -> Value:
    """Numbers of logarithms whose imaginary parts are multiples of pi, to a rounding; NaN where one is not."""
    real = xp.real(x)
    turns = xp.where(xp.equal(real, -math.inf), 0.0, xp.imag(x) / math.pi)  # zero has none
    direction, size = _from_log(xp, real)
    nearest = xp.round(turns)
    is_real = xp.less(xp.abs(turns - nearest), _ROUNDING)
    return xp.where(is_real, direction * (1.0 - 2.0 * xp.remainder(nearest, 2.0)), math.nan), size


COMPLEX = _directed("complex-lse-sum", carries_complex=True, from_result=_from_log, to_log=logarithms)
SIGNED = _directed("signed-lse-sum", carries_complex=False, from_result=_from_signed_result, to_log=real_logarithms)
LSE_AT_ZEROS = _directed(
    "lse-sum-at-zeros",
    carries_complex=False,
    from_result=_from_log,
    to_log=real_logarithms,
    result=real_logarithms,
    least=0.0,
)
"""The carrier that differentiates `lse-sum` where weights may be 0: its derivatives are right at each zero too."""
