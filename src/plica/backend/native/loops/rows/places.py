"""The places of the largest and the smallest entry, with the entry where that is asked for too."""

from collections.abc import Mapping, Sequence
from typing import Any

from plica.backend.native.loops.arrays import Array, Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index
from plica.backend.native.loops.rows.lanes import Lanes
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
from plica.ops.rules import normal_axis


def _best(kind: str) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value:
        writer, x = block.writer, operand(block, operands[0])
        axis = normal_axis(equation.params["axis"], len(x.dims))
        require_entries(block, equation, x, [axis])
        kept = [other for other in range(len(x.dims)) if other != axis]
        x = x if x.is_cheap else block.in_memory(x)
        target = target_of(block, equation)
        dims = [x.dims[axis] for axis in kept]
        values, extreme = _extremes(block, equation, operands[0], axis, dims, kind)
        worst = (least if kind == "greater" else most)(x.dtype)

        def better(value: Scalar, best: Scalar) -> Scalar:
            if x.dtype.kind != "float":
                return writer.compare(kind, value, best)
            is_known = writer.compare("equal", best, best)  # what is no number is best
            not_more = writer.compare("less_equal" if kind == "greater" else "greater_equal", value, best)
            is_more = writer.compute("xor", not_more, writer.number(True, DType.BOOL))
            return writer.compute("and", is_more, is_known)

        if kept and kept[-1] == len(x.dims) - 1 and target is not None:
            _best_by_rows(block, x, axis, kept, worst, better, target, values, extreme)
            return target
        lanes = Lanes(block, x, [axis])
        combine = apply_of(block, "maximum" if kind == "greater" else "minimum")
        best, place = lanes.slot(x.dtype), lanes.slot(DType.INT64)
        with lanes.outside():
            lanes.fill(best, worst)
            with lanes.entries(in_strands=True) as (value, _):
                lanes.put(best, combine(lanes.get(best), value))
            lanes.put(place, writer.value(x.dims[axis]))
            extreme_entry = lanes.get(best)
            with lanes.entries(in_strands=True) as (value, index):
                is_best = writer.compare("equal", value, extreme_entry)
                if x.dtype.kind == "float":  # NaN is best
                    is_best = writer.compute("or", is_best, writer.compare("not_equal", value, value))
                here = writer.select(is_best, index[axis], x.dims[axis])
                lanes.put(place, writer.value(writer.minimum(lanes.get(place), here)))
            if target is None:
                return lanes.get(place)
            lanes.store(target, lanes.get(place))
            if values is not None:
                lanes.store(values, lanes.get(best))
        return target

    return row


def _extremes(
    block: Block, equation: Equation, x: Value, axis: int, dims: Sequence[Index], kind: str
) -> tuple[Array | None, Combine | None]:
    """Where the entries go whose places are looked for, if an equation behind this one asks for them.

    The best so far is one entry or another; the extreme one is the same but for the signs of zeros.
    """
    name, function = ("max", "maximum") if kind == "greater" else ("min", "minimum")
    params = {"axis": (axis,), "keepdims": equation.params["keepdims"]}
    for other in block.program.equations[block.place + 1 :]:
        is_same = other.op.name == name and other.inputs == equation.inputs
        if dims and is_same and not params["keepdims"] and dict(other.params) == params and isinstance(x, Array):
            values = block.temporary(x.dtype, dims)
            block.env[other.outputs[0]] = values
            return values, apply_of(block, function)
    return None, None


def _best_by_rows(
    block: Block,
    x: Array,
    axis: int,
    kept: Sequence[int],
    worst: complex,
    better: Any,
    target: Array,
    values: Array | None,
    extreme: Combine | None,
) -> None:
    """Along rows: the best so far and its place have a row each."""
    writer, buffer = block.writer, target.buffer
    assert buffer is not None, "it is new memory"
    *outside, last = kept
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
            value = x.read(whole_index(kept, [*outer, column], [axis], [step]))
            so_far, at = writer.add(first, column), writer.add(begin, column)
            known = writer.load(best.buffer, so_far)
            is_better = better(value, known)
            more = extreme(known, value) if extreme else writer.select(is_better, value, known)
            writer.store(best.buffer, so_far, more)
            writer.store(buffer, at, writer.select(is_better, step, writer.load(buffer, at)))


PLACES: Mapping[str, Row] = {"argmax": _best("greater"), "argmin": _best("less")}
