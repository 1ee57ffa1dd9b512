"""Loops, branches and calls as statements.

What a loop carries has memory of its own. A new value that reads the old one at the same index alone is written over it;
others are written to a second buffer, and the two change places. Arrays that change their size are behind a pointer, and
have spare capacity.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.backend.native.loops.arrays import Array, Value, fill, moved, solid
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import (
    Allocate,
    Buffer,
    Cell,
    For,
    Free,
    GetPointer,
    If,
    Index,
    PointerCell,
    Put,
    PutPointer,
    Site,
    Statement,
    While,
)
from plica.backend.native.scalars.builder import Scalar
from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, Program, Var, size_variables
from plica.ops.places import (
    call_inputs,
    carries,
    explicit_outputs,
    implicit_operand,
    scanned,
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


class _Loop:
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
                    self.env[inner] = self.captured(first)
                    self._same.append((output, self.env[inner]))
                elif not inner.type.shape:
                    cell = writer.cell(inner.type.dtype)
                    self._scalars.append((cell, first, result, output))
                    self.env[inner] = writer.get(cell)
                else:
                    grows = any(var in changing for var in size_variables(inner.type))
                    self._arrays.append(_Carry(inner, first, result, output, writer.buffer(inner.type.dtype), grows))

    def _dims(self, inner: Block, var: Operand) -> tuple[Index, ...]:
        return inner.dims(var.type)

    def bodied(self, inner: Block) -> None:
        """The body itself, and what ends a turn; statements go to the block of the writer."""
        writer = self.writer
        writer.block.extend(self.head)
        for one in self._arrays:
            inner.env[one.inner] = solid(writer, one.buffer, self._dims(inner, one.inner))
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
        for cell, value in (*scalars, *sizes):
            writer.put(Put(cell, value))
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
            buffer = value.buffer
            late.append(lambda: writer.put(PutPointer(pointer, buffer)))
            return ()
        taken = [other for other in self._arrays if other is not one and other.result is one.result]
        if not inner.may_leave(value) or taken:
            new = inner.new(one.result, value.dims, leaves=True)
            fill(writer, new, value)
            value = new
        buffer = value.buffer
        assert buffer is not None, "it lies in memory"
        late.append(lambda: writer.put(Free(one.buffer)))
        late.append(lambda: writer.put(PutPointer(pointer, buffer)))
        late.append(lambda: writer.put(Put(capacity, writer.product(value.dims))))
        return [buffer]

    # Before and after

    def before(self) -> None:
        """What stands before the loop, once its body is known."""
        block, writer = self.block, self.writer
        writer.block.extend(self._before)
        for cell, first, _, _ in self._scalars:
            writer.put(Put(cell, block.scalar(block.value(first))))
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
            cell = self._sizes.get(place)
            operand = implicit_operand(equation, place)
            found[var] = block.value(operand) if cell is None else writer.get(cell)
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


# for_loop


def for_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `for_loop`: its turns are counted from 0, and the index is computed of the count."""
    writer = block.writer
    start = equation.params["body_nconsts"] + equation.params["num_implicit_inputs"]
    lower, upper, step = (block.index(one) for one in operands[start : start + 3])
    if not isinstance(step, int):
        site = Site(equation.source, _no_step)
        writer.check(writer.compare("not_equal", step, 0), site, lower, upper)
    elif step == 0:
        site = Site(equation.source, _no_step)
        writer.check(writer.number(False, DType.BOOL), site, lower, upper)
        step = 1
    loop = _Loop(block, equation)
    index = Scalar(writer.name("i"), DType.INT64)
    if step == 1:
        writer.note_range(index, lower, upper)
    with writer.into([]) as body:
        inner = block.inner(loop.body, loop.env)
        loop.env[loop.body.arguments[0]] = index if step == 1 else writer.add(lower, writer.multiply(index, step))
        loop.bodied(inner)
        loop.leave(inner)
    loop.before()
    with writer.into([]) as whole:
        loop.turns()
    first, last = (lower, upper) if step == 1 else (0, _turns(block, lower, upper, step))
    writer.put(For(index, first, last, whole + body))
    return loop.results()


def _no_step(numbers: Sequence[int]) -> Exception:
    return InputError(f"a loop from {numbers[0]} to {numbers[1]} has step 0; take a positive or a negative step.")


def _turns(block: Block, lower: Index, upper: Index, step: Index) -> Index:
    """How often a loop turns: ceil((upper - lower) / step), if that is positive."""
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return len(range(lower, upper, step))
    writer = block.writer
    back = [writer.value(one) for one in (writer.subtract(lower, upper), step)]
    return writer.maximum(0, writer.subtract(0, writer.apply("floor_divide", back, DType.INT64, {})))


