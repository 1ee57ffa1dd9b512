"""Linear equations and determinants by elimination with row exchanges, and Cholesky's factorization.

Matrices are in the last two axes. A matrix without a result gives NaN: a singular one or, for Cholesky's factorization,
one that is not positive definite. The other matrices of its batch get their results.
"""

from collections.abc import Callable, Iterator, Sequence
from math import nan

from plica.backend.native.loops.arrays import Array, Value, fill
from plica.backend.native.loops.block import Block, Row
from plica.backend.native.loops.decomposed import of_reals
from plica.backend.native.loops.nest import Buffer, Cell, Index, Put
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType
from plica.ir.program import Equation
from plica.ir.sizes import Dim
from plica.ops.rules import broadcast

_FEW = 2  # the most rows or columns for which loops are unrolled


class _Matrix:
    """A matrix in memory.

    Args:
        block: The block of the equation.
        buffer: Its buffer.
        start: Its first entry there.
        columns: The length of its rows.
    """

    def __init__(self, block: Block, buffer: Buffer, start: Index, columns: Index) -> None:
        self._writer, self._buffer, self._start, self._columns = block.writer, buffer, start, columns

    def _offset(self, row: Index, column: Index) -> Index:
        writer = self._writer
        return writer.add(self._start, writer.add(writer.multiply(row, self._columns), column))

    def __getitem__(self, position: tuple[Index, Index]) -> Scalar:
        return self._writer.load(self._buffer, self._offset(*position))

    def __setitem__(self, position: tuple[Index, Index], value: Scalar) -> None:
        self._writer.store(self._buffer, self._offset(*position), value)


def _steps(block: Block, upper: Index, lower: Index = 0) -> Iterator[Index]:
    """The indices of a loop, or of its unrolled iterations if they are few, which is less code."""
    if isinstance(lower, int) and isinstance(upper, int) and upper - lower <= _FEW:
        yield from range(lower, upper)
    else:
        with block.writer.loop(upper, lower) as index:
            yield index


def _eliminated(
    block: Block, a: _Matrix, size: Index, dtype: DType, right_sides: Sequence[tuple[_Matrix, Index]]
) -> tuple[Cell, Cell]:
    """Make `a` upper triangular, and apply the same row operations to the right sides.

    Returns:
        The sign of the row exchanges, and whether a pivot is 0.
    """
    writer = block.writer
    sign, singular = writer.cell(dtype), writer.cell(DType.BOOL)
    writer.put(Put(sign, writer.number(1, dtype)))
    writer.put(Put(singular, writer.number(False, DType.BOOL)))
    for step in _steps(block, size):
        following = writer.add(step, 1)
        if following != size:
            _exchanged(block, a, size, dtype, step, right_sides, sign)
        divisor = a[step, step]
        is_zero = writer.compare("equal", divisor, writer.number(0, dtype))
        writer.put(Put(singular, writer.compute("or", writer.get(singular), is_zero)))
        for row in _steps(block, size, following):
            factor = writer.compute("divide", a[row, step], divisor)
            factor = writer.select(is_zero, writer.number(0, dtype), factor)
            for column in _steps(block, size, following):
                a[row, column] = _minus_product(block, a[row, column], factor, a[step, column])
            for matrix, columns in right_sides:
                for column in _steps(block, columns):
                    matrix[row, column] = _minus_product(block, matrix[row, column], factor, matrix[step, column])
    return sign, singular


def _exchanged(
    block: Block,
    a: _Matrix,
    size: Index,
    dtype: DType,
    step: Index,
    right_sides: Sequence[tuple[_Matrix, Index]],
    sign: Cell,
) -> None:
    """Exchange row `step` with the row below whose entry in column `step` is largest."""
    writer = block.writer
    has_larger, pivot = _pivot(block, a, size, dtype, step)
    with writer.when(has_larger):
        writer.put(Put(sign, writer.compute("negate", writer.get(sign))))
        for matrix, columns in ((a, size), *right_sides):
            for column in _steps(block, columns):
                upper, lower = matrix[step, column], matrix[pivot, column]
                matrix[step, column] = lower
                matrix[pivot, column] = upper


