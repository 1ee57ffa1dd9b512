"""Prints scalar code as LLVM IR.

>>> code = LlvmScalars([], "%s", block="entry")
>>> code.add(Scalar("%a", DType.FLOAT32), code.constant(0.5, DType.FLOAT32)).text
'%s1'
>>> code.lines
['%s1 = fadd float %a, 0x3FE0000000000000']
"""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from plica.backend.native.scalars import complex_arithmetic, half_precision
from plica.backend.native.scalars.builder import Body, Scalar, ScalarCode, Shared, family
from plica.backend.native.scalars.values import is_half
from plica.ir.dtypes import DType

_FLOAT = {
    "add": "fadd",
    "subtract": "fsub",
    "multiply": "fmul",
    "divide": "fdiv",
}
_INTRINSICS = {
    "absolute": "llvm.fabs",
    "sqrt": "llvm.sqrt",
    "copysign": "llvm.copysign",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "round_even": "llvm.rint",
    "minimum": "llvm.minimum",
    "maximum": "llvm.maximum",
    "multiply_add": "llvm.fmuladd",
}
_BITS = {"and": "and", "or": "or", "xor": "xor"}
_INTEGER = {**_BITS, "add": "add", "subtract": "sub", "multiply": "mul", "shift_left": "shl"}
INSTRUCTIONS = {
    "float": _FLOAT,
    "signed": {**_INTEGER, "divide": "sdiv", "integer_remainder": "srem", "shift_right": "ashr"},
    "unsigned": {**_INTEGER, "divide": "udiv", "integer_remainder": "urem", "shift_right": "lshr"},
    "bool": _BITS,
}
_EXTREMES = {
    ("signed", "minimum"): "llvm.smin",
    ("signed", "maximum"): "llvm.smax",
    ("unsigned", "minimum"): "llvm.umin",
    ("unsigned", "maximum"): "llvm.umax",
}
_ORDERS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
PREDICATES = {
    "float": {"equal": "oeq", "not_equal": "une", **{kind: "o" + short for kind, short in _ORDERS.items()}},
    "signed": {"equal": "eq", "not_equal": "ne", **{kind: "s" + short for kind, short in _ORDERS.items()}},
    "unsigned": {"equal": "eq", "not_equal": "ne", **{kind: "u" + short for kind, short in _ORDERS.items()}},
    "bool": {"equal": "eq", "not_equal": "ne", **{kind: "u" + short for kind, short in _ORDERS.items()}},
}
"""The predicates of comparisons, by the family of the operands."""
_CASTS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("float", "float"): ("fpext", "fptrunc"),
    ("float", "signed"): ("fptosi", "fptosi"),
    ("float", "unsigned"): ("fptoui", "fptoui"),
    ("signed", "float"): ("sitofp", "sitofp"),
    ("unsigned", "float"): ("uitofp", "uitofp"),
    ("bool", "float"): ("uitofp", "uitofp"),
    ("signed", "signed"): ("sext", "trunc"),
    ("signed", "unsigned"): ("sext", "trunc"),
    ("unsigned", "signed"): ("zext", "trunc"),
    ("unsigned", "unsigned"): ("zext", "trunc"),
    ("bool", "signed"): ("zext", "zext"),
    ("bool", "unsigned"): ("zext", "zext"),
}
"""The instruction from one family to another: to as many bits or more, and to fewer."""
_TYPES = {
    DType.BOOL: "i1",
    DType.FLOAT16: "half",
    DType.BFLOAT16: "i16",  # its bits: where processors lack it, LLVM passes numbers to functions by a library
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    DType.COMPLEX64: "{ float, float }",
    DType.COMPLEX128: "{ double, double }",
}


def llvm_type(dtype: DType) -> str:
    """The type of an entry: integers have no sign, booleans one bit."""
    return _TYPES.get(dtype) or f"i{dtype.bits}"


