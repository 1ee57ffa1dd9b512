"""Reductions, cumulative sums and what is normalized by them."""

from collections.abc import Callable, Sequence
from math import inf

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Cell, Index, Put
from plica.backend.native.loops.rows.places import PLACES
from plica.backend.native.loops.rows.reductions import (
    Combine,
    apply_of,
    least,
    most,
    operand,
    require_entries,
    target_of,
    whole_index,
)
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ops.rules import normal_axes, normal_axis


def reduced(
    block: Block,
    x: Array,
    axes: Sequence[int],
    dtype: DType,
    first: complex,
    combine: Combine,
    target: Array | None,
    entry: Callable[[Scalar], Scalar] | None = None,
) -> Value:
    """`x` combined along axes, in memory: in `target`, or in new memory; or a scalar.

    Args:
        block: Where statements go.
        x: What is reduced.
        axes: Along what.
        dtype: The dtype of the result.
        first: What it begins with.
        combine: What was found so far and one more entry.
        target: Where the result goes: axes that are reduced are missing, or of size 1.
        entry: What is taken of each entry; by default the entry in the result's dtype.
    """
    writer = block.writer
    taken = entry or (lambda value: writer.convert(value, dtype))
    kept = [axis for axis in range(len(x.dims)) if axis not in axes]
    if not kept:
        cell = writer.cell(dtype)
        writer.put(Put(cell, writer.number(first, dtype)))
        if x.flat is not None:
            with writer.loop(writer.product(x.dims)) as offset:
                writer.put(Put(cell, combine(writer.get(cell), taken(x.flat(offset)))))
        else:
            with writer.nest(x.dims) as index:
                writer.put(Put(cell, combine(writer.get(cell), taken(x.read(index)))))
        found = writer.get(cell)
        if target is not None:
            assert target.buffer is not None, "it lies in memory"
            writer.store(target.buffer, target.start, found)
        return found if target is None else target
    dims = [x.dims[axis] for axis in kept]
    target = block.temporary(dtype, dims) if target is None else target
    assert target.buffer is not None, "it lies in memory"
    rows = kept[-1] == len(x.dims) - 1 and len(axes) > 0
    if rows:  # along rows: the result has as many entries in a row
        _by_rows(block, x, axes, kept, first, combine, target, taken)
        return target
    with writer.nest(dims) as outer:
        cell = writer.cell(dtype)
        writer.put(Put(cell, writer.number(first, dtype)))
        with writer.nest([x.dims[axis] for axis in axes]) as inner:
            value = x.read(whole_index(kept, outer, axes, inner))
            writer.put(Put(cell, combine(writer.get(cell), taken(value))))
        writer.store(target.buffer, writer.add(target.start, writer.flat(outer, dims)), writer.get(cell))
    return target


def _by_rows(
    block: Block,
    x: Array,
    axes: Sequence[int],
    kept: Sequence[int],
    first: complex,
    combine: Combine,
    target: Array,
    taken: Callable[[Scalar], Scalar],
) -> None:
    """Whole rows are combined with the row of the result, so that the innermost loop runs along memory."""
    writer, buffer = block.writer, target.buffer
    assert buffer is not None, "it lies in memory"
    *outside, last = kept
    with writer.nest([x.dims[axis] for axis in outside]) as outer:
        width = x.dims[last]
        begin = writer.add(target.start, writer.multiply(writer.flat(outer, [x.dims[axis] for axis in outside]), width))
        with writer.nest([width]) as (column,):
            writer.store(buffer, writer.add(begin, column), writer.number(first, buffer.dtype))
        with writer.nest([x.dims[axis] for axis in axes]) as inner, writer.nest([width]) as (column,):
            offset = writer.add(begin, column)
            value = x.read(whole_index(kept, [*outer, column], axes, inner))
            writer.store(buffer, offset, combine(writer.load(buffer, offset), taken(value)))


