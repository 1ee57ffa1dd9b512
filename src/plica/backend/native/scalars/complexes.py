"""Rows of complex numbers: formulas over their real and imaginary parts; complex64 is computed in float64.

Source: W. Kahan, Branch cuts for complex elementary functions, 1987: sides of branch cuts are those of signed zeros.
"""

import math
from collections.abc import Callable

from plica.backend.native.scalars.builder import Application, Scalar, ScalarCode, Write
from plica.backend.native.scalars.complex_arithmetic import Complex, converted, split, where_complex
from plica.backend.native.scalars.exponentials import exp, expm1
from plica.backend.native.scalars.hyperbolic import asinh, cosh, hypot, sinh
from plica.backend.native.scalars.logarithms import log, log1p
from plica.backend.native.scalars.trigonometric import atan2, cos, sin
from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType
from plica.ops.rules import real_dtype

Result = Complex | Value
_LARGE = 1e150  # its square is finite


def _size(z: Complex) -> Value:
    return hypot(z.real, z.imag)


def _plus_one(z: Complex) -> Complex:
    return Complex(z.real + 1.0, z.imag)


def _one_minus(z: Complex) -> Complex:
    return Complex(1.0 - z.real, -z.imag)


def _exp(z: Complex) -> Complex:
    magnitude = exp(z.real)
    is_zero = z.real == -math.inf  # whatever the angle is
    real = ((z.imag == 0.0) | is_zero).where(magnitude, magnitude * cos(z.imag))
    return Complex(real, (z.imag == 0.0).where(z.imag, is_zero.where(magnitude, magnitude * sin(z.imag))))


def _expm1(z: Complex) -> Complex:
    half = sin(z.imag * 0.5)
    real = expm1(z.real) * cos(z.imag) - 2.0 * half * half
    return Complex(real, (z.imag == 0.0).where(z.imag, exp(z.real) * sin(z.imag)))


def _log(z: Complex) -> Complex:
    magnitude = _size(z)
    larger, lesser = abs(z.real).maximum(abs(z.imag)), abs(z.real).minimum(abs(z.imag))
    near = (magnitude > 0.5) & (magnitude < 2.0)
    beside = 0.5 * log1p((larger - 1.0) * (larger + 1.0) + lesser * lesser)
    return Complex(near.where(beside, log(magnitude)), atan2(z.imag, z.real))


def _log1p(z: Complex) -> Complex:
    near = abs(z.real) + abs(z.imag) < 0.5
    beside = 0.5 * log1p(z.real * (2.0 + z.real) + z.imag * z.imag)
    logarithm = _log(_plus_one(z))
    return Complex(near.where(beside, logarithm.real), logarithm.imag)


def _sqrt(z: Complex) -> Complex:
    magnitude = abs(z.real)
    large = magnitude.maximum(abs(z.imag)) > 1e300
    scale = large.where(magnitude.like(2.0**-4), 1.0)
    root = ((hypot(z.real * scale, z.imag * scale) + magnitude * scale) * 0.5).sqrt() * large.where(
        magnitude.like(4.0), 1.0
    )
    quotient = abs(z.imag) / (root + root)
    zero = root == 0.0
    right = z.real >= 0.0
    real = zero.where(root, right.where(root, quotient))
    imag = zero.where(root, right.where(quotient, root))
    infinite = abs(z.imag) == math.inf
    return Complex(
        infinite.where(magnitude.like(math.inf), real), infinite.where(magnitude.like(math.inf), imag).copysign(z.imag)
    )


def _sin(z: Complex) -> Complex:
    return Complex(_times_growing(sin(z.real), cosh(z.imag)), cos(z.real) * sinh(z.imag))


def _cos(z: Complex) -> Complex:
    return Complex(cos(z.real) * cosh(z.imag), -_times_growing(sin(z.real), sinh(z.imag)))


def _times_growing(x: Value, factor: Value) -> Value:
    """The product x * factor, 0 where x is 0 even if the factor is infinite."""
    return (x == 0.0).where(x * x.like(1.0).copysign(factor), x * factor)


def _tanh(z: Complex) -> Complex:
    far = abs(z.real) > 20.0
    width = far.where(z.real.like(1.0), z.real)
    sine, cosine, grown = sin(z.imag), cos(z.imag), sinh(width)
    below = grown * grown + cosine * cosine
    small = 4.0 * sine * cosine * exp(-2.0 * abs(z.real))
    real = far.where(z.real.like(1.0).copysign(z.real), grown * cosh(width) / below)
    return Complex(real, far.where(small, sine * cosine / below))


def _asin(z: Complex) -> Complex:
    z, infinite = _within(z)
    below, above = _sqrt(_one_minus(z)), _sqrt(_plus_one(z))
    imag = asinh((below.conj() * above).imag)
    return Complex(atan2(z.real, (below * above).real), _infinite_where(infinite, imag))


