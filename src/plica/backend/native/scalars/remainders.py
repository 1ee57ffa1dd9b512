"""Division of floats with a whole quotient: exact however large the quotient is."""

from plica.backend.native.scalars.values import Value, branch, loop, scaled
from plica.ir.dtypes import DType

_U64, _I64 = DType.UINT64, DType.INT64
_FRACTION = 2**52 - 1
_STEP = 11
"""How many bits of the quotient are found at once: 53 bits and those are in 64."""


def _decoded(size: Value) -> tuple[Value, Value]:
    """The exponent e and the whole number m of a float64 that is m 2^(e - 1075), of its bits without the sign."""
    field = size >> 52
    fraction = size & _FRACTION
    normal = field != 0
    return normal.where(field, 1).astype(_I64), normal.where(fraction | (1 << 52), fraction)


def truncated_remainder(x: Value, y: Value) -> Value:
    """What x leaves when it is divided by y and the quotient rounded towards 0, exactly, with the sign of x.

    Source: long division of the significands, some bits at a time.
    """
    if x.dtype != DType.FLOAT64:
        return truncated_remainder(x.astype(DType.FLOAT64), y.astype(DType.FLOAT64)).astype(x.dtype)
    infinite = 0x7FF << 52
    a, b = abs(x).bits_as(_U64), abs(y).bits_as(_U64)

    def divide() -> Value:
        (a_exponent, a_whole), (b_exponent, b_whole) = _decoded(a), _decoded(b)

        def step(distance: Value, left: Value) -> tuple[Value, Value]:
            bits = (distance < _STEP).where(distance, _STEP)
            return distance - bits, (left << bits.astype(_U64)) % b_whole

        start = (a_exponent - b_exponent, a_whole % b_whole)
        left = loop(start, lambda distance, _: distance > 0, step)[1]
        return scaled(left.astype(DType.FLOAT64), b_exponent - 1075).copysign(x)

    undefined = (a >= infinite) | (b > infinite) | (b == 0)
    return branch(undefined | (a < b), lambda: undefined.where((x * y) / (x * y) * 0.0, x), divide)


def remainder_of_floats(x: Value, y: Value) -> Value:
    """What x leaves, with the sign of y."""
    left = truncated_remainder(x, y)
    turned = ((y < 0.0) ^ (left < 0.0)).where(left + y, left)
    return (left == 0.0).where(left.copysign(y), turned)


def floor_divide_floats(x: Value, y: Value) -> Value:
    """The quotient x / y rounded down; x / y itself where y is 0.

    Source: numpy's `divmod`: what is left is taken from x first, so that the quotient is nearly whole.
    """
    left = truncated_remainder(x, y)
    quotient = (x - left) / y
    quotient = ((left != 0.0) & ((y < 0.0) ^ (left < 0.0))).where(quotient - 1.0, quotient)
    whole = quotient.floor()
    whole = (quotient - whole > 0.5).where(whole + 1.0, whole)
    exact = x / y
    return (y == 0.0).where(exact, (quotient == 0.0).where((exact * 0.0).copysign(exact), whole))
