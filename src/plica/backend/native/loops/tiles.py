"""Tiles of rows whose weighted sums are in registers together: the inner loops of kernels of layers.

product[r, :] = factor[r, :] * factor[r, :]            rows of arrays or of tables, read in place
for each piece of the outputs, two registers wide:
    for i: sum[r, piece] += product[r, i] * weight[i, piece]
the largest of each row, its power of two
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from plica.backend.native.loops.functions import Function, Operand, Registers
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType

MOST_ROWS = 8
"""Rows of a tile, at most."""
_PARTS = 4  # independent partial sums of a tile of one row
_MANTISSA = {DType.FLOAT32: (23, 253, "i32"), DType.FLOAT64: (52, 2045, "i64")}
"""Bits of a mantissa, the sum of the biased exponents of 2**(e - 1) and 2**-e, and integers as wide."""
_LINE = 64  # bytes of a cache line

Rows = Callable[[Operand], str]
"""From the index of a row to the pointer to its first entry."""


def pieces(size: int, widest: int) -> Iterator[tuple[int, int]]:
    """Where vectors begin, and how wide they are: as wide as possible, and powers of two."""
    start = 0
    while start < size:
        width = widest
        while width > size - start:
            width //= 2
        yield start, width
        start += width


@dataclass(frozen=True, slots=True)
class Source:
    """What factors of a layer read: an array `(G, B, units)`, or rows of a table `(N, units)` that states select.

    Args:
        units: How many units it has.
        states: The dtype of the states `(B, variables)`; None for an array.
        size: The rows of the table.
        variables: How many variables the states have.
    """

    units: int
    states: DType | None = None
    size: int = 0
    variables: int = 0

    @property
    def num_pointers(self) -> int:
        """How many pointers it has: an array, or a table, states, columns and starts."""
        return 1 if self.states is None else 4


class Tiles(Function):
    """The lines of a kernel under construction.

    Attributes:
        type: The type of an entry.
        size: Bytes of an entry.
        height: Rows of the highest tile.
        outer: The pieces of the outputs.

    Args:
        name: Its name.
        parameters: Types and names; `%room` points to room for `MOST_ROWS` products of factors.
        declared: Declarations of intrinsics, which it adds to.
        registers: Those of the processor.
        dtype: The dtype of all numbers: float32 or float64.
        outputs: The width of the results.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        declared: set[str],
        registers: Registers,
        dtype: DType,
        outputs: int,
    ) -> None:
        super().__init__(name, parameters, declared)
        self.type, self.size = llvm_type(dtype), dtype.numpy.itemsize
        self._widest, self.height = 2 * registers.size // self.size, min(registers.rows, MOST_ROWS)
        self._dtype, self._outputs = dtype, outputs
        self.outer = list(pieces(outputs, self._widest))

    def vector(self, width: int) -> str:
        """The type of a vector."""
        return f"<{width} x {self.type}>"

    def splat(self, entry: str, width: int) -> str:
        """A vector of one number."""
        vector = self.op(f"insertelement {self.vector(width)} poison, {self.type} {entry}, i64 0")
        spread = f"<{width} x i32> zeroinitializer"
        return self.op(f"shufflevector {self.vector(width)} {vector}, {self.vector(width)} poison, {spread}")

    # Sources

    def rows_of(self, source: Source, pointers: Sequence[str], fold: Operand, rows: str) -> Rows:
        """The rows of a fold of a source; an array has `rows` of them."""
        first, *lookup = pointers
        if source.states is None:
            begin = self.at(self.type, first, self.multiply(self.multiply(fold, rows), source.units))
            return lambda row: self.at(self.type, begin, self.multiply(row, source.units))
        states, columns, starts = lookup
        column, start = (self.load("i64", self.at("i64", numbers, fold)) for numbers in (columns, starts))
        dtype = source.states

        def looked_up(row: Operand) -> str:
            type_ = llvm_type(dtype)
            offset = self.add(self.multiply(row, source.variables), column)
            state = self.load(type_, self.at(type_, states, offset))
            if dtype.bits < 64:
                extended = "zext" if dtype.value.startswith("u") else "sext"
                state = self.op(f"{extended} {type_} {state} to i64")
            number = self.maximum(self.minimum(self.add(state, start), source.size - 1), 0)
            return self.at(self.type, first, self.multiply(number, source.units))

        return looked_up

    def fetch(self, row: str, units: int) -> None:
        """Prefetch a row."""
        for start in range(0, units, _LINE // self.size):
            self.prefetch(self.at(self.type, row, start))

    # Tiles

    def tiles(self, count: str, write: Callable[[list[Operand], int], None]) -> None:
        """Loops over `count` rows, most of which are in tiles as high as registers allow, some in half of that.

        `write(rows, parts)` writes a tile of the rows at these indices; each sum is added up in `parts` parts.
        """
        begin: Operand = 0
        for height in dict.fromkeys((self.height, self.height // 2, 1)):
            end = self.subtract(count, self.op(f"urem i64 {count}, {height}")) if height > 1 else count
            with self.loop(begin, end, height) as first:
                write([self.add(first, row) for row in range(height)], _PARTS if height == 1 else 1)
            begin = end

    def product(self, rows: Sequence[Sequence[str]], units: int) -> None:
        """Write the product of the factors' rows to `%room`; each row of the tile has a pointer for each factor."""
        for number, factors in enumerate(rows):
            for start, width in pieces(units, self._widest):
                type_ = self.vector(width)
                first, *others = [self.load(type_, self.at(self.type, row, start), self.size) for row in factors]
                for other in others:
                    first = self.op(f"fmul {type_} {first}, {other}")
                self.store(type_, first, self.at(self.type, "%room", number * units + start), self.size)

    def sums(self, height: int, parts: int, weight: str, units: int, piece: tuple[int, int]) -> list[str]:
        """One piece of the weighted sums of each row.

        Args:
            height: How many rows the tile has.
            parts: In how many parts each sum is; 1 if they do not divide the units.
            weight: The pointer to the weight `(units, outputs)`.
            units: How many units it has.
            piece: Where the piece of the outputs begins, and how wide it is.
        """
        start, width = piece
        type_, parts = self.vector(width), parts if units % parts == 0 else 1
        totals = [self.slot(type_) for _ in range(height * parts)]
        for total in totals:
            self.store(type_, "zeroinitializer", total)
        with self.loop(0, units, parts) as first:
            for part in range(parts):
                unit = self.add(first, part)
                offset = self.add(self.multiply(unit, self._outputs), start)
                entries = self.load(type_, self.at(self.type, weight, offset), self.size)
                for row in range(height):
                    entry = self.load(self.type, self.at(self.type, "%room", self.add(unit, row * units)))
                    total = totals[part * height + row]
                    added = self.fused(type_, self.splat(entry, width), entries, self.load(type_, total))
                    self.store(type_, added, total)
        sums = [self.load(type_, total) for total in totals]
        for part in range(1, parts):
            pairs = zip(sums[:height], sums[part * height :], strict=False)
            sums[:height] = [self.op(f"fadd {type_} {total}, {other}") for total, other in pairs]
        return sums[:height]

    def fused(self, type_: str, a: str, b: str, c: str) -> str:
        """`a b + c`, rounded once where the processor can."""
        width = type_.partition(" ")[0].removeprefix("<")
        return self.call(type_, f"llvm.fmuladd.v{width}f{8 * self.size}", a, b, c)

    def write_row(self, vectors: Sequence[str], to: str, factor: str = "") -> None:
        """Write a row of the results, times a factor if there is one."""
        for (start, width), vector in zip(self.outer, vectors, strict=True):
            type_ = self.vector(width)
            scaled = self.op(f"fmul {type_} {vector}, {self.splat(factor, width)}") if factor else vector
            self.store(type_, scaled, self.at(self.type, to, start), self.size)

    def power(self, vectors: Sequence[str], *, is_exponent: bool) -> tuple[str, str]:
        """The divisor of a row, or its exponent, and its reciprocal.

        Positive floats are in the order of their bits as integers, so that integer maxima find the largest entry.
        """
        bits, top, integer = _MANTISSA[self._dtype]
        largest = ""
        for vector, (_, width) in zip(vectors, self.outer, strict=True):
            as_bits = self.op(f"bitcast {self.vector(width)} {vector} to <{width} x {integer}>")
            bits_type = f"<{width} x {integer}>"
            if width == 1:
                row_top = self.op(f"extractelement {bits_type} {as_bits}, i64 0")
            else:
                row_top = self.reduced(bits_type, f"llvm.vector.reduce.smax.v{width}{integer}", as_bits, integer)
            largest = self.maximum(largest, row_top, integer) if largest else row_top
        exponent = self.minimum(self.op(f"ashr {integer} {largest}, {bits}"), top - 1, integer)
        is_normal = self.op(f"icmp sge {integer} {exponent}, 1")
        exponent = self.op(f"select i1 {is_normal}, {integer} {exponent}, {integer} {top // 2}")  # 2**0
        factor = self._power_of_two(self.op(f"sub {integer} {top}, {exponent}"), bits, integer)
        if not is_exponent:
            return self._power_of_two(self.op(f"add {integer} {exponent}, 1"), bits, integer), factor
        number = self.op(f"sub {integer} {exponent}, {top // 2}")
        return self.op(f"sitofp {integer} {number} to {self.type}"), factor

    def _power_of_two(self, exponent: str, bits: int, integer: str) -> str:
        """The number whose biased exponent is given."""
        return self.op(f"bitcast {integer} {self.op(f'shl {integer} {exponent}, {bits}')} to {self.type}")
