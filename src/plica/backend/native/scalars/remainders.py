"""Division of floats with an integral quotient and an exact remainder, however large the quotient is."""

from plica.backend.native.scalars.values import Value, branch, loop, scaled
from plica.ir.dtypes import DType

_U64, _I64 = DType.UINT64, DType.INT64
_FRACTION = 2**52 - 1
_STEP = 11
"""How many bits of the quotient each step computes: together with 53 bits they fit in 64."""


def _decoded(magnitude: Value) -> tuple[Value, Value]:
    """(e, m) of a float64 m 2^(e - 1075), m an integer, from its bits without the sign."""
    field = magnitude >> 52
    fraction = magnitude & _FRACTION
    normal = field != 0
    return normal.where(field, 1).astype(_I64), normal.where(fraction | (1 << 52), fraction)


def truncated_remainder(x: Value, y: Value) -> Value:
    """The exact remainder of x / y with the quotient rounded towards 0; it has the sign of x.

    Source: long division of the significands, some bits at a time.
    """
    if x.dtype != DType.FLOAT64:
        return truncated_remainder(x.astype(DType.FLOAT64), y.astype(DType.FLOAT64)).astype(x.dtype)
    infinite = 0x7FF << 52
    a, b = abs(x).bits_as(_U64), abs(y).bits_as(_U64)

    def divide() -> Value:
        (a_exponent, a_whole), (b_exponent, b_whole) = _decoded(a), _decoded(b)

        def step(distance: Value, remainder: Value) -> tuple[Value, Value]:
            bits = (distance < _STEP).where(distance, _STEP)
            return distance - bits, (remainder << bits.astype(_U64)) % b_whole

        start = (a_exponent - b_exponent, a_whole % b_whole)
        remainder = loop(start, lambda distance, _: distance > 0, step)[1]
        return scaled(remainder.astype(DType.FLOAT64), b_exponent - 1075).copysign(x)

    undefined = (a >= infinite) | (b > infinite) | (b == 0)
    return branch(undefined | (a < b), lambda: undefined.where((x * y) / (x * y) * 0.0, x), divide)


def remainder_of_floats(x: Value, y: Value) -> Value:
    """The remainder of x / y with the quotient rounded down; it has the sign of y."""
    remainder = truncated_remainder(x, y)
    turned = ((y < 0.0) ^ (remainder < 0.0)).where(remainder + y, remainder)
    return (remainder == 0.0).where(remainder.copysign(y), turned)


def floor_divide_floats(x: Value, y: Value) -> Value:
    """The quotient x / y rounded down; x / y itself where y is 0.

    Source: numpy's `divmod`: it divides x minus the remainder by y, which gives nearly an integer.
    """
    remainder = truncated_remainder(x, y)
    quotient = (x - remainder) / y
    quotient = ((remainder != 0.0) & ((y < 0.0) ^ (remainder < 0.0))).where(quotient - 1.0, quotient)
    floor = quotient.floor()
    floor = (quotient - floor > 0.5).where(floor + 1.0, floor)
    exact = x / y
    return (y == 0.0).where(exact, (quotient == 0.0).where((exact * 0.0).copysign(exact), floor))
