"""`TextScalars`: the code that the printers of LLVM and MLIR share. Each instruction is a line with a new name."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from plica.backend.native.scalars import complex_arithmetic, half_precision
from plica.backend.native.scalars.builder import Scalar, ScalarCode, family
from plica.backend.native.scalars.values import is_half
from plica.ir.dtypes import DType

_ORDERS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
PREDICATES = {
    "float": {"equal": "oeq", "not_equal": "une", **{kind: "o" + short for kind, short in _ORDERS.items()}},
    "signed": {"equal": "eq", "not_equal": "ne", **{kind: "s" + short for kind, short in _ORDERS.items()}},
    "unsigned": {"equal": "eq", "not_equal": "ne", **{kind: "u" + short for kind, short in _ORDERS.items()}},
    "bool": {"equal": "eq", "not_equal": "ne", **{kind: "u" + short for kind, short in _ORDERS.items()}},
}
"""The predicates of comparisons, by the family of the operands."""


class TextScalars(ScalarCode):
    """Appends to `lines`; values are named `prefix` and a number.

    Args:
        lines: The lines of the function so far.
        prefix: The beginning of names; other names of the function begin otherwise.
    """

    _CASTS: ClassVar[Mapping[tuple[str, str], tuple[str, str]]]
    """The instruction from one family to another: to as many bits or more, and to fewer."""

    def __init__(self, lines: list[str], prefix: str) -> None:
        self.lines = lines
        self._prefix = prefix
        self._count = 0

    @abstractmethod
    def _type(self, dtype: DType) -> str:
        """The type of a scalar."""

    @abstractmethod
    def _cast(self, name: str, a: Scalar, dtype: DType) -> Scalar:
        """The instruction `name` that takes `a` to another type."""

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _put(self, text: str, dtype: DType) -> Scalar:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return Scalar(name, dtype)

    def convert(self, a: Scalar, dtype: DType) -> Scalar:
        """A cast; none between integers of one width."""
        if a.dtype == dtype:
            return a
        if "complex" in (a.dtype.kind, dtype.kind):
            return complex_arithmetic.converted(self, a, dtype)
        if is_half(a.dtype) or is_half(dtype):
            return half_precision.converted(self, a, dtype)
        source, target = family(a.dtype), family(dtype)
        if target == "bool":
            return self.compare("not_equal", a, self.constant(0, a.dtype))
        if self._type(a.dtype) == self._type(dtype):
            return Scalar(a.text, dtype)
        is_narrower = source != "bool" and dtype.bits < a.dtype.bits
        return self._cast(self._CASTS[source, target][is_narrower], a, dtype)

    def bitcast(self, a: Scalar, dtype: DType) -> Scalar:
        """A `bitcast`; none between integers, which have no sign."""
        if self._type(a.dtype) == self._type(dtype):
            return Scalar(a.text, dtype)
        return self._cast("bitcast", a, dtype)
