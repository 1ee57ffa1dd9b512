"""Lines of LLVM: numbers, entries of buffers, and cells."""

from collections.abc import Callable, Mapping, Sequence
from operator import add, mul, sub

from plica.backend.native.loops.entries import Entries
from plica.backend.native.loops.nest import (
    Apply,
    Buffer,
    Cell,
    Compute,
    Constant,
    Get,
    Index,
    Load,
    PointerCell,
    Put,
    Store,
)
from plica.backend.native.loops.scopes import Scopes
from plica.backend.native.loops.support import INDEX_ARITHMETIC, stored
from plica.backend.native.scalars import LlvmScalars, Scalar
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType

_EXACT: Mapping[str, Callable[[int, int], int]] = {"index_add": add, "index_subtract": sub, "index_multiply": mul}
_COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


class Lines:
    """The lines of a function.

    Args:
        declared: Declarations of intrinsics so far; further ones are added.
        functions: Functions of scalar code so far, by name; further ones are added.

    Attributes:
        scopes: The classes of buffers that never overlap.
    """

    scopes: Scopes

    def __init__(self, declared: set[str], functions: dict[str, str]) -> None:
        self.declared, self.functions = declared, functions
        self._entries = Entries(declared, functions)
        self._code = LlvmScalars([], "%t", declared=declared)
        self._entry: list[str] = []
        self._values: dict[str, str] = {}
        self._buffers: dict[Buffer, str] = {}
        self._cells: dict[Cell | PointerCell, str] = {}

    def _put(self, text: str) -> None:
        self._code.lines.append(text)

    def _label(self) -> str:
        return self._code.fresh().removeprefix("%")

    def _index(self, value: Index) -> str:
        return str(value) if isinstance(value, int) else self._values[value.text]

    def _scalar(self, value: Index) -> Scalar:
        if isinstance(value, int):
            return Scalar(str(value), DType.INT64)
        return Scalar(self._values[value.text], value.dtype)

    def _constant(self, statement: Constant) -> None:
        self._values[statement.result.text] = self._code.constant(statement.value, statement.result.dtype).text

    def _compute(self, statement: Compute) -> None:
        operands = [self._scalar(value) for value in statement.operands]
        code, name = self._code, statement.name
        if name in INDEX_ARITHMETIC:
            text = self._index_arithmetic(name, *(value.text for value in operands))
        elif name == "room":
            text = self._room(*(value.text for value in operands))
        elif name in ("sum", "sum_product"):
            text = self._sum(operands).text
        elif name in _COMPARED:
            text = code.compare(name, *operands).text
        elif name == "select":
            text = code.select(*operands).text
        elif name == "bitcast":
            text = code.bitcast(operands[0], statement.result.dtype).text
        elif name == "convert":
            text = code.convert(operands[0], statement.result.dtype).text
        else:
            text = code.apply(name, *operands).text
        self._values[statement.result.text] = text

    def _index_arithmetic(self, name: str, a: str, b: str) -> str:
        if name in _EXACT and not (a.startswith("%") or b.startswith("%")):
            return str(_EXACT[name](int(a), int(b)))
        text = self._code.fresh()
        self._put(f"{text} = {INDEX_ARITHMETIC[name].format(a, b)}")
        return text

    def _room(self, a: str, b: str) -> str:
        """A product of unsigned integers; the largest integer if it overflows."""
        both, product, far, room = (self._code.fresh() for _ in range(4))
        self.declared.add("declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)")
        self._put(f"{both} = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 {a}, i64 {b})")
        self._put(f"{product} = extractvalue {{i64, i1}} {both}, 0")
        self._put(f"{far} = extractvalue {{i64, i1}} {both}, 1")
        self._put(f"{room} = select i1 {far}, i64 -1, i64 {product}")
        return room

    def _sum(self, operands: Sequence[Scalar]) -> Scalar:
        """A sum in any order of terms: `a + b`, or `a + b c` of three operands."""
        total, *factors = operands
        if total.dtype.kind == "complex":
            return self._sum_of_parts(total, factors)
        type_, code = llvm_type(total.dtype), self._code
        is_float = total.dtype.kind == "float"
        term = factors[0]
        if len(factors) == 2:
            product = code.fresh()
            code.lines.append(
                f"{product} = {'fmul contract' if is_float else 'mul'} {type_} {factors[0].text}, {factors[1].text}"
            )
            term = Scalar(product, total.dtype)
        result = code.fresh()
        flags = "fadd reassoc contract" if is_float else "add"
        code.lines.append(f"{result} = {flags} {type_} {total.text}, {term.text}")
        return Scalar(result, total.dtype)

    def _sum_of_parts(self, total: Scalar, factors: Sequence[Scalar]) -> Scalar:
        code = self._code
        term = code.multiply(*factors) if len(factors) == 2 else factors[0]
        return code.of_parts(*(self._sum(pair) for pair in zip(code.parts(total), code.parts(term), strict=True)))

    def _apply(self, statement: Apply) -> None:
        operands = tuple(self._scalar(value) for value in statement.operands)
        self._values[statement.result.text] = self._entries.write(self._code, statement, operands)

    def _address(self, buffer: Buffer, offset: Index) -> str:
        if offset == 0:
            return self._buffers[buffer]
        pointer = self._code.fresh()
        text = f"getelementptr inbounds {stored(buffer.dtype)}, ptr {self._buffers[buffer]}, i64 {self._index(offset)}"
        self._put(f"{pointer} = {text}")
        return pointer

    def _load(self, statement: Load) -> None:
        pointer, name = self._address(statement.buffer, statement.offset), self._code.fresh()
        self._put(f"{name} = load {stored(statement.buffer.dtype)}, ptr {pointer}{self.scopes.tag(statement.buffer)}")
        if statement.buffer.dtype == DType.BOOL:
            byte, name = name, self._code.fresh()
            self._put(f"{name} = icmp ne i8 {byte}, 0")
        self._values[statement.result.text] = name

    def _store(self, statement: Store) -> None:
        pointer, value = self._address(statement.buffer, statement.offset), self._values[statement.value.text]
        if statement.buffer.dtype == DType.BOOL:
            bit, value = value, self._code.fresh()
            self._put(f"{value} = zext i1 {bit} to i8")
        self._put(f"store {stored(statement.buffer.dtype)} {value}, ptr {pointer}{self.scopes.tag(statement.buffer)}")

    def _cell(self, cell: Cell | PointerCell) -> str:
        if cell not in self._cells:
            self._cells[cell] = f"%{cell.name}"
            type_ = "ptr" if isinstance(cell, PointerCell) else llvm_type(cell.dtype)
            self._entry.append(f"%{cell.name} = alloca {type_}")
        return self._cells[cell]

    def _get(self, statement: Get) -> None:
        name, cell = self._code.fresh(), self._cell(statement.cell)
        self._put(f"{name} = load {llvm_type(statement.cell.dtype)}, ptr {cell}")
        self._values[statement.result.text] = name

    def _put_cell(self, statement: Put) -> None:
        self._put(
            f"store {llvm_type(statement.cell.dtype)} {self._index(statement.value)}, ptr {self._cell(statement.cell)}"
        )
