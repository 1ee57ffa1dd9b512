"""Rows of arithmetic, comparisons and bits. Most are one instruction; some integers need care, as machines may trap."""

import math
from collections.abc import Callable

from plica.backend.native.scalars.builder import Application, Failure, Scalar, ScalarCode, ScalarRow, family
from plica.backend.native.scalars.remainders import floor_divide_floats, remainder_of_floats
from plica.backend.native.scalars.values import Value, entry, is_half, loop, words
from plica.ir.dtypes import DType
from plica.ops.divisions import BY_ZERO


def _row(function: Callable[..., Value]) -> ScalarRow:
    return ScalarRow(entry(function))


def is_nan(x: Value) -> Value:
    """Whether a number is NaN; False of integers."""
    return x != x


def _is_finite(x: Value) -> Value:
    return abs(x) < math.inf if x.dtype.kind == "float" else x == x


def _is_infinite(x: Value) -> Value:
    return abs(x) == math.inf if x.dtype.kind == "float" else x != x


def _sign_bit(x: Value) -> Value:
    return x.bits_as(words(x.dtype)) < 0


def _sign(x: Value) -> Value:
    positive = (x > 0).where(x.like(1), x.like(0))
    if family(x.dtype) == "unsigned":
        return positive
    sign = (x < 0).where(x.like(-1), positive)
    return is_nan(x).where(x, sign) if x.dtype.kind == "float" else sign


def _absolute(x: Value) -> Value:
    if x.dtype.kind == "float":
        return abs(x)
    return x if family(x.dtype) == "unsigned" else (x < 0).where(-x, x)


def _shift(is_left: bool) -> Callable[[Value, Value], Value]:
    def shift(x: Value, y: Value) -> Value:
        # a shift by all bits or more, or by less than 0, leaves 0; to the right of a negative number -1
        last = x.dtype.bits - 1
        outside = y > last if family(y.dtype) == "unsigned" else (y > last) | (y < 0)
        if is_left:
            return outside.where(x.like(0), x << outside.where(y.like(0), y))
        if family(x.dtype) == "unsigned":
            return outside.where(x.like(0), x >> outside.where(y.like(0), y))
        return x >> outside.where(y.like(last), y)

    return shift


