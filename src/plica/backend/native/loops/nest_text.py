r"""The text of loop nests, for readers.

>>> from plica.backend.native.loops.nest import Buffer
>>> from plica.backend.native.scalars.builder import Scalar
>>> from plica.ir.dtypes import DType
>>> body = [Load(Scalar("x", DType.FLOAT64), Buffer("a", DType.FLOAT64), Scalar("i", DType.INT64))]
>>> print("\n".join(text(For(Scalar("i", DType.INT64), 0, Scalar("n", DType.INT64), body))))
for i from 0 to n:
  x = a[i]
"""

from collections.abc import Iterator, Sequence

from plica.backend.native.loops.nest import (
    Allocate,
    Apply,
    Check,
    Compute,
    Constant,
    Copy,
    For,
    Free,
    Get,
    GetPointer,
    If,
    Index,
    Kernel,
    Load,
    Nest,
    Product,
    Put,
    PutPointer,
    Require,
    Reserve,
    Statement,
    Store,
    While,
)


def nest_text(nest: Nest) -> str:
    """All lines of a nest."""
    return "\n".join(line for statement in nest.body for line in text(statement)) + "\n"


def _index(value: Index) -> str:
    return str(value) if isinstance(value, int) else value.text


def _list(values: Sequence[Index]) -> str:
    return ", ".join(map(_index, values))


def text(statement: Statement) -> Iterator[str]:
    """The lines of a statement, for readers."""
    match statement:
        case Constant(result, value):
            yield f"{result.text} = {value!r}:{result.dtype.short}"
        case Compute(result, name, operands):
            yield f"{result.text} = {name} {_list(operands)}"
        case Apply(result, op, operands, params):
            yield f"{result.text} = {op}{dict(params) or ''} {_list(operands)}"
        case Load(result, buffer, offset):
            yield f"{result.text} = {buffer.name}[{_index(offset)}]"
        case Store(buffer, offset, value):
            yield f"{buffer.name}[{_index(offset)}] = {value.text}"
        case Get(result, cell):
            yield f"{result.text} = {cell.name}"
        case Put(cell, value):
            yield f"{cell.name} = {_index(value)}"
        case GetPointer(buffer, cell):
            yield f"{buffer.name} = {cell.name}"
        case PutPointer(cell, buffer, start):
            yield f"{cell.name} = {buffer.name}[{_index(start)}...]"
        case Allocate(buffer, count):
            yield f"{buffer.name} = allocate {buffer.dtype.short}[{_index(count)}]"
        case Require(buffer):
            yield f"check that {buffer.name} has memory"
        case Free(buffer):
            yield f"free {buffer.name}"
        case Reserve(result, buffer, capacity, used, wanted):
            yield f"{result.name} = {buffer.name} with room for {_index(wanted)} ({_index(used)} of {capacity.name})"
        case Copy(target, to, source, start, count):
            yield f"{target.name}[{_index(to)}...] = {source.name}[{_index(start)}...] of {_index(count)}"
        case Check(condition, site, numbers):
            yield f"check {condition.text} or fail at {site} with ({_list(numbers)})"
        case Product(target, left, right, sizes, widths, turned):
            names = [f"{buffer.name}[{_index(start)}...]" for buffer, start in (target, left, right)]
            yield (
                f"{names[0]} = product of {names[1]} and {names[2]} ({_list(sizes)}), rows {_list(widths)} apart, "
                f"transposed: {turned}"
            )
        case Kernel(write, buffers, starts, sizes):
            names = [f"{buffer.name}[{_index(start)}...]" for buffer, start in zip(buffers, starts, strict=True)]
            yield f"{type(write).__name__} of {', '.join(names)} ({_list(sizes)})"
        case For(index, lower, upper, body):
            yield f"for {index.text} from {_index(lower)} to {_index(upper)}:"
            yield from _indented(body)
        case While(before, condition, body):
            yield "while:"
            yield from _indented(before)
            yield f"{condition.text} do:"
            yield from _indented(body)
        case If(condition, then, otherwise):
            yield f"if {condition.text}:"
            yield from _indented(then)
            yield "else:"
            yield from _indented(otherwise)


def _indented(block: Sequence[Statement]) -> Iterator[str]:
    return (f"  {line}" for statement in block for line in text(statement))
