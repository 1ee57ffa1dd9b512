"""Builds the loop nest of a Program."""

from collections.abc import Mapping

from plica.backend.native.loops.arrays import Array, Value, fill, solid
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.hoist import hoist_memory
from plica.backend.native.loops.nest import Buffer, Nest, Result
from plica.backend.native.loops.rows import ROWS
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Operand, Program, Var, size_variables
from plica.ir.signature import size_sources


def build_nest(program: Program, rows: Mapping[str, Row] = ROWS) -> Nest:
    """The loop nest of a Program.

    Its parameters are the captured constants and the arguments of the Program, from which sizes are read. A result
    whose sizes follow from these is written to memory of the caller.

    Raises:
        UnsupportedError: An operation or a dtype has no loop nest.
    """
    writer = Writer()
    env: dict[Operand, Value] = {}
    parameters: list[Scalar | Buffer] = []
    block = Block(writer, rows, program, env)
    variables = (*program.consts, *program.arguments)
    sizes = []
    for var, (number, axis) in size_sources(program).items():
        size = Scalar(writer.name("n"), DType.INT64)
        env[var] = size
        sizes.append((size, len(program.consts) + number, axis))
    for var in variables:
        require_dtype(var)
        if not var.type.shape:
            scalar = Scalar(writer.name("x"), var.type.dtype)
            parameters.append(scalar)
            env[var] = scalar
    for number, var in enumerate(variables):
        if var.type.shape:
            buffer = writer.buffer(var.type.dtype, "a")
            parameters.insert(number, buffer)
            env[var] = solid(writer, buffer, block.dims(var.type))
    results = written_results(block, program)
    writer.block[:] = hoist_memory(writer.block)
    return Nest(tuple(sizes), tuple(parameters), results, writer.block, tuple(writer.sites))


def require_dtype(var: Operand) -> None:
    """Refuse a dtype that nests cannot compute with."""
    dtype = var.type.dtype
    if dtype.is_storage:
        raise UnsupportedError(
            f'the native backend of jit has no loop nests for {dtype.value}, found {var!r}; use backend="torch".'
        )


def is_caller_allocated(program: Program, result: Operand) -> bool:
    """Whether the caller knows the sizes of a result before the run, since they are sizes of arguments."""
    sizes_of_arguments = set(program.inputs[: program.num_implicit_inputs])
    return all(var in sizes_of_arguments for var in size_variables(result.type))


def written_results(block: Block, program: Program) -> tuple[Result, ...]:
    """Write all equations of a Program and return its results."""
    writer = block.writer
    results: list[Result] = []
    targets: list[Array | None] = []
    for result in program.results:
        require_dtype(result)
        target = None
        if is_caller_allocated(program, result):
            buffer = writer.buffer(result.type.dtype, "r")
            target = solid(writer, buffer, block.dims(result.type))
            if isinstance(result, Var) and result.type.shape and result not in block.env:
                block.destinations.setdefault(result, target)
        else:
            block.leaving.add(result)
        targets.append(target)
    block.run()
    handed_over: list[Buffer] = []
    for result, target in zip(program.results, targets, strict=True):
        value = block.value(result)
        if target is not None:
            assert target.buffer is not None, "it is memory of the caller"
            if not isinstance(value, Array):
                writer.store(target.buffer, 0, block.scalar(value))
            elif value.buffer is not target.buffer:
                fill(writer, target, value)
            results.append(Result(target.dims, result.type.dtype, target.buffer, True))
            continue
        assert isinstance(value, Array), "a scalar has no sizes"
        if not block.may_leave(value) or value.buffer in handed_over:
            new = block.new(result, value.dims, leaves=True)
            fill(writer, new, value)
            value = new
        assert value.buffer is not None, "it lies in memory"
        handed_over.append(value.buffer)
        results.append(Result(value.dims, result.type.dtype, value.buffer, False))
    return tuple(results)