def _divided(x: Value, y: Value) -> tuple[Value, Value]:
    """The quotient rounded towards 0 and the remainder; (0, 0) for division by 0, and no trap for -2^31 by -1."""
    if family(x.dtype) == "unsigned":
        by_zero = y == 0
        safe = by_zero.where(y.like(1), y)
        return by_zero.where(y.like(0), x // safe), by_zero.where(y.like(0), x % safe)
    by_zero, by_minus_one = y == 0, y == -1
    safe = (by_zero | by_minus_one).where(y.like(1), y)
    quotient = by_minus_one.where(-x, x // safe)
    return by_zero.where(y.like(0), quotient), by_zero.where(y.like(0), x % safe)


def _floor_divide(x: Value, y: Value) -> Value:
    if x.dtype.kind == "float":
        return floor_divide_floats(x, y)
    quotient, remainder = _divided(x, y)
    if family(x.dtype) == "unsigned":
        return quotient
    return ((remainder != 0) & ((remainder ^ y) < 0)).where(quotient - 1, quotient)


def _remainder(x: Value, y: Value) -> Value:
    if x.dtype.kind == "float":
        return remainder_of_floats(x, y)
    _, remainder = _divided(x, y)
    if family(x.dtype) == "unsigned":
        return remainder
    return ((remainder != 0) & ((remainder ^ y) < 0)).where(remainder + y, remainder)


def power_of_integers(x: Value, y: Value) -> Value:
    """x^y by squaring; rounded towards 0 where y is negative."""
    one, zero = x.like(1), x.like(0)
    start = y if family(y.dtype) == "unsigned" else (y < 0).where(zero, y)

    def step(exponent: Value, square: Value, power: Value) -> tuple[Value, ...]:
        return exponent >> 1, square * square, ((exponent & 1) != 0).where(power * square, power)

    power = loop((start, x, one), lambda exponent, *_: exponent != 0, step)[2]
    if family(y.dtype) == "unsigned":
        return power
    power_of_unit = (x == 1).where(one, (x == -1).where(((y & 1) == 0).where(one, x), zero))
    return (y < 0).where(power_of_unit, power)


def _astype(code: ScalarCode, application: Application) -> Scalar:
    """A conversion; a float that the integer dtype cannot hold becomes the integer that x86 instructions return."""
    x, dtype = Value(code, application.operands[0]), application.dtype
    if x.dtype.kind != "float" or dtype.kind != "int":
        return x.astype(dtype).scalar
    wide = DType.INT64 if dtype in (DType.INT64, DType.UINT32, DType.UINT64) else DType.INT32
    if is_half(x.dtype):
        x = x.astype(DType.FLOAT32)
    integer = _to_integer(x, wide)
    if dtype == DType.UINT64:
        middle = 2.0**63
        integer = (x >= middle).where(_to_integer(x - middle, wide) ^ wide.limits[0], integer)
    return integer.astype(dtype).scalar


def _to_integer(x: Value, dtype: DType) -> Value:
    least = float(dtype.limits[0])
    fits = (x > least - 1) & (x < -least) if x.dtype.bits > dtype.bits else (x >= least) & (x < -least)
    inside = fits.where(x, 0.0).astype(dtype)
    return fits.where(inside, dtype.limits[0])


def _divides_by_zero(code: ScalarCode, application: Application) -> Scalar:
    divisor = Value(code, application.operands[1])
    never = divisor.dtype.kind != "int"
    return code.constant(False, DType.BOOL) if never else (divisor == 0).scalar


_BY_ZERO = Failure(_divides_by_zero, BY_ZERO)

ARITHMETIC: dict[str, ScalarRow] = {
    "abs": _row(_absolute),
    "add": _row(lambda x, y: x + y),
    "astype": ScalarRow(_astype),
    "bitwise_and": _row(lambda x, y: x & y),
    "bitwise_invert": _row(lambda x: ~x),
    "bitwise_left_shift": _row(_shift(is_left=True)),
    "bitwise_or": _row(lambda x, y: x | y),
    "bitwise_right_shift": _row(_shift(is_left=False)),
    "bitwise_xor": _row(lambda x, y: x ^ y),
    "ceil": _row(lambda x: x.ceil()),
    "clip": _row(lambda x, least, most: x.maximum(least).minimum(most)),
    "copysign": _row(lambda x, y: x.copysign(y)),
    "divide": _row(lambda x, y: x / y),
    "equal": _row(lambda x, y: x == y),
    "floor": _row(lambda x: x.floor()),
    "floor_divide": ScalarRow(entry(_floor_divide), failure=_BY_ZERO),
    "greater": _row(lambda x, y: x > y),
    "greater_equal": _row(lambda x, y: x >= y),
    "isfinite": _row(_is_finite),
    "isinf": _row(_is_infinite),
    "isnan": _row(is_nan),
    "less": _row(lambda x, y: x < y),
    "less_equal": _row(lambda x, y: x <= y),
    "logical_and": _row(lambda x, y: x & y),
    "logical_not": _row(lambda x: ~x),
    "logical_or": _row(lambda x, y: x | y),
    "logical_xor": _row(lambda x, y: x ^ y),
    "maximum": _row(lambda x, y: x.maximum(y)),
    "minimum": _row(lambda x, y: x.minimum(y)),
    "multiply": _row(lambda x, y: x * y),
    "negative": _row(lambda x: -x),
    "not_equal": _row(lambda x, y: x != y),
    "reciprocal": _row(lambda x: 1.0 / x),
    "remainder": ScalarRow(entry(_remainder), failure=_BY_ZERO),
    "round": _row(lambda x: x.round_even()),
    "sign": _row(_sign),
    "signbit": _row(_sign_bit),
    "sqrt": _row(lambda x: x.sqrt()),
    "square": _row(lambda x: x * x),
    "copy": _row(lambda x: x),
    "stop_gradient": _row(lambda x: x),
    "subtract": _row(lambda x, y: x - y),
    "trunc": _row(lambda x: x.trunc()),
    "where": _row(lambda condition, x, y: condition.where(x, y)),
}