def _reduction(name: str, first: Callable[[DType], complex], *, empty: bool = True) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        x = operand(block, operands[0])
        axes = normal_axes(equation.params["axis"], len(x.dims))
        if not empty:
            require_entries(block, equation, x, axes)
        dtype = equation.outputs[0].type.dtype
        if name == "add":
            combine: Combine = lambda a, b: block.writer.compute("sum", a, b)  # noqa: E731 - one of two
        else:
            combine = apply_of(block, name)
        return reduced(block, x, axes, dtype, first(dtype), combine, target_of(block, equation))

    return row


def mean(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The sum divided by how many there are."""
    writer, x = block.writer, operand(block, operands[0])
    axes = normal_axes(equation.params["axis"], len(x.dims))
    count = writer.convert(writer.value(writer.product([x.dims[axis] for axis in axes])), x.dtype)
    total = reduced(block, x, axes, x.dtype, 0, lambda a, b: writer.compute("sum", a, b), target_of(block, equation))
    if not isinstance(total, Array):
        return writer.apply("divide", [block.scalar(total), count], x.dtype, {})
    return _each(block, total, lambda value: writer.apply("divide", [value, count], x.dtype, {}))


def _each(block: Block, x: Array, function: Callable[[Scalar], Scalar]) -> Array:
    """Every entry of an array in memory is replaced."""
    writer, buffer = block.writer, x.buffer
    assert buffer is not None, "it lies in memory"
    with writer.loop(writer.product(x.dims)) as place:
        offset = writer.add(x.start, place)
        writer.store(buffer, offset, function(writer.load(buffer, offset)))
    return x


def logsumexp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(sum(exp(x - largest))) + largest."""
    x = operand(block, operands[0])
    x = x if x.is_cheap else block.in_memory(x)
    axes = normal_axes(equation.params["axis"], len(x.dims))
    kept = [axis for axis in range(len(x.dims)) if axis not in axes]
    target = target_of(block, equation)
    writer = block.writer

    def total(outer: Sequence[Index]) -> Scalar:
        shift = _shift(block, x, kept, outer, axes)
        cell = _zero(block, x.dtype)
        with writer.nest([x.dims[axis] for axis in axes]) as inner:
            _add_exp(block, cell, x.read(whole_index(kept, outer, axes, inner)), shift)
        logarithm = writer.apply("log", [writer.get(cell)], x.dtype, {})
        return writer.apply("add", [logarithm, shift], x.dtype, {})

    if target is None:
        return total(())
    assert target.buffer is not None, "it is new memory"
    dims = [x.dims[axis] for axis in kept]
    with writer.nest(dims) as outer:
        found = total(outer)
        writer.store(target.buffer, writer.add(target.start, writer.flat(outer, dims)), found)
    return target


def _zero(block: Block, dtype: DType) -> Cell:
    cell = block.writer.cell(dtype)
    block.writer.put(Put(cell, block.writer.number(0, dtype)))
    return cell


def largest(block: Block, x: Array, kept: Sequence[int], outer: Sequence[Index], axes: Sequence[int]) -> Scalar:
    """The largest entry along axes, at a place along the others."""
    writer = block.writer
    cell = writer.cell(x.dtype)
    writer.put(Put(cell, writer.number(-inf, x.dtype)))
    with writer.nest([x.dims[axis] for axis in axes]) as inner:
        value = x.read(whole_index(kept, outer, axes, inner))
        writer.put(Put(cell, writer.apply("maximum", [writer.get(cell), value], x.dtype, {})))
    return writer.get(cell)


def _shift(block: Block, x: Array, kept: Sequence[int], outer: Sequence[Index], axes: Sequence[int]) -> Scalar:
    """The largest entry, or 0 where it is not finite."""
    writer = block.writer
    most = largest(block, x, kept, outer, axes)
    finite = writer.apply("isfinite", [most], DType.BOOL, {})
    return writer.select(finite, most, writer.number(0, x.dtype))


def _add_exp(block: Block, cell: Cell, value: Scalar, shift: Scalar) -> Scalar:
    writer, dtype = block.writer, value.dtype
    power = writer.apply("exp", [writer.apply("subtract", [value, shift], dtype, {})], dtype, {})
    writer.put(Put(cell, writer.compute("sum", writer.get(cell), power)))
    return power


def normalized(block: Block, x: Array, axis: int, target: Array | None, *, logarithm: bool) -> Array:
    """The exponentials of entries, divided by their sum along an axis; or the logarithms of that."""
    writer = block.writer
    x = x if x.is_cheap else block.in_memory(x)
    kept = [one for one in range(len(x.dims)) if one != axis]
    target = block.temporary(x.dtype, x.dims) if target is None else target
    buffer, start = target.buffer, target.start
    assert buffer is not None, "it is new memory"

    def offset(outer: Sequence[Index], place: Index) -> Index:
        return writer.add(start, writer.flat(whole_index(kept, outer, [axis], [place]), x.dims))

    with writer.nest([x.dims[one] for one in kept]) as outer:
        most, cell = largest(block, x, kept, outer, [axis]), _zero(block, x.dtype)
        with writer.loop(x.dims[axis]) as place:
            value = x.read(whole_index(kept, outer, [axis], [place]))
            shifted = writer.apply("subtract", [value, most], x.dtype, {})
            power = writer.apply("exp", [shifted], x.dtype, {})
            writer.put(Put(cell, writer.compute("sum", writer.get(cell), power)))
            writer.store(buffer, offset(outer, place), shifted if logarithm else power)
        total = writer.get(cell)
        total = writer.apply("log", [total], x.dtype, {}) if logarithm else total
        with writer.loop(x.dims[axis]) as place:
            at = offset(outer, place)
            pair = [writer.load(buffer, at), total]
            writer.store(buffer, at, writer.apply("subtract" if logarithm else "divide", pair, x.dtype, {}))
    return target


def _normalized(*, logarithm: bool) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        (x,) = operands
        assert isinstance(x, Array), "it has an axis"
        axis = normal_axis(equation.params["axis"], len(x.dims))
        return normalized(block, x, axis, block.new(equation.outputs[0], x.dims), logarithm=logarithm)

    return row


def _cumulative(name: str, first: complex) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        writer, (x,), var = block.writer, operands, equation.outputs[0]
        assert isinstance(x, Array), "it has an axis"
        axis, dtype = normal_axis(equation.params["axis"], len(x.dims)), var.type.dtype
        kept = [one for one in range(len(x.dims)) if one != axis]
        target = block.new(var, x.dims)
        assert target.buffer is not None, "it is new memory"
        with writer.nest([x.dims[one] for one in kept]) as outer:
            cell = writer.cell(dtype)
            writer.put(Put(cell, writer.number(first, dtype)))
            with writer.loop(x.dims[axis]) as step:
                index = whole_index(kept, outer, [axis], [step])
                value = writer.convert(x.read(index), dtype)
                total = writer.apply(name, [writer.get(cell), value], dtype, {})
                writer.put(Put(cell, total))
                writer.store(target.buffer, writer.add(target.start, writer.flat(index, x.dims)), total)
        return target

    return row


SUMS: dict[str, Row] = {
    "sum": _reduction("add", lambda _: 0),
    "prod": _reduction("multiply", lambda _: 1),
    "mean": mean,
    "logsumexp": logsumexp,
    "softmax": _normalized(logarithm=False),
    "log_softmax": _normalized(logarithm=True),
    "cumulative_sum": _cumulative("add", 0),
    "cumulative_prod": _cumulative("multiply", 1),
}
"""What adds up, or multiplies, as many numbers as an axis has."""
REDUCE: dict[str, Row] = {
    "max": _reduction("maximum", least, empty=False),
    "min": _reduction("minimum", most, empty=False),
    "any": _reduction("logical_or", lambda _: False),
    "all": _reduction("logical_and", lambda _: True),
    **PLACES,
}
