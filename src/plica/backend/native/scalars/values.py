"""Scalars with Python's operators, with which rows write their formulas.

>>> from plica.backend.native.scalars.llvm import LlvmScalars
>>> lines = []
>>> x = Value(LlvmScalars(lines), Scalar("%x", DType.FLOAT64))
>>> (x * x).sqrt().scalar.text
'%s2'
>>> lines
['%s1 = fmul double %x, %x', '%s2 = call double @llvm.sqrt.f64(double %s1)']
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Union

from plica.backend.native.scalars.builder import Application, Scalar, ScalarCode, Write
from plica.ir.dtypes import DType

Operand = Union["Value", float, int, bool]


class Value(NamedTuple):
    """A scalar and its code. Python numbers that are combined with it become constants of its dtype."""

    code: ScalarCode
    scalar: Scalar

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.scalar.dtype

    def like(self, value: float) -> "Value":
        """A constant of this dtype."""
        return Value(self.code, self.code.constant(value, self.dtype))

    def _of(self, other: Operand) -> Scalar:
        return other.scalar if isinstance(other, Value) else self.code.constant(other, self.dtype)

    def _apply(self, name: str, *operands: Operand) -> "Value":
        return Value(self.code, self.code.apply(name, self.scalar, *map(self._of, operands)))

    def __add__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._apply("add", other)

    def __radd__(self, other: Operand) -> "Value":
        return self._apply("add", other)

    def __sub__(self, other: Operand) -> "Value":
        return self._apply("subtract", other)

    def __rsub__(self, other: Operand) -> "Value":
        return Value(self.code, self._of(other)) - self

    def __mul__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._apply("multiply", other)

    def __rmul__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._apply("multiply", other)

    def __truediv__(self, other: Operand) -> "Value":
        return self._apply("divide", other)

    def __rtruediv__(self, other: Operand) -> "Value":
        return Value(self.code, self._of(other)) / self

    def __floordiv__(self, other: Operand) -> "Value":
        """The quotient of integers, rounded towards 0."""
        return self._apply("divide", other)

    def __mod__(self, other: Operand) -> "Value":
        """The remainder of `//`."""
        return self._apply("integer_remainder", other)

    def __neg__(self) -> "Value":
        return self._apply("negate")

    def __and__(self, other: Operand) -> "Value":
        return self._apply("and", other)

    def __or__(self, other: Operand) -> "Value":
        return self._apply("or", other)

    def __xor__(self, other: Operand) -> "Value":
        return self._apply("xor", other)

    def __invert__(self) -> "Value":
        return self._apply("xor", True if self.dtype == DType.BOOL else _ones(self.dtype))

    def __lshift__(self, other: Operand) -> "Value":
        return self._apply("shift_left", other)

    def __rshift__(self, other: Operand) -> "Value":
        return self._apply("shift_right", other)

    def _compare(self, kind: str, other: Operand) -> "Value":
        return Value(self.code, self.code.compare(kind, self.scalar, self._of(other)))

    def __lt__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("less", other)

    def __le__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("less_equal", other)

    def __gt__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("greater", other)

    def __ge__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("greater_equal", other)

    def __eq__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("equal", other)

    def __ne__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self._compare("not_equal", other)

    def __abs__(self) -> "Value":
        """The absolute value of a float."""
        return self._apply("absolute")

    def sqrt(self) -> "Value":
        """The root of a float."""
        return self._apply("sqrt")

    def floor(self) -> "Value":
        """The largest integral float that is not larger."""
        return self._apply("floor")

    def ceil(self) -> "Value":
        """The least integral float that is not less."""
        return self._apply("ceil")

    def trunc(self) -> "Value":
        """A float rounded towards 0."""
        return self._apply("trunc")

    def round_even(self) -> "Value":
        """The nearest integral float, the even one of two."""
        return self._apply("round_even")

    def copysign(self, other: Operand) -> "Value":
        """The absolute value of this float with the sign of another one."""
        return self._apply("copysign", other)

    def minimum(self, other: Operand) -> "Value":
        """The lesser of two numbers, or NaN."""
        return self._apply("minimum", other)

    def maximum(self, other: Operand) -> "Value":
        """The larger of two numbers, or NaN."""
        return self._apply("maximum", other)

    def times_plus(self, factor: Operand, term: Operand) -> "Value":
        """`self * factor + term`, rounded once or twice."""
        return self._apply("multiply_add", factor, term)

    def astype(self, dtype: DType) -> "Value":
        """The number in another dtype."""
        return Value(self.code, self.code.convert(self.scalar, dtype))

    def bits_as(self, dtype: DType) -> "Value":
        """The bits as another dtype of as many bits."""
        return Value(self.code, self.code.bitcast(self.scalar, dtype))

    def where(self, first: "Value", second: Operand) -> "Value":
        """`first` where this boolean holds, else `second`: both are computed."""
        return Value(self.code, self.code.select(self.scalar, first.scalar, first._of(second)))


Values = tuple[Value, ...]


def branch(condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """`then()` where the condition holds, else `otherwise()`: only one of them runs."""
    (value,) = branches(condition, lambda: (then(),), lambda: (otherwise(),))
    return value


def branches(condition: Value, then: Callable[[], Values], otherwise: Callable[[], Values]) -> Values:
    """Several values: those of `then()` where the condition holds, else those of `otherwise()`."""
    code = condition.code
    scalars = code.branch(
        condition.scalar,
        lambda: tuple(value.scalar for value in then()),
        lambda: tuple(value.scalar for value in otherwise()),
    )
    return tuple(Value(code, scalar) for scalar in scalars)


def shared(function: Callable[..., Value]) -> Callable[..., Value]:
    """The function, but a printer may compile it once and call it: for code that calls it often and has branches."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    def call(*operands: Value) -> Value:
        code = operands[0].code

        def write(code: ScalarCode, scalars: tuple[Scalar, ...]) -> Scalar:
            return function(*(Value(code, scalar) for scalar in scalars)).scalar

        return Value(code, code.shared(name, tuple(operand.scalar for operand in operands), write))

    return call


