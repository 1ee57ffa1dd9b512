"""Reading and writing at indices, which are checked one by one."""

from collections.abc import Callable, Sequence

from plica.backend.native.loops.arrays import Array, Value, fill
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index, Site
from plica.backend.native.loops.rows.elementwise import broadcast_index
from plica.backend.native.loops.rows.shape import at_place, require_slice
from plica.backend.native.scalars.builder import Scalar
from plica.errors import BoundsError
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim
from plica.ops.indexing import outside_message
from plica.ops.rules import broadcast, normal_axis
from plica.ops.update import AT

_COMBINED = {"add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}


def from_front(block: Block, equation: Equation, place: Index, axis: int, size: Index) -> Index:
    """An index counted from the front; the run ends where it lies outside its axis."""
    writer = block.writer

    def error(numbers: Sequence[int]) -> Exception:
        return BoundsError(outside_message(numbers[0], axis, numbers[1]))

    if isinstance(place, int):
        counted: Index = writer.add(place, size) if place < 0 else place
    elif writer.is_natural(place):
        counted = place
    else:
        behind = writer.add(place, size)
        counted = writer.select(writer.compare("less", place, 0), behind, place)
    return _within(block, equation, counted, size, error, place)


def _within(
    block: Block, equation: Equation, place: Index, size: Index, error: Callable[..., Exception], shown: Index
) -> Index:
    writer = block.writer
    asked = []
    if not writer.is_natural(place):
        asked.append(writer.compare("less_equal", 0, place))
    if not writer.is_below(place, size):
        asked.append(writer.compare("less", place, size))
    if asked:
        fine = asked[0] if len(asked) == 1 else writer.compute("and", *asked)
        writer.check(fine, Site(equation.source, error), shown, size)
    return place


def within(block: Block, equation: Equation, place: Scalar, size: Index) -> Index:
    """An index that counts from the front; the run ends where it lies outside its axis."""

    def error(numbers: Sequence[int]) -> Exception:
        return BoundsError(f"index {numbers[0]} does not lie within an axis of size {numbers[1]}.")

    number = block.writer.convert(place, DType.INT64)
    return _within(block, equation, number, size, error, number)


def index(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The part of an array at one place."""
    x, place = operands
    assert isinstance(x, Array), "it has an axis"
    axis = normal_axis(equation.params["axis"], len(x.dims))
    return at_place(block, x, axis, from_front(block, equation, block.index(place), axis, x.dims[axis]))


def _place(block: Block, value: Value, shape: tuple[Dim, ...], target: tuple[Dim, ...], at: Sequence[Index]) -> Scalar:
    """One index, of an array of indices that is broadcast, in 64 bits."""
    entry = value.read(broadcast_index(shape, target, at)) if isinstance(value, Array) else block.scalar(value)
    return block.writer.convert(entry, DType.INT64)


def gather(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Parts of an array at places along some axes."""
    writer, (x, *places), var = block.writer, operands, equation.outputs[0]
    assert isinstance(x, Array), "it has axes"
    axes = [normal_axis(axis, len(x.dims)) for axis in equation.params["axes"]]
    rest = [axis for axis in range(len(x.dims)) if axis not in axes]
    shapes = [operand.type.shape for operand in equation.inputs[1:]]
    common = broadcast(*shapes)
    x = x if x.is_cheap else block.in_memory(x)
    places = [
        block.in_memory(place) if isinstance(place, Array) and rest and not place.is_cheap else place
        for place in places
    ]

    def at(outer: Sequence[Index]) -> dict[int, Index]:
        return {
            axis: from_front(block, equation, _place(block, place, shape, common, outer), axis, x.dims[axis])
            for axis, place, shape in zip(axes, places, shapes, strict=True)
        }

    if not var.type.shape:
        numbers = at(())
        return x.read([numbers[axis] for axis in range(len(x.dims))])
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    with writer.nest(target.dims[: len(common)]) as outer:
        numbers = at(outer)
        with writer.nest([x.dims[axis] for axis in rest]) as inner:
            whole = dict(zip(rest, inner, strict=True)) | numbers
            value = x.read([whole[axis] for axis in range(len(x.dims))])
            offset = writer.flat([*outer, *inner], target.dims)
            writer.store(target.buffer, writer.add(target.start, offset), value)
    return target


def _rows_of(block: Block, equation: Equation, x: Array, entry: Callable[[Sequence[Index]], Sequence[Index]]) -> Value:
    """A new array of entries of another one; indices are checked as they are met."""
    writer, var = block.writer, equation.outputs[0]
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    with writer.nest(target.dims) as at:
        value = x.read(entry(at))
        writer.store(target.buffer, writer.add(target.start, writer.flat(at, target.dims)), value)
    return target


def take(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Parts of an array at places along one axis."""
    x, places = operands
    assert isinstance(x, Array) and isinstance(places, Array), "they have axes"  # noqa: PT018
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)

    def entry(at: Sequence[Index]) -> list[Index]:
        place = within(block, equation, places.read([at[axis]]), x.dims[axis])
        return [*at[:axis], place, *at[axis + 1 :]]

    return _rows_of(block, equation, x, entry)


def take_along_axis(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Entries of each row along an axis."""
    x, places = operands
    assert isinstance(x, Array) and isinstance(places, Array), "they have axes"  # noqa: PT018
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)

    def entry(at: Sequence[Index]) -> list[Index]:
        place = within(block, equation, places.read(at), x.dims[axis])
        return [*at[:axis], place, *at[axis + 1 :]]

    return _rows_of(block, equation, x, entry)


def lookup(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A table (F, K, C) at an index (F, B): (F, B, K)."""
    table, places = operands
    assert isinstance(table, Array) and isinstance(places, Array), "they have axes"  # noqa: PT018
    table = table if table.is_cheap else block.in_memory(table)

    def entry(at: Sequence[Index]) -> list[Index]:
        fold, row, unit = at
        return [fold, unit, within(block, equation, places.read([fold, row]), table.dims[2])]

    return _rows_of(block, equation, table, entry)


def update(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An array with other entries at some places: written over the old one where nobody reads that any more."""
    writer, (x, values, *places), params = block.writer, operands, equation.params
    mode = params["mode"]
    if not isinstance(x, Array):
        return _combined(block, mode, block.scalar(x), block.scalar(values))
    ats = [axis for axis, place in enumerate(params["index"]) if place == AT]
    slices = {}
    for axis, place in enumerate(params["index"]):
        if isinstance(place, tuple):
            slices[axis] = tuple(map(block.size, place))
            require_slice(block, equation, axis, x.dims[axis], *slices[axis])
    target = _written(block, equation, x)
    values, *places = (_apart(block, array, target) for array in (values, *places))
    shapes = [operand.type.shape for operand in equation.inputs[2:]]
    common = broadcast(*shapes)
    dims = [*map(block.size, common)]
    rest = [axis for axis in range(len(x.dims)) if axis not in ats]
    for axis in rest:
        dims.append(_length(block, *slices[axis]) if axis in slices else x.dims[axis])
    shape = equation.inputs[1].type.shape
    outer_dims, inner_dims = dims[: len(common)], dims[len(common) :]
    assert target.buffer is not None, "it lies in memory"
    with writer.nest(outer_dims) as outer:
        indices: dict[int, Index] = {
            axis: from_front(block, equation, _place(block, place, given, common, outer), axis, x.dims[axis])
            for axis, place, given in zip(ats, places, shapes, strict=True)
        }
        with writer.nest(inner_dims) as inner:
            for axis, number in zip(rest, inner, strict=True):
                start, _, step = slices.get(axis, (0, 0, 1))
                indices[axis] = writer.add(start, writer.multiply(number, step))
            value = _value(block, values, shape, [*outer, *inner])
            to = [indices[axis] for axis in range(len(x.dims))]
            offset = writer.add(target.start, writer.flat(to, target.dims))
            if mode in _COMBINED:
                value = _combined(block, mode, writer.load(target.buffer, offset), value)
            writer.store(target.buffer, offset, value)
    return target


def _written(block: Block, equation: Equation, x: Array) -> Array:
    """Where the result lies: where the old array does, or in a copy."""
    if block.may_write(equation.inputs[0], x):
        return x
    target = block.new(equation.outputs[0], x.dims)
    fill(block.writer, target, x)
    return target


def _apart(block: Block, value: Value, target: Array) -> Value:
    """A value that is written to a target, copied where it reads the target."""
    if isinstance(value, int):
        return block.scalar(value)
    if not isinstance(value, Array) or target.buffer not in value.reads:
        return value
    copy = block.temporary(value.dtype, value.dims)
    fill(block.writer, copy, value)
    return copy


def _length(block: Block, start: Index, stop: Index, step: Index) -> Index:
    """How many places a slice has."""
    writer = block.writer
    size = writer.subtract(stop, start)
    if step == 1:
        return size
    up = writer.subtract(writer.add(size, step), 1)
    if isinstance(up, int) and isinstance(step, int):
        return up // step
    return writer.apply("floor_divide", [writer.value(up), writer.value(step)], DType.INT64, {})


def _value(block: Block, values: Value, shape: tuple[Dim, ...], at: Sequence[Index]) -> Scalar:
    if not isinstance(values, Array):
        return block.scalar(values)
    missing = len(at) - len(shape)
    return values.read([0 if dim == 1 else number for number, dim in zip(at[missing:], shape, strict=True)])


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
