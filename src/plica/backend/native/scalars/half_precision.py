"""Conversions of float16 and bfloat16, by their bits, since not all machines have instructions for them.

Source: F. Giesen, Float to half conversion (public domain): a number that is subnormal in float16 is rounded by adding
a number with the same last place.
"""

from plica.backend.native.scalars.builder import Scalar, ScalarCode
from plica.backend.native.scalars.values import Value, is_half
from plica.ir.dtypes import DType

_U16, _U32, _F32 = DType.UINT16, DType.UINT32, DType.FLOAT32
_INFINITE = 0x7F800000


def converted(code: ScalarCode, a: Scalar, dtype: DType) -> Scalar:
    """The number in another dtype, by way of float32; one of the two dtypes is a float of 16 bits."""
    x = Value(code, a)
    if is_half(x.dtype):
        return code.convert(to_float32(x).scalar, dtype)
    twice = x.dtype != DType.FLOAT64 or dtype == DType.BFLOAT16  # numpy and torch round to float32 first
    single = x.astype(_F32) if twice else odd_float32(x)
    return from_float32(single, dtype).scalar


def to_float32(x: Value) -> Value:
    """A float16 or bfloat16 as float32, exactly."""
    bits = x.bits_as(_U16).astype(_U32)
    if x.dtype == DType.BFLOAT16:
        return (bits << 16).bits_as(_F32)
    magnitude, exponent = (bits & 0x7FFF) << 13, bits & 0x7C00
    subnormal = ((magnitude + (113 << 23)).bits_as(_F32) - 2.0**-14).bits_as(_U32)
    infinite = (exponent == 0x7C00).where(magnitude | _INFINITE, magnitude + (112 << 23))
    magnitude = (exponent == 0).where(subnormal, infinite)
    return (magnitude | ((bits & 0x8000) << 16)).bits_as(_F32)


def from_float32(x: Value, dtype: DType) -> Value:
    """A float32 as float16 or bfloat16, rounded to even."""
    bits = x.bits_as(_U32)
    magnitude, sign = bits & 0x7FFFFFFF, (bits >> 16) & 0x8000
    if dtype == DType.BFLOAT16:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        result = (magnitude > _INFINITE).where(sign | 0x7FC0, rounded)
        return result.astype(_U16).bits_as(dtype)
    normal = (magnitude - (112 << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13
    subnormal = (magnitude.bits_as(_F32) + 0.5).bits_as(_U32) - 0x3F000000
    result = (magnitude < 0x38800000).where(subnormal, normal)
    result = (magnitude >= 0x47800000).where((magnitude > _INFINITE).where(magnitude.like(0x7E00), 0x7C00), result)
    return (result | sign).astype(_U16).bits_as(dtype)


def odd_float32(x: Value) -> Value:
    """A float64 rounded to odd in float32: with the last bit set if it is not exact.

    Rounding the result once more gives the same number as rounding `x` directly.
    """
    near = x.astype(_F32)
    back, bits = near.astype(DType.FLOAT64), near.bits_as(_U32)
    # if the last bit is not set, the next float in the direction of x
    farther = abs(x) > abs(back)
    moved = farther.where(bits + 1, bits - 1)
    even = ((bits & 1) == 0) & (x != back) & (abs(back) < float("inf")) & (x == x)
    return even.where(moved, bits).bits_as(_F32)
