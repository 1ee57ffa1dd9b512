"""Reads and writes at indices, each of which is checked."""

from collections.abc import Callable, Sequence

from plica.backend.native.loops.arrays import Array, Value, fill
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index, Site
from plica.backend.native.loops.rows.elementwise import broadcast_index
from plica.backend.native.loops.rows.shape import part_at, require_slice
from plica.backend.native.scalars.builder import Scalar
from plica.errors import BoundsError
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim
from plica.ops.indexing import outside_message
from plica.ops.rules import broadcast, normal_axis
from plica.ops.update import AT

_COMBINED = {"add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}


def from_front(block: Block, equation: Equation, index: Index, axis: int, size: Index) -> Index:
    """An index, negative ones counted from the end, as one from the front; the run ends if it is outside its axis."""
    writer = block.writer

    def error(numbers: Sequence[int]) -> Exception:
        return BoundsError(outside_message(numbers[0], axis, numbers[1]))

    if isinstance(index, int):
        counted_from_front: Index = writer.add(index, size) if index < 0 else index
    elif writer.is_natural(index):
        counted_from_front = index
    else:
        from_end = writer.add(index, size)
        counted_from_front = writer.select(writer.compare("less", index, 0), from_end, index)
    return _within(block, equation, counted_from_front, size, error, index)


def _within(
    block: Block, equation: Equation, index: Index, size: Index, error: Callable[..., Exception], shown: Index
) -> Index:
    writer = block.writer
    conditions = []
    if not writer.is_natural(index):
        conditions.append(writer.compare("less_equal", 0, index))
    if not writer.is_below(index, size):
        conditions.append(writer.compare("less", index, size))
    if conditions:
        is_within = conditions[0] if len(conditions) == 1 else writer.compute("and", *conditions)
        writer.check(is_within, Site(equation.source, error), shown, size)
    return index


def within(block: Block, equation: Equation, index: Scalar, size: Index) -> Index:
    """An index that counts from the front; the run ends if it is outside its axis."""

    def error(numbers: Sequence[int]) -> Exception:
        return BoundsError(f"index {numbers[0]} does not lie within an axis of size {numbers[1]}.")

    number = block.writer.convert(index, DType.INT64)
    return _within(block, equation, number, size, error, number)


def index(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The part of an array at one index of an axis."""
    x, position = operands
    assert isinstance(x, Array), "it has an axis"
    axis = normal_axis(equation.params["axis"], len(x.dims))
    return part_at(block, x, axis, from_front(block, equation, block.index(position), axis, x.dims[axis]))


def _index_at(
    block: Block, value: Value, shape: tuple[Dim, ...], target: tuple[Dim, ...], index: Sequence[Index]
) -> Scalar:
    """One entry of an array of indices that is broadcast, in 64 bits."""
    entry = value.read(broadcast_index(shape, target, index)) if isinstance(value, Array) else block.scalar(value)
    return block.writer.convert(entry, DType.INT64)


def gather(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Parts of an array at indices along some axes; the index arrays are broadcast, and their axes come first."""
    writer, (x, *positions), var = block.writer, operands, equation.outputs[0]
    assert isinstance(x, Array), "it has axes"
    axes = [normal_axis(axis, len(x.dims)) for axis in equation.params["axes"]]
    other_axes = [axis for axis in range(len(x.dims)) if axis not in axes]
    shapes = [operand.type.shape for operand in equation.inputs[1:]]
    common = broadcast(*shapes)
    x = x if x.is_cheap else block.in_memory(x)
    positions = [
        block.in_memory(position) if isinstance(position, Array) and other_axes and not position.is_cheap else position
        for position in positions
    ]

    def indices_at(outer: Sequence[Index]) -> dict[int, Index]:
        return {
            axis: from_front(block, equation, _index_at(block, position, shape, common, outer), axis, x.dims[axis])
            for axis, position, shape in zip(axes, positions, shapes, strict=True)
        }

    if not var.type.shape:
        numbers = indices_at(())
        return x.read([numbers[axis] for axis in range(len(x.dims))])
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    with writer.nest(target.dims[: len(common)]) as outer:
        numbers = indices_at(outer)
        with writer.nest([x.dims[axis] for axis in other_axes]) as inner:
            index_of_axis = dict(zip(other_axes, inner, strict=True)) | numbers
            value = x.read([index_of_axis[axis] for axis in range(len(x.dims))])
            offset = writer.flat([*outer, *inner], target.dims)
            writer.store(target.buffer, writer.add(target.start, offset), value)
    return target


def _array_of_entries(
    block: Block, equation: Equation, x: Array, entry: Callable[[Sequence[Index]], Sequence[Index]]
) -> Value:
    """A new array of entries of `x`; `entry` checks each index before it is read."""
    writer, var = block.writer, equation.outputs[0]
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    with writer.nest(target.dims) as index:
        value = x.read(entry(index))
        writer.store(target.buffer, writer.add(target.start, writer.flat(index, target.dims)), value)
    return target


def take(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Parts of an array at indices along one axis."""
    x, positions = operands
    assert isinstance(x, Array) and isinstance(positions, Array), "they have axes"  # noqa: PT018
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)

    def entry(at: Sequence[Index]) -> list[Index]:
        number = within(block, equation, positions.read([at[axis]]), x.dims[axis])
        return [*at[:axis], number, *at[axis + 1 :]]

    return _array_of_entries(block, equation, x, entry)


def take_along_axis(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Entries of each row along an axis."""
    x, positions = operands
    assert isinstance(x, Array) and isinstance(positions, Array), "they have axes"  # noqa: PT018
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)

    def entry(at: Sequence[Index]) -> list[Index]:
        number = within(block, equation, positions.read(at), x.dims[axis])
        return [*at[:axis], number, *at[axis + 1 :]]

    return _array_of_entries(block, equation, x, entry)


def lookup(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A table (F, K, C) at an index (F, B): (F, B, K)."""
    table, positions = operands
    assert isinstance(table, Array) and isinstance(positions, Array), "they have axes"  # noqa: PT018
    table = table if table.is_cheap else block.in_memory(table)

    def entry(at: Sequence[Index]) -> list[Index]:
        fold, row, unit = at
        return [fold, unit, within(block, equation, positions.read([fold, row]), table.dims[2])]

    return _array_of_entries(block, equation, table, entry)


def update(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An array with other entries at some indices: written over the old array if no later equation reads it."""
    writer, (x, values, *positions), params = block.writer, operands, equation.params
    mode = params["mode"]
    if not isinstance(x, Array):
        return _combined(block, mode, block.scalar(x), block.scalar(values))
    axes_at = [axis for axis, part in enumerate(params["index"]) if part == AT]
    slices = {}
    for axis, part in enumerate(params["index"]):
        if isinstance(part, tuple):
            slices[axis] = tuple(map(block.size, part))
            require_slice(block, equation, axis, x.dims[axis], *slices[axis])
    target = _result_memory(block, equation, x)
    values, *positions = (_copied_if_shared(block, array, target) for array in (values, *positions))
    shapes = [operand.type.shape for operand in equation.inputs[2:]]
    common = broadcast(*shapes)
    dims = [*map(block.size, common)]
    other_axes = [axis for axis in range(len(x.dims)) if axis not in axes_at]
    for axis in other_axes:
        dims.append(_length(block, *slices[axis]) if axis in slices else x.dims[axis])
    shape = equation.inputs[1].type.shape
    outer_dims, inner_dims = dims[: len(common)], dims[len(common) :]
    assert target.buffer is not None, "it lies in memory"
    with writer.nest(outer_dims) as outer:
        indices: dict[int, Index] = {
            axis: from_front(
                block, equation, _index_at(block, position, shape_of_index, common, outer), axis, x.dims[axis]
            )
            for axis, position, shape_of_index in zip(axes_at, positions, shapes, strict=True)
        }
        with writer.nest(inner_dims) as inner:
            for axis, number in zip(other_axes, inner, strict=True):
                start, _, step = slices.get(axis, (0, 0, 1))
                indices[axis] = writer.add(start, writer.multiply(number, step))
            value = _value(block, values, shape, [*outer, *inner])
            target_index = [indices[axis] for axis in range(len(x.dims))]
            offset = writer.add(target.start, writer.flat(target_index, target.dims))
            if mode in _COMBINED:
                value = _combined(block, mode, writer.load(target.buffer, offset), value)
            writer.store(target.buffer, offset, value)
    return target


def _result_memory(block: Block, equation: Equation, x: Array) -> Array:
    """The memory of the result: that of the old array, or a copy."""
    if block.may_write(equation.inputs[0], x):
        return x
    target = block.new(equation.outputs[0], x.dims)
    fill(block.writer, target, x)
    return target


def _copied_if_shared(block: Block, value: Value, target: Array) -> Value:
    """A value that is written to a target, copied if it reads the target."""
    if isinstance(value, int):
        return block.scalar(value)
    if not isinstance(value, Array) or target.buffer not in value.reads:
        return value
    copy = block.temporary(value.dtype, value.dims)
    fill(block.writer, copy, value)
    return copy


def _length(block: Block, start: Index, stop: Index, step: Index) -> Index:
    """The length of a slice."""
    writer = block.writer
    size = writer.subtract(stop, start)
    if step == 1:
        return size
    rounded = writer.subtract(writer.add(size, step), 1)
    if isinstance(rounded, int) and isinstance(step, int):
        return rounded // step
    return writer.apply("floor_divide", [writer.value(rounded), writer.value(step)], DType.INT64, {})


def _value(block: Block, values: Value, shape: tuple[Dim, ...], index: Sequence[Index]) -> Scalar:
    if not isinstance(values, Array):
        return block.scalar(values)
    missing = len(index) - len(shape)
    return values.read([0 if dim == 1 else number for number, dim in zip(index[missing:], shape, strict=True)])


def _combined(block: Block, mode: str, old: Scalar, new: Scalar) -> Scalar:
    return block.writer.apply(_COMBINED[mode], [old, new], old.dtype, {}) if mode in _COMBINED else new


INDEXING: dict[str, Row] = {
    "index": index,
    "gather": gather,
    "take": take,
    "take_along_axis": take_along_axis,
    "lookup": lookup,
    "update": update,
}
