"""Scalar code, written once for two printers: what a row of `SCALARS` writes, and what it writes it with.

A row computes one entry of a result from one entry of each operand by methods of a `ScalarCode`, and does not see
whether they print MLIR (`mlir.py`) or LLVM (`llvm.py`). Nothing calls a library of mathematics: files link none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of scalar code: how the printer refers to it, and its dtype (DType.BOOL is one bit)."""

    text: str
    dtype: DType


Body = Callable[..., tuple[Scalar, ...]]


def family(dtype: DType) -> str:
    """Which instructions compute with a dtype: `float`, `signed`, `unsigned`, `bool` or `complex`."""
    if dtype.kind != "int":
        return dtype.kind
    return "unsigned" if dtype.value.startswith("u") else "signed"


class ScalarCode(ABC):
    """Writes instructions, each at the end of what was written before.

    Operands of one instruction have one dtype. Integers wrap around. A shift by as many bits as there are, or more, an
    integer division by 0, and the conversion of a float that does not fit have no defined result: rows avoid them.
    Nothing is fused or reordered, but for `multiply_add`.
    """

    @abstractmethod
    def constant(self, value: complex, dtype: DType) -> Scalar:
        """A number, exactly: NaN, infinities and -0.0 too."""

    @abstractmethod
    def apply(self, name: str, *operands: Scalar) -> Scalar:
        """The instruction `name` of operands of one dtype, which the result has too: see the methods below."""

    @abstractmethod
    def compare(self, kind: str, a: Scalar, b: Scalar) -> Scalar:
        """Whether a is `equal`, `not_equal`, `less`, `less_equal`, `greater` or `greater_equal` to b.

        Comparisons with NaN are false, but for `not_equal`.
        """

    @abstractmethod
    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """The value a where the condition holds, else b; both are computed."""

    @abstractmethod
    def convert(self, a: Scalar, dtype: DType) -> Scalar:
        """The number in another dtype: integers wrap around, floats round to even and to integers towards 0."""

    @abstractmethod
    def bitcast(self, a: Scalar, dtype: DType) -> Scalar:
        """The bits as another dtype of as many bits."""

    @abstractmethod
    def branch(self, condition: Scalar, then: Body, otherwise: Body) -> tuple[Scalar, ...]:
        """The values of `then()` where the condition holds, else of `otherwise()`: only one of them runs.

        What holds a branch or a loop is not vectorized: functions on hot paths use `select`.
        """

    @abstractmethod
    def loop(self, start: tuple[Scalar, ...], going: Callable[..., Scalar], step: Body) -> tuple[Scalar, ...]:
        """`state = start; while going(*state): state = step(*state)`, and the last state."""

    def parts(self, a: Scalar) -> tuple[Scalar, Scalar]:
        """The real and the imaginary part of a complex number, for printers that have them."""
        raise UnsupportedError(f"{type(self).__name__} prints no complex numbers, found {a.dtype}.")

    def of_parts(self, real: Scalar, imag: Scalar) -> Scalar:
        """The complex number of two floats of 32 or 64 bits, for printers that have them."""
        raise UnsupportedError(f"{type(self).__name__} prints no complex numbers, found {real.dtype}, {imag.dtype}.")

    @abstractmethod
    def lookup(self, table: tuple[complex, ...], dtype: DType, index: Scalar) -> Scalar:
        """The entry of a table of constants at an integer index, which is inside."""

    @abstractmethod
    def shared(self, name: str, operands: tuple[Scalar, ...], write: "Shared") -> Scalar:
        """What `write(code, operands)` gives, which may be compiled once and called: all calls of a name are alike."""

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        """The sum a + b of numbers."""
        return self.apply("add", a, b)

    def subtract(self, a: Scalar, b: Scalar) -> Scalar:
        """The difference a - b of numbers."""
        return self.apply("subtract", a, b)

    def multiply(self, a: Scalar, b: Scalar) -> Scalar:
        """The product a b of numbers."""
        return self.apply("multiply", a, b)

    def divide(self, a: Scalar, b: Scalar) -> Scalar:
        """The quotient a / b; of integers rounded towards 0."""
        return self.apply("divide", a, b)

    def integer_remainder(self, a: Scalar, b: Scalar) -> Scalar:
        """What a truncating division of integers leaves, with the sign of a."""
        return self.apply("integer_remainder", a, b)

    def negate(self, a: Scalar) -> Scalar:
        """-a of numbers."""
        return self.apply("negate", a)

    def multiply_add(self, a: Scalar, b: Scalar, c: Scalar) -> Scalar:
        """The sum a b + c of floats, rounded once where the machine does so at no cost, else twice."""
        return self.apply("multiply_add", a, b, c)

    def absolute(self, a: Scalar) -> Scalar:
        """|a| of a float."""
        return self.apply("absolute", a)

    def sqrt(self, a: Scalar) -> Scalar:
        """The root of a float, correctly rounded."""
        return self.apply("sqrt", a)

    def copysign(self, a: Scalar, b: Scalar) -> Scalar:
        """|a| with the sign of b, of floats."""
        return self.apply("copysign", a, b)

    def floor(self, a: Scalar) -> Scalar:
        """The largest whole float that is not larger."""
        return self.apply("floor", a)

    def ceil(self, a: Scalar) -> Scalar:
        """The least whole float that is not less."""
        return self.apply("ceil", a)

    def trunc(self, a: Scalar) -> Scalar:
        """The whole part of a float."""
        return self.apply("trunc", a)

    def round_even(self, a: Scalar) -> Scalar:
        """The nearest whole float, the even one of two."""
        return self.apply("round_even", a)

    def minimum(self, a: Scalar, b: Scalar) -> Scalar:
        """The lesser number; NaN if one is NaN."""
        return self.apply("minimum", a, b)

    def maximum(self, a: Scalar, b: Scalar) -> Scalar:
        """The larger number; NaN if one is NaN."""
        return self.apply("maximum", a, b)

    def and_(self, a: Scalar, b: Scalar) -> Scalar:
        """Bits of integers or booleans that both have."""
        return self.apply("and", a, b)

    def or_(self, a: Scalar, b: Scalar) -> Scalar:
        """Bits of integers or booleans that one has."""
        return self.apply("or", a, b)

    def xor(self, a: Scalar, b: Scalar) -> Scalar:
        """Bits of integers or booleans in which they differ."""
        return self.apply("xor", a, b)

    def shift_left(self, a: Scalar, b: Scalar) -> Scalar:
        """The product a 2^b of integers, for b in 0 to bits - 1."""
        return self.apply("shift_left", a, b)

    def shift_right(self, a: Scalar, b: Scalar) -> Scalar:
        """The quotient a / 2^b of integers, rounded down, for b in 0 to bits - 1."""
        return self.apply("shift_right", a, b)


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of an operation: an entry of each operand, the dtype of the result, and the parameters."""

    operands: tuple[Scalar, ...]
    dtype: DType
    params: Mapping[str, Any] = field(default_factory=dict)


Write = Callable[[ScalarCode, Call], Scalar]
Shared = Callable[[ScalarCode, tuple[Scalar, ...]], Scalar]


@dataclass(frozen=True, slots=True)
class Failure:
    """When an operation raises an error: `found(code, call)` is a boolean; what the error says."""

    found: Write
    message: str


@dataclass(frozen=True, slots=True)
class ScalarRow:
    """How one entry of an elementwise operation is computed.

    Args:
        write: `write(code, call)` writes the instructions and returns the entry; it never traps.
        ulps: By how many units in the last place results of float32 and of float64 may differ from the exact ones; 0 if
            they are exact, or rounded once, as those of sums are.
        failure: When the operation raises an error, whatever `write` gives then.
        relative_to: The number whose last place counts.
    """

    write: Write
    ulps: tuple[float, float] = (0.0, 0.0)
    failure: Failure | None = None
    relative_to: str = "the result"

    @property
    def is_rounded(self) -> bool:
        """Whether results may differ from the exact ones: then products may be rounded together with sums."""
        return max(self.ulps) > 0


def is_complex(call: Call) -> bool:
    """Whether an operand of a call or its result is complex."""
    return any(dtype.kind == "complex" for dtype in (*(one.dtype for one in call.operands), call.dtype))


def refuse_complex(name: str, call: Call) -> None:
    """Check that nothing of a call is complex, for printers that have no complex numbers.

    Raises:
        UnsupportedError: An operand or the result is.
    """
    if is_complex(call):
        raise UnsupportedError(
            f"native code of {name} of complex numbers is not written: pass real and imaginary parts instead."
        )


def no_reals(name: str) -> Write:
    """The `write` of an operation of complex numbers alone, for others."""

    def write(code: ScalarCode, call: Call) -> Scalar:
        del code
        found = ", ".join(str(one.dtype) for one in call.operands)
        raise UnsupportedError(f"{name} takes complex numbers, found {found}.")

    return write
