"""Operations on shapes, and new arrays: most read the operand at other indices; concatenations copy."""

from collections.abc import Sequence

from plica.backend.native.loops.arrays import Array, Value, fill, moved, reshaped, solid
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.control import row_of
from plica.backend.native.loops.nest import Index, Reserve, Site
from plica.backend.native.scalars.builder import Scalar
from plica.errors import BoundsError, InputError
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ops.rules import normal_axes, normal_axis
from plica.ops.slices import beyond_message


def reshape(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The same entries in the same order."""
    (x,), type_ = operands, equation.outputs[0].type
    dims = block.dims(type_)
    if not isinstance(x, Array):
        scalar = block.scalar(x)
        return x if not dims else Array(dims, scalar.dtype, lambda _: scalar, {}, flat=lambda _: scalar)
    if not dims:
        return x.read((0,) * len(x.dims))
    if x.flat is None:
        axes = [axis for axis, dim in enumerate(equation.inputs[0].type.shape) if dim != 1]
        result_axes = [axis for axis, dim in enumerate(type_.shape) if dim != 1]
        if [equation.inputs[0].type.shape[axis] for axis in axes] == [type_.shape[axis] for axis in result_axes]:
            rank, pairs = len(x.dims), list(zip(axes, result_axes, strict=True))
            return moved(x, dims, lambda index: _permuted(rank, pairs, index))
        x = block.in_memory(x)
    return reshaped(block.writer, x, dims)


def _permuted(rank: int, pairs: Sequence[tuple[int, int]], index: Sequence[Index]) -> list[Index]:
    numbers: list[Index] = [0] * rank
    for axis, result_axis in pairs:
        numbers[axis] = index[result_axis]
    return numbers


def permute_dims(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Axes in another order."""
    (x,), axes = operands, equation.params["axes"]
    if not isinstance(x, Array) or list(axes) == sorted(axes):
        return x
    pairs = [(axis, index) for index, axis in enumerate(axes)]
    x = x if x.is_cheap else block.in_memory(x)
    return moved(x, [x.dims[axis] for axis in axes], lambda index: _permuted(len(axes), pairs, index))


def join(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """`concat`: if the first part may grow, the others are appended to it; else all are copied."""
    writer, var = block.writer, equation.outputs[0]
    axis = normal_axis(equation.params["axis"], len(var.type.shape))
    parts = [operand for operand in operands if isinstance(operand, Array)]
    if len(parts) == 1:
        return parts[0]
    dims = block.dims(var.type)
    grown = _grown(block, equation, parts, dims) if axis == 0 else None
    if grown is None:
        target = block.new(var, dims)
        write_part(block, target, parts[0], axis, 0)
    else:
        target = grown
    begin: Index = parts[0].dims[axis]
    for part in parts[1:]:
        write_part(block, target, part, axis, begin)
        begin = writer.add(begin, part.dims[axis])
    return target


def _grown(block: Block, equation: Equation, parts: list[Array], dims: Sequence[Index]) -> Array | None:
    first, operand = parts[0], equation.inputs[0]
    capacity = block.capacities.get(first.buffer) if first.buffer is not None else None
    if capacity is None or any(operand is later for later in equation.inputs[1:]):
        return None
    for index, part in enumerate(parts[1:], start=1):
        if first.buffer in part.reads:
            parts[index] = _copied(block, part)
    if not block.may_write(operand, first):
        return None
    assert first.buffer is not None, "it has a capacity"
    writer = block.writer
    buffer = writer.buffer(first.dtype)
    used, new_size = writer.product(first.dims), writer.product(dims)
    writer.put(Reserve(buffer, first.buffer, capacity, used, new_size))
    block.owned.add(buffer)
    block.capacities[buffer] = capacity
    return solid(writer, buffer, dims)


def _copied(block: Block, x: Array) -> Array:
    target = block.temporary(x.dtype, x.dims)
    fill(block.writer, target, x)
    return target


def write_part(block: Block, target: Array, part: Array, axis: int, begin: Index) -> None:
    """Write the part of an array that begins at an index along an axis."""
    writer = block.writer
    assert target.buffer is not None, "it is new memory"
    if all(dim == 1 for dim in target.dims[:axis]):
        start = writer.add(target.start, writer.multiply(begin, writer.product(target.dims[axis + 1 :])))
        fill(writer, solid(writer, target.buffer, part.dims, start), part)
        return
    with writer.nest(part.dims) as index:
        value = part.read(index)
        position = [
            writer.add(number, begin) if other_axis == axis else number for other_axis, number in enumerate(index)
        ]
        writer.store(target.buffer, writer.add(target.start, writer.flat(position, target.dims)), value)


def stack(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Arrays along a new axis."""
    writer, var = block.writer, equation.outputs[0]
    axis = normal_axis(equation.params["axis"], len(var.type.shape))
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    for number, value in enumerate(operands):
        if isinstance(value, Array):
            index = list(value.dims)
            part = moved(
                value,
                [*index[:axis], 1, *index[axis:]],
                lambda result_index: [*result_index[:axis], *result_index[axis + 1 :]],
            )
            write_part(block, target, part, axis, number)
        else:
            writer.store(target.buffer, writer.add(target.start, number), block.scalar(value))
    return target


def unstack(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """The parts at all indices of an axis."""
    (x,) = operands
    assert isinstance(x, Array), "it has an axis"
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)
    return tuple(part_at(block, x, axis, index) for index in range(len(equation.outputs)))


def part_at(block: Block, x: Array, axis: int, position: Index) -> Value:
    """The part of an array at one index of an axis."""
    if all(dim == 1 for dim in x.dims[:axis]) and x.buffer is not None and len(x.dims) > 1:
        size = block.writer.product(x.dims[axis + 1 :])
        start = block.writer.add(x.start, block.writer.multiply(position, size))
        return _part(block, x, [*x.dims[:axis], *x.dims[axis + 1 :]], start)
    if axis == 0:
        return row_of(block, x, position)
    dims = [*x.dims[:axis], *x.dims[axis + 1 :]]
    return moved(x, dims, lambda index: [*index[:axis], position, *index[axis:]])


def _part(block: Block, x: Array, dims: Sequence[Index], start: Index) -> Array:
    """Consecutive entries of a solid array, as an array of other sizes."""
    assert x.buffer is not None, "it is solid"
    part = solid(block.writer, x.buffer, dims, start)
    return Array(tuple(dims), x.dtype, part.read, {x.buffer: False}, flat=part.flat, buffer=x.buffer, start=start)


def split(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """Parts of an axis."""
    (x,) = operands
    assert isinstance(x, Array), "it has an axis"
    axis = normal_axis(equation.params["axis"], len(x.dims))
    x = x if x.is_cheap else block.in_memory(x)
    parts, begin = [], 0
    for size in map(block.size, equation.params["sizes"]):
        parts.append(_sliced(block, x, axis, begin, 1, size))
        begin = block.writer.add(begin, size)  # type: ignore[assignment]
    return tuple(parts)


def _sliced(block: Block, x: Array, axis: int, start: Index, step: Index, size: Index) -> Array:
    writer = block.writer
    dims = [*x.dims[:axis], size, *x.dims[axis + 1 :]]
    if step == 1 and x.buffer is not None and all(dim == 1 for dim in x.dims[:axis]):
        begin = writer.multiply(start, writer.product(x.dims[axis + 1 :]))
        return _part(block, x, dims, writer.add(x.start, begin))

    def index(result_index: Sequence[Index]) -> list[Index]:
        number = writer.add(start, writer.multiply(result_index[axis], step))
        return [*result_index[:axis], number, *result_index[axis + 1 :]]

    return moved(x, dims, index)


def slice_(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A slice of an axis, within it."""
    (x,) = operands
    assert isinstance(x, Array), "it has an axis"
    params = equation.params
    axis = normal_axis(params["axis"], len(x.dims))
    start, stop, step = (block.size(params[name]) for name in ("start", "stop", "step"))
    require_slice(block, equation, axis, x.dims[axis], start, stop, step)
    size = block.size(equation.outputs[0].type.shape[axis])
    return _sliced(block, x, axis, start, step, size)


def require_slice(
    block: Block, equation: Equation, axis: int, size: Index, start: Index, stop: Index, step: Index
) -> None:
    """End the run if a slice is not within its axis."""
    writer = block.writer

    def error(numbers: Sequence[int]) -> Exception:
        return BoundsError(beyond_message(axis, *numbers))

    pairs = [(0, start), (start, stop), (stop, size), (1, step)]
    conditions = [
        writer.compare("less_equal", a, b)
        for a, b in pairs
        if not (isinstance(a, int) and isinstance(b, int) and a <= b) and a is not b
    ]
    if not conditions:
        return
    is_within = conditions[0]
    for limit in conditions[1:]:
        is_within = writer.compute("and", is_within, limit)
    writer.check(is_within, Site(equation.source, error), size, start, stop, step)


def roll(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Entries shifted along axes, cyclically."""
    (x,), writer = operands, block.writer
    if not isinstance(x, Array):
        return x
    shifts = list(zip(map(block.size, equation.params["shift"]), equation.params["axis"], strict=True))
    rank = len(x.dims)
    x = x if x.is_cheap else block.in_memory(x)

    def index(result_index: Sequence[Index]) -> list[Index]:
        numbers = list(result_index)
        for by, axis in shifts:
            position = axis % rank
            dividend_and_size = [writer.value(writer.subtract(numbers[position], by)), writer.value(x.dims[position])]
            numbers[position] = writer.apply("remainder", dividend_and_size, DType.INT64, {})
        return numbers

    return moved(x, x.dims, index, work=len(shifts))


def _triangle(kind: str) -> Row:
    def triangle(block: Block, equation: Equation, operands: list[Value]) -> Value:
        (x,), writer = operands, block.writer
        assert isinstance(x, Array), "it is a matrix"
        k = block.size(equation.params["k"])

        def read(index: Sequence[Index]) -> Scalar:
            row, column = index[-2:]
            inside = writer.compare(kind, column, writer.add(row, k))
            return writer.select(inside, x.read(index), writer.number(0, x.dtype))

        return Array(x.dims, x.dtype, read, x.reads, x.work + 2)

    return triangle


def flip(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Axes in reverse order of their indices."""
    (x,), writer = operands, block.writer
    if not isinstance(x, Array):
        return x
    axes = normal_axes(equation.params["axis"], len(x.dims))
    last = {axis: writer.subtract(x.dims[axis], 1) for axis in axes}

    def index(result_index: Sequence[Index]) -> list[Index]:
        return [
            writer.subtract(last[axis], number) if axis in axes else number for axis, number in enumerate(result_index)
        ]

    return moved(x, x.dims, index)


def diagonal(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The diagonals of matrices."""
    (x,), writer, offset = operands, block.writer, equation.params["offset"]
    assert isinstance(x, Array), "it is a matrix"
    down, right = max(-offset, 0), max(offset, 0)

    def index(result_index: Sequence[Index]) -> list[Index]:
        return [*result_index[:-1], writer.add(result_index[-1], down), writer.add(result_index[-1], right)]

    return moved(x, block.dims(equation.outputs[0].type), index)


def arange(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """0, 1, 2, ..."""
    del operands
    writer, type_ = block.writer, equation.outputs[0].type

    def flat(offset: Index) -> Scalar:
        return writer.convert(writer.value(offset), type_.dtype)

    return Array(block.dims(type_), type_.dtype, lambda index: flat(index[0]), {}, flat=flat)


def assert_shape(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The operand, after a check of its sizes."""
    (x,), writer, wanted = operands, block.writer, equation.params["shape"]
    if not isinstance(x, Array):
        return x
    sizes = list(map(block.size, wanted))
    rank = len(sizes)

    def error(numbers: Sequence[int]) -> Exception:
        return InputError(
            f"an array has shape {tuple(numbers[:rank])}, but {tuple(numbers[rank:])} is needed: paired sizes must "
            "be equal; pass arguments whose sizes agree."
        )

    for dim, size in zip(x.dims, sizes, strict=True):
        if dim is not size and not (isinstance(dim, int) and dim == size):
            is_equal = writer.compare("equal", dim, size)
            writer.check(is_equal, Site(equation.source, error), *x.dims, *sizes)
    return x


SHAPE: dict[str, Row] = {
    "reshape": reshape,
    "expand_dims": reshape,
    "squeeze": reshape,
    "permute_dims": permute_dims,
    "concat": join,
    "stack": stack,
    "unstack": unstack,
    "split": split,
    "slice": slice_,
    "roll": roll,
    "tril": _triangle("less_equal"),
    "triu": _triangle("greater_equal"),
    "flip": flip,
    "diagonal": diagonal,
    "arange": arange,
    "assert_shape": assert_shape,
}
