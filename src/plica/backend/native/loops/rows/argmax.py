"""`argmax` and `argmin`, which also compute `max` and `min` if a later equation needs them."""

from collections.abc import Mapping, Sequence
from typing import Any

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index
from plica.backend.native.loops.rows.lanes import Lanes
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
from plica.ops.rules import normal_axis


def _best(kind: str) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        writer, x = block.writer, operand(block, operands[0])
        axis = normal_axis(equation.params["axis"], len(x.dims))
        require_entries(block, equation, x, [axis])
        other_axes = [number for number in range(len(x.dims)) if number != axis]
        x = x if x.is_cheap else block.in_memory(x)
        target = target_of(block, equation)
        dims = [x.dims[axis] for axis in other_axes]
        values, extreme = _extremes(block, equation, operands[0], axis, dims, kind)
        worst = (least if kind == "greater" else most)(x.dtype)

        def better(value: Scalar, best: Scalar) -> Scalar:
            if x.dtype.kind != "float":
                return writer.compare(kind, value, best)
            is_number = writer.compare("equal", best, best)  # NaN is best
            is_not_better = writer.compare("less_equal" if kind == "greater" else "greater_equal", value, best)
            is_greater = writer.compute("xor", is_not_better, writer.number(True, DType.BOOL))
            return writer.compute("and", is_greater, is_number)

        if other_axes and other_axes[-1] == len(x.dims) - 1 and target is not None:
            _best_by_rows(block, x, axis, other_axes, worst, better, target, values, extreme)
            return target
        lanes = Lanes(block, x, [axis])
        combine = apply_of(block, "maximum" if kind == "greater" else "minimum")
        best, position = lanes.slot(x.dtype), lanes.slot(DType.INT64)
        with lanes.outside():
            lanes.fill(best, worst)
            with lanes.entries(is_interleaved=True) as (value, _):
                lanes.put(best, combine(lanes.get(best), value))
            lanes.put(position, writer.value(x.dims[axis]))
            extreme_entry = lanes.get(best)
            with lanes.entries(is_interleaved=True) as (value, index):
                is_best = writer.compare("equal", value, extreme_entry)
                if x.dtype.kind == "float":  # NaN is best
                    is_best = writer.compute("or", is_best, writer.compare("not_equal", value, value))
                candidate = writer.select(is_best, index[axis], x.dims[axis])
                lanes.put(position, writer.value(writer.minimum(lanes.get(position), candidate)))
            if target is None:
                return lanes.get(position)
            lanes.store(target, lanes.get(position))
            if values is not None:
                lanes.store(values, lanes.get(best))
        return target

    return row


def _extremes(
    block: Block, equation: Equation, x: Value, axis: int, dims: Sequence[Index], kind: str
) -> tuple[Array | None, Combine | None]:
    """Memory for the extreme entries, and the operation that combines two; None if no later equation computes them.

    The best entry so far and the extreme one differ at most in the sign of a zero.
    """
    name, function = ("max", "maximum") if kind == "greater" else ("min", "minimum")
    params = {"axis": (axis,), "keepdims": equation.params["keepdims"]}
    for later in block.program.equations[block.position + 1 :]:
        is_same = later.op.name == name and later.inputs == equation.inputs
        if dims and is_same and not params["keepdims"] and dict(later.params) == params and isinstance(x, Array):
            values = block.temporary(x.dtype, dims)
            block.env[later.outputs[0]] = values
            return values, apply_of(block, function)
    return None, None


def _best_by_rows(
    block: Block,
    x: Array,
    axis: int,
    other_axes: Sequence[int],
    worst: complex,
    better: Any,
    target: Array,
    values: Array | None,
    extreme: Combine | None,
) -> None:
    """Write the positions, a row of the result at a time: one row has the best entries so far, one their positions."""
    writer, buffer = block.writer, target.buffer
    assert buffer is not None, "it is new memory"
    *outside, last = other_axes
    width = x.dims[last]
    best = block.temporary(x.dtype, [width]) if values is None else values
    assert best.buffer is not None, "it is new memory"
    with writer.nest([x.dims[axis] for axis in outside]) as outer:
        row = writer.multiply(writer.flat(outer, [x.dims[axis] for axis in outside]), width)
        begin, first = writer.add(target.start, row), 0 if values is None else row
        with writer.nest([width]) as (column,):
            writer.store(best.buffer, writer.add(first, column), writer.number(worst, x.dtype))
            writer.store(buffer, writer.add(begin, column), writer.value(0))
        with writer.loop(x.dims[axis]) as step, writer.nest([width]) as (column,):
            value = x.read(joined_index(other_axes, [*outer, column], [axis], [step]))
            best_offset, position_offset = writer.add(first, column), writer.add(begin, column)
            best_value = writer.load(best.buffer, best_offset)
            is_better = better(value, best_value)
            new_best = extreme(best_value, value) if extreme else writer.select(is_better, value, best_value)
            writer.store(best.buffer, best_offset, new_best)
            writer.store(buffer, position_offset, writer.select(is_better, step, writer.load(buffer, position_offset)))


ARGMAX: Mapping[str, Row] = {"argmax": _best("greater"), "argmin": _best("less")}
