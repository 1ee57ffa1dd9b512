"""Sums of products of entries, by loops."""

from collections.abc import Mapping, Sequence
from math import prod

from plica.backend.native.loops.arrays import Array, moved, reshaped, solid
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import Buffer, Copy, Index, Put
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim

_UNROLLED = 512
"""Products of known sizes with fewer multiplications keep their sums in registers."""
_TERMS = 4
"""Terms that are added to a row of a product at a time; a power of two."""
_ROWS = 4
"""Rows of a large product that are computed at a time, from entries that are read once; a power of two."""

Factor = tuple[Array, str]
"""An array, and the letter of each of its axes."""
_Row = tuple[Mapping[str, Index], Buffer, Index]
"""A row of a result: its indices, and where its sums lie."""


def factors_of(
    block: Block, values: Sequence[Array], shapes: Sequence[Sequence[Dim]], terms: Sequence[str]
) -> tuple[list[Factor], dict[str, Index]]:
    """Factors with distinct letters and no axes of size 1 that are broadcast, and the size of each letter."""
    sizes: dict[str, Index] = {}
    known: dict[str, Dim] = {}
    for value, shape, term in zip(values, shapes, terms, strict=True):
        for letter, dim, size in zip(term, shape, value.dims, strict=True):
            if known.get(letter, 1) == 1:
                known[letter], sizes[letter] = dim, size
    distinct = [_with_distinct_letters(value, term) for value, term in zip(values, terms, strict=True)]
    return [_without_unit_axes(block, x, term, known) for x, term in distinct], sizes


def _with_distinct_letters(x: Array, term: str) -> Factor:
    """A factor with distinct letters: a repeated letter reads the diagonal."""
    if len(set(term)) == len(term):
        return x, term
    letters = "".join(dict.fromkeys(term))
    axes = [letters.index(letter) for letter in term]
    dims = [x.dims[term.index(letter)] for letter in letters]
    return moved(x, dims, lambda index: [index[axis] for axis in axes]), letters


def _without_unit_axes(block: Block, x: Array, term: str, known: Mapping[str, Dim]) -> Factor:
    """A factor without the axes of size 1 that are broadcast."""
    axes = [index for index, letter in enumerate(term) if x.dims[index] != 1 or known[letter] == 1]
    if len(axes) == len(term):
        return x, term
    dims, letters = [x.dims[axis] for axis in axes], "".join(term[axis] for axis in axes)
    if x.buffer is not None:
        return reshaped(block.writer, x, dims), letters
    rank = len(term)

    def index(index_of_result: Sequence[Index]) -> list[Index]:
        x_index: list[Index] = [0] * rank
        for axis, number in zip(axes, index_of_result, strict=True):
            x_index[axis] = number
        return x_index

    return moved(x, dims, index), letters


def at_index(writer: Writer, factor: Factor, at: Mapping[str, Index]) -> Factor:
    """A factor at an index along some of its axes, without these axes."""
    x, term = factor
    axes = [axis for axis, letter in enumerate(term) if letter not in at]
    letters, dims = "".join(term[axis] for axis in axes), [x.dims[axis] for axis in axes]

    def index(index_of_result: Sequence[Index]) -> list[Index]:
        numbers = {**at, **dict(zip(letters, index_of_result, strict=True))}
        return [numbers[letter] for letter in term]

    if x.buffer is not None and term.endswith(letters):
        start = writer.add(x.start, writer.flat(index([0] * len(axes)), x.dims))
        return solid(writer, x.buffer, dims, start), letters
    return moved(x, dims, index), letters


def memory_of(x: Array) -> Buffer:
    """The buffer of an array that lies in memory."""
    assert x.buffer is not None, "it lies in memory"
    return x.buffer


