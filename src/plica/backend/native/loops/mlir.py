"""Prints a loop nest as a dispatch of IREE: one executable with one workgroup, which the host runs once.

    @name(arrays..., results..., scratch, faults, numbers...)

Control flow is blocks with branches (`cf`), so that a check that fails leaves at once. Memory is read and written
through pointers (`llvm`); scalars are `arith` and `math`. Nothing is allocated: arrays of a nest lie in its results, on
the stack, or in the scratch, a further result whose size the host computes. `faults` holds 0, or the number of the site
that ended the run, counted from 1, and the numbers of its error.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from plica.backend.native.loops.entries import scalar_code
from plica.backend.native.loops.memory import Arithmetic, Sizes
from plica.backend.native.loops.most_work import is_straight, known_trip_count
from plica.backend.native.loops.nest import (
    Allocate,
    Apply,
    Buffer,
    Cell,
    Check,
    Compute,
    Constant,
    Copy,
    For,
    Free,
    Get,
    GetPointer,
    If,
    Index,
    Load,
    Nest,
    PointerCell,
    Put,
    PutPointer,
    Require,
    Statement,
    Store,
    While,
    all_of,
)
from plica.backend.native.loops.scopes import Scopes
from plica.backend.native.loops.support import bytes_of
from plica.backend.native.scalars import MlirScalars, Scalar
from plica.backend.native.scalars.mlir import mlir_type
from plica.ir.dtypes import DType

_INDICES = {
    "index_add": "arith.addi {}, {} overflow<nsw> : i64",
    "index_subtract": "arith.subi {}, {} overflow<nsw> : i64",
    "index_multiply": "arith.muli {}, {} overflow<nsw> : i64",
    "room": "arith.muli {}, {} : i64",  # the host allocates this memory, and checks for overflow
}
_COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_SUMS = ("sum", "sum_product")
_ANY_ORDER = "fastmath<reassoc, contract>"
_VECTOR = 64  # bytes of a vector of sums: the widest register


def fault_size(nest: Nest) -> int:
    """How many numbers `faults` holds; 0 if nothing can end a run early."""
    return 1 + max(site.count for site in nest.sites) if nest.sites else 0


def executable_text(nest: Nest, name: str, scalars: Collection[Scalar], memory: Sequence[Allocate]) -> str:
    """The text of an executable.

    Args:
        nest: The nest, whose memory can be allocated before it begins.
        name: Its name.
        scalars: The scalar parameters that the host passes as numbers; the others are arrays of one entry.
        memory: The arrays that lie in the scratch.
    """
    body = "\n".join(f"        {line}" for line in _Printer(nest, memory).function(name, scalars))
    return f"""  stream.executable private @{name} {{
    stream.executable.export public @{name} workgroups() -> (index, index, index) {{
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }}
    builtin.module {{
{body}
    }}
  }}