class LlvmScalars(ScalarCode):
    """Appends to `lines`; values and blocks are named `prefix` and a number.

    Args:
        lines: The lines of the function so far.
        prefix: The beginning of names; other names of the function begin otherwise.
        block: The name of the current block; branches and loops begin other ones.
        declared: The declarations of the module so far; those of intrinsics, tables and functions are added.
        is_fused: Whether a product and a sum of it may be rounded once.
    """

    def __init__(
        self,
        lines: list[str],
        prefix: str = "%s",
        *,
        block: str = "entry",
        declared: set[str] | None = None,
        is_fused: bool = False,
    ) -> None:
        self.lines = lines
        self._prefix = prefix
        self._count = 0
        self.block = block
        self.declared = set() if declared is None else declared
        self._is_fused = is_fused

    def begin(self, block: str) -> None:
        """Begin the block of a name."""
        self.lines.append(f"{block}:")
        self.block = block

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _put(self, text: str, dtype: DType) -> Scalar:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return Scalar(name, dtype)

    def _cast(self, name: str, a: Scalar, dtype: DType) -> Scalar:
        return self._put(f"{name} {llvm_type(a.dtype)} {a.text} to {llvm_type(dtype)}", dtype)

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
        if llvm_type(a.dtype) == llvm_type(dtype):
            return Scalar(a.text, dtype)
        is_narrower = source != "bool" and dtype.bits < a.dtype.bits
        return self._cast(_CASTS[source, target][is_narrower], a, dtype)

    def bitcast(self, a: Scalar, dtype: DType) -> Scalar:
        """A `bitcast`; none between integers, which have no sign."""
        if llvm_type(a.dtype) == llvm_type(dtype):
            return Scalar(a.text, dtype)
        return self._cast("bitcast", a, dtype)

    def constant(self, value: complex, dtype: DType) -> Scalar:
        """A literal: floats as their bits."""
        if dtype.kind == "complex":
            part = DType.FLOAT32 if dtype == DType.COMPLEX64 else DType.FLOAT64
            return self.of_parts(self.constant(value.real, part), self.constant(value.imag, part))
        if dtype.kind == "bool":
            return Scalar("true" if value else "false", dtype)
        if dtype.kind == "float":
            exact = np.asarray(value).real.astype(dtype.numpy)
            if dtype.bits == 16:
                word = int.from_bytes(exact.tobytes(), "little")
                return Scalar(f"0xH{word:04X}" if dtype == DType.FLOAT16 else str(word), dtype)
            with np.errstate(invalid="ignore"):
                word = int.from_bytes(exact.astype(np.float64).tobytes(), "little")
            return Scalar(f"0x{word:016X}", dtype)
        return Scalar(str(int(value.real)), dtype)

    def apply(self, name: str, *operands: Scalar) -> Scalar:
        """An instruction or an intrinsic."""
        dtype = operands[0].dtype
        if dtype.kind == "complex":
            return complex_arithmetic.applied(self, name, *operands)
        type_family, texts = family(dtype), ", ".join(operand.text for operand in operands)
        if name == "negate":
            text = (
                f"fneg {llvm_type(dtype)} {texts}" if type_family == "float" else f"sub {llvm_type(dtype)} 0, {texts}"
            )
            return self._put(text, dtype)
        if name in INSTRUCTIONS[type_family]:
            flag = " contract" if self._is_fused and type_family == "float" else ""
            return self._put(f"{INSTRUCTIONS[type_family][name]}{flag} {llvm_type(dtype)} {texts}", dtype)
        intrinsic = _EXTREMES.get((type_family, name)) or _INTRINSICS[name]
        return self.call(intrinsic, *operands)

    def call(self, intrinsic: str, *operands: Scalar) -> Scalar:
        """A call of an intrinsic, whose operands and result have one dtype."""
        dtype, type_ = operands[0].dtype, llvm_type(operands[0].dtype)
        short = dtype.short if dtype.kind == "float" else type_
        types = ", ".join([type_] * len(operands))
        self.declared.add(f"declare {type_} @{intrinsic}.{short}({types})")
        arguments = ", ".join(f"{type_} {operand.text}" for operand in operands)
        return self._put(f"call {type_} @{intrinsic}.{short}({arguments})", dtype)

    def compare(self, kind: str, a: Scalar, b: Scalar) -> Scalar:
        """`fcmp` or `icmp`."""
        type_family = family(a.dtype)
        name = "fcmp" if type_family == "float" else "icmp"
        return self._put(f"{name} {PREDICATES[type_family][kind]} {llvm_type(a.dtype)} {a.text}, {b.text}", DType.BOOL)

    def select(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """`select`."""
        type_ = llvm_type(a.dtype)
        return self._put(f"select i1 {condition.text}, {type_} {a.text}, {type_} {b.text}", a.dtype)

    def parts(self, a: Scalar) -> tuple[Scalar, Scalar]:
        """The fields of a structure."""
        dtype, type_ = DType.FLOAT32 if a.dtype == DType.COMPLEX64 else DType.FLOAT64, llvm_type(a.dtype)
        real, imag = (self._put(f"extractvalue {type_} {a.text}, {index}", dtype) for index in (0, 1))
        return real, imag

    def of_parts(self, real: Scalar, imag: Scalar) -> Scalar:
        """A structure of two fields."""
        dtype = DType.COMPLEX64 if real.dtype == DType.FLOAT32 else DType.COMPLEX128
        type_, part = llvm_type(dtype), llvm_type(real.dtype)
        first = self._put(f"insertvalue {type_} poison, {part} {real.text}, 0", dtype)
        return self._put(f"insertvalue {type_} {first.text}, {part} {imag.text}, 1", dtype)

    def lookup(self, table: tuple[complex, ...], dtype: DType, index: Scalar) -> Scalar:
        """A load from a constant of the module."""
        type_ = llvm_type(dtype)
        entries = ", ".join(f"{type_} {self.constant(number, dtype).text}" for number in table)
        name = f"@table.{hashlib.sha256(entries.encode()).hexdigest()[:16]}"
        self.declared.add(f"{name} = private unnamed_addr constant [{len(table)} x {type_}] [{entries}]")
        pointer = self.fresh()
        self.lines.append(
            f"{pointer} = getelementptr inbounds {type_}, ptr {name}, i64 {self.convert(index, DType.INT64).text}"
        )
        return self._put(f"load {type_}, ptr {pointer}", dtype)

    def shared(self, name: str, operands: tuple[Scalar, ...], write: Shared) -> Scalar:
        """A call of a function of the module."""
        types = [llvm_type(operand.dtype) for operand in operands]
        symbol = "@" + ".".join(["shared", name, *(operand.dtype.short for operand in operands)])
        body = LlvmScalars([], block="entry", declared=self.declared, is_fused=self._is_fused)
        parameters = tuple(Scalar(f"%a{index}", operand.dtype) for index, operand in enumerate(operands))
        returned = write(body, parameters)
        result = llvm_type(returned.dtype)
        signature = ", ".join(f"{type_} {parameter.text}" for type_, parameter in zip(types, parameters, strict=True))
        lines = "\n".join(["entry:", *body.lines, f"ret {result} {returned.text}"])
        self.declared.add(f"define internal {result} {symbol}({signature}) noinline {{\n{lines}\n}}")
        arguments = ", ".join(f"{type_} {operand.text}" for type_, operand in zip(types, operands, strict=True))
        return self._put(f"call {result} {symbol}({arguments})", returned.dtype)

    def branch(self, condition: Scalar, then: Body, otherwise: Body) -> tuple[Scalar, ...]:
        """Two blocks, and a third one for the code after them."""
        starts, after = (self.fresh(), self.fresh()), self.fresh()
        self.lines.append(f"br i1 {condition.text}, label {starts[0]}, label {starts[1]}")
        ends = []
        for start, body in zip(starts, (then, otherwise), strict=True):
            self.begin(start.removeprefix("%"))
            values = body()
            ends.append((values, self.block))
            self.lines.append(f"br label {after}")
        self.begin(after.removeprefix("%"))
        (first, first_block), (second, second_block) = ends
        return tuple(
            self._put(f"phi {llvm_type(a.dtype)} [ {a.text}, %{first_block} ], [ {b.text}, %{second_block} ]", a.dtype)
            for a, b in zip(first, second, strict=True)
        )

    def loop(self, start: tuple[Scalar, ...], going: Callable[..., Scalar], step: Body) -> tuple[Scalar, ...]:
        """A block for the condition, one for the step, and a third one for the code after the loop."""
        head, steps, after, before = self.fresh(), self.fresh(), self.fresh(), self.block
        self.lines.append(f"br label {head}")
        self.begin(head.removeprefix("%"))
        state = tuple(Scalar(self.fresh(), scalar.dtype) for scalar in start)
        phis = len(self.lines)
        condition = going(*state)
        self.lines.append(f"br i1 {condition.text}, label {steps}, label {after}")
        self.begin(steps.removeprefix("%"))
        values = step(*state)
        self.lines[phis:phis] = [
            f"{phi.text} = phi {llvm_type(phi.dtype)} [ {first.text}, %{before} ], [ {last.text}, %{self.block} ]"
            for phi, first, last in zip(state, start, values, strict=True)
        ]
        self.lines.append(f"br label {head}")
        self.begin(after.removeprefix("%"))
        return state
