"""Layers of circuits: looked-up rows, and sums of products and trees of these, which are vectorized functions."""

from collections.abc import Sequence

from plica.backend.native.circuits.operations import LOOKED_UP, Form, Run, sources_of
from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.layer_kernel import LayerKernel
from plica.backend.native.loops.nest import Copy, Kernel, WriteKernel
from plica.backend.native.loops.rows.contraction import memory_of
from plica.backend.native.loops.rows.linalg import as_array
from plica.backend.native.loops.tiles import MOST_ROWS, Source
from plica.backend.native.loops.tree_kernel import TreeKernel
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType


def look_up(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Rows of a table that states select; rows beyond the table are the nearest ones."""
    writer = block.writer
    table, states, columns, starts = (block.in_memory(as_array(block, operand)) for operand in operands)
    target = block.new(equation.outputs[0], block.dims(equation.outputs[0].type))
    folds, rows, units = target.dims
    with writer.nest([folds, rows]) as (fold, row):
        state = writer.convert(states.read([row, columns.read([fold])]), DType.INT64)
        number = writer.minimum(writer.add(state, starts.read([fold])), writer.subtract(table.dims[0], 1))
        start = writer.add(table.start, writer.multiply(writer.maximum(number, 0), units))
        to = writer.add(target.start, writer.multiply(writer.flat([fold, row], [folds, rows]), units))
        writer.put(Copy(memory_of(target), to, memory_of(table), start, units))
    return target


def sum_of_products(block: Block, equation: Equation, operands: list[Value]) -> Value | tuple[Value, ...]:
    """A layer of products and weighted sums."""
    types, params = [operand.type for operand in equation.inputs], equation.params
    folds, units, outputs = _known(types[0].shape)
    factors = tuple(tuple(Run(*run) for run in factor) for factor in params["factors"])
    sources = _sources(types, params["looked_up"])
    kernel = LayerKernel(types[0].dtype, (folds, units, outputs), params["rescaled"], factors, sources)
    return _written(block, equation, operands, kernel, units)


def tree_of_sums(block: Block, equation: Equation, operands: list[Value]) -> Value | tuple[Value, ...]:
    """A tree of such layers."""
    types, params = [operand.type for operand in equation.inputs], equation.params
    forms = tuple(Form(*form) for form in params["forms"])
    count = 1 + max(form.weight for form in forms)
    units = _known([type_.shape[1] for type_ in types[2 : 2 + count]])
    roots, outputs = _known(equation.outputs[0].type.shape[::2])
    sources = _sources(types[1 + count :], params["looked_up"])
    kernel = TreeKernel(types[2].dtype, roots, outputs, units, forms, params["num_slots"], sources)
    return _written(block, equation, operands, kernel, max(units))


def _known(dims: Sequence[Dim]) -> tuple[int, ...]:
    """Sizes of weights and tables, which are constants."""
    sizes = tuple(dim for dim in dims if isinstance(dim, int))
    assert len(sizes) == len(dims), "constants have known sizes"
    return sizes


def _sources(types: Sequence[ArrayType], looked_up: Sequence[bool]) -> tuple[Source, ...]:
    """The sources of a layer, by the types of its weight and of their operands."""
    return tuple(map(_source, sources_of(types, looked_up)))


def _source(types: tuple[ArrayType, ...]) -> Source:
    if len(types) < LOOKED_UP:
        (units,) = _known(types[0].shape[-1:])
        return Source(units)
    table, states, *_ = types
    size, units, variables = _known([*table.shape, states.shape[1]])
    return Source(units, states.dtype, size, variables)


def _written(
    block: Block, equation: Equation, operands: list[Value], kernel: WriteKernel, units: int
) -> Value | tuple[Value, ...]:
    """The results of a vectorized function: the sums, and the divisors of rows if they were rescaled."""
    results: list[Array] = [block.new(var, block.dims(var.type)) for var in equation.outputs]
    with block.scratch():
        room = block.temporary(results[0].dtype, [MOST_ROWS * units])
        arrays = [room, results[0], results[-1], *(block.in_memory(as_array(block, operand)) for operand in operands)]
        buffers, starts = tuple(map(memory_of, arrays)), tuple(array.start for array in arrays)
        block.writer.put(Kernel(kernel, buffers, starts, (results[0].dims[1],)))
    return results[0] if len(results) == 1 else tuple(results)


LAYERS: dict[str, Row] = {"look_up": look_up, "sum_of_products": sum_of_products, "tree_of_sums": tree_of_sums}
