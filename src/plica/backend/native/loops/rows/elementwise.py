"""Elementwise operations: each entry by its row of scalar code."""

from collections.abc import Sequence
from dataclasses import replace

from plica.backend.native.loops.arrays import CHEAP, Array, Value, moved
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import FAILS, LIGHT, Buffer, Index, Site
from plica.backend.native.scalars import SCALARS
from plica.backend.native.scalars.builder import Scalar
from plica.errors import ZeroDivisorError
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, OpRef
from plica.ir.sizes import Dim

_ARITHMETIC = {"add": "add", "subtract": "subtract", "multiply": "multiply"}
_HEAVY = 16


def elementwise(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An array whose entries are computed where they are read; written to memory at once if it may raise an error."""
    type_ = equation.outputs[0].type
    if not type_.shape:
        return _scalar(block, equation, operands)
    operands = [block.scalar(operand) if isinstance(operand, int) else operand for operand in operands]
    result = _array(block, equation, operands)
    if not _may_fail(equation):
        return result
    target = block.new(equation.outputs[0], result.dims)
    with block.writer.nest(result.dims) as index:
        _check(block, equation, _entries(equation, operands, index))
        assert target.buffer is not None, "it is new memory"
        offset = block.writer.add(target.start, block.writer.flat(index, target.dims))
        block.writer.store(target.buffer, offset, result.read(index))
    return target


def _scalar(block: Block, equation: Equation, operands: list[Value]) -> Value:
    dtype = equation.outputs[0].type.dtype
    name = equation.op.name
    if dtype == DType.INT64 and name in _ARITHMETIC and all(isinstance(operand, int) for operand in operands):
        exact = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}[name](*operands)  # type: ignore[arg-type]
        if abs(exact) < 2**62:
            return exact
    entries = [block.scalar(operand) for operand in operands]
    if _may_fail(equation):
        _check(block, equation, entries)
    return block.writer.apply(name, entries, dtype, _settings(equation))


def _settings(equation: Equation) -> dict[str, object]:
    return {name: value for name, value in equation.params.items() if name != "dtype"}


def _array(block: Block, equation: Equation, operands: list[Value]) -> Array:
    writer, type_, name = block.writer, equation.outputs[0].type, equation.op.name
    params = _settings(equation)
    broadcast_operands: list[tuple[Value, tuple[Dim, ...]]] = []
    for value, operand in zip(operands, equation.inputs, strict=True):
        is_broadcast = isinstance(value, Array) and operand.type.shape != type_.shape
        if isinstance(value, Array) and is_broadcast and value.work > CHEAP:
            value = block.in_memory(value)
        broadcast_operands.append((value, operand.type.shape))
    dims = block.dims(type_)
    reads: dict[Buffer, bool] = {}
    work = 1 if name in LIGHT else _HEAVY
    for value, shape in broadcast_operands:
        if isinstance(value, Array):
            work += value.work
            for buffer, at_same in value.reads.items():
                reads[buffer] = reads.get(buffer, True) and at_same and shape == type_.shape

    def read(index: Sequence[Index]) -> Scalar:
        entries = [_entry(value, shape, type_.shape, index) for value, shape in broadcast_operands]
        return writer.apply(name, entries, type_.dtype, params)

    def flat(offset: Index) -> Scalar:
        entries = [value.flat(offset) if isinstance(value, Array) else value for value, _ in broadcast_operands]  # type: ignore[misc]
        return writer.apply(name, entries, type_.dtype, params)  # type: ignore[arg-type]

    is_flat = all(
        value.flat and shape == type_.shape for value, shape in broadcast_operands if isinstance(value, Array)
    )
    return Array(dims, type_.dtype, read, reads, work, flat if is_flat else None)


def _entries(equation: Equation, operands: list[Value], index: Sequence[Index]) -> list[Scalar]:
    shape = equation.outputs[0].type.shape
    return [
        _entry(value, operand.type.shape, shape, index)
        for value, operand in zip(operands, equation.inputs, strict=True)
    ]


def _entry(value: Value, shape: tuple[Dim, ...], target: tuple[Dim, ...], index: Sequence[Index]) -> Scalar:
    """The entry of an operand that is broadcast to `target`."""
    if not isinstance(value, Array):
        assert isinstance(value, Scalar), "numbers were made values"
        return value
    return value.read(broadcast_index(shape, target, index))


def broadcast_index(shape: tuple[Dim, ...], target: tuple[Dim, ...], index: Sequence[Index]) -> list[Index]:
    """The index in an array of `shape` for an index in the array that it is broadcast to."""
    missing = len(target) - len(shape)
    return [
        0 if dim == 1 and wanted != 1 else number
        for number, dim, wanted in zip(index[missing:], shape, target[missing:], strict=True)
    ]


# Errors


def _may_fail(equation: Equation) -> bool:
    """Whether an operation may raise an error: a division of integers, unless by a known number other than 0."""
    row = SCALARS.get(equation.op.name)
    if row is None or row.failure is None or equation.inputs[-1].type.dtype.kind == "float":
        return False
    last = equation.inputs[-1]
    return not (isinstance(last, Literal) and last.value != 0)


def _check(block: Block, equation: Equation, entries: Sequence[Scalar]) -> None:
    row = SCALARS[equation.op.name]
    assert row.failure is not None, "only operations that may fail are checked"
    message = row.failure.message
    fails = block.writer.apply(FAILS + equation.op.name, entries, DType.BOOL, _settings(equation))
    is_valid = block.writer.apply("logical_not", [fails], DType.BOOL, {})
    block.writer.check(is_valid, Site(equation.source, lambda _: ZeroDivisorError(message)))


def astype(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The same entries in another dtype."""
    if equation.inputs[0].type.dtype == equation.params["dtype"]:
        return operands[0]
    return elementwise(block, equation, operands)


def same(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The operand itself."""
    del block, equation
    return operands[0]


def full(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """One number everywhere."""
    fill = block.scalar(operands[0])
    dims = block.dims(equation.outputs[0].type)
    if not dims:
        return operands[0]
    return Array(dims, fill.dtype, lambda _: fill, {}, flat=lambda _: fill)


def broadcast_to(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An array repeated along axes."""
    (x,), type_ = operands, equation.outputs[0].type
    if not isinstance(x, Array):
        return full(block, equation, operands)
    if equation.inputs[0].type.shape == type_.shape:
        return x
    shape = equation.inputs[0].type.shape
    x = x if x.is_cheap else block.in_memory(x)
    return moved(x, block.dims(type_), lambda index: broadcast_index(shape, type_.shape, index))


def power(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A power; a square is a product, which is rounded once."""
    exponent = equation.inputs[1]
    is_second = isinstance(exponent, Literal) and exponent.value == 2
    if is_second and equation.inputs[0].type.dtype == equation.outputs[0].type.dtype:
        square = replace(equation, op=OpRef("square"), inputs=equation.inputs[:1])
        return elementwise(block, square, operands[:1])
    return elementwise(block, equation, operands)


ELEMENTWISE: dict[str, Row] = {
    **dict.fromkeys(SCALARS, elementwise),
    "pow": power,
    "astype": astype,
    "copy": same,
    "stop_gradient": same,
    "full": full,
    "broadcast_to": broadcast_to,
}
