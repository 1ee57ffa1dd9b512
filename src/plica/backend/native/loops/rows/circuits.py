"""The operations of circuits: rows divided by powers of two, searches in cumulative weights."""

import ml_dtypes

from plica.backend.native.loops.arrays import Value
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Put
from plica.backend.native.loops.rows.indexing import within
from plica.backend.native.loops.rows.linalg import as_array
from plica.backend.native.loops.rows.reduce import largest
from plica.backend.native.loops.rows.reductions import joined_index
from plica.backend.native.scalars.builder import Scalar
from plica.backend.native.scalars.values import words
from plica.ir.dtypes import DType
from plica.ir.program import Equation


def rescale(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, Value]:
    """Rows divided by the power of two above their largest entry, and that power; 1 if no entry is normal.

    With E the bits of the exponent of the largest entry, 2^(E + 1 - bias) is the power of two above it. Entries are
    multiplied by four times its inverse and by a quarter: the inverse itself may be subnormal.
    """
    writer, x = block.writer, as_array(block, operands[0])
    dtype, last = x.dtype, len(x.dims) - 1
    limits, integers = ml_dtypes.finfo(dtype.numpy), words(dtype)  # type: ignore[no-untyped-call]
    mantissa, bias = limits.nmant, 1 - limits.minexp
    scaled, powers = (block.new(var, block.dims(var.type)) for var in equation.outputs)
    assert scaled.buffer is not None and powers.buffer is not None, "it is new memory"  # noqa: PT018

    def number(value: int) -> Scalar:
        return writer.number(value, integers)

    def power(exponent: Scalar) -> Scalar:
        return writer.compute("bitcast", writer.compute("shift_left", exponent, number(mantissa)), dtype=dtype)

    with writer.nest(x.dims[:-1]) as outer:
        outer_axes = list(range(last))
        top = largest(block, x, outer_axes, outer, [last])
        low = writer.compare("greater_equal", top, writer.number(float(limits.tiny), dtype))
        high = writer.compare("less_equal", top, writer.number(float(limits.max), dtype))
        bits = writer.compute("shift_right", writer.compute("bitcast", top, dtype=integers), number(mantissa))
        exponent = writer.select(writer.compute("and", low, high), bits, number(bias - 1))
        factor = power(writer.compute("subtract", number(2 * bias + 1), exponent))
        offset_of_row = writer.flat(outer, x.dims[:-1])
        divisor = power(writer.compute("add", exponent, number(1)))
        writer.store(powers.buffer, writer.add(powers.start, offset_of_row), divisor)
        with writer.loop(x.dims[-1]) as step:
            value = writer.compute("multiply", x.read(joined_index(outer_axes, outer, [last], [step])), factor)
            value = writer.compute("multiply", value, writer.number(0.25, dtype))
            offset = writer.add(scaled.start, writer.flat([*outer, step], x.dims))
            writer.store(scaled.buffer, offset, value)
    return scaled, powers


def search_cumulative(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The first index whose cumulative weight exceeds a fraction of the total, by binary search."""
    writer, (table, rows, uniforms) = block.writer, (as_array(block, operand) for operand in operands)
    target = block.new(equation.outputs[0], rows.dims)
    assert target.buffer is not None, "it is new memory"
    last = writer.subtract(table.dims[2], 1)
    low, high = writer.cell(DType.INT64), writer.cell(DType.INT64)
    with writer.nest(rows.dims) as (fold, column):
        row = within(block, equation, rows.read([fold, column]), table.dims[1])
        total = table.read([fold, row, last])
        target_weight = writer.compute("multiply", uniforms.read([fold, column]), total)
        writer.put(Put(low, 0))
        writer.put(Put(high, last))
        with writer.repeat(lambda: writer.compare("less", writer.get(low), writer.get(high))):
            both = writer.compute("add", writer.get(low), writer.get(high))
            middle = writer.compute("shift_right", both, 1)
            entry = table.read([fold, row, middle])
            is_passed = writer.compare("less_equal", entry, target_weight)
            beyond = writer.compute("and", is_passed, writer.compare("less", entry, total))
            writer.put(Put(low, writer.select(beyond, writer.add(middle, 1), writer.get(low))))
            writer.put(Put(high, writer.select(beyond, writer.get(high), middle)))
        offset = writer.add(target.start, writer.flat([fold, column], target.dims))
        writer.store(target.buffer, offset, writer.get(low))
    return target


CIRCUITS: dict[str, Row] = {"rescale": rescale, "search_cumulative": search_cumulative}
