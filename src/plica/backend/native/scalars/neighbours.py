"""The next float towards another: by the order of bits, so that subnormal numbers count on machines that flush them."""

from plica.backend.native.scalars.builder import Call, Scalar, ScalarCode, ScalarRow
from plica.backend.native.scalars.values import Value, words
from plica.ir.dtypes import DType


def _ordered(bits: Value, dtype: DType) -> Value:
    """Signed bits of a float as integers in the order of numbers, and back; both zeros are 0."""
    return (bits < 0).where(dtype.limits[0] - bits, bits)


def _nextafter(code: ScalarCode, call: Call) -> Scalar:
    x, y = (Value(code, one) for one in call.operands)
    whole = words(x.dtype)
    bits, other = x.bits_as(whole), y.bits_as(whole)
    first, second = _ordered(bits, whole), _ordered(other, whole)
    moved = (first < second).where(first + 1, first - 1)
    found = (moved == 0).where(bits & whole.limits[0], _ordered(moved, whole))
    found = (first == second).where(other, found)
    infinity = {DType.FLOAT16: 0x7C00, DType.BFLOAT16: 0x7F80, DType.FLOAT32: 0x7F800000, DType.FLOAT64: 0x7FF << 52}
    largest = infinity[x.dtype]
    undefined = (_size(bits, whole) > largest) | (_size(other, whole) > largest)
    quiet = largest | (largest & -largest) >> 1
    return undefined.where(bits.like(quiet), found).bits_as(x.dtype).scalar


def _size(bits: Value, dtype: DType) -> Value:
    return bits & dtype.limits[1]


NEIGHBOURS: dict[str, ScalarRow] = {"nextafter": ScalarRow(_nextafter)}
