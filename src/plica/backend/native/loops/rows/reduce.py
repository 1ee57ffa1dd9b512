"""Rows of reductions along axes: sums, means, log-sum-exp, softmax, cumulative sums. `Lanes` writes their loops."""

from collections.abc import Callable, Sequence
from math import inf

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index
from plica.backend.native.loops.rows.argmax import ARGMAX
from plica.backend.native.loops.rows.lanes import Lanes, Slot
from plica.backend.native.loops.rows.reductions import (
    Combine,
    apply_of,
    joined_index,
    least,
    most,
    operand,
    require_entries,
    target_of,
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
    """`x` combined along axes: an array in `target` or in new memory, or a scalar.

    Args:
        block: The block of the equation.
        x: The array that is reduced.
        axes: The axes that are reduced.
        dtype: The dtype of the result.
        first: The initial value.
        combine: The function of the result so far and the next number that gives the new result.
        target: The memory of the result: axes that are reduced are missing, or of size 1.
        entry: The function from an entry to the number that is combined; by default the entry in the result's dtype.
    """
    writer = block.writer
    number_of = entry or (lambda value: writer.convert(value, dtype))
    lanes = Lanes(block, x, axes)
    if target is None and lanes.dims:
        target = block.temporary(dtype, lanes.dims)
    slot = lanes.slot(dtype, target)
    with lanes.outside():
        lanes.fill(slot, first)
        with lanes.entries(is_interleaved=entry is None and x.is_cheap) as (value, _):
            lanes.put(slot, combine(lanes.get(slot), number_of(value)))
        if target is not None and not lanes.has_rows:
            with lanes.columns():
                lanes.store(target, lanes.get(slot))
    return lanes.get(slot) if target is None else target


def _reduction(name: str, first: Callable[[DType], complex], *, empty: bool = True) -> Row:
    """The row of a reduction.

    Args:
        name: The operation that combines two numbers.
        first: The initial value for a dtype.
        empty: Whether a reduction of no entries has a result.
    """

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
    """The sum divided by the number of entries."""
    writer, x = block.writer, operand(block, operands[0])
    axes = normal_axes(equation.params["axis"], len(x.dims))
    count = writer.convert(writer.value(writer.product([x.dims[axis] for axis in axes])), x.dtype)
    total = reduced(block, x, axes, x.dtype, 0, lambda a, b: writer.compute("sum", a, b), target_of(block, equation))
    if not isinstance(total, Array):
        return writer.apply("divide", [block.scalar(total), count], x.dtype, {})
    return _apply_in_place(block, total, lambda value: writer.apply("divide", [value, count], x.dtype, {}))


def _apply_in_place(block: Block, x: Array, function: Callable[[Scalar], Scalar]) -> Array:
    """Replace every entry of an array in memory by a function of it."""
    writer, buffer = block.writer, x.buffer
    assert buffer is not None, "it lies in memory"
    with writer.loop(writer.product(x.dims)) as index:
        offset = writer.add(x.start, index)
        writer.store(buffer, offset, function(writer.load(buffer, offset)))
    return x


def logsumexp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(sum(exp(x - largest))) + largest."""
    writer, x = block.writer, operand(block, operands[0])
    x = x if x.is_cheap else block.in_memory(x)
    lanes = Lanes(block, x, normal_axes(equation.params["axis"], len(x.dims)))
    target = target_of(block, equation)
    shift, total = lanes.slot(x.dtype), lanes.slot(x.dtype, target)
    shifts = block.temporary(x.dtype, lanes.dims) if target is not None and not lanes.has_rows else None
    with lanes.outside():
        _largest(lanes, shift)
        lanes.fill(total, 0)
        with lanes.columns():
            maximum = lanes.get(shift)
            finite = writer.apply("isfinite", [maximum], DType.BOOL, {})
            lanes.put(shift, writer.select(finite, maximum, writer.number(0, x.dtype)))
        with lanes.entries() as (value, _):
            shifted = writer.apply("subtract", [value, lanes.get(shift)], x.dtype, {})
            exponential = writer.apply("exp", [shifted], x.dtype, {})
            lanes.put(total, writer.compute("sum", lanes.get(total), exponential))
        if target is None:
            return _logarithm(block, lanes.get(total), lanes.get(shift))
        if shifts is None:
            with lanes.columns():
                lanes.put(total, _logarithm(block, lanes.get(total), lanes.get(shift)))
        else:
            lanes.store(target, lanes.get(total))
            lanes.store(shifts, lanes.get(shift))
    if shifts is not None:  # one loop for all logarithms, which is vectorized
        with writer.loop(writer.product(lanes.dims)) as index:
            assert target.buffer is not None and shifts.buffer is not None, "it is new memory"  # noqa: PT018
            offset = writer.add(target.start, index)
            sums = writer.load(target.buffer, offset)
            writer.store(target.buffer, offset, _logarithm(block, sums, writer.load(shifts.buffer, index)))
    return target


def _logarithm(block: Block, total: Scalar, shift: Scalar) -> Scalar:
    # log(total) + shift
    writer = block.writer
    return writer.apply("add", [writer.apply("log", [total], total.dtype, {}), shift], total.dtype, {})


def _largest(lanes: Lanes, slot: Slot) -> None:
    """Write the largest entries to a slot.

    If a row of them is accumulated, NaN is passed over, which is faster. Callers read all entries again, so that their
    results are NaN all the same.
    """
    writer, dtype = lanes.block.writer, lanes.x.dtype
    lanes.fill(slot, -inf)
    with lanes.entries(is_interleaved=True) as (value, _):
        previous = lanes.get(slot)
        if lanes.has_rows:
            lanes.put(slot, writer.select(writer.compare("greater", value, previous), value, previous))
        else:  # LLVM recognizes this as a reduction
            lanes.put(slot, writer.apply("maximum", [previous, value], dtype, {}))


def largest(block: Block, x: Array, other_axes: Sequence[int], outer: Sequence[Index], axes: Sequence[int]) -> Scalar:
    """The largest entry along axes, at an index along the other axes."""
    row = Array(
        tuple(x.dims[axis] for axis in axes),
        x.dtype,
        lambda inner: x.read(joined_index(other_axes, outer, axes, inner)),
        x.reads,
    )
    lanes = Lanes(block, row, range(len(axes)))
    slot = lanes.slot(x.dtype)
    _largest(lanes, slot)
    return lanes.get(slot)


def normalized(block: Block, x: Array, axis: int, target: Array | None, *, logarithm: bool) -> Array:
    """The softmax along an axis, or its logarithm."""
    writer = block.writer
    x = x if x.is_cheap else block.in_memory(x)
    target = block.temporary(x.dtype, x.dims) if target is None else target
    buffer, start, dims = target.buffer, target.start, x.dims
    assert buffer is not None, "it is new memory"
    lanes = Lanes(block, x, [axis])
    maximum, total = lanes.slot(x.dtype), lanes.slot(x.dtype)
    with lanes.outside():
        _largest(lanes, maximum)
        lanes.fill(total, 0)
        with lanes.entries() as (value, index):
            shifted = writer.apply("subtract", [value, lanes.get(maximum)], x.dtype, {})
            power = writer.apply("exp", [shifted], x.dtype, {})
            lanes.put(total, writer.compute("sum", lanes.get(total), power))
            writer.store(buffer, writer.add(start, writer.flat(index, dims)), shifted if logarithm else power)
        if logarithm:
            with lanes.columns():
                lanes.put(total, writer.apply("log", [lanes.get(total)], x.dtype, {}))
        with lanes.indices() as index:
            at = writer.add(start, writer.flat(index, dims))
            pair = [writer.load(buffer, at), lanes.get(total)]
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
    """The row of a cumulative reduction, by the operation that combines two numbers and the initial value."""

    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        writer, (x,), var = block.writer, operands, equation.outputs[0]
        assert isinstance(x, Array), "it has an axis"
        axis, dtype = normal_axis(equation.params["axis"], len(x.dims)), var.type.dtype
        target = block.new(var, x.dims)
        assert target.buffer is not None, "it is new memory"
        lanes = Lanes(block, x, [axis])
        so_far = lanes.slot(dtype)
        with lanes.outside():
            lanes.fill(so_far, first)
            with lanes.entries() as (value, index):
                total = writer.apply(name, [lanes.get(so_far), writer.convert(value, dtype)], dtype, {})
                lanes.put(so_far, total)
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
"""Sums and products along an axis."""
REDUCE: dict[str, Row] = {
    "max": _reduction("maximum", least, empty=False),
    "min": _reduction("minimum", most, empty=False),
    "any": _reduction("logical_or", lambda _: False),
    "all": _reduction("logical_and", lambda _: True),
    **ARGMAX,
}
