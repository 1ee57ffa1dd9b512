"""Prints scalar code as MLIR, of the dialects arith, math and scf.

>>> lines = []
>>> code = MlirScalars(lines, "%s")
>>> code.add(Scalar("%a", DType.FLOAT32), code.constant(0.5, DType.FLOAT32)).text
'%s2'
>>> lines
['%s1 = arith.constant 0x3F000000 : f32', '%s2 = arith.addf %a, %s1 : f32']
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from plica.backend.native.scalars import complex_arithmetic
from plica.backend.native.scalars.builder import Body, Scalar, Shared, family
from plica.backend.native.scalars.floats import truncated
from plica.backend.native.scalars.text import PREDICATES, TextScalars
from plica.backend.native.scalars.values import Value
from plica.ir.dtypes import DType

_FLOAT = {
    "add": "arith.addf",
    "subtract": "arith.subf",
    "multiply": "arith.mulf",
    "divide": "arith.divf",
    "negate": "arith.negf",
    "absolute": "math.absf",
    "sqrt": "math.sqrt",
    "copysign": "math.copysign",
    "floor": "math.floor",
    "round_even": "math.roundeven",
    "minimum": "arith.minimumf",
    "maximum": "arith.maximumf",
}
_BITS = {"and": "arith.andi", "or": "arith.ori", "xor": "arith.xori"}
_INTEGER = {
    **_BITS,
    "add": "arith.addi",
    "subtract": "arith.subi",
    "multiply": "arith.muli",
    "shift_left": "arith.shli",
}
INSTRUCTIONS = {
    "float": _FLOAT,
    "signed": {
        **_INTEGER,
        "divide": "arith.divsi",
        "integer_remainder": "arith.remsi",
        "minimum": "arith.minsi",
        "maximum": "arith.maxsi",
        "shift_right": "arith.shrsi",
    },
    "unsigned": {
        **_INTEGER,
        "divide": "arith.divui",
        "integer_remainder": "arith.remui",
        "minimum": "arith.minui",
        "maximum": "arith.maxui",
        "shift_right": "arith.shrui",
    },
    "bool": _BITS,
}


def mlir_type(dtype: DType) -> str:
    """The element type: integers have no sign, booleans one bit."""
    named = {"bool": "i1", "int": f"i{dtype.bits}", "complex": f"complex<f{dtype.bits // 2}>"}
    return named.get(dtype.kind, dtype.short)


def bits_of(value: complex, dtype: DType) -> int:
    """The bits of a number of a dtype."""
    word = np.asarray(value, dtype.numpy).tobytes()
    return int.from_bytes(word, "little")


class MlirScalars(TextScalars):
    """Appends to `lines`; values are named `prefix` and a number.

    Args:
        lines: The lines of the function so far.
        prefix: The beginning of names; other names of the function begin otherwise.
    """

    _CASTS: ClassVar = {
        ("float", "float"): ("extf", "truncf"),
        ("float", "signed"): ("fptosi", "fptosi"),
        ("float", "unsigned"): ("fptoui", "fptoui"),
        ("signed", "float"): ("sitofp", "sitofp"),
        ("unsigned", "float"): ("uitofp", "uitofp"),
        ("bool", "float"): ("uitofp", "uitofp"),
        ("signed", "signed"): ("extsi", "trunci"),
        ("signed", "unsigned"): ("extsi", "trunci"),
        ("unsigned", "signed"): ("extui", "trunci"),
        ("unsigned", "unsigned"): ("extui", "trunci"),
        ("bool", "signed"): ("extui", "extui"),
        ("bool", "unsigned"): ("extui", "extui"),
    }

    def __init__(self, lines: list[str], prefix: str = "%s") -> None:
        super().__init__(lines, prefix)

    def _type(self, dtype: DType) -> str:
        return mlir_type(dtype)

    def _cast(self, name: str, a: Scalar, dtype: DType) -> Scalar:
        return self._put(f"arith.{name} {a.text} : {mlir_type(a.dtype)} to {mlir_type(dtype)}", dtype)

    def constant(self, value: complex, dtype: DType) -> Scalar:
        """An `arith.constant`."""
        if dtype.kind == "complex":
            part = DType.FLOAT32 if dtype == DType.COMPLEX64 else DType.FLOAT64
            return self.of_parts(self.constant(value.real, part), self.constant(value.imag, part))
        if dtype.kind == "bool":
            return self._put(f"arith.constant {'true' if value else 'false'}", dtype)
        if dtype.kind == "float":
            digits = dtype.bits // 4
            return self._put(f"arith.constant 0x{bits_of(value, dtype):0{digits}X} : {mlir_type(dtype)}", dtype)
        integer = int(value.real)
        signed = integer - 2**dtype.bits if integer >= 2 ** (dtype.bits - 1) else integer
        return self._put(f"arith.constant {signed} : {mlir_type(dtype)}", dtype)

    def apply(self, name: str, *operands: Scalar) -> Scalar:
        """An instruction of `arith` or `math`."""
        dtype = operands[0].dtype
        if dtype.kind == "complex":
            return complex_arithmetic.applied(self, name, *operands)
        if name == "negate" and dtype.kind == "int":
            return self.subtract(self.constant(0, dtype), *operands)
        if name == "multiply_add":
            return self.add(self.multiply(*operands[:2]), operands[2])
        if (
            name == "ceil"
        ):  # IREE has its own floor; other functions call a library on processors without the instruction
            return self.negate(self.floor(self.negate(*operands)))
        if name == "trunc":
            return truncated(Value(self, *operands)).scalar
        texts = ", ".join(operand.text for operand in operands)
        return self._put(f"{INSTRUCTIONS[family(dtype)][name]} {texts} : {mlir_type(dtype)}", dtype)

    def compare(self, kind: str, a: Scalar, b: Scalar) -> Scalar:
        """`arith.cmpf` or `arith.cmpi`."""
        type_family = family(a.dtype)
        name = "arith.cmpf" if type_family == "float" else "arith.cmpi"
        return self._put(
            f"{name} {PREDICATES[type_family][kind]}, {a.text}, {b.text} : {mlir_type(a.dtype)}", DType.BOOL
        )

    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """`arith.select`."""
        return self._put(f"arith.select {condition.text}, {a.text}, {b.text} : {mlir_type(a.dtype)}", a.dtype)

    def branch(self, condition: Scalar, then: Body, otherwise: Body) -> tuple[Scalar, ...]:
        """`scf.if`."""
        sides = [self._region(then), self._region(otherwise)]
        values = sides[0][1]
        types = ", ".join(mlir_type(value.dtype) for value in values)
        name = self.fresh()
        self.lines.append(f"{name}:{len(values)} = scf.if {condition.text} -> ({types}) {{")
        self._yield(sides[0], types)
        self.lines.append("} else {")
        self._yield(sides[1], types)
        self.lines.append("}")
        return tuple(Scalar(f"{name}#{index}", value.dtype) for index, value in enumerate(values))

    def loop(self, start: tuple[Scalar, ...], going: Callable[..., Scalar], step: Body) -> tuple[Scalar, ...]:
        """`scf.while`."""
        types = ", ".join(mlir_type(scalar.dtype) for scalar in start)
        before = tuple(Scalar(self.fresh(), scalar.dtype) for scalar in start)
        after = tuple(Scalar(self.fresh(), scalar.dtype) for scalar in start)
        name = self.fresh()
        arguments = ", ".join(f"{variable.text} = {first.text}" for variable, first in zip(before, start, strict=True))
        self.lines.append(f"{name}:{len(start)} = scf.while ({arguments}) : ({types}) -> ({types}) {{")
        condition = going(*before)
        self.lines.append(
            f"scf.condition({condition.text}) {', '.join(variable.text for variable in before)} : {types}"
        )
        self.lines.append("} do {")
        self.lines.append(f"^bb0({', '.join(f'{variable.text}: {mlir_type(variable.dtype)}' for variable in after)}):")
        self._yield(([], step(*after)), types)
        self.lines.append("}")
        return tuple(Scalar(f"{name}#{index}", scalar.dtype) for index, scalar in enumerate(start))

    def parts(self, a: Scalar) -> tuple[Scalar, Scalar]:
        """`complex.re` and `complex.im`."""
        dtype, type_ = DType.FLOAT32 if a.dtype == DType.COMPLEX64 else DType.FLOAT64, mlir_type(a.dtype)
        real, imag = (self._put(f"complex.{part} {a.text} : {type_}", dtype) for part in ("re", "im"))
        return real, imag

    def of_parts(self, real: Scalar, imag: Scalar) -> Scalar:
        """`complex.create`."""
        dtype = DType.COMPLEX64 if real.dtype == DType.FLOAT32 else DType.COMPLEX128
        return self._put(f"complex.create {real.text}, {imag.text} : {mlir_type(dtype)}", dtype)

    def lookup(self, table: tuple[complex, ...], dtype: DType, index: Scalar) -> Scalar:
        """`tensor.extract` from a constant."""
        words = ", ".join(f"0x{bits_of(number, dtype):0{dtype.bits // 4}X}" for number in table)
        type_ = f"tensor<{len(table)}x{mlir_type(dtype)}>"
        constant, position = self.fresh(), self.fresh()
        self.lines.append(f"{constant} = arith.constant dense<[{words}]> : {type_}")
        self.lines.append(f"{position} = arith.index_castui {index.text} : {mlir_type(index.dtype)} to index")
        return self._put(f"tensor.extract {constant}[{position}] : {type_}", dtype)

    def shared(self, name: str, operands: tuple[Scalar, ...], write: Shared) -> Scalar:
        """The code of the function in place: code within a dispatch of IREE cannot call functions."""
        del name
        return write(self, operands)

    def _region(self, body: Body) -> tuple[list[str], tuple[Scalar, ...]]:
        outside, self.lines = self.lines, []
        try:
            values = body()
            return self.lines, values
        finally:
            self.lines = outside

    def _yield(self, side: tuple[list[str], tuple[Scalar, ...]], types: str) -> None:
        self.lines += [*side[0], f"scf.yield {', '.join(value.text for value in side[1])} : {types}"]
