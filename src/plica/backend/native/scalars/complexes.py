"""Rows of complex numbers: formulas over their real and imaginary parts; complex64 is computed in float64.

Source: W. Kahan, Branch cuts for complex elementary functions, 1987: sides of branch cuts are those of signed zeros.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from plica.backend.native.scalars.builder import Call, Scalar, ScalarCode, Write
from plica.backend.native.scalars.exponentials import exp, expm1
from plica.backend.native.scalars.hyperbolic import asinh, cosh, hypot, sinh
from plica.backend.native.scalars.logarithms import log, log1p
from plica.backend.native.scalars.trigonometric import atan2, cos, sin
from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType

PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
"""The dtype of the parts."""


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
        found = Complex(real, wide.where(imag, -imag))
        zero = (other.real == 0.0) & (other.imag == 0.0)
        by_zero = Complex(self.real / abs(other.real), self.imag / abs(other.real))
        return zero_or(zero, by_zero, found)

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


Found = Complex | Value


def zero_or(condition: Value, first: Complex, second: Complex) -> Complex:
    """The first number where the condition holds, else the second."""
    return Complex(condition.where(first.real, second.real), condition.where(first.imag, second.imag))


def _size(z: Complex) -> Value:
    return hypot(z.real, z.imag)


def _plus_one(z: Complex) -> Complex:
    return Complex(z.real + 1.0, z.imag)


def _one_minus(z: Complex) -> Complex:
    return Complex(1.0 - z.real, -z.imag)


def _exp(z: Complex) -> Complex:
    size = exp(z.real)
    real = (z.imag == 0.0).where(size, size * cos(z.imag))
    return Complex(real, (z.imag == 0.0).where(z.imag, size * sin(z.imag)))


def _expm1(z: Complex) -> Complex:
    half = sin(z.imag * 0.5)
    real = expm1(z.real) * cos(z.imag) - 2.0 * half * half
    return Complex(real, (z.imag == 0.0).where(z.imag, exp(z.real) * sin(z.imag)))


def _log(z: Complex) -> Complex:
    size = _size(z)
    larger, lesser = abs(z.real).maximum(abs(z.imag)), abs(z.real).minimum(abs(z.imag))
    near = (size > 0.5) & (size < 2.0)
    beside = 0.5 * log1p((larger - 1.0) * (larger + 1.0) + lesser * lesser)
    return Complex(near.where(beside, log(size)), atan2(z.imag, z.real))


def _log1p(z: Complex) -> Complex:
    near = abs(z.real) + abs(z.imag) < 0.5
    beside = 0.5 * log1p(z.real * (2.0 + z.real) + z.imag * z.imag)
    found = _log(_plus_one(z))
    return Complex(near.where(beside, found.real), found.imag)


def _sqrt(z: Complex) -> Complex:
    size = abs(z.real)
    scale = (size.maximum(abs(z.imag)) > 1e300).where(size.like(2.0**-4), 1.0)
    root = ((hypot(z.real * scale, z.imag * scale) + size * scale) * 0.5 / scale).sqrt()
    other = abs(z.imag) / (root + root)
    zero = root == 0.0
    right = z.real >= 0.0
    real = zero.where(root, right.where(root, other))
    imag = zero.where(root, right.where(other, root))
    infinite = abs(z.imag) == math.inf
    return Complex(
        infinite.where(size.like(math.inf), real), infinite.where(size.like(math.inf), imag).copysign(z.imag)
    )


def _sin(z: Complex) -> Complex:
    return Complex(sin(z.real) * cosh(z.imag), cos(z.real) * sinh(z.imag))


def _cos(z: Complex) -> Complex:
    return Complex(cos(z.real) * cosh(z.imag), -(sin(z.real) * sinh(z.imag)))


def _tanh(z: Complex) -> Complex:
    far = abs(z.real) > 20.0
    width = far.where(z.real.like(1.0), z.real)
    sine, cosine, grown = sin(z.imag), cos(z.imag), sinh(width)
    below = grown * grown + cosine * cosine
    small = 4.0 * sine * cosine * exp(-2.0 * abs(z.real))
    real = far.where(z.real.like(1.0).copysign(z.real), grown * cosh(width) / below)
    return Complex(real, far.where(small, sine * cosine / below))


def _asin(z: Complex) -> Complex:
    below, above = _sqrt(_one_minus(z)), _sqrt(_plus_one(z))
    return Complex(atan2(z.real, (below * above).real), asinh((below.conj() * above).imag))


def _acos(z: Complex) -> Complex:
    below, above = _sqrt(_one_minus(z)), _sqrt(_plus_one(z))
    return Complex(2.0 * atan2(below.real, above.real), asinh((above.conj() * below).imag))


def _acosh(z: Complex) -> Complex:
    below, above = _sqrt(Complex(z.real - 1.0, z.imag)), _sqrt(_plus_one(z))
    return Complex(asinh((below.conj() * above).real), 2.0 * atan2(below.imag, above.real))


def _atanh(z: Complex) -> Complex:
    x, y = z.real, z.imag
    rest = 1.0 - abs(x)
    real = 0.25 * log1p(4.0 * abs(x) / (rest * rest + y * y))
    return Complex(real.copysign(x), 0.5 * atan2(2.0 * y, rest * (1.0 + abs(x)) - y * y))


def _pow(z: Complex, exponent: Complex) -> Complex:
    found = _exp(_log(z) * exponent)
    none = (exponent.real == 0.0) & (exponent.imag == 0.0)
    one, zero = z.real.like(1.0), z.real.like(0.0)
    found = zero_or((z.real == 0.0) & (z.imag == 0.0), Complex(zero, zero), found)
    return zero_or(none, Complex(one, zero), found)


def _sign(z: Complex) -> Complex:
    size = _size(z)
    safe = (size == 0.0).where(size.like(1.0), size)
    return Complex(z.real / safe, z.imag / safe)


def _one(z: Complex) -> Complex:
    return Complex(z.real.like(1.0), z.real.like(0.0))


def _finite(x: Value) -> Value:
    return abs(x) < math.inf


def _infinite(x: Value) -> Value:
    return abs(x) == math.inf


FORMULAS: dict[str, Callable[..., Found]] = {
    "abs": _size,
    "acos": _acos,
    "acosh": _acosh,
    "add": lambda z, w: z + w,
    "asin": _asin,
    "asinh": lambda z: _asin(z.turned()).turned_back(),
    "atan": lambda z: _atanh(z.turned()).turned_back(),
    "atanh": _atanh,
    "conj": lambda z: z.conj(),
    "cos": _cos,
    "cosh": lambda z: _cos(z.turned()),
    "divide": lambda z, w: z / w,
    "equal": lambda z, w: (z.real == w.real) & (z.imag == w.imag),
    "exp": _exp,
    "expm1": _expm1,
    "imag": lambda z: z.imag,
    "isfinite": lambda z: _finite(z.real) & _finite(z.imag),
    "isinf": lambda z: _infinite(z.real) | _infinite(z.imag),
    "isnan": lambda z: (z.real != z.real) | (z.imag != z.imag),
    "log": _log,
    "log10": lambda z: _log(z).scaled(1 / math.log(10)),
    "log1p": _log1p,
    "log2": lambda z: _log(z).scaled(1 / math.log(2)),
    "multiply": lambda z, w: z * w,
    "negative": lambda z: -z,
    "not_equal": lambda z, w: (z.real != w.real) | (z.imag != w.imag),
    "pow": _pow,
    "real": lambda z: z.real,
    "reciprocal": lambda z: _one(z) / z,
    "round": lambda z: Complex(z.real.round_even(), z.imag.round_even()),
    "safe_log": _log,
    "sign": _sign,
    "sin": _sin,
    "sinh": lambda z: _sin(z.turned()).turned_back(),
    "sqrt": _sqrt,
    "square": lambda z: z * z,
    "stop_gradient": lambda z: z,
    "subtract": lambda z, w: z - w,
    "tan": lambda z: _tanh(z.turned()).turned_back(),
    "tanh": _tanh,
}
EXACTLY_IN_PARTS = frozenset({"add", "subtract", "multiply", "negative", "conj", "real", "imag", "stop_gradient"})
"""Formulas that are not computed in float64 for complex64."""


def _split(code: ScalarCode, scalar: Scalar) -> Complex:
    return Complex(*(Value(code, part) for part in code.parts(scalar)))


def complex_entry(name: str) -> Write:
    """The `write` of a formula of complex operands."""

    def write(code: ScalarCode, call: Call) -> Scalar:
        operands = [_split(code, one) for one in call.operands]
        if name not in EXACTLY_IN_PARTS:
            operands = [Complex(z.real.astype(DType.FLOAT64), z.imag.astype(DType.FLOAT64)) for z in operands]
        found = FORMULAS[name](*operands)
        if isinstance(found, Value):
            return found.astype(call.dtype).scalar
        part = PARTS[call.dtype]
        return code.of_parts(found.real.astype(part).scalar, found.imag.astype(part).scalar)

    return write


def where_of_complex(code: ScalarCode, call: Call) -> Scalar:
    """One of two complex numbers."""
    return code.select(*call.operands)


def astype_of_complex(code: ScalarCode, call: Call) -> Scalar:
    """To a complex number from any, and to a real one by its real part."""
    (given,) = call.operands
    real, imag = code.parts(given) if given.dtype.kind == "complex" else (given, None)
    if call.dtype.kind != "complex":
        return code.convert(real, call.dtype)
    part = PARTS[call.dtype]
    other = code.constant(0, part) if imag is None else code.convert(imag, part)
    return code.of_parts(code.convert(real, part), other)


COMPLEX: dict[str, Write] = {
    **{name: complex_entry(name) for name in FORMULAS},
    "where": where_of_complex,
    "astype": astype_of_complex,
}
