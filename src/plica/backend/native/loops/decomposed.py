"""Operations without a loop nest of their own: their decompositions are traced, and written in their place."""

from collections.abc import Callable
from typing import Any

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.control import inlined
from plica.backend.native.scalars.values import is_half
from plica.ir.op import Unsupported
from plica.ir.program import Equation, Operand
from plica.ir.signature import size_sources
from plica.ops import OPS
from plica.passes.clean import clean
from plica.tracing.decomposition import sizes_within, traced_decomposition
from plica.tracing.scope import record


def has_decomposition(name: str) -> bool:
    """Whether an operation has a decomposition."""
    return not isinstance(DECOMPOSITIONS.get(name, OPS[name].decompose), Unsupported)


def decomposed(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """The results of the decomposition of an operation."""
    name = equation.op.name
    return _written(block, equation, operands, DECOMPOSITIONS.get(name, OPS[name].decompose))


def _written(
    block: Block, equation: Equation, operands: list[Value], decompose: Callable[..., Any]
) -> tuple[Value, ...]:
    sizes = sizes_within(equation.params)
    types, results = ([operand.type for operand in group] for group in (equation.inputs, equation.outputs))
    program = clean(
        traced_decomposition(equation.op.name, decompose, types, results, equation.params, sizes, equation.source)
    )
    values = [*operands, *map(block.size, sizes)]
    env: dict[Operand, Value] = dict(zip(program.arguments, values, strict=True))
    for var, (index, axis) in size_sources(program).items():
        value = values[index]
        assert isinstance(value, Array), "only arrays have sizes"
        env[var] = value.dims[axis]
    return inlined(block, program, env, equation.inputs)[program.num_implicit_outputs :]


def of_reals(row: Row) -> Row:
    """A row that writes `row` for real numbers, and the decomposition for complex ones."""

    def write(block: Block, equation: Equation, operands: list[Value]) -> Value | tuple[Value, ...]:
        is_complex = any(operand.type.dtype.kind == "complex" for operand in equation.inputs)
        return (decomposed if is_complex else row)(block, equation, operands)

    return write


def in_float32(row: Row) -> Row:
    """A row of sums that adds numbers of 16 bits in float32, and rounds the result once."""

    def write(block: Block, equation: Equation, operands: list[Value]) -> Value | tuple[Value, ...]:
        dtype = equation.outputs[0].type.dtype
        if not is_half(dtype):
            results: Value | tuple[Value, ...] = row(block, equation, operands)
            return results

        def decompose(xp: Any, *arrays: Any, **params: Any) -> Any:
            wide = [xp.astype(array, xp.float32) for array in arrays]
            return xp.astype(record(equation.op.name, *wide, **params), getattr(xp, dtype.value))

        return _written(block, equation, operands, decompose)

    return write
