"""Rows that write loops, branches and calls as statements of a nest; `carries.py` has the carried values of loops.

The body of a loop is written before the loop: only then is it known which arrays it grows, swaps or writes over. The
statements that read carried values at the beginning of an iteration (`Loop.head`, `begin_iteration`) are put in front.
"""

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

_MAX_SAFE_STEP = 2**31  # a loop of smaller steps would run for years before its index overflows 64 bits


def for_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `for_loop`. If its step is not 1, the nest counts iterations and computes the index from the count."""
    writer = block.writer
    start = equation.params["body_nconsts"] + equation.params["num_implicit_inputs"]
    lower, upper, step = (block.index(operand) for operand in operands[start : start + 3])
    if not isinstance(step, int):
        site = Site(equation.source, _step_of_zero)
        writer.check(writer.compare("not_equal", step, 0), site, lower, upper)
    elif step == 0:
        site = Site(equation.source, _step_of_zero)
        writer.check(writer.number(False, DType.BOOL), site, lower, upper)
        step = 1
    loop = Loop(block, equation)
    index = Scalar(writer.name("i"), DType.INT64)
    if step == 1:
        writer.note_range(index, lower, upper)
    with writer.into([]) as body:
        inner = block.inner(loop.body, loop.env)
        loop.env[loop.body.arguments[0]] = index if step == 1 else _loop_index(block, lower, step, index)
        loop.write_body(inner)
        loop.end_iteration(inner)
    loop.write_before()
    with writer.into([]) as pointers:
        loop.begin_iteration()
    first, last = (lower, upper) if step == 1 else (0, _trip_count(block, lower, upper, step))
    writer.put(For(index, first, last, pointers + body))
    return loop.results()


def _step_of_zero(numbers: Sequence[int]) -> Exception:
    return InputError(f"a loop from {numbers[0]} to {numbers[1]} has step 0; take a positive or a negative step.")


def _trip_count(block: Block, lower: Index, upper: Index, step: Index) -> Index:
    """The number of iterations: (distance - 1) // |step| + 1, or 0 if the step leads away from the end.

    The distance of two integers of 64 bits may need all 64 bits, so it is unsigned.
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
    count = writer.convert(writer.apply("floor_divide", parts, DType.UINT64, {}), DType.INT64)
    runs = writer.select(is_up, writer.compare("less", lower, upper), writer.compare("less", upper, lower))
    return writer.select(runs, writer.add(count, 1), 0)


def _loop_index(block: Block, lower: Index, step: Index, index: Scalar) -> Index:
    """The index of iteration number `index`: `lower + index * step`. With large steps the product may wrap around."""
    writer = block.writer
    if isinstance(step, int) and abs(step) < _MAX_SAFE_STEP:
        return writer.add(lower, writer.multiply(index, step))
    distance = writer.apply("multiply", [index, writer.value(step)], DType.INT64, {})
    return writer.apply("add", [writer.value(lower), distance], DType.INT64, {})


# while_loop