class Contraction:
    """A sum of products.

    Args:
        block: The block of the equation.
        factors: Arrays with distinct letters.
        sizes: The size of each letter.
        result: The letters of the result.
        dtype: Its dtype.
    """

    def __init__(
        self, block: Block, factors: Sequence[Factor], sizes: Mapping[str, Index], result: str, dtype: DType
    ) -> None:
        letters = dict.fromkeys(letter for _, term in factors for letter in term)
        self._block, self._factors, self._result, self._dtype = block, factors, result, dtype
        self._sizes = {letter: sizes[letter] for letter in letters}
        self._summed = [letter for letter in letters if letter not in result]

    def _entries(self, index_of_letter: Mapping[str, Index]) -> list[Scalar]:
        return [x.read([index_of_letter[letter] for letter in term]) for x, term in self._factors]

    def _added(self, total: Scalar, index_of_letter: Mapping[str, Index]) -> Scalar:
        writer = self._block.writer
        first, *others = self._entries(index_of_letter)
        for factor in others[:-1]:
            first = writer.apply("multiply", [first, factor], self._dtype, {})
        return (
            writer.compute("sum_product", total, first, others[-1]) if others else writer.compute("sum", total, first)
        )

    def total(self, index_of_letter: Mapping[str, Index]) -> Scalar:
        """One entry of the result."""
        writer = self._block.writer
        if not self._summed:
            first, *others = self._entries(index_of_letter)
            for factor in others:
                first = writer.apply("multiply", [first, factor], self._dtype, {})
            return first
        cell = writer.cell(self._dtype)
        writer.put(Put(cell, writer.number(0, self._dtype)))
        with writer.nest([self._sizes[letter] for letter in self._summed]) as steps:
            inner = {**index_of_letter, **dict(zip(self._summed, steps, strict=True))}
            writer.put(Put(cell, self._added(writer.get(cell), inner)))
        return writer.get(cell)

    def loops(self, target: Array, *, in_blocks: bool = False) -> None:
        """The result, by loops; `in_blocks` several rows are computed at a time, which takes more code."""
        writer, buffer = self._block.writer, memory_of(target)
        dims = [self._sizes[letter] for letter in self._result]
        if self._summed and in_blocks:
            self._factors = [self._along_rows(x, term) for x, term in self._factors]
        if self._summed and self._runs_along_rows():
            self._rows(target, self._shared() if in_blocks else None)
            return
        with writer.nest(dims) as index:
            value = self.total(dict(zip(self._result, index, strict=True)))
            writer.store(buffer, writer.add(target.start, writer.flat(index, dims)), value)

    def _runs_along_rows(self) -> bool:
        """Whether rows of the result are sums of rows in memory, too many entries to keep in registers."""
        known = [size for size in self._sizes.values() if isinstance(size, int)]
        if len(known) == len(self._sizes) and prod(known) <= _UNROLLED:
            return False
        return any(term.endswith(self._result[-1]) for _, term in self._factors)

    def _shared(self) -> str | None:
        """A letter of the result whose rows share all factors with the last letter, or None: b of `bi,io->bo`."""
        last = self._result[-1]
        wide = {letter for _, term in self._factors if last in term for letter in term}
        return next((letter for letter in reversed(self._result) if letter not in wide), None)

    def _along_rows(self, x: Array, term: str) -> Factor:
        """A factor that several rows of the result share, copied to memory so that the last letter is its last axis."""
        last = self._result[-1]
        if last not in term or self._shared() is None or (term.endswith(last) and x.buffer is not None):
            return x, term
        letters = term.replace(last, "") + last
        axes = [letters.index(letter) for letter in term]
        dims = [x.dims[term.index(letter)] for letter in letters]
        return self._block.in_memory(moved(x, dims, lambda index: [index[axis] for axis in axes])), letters

    def _rows(self, target: Array, shared: str | None) -> None:
        """The result, a row at a time, or several rows that share the factors with the last letter."""
        writer, width = self._block.writer, self._sizes[self._result[-1]]
        outside = [letter for letter in self._result[:-1] if letter != shared]
        sums = [self._block.temporary(self._dtype, [width]) for _ in range(_ROWS if shared else 0)]
        with writer.nest([self._sizes[letter] for letter in outside]) as outer:
            at = dict(zip(outside, outer, strict=True))
            if shared is None:
                self._add_up([(at, memory_of(target), self._begin(target, at))])
                return
            blocks = writer.shift_right(self._sizes[shared], _ROWS.bit_length() - 1)
            with writer.loop(blocks) as block:
                first = writer.multiply(block, _ROWS)
                rows = [{**at, shared: writer.add(first, index)} for index in range(_ROWS)]
                self._add_up([(row, memory_of(total), 0) for row, total in zip(rows, sums, strict=True)])
                for row, total in zip(rows, sums, strict=True):
                    writer.put(Copy(memory_of(target), self._begin(target, row), memory_of(total), 0, width))
            with writer.loop(self._sizes[shared], writer.multiply(blocks, _ROWS)) as index:
                at[shared] = index
                self._add_up([(at, memory_of(target), self._begin(target, at))])

    def _begin(self, target: Array, at: Mapping[str, Index]) -> Index:
        """The offset in memory at which a row of the result begins."""
        writer, outside = self._block.writer, self._result[:-1]
        row = writer.flat([at[letter] for letter in outside], [self._sizes[letter] for letter in outside])
        return writer.add(target.start, writer.multiply(row, self._sizes[self._result[-1]]))

    def _add_up(self, rows: Sequence[_Row]) -> None:
        """Compute rows of the result, each in its own memory."""
        writer = self._block.writer
        with writer.nest([self._sizes[self._result[-1]]]) as (column,):
            for _, buffer, begin in rows:
                writer.store(buffer, writer.add(begin, column), writer.number(0, self._dtype))
        *others, step = self._summed
        with writer.nest([self._sizes[letter] for letter in others]) as steps:
            at = dict(zip(others, steps, strict=True))
            blocks = writer.shift_right(self._sizes[step], _TERMS.bit_length() - 1)
            with writer.loop(blocks) as block:
                first = writer.multiply(block, _TERMS)
                self._add_terms(rows, [{**at, step: writer.add(first, index)} for index in range(_TERMS)])
            with writer.loop(self._sizes[step], writer.multiply(blocks, _TERMS)) as last_step:
                self._add_terms(rows, [{**at, step: last_step}])

    def _add_terms(self, rows: Sequence[_Row], terms: Sequence[Mapping[str, Index]]) -> None:
        """Add terms to rows of the result, which are read and written once for all of them."""
        writer, last = self._block.writer, self._result[-1]
        with writer.nest([self._sizes[last]]) as (column,):
            for row, buffer, begin in rows:
                offset = writer.add(begin, column)
                total = writer.load(buffer, offset)
                for at in terms:
                    total = self._added(total, {**row, **at, last: column})
                writer.store(buffer, offset, total)
