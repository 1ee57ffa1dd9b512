"""Some equations as a nest of their own: its parameters are their operands, and the caller allocates its results.

Equations become such a nest if its memory can be allocated before it begins: no iteration changes a size. All products
are loops.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plica.backend.native.loops.arrays import Value, solid
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.build import require_dtype, written_results
from plica.backend.native.loops.hoist import hoist_memory
from plica.backend.native.loops.most_work import parts_of
from plica.backend.native.loops.nest import (
    Allocate,
    Buffer,
    Nest,
    Reserve,
    all_of,
)
from plica.backend.native.loops.rows import ROWS
from plica.backend.native.loops.support import bytes_of, is_on_stack
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.ir.program import Equation, Operand, Program, Var, size_variables

_STACK = 16384  # bytes of stack after which a nest puts no further array there


@dataclass(frozen=True, slots=True)
class EquationNest:
    """A nest of some equations.

    Args:
        nest: The nest.
        operands: The variables that its parameters stand for.
        results: The variables that its results stand for.
        memory: Its allocations, but for those on the stack.
    """

    nest: Nest
    operands: tuple[Var, ...]
    results: tuple[Var, ...]
    memory: tuple[Allocate, ...]


def equation_nest_of(
    equations: Sequence[Equation], results: Iterable[Var], same: Mapping[Var, Hashable]
) -> EquationNest | None:
    """The nest of consecutive equations; None if its memory cannot be allocated before it begins.

    Args:
        equations: The equations.
        results: The outputs that other equations read, whose sizes are known outside.
        same: Scalars that are known: the number, or a key that equal scalars share.

    Raises:
        UnsupportedError: An operation or a dtype has no loop nest.
    """
    wanted = tuple(results)
    inputs = operands_of(equations)
    sizes = dict.fromkeys(sizes_of(equations))
    writer = Writer()
    env: dict[Operand, Value] = {}
    block = Block(writer, ROWS, _program(equations, sizes, inputs, wanted), env, in_file=True)
    parameters: dict[Var, Scalar | Buffer] = {}
    values: dict[Hashable, Value] = {}
    for var in (*sizes, *(operand for operand in inputs if operand not in sizes)):
        require_dtype(var)
        if var.type.shape:
            continue
        value = same.get(var, var)
        if not isinstance(value, int) and value not in values:
            parameters[var] = values[value] = Scalar(writer.name("x"), var.type.dtype)
        env[var] = value if isinstance(value, int) else values[value]
    for var in inputs:
        if var.type.shape:
            parameters[var] = buffer = writer.buffer(var.type.dtype, "a")
            env[var] = solid(writer, buffer, block.dims(var.type))
    written = written_results(block, block.program)
    writer.block[:] = hoist_memory(writer.block)
    statements = list(all_of(writer.block))
    memory = tuple(statement for statement in statements if isinstance(statement, Allocate))
    if any(allocation.leaves for allocation in memory) or any(
        isinstance(statement, Reserve) for statement in statements
    ):
        return None
    if any(part.dtype.kind == "complex" for statement in statements for part in parts_of(statement)):
        return None
    nest = Nest((), tuple(parameters.values()), written, writer.block, tuple(writer.sites))
    return EquationNest(nest, tuple(parameters), wanted, tuple(_beyond_stack(memory)))


def _beyond_stack(memory: Iterable[Allocate]) -> Iterator[Allocate]:
    """Allocations that are too large for the stack, or follow when `_STACK` is used up: threads have small stacks."""
    free_bytes = _STACK
    for allocation in memory:
        if is_on_stack(allocation) and free_bytes > 0:
            assert isinstance(allocation.count, int), "arrays on the stack have known sizes"
            free_bytes -= allocation.count * bytes_of(allocation.buffer.dtype)
        else:
            yield allocation


def operands_of(equations: Sequence[Equation]) -> dict[Var, None]:
    """The variables that equations read, but for those that they make."""
    own = {var for equation in equations for var in equation.outputs}
    read = (operand for equation in equations for operand in equation.inputs)
    return dict.fromkeys(operand for operand in read if isinstance(operand, Var) and operand not in own)


def sizes_of(equations: Sequence[Equation]) -> list[Var]:
    """The variables in sizes of equations, but for those that they make."""
    own = {var for equation in equations for var in equation.outputs}
    values: list[object] = []
    for equation in equations:
        values += [operand.type for operand in (*equation.inputs, *equation.outputs)]
        values += equation.params.values()
    return [var for value in values for var in size_variables(value) if var not in own]


def _program(
    equations: Sequence[Equation], sizes: Iterable[Var], inputs: Iterable[Var], results: tuple[Var, ...]
) -> Program:
    own = [var for var in inputs if var not in sizes]
    known = tuple(sizes)
    return Program((), (*known, *own), tuple(equations), results, len(known))
