"""`Writer`: statements of a loop nest, one after the other, with fresh names; arithmetic on known sizes is done at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from math import prod
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
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
}


class Writer:
    """Appends statements to the innermost open block.

    Attributes:
        block: That block.
        sites: Where the nest may end with an error.
    """

    def __init__(self) -> None:
        self.block: list[Statement] = []
        self.sites: list[Site] = []
        self._numbers = count()

    def name(self, hint: str = "v") -> str:
        """A name that nothing has."""
        return f"{hint}{next(self._numbers)}"

    def put(self, statement: Statement) -> None:
        """One more statement."""
        self.block.append(statement)

    @contextmanager
    def into(self, block: list[Statement]) -> Iterator[list[Statement]]:
        """Statements go to another block for a while."""
        outside, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outside

    # Values

    def number(self, value: complex, dtype: DType) -> Scalar:
        """A constant."""
        result = Scalar(self.name("c"), dtype)
        self.put(Constant(result, value))
        return result

    def value(self, index: Index) -> Scalar:
        """An index as a value."""
        return self.number(index, DType.INT64) if isinstance(index, int) else index

    def compute(self, name: str, *operands: Index, dtype: DType | None = None) -> Scalar:
        """An instruction, whose result is of the first operand's dtype unless said."""
        first = operands[0]
        found = dtype or (DType.INT64 if isinstance(first, int) else first.dtype)
        result = Scalar(self.name(), found)
        self.put(Compute(result, name, operands))
        return result

    def apply(self, op: str, operands: Sequence[Scalar], dtype: DType, params: Mapping[str, Any]) -> Scalar:
        """One entry of an elementwise operation."""
        result = Scalar(self.name(), dtype)
        self.put(Apply(result, op, tuple(operands), params))
        return result

    def convert(self, value: Scalar, dtype: DType) -> Scalar:
        """The number in another dtype."""
        return value if value.dtype == dtype else self.compute("convert", value, dtype=dtype)

    def select(self, condition: Scalar, a: Index, b: Index) -> Scalar:
        """One of two values of one dtype."""
        return self.compute(
            "select", condition, a, b, dtype=next((one.dtype for one in (a, b) if isinstance(one, Scalar)), DType.INT64)
        )

    def compare(self, kind: str, a: Index, b: Index) -> Scalar:
        """A comparison of values of one dtype, or of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return self.number(_COMPARISONS[kind](a, b), DType.BOOL)
        return self.compute(kind, a, b, dtype=DType.BOOL)

    # Indices

    def add(self, a: Index, b: Index) -> Index:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.compute("index_add", a, b)

    def subtract(self, a: Index, b: Index) -> Index:
        """a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.compute("index_subtract", a, b)

    def multiply(self, a: Index, b: Index) -> Index:
        """a b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if a == 1:
            return b
        return a if b == 1 else self.compute("index_multiply", a, b)

    def product(self, sizes: Sequence[Index]) -> Index:
        """The product of sizes."""
        known: Index = prod(one for one in sizes if isinstance(one, int))
        for one in sizes:
            known = known if isinstance(one, int) else self.multiply(known, one)
        return known

    def flat(self, index: Sequence[Index], dims: Sequence[Index]) -> Index:
        """The offset of an entry of an array of these sizes."""
        found: Index = 0
        for one, dim in zip(index, dims, strict=True):
            found = self.add(self.multiply(found, dim), one)
        return found

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
        found = Cell(self.name("s"), dtype)
        if first is not None:
            self.put(Put(found, first))
        return found

    def pointer(self, dtype: DType) -> PointerCell:
        """A buffer that changes."""
        return PointerCell(self.name("p"), dtype)

    def get(self, cell: Cell) -> Scalar:
        """What it is now."""
        result = Scalar(self.name(), cell.dtype)
        self.put(Get(result, cell))
        return result

    # Control flow

    @contextmanager
    def loop(self, upper: Index, lower: Index = 0) -> Iterator[Scalar]:
        """A loop, given its index."""
        index = Scalar(self.name("i"), DType.INT64)
        with self.into([]) as body:
            yield index
        self.put(For(index, lower, upper, body))

    @contextmanager
    def nest(self, dims: Sequence[Index]) -> Iterator[list[Index]]:
        """Loops over all indices of an array; an axis of size 1 has no loop."""
        index: list[Index] = []
        bodies: list[list[Statement]] = []
        outside = self.block
        for dim in dims:
            if dim == 1:
                index.append(0)
                continue
            one = Scalar(self.name("i"), DType.INT64)
            body: list[Statement] = []
            self.block.append(For(one, 0, dim, body))
            bodies.append(body)
            self.block = body
            index.append(one)
        try:
            yield index
        finally:
            self.block = outside

    @contextmanager
    def when(self, condition: Scalar) -> Iterator[None]:
        """What runs where a condition holds."""
        with self.into([]) as then:
            yield
        self.put(If(condition, then))

    @contextmanager
    def repeat(self, condition: Callable[[], Scalar]) -> Iterator[None]:
        """What runs again while a condition holds."""
        with self.into([]) as before:
            holds = condition()
        with self.into([]) as body:
            yield
        self.put(While(before, holds, body))

    def advance(self, cell: Cell, by: Index = 1) -> None:
        """A count goes on."""
        self.put(Put(cell, self.add(self.get(cell), by)))

    def check(self, condition: Scalar, site: Site, *numbers: Index) -> None:
        """The run ends with an error of `site` unless the condition holds."""
        self.sites.append(site)
        self.put(Check(condition, len(self.sites) - 1, numbers))
