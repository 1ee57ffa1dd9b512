"""Loops, branches and calls as statements; what loops carry is in `carries.py`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plica.backend.native.loops.arrays import Array, Value, fill, moved, solid
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.carries import Loop
from plica.backend.native.loops.nest import (
    Allocate,
    Buffer,
    Cell,
    For,
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
from plica.ops.control_operands import (
    call_inputs,
    explicit_outputs,
    implicit_operand,
    scanned,
)
from plica.ops.regions import regions_of

# for_loop

_SMALL = 2**31  # so many turns of steps below this take years to reach the end of 64 bits


def for_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `for_loop`: its turns are counted from 0, and the index is computed of the count."""
    writer = block.writer
    start = equation.params["body_nconsts"] + equation.params["num_implicit_inputs"]
    lower, upper, step = (block.index(operand) for operand in operands[start : start + 3])
    if not isinstance(step, int):
        site = Site(equation.source, _no_step)
        writer.check(writer.compare("not_equal", step, 0), site, lower, upper)
    elif step == 0:
        site = Site(equation.source, _no_step)
        writer.check(writer.number(False, DType.BOOL), site, lower, upper)
        step = 1
    loop = Loop(block, equation)
    index = Scalar(writer.name("i"), DType.INT64)
    if step == 1:
        writer.note_range(index, lower, upper)
    with writer.into([]) as body:
        inner = block.inner(loop.body, loop.env)
        loop.env[loop.body.arguments[0]] = index if step == 1 else _counted(block, lower, step, index)
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
    """How often a loop turns: (distance - 1) // |step| + 1, if it goes the right way.

    The distance of two numbers of 64 bits may need all 64 bits, and so has no sign.
    """
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return len(range(lower, upper, step))
    writer = block.writer

    def difference(a: Index, b: Index) -> Scalar:
        return writer.apply("subtract", [writer.value(a), writer.value(b)], DType.INT64, {})

    is_up = writer.compare("less", 0, step)
    distance = writer.select(is_up, difference(upper, lower), difference(lower, upper))
    stride = writer.select(is_up, writer.value(step), difference(0, step))
    parts = [writer.convert(length, DType.UINT64) for length in (difference(distance, 1), stride)]
    turns = writer.convert(writer.apply("floor_divide", parts, DType.UINT64, {}), DType.INT64)
    turns_at_all = writer.select(is_up, writer.compare("less", lower, upper), writer.compare("less", upper, lower))
    return writer.select(turns_at_all, writer.add(turns, 1), 0)


def _counted(block: Block, lower: Index, step: Index, index: Scalar) -> Index:
    """The index of a turn: in steps that are large, a product may wrap around."""
    writer = block.writer
    if isinstance(step, int) and abs(step) < _SMALL:
        return writer.add(lower, writer.multiply(index, step))
    far = writer.apply("multiply", [index, writer.value(step)], DType.INT64, {})
    return writer.apply("add", [writer.value(lower), far], DType.INT64, {})


# while_loop