# while_loop


def while_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `while_loop`."""
    del operands
    writer, cond = block.writer, equation.params["cond"]
    loop = _Loop(block, equation)
    asked: dict[Operand, Value] = {}
    for var, operand in zip(cond.consts, regions_of(equation)[0][1], strict=False):
        asked[var] = loop.captured(operand)
    with writer.into([]) as body:
        inner = block.inner(loop.body, loop.env)
        loop.bodied(inner)
        loop.leave(inner)
    loop.before()
    with writer.into([]) as before:
        loop.turns()
        before.extend(loop.head)
        asked.update({one: loop.env[again] for one, again in zip(cond.inputs, loop.body.inputs, strict=True)})
        question = block.inner(cond, asked)
        question.run()
        holds = question.scalar(question.value(cond.results[0]))
        question.frees()
    del body[: len(loop.head)]
    writer.put(While(before, holds, body))
    return loop.results()


# scan


def scan(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `scan`: rows are read where they lie, and results written to where their stacks lie."""
    del operands
    writer, params = block.writer, equation.params
    length = block.size(params["length"])
    loop = _Loop(block, equation)
    stacks = explicit_outputs(equation)[params["num_carries"] :]
    arrays = [(row, _scanned(block, block.value(array))) for row, array in scanned(equation)]
    turn = Scalar(writer.name("i"), DType.INT64)
    writer.note_range(turn, 0, length)
    made = [writer.buffer(one.type.dtype) for one in stacks]
    sizes = [(length, *map(block.size, one.type.shape[1:])) for one in stacks]
    with writer.into([]) as body:
        step = writer.subtract(writer.subtract(length, 1), turn) if params["reverse"] else turn
        for row, array in arrays:
            loop.env[row] = row_of(block, array, step)
        inner = block.inner(loop.body, loop.env)
        targets = []
        results = loop.body.results[params["num_carries"] :]
        for buffer, result, (_, *dims) in zip(made, results, sizes, strict=True):
            target = solid(writer, buffer, dims, writer.multiply(step, writer.product(dims)))
            targets.append((target, result))
            if dims and isinstance(result, Var):
                inner.destinations.setdefault(result, target)
        loop.bodied(inner)
        for target, result in targets:
            value = inner.value(result)
            if not isinstance(value, Array):
                assert target.buffer is not None, "a stack lies in memory"
                writer.store(target.buffer, target.start, inner.scalar(value))
            elif value.buffer is not target.buffer:
                fill(writer, target, value)
        loop.leave(inner)
    loop.before()
    found = [block.bind(buffer, var, dims) for buffer, var, dims in zip(made, stacks, sizes, strict=True)]
    with writer.into([]) as whole:
        loop.turns()
    writer.put(For(turn, 0, length, whole + body))
    return (*loop.results(), *found)


def _scanned(block: Block, value: Value) -> Array:
    """An array whose rows are read once each: cheap ones are computed then."""
    assert isinstance(value, Array), "what is scanned has rows"
    return value if value.is_cheap else block.in_memory(value)


def row_of(block: Block, x: Array, step: Index) -> Value:
    """One row of an array."""
    writer, dims = block.writer, x.dims[1:]
    if not dims:
        return x.read((step,))
    if x.buffer is not None:
        start = writer.add(x.start, writer.multiply(step, writer.product(dims)))
        found = solid(writer, x.buffer, dims, start)
        return Array(dims, x.dtype, found.read, {x.buffer: False}, flat=found.flat, buffer=x.buffer, start=start)
    return moved(x, dims, lambda index: (step, *index))


# cond and call


