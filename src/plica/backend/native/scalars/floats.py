"""Bits of floats: what the formulas of float32 and float64 know of their formats.

Nothing here converts a float to an integer or back by an instruction: vectors of 64 bits have none on many machines.
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
        mantissa: Bits of the fraction.
        bias: What is added to exponents.
    """

    dtype: DType
    words: DType
    mantissa: int
    bias: int

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bias << self.mantissa

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def unit(self) -> float:
        """The number whose last place counts ones."""
        return float(2**self.mantissa)

    @property
    def unit_bits(self) -> int:
        """Its bits: with `n` in the fraction, those of `unit + n`."""
        return (self.bias + self.mantissa) << self.mantissa


FORMATS = {
    DType.FLOAT32: Format(DType.FLOAT32, DType.UINT32, 23, 127),
    DType.FLOAT64: Format(DType.FLOAT64, DType.UINT64, 52, 1023),
}


def format_of(x: Value) -> Format:
    """The format of a float32 or float64."""
    return FORMATS[x.dtype]


def nearest_whole(x: Value) -> tuple[Value, Value]:
    """The nearest whole number n, at most 2^(mantissa - 2), as a float, and as unsigned bits of n + 2^mantissa * 1.5.

    Adding a number of which the last place counts ones rounds to ones; NaN stays NaN.
    """
    form = format_of(x)
    moved = x + 1.5 * form.unit
    return moved - 1.5 * form.unit, moved.bits_as(form.words)


def whole_part(x: Value) -> Value:
    """X rounded towards 0, without an instruction that rounds so."""
    size, unit = abs(x), format_of(x).unit
    nearest = (size + unit) - unit
    below = (nearest > size).where(nearest - 1.0, nearest)
    return (size < unit).where(below.copysign(x), x)


def halves(bits: Value, form: Format) -> tuple[Value, Value]:
    """The biased exponents of two powers of two whose product is 2^n, from `nearest_whole`'s bits of n.

    Each is normal for every n that two exponents reach, so 2^n may be less or more than any float.
    """
    offset = form.unit_bits + 2 ** (form.mantissa - 1)
    both = bits - (offset - 2 * form.bias)
    half = both >> 1
    return half, both - half


def power(biased: Value, form: Format) -> Value:
    """The power of two of a biased exponent."""
    return (biased << form.mantissa).bits_as(form.dtype)


def times_power(x: Value, bits: Value) -> Value:
    """The product of x and 2^n, from `nearest_whole`'s bits of n."""
    form = format_of(x)
    first, second = halves(bits, form)
    return x * power(first, form) * power(second, form)


_ROOT_HALF = {DType.FLOAT32: 0x3F3504F3, DType.FLOAT64: 0x3FE6A09E667F3BCD}
"""The bits of the root of 1/2."""


def exponent_and_fraction(x: Value) -> tuple[Value, Value]:
    """Of a positive finite x, (k, m): x = 2^k m, m in [1/root 2, root 2). Both are floats.

    Subnormal numbers are read as whole numbers of their bits, so that they count where machines take them for 0.
    """
    form = format_of(x)
    bits = x.bits_as(form.words)
    subnormal = bits < (1 << form.mantissa)
    whole = (bits | form.unit_bits).bits_as(form.dtype) - form.unit
    bits = subnormal.where(whole.bits_as(form.words), bits)
    moved = bits + (form.one - _ROOT_HALF[form.dtype])
    k = ((moved >> form.mantissa) | form.unit_bits).bits_as(form.dtype) - (form.unit + form.bias)
    k = k - subnormal.where(x.like(form.bias + form.mantissa - 1), 0.0)
    m = ((moved & (2**form.mantissa - 1)) + _ROOT_HALF[form.dtype]).bits_as(form.dtype)
    return k, m


def is_zero(x: Value) -> Value:
    """Whether a float is 0 and not subnormal."""
    return (x.bits_as(format_of(x).words) << 1) == 0