"""


def _stored(dtype: DType) -> str:
    """The type of an entry in memory: a byte for a boolean."""
    return "i8" if dtype == DType.BOOL else mlir_type(dtype)


class _Printer:
    """The lines of one nest."""

    def __init__(self, nest: Nest, memory: Sequence[Allocate]) -> None:
        self._nest, self._memory = nest, memory
        self._scopes = Scopes(nest)
        self._classes = sorted({self._scopes.number(buffer) for buffer in _buffers(nest)})
        self._code = MlirScalars([], "%t")
        self._entry: list[str] = []
        self._head: list[str] = []
        self._fails: list[str] = []
        self._values: dict[str, str] = {}
        self._buffers: dict[Buffer, str] = {}
        self._cells: dict[Cell | PointerCell, str] = {}
        self._numbers: dict[int, str] = {}
        self._labels = 0
        self._faults = ""

    def function(self, name: str, numbers: Collection[Scalar]) -> list[str]:
        """The lines of its function."""
        scalars: list[Scalar] = []
        loaded: list[tuple[Scalar, str]] = []
        for parameter in self._nest.parameters:
            if isinstance(parameter, Buffer):
                self._buffers[parameter] = self._binding()
            elif parameter in numbers:
                scalars.append(parameter)
            else:
                loaded.append((parameter, self._binding()))
        for result in self._nest.results:
            self._buffers[result.buffer] = self._binding()
        scratch = self._binding() if self._memory else ""
        self._faults = self._binding() if self._nest.sites else ""
        if self._faults:
            self._put(f"llvm.store {self._index(0)}, {self._faults} : i64, !llvm.ptr")
        for scalar in scalars:
            self._values[scalar.text] = self._number(scalar.dtype)
        for scalar, pointer in loaded:
            self._values[scalar.text] = self._from_memory(pointer, scalar.dtype)
        sizes = Arithmetic(Sizes(self._nest), self._op, self._index, self._values.__getitem__)
        for allocate, offset in zip(self._memory, sizes.offsets(self._memory)[0], strict=True):
            address = self._op(f"llvm.getelementptr inbounds {scratch}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
            self._buffers[allocate.buffer] = address
        self._block(self._nest.body)
        self._put("cf.br ^done")
        head = ", ".join(
            [
                *(parameter for parameter in self._head if "binding" in parameter),
                *(parameter for parameter in self._head if "i64" in parameter),
            ]
        )
        lines = [*self._entry, *self._code.lines, *self._fails, "^done:", "return"]
        return [f"func.func @{name}({head}) {{", *(line if line[0] == "^" else f"  {line}" for line in lines), "}"]

    def _binding(self) -> str:
        """A pointer to the next array that is passed to the dispatch."""
        name = f"%a{len(self._head)}"
        self._head.append(f"{name}: !stream.binding")
        self._start(f"{name}.m", f"stream.binding.subspan {name}[{self._zero()}] : !stream.binding -> memref<1xi8>")
        self._start(f"{name}.i", f"memref.extract_aligned_pointer_as_index {name}.m : memref<1xi8> -> index")
        self._start(f"{name}.w", f"arith.index_cast {name}.i : index to i64")
        self._start(f"{name}.p", f"llvm.inttoptr {name}.w : i64 to !llvm.ptr")
        return f"{name}.p"

    def _number(self, dtype: DType) -> str:
        """The next number that is passed to the dispatch."""
        name = f"%a{len(self._head)}"
        self._head.append(f"{name}: i64")
        return self._op(f"arith.trunci {name} : i64 to i1") if dtype == DType.BOOL else name

    # Lines

    def _start(self, name: str, text: str) -> str:
        self._entry.append(f"{name} = {text}")
        return name

    def _zero(self) -> str:
        return "%zero" if self._entry else self._start("%zero", "arith.constant 0 : index")

    def _put(self, text: str) -> None:
        self._code.lines.append(text)

    def _op(self, text: str) -> str:
        name = self._code.fresh()
        self._put(f"{name} = {text}")
        return name

    def _label(self) -> str:
        self._labels += 1
        return f"^b{self._labels}"

    def _begin(self, label: str, argument: str = "") -> None:
        self._put(f"{label}({argument}: i64):" if argument else f"{label}:")

    def _index(self, value: Index) -> str:
        if isinstance(value, Scalar):
            return self._values[value.text]
        if value not in self._numbers:
            self._numbers[value] = self._start(f"%k{len(self._numbers)}", f"arith.constant {value} : i64")
        return self._numbers[value]

    def _scalar(self, value: Index) -> Scalar:
        return Scalar(self._index(value), DType.INT64 if isinstance(value, int) else value.dtype)

    # Scalars

    def _constant(self, statement: Constant) -> None:
        self._values[statement.result.text] = self._code.constant(statement.value, statement.result.dtype).text

    def _compute(self, statement: Compute) -> None:
        operands, code, name = [self._scalar(value) for value in statement.operands], self._code, statement.name
        if name in _INDICES:
            text = self._op(_INDICES[name].format(*(value.text for value in operands)))
        elif name in _SUMS:
            text = self._sum(*operands)
        elif name in _COMPARED:
            text = code.compare(name, *operands).text
        elif name == "select":
            text = code.select(*operands).text
        elif name in ("bitcast", "convert"):
            text = getattr(code, name)(operands[0], statement.result.dtype).text
        else:
            text = code.apply(name, *operands).text
        self._values[statement.result.text] = text

    def _sum(self, total: Scalar, *factors: Scalar) -> str:
        """A sum in any order of terms: `a + b`, or `a + b c` of three operands."""
        type_, term = mlir_type(total.dtype), factors[0].text
        is_float = total.dtype.kind == "float"
        if len(factors) == 2:
            flags = " fastmath<contract>" if is_float else ""
            name = "arith.mulf" if is_float else "arith.muli"
            term = self._op(f"{name} {term}, {factors[1].text}{flags} : {type_}")
        flags = f" {_ANY_ORDER}" if is_float else ""
        return self._op(f"{'arith.addf' if is_float else 'arith.addi'} {total.text}, {term}{flags} : {type_}")

    def _apply(self, statement: Apply) -> None:
        operands = tuple(map(self._scalar, statement.operands))
        self._values[statement.result.text] = scalar_code(self._code, statement, operands).text

    # Memory

    def _tag(self, buffer: Buffer) -> str:
        """The attributes of a load or a store that say which buffers it may overlap."""
        own_class = self._scopes.number(buffer)
        other_classes = [other_class for other_class in self._classes if other_class != own_class]
        texts = [f"alias_scopes = {_scopes([own_class])}"]
        if other_classes:
            texts.append(f"noalias_scopes = {_scopes(other_classes)}")
        return f"<{{{', '.join(texts)}}}>"

    def _address(self, buffer: Buffer, offset: Index) -> str:
        base = self._buffers[buffer]
        if offset == 0:
            return base
        entry = self._index(offset)
        return self._op(
            f"llvm.getelementptr inbounds {base}[{entry}] : (!llvm.ptr, i64) -> !llvm.ptr, {_stored(buffer.dtype)}"
        )

    def _from_memory(self, pointer: str, dtype: DType, tag: str = "") -> str:
        entry = self._op(f'"llvm.load"({pointer}) {tag} : (!llvm.ptr) -> {_stored(dtype)}')
        return self._op(f"arith.trunci {entry} : i8 to i1") if dtype == DType.BOOL else entry

    def _load(self, statement: Load) -> None:
        pointer = self._address(statement.buffer, statement.offset)
        self._values[statement.result.text] = self._from_memory(
            pointer, statement.buffer.dtype, self._tag(statement.buffer)
        )

    def _store(self, statement: Store) -> None:
        value, dtype = self._values[statement.value.text], statement.buffer.dtype
        if dtype == DType.BOOL:
            value = self._op(f"arith.extui {value} : i1 to i8")
        pointer = self._address(statement.buffer, statement.offset)
        self._put(
            f'"llvm.store"({value}, {pointer}) {self._tag(statement.buffer)} : ({_stored(dtype)}, !llvm.ptr) -> ()'
        )

    def _cell(self, cell: Cell | PointerCell) -> tuple[str, str]:
        """The pointer to a cell, and the cell's type."""
        type_ = "!llvm.ptr" if isinstance(cell, PointerCell) else mlir_type(cell.dtype)
        if cell not in self._cells:
            text = f"llvm.alloca {self._index(1)} x {type_} : (i64) -> !llvm.ptr"
            self._cells[cell] = self._start(f"%{cell.name}", text)
        return self._cells[cell], type_

    def _get(self, statement: Get) -> None:
        pointer, type_ = self._cell(statement.cell)
        self._values[statement.result.text] = self._op(f"llvm.load {pointer} : !llvm.ptr -> {type_}")

    def _put_cell(self, statement: Put) -> None:
        pointer, type_ = self._cell(statement.cell)
        self._put(f"llvm.store {self._index(statement.value)}, {pointer} : {type_}, !llvm.ptr")

    def _get_pointer(self, statement: GetPointer) -> None:
        pointer, type_ = self._cell(statement.cell)
        self._buffers[statement.buffer] = self._op(f"llvm.load {pointer} : !llvm.ptr -> {type_}")

    def _put_pointer(self, statement: PutPointer) -> None:
        pointer, type_ = self._cell(statement.cell)
        self._put(f"llvm.store {self._address(statement.buffer, statement.start)}, {pointer} : {type_}, !llvm.ptr")

    def _allocate(self, statement: Allocate) -> None:
        """Memory on the stack, the same for all iterations; other memory is allocated before the nest runs."""
        if statement.buffer not in self._buffers:
            text = (
                f"llvm.alloca {self._index(statement.count)} x {_stored(statement.buffer.dtype)} "
                "{alignment = 64 : i64} : (i64) -> !llvm.ptr"
            )
            self._buffers[statement.buffer] = self._start(f"%{statement.buffer.name}", text)

    def _ignore(self, _: Require | Free) -> None:
        """Write nothing: memory is allocated for the whole run."""

    def _copy(self, statement: Copy) -> None:
        to, start = self._address(statement.target, statement.to), self._address(statement.source, statement.start)
        each = self._index(bytes_of(statement.target.dtype))
        size = self._op(f"arith.muli {self._index(statement.count)}, {each} : i64")
        self._put(
            f'"llvm.intr.memcpy"({to}, {start}, {size}) <{{isVolatile = false}}> : (!llvm.ptr, !llvm.ptr, i64) -> ()'
        )

    # Control flow

    def _block(self, block: Iterable[Statement]) -> None:
        for statement in block:
            _PRINT[type(statement)](self, statement)

    def _check(self, statement: Check) -> None:
        failed, label = self._label(), self._label()
        self._put(f"cf.cond_br {self._values[statement.condition.text]}, {label}, {failed}")
        numbers = [self._index(value) for value in (statement.site + 1, *statement.numbers)]
        self._fails.append(f"{failed}:")
        for index, number in enumerate(numbers):
            pointer = self._code.fresh()
            text = f"llvm.getelementptr inbounds {self._faults}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64"
            self._fails += [f"{pointer} = {text}", f"llvm.store {number}, {pointer} : i64, !llvm.ptr"]
        self._fails.append("cf.br ^done")
        self._begin(label)

    def _for(self, statement: For) -> None:
        """A loop whose test stands at its end, and in front of it."""
        if is_straight(statement):
            for iteration in range(statement.lower, statement.upper):  # type: ignore[arg-type]
                self._values[statement.index.text] = self._index(iteration)
                self._block(statement.body)
            return
        body, after, index = self._label(), self._label(), self._code.fresh()
        lower, upper = self._index(statement.lower), self._index(statement.upper)
        self._iterate(lower, upper, body, after)
        self._begin(body, index)
        self._values[statement.index.text] = index
        self._block(statement.body)
        following = self._op(f"arith.addi {index}, {self._index(1)} overflow<nsw> : i64")
        self._iterate(following, upper, body, after, _hints(statement))
        self._begin(after)

    def _iterate(self, index: str, upper: str, body: str, after: str, hints: str = "") -> None:
        goes = self._op(f"arith.cmpi slt, {index}, {upper} : i64")
        if not hints:
            self._put(f"cf.cond_br {goes}, {body}({index} : i64), {after}")
            return
        self._put(
            f'"llvm.cond_br"({goes}, {index})[{body}, {after}] <{{operandSegmentSizes = array<i32: 1, 1, 0>, '
            f"loop_annotation = #llvm.loop_annotation<{hints}>}}> : (i1, i64) -> ()"
        )

    def _while(self, statement: While) -> None:
        head, body, after = self._label(), self._label(), self._label()
        self._put(f"cf.br {head}")
        self._begin(head)
        self._block(statement.before)
        self._put(f"cf.cond_br {self._values[statement.condition.text]}, {body}, {after}")
        self._begin(body)
        self._block(statement.body)
        self._put(f"cf.br {head}")
        self._begin(after)

    def _if(self, statement: If) -> None:
        then, otherwise, after = self._label(), self._label(), self._label()
        self._put(f"cf.cond_br {self._values[statement.condition.text]}, {then}, {otherwise}")
        for label, block in ((then, statement.then), (otherwise, statement.otherwise)):
            self._begin(label)
            self._block(block)
            self._put(f"cf.br {after}")
        self._begin(after)


