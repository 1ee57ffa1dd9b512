"""Arithmetic and conversions of complex numbers, over their real and imaginary parts."""

from collections.abc import Callable
from typing import NamedTuple

from plica.backend.native.scalars.builder import Scalar, ScalarCode
from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType
from plica.ops.rules import real_dtype


class Complex(NamedTuple):
    """The number `real + i imag`, of floats of one dtype."""

    real: Value
    imag: Value

    def __add__(self, other: "Complex") -> "Complex":  # type: ignore[override]
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: "Complex") -> "Complex":
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: "Complex") -> "Complex":  # type: ignore[override]
        real = self.real * other.real - self.imag * other.imag
        return Complex(real, self.real * other.imag + self.imag * other.real)

    def __truediv__(self, other: "Complex") -> "Complex":
        """Source: R. L. Smith, Algorithm 116: complex division, 1962."""
        wide = abs(other.real) >= abs(other.imag)
        larger, lesser = wide.where(other.real, other.imag), wide.where(other.imag, other.real)
        ratio = lesser / larger
        below = larger + lesser * ratio
        first, second = wide.where(self.real, self.imag), wide.where(self.imag, self.real)
        real = (first + second * ratio) / below
        imag = (second - first * ratio) / below
        quotient = Complex(real, wide.where(imag, -imag))
        zero = (other.real == 0.0) & (other.imag == 0.0)
        by_zero = Complex(self.real / abs(other.real), self.imag / abs(other.real))
        return where_complex(zero, by_zero, quotient)

    def __neg__(self) -> "Complex":
        return Complex(-self.real, -self.imag)

    def turned(self) -> "Complex":
        """This number times i."""
        return Complex(-self.imag, self.real)

    def turned_back(self) -> "Complex":
        """This number times -i."""
        return Complex(self.imag, -self.real)

    def conj(self) -> "Complex":
        """The conjugate."""
        return Complex(self.real, -self.imag)

    def scaled(self, factor: Value | float) -> "Complex":
        """This number times a real one."""
        return Complex(self.real * factor, self.imag * factor)


def where_complex(condition: Value, first: Complex, second: Complex) -> Complex:
    """The first number where the condition holds, else the second."""
    return Complex(condition.where(first.real, second.real), condition.where(first.imag, second.imag))


def split(code: ScalarCode, scalar: Scalar) -> Complex:
    """The parts of a complex number."""
    return Complex(*(Value(code, part) for part in code.parts(scalar)))


def applied(code: ScalarCode, name: str, *operands: Scalar) -> Scalar:
    """A sum, difference, product, quotient or negative of complex numbers."""
    result = _ARITHMETIC[name](*(split(code, operand) for operand in operands))
    return code.of_parts(result.real.scalar, result.imag.scalar)


_ARITHMETIC: dict[str, Callable[..., Complex]] = {
    "add": lambda z, w: z + w,
    "divide": lambda z, w: z / w,
    "multiply": lambda z, w: z * w,
    "negate": lambda z: -z,
    "subtract": lambda z, w: z - w,
}


def converted(code: ScalarCode, scalar: Scalar, dtype: DType) -> Scalar:
    """The number in another dtype: a complex number becomes real by its real part, and true if a part is not 0."""
    if scalar.dtype.kind != "complex":
        part = real_dtype(dtype)
        return code.of_parts(code.convert(scalar, part), code.constant(0, part))
    real, imag = code.parts(scalar)
    if dtype.kind == "bool":
        return code.or_(code.convert(real, dtype), code.convert(imag, dtype))
    if dtype.kind != "complex":
        return code.convert(real, dtype)
    return code.of_parts(code.convert(real, real_dtype(dtype)), code.convert(imag, real_dtype(dtype)))
