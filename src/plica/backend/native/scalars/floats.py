"""Bits of float32 and float64, for formulas that split numbers into exponent and fraction.

No function here uses an instruction that converts between floats and integers: many machines have none for vectors of
64 bits.
"""

from dataclasses import dataclass

from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """A format of floats.

    Args:
        dtype: The floats.
        words: Unsigned integers of as many bits.
        mantissa: How many bits the fraction has.
        bias: The biased exponent of 1.
    """

    dtype: DType
    words: DType
    mantissa: int
    bias: int

    @property
    def one_bits(self) -> int:
        """The bits of 1."""
        return self.bias << self.mantissa

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def unit(self) -> float:
        """The number whose last place is worth 1."""
        return float(2**self.mantissa)

    @property
    def unit_bits(self) -> int:
        """The bits of `unit`; with n in the fraction, those of `unit + n`."""
        return (self.bias + self.mantissa) << self.mantissa


FORMATS = {
    DType.FLOAT32: Format(DType.FLOAT32, DType.UINT32, 23, 127),
    DType.FLOAT64: Format(DType.FLOAT64, DType.UINT64, 52, 1023),
}


def format_of(x: Value) -> Format:
    """The format of a float32 or float64."""
    return FORMATS[x.dtype]


def nearest_integer(x: Value) -> tuple[Value, Value]:
    """The nearest integer n, of size up to 2^(mantissa - 2), as a float, and the bits of n + 1.5 * 2^mantissa.

    Adding a number whose last place is worth 1 rounds to an integer. NaN stays NaN.
    """
    form = format_of(x)
    moved = x + 1.5 * form.unit
    return moved - 1.5 * form.unit, moved.bits_as(form.words)


def split_exponent(bits: Value, form: Format) -> tuple[Value, Value]:
    """The biased exponents of two powers of two whose product is 2^n, from `nearest_integer`'s bits of n.

    Both powers are normal numbers, though 2^n itself may underflow or overflow.
    """
    offset = form.unit_bits + 2 ** (form.mantissa - 1)
    both = bits - (offset - 2 * form.bias)
    half = both >> 1
    return half, both - half


def power(biased: Value, form: Format) -> Value:
    """The power of two of a biased exponent."""
    return (biased << form.mantissa).bits_as(form.dtype)


def times_power(x: Value, bits: Value) -> Value:
    """The product of x and 2^n, from `nearest_integer`'s bits of n."""
    form = format_of(x)
    first, second = split_exponent(bits, form)
    return x * power(first, form) * power(second, form)


_ROOT_HALF = {DType.FLOAT32: 0x3F3504F3, DType.FLOAT64: 0x3FE6A09E667F3BCD}
"""The bits of the root of 1/2."""


def exponent_and_fraction(x: Value) -> tuple[Value, Value]:
    """(k, m) of a positive finite x = 2^k m, with m in [1/root 2, root 2). Both are floats.

    The bits of a subnormal number are read as an integer, so that machines that flush subnormal numbers do not lose it.
    """
    form = format_of(x)
    bits = x.bits_as(form.words)
    subnormal = bits < (1 << form.mantissa)
    scaled = (bits | form.unit_bits).bits_as(form.dtype) - form.unit
    bits = subnormal.where(scaled.bits_as(form.words), bits)
    moved = bits + (form.one_bits - _ROOT_HALF[form.dtype])
    k = ((moved >> form.mantissa) | form.unit_bits).bits_as(form.dtype) - (form.unit + form.bias)
    k = k - subnormal.where(x.like(form.bias + form.mantissa - 1), 0.0)
    m = ((moved & (2**form.mantissa - 1)) + _ROOT_HALF[form.dtype]).bits_as(form.dtype)
    return k, m


def is_zero(x: Value) -> Value:
    """Whether a float is 0 and not subnormal."""
    return (x.bits_as(format_of(x).words) << 1) == 0
