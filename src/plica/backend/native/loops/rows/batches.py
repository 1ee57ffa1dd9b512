"""Sums of products as products of matrices, one for each index of a batch.

    einsum("fbi,fbj,foij->fbo", x, y, w)    for each f: (b, ij), whose entries are products of x and y, times (ij, o)

One factor is the right matrix, the others together are the left one. A matrix is read and written in place if its rows,
or its columns, are runs of memory at one distance. Other matrices are copied, for one index of the batch at a time.
Products of factors are copied some rows at a time, so that they stay in the cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from plica.backend.native.loops.arrays import Array
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import Buffer, Index, Product
from plica.backend.native.loops.rows.contraction import Factor, memory_of
from plica.backend.native.loops.writer import Writer

Sizes = Mapping[str, Index]
"""A number for each of some letters: the size of its axis, or an index."""
_NOTHING: Sizes = MappingProxyType({})
_ENTRIES, _ROWS = 2**17, 8
"""The entries of a left matrix that is copied, and the fewest indices along its first axis."""


class _Matrix(NamedTuple):
    """A matrix in memory.

    Args:
        buffer: The memory.
        start: Its first entry there.
        width: How many entries apart its rows lie, as they are stored.
        turned: Whether it is stored transposed.
    """

    buffer: Buffer
    start: Index
    width: Index
    turned: bool


@dataclass(frozen=True, slots=True)
class Batches:
    """A sum of products as products of matrices.

    Args:
        left: The factors of the left matrix.
        right: The right matrix.
        batch: The other letters of the result.
        rows: Letters of the left matrix and the result, which are neighbours there.
        columns: Letters of the right matrix and the result, which are neighbours there.
        steps: The letters of both matrices that are summed over.
    """

    left: Sequence[Factor]
    right: Factor
    batch: str
    rows: str
    columns: str
    steps: str

    def letters(self) -> str:
        """The letters of the left matrix."""
        return "".join(dict.fromkeys(letter for _, term in self.left for letter in term))

    def put(self, block: Block, sizes: Sizes, result: str, target: Array) -> None:
        """Write the products to the memory of `target`, whose axes have the letters `result`."""
        writer = block.writer
        with writer.nest([sizes[letter] for letter in self.batch]) as index, block.scratch():
            at = dict(zip(self.batch, index, strict=True))
            right = _matrix(block, [self.right], sizes, self.steps, self.columns, at)
            if _in_place(writer, (target, result), self.rows, self.columns, at) is not None:
                self._put_rows(block, sizes, right, (target, result), at)
                return
            letters = self.rows + self.columns
            aside = block.temporary(target.dtype, [sizes[letter] for letter in letters])
            self._put_rows(block, sizes, right, (aside, letters), at)
            with writer.nest(aside.dims) as entry:
                numbers = {**at, **dict(zip(letters, entry, strict=True))}
                offset = writer.flat([numbers[letter] for letter in result], target.dims)
                writer.store(memory_of(target), writer.add(target.start, offset), aside.read(entry))

    def _put_rows(self, block: Block, sizes: Sizes, right: _Matrix, target: Factor, at: Sizes) -> None:
        """Write one product; some rows at a time if the left matrix is a product of factors, which are copied."""
        writer, first = block.writer, self.rows[0]
        if len(self.left) == 1:
            self._put_product(block, sizes, sizes[first], right, target, {**at, first: 0})
            return
        row = prod(size if isinstance(size, int) else _ROWS for size in (sizes[x] for x in self.rows[1:] + self.steps))
        bits = max(_ENTRIES // max(row, 1), _ROWS).bit_length() - 1
        count = writer.shift_right(writer.add(sizes[first], 2**bits - 1), bits)
        room = writer.minimum(sizes[first], 2**bits)
        with writer.loop(count) as number, block.scratch():
            begin = writer.multiply(number, 2**bits)
            some = {**sizes, first: writer.minimum(writer.subtract(sizes[first], begin), 2**bits)}
            self._put_product(block, some, room, right, target, {**at, first: begin})

    def _put_product(self, block: Block, sizes: Sizes, room: Index, right: _Matrix, target: Factor, at: Sizes) -> None:
        """Write the rows from an index of the first letter on; a copy of the left matrix has `room` rows."""
        writer = block.writer
        left = _matrix(block, self.left, sizes, self.rows, self.steps, at, {self.rows[0]: room})
        product_matrix = _in_place(writer, target, self.rows, self.columns, at)
        assert product_matrix is not None, "callers pass matrices"
        rows, columns, steps = (
            writer.product([sizes[letter] for letter in letters]) for letters in (self.rows, self.columns, self.steps)
        )
        if product_matrix.turned:  # the transposed result is a product of transposed matrices
            left, right = right._replace(turned=not right.turned), left._replace(turned=not left.turned)
            rows, columns = columns, rows
        writer.put(
            Product(
                (product_matrix.buffer, product_matrix.start),
                (left.buffer, left.start),
                (right.buffer, right.start),
                (rows, columns, steps),
                (product_matrix.width, left.width, right.width),
                (left.turned, right.turned),
            )
        )


def batches_of(factors: Sequence[Factor], result: str) -> Batches | None:
    """A sum of products as products of matrices, the left one with the fewest letters; None if there is none."""
    options = [_with_right(factors, number, result) for number in reversed(range(len(factors)))]
    return min((option for option in options if option), key=lambda option: len(option.letters()), default=None)


def _with_right(factors: Sequence[Factor], number: int, result: str) -> Batches | None:
    """The products whose right matrix is a given factor."""
    left, (_, term) = [*factors[:number], *factors[number + 1 :]], factors[number]
    others = {letter for _, other_term in left for letter in other_term}
    rows, columns = (
        _run("".join(letter for letter in result if (letter in others, letter in term) == readers), result)
        for readers in ((True, False), (False, True))
    )
    batch = "".join(letter for letter in result if letter not in rows + columns)
    steps = "".join(letter for letter in term if letter in others and letter not in result)
    return Batches(left, factors[number], batch, rows, columns, steps) if rows and columns and steps else None


def _run(letters: str, term: str) -> str:
    """The longest end of `letters` that is consecutive in a term, so that its axes can be one axis of a matrix.

    For example, the end of "abc" in "dbc" is "bc".
    """
    return next((letters[first:] for first in range(len(letters)) if letters[first:] in term), "")


def _in_place(writer: Writer, factor: Factor, high: str, wide: str, at: Sizes) -> _Matrix | None:
    """The matrix with the axes `high` and `wide`, at an index along the others; None if it cannot be read in place."""
    x, term = factor
    if x.buffer is None:
        return None
    strides = {letter: writer.product(x.dims[axis + 1 :]) for axis, letter in enumerate(term)}
    for inner, outer in ((wide, high), (high, wide)):
        if term.endswith(inner) and outer in term:
            start = x.start
            for letter in term:
                if letter in at:
                    start = writer.add(start, writer.multiply(at[letter], strides[letter]))
            return _Matrix(x.buffer, start, strides[outer[-1]], inner == high)
    return None


def _matrix(
    block: Block, factors: Sequence[Factor], sizes: Sizes, high: str, wide: str, at: Sizes, room: Sizes = _NOTHING
) -> _Matrix:
    """The matrix of the products of some factors, in place or copied.

    Args:
        block: Where it is written.
        factors: The factors.
        sizes: The size of each letter.
        high: The letters of its rows.
        wide: The letters of its columns.
        at: The index along other axes; for a letter of the matrix, where its rows or columns begin.
        room: The sizes that a copy has room for, where they are not those of `sizes`.
    """
    writer = block.writer
    matrix = _in_place(writer, factors[0], high, wide, at) if len(factors) == 1 else None
    if matrix is not None:
        return matrix
    last = [letter for _, term in factors for letter in term if letter in high + wide][-1]
    inner, outer = (high, wide) if last in high else (wide, high)
    dims = [{**sizes, **room}[letter] for letter in outer + inner]
    copy = block.temporary(factors[0][0].dtype, dims)
    with writer.nest([sizes[letter] for letter in outer + inner]) as index:
        own = {
            letter: writer.add(at.get(letter, 0), number) for letter, number in zip(outer + inner, index, strict=True)
        }
        entry, *others = (x.read([{**at, **own}[letter] for letter in term]) for x, term in factors)
        for other in others:
            entry = writer.apply("multiply", [entry, other], copy.dtype, {})
        writer.store(memory_of(copy), writer.flat(index, dims), entry)
    return _Matrix(memory_of(copy), 0, writer.product(dims[len(outer) :]), inner == high)