def _acos(z: Complex) -> Complex:
    z, infinite = _within(z)
    below, above = _sqrt(_one_minus(z)), _sqrt(_plus_one(z))
    imag = asinh((above.conj() * below).imag)
    return Complex(2.0 * atan2(below.real, above.real), _infinite_where(infinite, imag))


def _acosh(z: Complex) -> Complex:
    z, infinite = _within(z)
    below, above = _sqrt(Complex(z.real - 1.0, z.imag)), _sqrt(_plus_one(z))
    real = asinh((below.conj() * above).real)
    return Complex(_infinite_where(infinite, real), 2.0 * atan2(below.imag, above.real))


def _within(z: Complex) -> tuple[Complex, Value]:
    """A finite number with the angle of z, and whether z is infinite."""
    infinite = _infinite(z.real) | _infinite(z.imag)
    parts = [
        infinite.where(_infinite(x).where(x.like(_LARGE).copysign(x), x * 0.0), x)  # NaN stays NaN
        for x in (z.real, z.imag)
    ]
    return Complex(*parts), infinite


def _infinite_where(infinite: Value, x: Value) -> Value:
    return infinite.where(x.like(math.inf).copysign(x), x)


def _atanh(z: Complex) -> Complex:
    x, y = z.real, z.imag
    magnitude = abs(x)
    complement = 1.0 - magnitude
    distance_to_one = hypot(complement, y)
    near, far = distance_to_one < 1 / _LARGE, magnitude.maximum(abs(y)) > _LARGE
    real = near.where(
        log(4.0 * magnitude) - 2.0 * log(distance_to_one), log1p(magnitude / distance_to_one * 4.0 / distance_to_one)
    )
    real = 0.25 * _infinite(magnitude).where(x.like(0.0), real)
    imag = 0.5 * atan2(2.0 * y, complement * (1.0 + magnitude) - y * y)
    return Complex(real.copysign(x), far.where(x.like(0.5 * math.pi).copysign(y), imag))


def _pow(z: Complex, exponent: Complex) -> Complex:
    power = _exp(_log(z) * exponent)
    is_zero = (exponent.real == 0.0) & (exponent.imag == 0.0)
    one, zero = z.real.like(1.0), z.real.like(0.0)
    power = where_complex((z.real == 0.0) & (z.imag == 0.0), Complex(zero, zero), power)
    return where_complex(is_zero, Complex(one, zero), power)


def _sign(z: Complex) -> Complex:
    magnitude = _size(z)
    safe = (magnitude == 0.0).where(magnitude.like(1.0), magnitude)

    def part(x: Value, other: Value) -> Value:
        return _infinite(x).where(x.like(1.0).copysign(x) + other * 0.0, x / safe)  # NaN where both are infinite

    return Complex(part(z.real, z.imag), part(z.imag, z.real))


def _unit(z: Complex) -> Complex:
    return Complex(z.real.like(1.0), z.real.like(0.0))


def _finite(x: Value) -> Value:
    return abs(x) < math.inf


def _infinite(x: Value) -> Value:
    return abs(x) == math.inf


FORMULAS: dict[str, Callable[..., Result]] = {
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
    "reciprocal": lambda z: _unit(z) / z,
    "round": lambda z: Complex(z.real.round_even(), z.imag.round_even()),
    "safe_log": _log,
    "sign": _sign,
    "sin": _sin,
    "sinh": lambda z: _sin(z.turned()).turned_back(),
    "sqrt": _sqrt,
    "square": lambda z: z * z,
    "copy": lambda z: z,
    "stop_gradient": lambda z: z,
    "subtract": lambda z, w: z - w,
    "tan": lambda z: _tanh(z.turned()).turned_back(),
    "tanh": _tanh,
}
EXACTLY_IN_PARTS = frozenset(
    {"add", "subtract", "multiply", "negative", "conj", "real", "imag", "copy", "stop_gradient"}
)
"""Formulas that compute with the dtype of their operands; all others compute complex64 in float64."""


def complex_entry(name: str) -> Write:
    """The `write` of a formula of complex operands."""

    def write(code: ScalarCode, application: Application) -> Scalar:
        operands = [split(code, operand) for operand in application.operands]
        if name not in EXACTLY_IN_PARTS:
            operands = [Complex(z.real.astype(DType.FLOAT64), z.imag.astype(DType.FLOAT64)) for z in operands]
        result = FORMULAS[name](*operands)
        if isinstance(result, Value):
            return result.astype(application.dtype).scalar
        part = real_dtype(application.dtype)
        return code.of_parts(result.real.astype(part).scalar, result.imag.astype(part).scalar)

    return write


def where_of_complex(code: ScalarCode, application: Application) -> Scalar:
    """A choice between two complex numbers."""
    return code.select(*application.operands)


def astype_of_complex(code: ScalarCode, application: Application) -> Scalar:
    """A conversion to or from complex numbers."""
    return converted(code, application.operands[0], application.dtype)


COMPLEX: dict[str, Write] = {
    **{name: complex_entry(name) for name in FORMULAS},
    "where": where_of_complex,
    "astype": astype_of_complex,
}