def _pivot(block: Block, a: _Matrix, size: Index, dtype: DType, step: Index) -> tuple[Scalar, Index]:
    """Whether a row below `step` has a larger entry, and the row of the largest one."""
    writer = block.writer
    following, largest = writer.add(step, 1), writer.compute("absolute", a[step, step])
    if isinstance(size, int) and following == size - 1:
        return writer.compare("greater", writer.compute("absolute", a[following, step]), largest), following
    best, pivot_row = writer.cell(dtype, largest), writer.cell(DType.INT64, step)
    for row in _steps(block, size, following):
        value = writer.compute("absolute", a[row, step])
        is_larger = writer.compare("greater", value, writer.get(best))
        writer.put(Put(best, writer.select(is_larger, value, writer.get(best))))
        writer.put(Put(pivot_row, writer.select(is_larger, row, writer.get(pivot_row))))
    pivot = writer.get(pivot_row)
    return writer.compare("not_equal", pivot, step), pivot


def _minus_product(block: Block, total: Scalar, factor: Scalar, value: Scalar) -> Scalar:
    """The difference total - factor * value."""
    writer = block.writer
    return writer.compute("subtract", total, writer.compute("multiply", factor, value))


def _solved(block: Block, a: _Matrix, size: Index, b: _Matrix, columns: Index, dtype: DType) -> None:
    """Solve a x = b in place."""
    writer = block.writer
    _, singular = _eliminated(block, a, size, dtype, [(b, columns)])
    last = writer.subtract(size, 1)
    for step in _steps(block, size):
        row = writer.subtract(last, step)
        for below in _steps(block, size, writer.add(row, 1)):
            for column in _steps(block, columns):
                b[row, column] = _minus_product(block, b[row, column], a[row, below], b[below, column])
        for column in _steps(block, columns):
            b[row, column] = writer.compute("divide", b[row, column], a[row, row])
    with writer.when(writer.get(singular)):
        for row in _steps(block, size):
            for column in _steps(block, columns):
                b[row, column] = writer.number(nan, dtype)


def _batched(block: Block, x: Array, run: Callable[[_Matrix, Index, Sequence[Index]], None]) -> None:
    """Call `run` for a copy of each matrix, with its number and its index in the batch."""
    writer = block.writer
    rows, columns = x.dims[-2:]
    with writer.nest(x.dims[:-2]) as outer, block.scratch():
        copy = block.temporary(x.dtype, (rows, columns))
        assert copy.buffer is not None, "it is new memory"
        with writer.nest((rows, columns)) as index:
            value = x.read([*outer, *index])
            writer.store(copy.buffer, writer.flat(index, (rows, columns)), value)
        run(_Matrix(block, copy.buffer, 0, columns), writer.flat(outer, x.dims[:-2]), outer)


def _spread(block: Block, x: Array, shape: tuple[Dim, ...], batch: tuple[Dim, ...]) -> Array:
    """Matrices broadcast along batch axes."""
    own_batch = shape[:-2]
    if own_batch == batch:
        return x
    missing = len(batch) - len(own_batch)

    def index(position: Sequence[Index]) -> list[Index]:
        outer = [0 if dim == 1 else index for index, dim in zip(position[missing : len(batch)], own_batch, strict=True)]
        return [*outer, *position[-2:]]

    dims = (*map(block.size, batch), *x.dims[-2:])
    return Array(dims, x.dtype, lambda position: x.read(index(position)), dict.fromkeys(x.reads, False), x.work)


