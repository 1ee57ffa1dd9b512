"""Dispatches that are written line by line: blocks of folds by blocks of rows.

Each block is one workgroup. Arrays of a dispatch have axes of known sizes, but for one, the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.types import Value, tensor_type
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType

WIDEST = {"f32": 32, "f64": 16}
"""Entries of a vector: two of the widest registers."""
TENSOR = "!iree_tensor_ext.dispatch.tensor"
_LINE = 64  # bytes of a cache line
_GROUPS = 32  # blocks of folds, at most
_ROWS = 64  # of a block of rows
_BLOCKS = 4  # of rows, at least, where blocks may be smaller


def pieces(size: int, widest: int) -> Iterator[tuple[int, int]]:
    """Where vectors begin, and how wide they are: as wide as possible, and powers of two."""
    start = 0
    while start < size:
        width = widest
        while width > size - start:
            width //= 2
        yield start, width
        start += width


def write_dispatch(emitter: Emitter, call: Call, rows: Dim, kernel: Dispatch) -> Sequence[Value]:
    """The results of a dispatch, `(F, rows, ...)`."""
    code, operands = emitter.code, kernel.operands
    name, number = f"{emitter.name}.layer{len(code.executables)}", emitter.size(rows)
    code.executables.append(_executable(name, kernel, call.types))
    arguments = ", ".join(operand.text for operand in operands)
    types = ", ".join(f"{operand.type}{braced(emitter, operand.shape)}" for operand in operands)
    result_types = ", ".join(
        f"{tensor_type(type_.shape, type_.dtype)}{braced(emitter, type_.shape)}" for type_ in call.types
    )
    dispatch = f"flow.dispatch @{name}::@{name}[{number}]({arguments}, {number}) : ({types}, index) -> ({result_types})"
    names = code.several(dispatch, len(call.types))
    return [Value(text, type_.shape, type_.dtype) for text, type_ in zip(names, call.types, strict=True)]


def _executable(name: str, kernel: Dispatch, results: Sequence[ArrayType]) -> str:
    """The text of an executable: arrays are tensors in it, and also pointers if it prefetches their rows."""
    bindings = {f"s{index}": ("readonly", operand.shape, operand.type) for index, operand in enumerate(kernel.operands)}
    bindings |= {
        f"o{index}": ("writeonly", result.shape, tensor_type(result.shape, result.dtype))
        for index, result in enumerate(results)
    }
    head = [f"%{binding}.b: !stream.binding" for binding in bindings]
    head.insert(len(kernel.operands), "%n: index")
    lines = [
        "%begin = arith.constant 0 : index",
        "%rows = iree_tensor_ext.dispatch.workload.ordinal %n, 0 : index",
    ]
    for array, (access, shape, type_) in bindings.items():
        sizes = "" if all(isinstance(dim, int) for dim in shape) else "{%rows}"
        subspan = f"stream.binding.subspan %{array}.b[%begin] : !stream.binding"
        lines.append(f"%{array} = {subspan} -> {TENSOR}<{access}:{type_}>{sizes}")
        if array in kernel.fetched:
            lines += [
                f"%{array}.m = {subspan} -> memref<1xi8>",
                f"%{array}.i = memref.extract_aligned_pointer_as_index %{array}.m : memref<1xi8> -> index",
                f"%{array}.w = arith.index_cast %{array}.i : index to i64",
                f"%{array}.p = llvm.inttoptr %{array}.w : i64 to !llvm.ptr",
            ]
    body = "\n".join(f"        {line}" for line in (*lines, *kernel.constants(), *kernel.lines))
    count = "\n".join(f"      {line}" for line in kernel.count())
    return f"""  stream.executable private @{name} {{
    stream.executable.export public @{name} workgroups(%n: index) -> (index, index, index) {{
{count}
    }}
    builtin.module {{
      func.func @{name}({", ".join(head)}) {{
{body}
      }}
    }}
  }}
