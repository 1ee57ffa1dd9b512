"""Products of matrices and vectors, Einstein sums, norms and diagonals."""

from collections.abc import Callable, Sequence

from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.values import Value, joined
from plica.ir.sizes import Dim
from plica.ops.linalg import diagonal_size

_EXACT = "#stablehlo<precision HIGHEST>"  # by default some machines round operands to fewer digits


def product(x: Value, y: Value, batch: Sequence[tuple[int, int]], summed: Sequence[tuple[int, int]]) -> Value:
    """Sums of products; `batch` and `summed` are pairs of an axis of `x` and one of `y`.

    Shapes: the result has the axes of `batch`, the other axes of `x`, and the other axes of `y`.
    """
    sides = [[list(axes) for axes in zip(*pairs, strict=True)] or [[], []] for pairs in (batch, summed)]
    (left, right), (over, under) = sides
    x_dims = [dim for axis, dim in enumerate(x.shape) if axis not in (*left, *over)]
    y_dims = [dim for axis, dim in enumerate(y.shape) if axis not in (*right, *under)]
    shape = (*(x.shape[axis] for axis in left), *x_dims, *y_dims)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {left}, rhs_batching_dimensions = {right}, "
        f"lhs_contracting_dimensions = {over}, rhs_contracting_dimensions = {under}>"
    )
    attributes = {"dot_dimension_numbers": numbers, "precision_config": f"[{_EXACT}, {_EXACT}]"}
    return Value(x.code, x.code.apply("dot_general", [x.tensor, y.tensor], shape, x.dtype, attributes))


def einsum(equation: str, operands: Sequence[Value]) -> Value:
    """An explicit Einstein sum, two operands at a time from the left."""
    left, _, result = equation.replace(" ", "").partition("->")
    terms = [diagonals(term, x) for term, x in zip(left.split(","), operands, strict=True)]
    letters, x = terms[0]
    for number, (other_letters, y) in enumerate(terms[1:], 2):
        later = result + "".join(term for term, _ in terms[number:])
        letters, x = _pair(letters, x, other_letters, y, later)
    letters, x = _summed(letters, x, result)
    return x.transpose([letters.index(letter) for letter in result])


def diagonals(term: str, x: Value, neutral: complex = 0, reduce: Callable[..., Value] = Value.sum) -> tuple[str, Value]:
    """An operand whose letters are distinct: the diagonal along axes of one letter, by a reduction over one of them."""
    for letter in sorted(set(term)):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            x = reduce(x.iota(first).equals(x.iota(second)).where(x, neutral), (second,))
            term = term[:second] + term[second + 1 :]
    return term, x


def _summed(letters: str, x: Value, wanted: str) -> tuple[str, Value]:
    axes = [axis for axis, letter in enumerate(letters) if letter not in wanted]
    return "".join(letter for letter in letters if letter in wanted), x.sum(axes) if axes else x


def _pair(letters: str, x: Value, other_letters: str, y: Value, later: str) -> tuple[str, Value]:
    letters, x = _summed(letters, x, other_letters + later)
    other_letters, y = _summed(other_letters, y, letters + later)
    common = [letter for letter in letters if letter in other_letters]
    batch = [(letters.index(letter), other_letters.index(letter)) for letter in common if letter in later]
    summed = [(letters.index(letter), other_letters.index(letter)) for letter in common if letter not in later]
    joint = "".join(letter for letter in common if letter in later)
    separate = "".join(letter for letter in letters if letter not in common) + "".join(
        letter for letter in other_letters if letter not in common
    )
    return joint + separate, product(x, y, batch, summed)


def batched(x: Value, y: Value, rank: int) -> tuple[str, list[str], list[Value]]:
    """Letters for the batch axes of two operands; these are all axes but the last `rank`, and are broadcast.

    Returns: the letters of the result, those of each operand, and the operands without the axes that are broadcast.
    """
    shapes = [matrix.shape[: max(matrix.rank - rank, 0)] for matrix in (x, y)]
    letters = "abcdefghij"[: max(map(len, shapes))]
    terms, operands = [], []
    for value, shape, other_shape in ((x, shapes[0], shapes[1]), (y, shapes[1], shapes[0])):
        dropped = [axis for axis, dim in enumerate(shape) if _is_repeated(dim, other_shape, len(shape) - axis)]
        mine = letters[len(letters) - len(shape) :]
        terms.append("".join(letter for axis, letter in enumerate(mine) if axis not in dropped))
        operands.append(value.drop(*dropped) if dropped else value)
    return letters, terms, operands


def _is_repeated(dim: Dim, other_shape: Sequence[Dim], from_end: int) -> bool:
    return dim == 1 and from_end <= len(other_shape) and other_shape[-from_end] != 1


def _matmul(a: Value, b: Value) -> Value:
    letters, (left, right), operands = batched(a, b, 2)
    left += "k" if a.rank == 1 else "mk"
    right += "k" if b.rank == 1 else "kn"
    result = letters + ("m" if a.rank > 1 else "") + ("n" if b.rank > 1 else "")
    return einsum(f"{left},{right}->{result}", operands)


def _diagonal(x: Value, *, offset: int) -> Value:
    rows, columns = x.shape[-2:]
    indices = x.iota(0, (diagonal_size(rows, columns, offset),))
    above, below = max(offset, 0), max(-offset, 0)
    vectors = joined([(indices + below).expand(-1), (indices + above).expand(-1)], -1)
    return x.read(vectors, [x.rank - 2, x.rank - 1], range(x.rank - 2))


LINALG: dict[str, Row] = {
    "diagonal": of(_diagonal),
    "einsum": of(lambda *operands, equation: einsum(equation, operands)),
    "matmul": of(_matmul),
}
