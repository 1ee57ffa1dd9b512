"""Program -> loop nest."""

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

    Its parameters are what the Program captures and its arguments; sizes are read off them. A result whose sizes are
    known from those is written to memory of the caller.

    Raises:
        UnsupportedError: An operation or a dtype has no loop nest.
    """
    writer = Writer()
    env: dict[Operand, Value] = {}
    parameters: list[Scalar | Buffer] = []
    block = Block(writer, rows, program, env)
    variables = (*program.consts, *program.arguments)
    sizes = []
    for var, (place, axis) in size_sources(program).items():
        size = Scalar(writer.name("n"), DType.INT64)
        env[var] = size
        sizes.append((size, len(program.consts) + place, axis))
    for var in variables:
        require_dtype(var)
        if not var.type.shape:
            scalar = Scalar(writer.name("x"), var.type.dtype)
            parameters.append(scalar)
            env[var] = scalar
    for place, var in enumerate(variables):
        if var.type.shape:
            buffer = writer.buffer(var.type.dtype, "a")
            parameters.insert(place, buffer)
            env[var] = solid(writer, buffer, block.dims(var.type))
    results = written_results(block, program)
    writer.block[:] = hoist_memory(writer.block)
    return Nest(tuple(sizes), tuple(parameters), results, writer.block, tuple(writer.sites))


def require_dtype(var: Operand) -> None:
    """Refuse a dtype of which nests have no entries."""
    dtype = var.type.dtype
    if dtype.is_storage:
        raise UnsupportedError(
            f'the native backend of jit has no loop nests for {dtype.value}, found {var!r}; use backend="torch".'
        )


def is_given(program: Program, result: Operand) -> bool:
    """Whether the caller knows the sizes of a result before it runs: they are those of arguments."""
    known = set(program.inputs[: program.num_implicit_inputs])
    return all(var in known for var in size_variables(result.type))


def written_results(block: Block, program: Program) -> tuple[Result, ...]:
    """The results of a Program, once all of it is written."""
    writer = block.writer
    results: list[Result] = []
    given: list[Array | None] = []
    for result in program.results:
        require_dtype(result)
        target = None
        if is_given(program, result):
            buffer = writer.buffer(result.type.dtype, "r")
            target = solid(writer, buffer, block.dims(result.type))
            if isinstance(result, Var) and result.type.shape and result not in block.env:
                block.destinations.setdefault(result, target)
        else:
            block.leaving.add(result)
        given.append(target)
    block.run()
    taken: list[Buffer] = []
    for result, target in zip(program.results, given, strict=True):
        value = block.value(result)
        if target is not None:
            assert target.buffer is not None, "the caller gives it"
            if not isinstance(value, Array):
                writer.store(target.buffer, 0, block.scalar(value))
            elif value.buffer is not target.buffer:
                fill(writer, target, value)
            results.append(Result(target.dims, result.type.dtype, target.buffer, True))
            continue
        assert isinstance(value, Array), "a scalar has no sizes"
        if not block.may_leave(value) or value.buffer in taken:
            new = block.new(result, value.dims, leaves=True)
            fill(writer, new, value)
            value = new
        assert value.buffer is not None, "it lies in memory"
        taken.append(value.buffer)
        results.append(Result(value.dims, result.type.dtype, value.buffer, False))
    return tuple(results)
