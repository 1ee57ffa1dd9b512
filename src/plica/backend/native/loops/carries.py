"""The memory of carried values of loops: before, in and after their iterations.

A carried array has memory of its own. A new value that reads the old one at the same index alone is written over it.
Others are written to a second buffer, and the two buffers are swapped. Arrays of changing size are reached by a pointer
and have spare capacity.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.backend.native.loops.arrays import Array, Value, fill, solid
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import (
    Allocate,
    Buffer,
    Cell,
    Free,
    GetPointer,
    PointerCell,
    Put,
    PutPointer,
    Statement,
)
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, Program, Var, size_variables
from plica.ops.control_operands import (
    carries,
    implicit_operand,
)
from plica.ops.regions import regions_of

_SWAPPED_FROM = 256
"""Arrays of fewer known entries are copied back after each iteration; others are swapped with a second buffer."""


@dataclass(slots=True, eq=False)
class _Carry:
    """An array that a loop carries.

    Args:
        inner: The variable of the body.
        first: Its value before the loop.
        result: The result of the body.
        output: The output of the loop.
        buffer: Its memory within the body.
        grows: Whether its size changes.
        pointer: The cell with its memory, if that changes.
        next_pointer: The cell with the memory of the next value, if buffers are swapped.
        capacity: The cell with the number of entries that there is room for, if its size changes.
        fixed_memory: Its memory, if that does not change.
    """

    inner: Var
    first: Operand
    result: Operand
    output: Var
    buffer: Buffer
    grows: bool
    pointer: PointerCell | None = None
    next_pointer: PointerCell | None = None
    capacity: Cell | None = None
    fixed_memory: Array | None = None


class Loop:
    """A loop that is being written: its carried values before, in and after its body. The body is written first."""

    def __init__(self, block: Block, equation: Equation) -> None:
        self.block, self.equation, self.writer = block, equation, block.writer
        self.body: Program = equation.params["body"]
        self.env: dict[Operand, Value] = {}
        self.head: list[Statement] = []
        """The statements at the beginning of each iteration."""
        self._first_values: list[Statement] = []
        self._sizes: dict[int, Cell] = {}
        self._scalars: list[tuple[Cell, Operand, Operand, Var]] = []
        self._arrays: list[_Carry] = []
        self._unchanged: list[tuple[Var, Value]] = []
        self._captures(self.body, regions_of(equation)[-1][1])
        self._make_carries()

    def _captures(self, program: Program, operands: Sequence[Operand]) -> None:
        for var, operand in zip(program.consts, operands, strict=False):
            self.env[var] = self.captured(operand)

    def captured(self, operand: Operand) -> Value:
        """A value that each iteration reads: written to memory once, unless computing it is as cheap as reading it."""
        value = self.block.value(operand)
        if isinstance(value, Array) and value.buffer is None and (value.work or value.flat is None):
            value = self.block.in_memory(value)
            if isinstance(operand, Var):
                self.block.env[operand] = value
        return value

    def _make_carries(self) -> None:
        writer, body = self.writer, self.body
        for inner, first, result, output in carries(self.equation):
            if result is inner:
                self.env[inner] = self.captured(first)
                self._unchanged.append((output, self.env[inner]))
        with writer.into(self.head):
            for index, inner in enumerate(body.inputs[: body.num_implicit_inputs]):
                first = implicit_operand(self.equation, index)
                if body.outputs[index] is inner:
                    self.env[inner] = self.block.value(first)
                else:
                    cell = self._sizes[index] = writer.cell(DType.INT64)
                    self._first_values.append(Put(cell, self.block.index(self.block.value(first))))
                    self.env[inner] = writer.get(cell)
            changing = {body.inputs[index] for index in self._sizes}
            for inner, first, result, output in carries(self.equation):
                if result is inner:
                    continue
                if not inner.type.shape:
                    cell = writer.cell(inner.type.dtype)
                    self._scalars.append((cell, first, result, output))
                    self.env[inner] = writer.get(cell)
                else:
                    grows = any(var in changing for var in size_variables(inner.type))
                    self._arrays.append(_Carry(inner, first, result, output, writer.buffer(inner.type.dtype), grows))

    def write_body(self, inner: Block) -> None:
        """Append the equations of the body to the writer's block."""
        writer = self.writer
        writer.block.extend(self.head)
        for array in self._arrays:
            inner.env[array.inner] = solid(writer, array.buffer, inner.dims(array.inner.type))
            inner.owned.add(array.buffer)
            if array.grows:
                inner.leaving.add(array.result)
                array.capacity = writer.cell(DType.INT64)
                inner.capacities[array.buffer] = array.capacity
        inner.run()

    def end_iteration(self, inner: Block) -> None:
        """End an iteration: carried variables get their new values."""
        writer = self.writer
        values = {array.result: inner.value(array.result) for array in self._arrays}
        scalars = [(cell, inner.scalar(inner.value(result))) for cell, _, result, _ in self._scalars]
        sizes = [(cell, inner.index(inner.value(self.body.outputs[index]))) for index, cell in self._sizes.items()]
        pointwise = self._pointwise(values)
        still_allocated: list[Buffer] = []
        deferred: list[Callable[[], None]] = []
        for carry in self._arrays:
            value = values[carry.result]
            assert isinstance(value, Array), "an array becomes an array"
            if carry.grows:
                still_allocated += self._replace_memory(carry, value, inner, deferred)
            elif carry not in pointwise and not _is_all_of(value, carry.buffer):
                self._write_to_second_buffer(carry, value, inner, deferred)
        self._fill_together([(array, values[array.result]) for array in pointwise])
        for write in deferred:
            write()
        for cell, new_value in (*scalars, *sizes):
            writer.put(Put(cell, new_value))
        inner.free_temporaries(still_allocated)

    def _pointwise(self, values: Mapping[Operand, Value]) -> list[_Carry]:
        """The arrays that may be overwritten entry by entry: no new value reads them at another index."""
        pointwise = [
            array for array in self._arrays if not array.grows and _is_pointwise(values[array.result], array.buffer)
        ]
        while True:
            dims = {array: array.inner.type.shape for array in pointwise}
            remaining = [
                array
                for array in pointwise
                if all(
                    _is_pointwise(values[reader.result], array.buffer) and dims[array] == dims[reader]
                    for reader in pointwise
                    if reader is not array and array.buffer in values[reader.result].reads  # type: ignore[union-attr]
                )
            ]
            if len(remaining) == len(pointwise):
                return pointwise
            pointwise = remaining

    def _fill_together(self, pairs: Sequence[tuple[_Carry, Value]]) -> None:
        """Write several arrays in common loops: the entries of all arrays at an index before those at the next."""
        groups: dict[Any, list[tuple[Array, Array]]] = {}
        for array, value in pairs:
            assert isinstance(value, Array), "an array becomes an array"
            target = solid(self.writer, array.buffer, value.dims)
            groups.setdefault(array.inner.type.shape, []).append((target, value))
        for group in groups.values():
            if len(group) == 1:
                fill(self.writer, *group[0])
                continue
            with self.writer.nest(group[0][0].dims) as index:
                entries = [value.read(index) for _, value in group]
                offset = self.writer.flat(index, group[0][0].dims)
                for (target, _), entry in zip(group, entries, strict=True):
                    assert target.buffer is not None, "a carry lies in memory"
                    self.writer.store(target.buffer, offset, entry)

    def _write_to_second_buffer(
        self, carry: _Carry, value: Array, inner: Block, deferred: list[Callable[[], None]]
    ) -> None:
        """Write the new value to other memory, which is then swapped with that of the carry, or copied to it."""
        writer = self.writer
        count = writer.product(value.dims)
        if isinstance(count, int) and count < _SWAPPED_FROM:
            is_in_other_memory = value.buffer is not None and all(
                value.buffer is not carry.buffer for carry in self._arrays
            )
            new = value if is_in_other_memory else inner.temporary(value.dtype, value.dims)
            if not is_in_other_memory:
                fill(writer, new, value)
            deferred.append(lambda: fill(writer, solid(writer, carry.buffer, value.dims), new))
            return
        carry.pointer, carry.next_pointer = writer.pointer(value.dtype), writer.pointer(value.dtype)
        target = writer.buffer(value.dtype)
        writer.put(GetPointer(target, carry.next_pointer))
        fill(writer, solid(writer, target, value.dims), value)
        assert carry.pointer is not None, "just made"
        pointer, second_pointer = carry.pointer, carry.next_pointer
        deferred.append(lambda: writer.put(PutPointer(pointer, target)))
        deferred.append(lambda: writer.put(PutPointer(second_pointer, carry.buffer)))

    def _replace_memory(
        self, array: _Carry, value: Array, inner: Block, deferred: list[Callable[[], None]]
    ) -> Sequence[Buffer]:
        """Make the memory of a value of another size that of the carry; returns buffers that stay allocated."""
        writer = self.writer
        array.pointer = writer.pointer(value.dtype)
        capacity, pointer = array.capacity, array.pointer
        assert capacity is not None, "growing arrays have a capacity"
        if _is_all_of(value, array.buffer):
            deferred.append(lambda: writer.put(PutPointer(pointer, array.buffer)))
            return ()
        if value.buffer is not None and value.start == 0 and inner.capacities.get(value.buffer) is capacity:
            grown = value.buffer
            deferred.append(lambda: writer.put(PutPointer(pointer, grown)))
            return ()
        sharers = [carry for carry in self._arrays if carry is not array and carry.result is array.result]
        if not inner.may_leave(value) or sharers:
            new = inner.new(array.result, value.dims, leaves=True)
            fill(writer, new, value)
            value = new
        buffer = value.buffer
        assert buffer is not None, "it lies in memory"
        # if this iteration grew the array in place, its old memory is that of the grown array
        old = [each for each, cell in inner.capacities.items() if cell is capacity][-1]
        deferred.append(lambda: writer.put(Free(old)))
        deferred.append(lambda: writer.put(PutPointer(pointer, buffer)))
        deferred.append(lambda: writer.put(Put(capacity, writer.product(value.dims))))
        return [buffer]

    # Before and after

    def write_before(self) -> None:
        """Write the statements before the loop, after its body."""
        block, writer = self.block, self.writer
        writer.block.extend(self._first_values)
        for cell, operand, _, _ in self._scalars:
            writer.put(Put(cell, block.scalar(block.value(operand))))
        for array in self._arrays:
            first = block.value(array.first)
            assert isinstance(first, Array), "an array begins as an array"
            dims = first.dims
            if array.grows:
                assert array.pointer is not None and array.capacity is not None, "the body was written"  # noqa: PT018
                if not self._may_take_over(array, first) or not block.may_leave(first):
                    first = self._copied(array, first, leaves=True)
                else:
                    block.temporaries = [each for each in block.temporaries if each.buffer is not first.buffer]
                assert first.buffer is not None, "it lies in memory"
                writer.put(PutPointer(array.pointer, first.buffer))
                writer.put(Put(array.capacity, writer.product(dims)))
                continue
            if not self._may_take_over(array, first):
                first = self._copied(array, first)
            assert first.buffer is not None, "it lies in memory"
            if array.pointer is None:
                array.fixed_memory = first
                block.alias(array.buffer, first)
            else:
                assert array.next_pointer is not None, "two buffers are swapped"
                second = block.temporary(first.dtype, dims)
                assert second.buffer is not None, "it lies in memory"
                writer.put(PutPointer(array.pointer, first.buffer))
                writer.put(PutPointer(array.next_pointer, second.buffer))

    def begin_iteration(self) -> None:
        """Write the beginning of each iteration, after the body: read the pointers to arrays."""
        for array in self._arrays:
            if array.pointer is not None:
                self.writer.put(GetPointer(array.buffer, array.pointer))

    def _may_take_over(self, array: _Carry, first: Array) -> bool:
        """Whether the loop may take over the memory of the first value of a carry."""
        other_operands = [operand for operand in self.equation.inputs if operand is not array.first]
        if sum(operand is array.first for operand in self.equation.inputs) > 1:
            return False
        for operand in other_operands:
            value = self.block.env.get(operand)
            if isinstance(value, Array) and first.buffer in value.reads:
                return False
        return first.buffer in self.block.dying([array.first])

    def _copied(self, array: _Carry, first: Array, *, leaves: bool = False) -> Array:
        var: Operand = array.output if not array.grows and array.pointer is None else array.inner
        copy = self.block.new(var, first.dims, leaves=leaves)
        fill(self.writer, copy, first)
        if leaves:
            self.block.temporaries = [each for each in self.block.temporaries if each.buffer is not copy.buffer]
        return copy

    def results(self) -> tuple[Value, ...]:
        """The results of the loop."""
        block, writer, equation = self.block, self.writer, self.equation
        values: dict[Var, Value] = dict(self._unchanged)
        outputs = equation.outputs[: equation.params["num_implicit_outputs"]]
        for index, var in enumerate(outputs):
            size = self._sizes.get(index)
            operand = implicit_operand(equation, index)
            values[var] = block.value(operand) if size is None else writer.get(size)
            block.env[var] = values[var]  # a size in the types of other results
        for cell, _, _, output in self._scalars:
            values[output] = block.env[output] = writer.get(cell)
        for array in self._arrays:
            if array.fixed_memory is not None:
                values[array.output] = block.env[array.output] = array.fixed_memory
                continue
            assert array.pointer is not None, "it has fixed memory or a pointer"
            buffer = writer.buffer(array.inner.type.dtype)
            writer.put(GetPointer(buffer, array.pointer))
            block.owned.add(buffer)
            if array.grows:
                block.temporaries.append(Allocate(buffer, 0, leaves=True))
            values[array.output] = solid(writer, buffer, block.dims(array.output.type))
        return tuple(values[var] for var in equation.outputs if var in values)


def _is_all_of(value: Array, buffer: Buffer) -> bool:
    return value.buffer is buffer and value.start == 0


def _is_pointwise(value: Value, buffer: Buffer) -> bool:
    """Whether an array that is computed reads a buffer at the same index only, or not at all."""
    return isinstance(value, Array) and value.buffer is None and value.reads.get(buffer, True)