def while_loop(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `while_loop`, as a `While` whose condition is computed by statements of its own before each iteration."""
    del operands
    writer, cond = block.writer, equation.params["cond"]
    loop = Loop(block, equation)
    condition_env: dict[Operand, Value] = {}
    for var, operand in zip(cond.consts, regions_of(equation)[0][1], strict=False):
        condition_env[var] = loop.captured(operand)
    with writer.into([]) as body:
        inner = block.inner(loop.body, loop.env)
        loop.write_body(inner)
        loop.end_iteration(inner)
    loop.write_before()
    with writer.into([]) as condition_statements:
        loop.begin_iteration()
        condition_statements.extend(loop.head)
        condition_env.update({var: loop.env[inner] for var, inner in zip(cond.inputs, loop.body.inputs, strict=True)})
        condition = block.inner(cond, condition_env)
        condition.run()
        holds = condition.scalar(condition.value(cond.results[0]))
        condition.free_temporaries()
    del body[: len(loop.head)]  # the condition, which runs before the body, has these statements already
    writer.put(While(condition_statements, holds, body))
    return loop.results()


# scan


def scan(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A `scan`: each iteration reads a row of the scanned arrays, and writes a row of each *stack*, a result.

    Rows are read without a copy. The body computes a row of a stack in the place where it belongs, if it can.
    """
    del operands
    writer, params = block.writer, equation.params
    length = block.size(params["length"])
    loop = Loop(block, equation)
    stacks = explicit_outputs(equation)[params["num_carries"] :]
    arrays = [(row, _scanned(block, block.value(array))) for row, array in scanned(equation)]
    iteration = Scalar(writer.name("i"), DType.INT64)
    writer.note_range(iteration, 0, length)
    buffers = [writer.buffer(stack.type.dtype) for stack in stacks]
    sizes = [(length, *map(block.size, stack.type.shape[1:])) for stack in stacks]
    with writer.into([]) as body:
        step = writer.subtract(writer.subtract(length, 1), iteration) if params["reverse"] else iteration
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
        loop.write_body(inner)
        for target, result in targets:
            value = inner.value(result)
            if not isinstance(value, Array):
                assert target.buffer is not None, "a stack lies in memory"
                writer.store(target.buffer, target.start, inner.scalar(value))
            elif value.buffer is not target.buffer:
                fill(writer, target, value)
        loop.end_iteration(inner)
    loop.write_before()
    stacked_arrays = [
        block.bind(buffer, var, dims, equation) for buffer, var, dims in zip(buffers, stacks, sizes, strict=True)
    ]
    with writer.into([]) as pointers:
        loop.begin_iteration()
    writer.put(For(iteration, 0, length, pointers + body))
    for output in stacks:  # a loop without iterations checks no sizes
        block.require_sizes(output.type.shape, equation)
    return (*loop.results(), *stacked_arrays)


def _scanned(block: Block, value: Value) -> Array:
    """A scanned array, in memory unless it is cheap to compute each entry when it is read."""
    assert isinstance(value, Array), "scanned arrays have rows"
    return value if value.is_cheap else block.in_memory(value)


def row_of(block: Block, x: Array, step: Index) -> Value:
    """Row `step` of an array, without a copy."""
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
    """A `cond`: each branch writes its results to the same places, from which later code reads them.

    A scalar goes to a cell. An array whose size is known before goes to a buffer. An array whose size depends on the
    branch stays in the branch's memory, to which a pointer is set.
    """
    writer, params = block.writer, equation.params
    regions = regions_of(equation)
    implicit = dict.fromkeys(equation.outputs[: params["num_implicit_outputs"]])
    outputs = explicit_outputs(equation)
    cells = {var: writer.cell(var.type.dtype) for var in equation.outputs if not var.type.shape}
    varies = {var: any(size in implicit for size in size_variables(var.type)) for var in outputs if var.type.shape}
    dims = {var: block.dims(var.type) for var, size_varies in varies.items() if not size_varies}
    buffers = {var: writer.buffer(var.type.dtype) for var in dims}
    pointers = {var: writer.pointer(var.type.dtype) for var, size_varies in varies.items() if size_varies}
    blocks: list[list[Statement]] = []
    results_of_branches: dict[Var, list[Value]] = {var: [] for var in outputs}
    ends: list[tuple[Block, list[Statement], Program]] = []
    for program, captured in regions:
        env: dict[Operand, Value] = {
            var: block.value(operand) for var, operand in zip(program.consts, captured, strict=False)
        }
        with writer.into([]) as statements:
            inner = block.inner(program, env, block.dying(captured))
            results = program.results
            inner.leaving.update(result for var, result in zip(outputs, results, strict=True) if var in pointers)
            for var, result in zip(outputs, results, strict=True):
                if var in buffers and isinstance(result, Var):
                    inner.destinations.setdefault(result, solid(writer, buffers[var], dims[var]))
            inner.run()
        blocks.append(statements)
        ends.append((inner, statements, program))
        for var, result in zip(outputs, results, strict=True):
            results_of_branches[var].append(inner.value(result))
    shared = {var: _shared(block, values) for var, values in results_of_branches.items() if var in buffers}
    filled = {var: buffer for var, buffer in buffers.items() if shared[var] is None}
    for inner, statements, program in ends:
        with writer.into(statements):
            _leave_branch(inner, equation, program, cells, filled, pointers)
    arrays = {var: shared[var] or block.bind(buffer, var, dims[var], equation) for var, buffer in buffers.items()}
    predicates = [block.scalar(operand) for operand in operands[: len(regions) - 1]]
    _put_branches(block, predicates, blocks)
    values: list[Value] = []
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
        values.append(value)
    return tuple(values)


def _shared(block: Block, values: Sequence[Value]) -> Array | None:
    """The array that all branches return, if it is the same one and from outside of them; else None."""
    first = values[0]
    if not isinstance(first, Array) or first.buffer is None or first.start != 0:
        return None
    outside = {buffer for value in block.env.values() if isinstance(value, Array) for buffer in value.reads}
    is_same = all(
        isinstance(value, Array) and value.buffer is first.buffer and value.start == 0 and value.dims == first.dims
        for value in values
    )
    return first if is_same and first.buffer in outside else None


def _leave_branch(
    inner: Block,
    equation: Equation,
    program: Program,
    cells: Mapping[Var, Cell],
    buffers: Mapping[Var, Buffer],
    pointers: Mapping[Var, PointerCell],
) -> None:
    """End a branch: store its results where later code reads them."""
    writer = inner.writer
    handed_over: list[Buffer] = []
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
        if not inner.may_leave(value) or value.buffer in handed_over:
            target = inner.new(result, value.dims, leaves=True)
            fill(writer, target, value)
            value = target
        assert value.buffer is not None, "it lies in memory"
        handed_over.append(value.buffer)
        writer.put(PutPointer(pointers[var], value.buffer))
    inner.free_temporaries(handed_over)


def _put_branches(block: Block, predicates: Sequence[Scalar], blocks: Sequence[list[Statement]]) -> None:
    """Write the branches as if, else if, ..., else."""
    last = blocks[-1]
    for predicate, then in zip(reversed(predicates), reversed(blocks[:-1]), strict=True):
        last = [If(predicate, then, last)]
    block.writer.block.extend(last)


def call(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """A call: the statements of the called Program."""
    del operands
    program: Program = equation.params["program"]
    ((_, captured),) = regions_of(equation)
    pairs = [*zip(program.consts, captured, strict=False), *call_inputs(equation)]
    env: dict[Operand, Value] = {var: block.value(operand) for var, operand in pairs}
    for index, var in enumerate(program.inputs[: program.num_implicit_inputs]):
        env[var] = block.value(implicit_operand(equation, index))
    for var, result in zip(equation.outputs, program.outputs, strict=True):
        if var in block.destinations and isinstance(result, Var) and result not in env:
            block.destinations.setdefault(result, block.destinations.pop(var))
    return inlined(block, program, env, [operand for _, operand in pairs])


def inlined(
    block: Block, program: Program, env: dict[Operand, Value], operands: Iterable[Operand]
) -> tuple[Value, ...]:
    """Write a Program in the block of an equation, and return the values of all its outputs.

    Args:
        block: The block of the equation.
        program: The Program.
        env: The values of its consts and inputs.
        operands: The operands of the equation, which have these values.
    """
    inner = block.inner(program, env, block.dying(operands))
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