"""


def braced(emitter: Emitter, shape: Sequence[Dim]) -> str:
    """The sizes of a tensor that its type lacks, in braces."""
    sizes = [emitter.size(dim) for dim in shape if not isinstance(dim, int)]
    return f"{{{', '.join(sizes)}}}" if sizes else ""


class Dispatch:
    """The lines of a dispatch under construction.

    Attributes:
        lines: The lines.
        operands: The values that are read.
        tensors: The operands as tensors, by their positions.
        fetched: The operands of which rows are prefetched.
        number: How many rows the block has.
        first_row: The first of them.

    Args:
        operands: The values that are read.
        folds: How many folds the results have.
        rows: How many rows.
        most: Rows of a block, at most.
        fewest: Rows of a block, at least.
    """

    def __init__(
        self, operands: Sequence[Value], folds: int, rows: Dim, most: int = _ROWS, fewest: int = _ROWS
    ) -> None:
        self.lines: list[str] = []
        self.operands, self.folds, self.rows = operands, folds, rows
        self.element = next(operand.element for operand in operands if operand.element in WIDEST)
        self.tensors: dict[int, str] = {}
        self.fetched: dict[str, None] = {}
        self._count = 0
        self._indices: dict[int, None] = {0: None, 1: None}
        self._block = -(-folds // _GROUPS)
        self._most, self._fewest = most, fewest

    def count(self) -> list[str]:
        """The number of blocks of folds, and of rows."""
        return [
            f"%c0 = arith.constant {-(-self.folds // self._block)} : index",
            "%c1 = arith.constant 1 : index",
            *self._rows_of_block("%n"),
            "%c2 = arith.ceildivui %n, %size : index",
            "%c3 = arith.maxui %c2, %c1 : index",
            "stream.return %c0, %c3, %c1 : index, index, index",
        ]

    def _rows_of_block(self, rows: str) -> list[str]:
        """Lines that compute `%size`: smaller than the largest block if that would leave too few blocks."""
        if self._fewest == self._most:
            return [f"%size = arith.constant {self._most} : index"]
        return [
            f"%fewest = arith.constant {self._fewest} : index",
            f"%most = arith.constant {self._most} : index",
            f"%all = arith.constant {self._fewest * _BLOCKS} : index",
            f"%part = arith.ceildivui {rows}, %all : index",
            "%parts = arith.muli %part, %fewest : index",
            "%some = arith.minui %parts, %most : index",
            "%size = arith.maxui %some, %fewest : index",
        ]

    def put(self, text: str) -> None:
        """One line."""
        self.lines.append("  " + text)

    def fresh(self) -> int:
        """A number that no name has."""
        self._count += 1
        return self._count

    def op(self, text: str) -> str:
        """Write a line that computes a value; returns the name of the value."""
        name = f"%x{self.fresh()}"
        self.put(f"{name} = {text}")
        return name

    def index(self, value: int) -> str:
        """A number as a value of type `index`."""
        self._indices[value] = None
        return f"%k{value}"

    def constants(self) -> list[str]:
        """The numbers of type `index` that the lines read, `%k0`, `%k1`, ..., and `%zero`."""
        numbers = [f"  %k{value} = arith.constant {value} : index" for value in sorted(self._indices)]
        return [f"  %zero = arith.constant 0.0 : {self.element}", *numbers]

    def begin(self, loaded: Sequence[int]) -> None:
        """Begin the loop over folds `%f`; the operands at the positions `loaded` are loaded before it."""
        for position in loaded:
            self.tensors[position] = self._load(position)
        group, part = (self.op(f"stream.dispatch.workgroup.id[{axis}] : index") for axis in (0, 1))
        for line in self._rows_of_block("%rows"):
            self.put(line)
        block = self.index(self._block)
        self.first_row = self.op(f"arith.muli {part}, %size : index")
        left = self.op(f"arith.subi %rows, {self.first_row} : index")
        self.number = self.op(f"arith.minsi {left}, %size : index")
        first = self.op(f"arith.muli {group}, {block} : index")
        last = self.op(f"arith.addi {first}, {block} : index")
        last = self.op(f"arith.minsi {last}, {self.index(self.folds)} : index")
        self.put(f"scf.for %f = {first} to {last} step %k1 {{")

    def end(self, results: Sequence[tuple[str, int]]) -> None:
        """The results of fold `%f`, each `(rows of the block, width)`, and the end of the loop."""
        rows, dynamic = (self.rows, "") if isinstance(self.rows, int) else ("?", "{%rows}")
        for index, (block, width) in enumerate(results):
            self.put(
                f"iree_tensor_ext.dispatch.tensor.store {block}, %o{index}, offsets = [%f, {self.first_row}, 0], "
                f"sizes = [1, {self.number}, {width}], strides = [1, 1, 1] : tensor<?x{width}x{self.element}> -> "
                f"{TENSOR}<writeonly:tensor<{self.folds}x{rows}x{width}x{self.element}>>{dynamic}"
            )
        self.put("}")
        self.put("return")

    def _load(self, position: int) -> str:
        value = self.operands[position]
        sizes = ", ".join(str(dim) if isinstance(dim, int) else "%rows" for dim in value.shape)
        zeros, ones = (", ".join([number] * len(value.shape)) for number in ("0", "1"))
        dynamic = "" if all(isinstance(dim, int) for dim in value.shape) else "{%rows}"
        return self.op(
            f"iree_tensor_ext.dispatch.tensor.load %s{position}, offsets = [{zeros}], sizes = [{sizes}], "
            f"strides = [{ones}] : {TENSOR}<readonly:{value.type}>{dynamic} -> {value.type}"
        )

    def clamped(self, index: str, value: Value) -> str:
        """An index, clamped to the first axis of an array."""
        index = self.op(f"arith.maxsi {index}, %k0 : index")
        return self.op(f"arith.minsi {index}, {self.index(int(value.shape[0]) - 1)} : index")

    def column(self, first: int, fold: str) -> tuple[str, str]:
        """The column of states, and the first row of the table, of a fold; `first` is the position of the table."""
        clamped_fold = self.clamped(fold, self.operands[first + 2])
        numbers = []
        for position in (first + 2, first + 3):
            tensor, type_ = self.tensors[position], self.operands[position].type
            number = self.op(f"tensor.extract {tensor}[{clamped_fold}] : {type_}")
            numbers.append(self.op(f"arith.index_cast {number} : i64 to index"))
        return numbers[0], numbers[1]

    def looked_up(self, first: int, row: str, column: tuple[str, str]) -> str:
        """The row of the table that the state in a row of data selects."""
        states = self.operands[first + 1]
        number = self.op(f"tensor.extract {self.tensors[first + 1]}[{row}, {column[0]}] : {states.type}")
        number = self.op(f"arith.index_cast {number} : {states.element} to index")
        return self.clamped(self.op(f"arith.addi {number}, {column[1]} : index"), self.operands[first])

    def read(self, position: int, indices: Sequence[str], type_: str) -> str:
        """A vector of the operand at a position, from `indices` on along the last axis."""
        return self.op(
            f"vector.transfer_read {self.tensors[position]}[{', '.join(indices)}], %zero {{in_bounds = [true]}} : "
            f"{self.operands[position].type}, {type_}"
        )

    def fetch(self, position: int, row: str) -> None:
        """Prefetch a row of the operand at a position."""
        _, width = self.operands[position].shape
        assert isinstance(width, int), "tables are constants"
        self.fetched[f"s{position}"] = None
        begin = self.op(f"arith.muli {row}, {self.index(width)} : index")
        for start in range(0, width, _LINE // self.operands[position].dtype.numpy.itemsize):
            entry = self.op(f"arith.addi {begin}, {self.index(start)} : index")
            entry = self.op(f"arith.index_cast {entry} : index to i64")
            pointer = f"llvm.getelementptr %s{position}.p[{entry}] : (!llvm.ptr, i64) -> !llvm.ptr, {self.element}"
            hints = "<{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}>"
            self.put(f'"llvm.intr.prefetch"({self.op(pointer)}) {hints} : (!llvm.ptr) -> ()')
