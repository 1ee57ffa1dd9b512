r"""The loop-nest IR: statements on scalars, buffers and mutable cells, in order, with structured control flow.

    nest       ::= parameters, results, statements
    statement  ::= value = instruction | cell = value | buffer[offset] = value | for | while | if | allocate | ...

Values are computed once and never change. A value that changes from one iteration of a loop to the next lies in a
`Cell`; a buffer that changes, in a `PointerCell`. Offsets into buffers count entries. Sizes and bounds of loops are
values, so that one nest serves all sizes. `llvm.py` and `mlir.py` print it.

>>> body = [Load(Scalar("x", DType.FLOAT64), Buffer("a", DType.FLOAT64), Scalar("i", DType.INT64))]
>>> print("\n".join(text(For(Scalar("i", DType.INT64), 0, Scalar("n", DType.INT64), body))))
for i from 0 to n:
  x = a[i]
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType

FAILS = "fails:"
"""The prefix of an elementwise operation's name for the test whether it raises an error for an entry."""

LIGHT = frozenset(
    [
        *("add", "subtract", "multiply", "negative", "abs", "square", "maximum", "minimum", "where", "astype"),
        *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "signbit", "copysign"),
        *("logical_and", "logical_or", "logical_not", "logical_xor", "stop_gradient"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"),
    ]
)
"""Elementwise operations that take one or two instructions."""

Index = int | Scalar
"""An integer of 64 bits: known, or a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory for entries of one dtype, row-major without gaps."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A scalar that changes."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class PointerCell:
    """A pointer that changes: the current buffer of an array."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """`result = value`."""

    result: Scalar
    value: complex


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """An instruction of `ScalarCode` on scalars.

    Args:
        result: The value that it defines.
        name: `add`, ..., `less`, ..., `select`, `convert`, `bitcast`. `index_add`, `index_subtract` and
            `index_multiply` never overflow. `room` is a product that is huge if it overflows. `sum` may be reordered
            with other sums. `sum_product` is a sum with a product, rounded once or twice.
        operands: Values; indices may be integers.
    """

    result: Scalar
    name: str
    operands: tuple[Index, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """One entry of an elementwise operation, by its row in the table of scalar code."""

    result: Scalar
    op: str
    operands: tuple[Scalar, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """`result = buffer[offset]`."""

    result: Scalar
    buffer: Buffer
    offset: Index


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """`buffer[offset] = value`."""

    buffer: Buffer
    offset: Index
    value: Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Get:
    """`result = cell`."""

    result: Scalar
    cell: Cell


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """`cell = value`."""

    cell: Cell
    value: Index


@dataclass(frozen=True, slots=True, eq=False)
class GetPointer:
    """`buffer` is the memory that `cell` points to."""

    buffer: Buffer
    cell: PointerCell


@dataclass(frozen=True, slots=True, eq=False)
class PutPointer:
    """`cell` points to `buffer`, from entry `start` on."""

    cell: PointerCell
    buffer: Buffer
    start: Index = 0


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """Memory for `count` entries: from the heap if it `leaves` the block. If it `may_fail`, a `Require` checks it."""

    buffer: Buffer
    count: Index
    leaves: bool = False
    may_fail: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Require:
    """Ends the run if the allocation of `buffer` failed."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """Frees the memory of `buffer`."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Reserve:
    """`result` is `buffer` with room for `wanted` entries: moved to memory with spare capacity if it lacks the room.

    Args:
        result: The buffer afterwards, with the first `used` entries.
        buffer: The buffer before, which is not used any more.
        capacity: The number of entries that there is room for.
        used: How many entries there are.
        wanted: How many entries there will be.
    """

    result: Buffer
    buffer: Buffer
    capacity: Cell
    used: Index
    wanted: Index


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Copies `count` entries from entry `start` of `source` to entry `to` of `target`; the two do not overlap."""

    target: Buffer
    to: Index
    source: Buffer
    start: Index
    count: Index


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Ends the run with an error of `site`, and these numbers, unless `condition` holds."""

    condition: Scalar
    site: int
    numbers: tuple[Index, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A product of matrices by a kernel of its own: `target (m, n) = left (m, k) @ right (k, n)`.

    Args:
        target: The buffer of the result, and its first entry there.
        left: The buffer of a matrix, and its first entry there.
        right: The same for the other matrix.
        sizes: m, n and k.
        turned: Whether left and right are stored transposed.
    """

    target: tuple[Buffer, Index]
    left: tuple[Buffer, Index]
    right: tuple[Buffer, Index]
    sizes: tuple[Index, Index, Index]
    turned: tuple[bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """Runs `body` for each `index` from `lower` to `upper - 1`.

    Args:
        index: The index.
        lower: The first index.
        upper: The end of the range.
        body: The statements that run.
        is_interleaved: Whether iterations are short reductions, several of which LLVM interleaves.
    """

    index: Scalar
    lower: Index
    upper: Index
    body: "list[Statement]"
    is_interleaved: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """Runs `before`; while `condition` holds after it, runs `body` and `before` again."""

    before: "list[Statement]"
    condition: Scalar
    body: "list[Statement]"


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """Runs one of two blocks."""

    condition: Scalar
    then: "list[Statement]"
    otherwise: "list[Statement]" = field(default_factory=list)


Statement = (
    Constant
    | Compute
    | Apply
    | Load
    | Store
    | Get
    | Put
    | GetPointer
    | PutPointer
    | Allocate
    | Require
    | Free
    | Reserve
    | Copy
    | Check
    | Product
    | For
    | While
    | If
)


@dataclass(frozen=True, slots=True)
class Site:
    """A check that may end a run with an error.

    Args:
        source: `file:line` of the user's code.
        error: Makes the error from the numbers of the check.
        count: How many numbers there are.
    """

    source: str
    error: Callable[[Sequence[int]], Exception]
    count: int = 0


@dataclass(frozen=True, slots=True)
class Nest:
    """A whole function.

    Args:
        sizes: Sizes, each with the number of the parameter and the axis that it is read from.
        parameters: Scalars and buffers: the captured constants of the Program, then its arguments.
        results: For each result the buffer of the caller, or one that the nest allocates, with its sizes.
        body: The statements that run.
        sites: The checks that may end the run early.
    """

    sizes: tuple[tuple[Scalar, int, int], ...]
    parameters: tuple[Scalar | Buffer, ...]
    results: "tuple[Result, ...]"
    body: list[Statement]
    sites: tuple[Site, ...]

    def __str__(self) -> str:
        return "\n".join(line for statement in self.body for line in text(statement)) + "\n"


@dataclass(frozen=True, slots=True)
class Result:
    """One result: its sizes and its buffer, which the caller allocates if `is_caller_allocated`."""

    dims: tuple[Index, ...]
    dtype: DType
    buffer: Buffer
    is_caller_allocated: bool


# Blocks within statements


def blocks_of(statement: Statement) -> tuple[list[Statement], ...]:
    """The blocks that a statement runs."""
    match statement:
        case For():
            return (statement.body,)
        case While():
            return (statement.before, statement.body)
        case If():
            return (statement.then, statement.otherwise)
        case _:
            return ()


def all_of(block: Iterable[Statement]) -> Iterator[Statement]:
    """The statements of a block, each before those in its nested blocks."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from all_of(inner)


# Text


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
        case Product(target, left, right, sizes, turned):
            names = [f"{buffer.name}[{_index(start)}...]" for buffer, start in (target, left, right)]
            yield f"{names[0]} = product of {names[1]} and {names[2]} ({_list(sizes)}), transposed: {turned}"
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
