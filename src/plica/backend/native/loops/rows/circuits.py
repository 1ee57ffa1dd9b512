"""The operations of circuits: sums in log space, rows divided by powers of two, searches in cumulative weights."""

from collections.abc import Callable, Sequence
from math import inf

import ml_dtypes

from plica.backend.native.loops.arrays import Array, Value, reshaped
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Index, Put
from plica.backend.native.loops.rows.indexing import within
from plica.backend.native.loops.rows.reduce import largest, normalized
from plica.backend.native.loops.rows.reductions import joined_index
from plica.backend.native.scalars.builder import Scalar
from plica.backend.native.scalars.values import words
from plica.ir.dtypes import DType
from plica.ir.program import Equation

Terms = tuple[Sequence[Index], Callable[[Sequence[Index]], Scalar]]
"""Sizes of summed axes, and the logarithm of the term at an index along them."""


def _log_of_sum(block: Block, dtype: DType, parts: Sequence[Terms]) -> Scalar:
    """log(sum(exp(terms - shift))) + shift; the shift is the largest term if that is finite, else 0."""
    writer = block.writer
    maximum, total = writer.cell(dtype), writer.cell(dtype)
    writer.put(Put(maximum, writer.number(-inf, dtype)))
    for dims, term in parts:
        with writer.nest(dims) as index:
            value = writer.compute("maximum", writer.get(maximum), term(index))
            writer.put(Put(maximum, value))
    top = writer.get(maximum)
    finite = writer.apply("isfinite", [top], DType.BOOL, {})
    shift = writer.select(finite, top, writer.number(0, dtype))
    writer.put(Put(total, writer.number(0, dtype)))
    for dims, term in parts:
        with writer.nest(dims) as index:
            power = writer.apply("exp", [writer.compute("subtract", term(index), shift)], dtype, {})
            writer.put(Put(total, writer.compute("sum", writer.get(total), power)))
    return writer.compute("add", writer.apply("log", [writer.get(total)], dtype, {}), shift)


def _logarithms(block: Block, equation: Equation, arrays: list[Array]) -> tuple[list[Array], Array]:
    """The values, and the logarithms of the weight: an operand, or computed."""
    writer, logs = block.writer, equation.params.get("logs")
    if logs is None:
        *values, weight = arrays
        weight = block.in_memory(weight)

        def read(index: Sequence[Index]) -> Scalar:
            return writer.apply("log", [weight.read(index)], weight.dtype, {})

        computed = Array(weight.dims, weight.dtype, read, weight.reads, 16)
        return values, block.in_memory(computed)
    *values, weight, logarithms = arrays
    logarithms = block.in_memory(logarithms)
    if logs == "log_softmax":
        logarithms = normalized(block, logarithms, len(logarithms.dims) - 1, None, logarithm=True)
    return values, reshaped(writer, logarithms, weight.dims)


def _arrays(block: Block, operands: list[Value]) -> list[Array]:
    arrays = []
    for operand in operands:
        assert isinstance(operand, Array), "it has axes"
        arrays.append(operand if operand.is_cheap else block.in_memory(operand))
    return arrays


def log_einsum_exp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(einsum(exp(values)..., weight))."""
    writer, var = block.writer, equation.outputs[0]
    left, _, result = equation.params["equation"].replace(" ", "").partition("->")
    terms = left.split(",")
    values, weight = _logarithms(block, equation, _arrays(block, operands))
    factors = list(zip([*values, weight], terms, strict=True))
    sizes = {letter: size for x, term in factors for letter, size in zip(term, x.dims, strict=True)}
    summed = [letter for letter in sizes if letter not in result]
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    with writer.nest(target.dims) as outer:
        position = dict(zip(result, outer, strict=True))

        def term(inner: Sequence[Index]) -> Scalar:
            index_of_letter = {**position, **dict(zip(summed, inner, strict=True))}
            first, *others = [x.read([index_of_letter[letter] for letter in letters]) for x, letters in factors]
            for operand in others:
                first = writer.compute("add", first, operand)
            return first

        logarithm = _log_of_sum(block, var.type.dtype, [([sizes[letter] for letter in summed], term)])
        writer.store(target.buffer, writer.add(target.start, writer.flat(outer, target.dims)), logarithm)
    return target


def log_matmul_exp(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """log(sum over h of exp(x_h) @ W_h.T)."""
    writer, var = block.writer, equation.outputs[0]
    values, weight = _logarithms(block, equation, _arrays(block, operands))
    target = block.new(var, block.dims(var.type))
    assert target.buffer is not None, "it is new memory"
    shapes = [equation.inputs[0].type.shape[:-2], equation.inputs[len(values)].type.shape[:-2]]

    def batch(number: int, outer: Sequence[Index]) -> list[Index]:
        shape = shapes[number]
        trailing = outer[len(outer) - len(shape) :]
        return [0 if dim == 1 else number for number, dim in zip(trailing, shape, strict=True)]

    units = values[0].dims[-1]
    with writer.nest(target.dims) as index:
        *outer, row, unit = index

        def terms(x: Array, begin: Index) -> Terms:
            def term(inner: Sequence[Index]) -> Scalar:
                value = x.read([*batch(0, outer), row, inner[0]])
                return writer.compute("add", value, weight.read([*batch(1, outer), unit, writer.add(begin, inner[0])]))

            return [units], term

        parts = [terms(x, writer.multiply(index, units)) for index, x in enumerate(values)]
        result = _log_of_sum(block, var.type.dtype, parts)
        writer.store(target.buffer, writer.add(target.start, writer.flat(index, target.dims)), result)
    return target


def rescale(block: Block, equation: Equation, operands: list[Value]) -> tuple[Value, Value]:
    """Rows divided by the power of two above their largest entry, and that power; 1 if no entry is normal.

    With E the bits of the exponent of the largest entry, 2^(E + 1 - bias) is the power of two above it. Entries are
    multiplied by four times its inverse and by a quarter: the inverse itself may be subnormal.
    """
    writer, (x,) = block.writer, _arrays(block, operands)
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
    writer, (table, rows, uniforms) = block.writer, _arrays(block, operands)
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


CIRCUITS: dict[str, Row] = {
    "log_einsum_exp": log_einsum_exp,
    "log_matmul_exp": log_matmul_exp,
    "rescale": rescale,
    "search_cumulative": search_cumulative,
}
