"""What loops carry: where it lies before, in and after their turns.

What a loop carries has memory of its own. A new value that reads the old one at the same index alone is written over
it; others are written to a second buffer, and the two change places. Arrays that change their size are behind a
pointer, and have spare capacity.
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
"""Arrays of fewer known entries are copied back after each turn; others change places with a second buffer."""


@dataclass(slots=True, eq=False)
class _Carry:
    """An array that a loop carries.

    Args:
        inner: The body's variable.
        first: What it begins as.
        result: The body's result.
        output: The loop's.
        buffer: Where the body finds it.
        grows: Whether its size changes.
        pointer: Where it lies, if that changes.
        other: Where the next one is to lie, if they change places.
        capacity: For how many entries there is room, if its size changes.
        home: Where it lies, if that does not change.
    """

    inner: Var
    first: Operand
    result: Operand
    output: Var
    buffer: Buffer
    grows: bool
    pointer: PointerCell | None = None
    other: PointerCell | None = None
    capacity: Cell | None = None
    home: Array | None = None


class Loop:
    """A loop that is being written: what it carries, before, in and after its body."""

    def __init__(self, block: Block, equation: Equation) -> None:
        self.block, self.equation, self.writer = block, equation, block.writer
        self.body: Program = equation.params["body"]
        self.env: dict[Operand, Value] = {}
        self.head: list[Statement] = []
        """What stands at the beginning of each turn."""
        self._before: list[Statement] = []
        self._sizes: dict[int, Cell] = {}
        self._scalars: list[tuple[Cell, Operand, Operand, Var]] = []
        self._arrays: list[_Carry] = []
        self._same: list[tuple[Var, Value]] = []
        self._captures(self.body, regions_of(equation)[-1][1])
        self._enter()

    def _captures(self, program: Program, operands: Sequence[Operand]) -> None:
        for var, operand in zip(program.consts, operands, strict=False):
            self.env[var] = self.captured(operand)

    def captured(self, operand: Operand) -> Value:
        """What each turn reads: computed once, unless that is as cheap as memory."""
        value = self.block.value(operand)
        if isinstance(value, Array) and value.buffer is None and (value.work or value.flat is None):
            value = self.block.in_memory(value)
            if isinstance(operand, Var):
                self.block.env[operand] = value
        return value

    def _enter(self) -> None:
        writer, body = self.writer, self.body
        for inner, first, result, output in carries(self.equation):
            if result is inner:
                self.env[inner] = self.captured(first)
                self._same.append((output, self.env[inner]))
        with writer.into(self.head):
            for place, inner in enumerate(body.inputs[: body.num_implicit_inputs]):
                first = implicit_operand(self.equation, place)
                if body.outputs[place] is inner:
                    self.env[inner] = self.block.value(first)
                else:
                    cell = self._sizes[place] = writer.cell(DType.INT64)
                    self._before.append(Put(cell, self.block.index(self.block.value(first))))
                    self.env[inner] = writer.get(cell)
            changing = {body.inputs[place] for place in self._sizes}
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

    def bodied(self, inner: Block) -> None:
        """The body itself, and what ends a turn; statements go to the block of the writer."""
        writer = self.writer
        writer.block.extend(self.head)
        for one in self._arrays:
            inner.env[one.inner] = solid(writer, one.buffer, inner.dims(one.inner.type))
            inner.owned.add(one.buffer)
            if one.grows:
                inner.leaving.add(one.result)
                one.capacity = writer.cell(DType.INT64)
                inner.capacities[one.buffer] = one.capacity
        inner.run()

    def leave(self, inner: Block) -> None:
        """What ends a turn: what is carried gets its new values."""
        writer = self.writer
        values = {one.result: inner.value(one.result) for one in self._arrays}
        scalars = [(cell, inner.scalar(inner.value(result))) for cell, _, result, _ in self._scalars]
        sizes = [(cell, inner.index(inner.value(self.body.outputs[place]))) for place, cell in self._sizes.items()]
        pointwise = self._pointwise(values)
        kept: list[Buffer] = []
        late: list[Callable[[], None]] = []
        for one in self._arrays:
            value = values[one.result]
            assert isinstance(value, Array), "an array becomes an array"
            if one.grows:
                kept += self._grown(one, value, inner, late)
            elif one not in pointwise and not _is_whole(value, one.buffer):
                self._doubled(one, value, inner, late)
        self._fill_together([(one, values[one.result]) for one in pointwise])
        for each in late:
            each()
        for cell, now in (*scalars, *sizes):
            writer.put(Put(cell, now))
        inner.frees(kept)

    def _pointwise(self, values: Mapping[Operand, Value]) -> list[_Carry]:
        """What is written over its old value, entry by entry: nothing else reads that otherwise."""
        found = [one for one in self._arrays if not one.grows and _is_pointwise(values[one.result], one.buffer)]
        while True:
            dims = {one: one.inner.type.shape for one in found}
            kept = [
                one
                for one in found
                if all(
                    _is_pointwise(values[other.result], one.buffer) and dims[one] == dims[other]
                    for other in found
                    if other is not one and one.buffer in values[other.result].reads  # type: ignore[union-attr]
                )
            ]
            if len(kept) == len(found):
                return found
            found = kept

    def _fill_together(self, pairs: Sequence[tuple[_Carry, Value]]) -> None:
        """Write entries of arrays, all of one index before those of the next."""
        groups: dict[Any, list[tuple[Array, Array]]] = {}
        for one, value in pairs:
            assert isinstance(value, Array), "an array becomes an array"
            target = solid(self.writer, one.buffer, value.dims)
            groups.setdefault(one.inner.type.shape, []).append((target, value))
        for group in groups.values():
            if len(group) == 1:
                fill(self.writer, *group[0])
                continue
            with self.writer.nest(group[0][0].dims) as index:
                found = [value.read(index) for _, value in group]
                offset = self.writer.flat(index, group[0][0].dims)
                for (target, _), entry in zip(group, found, strict=True):
                    assert target.buffer is not None, "a carry lies in memory"
                    self.writer.store(target.buffer, offset, entry)

    def _doubled(self, one: _Carry, value: Array, inner: Block, late: list[Callable[[], None]]) -> None:
        """The new value in memory of its own, which becomes that of the carry."""
        writer = self.writer
        count = writer.product(value.dims)
        if isinstance(count, int) and count < _SWAPPED_FROM:
            stays = value.buffer is not None and all(value.buffer is not other.buffer for other in self._arrays)
            new = value if stays else inner.temporary(value.dtype, value.dims)
            if not stays:
                fill(writer, new, value)
            late.append(lambda: fill(writer, solid(writer, one.buffer, value.dims), new))
            return
        one.pointer, one.other = writer.pointer(value.dtype), writer.pointer(value.dtype)
        target = writer.buffer(value.dtype)
        writer.put(GetPointer(target, one.other))
        fill(writer, solid(writer, target, value.dims), value)
        assert one.pointer is not None, "just made"
        pointer, other = one.pointer, one.other
        late.append(lambda: writer.put(PutPointer(pointer, target)))
        late.append(lambda: writer.put(PutPointer(other, one.buffer)))

    def _grown(self, one: _Carry, value: Array, inner: Block, late: list[Callable[[], None]]) -> Sequence[Buffer]:
        """An array of another size: its memory becomes that of the carry."""
        writer = self.writer
        one.pointer = writer.pointer(value.dtype)
        capacity, pointer = one.capacity, one.pointer
        assert capacity is not None, "what grows has a capacity"
        if _is_whole(value, one.buffer):
            late.append(lambda: writer.put(PutPointer(pointer, one.buffer)))
            return ()
        if value.buffer is not None and value.start == 0 and inner.capacities.get(value.buffer) is capacity:
            grown = value.buffer
            late.append(lambda: writer.put(PutPointer(pointer, grown)))
            return ()
        taken = [other for other in self._arrays if other is not one and other.result is one.result]
        if not inner.may_leave(value) or taken:
            new = inner.new(one.result, value.dims, leaves=True)
            fill(writer, new, value)
            value = new
        buffer = value.buffer
        assert buffer is not None, "it lies in memory"
        # What grew out of the old array in this turn has its memory.
        old = [each for each, cell in inner.capacities.items() if cell is capacity][-1]
        late.append(lambda: writer.put(Free(old)))
        late.append(lambda: writer.put(PutPointer(pointer, buffer)))
        late.append(lambda: writer.put(Put(capacity, writer.product(value.dims))))
        return [buffer]

    # Before and after

    def before(self) -> None:
        """What stands before the loop, once its body is known."""
        block, writer = self.block, self.writer
        writer.block.extend(self._before)
        for cell, operand, _, _ in self._scalars:
            writer.put(Put(cell, block.scalar(block.value(operand))))
        for one in self._arrays:
            first = block.value(one.first)
            assert isinstance(first, Array), "an array begins as an array"
            dims = first.dims
            if one.grows:
                assert one.pointer is not None and one.capacity is not None, "the body was written"  # noqa: PT018
                if not self._is_taken(one, first) or not block.may_leave(first):
                    first = self._copied(one, first, leaves=True)
                else:
                    block.temporaries = [each for each in block.temporaries if each.buffer is not first.buffer]
                assert first.buffer is not None, "it lies in memory"
                writer.put(PutPointer(one.pointer, first.buffer))
                writer.put(Put(one.capacity, writer.product(dims)))
                continue
            if not self._is_taken(one, first):
                first = self._copied(one, first)
            assert first.buffer is not None, "it lies in memory"
            if one.pointer is None:
                one.home = first
                block.alias(one.buffer, first)
            else:
                assert one.other is not None, "two buffers change places"
                second = block.temporary(first.dtype, dims)
                assert second.buffer is not None, "it lies in memory"
                writer.put(PutPointer(one.pointer, first.buffer))
                writer.put(PutPointer(one.other, second.buffer))

    def turns(self) -> None:
        """What stands at the beginning of each turn, once the body is known: where arrays lie now."""
        for one in self._arrays:
            if one.pointer is not None:
                self.writer.put(GetPointer(one.buffer, one.pointer))

    def _is_taken(self, one: _Carry, first: Array) -> bool:
        """Whether the loop may have the memory of what it begins with."""
        others = [operand for operand in self.equation.inputs if operand is not one.first]
        if sum(operand is one.first for operand in self.equation.inputs) > 1:
            return False
        for operand in others:
            value = self.block.env.get(operand)
            if isinstance(value, Array) and first.buffer in value.reads:
                return False
        return first.buffer in self.block.given_up([one.first])

    def _copied(self, one: _Carry, first: Array, *, leaves: bool = False) -> Array:
        var: Operand = one.output if not one.grows and one.pointer is None else one.inner
        made = self.block.new(var, first.dims, leaves=leaves)
        fill(self.writer, made, first)
        if leaves:
            self.block.temporaries = [each for each in self.block.temporaries if each.buffer is not made.buffer]
        return made

    def results(self) -> tuple[Value, ...]:
        """What the loop gives."""
        block, writer, equation = self.block, self.writer, self.equation
        found: dict[Var, Value] = dict(self._same)
        outputs = equation.outputs[: equation.params["num_implicit_outputs"]]
        for place, var in enumerate(outputs):
            size = self._sizes.get(place)
            operand = implicit_operand(equation, place)
            found[var] = block.value(operand) if size is None else writer.get(size)
            block.env[var] = found[var]  # which types of other results have
        for cell, _, _, output in self._scalars:
            found[output] = block.env[output] = writer.get(cell)
        for one in self._arrays:
            if one.home is not None:
                found[one.output] = block.env[one.output] = one.home
                continue
            assert one.pointer is not None, "it lies somewhere"
            buffer = writer.buffer(one.inner.type.dtype)
            writer.put(GetPointer(buffer, one.pointer))
            block.owned.add(buffer)
            if one.grows:
                block.temporaries.append(Allocate(buffer, 0, leaves=True))
            found[one.output] = solid(writer, buffer, block.dims(one.output.type))
        return tuple(found[var] for var in equation.outputs if var in found)


def _is_whole(value: Array, buffer: Buffer) -> bool:
    return value.buffer is buffer and value.start == 0


def _is_pointwise(value: Value, buffer: Buffer) -> bool:
    """Whether an array that is computed reads a buffer, if at all, at the same index only."""
    return isinstance(value, Array) and value.buffer is None and value.reads.get(buffer, True)
