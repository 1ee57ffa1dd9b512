"""The next float towards another, by the order of bits: machines that flush subnormal numbers do not lose them."""

from plica.backend.native.scalars.builder import Application, Scalar, ScalarCode, ScalarRow
from plica.backend.native.scalars.values import Value, words
from plica.ir.dtypes import DType


def _ordered(bits: Value, dtype: DType) -> Value:
    """Signed bits of a float as integers in the order of the floats, and back; both zeros are 0."""
    return (bits < 0).where(dtype.limits[0] - bits, bits)


def _nextafter(code: ScalarCode, application: Application) -> Scalar:
    x, y = (Value(code, operand) for operand in application.operands)
    integers = words(x.dtype)
    bits, target_bits = x.bits_as(integers), y.bits_as(integers)
    first, second = _ordered(bits, integers), _ordered(target_bits, integers)
    moved = (first < second).where(first + 1, first - 1)
    result = (moved == 0).where(bits & integers.limits[0], _ordered(moved, integers))
    result = (first == second).where(target_bits, result)
    infinity = {DType.FLOAT16: 0x7C00, DType.BFLOAT16: 0x7F80, DType.FLOAT32: 0x7F800000, DType.FLOAT64: 0x7FF << 52}
    largest = infinity[x.dtype]
    undefined = (_size(bits, integers) > largest) | (_size(target_bits, integers) > largest)
    quiet = largest | (largest & -largest) >> 1
    return undefined.where(bits.like(quiet), result).bits_as(x.dtype).scalar


def _size(bits: Value, dtype: DType) -> Value:
    return bits & dtype.limits[1]


NEIGHBOURS: dict[str, ScalarRow] = {"nextafter": ScalarRow(_nextafter)}
