"""The loop-nest IR: statements on scalars, buffers and mutable cells, in order, with structured control flow.

    nest       ::= parameters, results, statements
    statement  ::= value = instruction | cell = value | buffer[offset] = value | for | while | if | allocate | ...

Values are computed once and never change. A value that changes from one iteration of a loop to the next lies in a
`Cell`; a buffer that changes, in a `PointerCell`. Offsets into buffers count entries. Sizes and bounds of loops are
values, so that one nest serves all sizes. `llvm.py` prints it, `nest_text.py` for readers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plica.backend.native.loops.functions import Registers
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

WriteKernel = Callable[[str, set[str], Registers], str]
"""Writes a function: `write(name, declared, registers)` returns its text, and adds to declarations of intrinsics."""

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
    """Memory for `count` entries: from the heap if it `leaves` the block. If it `may_fail`, a `Require` checks it.

    `stack_is_full` says that earlier allocations have used all of the stack that a nest may take.
    """

    buffer: Buffer
    count: Index
    leaves: bool = False
    may_fail: bool = False
    stack_is_full: bool = False


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
    """Copies `count` entries from entry `start` of `source` to entry `to` of `target`; these entries do not overlap."""

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
        widths: How many entries apart the rows of target, left and right lie, as they are stored.
        turned: Whether left and right are stored transposed.
    """

    target: tuple[Buffer, Index]
    left: tuple[Buffer, Index]
    right: tuple[Buffer, Index]
    sizes: tuple[Index, Index, Index]
    widths: tuple[Index, Index, Index]
    turned: tuple[bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A call of a vectorized function, which is written for the processor that runs it.

    Args:
        write: Writes the function, which takes pointers and then indices; equal ones share a function.
        buffers: The arrays that it takes, those that it writes among them.
        starts: The first entry of each.
        sizes: The indices that it takes.
    """

    write: WriteKernel
    buffers: tuple[Buffer, ...]
    starts: tuple[Index, ...]
    sizes: tuple[Index, ...]


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
    """Runs one of two blocks.

    Args:
        condition: Whether `then` runs.
        then: Runs if it holds.
        otherwise: Runs if it does not.
        share: An estimate of how often its blocks run: 1 is always.
    """

    condition: Scalar
    then: "list[Statement]"
    otherwise: "list[Statement]" = field(default_factory=list)
    share: float = 1.0


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
    | Kernel
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

    @property
    def num_reported(self) -> int:
        """How many numbers a run reports at most: of an error, or addresses and sizes of results that it allocates."""
        length = sum(1 + len(result.dims) for result in self.results if not result.is_caller_allocated)
        return max([length, *(site.count for site in self.sites)])


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
