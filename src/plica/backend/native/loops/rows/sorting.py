"""Sorting, binary search, and operations whose number of results depends on the entries: `nonzero` and `unique`."""

from collections.abc import Callable, Sequence
from typing import Any

from plica.backend.native.loops.arrays import Array, Value, reshaped
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.decomposed import of_reals
from plica.backend.native.loops.nest import Buffer, Copy, Index, Put
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ops.rules import normal_axis

Less = Callable[[Scalar, Scalar], Scalar]


def _less(block: Block, a: Scalar, b: Scalar, kind: str = "less") -> Scalar:
    """Whether `a` comes before `b`. NaN counts as the largest number: last, or first where `kind` is "greater"."""
    writer = block.writer
    is_less = writer.compare(kind, a, b)
    if a.dtype.kind != "float":
        return is_less
    larger, smaller = (b, a) if kind == "less" else (a, b)
    only_larger_is_nan = writer.compute(
        "and", writer.compare("not_equal", larger, larger), writer.compare("equal", smaller, smaller)
    )
    return writer.compute("or", is_less, only_larger_is_nan)


def sorting_order(block: Block, count: Index, less: Less) -> Buffer:
    """The indices 0, ..., count - 1 in sorted order, by a stable merge sort.

    `order` has sorted runs of `width` indices, at first of one. Each pass merges pairs of neighbouring runs, from
    `begin` to `middle` and from there to `end`, into `merged`, copies that back, and doubles the width.
    """
    writer = block.writer
    order, merged = (block.temporary(DType.INT64, [count]).buffer for _ in range(2))
    assert order is not None and merged is not None, "it is new memory"  # noqa: PT018
    with writer.loop(count) as index:
        writer.store(order, index, index)
    last = writer.subtract(count, 1)
    width, low = writer.cell(DType.INT64, 1), writer.cell(DType.INT64)
    left, right = writer.cell(DType.INT64), writer.cell(DType.INT64)
    with writer.repeat(lambda: writer.compare("less", writer.get(width), count)):
        writer.put(Put(low, 0))
        with writer.repeat(lambda: writer.compare("less", writer.get(low), count)):
            begin, size = writer.get(low), writer.get(width)
            middle = writer.minimum(writer.add(begin, size), count)
            end = writer.minimum(writer.add(middle, size), count)
            writer.put(Put(left, begin))
            writer.put(Put(right, middle))
            with writer.loop(end, begin) as position:
                i, j = writer.get(left), writer.get(right)
                first, second = (writer.load(order, writer.minimum(run_position, last)) for run_position in (i, j))
                is_first_run_empty = writer.compare("less_equal", middle, i)
                is_second_next = writer.compute("or", is_first_run_empty, less(second, first))
                takes_second = writer.compute("and", writer.compare("less", j, end), is_second_next)
                writer.store(merged, position, writer.select(takes_second, second, first))
                step = writer.convert(takes_second, DType.INT64)
                writer.put(Put(right, writer.add(j, step)))
                writer.put(Put(left, writer.add(i, writer.subtract(1, step))))
            writer.put(Put(low, end))
        writer.put(Copy(order, 0, merged, 0, count))
        writer.put(Put(width, writer.multiply(writer.get(width), 2)))
    return order


def _sort(*, returns_values: bool) -> Row:
    """The row of `sort`, or of `argsort`, which returns indices."""

    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        writer, (x,) = block.writer, operands
        assert isinstance(x, Array), "it has an axis"
        x = block.in_memory(x)
        axis = normal_axis(equation.params["axis"], len(x.dims))
        kind = "greater" if equation.params["descending"] else "less"
        var = equation.outputs[0]
        target = block.new(var, x.dims)
        assert target.buffer is not None, "it is new memory"
        dims = [dim for index, dim in enumerate(x.dims) if index != axis]
        with writer.nest(dims) as outer, block.scratch():

            def entry(index: Index) -> Scalar:
                return x.read([*outer[:axis], index, *outer[axis:]])

            order = sorting_order(block, x.dims[axis], lambda a, b: _less(block, entry(a), entry(b), kind))
            with writer.loop(x.dims[axis]) as position:
                index = writer.load(order, position)
                offset = writer.add(target.start, writer.flat([*outer[:axis], position, *outer[axis:]], x.dims))
                writer.store(target.buffer, offset, entry(index) if returns_values else index)
        return target

    return row


