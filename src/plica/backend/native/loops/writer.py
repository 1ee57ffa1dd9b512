"""`Writer`: appends the statements of a loop nest, and folds arithmetic on known sizes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from plica.backend.native.loops.nest import (
    Apply,
    Buffer,
    Cell,
    Check,
    Compute,
    Constant,
    For,
    Get,
    If,
    Index,
    Load,
    PointerCell,
    Put,
    Site,
    Statement,
    Store,
    While,
)
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "equal": eq,
    "not_equal": ne,
    "less": lt,
    "less_equal": le,
    "greater": gt,
    "greater_equal": ge,
}


_FAR = 2**61
_STACK = 2**17


@dataclass(frozen=True, slots=True)
class Range:
    """low <= index < high + shift."""

    low: int | None
    high: Index
    shift: int


class Writer:
    """Appends statements to the innermost open block.

    It reuses a value that an open block has computed.

    Attributes:
        block: The innermost open block.
        sites: The checks that may end the nest with an error.
        free_stack: Bytes of the stack that the nest may still take; threads have stacks of some hundred kilobytes.
    """

    def __init__(self) -> None:
        self.block: list[Statement] = []
        self.sites: list[Site] = []
        self.free_stack = _STACK
        self._numbers = count()
        self._known: list[dict[Any, Scalar]] = [{}]
        self._checked: list[set[str]] = [set()]
        self._ranges: dict[str, Range] = {}
        self._numbers_known: dict[str, int] = {}

    def name(self, hint: str = "v") -> str:
        """A new name."""
        return f"{hint}{next(self._numbers)}"

    def put(self, statement: Statement) -> None:
        """Append a statement."""
        self.block.append(statement)

    @contextmanager
    def into(self, block: list[Statement]) -> Iterator[list[Statement]]:
        """A context in which statements go to another block."""
        outside, self.block = self.block, block
        self._known.append({})
        self._checked.append(set())
        try:
            yield block
        finally:
            self.block = outside
            self._known.pop()
            self._checked.pop()

    # Values

    def _once(self, key: Any, dtype: DType, make: Callable[[Scalar], Statement]) -> Scalar:
        """The value that a new statement defines, or an earlier one of the same key."""
        for known in self._known:
            if key in known:
                return known[key]
        result = self._known[-1][key] = Scalar(self.name(), dtype)
        self.put(make(result))
        return result

    def number(self, value: complex, dtype: DType) -> Scalar:
        """A constant."""
        key = (type(value), repr(value), dtype)
        scalar = self._once(key, dtype, lambda result: Constant(result, value))
        if dtype == DType.INT64 and isinstance(value, int):
            self._numbers_known[scalar.text] = value
        return scalar

    def value(self, index: Index) -> Scalar:
        """An index as a value."""
        return self.number(index, DType.INT64) if isinstance(index, int) else index

    def compute(self, name: str, *operands: Index, dtype: DType | None = None) -> Scalar:
        """An instruction, whose result has the dtype of the first operand by default."""
        first = operands[0]
        result_dtype = dtype or (DType.INT64 if isinstance(first, int) else first.dtype)
        return self._once((name, operands, result_dtype), result_dtype, lambda result: Compute(result, name, operands))

    def apply(self, op: str, operands: Sequence[Scalar], dtype: DType, params: Mapping[str, Any]) -> Scalar:
        """One entry of an elementwise operation."""
        key = (op, tuple(operands), dtype, tuple(sorted(params.items())))
        scalar = self._once(key, dtype, lambda result: Apply(result, op, tuple(operands), params))
        self._note_shifted(op, operands, scalar)
        return scalar

    # Ranges of indices

    def note_range(self, index: Scalar, low: Index, high: Index) -> None:
        """Record that an index is at least `low`, if that is a known number, and below `high`."""
        is_known = isinstance(low, int) and abs(low) < _FAR
        self._ranges[index.text] = Range(low if is_known else None, high, 0)  # type: ignore[arg-type]

    def _note_shifted(self, op: str, operands: Sequence[Scalar], result: Scalar) -> None:
        if op not in ("add", "subtract") or result.dtype != DType.INT64:
            return
        first, second = operands
        by = self._numbers_known.get(second.text)
        if by is not None and first.text in self._ranges:
            bounds = self._ranges[first.text]
            by = by if op == "add" else -by
            if bounds.low is not None and abs(by) < _FAR:  # so that no sum wraps around: indices are below 2**62
                self._ranges[result.text] = Range(bounds.low + by, bounds.high, bounds.shift + by)

    def is_natural(self, index: Index) -> bool:
        """Whether an index is known to be at least 0."""
        if isinstance(index, int):
            return index >= 0
        known = self._ranges.get(index.text)
        return known is not None and known.low is not None and known.low >= 0

    def is_below(self, index: Index, size: Index) -> bool:
        """Whether an index is known to be below a size."""
        if isinstance(index, int):
            return isinstance(size, int) and index < size
        known = self._ranges.get(index.text)
        if known is None:
            return False
        if isinstance(known.high, int) and isinstance(size, int):
            return known.high + known.shift <= size
        return known.shift <= 0 and known.high == size

    def convert(self, value: Scalar, dtype: DType) -> Scalar:
        """The number in another dtype."""
        return value if value.dtype == dtype else self.compute("convert", value, dtype=dtype)

    def select(self, condition: Scalar, a: Index, b: Index) -> Scalar:
        """One of two values of one dtype."""
        return self.compute(
            "select",
            condition,
            a,
            b,
            dtype=next((operand.dtype for operand in (a, b) if isinstance(operand, Scalar)), DType.INT64),
        )

    def compare(self, kind: str, a: Index, b: Index) -> Scalar:
        """A comparison of values of one dtype, or of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return self.number(_COMPARISONS[kind](a, b), DType.BOOL)
        return self.compute(kind, self._comparable(a), self._comparable(b), dtype=DType.BOOL)

    def _comparable(self, value: Index) -> Index:
        """A value of bfloat16, which processors do not compare, as float32; another one unchanged."""
        is_stored = isinstance(value, Scalar) and value.dtype == DType.BFLOAT16
        return self.convert(value, DType.FLOAT32) if is_stored else value  # type: ignore[arg-type]

    # Indices

    def add(self, a: Index, b: Index) -> Index:
        """The sum."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.compute("index_add", a, b)

    def subtract(self, a: Index, b: Index) -> Index:
        """The difference."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.compute("index_subtract", a, b)

    def multiply(self, a: Index, b: Index) -> Index:
        """The product."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if a == 1:
            return b
        return a if b == 1 else self.compute("index_multiply", a, b)

    def shift_right(self, a: Index, bits: int) -> Index:
        """An index, which is at least 0, divided by a power of two and rounded down."""
        return a >> bits if isinstance(a, int) else self.compute("shift_right", a, bits)

    def product(self, sizes: Sequence[Index]) -> Index:
        """The product of sizes."""
        known: Index = prod(size for size in sizes if isinstance(size, int))
        for factor in sizes:
            known = known if isinstance(factor, int) else self.multiply(known, factor)
        return known

    def room(self, sizes: Sequence[Index]) -> Index:
        """How many entries an array of these sizes has; a huge number if that overflows."""
        known: Index = prod(size for size in sizes if isinstance(size, int))
        for factor in sizes:
            if not isinstance(factor, int):
                known = factor if known == 1 else 0 if known == 0 else self.compute("room", _in_64_bits(known), factor)
        return _in_64_bits(known)

    def flat(self, index: Sequence[Index], dims: Sequence[Index]) -> Index:
        """The offset of an entry of an array of these sizes."""
        offset: Index = 0
        for number, dim in zip(index, dims, strict=True):
            offset = self.add(self.multiply(offset, dim), number)
        return offset

    def minimum(self, a: Index, b: Index) -> Index:
        """The lesser."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self.compute("minimum", a, b)

    def maximum(self, a: Index, b: Index) -> Index:
        """The larger."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self.compute("maximum", a, b)

    # Memory

    def buffer(self, dtype: DType, hint: str = "b") -> Buffer:
        """The name of memory."""
        return Buffer(self.name(hint), dtype)

    def load(self, buffer: Buffer, offset: Index) -> Scalar:
        """An entry."""
        result = Scalar(self.name(), buffer.dtype)
        self.put(Load(result, buffer, offset))
        return result

    def store(self, buffer: Buffer, offset: Index, value: Scalar) -> None:
        """Write an entry."""
        self.put(Store(buffer, offset, value))

    def cell(self, dtype: DType, first: Index | None = None) -> Cell:
        """A scalar that changes."""
        new = Cell(self.name("s"), dtype)
        if first is not None:
            self.put(Put(new, first))
        return new

    def pointer(self, dtype: DType) -> PointerCell:
        """A buffer that changes."""
        return PointerCell(self.name("p"), dtype)

    def get(self, cell: Cell) -> Scalar:
        """The number that a cell holds now."""
        result = Scalar(self.name(), cell.dtype)
        self.put(Get(result, cell))
        return result

    # Control flow

    @contextmanager
    def loop(self, upper: Index, lower: Index = 0, *, is_interleaved: bool = False) -> Iterator[Scalar]:
        """A context whose statements are the body of a loop; a reduction may be interleaved."""
        index = Scalar(self.name("i"), DType.INT64)
        self.note_range(index, lower, upper)
        with self.into([]) as body:
            yield index
        self.put(For(index, lower, upper, body, is_interleaved))

    @contextmanager
    def nest(self, dims: Sequence[Index], *, is_interleaved: bool = False) -> Iterator[list[Index]]:
        """A context within loops over all indices of an array, the last of which may be interleaved.

        An axis of size 1 has no loop.
        """
        last = len(dims) - 1
        with ExitStack() as loops:
            yield [
                0 if dim == 1 else loops.enter_context(self.loop(dim, is_interleaved=is_interleaved and index == last))
                for index, dim in enumerate(dims)
            ]

    @contextmanager
    def when(self, condition: Scalar, share: float = 1.0) -> Iterator[None]:
        """A context whose statements run if a condition holds, in about that share of cases."""
        with self.into([]) as then:
            yield
        self.put(If(condition, then, share=share))

    @contextmanager
    def repeat(self, condition: Callable[[], Scalar]) -> Iterator[None]:
        """A context whose statements run while a condition holds."""
        with self.into([]) as before:
            holds = condition()
        with self.into([]) as body:
            yield
        self.put(While(before, holds, body))

    def advance(self, cell: Cell, by: Index = 1) -> None:
        """Add to the number in a cell."""
        self.put(Put(cell, self.add(self.get(cell), by)))

    def check(self, condition: Scalar, site: Site, *numbers: Index) -> None:
        """End the run with an error of `site` unless the condition holds."""
        if any(condition.text in known for known in self._checked):
            return
        self._checked[-1].add(condition.text)
        self.sites.append(replace(site, count=len(numbers)))
        self.put(Check(condition, len(self.sites) - 1, numbers))


def _in_64_bits(count: Index) -> Index:
    """A number of entries, at most 2**62, which no memory has room for."""
    return min(count, 2**62) if isinstance(count, int) else count