def cond(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `cond`: each branch writes its results to the same cells and buffers."""
    writer, params = block.writer, equation.params
    regions = regions_of(equation)
    implicit = equation.outputs[: params["num_implicit_outputs"]]
    outputs = explicit_outputs(equation)
    changing = dict.fromkeys(implicit)
    cells = {var: writer.cell(var.type.dtype) for var in equation.outputs if not var.type.shape}
    free = {var: any(one in changing for one in size_variables(var.type)) for var in outputs if var.type.shape}
    dims = {var: block.dims(var.type) for var, moves in free.items() if not moves}
    buffers = {var: writer.buffer(var.type.dtype) for var in dims}
    pointers = {var: writer.pointer(var.type.dtype) for var, moves in free.items() if moves}
    blocks: list[list[Statement]] = []
    same: dict[Var, list[Value]] = {var: [] for var in outputs}
    ends: list[tuple[Block, list[Statement], Program]] = []
    for program, given in regions:
        env = {var: block.value(one) for var, one in zip(program.consts, given, strict=False)}
        with writer.into([]) as statements:
            inner = block.inner(program, env, block.given_up(given))
            results = program.results
            inner.leaving.update(one for var, one in zip(outputs, results, strict=True) if var in pointers)
            for var, result in zip(outputs, results, strict=True):
                if var in buffers and isinstance(result, Var):
                    inner.destinations.setdefault(result, solid(writer, buffers[var], dims[var]))
            inner.run()
        blocks.append(statements)
        ends.append((inner, statements, program))
        for var, result in zip(outputs, results, strict=True):
            same[var].append(inner.value(result))
    shared = {var: _shared(block, values) for var, values in same.items() if var in buffers}
    moved_to = {var: buffer for var, buffer in buffers.items() if shared[var] is None}
    for inner, statements, program in ends:
        with writer.into(statements):
            _leave_branch(inner, equation, program, cells, moved_to, pointers)
    for var, buffer in buffers.items():
        shared[var] = shared[var] or block.bind(buffer, var, dims[var])
    predicates = [block.scalar(one) for one in operands[: len(regions) - 1]]
    _put_branches(block, predicates, blocks)
    found: list[Value] = []
    for var in equation.outputs:
        if var in cells:
            value: Value = writer.get(cells[var])
        elif var in buffers:
            value = shared[var]
        else:
            buffer = writer.buffer(var.type.dtype)
            writer.put(GetPointer(buffer, pointers[var]))
            block.owned.add(buffer)
            block.temporaries.append(Allocate(buffer, 0, leaves=True))
            value = solid(writer, buffer, block.dims(var.type))
        block.env[var] = value
        found.append(value)
    return tuple(found)


def _shared(block: Block, values: Sequence[Value]) -> Array | None:
    """The array that all branches give, if it is one that lies in memory outside of them."""
    first = values[0]
    if not isinstance(first, Array) or first.buffer is None or first.start != 0:
        return None
    outside = {buffer for one in block.env.values() if isinstance(one, Array) for buffer in one.reads}
    is_one = all(
        isinstance(one, Array) and one.buffer is first.buffer and one.start == 0 and one.dims == first.dims
        for one in values
    )
    return first if is_one and first.buffer in outside else None


def _leave_branch(
    inner: Block,
    equation: Equation,
    program: Program,
    cells: Mapping[Var, Cell],
    buffers: Mapping[Var, Buffer],
    pointers: Mapping[Var, PointerCell],
) -> None:
    """What ends a branch: its results go where the code behind the branches finds them."""
    writer = inner.writer
    kept: list[Buffer] = []
    for var, result in zip(equation.outputs, program.outputs, strict=True):
        value = inner.value(result)
        if var in cells:
            writer.put(Put(cells[var], inner.scalar(value)))
            continue
        assert isinstance(value, Array), "an array is no scalar"
        if var in buffers and value.buffer is not buffers[var]:
            fill(writer, solid(writer, buffers[var], value.dims), value)
        if var not in pointers:
            continue
        if not inner.may_leave(value) or value.buffer in kept:
            made = inner.new(result, value.dims, leaves=True)
            fill(writer, made, value)
            value = made
        assert value.buffer is not None, "it lies in memory"
        kept.append(value.buffer)
        writer.put(PutPointer(pointers[var], value.buffer))
    inner.frees(kept)


def _put_branches(block: Block, predicates: Sequence[Scalar], blocks: Sequence[list[Statement]]) -> None:
    """If, else if, ..., else."""
    last = blocks[-1]
    for predicate, then in zip(reversed(predicates), reversed(blocks[:-1]), strict=True):
        last = [If(predicate, then, last)]
    block.writer.block.extend(last)


def call(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A call: the Program in its place."""
    del operands
    program: Program = equation.params["program"]
    ((_, given),) = regions_of(equation)
    pairs = [*zip(program.consts, given, strict=False), *call_inputs(equation)]
    env: dict[Operand, Value] = {var: block.value(one) for var, one in pairs}
    for place, var in enumerate(program.inputs[: program.num_implicit_inputs]):
        env[var] = block.value(implicit_operand(equation, place))
    inner = block.inner(program, env, block.given_up([one for _, one in pairs]))
    inner.temporaries = block.temporaries
    for var, result in zip(equation.outputs, program.outputs, strict=True):
        if var in block.destinations and isinstance(result, Var) and result not in env:
            inner.destinations.setdefault(result, block.destinations.pop(var))
    inner.run()
    block.temporaries = inner.temporaries
    block.owned |= inner.owned
    return tuple(inner.value(one) for one in program.outputs)


CONTROL: Mapping[str, Callable[[Block, Equation, list[Value]], Any]] = {
    "for_loop": for_loop,
    "while_loop": while_loop,
    "scan": scan,
    "cond": cond,
    "call": call,
}