def solve(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The solutions of linear equations."""
    a, b = operands
    assert isinstance(a, Array) and isinstance(b, Array), "they are matrices"  # noqa: PT018
    shapes = [operand.type.shape for operand in equation.inputs]
    batch = broadcast(shapes[0][:-2], shapes[1][:-2])
    a, b = (_spread(block, x, shape, batch) for x, shape in zip((a, b), shapes, strict=True))
    target = block.new(equation.outputs[0], b.dims)
    fill(block.writer, target, b)
    _in_batch(block, a, target)
    return target


def _in_batch(block: Block, a: Array, target: Array) -> None:
    writer, buffer = block.writer, target.buffer
    assert buffer is not None, "it is new memory"
    rows, columns = target.dims[-2:]

    def each(matrix: _Matrix, number: Index, _: Sequence[Index]) -> None:
        start = writer.add(target.start, writer.multiply(number, writer.multiply(rows, columns)))
        _solved(block, matrix, rows, _Matrix(block, buffer, start, columns), columns, a.dtype)

    _batched(block, a, each)


def inv(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """Inverses: the solutions for the columns of the identity."""
    writer, (x,) = block.writer, operands
    assert isinstance(x, Array), "it is a matrix"
    target = block.new(equation.outputs[0], x.dims)

    def identity(index: Sequence[Index]) -> Scalar:
        return writer.convert(writer.compare("equal", index[-2], index[-1]), x.dtype)

    fill(writer, target, Array(x.dims, x.dtype, identity, {}))
    _in_batch(block, x, target)
    return target


def _determinant(*, logarithm: bool) -> Row:
    def row(block: Block, equation: Equation, operands: list[Value]) -> Value | tuple[Value, ...]:
        writer, (x,) = block.writer, operands
        assert isinstance(x, Array), "it is a matrix"
        names = ("sign", "logarithm") if logarithm else ("product",)
        cells = {name: writer.cell(x.dtype) for name in names}
        batch = x.dims[:-2]
        targets = [block.new(var, batch) for var in equation.outputs] if batch else []

        def each(matrix: _Matrix, number: Index, _: Sequence[Index]) -> None:
            exchanges = _eliminated(block, matrix, x.dims[-1], x.dtype, [])[0]
            writer.put(Put(cells[names[0]], writer.get(exchanges)))
            if logarithm:
                writer.put(Put(cells["logarithm"], writer.number(0, x.dtype)))
            for step in _steps(block, x.dims[-1]):
                pivot = matrix[step, step]
                factor = writer.apply("sign", [pivot], x.dtype, {}) if logarithm else pivot
                total = writer.compute("multiply", writer.get(cells[names[0]]), factor)
                writer.put(Put(cells[names[0]], total))
                if logarithm:
                    term = writer.apply("log", [writer.compute("absolute", pivot)], x.dtype, {})
                    writer.put(Put(cells["logarithm"], writer.compute("add", writer.get(cells["logarithm"]), term)))
            for name, target in zip(names, targets, strict=False):
                assert target.buffer is not None, "it is new memory"
                writer.store(target.buffer, writer.add(target.start, number), writer.get(cells[name]))

        _batched(block, x, each)
        results = tuple(targets) if batch else tuple(writer.get(cells[name]) for name in names)
        return results if logarithm else results[0]

    return row


def cholesky(block: Block, equation: Equation, operands: list[Value]) -> Value:
    """The triangular factor of a positive definite matrix."""
    writer, (x,), upper = block.writer, operands, equation.params["upper"]
    assert isinstance(x, Array), "it is a matrix"
    size = x.dims[-1]
    target = block.new(equation.outputs[0], x.dims)
    buffer = target.buffer
    assert buffer is not None, "it is new memory"

    def each(matrix: _Matrix, number: Index, _: Sequence[Index]) -> None:
        start = writer.add(target.start, writer.multiply(number, writer.multiply(size, size)))
        result = _Matrix(block, buffer, start, size)
        is_definite, total = writer.cell(DType.BOOL), writer.cell(x.dtype)
        writer.put(Put(is_definite, writer.number(True, DType.BOOL)))
        zero = writer.number(0, x.dtype)
        with writer.loop(size) as row, writer.loop(size) as column:
            result[row, column] = zero
        with writer.loop(size) as row, writer.loop(writer.add(row, 1)) as column:
            writer.put(Put(total, matrix[column, row] if upper else matrix[row, column]))
            with writer.loop(column) as before:
                first, second = (
                    result[before, number] if upper else result[number, before] for number in (row, column)
                )
                writer.put(Put(total, _minus_product(block, writer.get(total), first, second)))
            value = writer.get(total)
            entry = (column, row) if upper else (row, column)
            is_diagonal = writer.compare("equal", row, column)
            is_positive = writer.compare("greater", value, zero)
            fails = writer.compute("and", is_diagonal, writer.compute("xor", is_positive, writer.number(1, DType.BOOL)))
            writer.put(
                Put(is_definite, writer.select(fails, writer.number(False, DType.BOOL), writer.get(is_definite)))
            )
            root = writer.compute("sqrt", value)
            quotient = writer.compute("divide", value, result[column, column])
            result[entry] = writer.select(is_diagonal, root, quotient)
        is_indefinite = writer.compute("xor", writer.get(is_definite), writer.number(True, DType.BOOL))
        with writer.when(is_indefinite), writer.loop(size) as row, writer.loop(size) as column:
            result[row, column] = writer.number(nan, x.dtype)

    _batched(block, x, each)
    return target


FACTORIZATIONS: dict[str, Row] = {
    "solve": of_reals(solve),
    "inv": of_reals(inv),
    "det": of_reals(_determinant(logarithm=False)),
    "slogdet": of_reals(_determinant(logarithm=True)),
    "cholesky": of_reals(cholesky),
}
