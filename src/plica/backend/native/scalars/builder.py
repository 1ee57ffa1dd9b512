"""`ScalarCode`, the interface with which rows of `SCALARS` write scalar code, and the rows' dataclasses.

A row computes one entry of a result from one entry of each operand, by methods of a `ScalarCode`. Each row is written
once for two printers: LLVM (`llvm.py`) and StableHLO (`stablehlo/scalars.py`). No row calls a library of mathematics,
since files link none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of scalar code: its name in the printer's text, and its dtype (DType.BOOL is one bit)."""

    text: str
    dtype: DType


Body = Callable[..., tuple[Scalar, ...]]


def family(dtype: DType) -> str:
    """The family of dtypes that share instructions: `float`, `signed`, `unsigned`, `bool` or `complex`."""
    if dtype.kind != "int":
        return dtype.kind
    return "unsigned" if dtype.value.startswith("u") else "signed"


class ScalarCode(ABC):
    """Appends instructions to code.

    Operands of one instruction have one dtype. Integers wrap around. Some results are undefined, and rows avoid them: a
    shift by all bits or more, an integer division by 0, the conversion of a float that does not fit. No instructions
    are fused or reordered, except by `multiply_add`.
    """

    @abstractmethod
    def constant(self, value: complex, dtype: DType) -> Scalar:
        """A number, exactly, including NaN, infinities and -0.0."""

    @abstractmethod
    def apply(self, name: str, *operands: Scalar) -> Scalar:
        """The result of an instruction, in the dtype of its operands.

        Args:
            name: One of these.
                Numbers: `add`, `subtract`, `multiply`, `divide` (integers round towards 0), `negate`, `minimum` and
                `maximum` (NaN if one is NaN).
                Integers: `integer_remainder` (that of `divide`, with the sign of the first operand), `shift_left`,
                `shift_right` (which rounds down), by 0 to bits - 1.
                Integers and booleans: `and`, `or`, `xor`.
                Floats: `multiply_add` (a b + c, rounded once if that costs nothing, else twice), `absolute`, `sqrt`
                (correctly rounded), `copysign` (the absolute value of the first operand, the sign of the second),
                `floor`, `ceil`, `trunc`, `round_even`.
            operands: Of one dtype.
        """

    @abstractmethod
    def compare(self, kind: str, a: Scalar, b: Scalar) -> Scalar:
        """Whether a is `equal`, `not_equal`, `less`, `less_equal`, `greater` or `greater_equal` to b.

        Comparisons with NaN are false, except `not_equal`.
        """

    @abstractmethod
    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """The value a where the condition holds, else b; both are computed."""

    @abstractmethod
    def convert(self, a: Scalar, dtype: DType) -> Scalar:
        """The number in another dtype: integers wrap around, floats round to even, floats become integers towards 0."""

    @abstractmethod
    def bitcast(self, a: Scalar, dtype: DType) -> Scalar:
        """The bits as another dtype of as many bits."""

    @abstractmethod
    def branch(self, condition: Scalar, then: Body, otherwise: Body) -> tuple[Scalar, ...]:
        """The values of `then()` where the condition holds, else of `otherwise()`: only one of them runs.

        Loops with a branch or a loop inside are not vectorized: functions on hot paths use `select`.
        """

    @abstractmethod
    def loop(self, start: tuple[Scalar, ...], going: Callable[..., Scalar], step: Body) -> tuple[Scalar, ...]:
        """The last state of `state = start; while going(*state): state = step(*state)`."""

    def parts(self, a: Scalar) -> tuple[Scalar, Scalar]:
        """The real and the imaginary part of a complex number, in printers with complex numbers."""
        raise UnsupportedError(f"{type(self).__name__} cannot print complex numbers, found {a.dtype}.")

    def of_parts(self, real: Scalar, imag: Scalar) -> Scalar:
        """The complex number of two floats of 32 or 64 bits, in printers with complex numbers."""
        raise UnsupportedError(f"{type(self).__name__} cannot print complex numbers, found {real.dtype}, {imag.dtype}.")

    @abstractmethod
    def lookup(self, table: tuple[complex, ...], dtype: DType, index: Scalar) -> Scalar:
        """The entry of a table of constants at an integer index, which is within the table."""

    @abstractmethod
    def shared(self, name: str, operands: tuple[Scalar, ...], write: "Shared") -> Scalar:
        """The result of `write(code, operands)`. A printer may compile it once for each name, and call it."""

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        """The sum a + b of numbers."""
        return self.apply("add", a, b)

    def subtract(self, a: Scalar, b: Scalar) -> Scalar:
        """The difference a - b of numbers."""
        return self.apply("subtract", a, b)

    def multiply(self, a: Scalar, b: Scalar) -> Scalar:
        """The product a b of numbers."""
        return self.apply("multiply", a, b)

    def absolute(self, a: Scalar) -> Scalar:
        """|a| of a float."""
        return self.apply("absolute", a)

    def floor(self, a: Scalar) -> Scalar:
        """The largest integral float that is not larger."""
        return self.apply("floor", a)

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
        """Bits of integers or booleans that one of them has."""
        return self.apply("or", a, b)

    def shift_right(self, a: Scalar, b: Scalar) -> Scalar:
        """The quotient a / 2^b of integers, rounded down, for b in 0 to bits - 1."""
        return self.apply("shift_right", a, b)


@dataclass(frozen=True, slots=True)
class Application:
    """The computation of one entry: an entry of each operand, the dtype of the result, and the parameters."""

    operands: tuple[Scalar, ...]
    dtype: DType
    params: Mapping[str, Any] = field(default_factory=dict)


Write = Callable[[ScalarCode, Application], Scalar]
Shared = Callable[[ScalarCode, tuple[Scalar, ...]], Scalar]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of an operation: `is_raised(code, application)` is true where it is raised, with `message`."""

    is_raised: Write
    message: str


@dataclass(frozen=True, slots=True)
class ScalarRow:
    """The scalar code of an elementwise operation.

    Args:
        write: `write(code, application)` writes the instructions and returns the entry; it never traps.
        ulps: By how many units in the last place results of float32 and of float64 may differ from the exact ones; 0 if
            they are exact, or rounded once, as sums are.
        failure: The error that the operation raises; its entries are undefined then.
        relative_to: The number in whose last place `ulps` are counted, in words.
    """

    write: Write
    ulps: tuple[float, float] = (0.0, 0.0)
    failure: Failure | None = None
    relative_to: str = "the result"

    @property
    def is_rounded(self) -> bool:
        """Whether results may differ from the exact ones; if so, a product and a sum may be rounded together."""
        return max(self.ulps) > 0


def is_complex(application: Application) -> bool:
    """Whether an operand or the result of an application is complex."""
    return any(
        dtype.kind == "complex" for dtype in (*(operand.dtype for operand in application.operands), application.dtype)
    )


def refuse_complex(name: str, application: Application) -> None:
    """Check that neither operands nor result are complex.

    Raises:
        UnsupportedError: An operand or the result is complex.
    """
    if is_complex(application):
        raise UnsupportedError(
            f"the operation {name} has no native code for complex numbers; pass real and imaginary parts instead."
        )


def no_reals(name: str) -> Write:
    """The `write` of an operation of complex numbers for real numbers: it refuses them."""

    def write(code: ScalarCode, application: Application) -> Scalar:
        del code
        dtypes = ", ".join(str(operand.dtype) for operand in application.operands)
        raise UnsupportedError(f"{name} takes complex numbers, found {dtypes}.")

    return write