def while_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `while_loop`."""
    del operands
    writer, cond = block.writer, equation.params["cond"]
    loop = Loop(block, equation)
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
        asked.update({var: loop.env[again] for var, again in zip(cond.inputs, loop.body.inputs, strict=True)})
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
    loop = Loop(block, equation)
    stacks = explicit_outputs(equation)[params["num_carries"] :]
    arrays = [(row, _scanned(block, block.value(array))) for row, array in scanned(equation)]
    turn = Scalar(writer.name("i"), DType.INT64)
    writer.note_range(turn, 0, length)
    buffers = [writer.buffer(stack.type.dtype) for stack in stacks]
    sizes = [(length, *map(block.size, stack.type.shape[1:])) for stack in stacks]
    with writer.into([]) as body:
        step = writer.subtract(writer.subtract(length, 1), turn) if params["reverse"] else turn
        for row, array in arrays:
            loop.env[row] = row_of(block, array, step)
        inner = block.inner(loop.body, loop.env)
        targets = []
        results = loop.body.results[params["num_carries"] :]
        for buffer, result, (_, *dims) in zip(buffers, results, sizes, strict=True):
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
    stacked_arrays = [
        block.bind(buffer, var, dims, equation) for buffer, var, dims in zip(buffers, stacks, sizes, strict=True)
    ]
    with writer.into([]) as whole:
        loop.turns()
    writer.put(For(turn, 0, length, whole + body))
    for output in stacks:  # a loop that does not turn checks nothing
        block.require_sizes(output.type.shape, equation)
    return (*loop.results(), *stacked_arrays)


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
        row = solid(writer, x.buffer, dims, start)
        return Array(dims, x.dtype, row.read, {x.buffer: False}, flat=row.flat, buffer=x.buffer, start=start)
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
    free = {var: any(size in changing for size in size_variables(var.type)) for var in outputs if var.type.shape}
    dims = {var: block.dims(var.type) for var, moves in free.items() if not moves}
    buffers = {var: writer.buffer(var.type.dtype) for var in dims}
    pointers = {var: writer.pointer(var.type.dtype) for var, moves in free.items() if moves}
    blocks: list[list[Statement]] = []
    same: dict[Var, list[Value]] = {var: [] for var in outputs}
    ends: list[tuple[Block, list[Statement], Program]] = []
    for program, given in regions:
        env: dict[Operand, Value] = {
            var: block.value(operand) for var, operand in zip(program.consts, given, strict=False)
        }
        with writer.into([]) as statements:
            inner = block.inner(program, env, block.given_up(given))
            results = program.results
            inner.leaving.update(result for var, result in zip(outputs, results, strict=True) if var in pointers)
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
    arrays = {var: shared[var] or block.bind(buffer, var, dims[var], equation) for var, buffer in buffers.items()}
    predicates = [block.scalar(operand) for operand in operands[: len(regions) - 1]]
    _put_branches(block, predicates, blocks)
    chosen: list[Value] = []
    for var in equation.outputs:
        if var in cells:
            value: Value = writer.get(cells[var])
        elif var in buffers:
            value = arrays[var]
        else:
            buffer = writer.buffer(var.type.dtype)
            writer.put(GetPointer(buffer, pointers[var]))
            block.owned.add(buffer)
            block.temporaries.append(Allocate(buffer, 0, leaves=True))
            value = solid(writer, buffer, block.dims(var.type))
        block.env[var] = value
        chosen.append(value)
    return tuple(chosen)


def _shared(block: Block, values: Sequence[Value]) -> Array | None:
    """The array that all branches give, if it is one that lies in memory outside of them."""
    first = values[0]
    if not isinstance(first, Array) or first.buffer is None or first.start != 0:
        return None
    outside = {buffer for value in block.env.values() if isinstance(value, Array) for buffer in value.reads}
    is_one = all(
        isinstance(value, Array) and value.buffer is first.buffer and value.start == 0 and value.dims == first.dims
        for value in values
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
    """Ends a branch: moves its results to where the code behind the branches finds them."""
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
            target = inner.new(result, value.dims, leaves=True)
            fill(writer, target, value)
            value = target
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
    env: dict[Operand, Value] = {var: block.value(operand) for var, operand in pairs}
    for index, var in enumerate(program.inputs[: program.num_implicit_inputs]):
        env[var] = block.value(implicit_operand(equation, index))
    for var, result in zip(equation.outputs, program.outputs, strict=True):
        if var in block.destinations and isinstance(result, Var) and result not in env:
            block.destinations.setdefault(result, block.destinations.pop(var))
    return inlined(block, program, env, [operand for _, operand in pairs])


def inlined(block: Block, program: Program, env: dict[Operand, Value], given: Iterable[Operand]) -> tuple[Value, ...]:
    """All outputs of a Program in the place of an equation, at values of its consts and inputs.

    Args:
        block: Where statements go.
        program: The Program.
        env: The values of its consts and inputs.
        given: The operands of the equation that these are.
    """
    inner = block.inner(program, env, block.given_up(given))
    inner.temporaries = block.temporaries
    inner.destinations = {
        output: block.destinations[output] for output in program.outputs if output in block.destinations
    }
    inner.run()
    block.temporaries = inner.temporaries
    block.owned |= inner.owned
    return tuple(inner.value(output) for output in program.outputs)


CONTROL: Mapping[str, Callable[[Block, Equation, list[Value]], Any]] = {
    "for_loop": for_loop,
    "while_loop": while_loop,
    "scan": scan,
    "cond": cond,
    "call": call,
}
