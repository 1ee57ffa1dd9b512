"""Products of arrays: by loops, or by BLAS if they are large."""

from collections.abc import Mapping, Sequence
from math import prod

from plica.backend.native.loops.arrays import Array, Value, moved
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.nest import Buffer, Copy, If, Index, Product, Put
from plica.backend.native.loops.support import PRODUCTS
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim

BLAS_FROM = 24**3
"""Products of fewer multiplications are loops: a call of BLAS, or code for blocks, costs about as much."""
_UNROLLED = 512
"""Products of known sizes with fewer multiplications keep their sums in registers."""
_TERMS = 4
"""Terms that are added to a row of a product at a time; a power of two."""
_ROWS = 4
"""Rows of a large product that are computed at a time, from entries that are read once; a power of two."""
_BATCH = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Factor = tuple[Array, str]
_Row = tuple[Mapping[str, Index], Buffer, Index]
"""A row of a result: its indices, and where its sums lie."""


def einsum(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """An Einstein sum."""
    left, _, result = equation.params["equation"].replace(" ", "").partition("->")
    return _contracted(block, equation, operands, left.split(","), result)


def matmul(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """A product of matrices, or vectors, in batches."""
    terms, ranks = [], [len(operand.type.shape) for operand in equation.inputs]
    batches = [max(rank - 2, 0) for rank in ranks]
    letters = _BATCH[: max(batches)]
    for rank, rank_of_batch, matrix in zip(ranks, batches, ("ik", "kj"), strict=True):
        terms.append(letters[len(letters) - rank_of_batch :] + (matrix if rank > 1 else "k"))
    result = letters + ("i" if ranks[0] > 1 else "") + ("j" if ranks[1] > 1 else "")
    return _contracted(block, equation, operands, terms, result)


def _contracted(block: Block, equation: Equation, operands: list[Value], terms: Sequence[str], result: str) -> Value:
    """The sum over all letters that the result lacks of the products of entries."""
    var, writer = equation.outputs[0], block.writer
    factors: list[Factor] = []
    numbers: list[Scalar] = []
    sizes: dict[str, Index] = {}
    known: dict[str, Dim] = {}
    for value, operand, term in zip(operands, equation.inputs, terms, strict=True):
        if not isinstance(value, Array):
            numbers.append(block.scalar(value))
            continue
        value = value if value.is_cheap else block.in_memory(value)
        factors.append(_with_distinct_letters(value, term))
        for letter, dim, size in zip(term, operand.type.shape, value.dims, strict=True):
            if known.get(letter, 1) == 1:
                known[letter], sizes[letter] = dim, size
    factors = [_without_unit_axes(x, term, known) for x, term in factors]
    target = block.new(var, block.dims(var.type)) if result else None
    contraction = _Contraction(block, factors, numbers, sizes, result, var.type.dtype)
    if target is None:
        return contraction.total({})
    count = writer.product([sizes[letter] for letter in sizes])
    is_small = isinstance(count, int) and count < BLAS_FROM
    product = None if block.in_file else contraction.as_matrices()
    if is_small or product is None:
        contraction.loops(target, in_blocks=block.in_file and not is_small)
    elif isinstance(count, int):
        product.put(target)
    else:
        with writer.into([]) as small:
            contraction.loops(target)
        with writer.into([]) as large:
            product.put(target)
        writer.put(If(writer.compare("less", count, BLAS_FROM), small, large))
    return target


def _with_distinct_letters(x: Array, term: str) -> Factor:
    """A factor with distinct letters: a repeated letter reads the diagonal."""
    if len(set(term)) == len(term):
        return x, term
    letters = "".join(dict.fromkeys(term))
    axes = [letters.index(letter) for letter in term]
    dims = [x.dims[term.index(letter)] for letter in letters]
    return moved(x, dims, lambda index: [index[axis] for axis in axes]), letters


def _without_unit_axes(x: Array, term: str, known: Mapping[str, Dim]) -> Factor:
    """A factor without the axes of size 1 that are broadcast."""
    axes = [index for index, letter in enumerate(term) if x.dims[index] != 1 or known[letter] == 1]
    if len(axes) == len(term):
        return x, term
    rank = len(term)

    def index(index_of_result: Sequence[Index]) -> list[Index]:
        x_index: list[Index] = [0] * rank
        for axis, number in zip(axes, index_of_result, strict=True):
            x_index[axis] = number
        return x_index

    return moved(x, [x.dims[axis] for axis in axes], index), "".join(term[axis] for axis in axes)


class _Matrices:
    """A product of two matrices by BLAS."""

    def __init__(self, block: Block, factors: Sequence[Factor], sizes: tuple[Index, Index, Index], rows: str) -> None:
        self._block, self._factors, self._sizes, self._rows = block, factors, sizes, rows

    def put(self, target: Array) -> None:
        """Write the product to the memory of `target`."""
        block = self._block
        outside = block.temporaries
        block.temporaries = []
        parts = [block.in_memory(x) for x, _ in self._factors]
        row, column = self._rows[0], self._rows[1]
        turned = (self._factors[0][1][0] != row, self._factors[1][1][1] != column)
        to, left, right = ((_buffer(array), array.start) for array in (target, *parts))
        block.writer.put(Product(to, left, right, self._sizes, turned))
        block.free_temporaries()
        block.temporaries = outside


def _buffer(x: Array) -> Buffer:
    assert x.buffer is not None, "it lies in memory"
    return x.buffer


class _Contraction:
    """A sum of products.

    Args:
        block: The block of the equation.
        factors: Arrays and the letters of their axes.
        numbers: Factors that are scalars.
        sizes: The size of each letter.
        result: The letters of the result.
        dtype: Its dtype.
    """

    def __init__(
        self,
        block: Block,
        factors: Sequence[Factor],
        numbers: Sequence[Scalar],
        sizes: Mapping[str, Index],
        result: str,
        dtype: DType,
    ) -> None:
        self._block, self._factors, self._numbers = block, factors, numbers
        self._sizes, self._result, self._dtype = sizes, result, dtype
        self._summed = [letter for letter in sizes if letter not in result]

    def _entries(self, number_of_letter: Mapping[str, Index]) -> list[Scalar]:
        arrays = [x.read([number_of_letter[letter] for letter in term]) for x, term in self._factors]
        return [*self._numbers, *arrays]

    def _added(self, total: Scalar, number_of_letter: Mapping[str, Index]) -> Scalar:
        writer = self._block.writer
        first, *others = self._entries(number_of_letter)
        for factor in others[:-1]:
            first = writer.apply("multiply", [first, factor], self._dtype, {})
        return (
            writer.compute("sum_product", total, first, others[-1]) if others else writer.compute("sum", total, first)
        )

    def total(self, number_of_letter: Mapping[str, Index]) -> Scalar:
        """One entry of the result."""
        writer = self._block.writer
        if not self._summed:
            first, *others = self._entries(number_of_letter)
            for factor in others:
                first = writer.apply("multiply", [first, factor], self._dtype, {})
            return first
        cell = writer.cell(self._dtype)
        writer.put(Put(cell, writer.number(0, self._dtype)))
        with writer.nest([self._sizes[letter] for letter in self._summed]) as steps:
            inner = {**number_of_letter, **dict(zip(self._summed, steps, strict=True))}
            writer.put(Put(cell, self._added(writer.get(cell), inner)))
        return writer.get(cell)

    def loops(self, target: Array, *, in_blocks: bool = False) -> None:
        """The result, by loops; `in_blocks` several rows are computed at a time, which takes more code."""
        writer, buffer = self._block.writer, target.buffer
        assert buffer is not None, "it is new memory"
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
        """A letter of the result whose rows share all factors that have the last letter; None if there is none."""
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
                self._add_up([(at, _buffer(target), self._begin(target, at))])
                return
            blocks = writer.shift_right(self._sizes[shared], _ROWS.bit_length() - 1)
            with writer.loop(blocks) as block:
                first = writer.multiply(block, _ROWS)
                rows = [{**at, shared: writer.add(first, index)} for index in range(_ROWS)]
                self._add_up([(row, _buffer(total), 0) for row, total in zip(rows, sums, strict=True)])
                for row, total in zip(rows, sums, strict=True):
                    writer.put(Copy(_buffer(target), self._begin(target, row), _buffer(total), 0, width))
            with writer.loop(self._sizes[shared], writer.multiply(blocks, _ROWS)) as index:
                at[shared] = index
                self._add_up([(at, _buffer(target), self._begin(target, at))])

    def _begin(self, target: Array, at: Mapping[str, Index]) -> Index:
        """Where a row of the result begins."""
        writer, outside = self._block.writer, self._result[:-1]
        row = writer.flat([at[letter] for letter in outside], [self._sizes[letter] for letter in outside])
        return writer.add(target.start, writer.multiply(row, self._sizes[self._result[-1]]))

    def _add_up(self, rows: Sequence[_Row]) -> None:
        """Rows of the result, each in memory of its own."""
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

    def as_matrices(self) -> _Matrices | None:
        """The contraction as a product of two matrices of floats; None if it is none."""
        if len(self._factors) != 2 or self._numbers or len(self._result) != 2 or len(self._summed) != 1:
            return None
        (_, left), (_, right) = self._factors
        row, column = self._result[0], self._result[1]
        (step,) = self._summed
        if set(left) != {row, step} or set(right) != {step, column} or self._dtype not in PRODUCTS:
            return None
        sizes = (self._sizes[row], self._sizes[column], self._sizes[step])
        return _Matrices(self._block, self._factors, sizes, self._result)


LINALG: dict[str, Row] = {"matmul": matmul, "einsum": einsum}
