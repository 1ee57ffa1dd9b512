"""Prints a loop nest as the text of an LLVM module: its function, and an entry that takes Python's arrays.

    i64 @run(ptr info, sizes..., parameters..., results...)
    i64 @entry(arrays of numpy and numbers..., arrays for results..., array info)

`entry` reads pointers and sizes out of numpy's array objects, so that a call costs Python nothing for them. Both return
0, or the number of the site that ended the run, counted from 1. `info` receives the numbers of its error, and the
addresses and sizes of results that the caller has no memory for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plica.backend.native.loops.call_lines import LOOP, CallLines, Module, WriteProduct
from plica.backend.native.loops.functions import Registers
from plica.backend.native.loops.most_work import Loop, Split, Storage, is_straight, may_end, named, used
from plica.backend.native.loops.nest import (
    Allocate,
    Apply,
    Buffer,
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
    Kernel,
    Load,
    Nest,
    Product,
    Put,
    PutPointer,
    Require,
    Reserve,
    Statement,
    Store,
    While,
)
from plica.backend.native.loops.scopes import Scopes
from plica.backend.native.loops.support import (
    CALLED,
    INTERLEAVED,
    METADATA,
    bytes_of,
    is_on_stack,
    product_text,
    stored,
)
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType
from plica.runtime.shared_library import NO_MEMORY


@dataclass(frozen=True, slots=True)
class Texts:
    """The modules of a nest.

    Args:
        main: The module of the function and of the entry.
        warm: The module of outlined loops with less work than hot ones; empty if there are none.
        hot: The module of outlined loops that LLVM optimizes fully; None if it optimizes `main` fully.
    """

    main: str
    warm: str
    hot: str | None


def llvm_text(
    nest: Nest, entry: str, registers: Registers, division: Split | None, write_product: WriteProduct = product_text
) -> Texts:
    """The text of the modules of a nest.

    Args:
        nest: The nest.
        entry: The text of a function that calls `run`.
        registers: The vector registers of the processor.
        division: The loops that become functions; None if there is one module alone, which is optimized as a whole.
        write_product: Writes the function of a product of matrices.
    """
    printer = _Printer(nest, division, registers, write_product=write_product)
    run, outlined = printer.function(), printer.outlined
    metadata = [*METADATA, *printer.scopes.lines()]
    parts = [*outlined.heads, *sorted(printer.declared), CALLED, *printer.functions.values(), run, entry]
    main = "\n".join([*parts, *metadata])
    warm, hot = (
        "\n".join([*module.lines(), *metadata]) if module.loops else "" for module in (outlined.warm, outlined.hot)
    )
    return Texts(main, warm, None if division is None else hot)


class _Printer(CallLines):
    """The lines of one nest.

    Attributes:
        declared: Declarations of intrinsics.
        functions: Functions of scalar code, by name.
        scopes: The classes of buffers that never overlap.
    """

    def __init__(
        self,
        nest: Nest,
        division: Split | None,
        registers: Registers,
        scopes: Scopes | None = None,
        module: Module | None = None,
        write_product: WriteProduct = product_text,
    ) -> None:
        super().__init__(module or Module(), registers, write_product, is_split=division is not None)
        self.scopes = scopes or Scopes(nest)
        self._split, self._nest = division or Split(frozenset(), frozenset()), nest
        self._fails: list[str] = []
        self._failed: list[tuple[str, int | str]] = []
        self._stack: dict[Buffer, Allocate] = {}
        self._named = named(nest.body) if self._split.hot else Counter[Storage]()

    def function(self) -> str:
        """The text of `run`."""
        nest, head = self._nest, ["ptr noalias %info"]
        for size, _, _ in nest.sizes:
            self._values[size.text] = f"%{size.text}"
            head.append(f"i64 %{size.text}")
        for parameter in nest.parameters:
            if isinstance(parameter, Buffer):
                self._buffers[parameter] = f"%{parameter.name}"
                head.append(f"ptr noalias readonly %{parameter.name}")
            else:
                self._values[parameter.text] = f"%{parameter.text}"
                head.append(f"{llvm_type(parameter.dtype)} %{parameter.text}")
        for result in nest.results:
            if result.is_caller_allocated:
                self._buffers[result.buffer] = f"%{result.buffer.name}"
                head.append(f"ptr noalias %{result.buffer.name}")
        self._block(nest.body)
        self._results()
        lines = [
            f"define internal i64 @run({', '.join(head)}) noinline {{",  # else it is optimized twice
            "entry:",
            "%head = alloca ptr",
            "store ptr null, ptr %head",
            *self._ending("call void @plica.give_all(ptr %head)"),
        ]
        return "\n".join(lines)

    def _ending(self, *last: str) -> list[str]:
        """The lines of a function after its head; the function returns the site that ended it, or 0."""
        ends = "".join(f", [ {status}, %{label} ]" for label, status in self._failed)
        return [
            *self._entry,
            *self._code.lines,
            "br label %done",
            *self._fails,
            "done:",
            f"%status = phi i64 [ 0, %{self._code.block} ]{ends}",
            *last,
            "ret i64 %status",
            "}",
        ]

    def _results(self) -> None:
        position = 0
        for result in (result for result in self._nest.results if not result.is_caller_allocated):
            pointer = self._code.fresh()
            self._code.lines.append(f"{pointer} = call ptr @plica.keep(ptr {self._buffers[result.buffer]})")
            self._store_info(position, pointer, "ptr", self._code.lines)
            for axis, dim in enumerate(result.dims):
                self._store_info(position + 1 + axis, self._index(dim), "i64", self._code.lines)
            position += 1 + len(result.dims)

    def _store_info(self, position: int, value: str, type_: str, lines: list[str]) -> None:
        pointer = self._code.fresh()
        lines.append(f"{pointer} = getelementptr i64, ptr %info, i64 {position}")
        lines.append(f"store {type_} {value}, ptr {pointer}")

    # Statements

    def _block(self, block: Iterable[Statement]) -> None:
        for statement in block:
            _PRINT[type(statement)](self, statement)

    def _get_pointer(self, statement: GetPointer) -> None:
        name, cell = self._code.fresh(), self._cell(statement.cell)
        self._put(f"{name} = load ptr, ptr {cell}")
        self._buffers[statement.buffer] = name

    def _put_pointer(self, statement: PutPointer) -> None:
        self._put(f"store ptr {self._address(statement.buffer, statement.start)}, ptr {self._cell(statement.cell)}")

    def _size(self, count: Index, dtype: DType) -> str:
        """The size of `count` entries in bytes."""
        if isinstance(count, int):
            return str(count * bytes_of(dtype))
        if bytes_of(dtype) == 1:
            return self._index(count)
        name = self._code.fresh()
        self._put(f"{name} = mul nsw i64 {self._index(count)}, {bytes_of(dtype)}")
        return name

    def _allocate(self, statement: Allocate) -> None:
        dtype = statement.buffer.dtype
        if statement.buffer in self._stack:
            return
        name = self._buffers[statement.buffer] = self._code.fresh()
        if is_on_stack(statement):
            self._stack[statement.buffer] = statement
            self._entry.append(f"{name} = alloca [{statement.count} x {stored(dtype)}], align 64")
            return
        self._put(
            f"{name} = call ptr @plica.take(ptr %head, i64 {self._index(statement.count)}, i64 {bytes_of(dtype)})"
        )
        if not statement.may_fail:
            self._require_memory(name)

    def _require_memory(self, name: str) -> None:
        failed, label, is_null = self._label(), self._label(), self._code.fresh()
        self._put(f"{is_null} = icmp eq ptr {name}, null")
        self._put(f"br i1 {is_null}, label %{failed}, label %{label}, !prof !0")
        self._fails += [f"{failed}:", "br label %done"]
        self._failed.append((failed, NO_MEMORY))
        self._code.begin(label)

    def _free(self, statement: Free) -> None:
        if statement.buffer not in self._stack:
            self._put(f"call void @plica.give(ptr {self._buffers[statement.buffer]})")

    def _reserve(self, statement: Reserve) -> None:
        code = self._code
        cell, before = self._cell(statement.capacity), code.block
        room, is_enough, twice, new_capacity = code.fresh(), code.fresh(), code.fresh(), code.fresh()
        grow, after = self._label(), self._label()
        self._put(f"{room} = load i64, ptr {cell}")
        self._put(f"{is_enough} = icmp sle i64 {self._index(statement.wanted)}, {room}")
        self._put(f"br i1 {is_enough}, label %{after}, label %{grow}")
        code.begin(grow)
        self.declared.add("declare i64 @llvm.umax.i64(i64, i64)")
        self._put(f"{twice} = mul i64 {self._index(statement.wanted)}, 2")
        self._put(f"{new_capacity} = call i64 @llvm.umax.i64(i64 {twice}, i64 16)")
        moved, old, entry_bytes = code.fresh(), self._buffers[statement.buffer], bytes_of(statement.buffer.dtype)
        self._put(f"{moved} = call ptr @plica.grow(ptr %head, ptr {old}, i64 {new_capacity}, i64 {entry_bytes})")
        self._require_memory(moved)
        self._put(f"store i64 {new_capacity}, ptr {cell}")
        last = code.block
        self._put(f"br label %{after}")
        code.begin(after)
        name = self._buffers[statement.result] = code.fresh()
        self._put(f"{name} = phi ptr [ {old}, %{before} ], [ {moved}, %{last} ]")

    def _copy(self, statement: Copy) -> None:
        to, start = self._address(statement.target, statement.to), self._address(statement.source, statement.start)
        size = self._size(statement.count, statement.target.dtype)
        self.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self._put(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {start}, i64 {size}, i1 false)")

    def _check(self, statement: Check) -> None:
        failed, label = self._label(), self._label()
        self._put(f"br i1 {self._values[statement.condition.text]}, label %{label}, label %{failed}, !prof !1")
        self._fails.append(f"{failed}:")
        for index, number in enumerate(statement.numbers):
            self._store_info(index, self._index(number), "i64", self._fails)
        self._fails.append("br label %done")
        self._failed.append((failed, statement.site + 1))
        self._code.begin(label)

    # Control flow

    def _outline(self, loop: Loop, module: Module) -> None:
        """Write a loop as a function of a module, and call it."""
        inner = _Printer(self._nest, None, self._registers, self.scopes, module, self._write_product)
        arguments: list[str] = []
        parameters: list[str] = []
        values, outside, private = used(loop, self._named)
        for value in values:
            text = self._values[value.text]
            inner._values[value.text] = text
            if text.startswith("%"):
                name = inner._values[value.text] = f"%x{len(arguments)}"
                arguments.append(f"{llvm_type(value.dtype)} {text}")
                parameters.append(f"{llvm_type(value.dtype)} {name}")
        for storage in [
            *outside,
            *(parameter for parameter in private if isinstance(parameter, Buffer) and parameter not in self._stack),
        ]:
            name = f"%x{len(arguments)}"
            if isinstance(storage, Buffer):
                inner._buffers[storage], text = name, self._buffers[storage]
            else:
                inner._cells[storage], text = name, self._cell(storage)
            arguments.append(f"ptr {text}")
            parameters.append(f"ptr {name}" if isinstance(storage, Buffer) else f"ptr noalias {name}")
        for storage in private:
            if isinstance(storage, Buffer) and storage in self._stack:
                inner._allocate(self._stack[storage])
        ends = may_end(loop)
        if ends:
            arguments, parameters = (
                ["ptr %info", "ptr %head", *arguments],
                ["ptr noalias %info", "ptr %head", *parameters],
            )
        _PRINT[type(loop)](inner, loop)
        name = f"{LOOP}{len(self.outlined.heads)}"
        head = f"{'i64' if ends else 'void'} @{name}({', '.join(parameters)})"
        lines = inner._ending() if ends else [*inner._entry, *inner._code.lines, "ret void", "}"]
        module.loops.append("\n".join([f"define {head} noinline nounwind {{", "entry:", *lines]))
        self.outlined.heads.append(f"declare {head}")
        call = f"@{name}({', '.join(arguments)})"
        if not ends:
            self._put(f"call void {call}")
            return
        status, ended, failed, label = self._code.fresh(), self._code.fresh(), self._label(), self._label()
        self._put(f"{status} = call i64 {call}")
        self._put(f"{ended} = icmp ne i64 {status}, 0")
        self._put(f"br i1 {ended}, label %{failed}, label %{label}, !prof !0")
        self._fails += [f"{failed}:", "br label %done"]
        self._failed.append((failed, status))
        self._code.begin(label)

    def _is_outlined(self, loop: Loop) -> bool:
        """Outline a loop if it belongs to a module of outlined loops; returns whether it does."""
        module = (
            self.outlined.hot if loop in self._split.hot else self.outlined.warm if loop in self._split.warm else None
        )
        if module is not None:
            self._outline(loop, module)
        return module is not None

    def _for(self, statement: For) -> None:
        """A rotated loop, with its test at the end; a second test precedes it if it may have no iteration."""
        if self._is_outlined(statement):
            return
        if is_straight(statement):
            for iteration in range(statement.lower, statement.upper):  # type: ignore[arg-type]
                self._values[statement.index.text] = str(iteration)
                self._block(statement.body)
            return
        code = self._code
        body, after, index = self._label(), self._label(), code.fresh()
        lower, upper = self._index(statement.lower), self._index(statement.upper)
        if isinstance(statement.lower, int) and isinstance(statement.upper, int):
            self._put(f"br label %{body}")
        else:
            some = code.fresh()
            self._put(f"{some} = icmp slt i64 {lower}, {upper}")
            self._put(f"br i1 {some}, label %{body}, label %{after}")
        before = code.block
        code.begin(body)
        phi_line = len(code.lines)
        next_index, continues = code.fresh(), code.fresh()
        self._values[statement.index.text] = index
        self._block(statement.body)
        self._put(f"{next_index} = add nsw i64 {index}, 1")
        self._put(f"{continues} = icmp slt i64 {next_index}, {upper}")
        hint = f", !llvm.loop !{INTERLEAVED}" if statement.is_interleaved else ""
        self._put(f"br i1 {continues}, label %{body}, label %{after}{hint}")
        code.lines.insert(phi_line, f"{index} = phi i64 [ {lower}, %{before} ], [ {next_index}, %{code.block} ]")
        code.begin(after)

    def _while(self, statement: While) -> None:
        if self._is_outlined(statement):
            return
        code = self._code
        head, body, after = self._label(), self._label(), self._label()
        self._put(f"br label %{head}")
        code.begin(head)
        self._block(statement.before)
        self._put(f"br i1 {self._values[statement.condition.text]}, label %{body}, label %{after}")
        code.begin(body)
        self._block(statement.body)
        self._put(f"br label %{head}")
        code.begin(after)

    def _if(self, statement: If) -> None:
        code = self._code
        then, otherwise, after = self._label(), self._label(), self._label()
        self._put(f"br i1 {self._values[statement.condition.text]}, label %{then}, label %{otherwise}")
        for label, block in ((then, statement.then), (otherwise, statement.otherwise)):
            code.begin(label)
            self._block(block)
            self._put(f"br label %{after}")
        code.begin(after)


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
    Require: lambda self, require: self._require_memory(self._buffers[require.buffer]),
    Free: _Printer._free,
    Reserve: _Printer._reserve,
    Copy: _Printer._copy,
    Check: _Printer._check,
    Product: _Printer._product,
    Kernel: _Printer._kernel,
    For: _Printer._for,
    While: _Printer._while,
    If: _Printer._if,
}
