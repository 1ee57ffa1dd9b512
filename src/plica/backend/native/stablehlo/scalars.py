"""`TensorScalars`: scalar code on whole tensors, for elementwise operations that StableHLO lacks.

Branches compute both sides and select. A loop runs until no entry needs another iteration.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plica.backend.native.scalars import SCALARS
from plica.backend.native.scalars.builder import Application, Body, Scalar, ScalarCode, Shared
from plica.backend.native.scalars.values import words
from plica.backend.native.stablehlo.code import Code, Shape, Tensor
from plica.backend.native.stablehlo.values import Value, loop
from plica.ir.dtypes import DType
from plica.ops.rules import real_dtype

_NAMES = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "integer_remainder": "remainder",
    "negate": "negate",
    "absolute": "abs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "round_nearest_even",
    "minimum": "minimum",
    "maximum": "maximum",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shift_left": "shift_left",
}
_SUMS = ("add", "subtract")


def write_entries(
    name: str, inputs: Sequence[Value], shape: Shape, dtype: DType, params: Mapping[str, Any]
) -> Value | None:
    """The result of an elementwise operation by its scalar code; None if it has none.

    Raises:
        UnsupportedError: Its scalar code does not take these dtypes.
    """
    row = SCALARS.get(name)
    if row is None:
        return None
    code = inputs[0].code
    operands = tuple(Scalar(value.spread(shape).tensor.text, value.dtype) for value in inputs)
    entries = row.write(TensorScalars(code, shape), Application(operands, dtype, params))
    return Value(code, Tensor(entries.text, shape, entries.dtype))


class TensorScalars(ScalarCode):
    """Scalar code in which each scalar is a tensor of one shape.

    Args:
        code: The function that gets the text.
        shape: The shape.
    """

    def __init__(self, code: Code, shape: Shape) -> None:
        self._code = code
        self._shape = shape
        self._constants: set[str] = set()
        self._active: list[Value] = []  # for each open branch, the entries that take it

    def _value(self, scalar: Scalar) -> Value:
        return Value(self._code, Tensor(scalar.text, self._shape, scalar.dtype))

    def constant(self, value: complex, dtype: DType) -> Scalar:
        """A tensor filled with a number."""
        entries = _scalar(Value(self._code, self._code.constant(value, dtype)).spread(self._shape))
        self._constants.add(entries.text)
        return entries

    def apply(self, name: str, *operands: Scalar) -> Scalar:
        """An operation on each entry."""
        first, *others = map(self._value, operands)
        match name:
            case "multiply_add":
                return _scalar(first * others[0] + others[1])
            case "trunc":
                return _scalar((first < 0.0).where(first.map("ceil"), first.map("floor")))
            case "copysign":
                return _scalar(copysign(first, others[0]))
            case "shift_right":
                signed = not first.dtype.value.startswith("u")
                return _scalar(first.map("shift_right_arithmetic" if signed else "shift_right_logical", *others))
        result = first.map(_NAMES[name], *others)
        is_constant = any(operand.text in self._constants for operand in operands)
        return _scalar(
            _unoptimized(result) if name in _SUMS and is_constant and result.dtype.kind == "float" else result
        )

    def compare(self, kind: str, a: Scalar, b: Scalar) -> Scalar:
        """A comparison of each entry."""
        return _scalar(self._value(a).compare(kind, self._value(b)))

    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """A choice for each entry."""
        return _scalar(self._value(condition).where(self._value(a), self._value(b)))

    def convert(self, a: Scalar, dtype: DType) -> Scalar:
        """A conversion of each entry."""
        return _scalar(self._value(a).astype(dtype))

    def bitcast(self, a: Scalar, dtype: DType) -> Scalar:
        """The bits of each entry."""
        return _scalar(self._value(a).bits_as(dtype))

    def branch(self, condition: Scalar, then: Body, otherwise: Body) -> tuple[Scalar, ...]:
        """Both sides, and a choice for each entry."""
        holds = self._value(condition)
        sides = [self._side(holds, then), self._side(~holds, otherwise)]
        return tuple(self.select(condition, a, b) for a, b in zip(*sides, strict=True))

    def _side(self, holds: Value, body: Body) -> tuple[Scalar, ...]:
        self._active.append(holds if not self._active else self._active[-1] & holds)
        try:
            return body()
        finally:
            self._active.pop()

    def loop(self, start: tuple[Scalar, ...], going: Callable[..., Scalar], step: Body) -> tuple[Scalar, ...]:
        """A loop until the last entry is done; entries that are done earlier keep their state."""

        def is_active(state: Sequence[Value]) -> Value:
            holds = self._value(going(*map(_scalar, state)))
            return holds & self._active[-1] if self._active else holds

        def iteration(*state: Value) -> list[Value]:
            active = is_active(state)
            after = step(*map(_scalar, state))
            return [active.where(self._value(new), old) for new, old in zip(after, state, strict=True)]

        last = loop(
            [self._value(scalar) for scalar in start],
            lambda *state: is_active(state).any(range(len(self._shape))),
            iteration,
        )
        return tuple(map(_scalar, last))

    def parts(self, a: Scalar) -> tuple[Scalar, Scalar]:
        """The parts of each entry."""
        value = self._value(a)
        real, imag = (_scalar(value.map(name, dtype=real_dtype(a.dtype))) for name in ("real", "imag"))
        return real, imag

    def of_parts(self, real: Scalar, imag: Scalar) -> Scalar:
        """A complex number for each entry."""
        dtype = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}[real.dtype]
        return _scalar(self._value(real).map("complex", self._value(imag), dtype=dtype))

    def lookup(self, table: tuple[complex, ...], dtype: DType, index: Scalar) -> Scalar:
        """An entry of a constant for each entry."""
        entries = Value(self._code, self._code.array(np.asarray(table, dtype.numpy)))
        return _scalar(entries.take(self._value(index), 0))

    def shared(self, name: str, operands: tuple[Scalar, ...], write: Shared) -> Scalar:
        """The code of the function in place: XLA would inline a call."""
        del name
        return write(self, operands)


def _scalar(value: Value) -> Scalar:
    return Scalar(value.tensor.text, value.dtype)


def _unoptimized(x: Value) -> Value:
    """A value that XLA does not simplify: (x + 1) - 1 rounds x, and is not x."""
    return Value(x.code, x.code.apply("optimization_barrier", [x.tensor], x.shape, x.dtype))


def copysign(magnitude: Value, sign: Value) -> Value:
    """The absolute value of a float with the sign of another one, by their bits."""
    integers = words(magnitude.dtype)
    sign_bit = integers.limits[0]
    bits = (magnitude.bits_as(integers) & integers.limits[1]) | (sign.bits_as(integers) & sign_bit)
    return bits.bits_as(magnitude.dtype)