def lookup(table: Sequence[float], dtype: DType, index: Value) -> Value:
    """The entry of a table of constants at an integer index, which is within the table."""
    return Value(index.code, index.code.lookup(tuple(table), dtype, index.scalar))


def loop(
    start: Sequence[Value], going: Callable[..., Value], step: Callable[..., Sequence[Value]]
) -> tuple[Value, ...]:
    """The last state of `state = start; while going(*state): state = step(*state)`."""
    code = start[0].code

    def values(scalars: tuple[Scalar, ...]) -> list[Value]:
        return [Value(code, scalar) for scalar in scalars]

    last = code.loop(
        tuple(value.scalar for value in start),
        lambda *state: going(*values(state)).scalar,
        lambda *state: tuple(value.scalar for value in step(*values(state))),
    )
    return tuple(values(last))


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """`c[0] + c[1] x + c[2] x^2 + ...` by Horner's rule."""
    total = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.times_plus(x, coefficient)
    return total


def power_of_two(n: Value, dtype: DType) -> Value:
    """2^n as a float, for an integer n of as many bits; 2^n must be a normal number."""
    mantissa, bias = (52, 1023) if dtype.bits == 64 else (23, 127)
    return ((n + bias) << mantissa).bits_as(dtype)


def scaled(x: Value, n: Value) -> Value:
    """The product x 2^n, rounded once, for an integer n of as many bits within twice the range of exponents."""
    half = n >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(n - half, x.dtype)


def _ones(dtype: DType) -> int:
    return dtype.limits[1] if dtype.limits[0] == 0 else -1


def entry(function: Callable[..., Value]) -> Write:
    """The `write` of a row, from a function of `Value`s; float16 and bfloat16 are computed in float32."""

    def write(code: ScalarCode, application: Application) -> Scalar:
        operands = [Value(code, operand) for operand in application.operands]
        wide = [operand.astype(DType.FLOAT32) if is_half(operand.dtype) else operand for operand in operands]
        result = function(*wide)
        return result.astype(application.dtype).scalar if is_half(application.dtype) else result.scalar

    return write


def is_half(dtype: DType) -> bool:
    """Whether a dtype is a float of 16 bits."""
    return dtype.kind == "float" and dtype.bits == 16


def words(dtype: DType) -> DType:
    """The signed integer dtype with as many bits as a float."""
    return {16: DType.INT16, 32: DType.INT32, 64: DType.INT64}[dtype.bits]