def searchsorted(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """For each value the position at which it may be inserted so that `ordered` stays in order, by binary search."""
    writer, (ordered, values) = block.writer, operands
    assert isinstance(ordered, Array), "it has an axis"
    ordered, side, size = block.in_memory(ordered), equation.params["side"], ordered.dims[0]

    def position_of(value: Scalar) -> Scalar:
        low, high = writer.cell(DType.INT64, 0), writer.cell(DType.INT64, size)
        with writer.repeat(lambda: writer.compare("less", writer.get(low), writer.get(high))):
            total = writer.compute("add", writer.get(low), writer.get(high))
            middle = writer.compute("shift_right", total, 1)
            entry = ordered.read([middle])
            if side == "left":
                is_after_middle = _less(block, entry, value)
            else:
                is_after_middle = writer.compute("xor", _less(block, value, entry), writer.number(True, DType.BOOL))
            writer.put(Put(low, writer.select(is_after_middle, writer.add(middle, 1), writer.get(low))))
            writer.put(Put(high, writer.select(is_after_middle, writer.get(high), middle)))
        return writer.get(low)

    if not isinstance(values, Array):
        return position_of(block.scalar(values))
    values = block.in_memory(values)
    target = block.new(equation.outputs[0], values.dims)
    assert target.buffer is not None and values.flat is not None, "they lie in memory"  # noqa: PT018
    with writer.loop(writer.product(values.dims)) as offset:
        writer.store(target.buffer, writer.add(target.start, offset), position_of(values.flat(offset)))
    return target


def nonzero(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """How many entries differ from zero, and their indices. One pass counts them, a second one writes the indices."""
    writer, (x,) = block.writer, operands
    assert isinstance(x, Array), "it has axes"
    x = x if x.is_cheap else block.in_memory(x)

    def is_nonzero(index: Sequence[Index]) -> Scalar:
        value = x.read(index)
        return writer.compare("not_equal", value, writer.number(0, x.dtype))

    count = writer.cell(DType.INT64, 0)
    with writer.nest(x.dims) as index:
        writer.advance(count, writer.convert(is_nonzero(index), DType.INT64))
    size = writer.get(count)
    indices = [block.new(var, [size]) for var in equation.outputs[1:]]
    position = writer.cell(DType.INT64, 0)
    with writer.nest(x.dims) as index, writer.when(is_nonzero(index)):
        offset = writer.get(position)
        for target, index_on_axis in zip(indices, index, strict=True):
            assert target.buffer is not None, "it is new memory"
            writer.store(target.buffer, writer.add(target.start, offset), writer.value(index_on_axis))
        writer.advance(position)
    return (size, *indices)


def unique(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, ...]:
    """The distinct entries in order, and, as `parts` asks, where they occur and how often. Each NaN is distinct.

    Entries are sorted. A step of the sorted order is new where its entry differs from the one before; each new step
    begins a group of equal entries.
    """
    writer, (x,), parts = block.writer, operands, equation.params["parts"]
    if not isinstance(x, Array):
        scalar = block.scalar(x)
        x = Array((1,), scalar.dtype, lambda _: scalar, {}, flat=lambda _: scalar)
    num_entries = writer.product(x.dims)
    x = reshaped(writer, block.in_memory(x), [num_entries])
    order = sorting_order(block, num_entries, lambda a, b: _less(block, x.read([a]), x.read([b])))

    def is_new(step: Index) -> Scalar:
        before = writer.load(order, writer.maximum(writer.subtract(step, 1), 0))
        differs = writer.compare("not_equal", x.read([writer.load(order, step)]), x.read([before]))
        return writer.compute("or", writer.compare("equal", step, 0), differs)

    num_groups = writer.cell(DType.INT64, 0)
    with writer.loop(num_entries) as step:
        writer.advance(num_groups, writer.convert(is_new(step), DType.INT64))
    size = writer.get(num_groups)
    dims: dict[str, Any] = {"inverse": block.dims(equation.inputs[0].type)}
    targets = {
        part: block.new(var, dims.get(part, (size,)))
        for part, var in zip(parts, equation.outputs[1:], strict=True)
        if var.type.shape
    }

    def store(part: str, offset: Index, value: Scalar) -> None:
        if part in targets:
            target = targets[part]
            assert target.buffer is not None, "it is new memory"
            writer.store(target.buffer, writer.add(target.start, offset), value)

    last_group = writer.cell(DType.INT64, -1)
    with writer.loop(num_entries) as step:
        index = writer.load(order, step)
        with writer.when(is_new(step)):
            writer.advance(last_group)
            group = writer.get(last_group)
            store("values", group, x.read([index]))
            store("indices", group, index)
            store("counts", group, writer.value(0))
        group = writer.get(last_group)
        store("inverse", index, group)
        if "counts" in targets:
            counts = targets["counts"]
            assert counts.buffer is not None, "it is new memory"
            offset = writer.add(counts.start, group)
            writer.store(counts.buffer, offset, writer.value(writer.add(writer.load(counts.buffer, offset), 1)))
    zero = writer.value(0)
    return (size, *(targets.get(part, zero) for part in parts))


SORTING: dict[str, Row] = {
    "sort": _sort(returns_values=True),
    "argsort": _sort(returns_values=False),
    "searchsorted": searchsorted,
    "nonzero": of_reals(nonzero),
    "unique": of_reals(unique),
}