def _hints(loop: For) -> str:
    """The hints that LLVM gets for a loop: the width of its vectors if it is a sum, and how many to interleave.

    IREE 3.13 replaces the flags of all operations on floats by its own, so that none may be reordered. LLVM
    reorders sums all the same where a loop names the width of its vectors.
    """
    sums = {
        statement.result.text: bytes_of(statement.result.dtype)
        for statement in loop.body
        if isinstance(statement, Compute) and statement.name in _SUMS and statement.result.dtype.kind == "float"
    }
    put = [statement.value for statement in loop.body if isinstance(statement, Put)]
    widths = [_VECTOR // sums[value.text] for value in put if isinstance(value, Scalar) and value.text in sums]
    if (trip_count := known_trip_count(loop)) is not None:
        widths = [min(width, 1 << trip_count.bit_length() - 1) for width in widths]
    hints = [f"vectorize = <width = {min(widths)} : i32>"] if widths else []
    return ", ".join([*hints, "interleave = <count = 2 : i32>"] if loop.is_interleaved else hints)


def _buffers(nest: Nest) -> Iterable[Buffer]:
    """All buffers that a nest reads or writes entry by entry."""
    for statement in all_of(nest.body):
        if isinstance(statement, Load | Store):
            yield statement.buffer


def _scopes(numbers: Iterable[int]) -> str:
    domain = "#llvm.alias_scope_domain<id = distinct[0]<>>"
    return (
        f"[{', '.join(f'#llvm.alias_scope<id = distinct[{number + 1}]<>, domain = {domain}>' for number in numbers)}]"
    )


_PRINT: Mapping[type, Callable[[_Printer, Any], None]] = {
    Constant: _Printer._constant,
    Compute: _Printer._compute,
    Apply: _Printer._apply,
    Load: _Printer._load,
    Store: _Printer._store,
    Get: _Printer._get,
    Put: _Printer._put_cell,
    GetPointer: _Printer._get_pointer,
    PutPointer: _Printer._put_pointer,
    Allocate: _Printer._allocate,
    Require: _Printer._ignore,
    Free: _Printer._ignore,
    Copy: _Printer._copy,
    Check: _Printer._check,
    For: _Printer._for,
    While: _Printer._while,
    If: _Printer._if,
}
