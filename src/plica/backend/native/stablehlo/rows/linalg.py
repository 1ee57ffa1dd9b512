"""Products of matrices and vectors, Einstein sums, norms and diagonals."""

from collections.abc import Sequence

from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.values import Value, joined
from plica.ir.sizes import Dim
from plica.ops.linalg import diagonal_size

_EXACT = "#stablehlo<precision HIGHEST>"  # else some machines round operands to fewer digits


def product(x: Value, y: Value, batch: Sequence[tuple[int, int]], summed: Sequence[tuple[int, int]]) -> Value:
    """Sums of products: axes in `batch` go together, those in `summed` are summed over; pairs of axes of both.

    Shapes: the result has the axes of `batch`, the other ones of `x`, and the other ones of `y`.
    """
    sides = [[list(axes) for axes in zip(*pairs, strict=True)] or [[], []] for pairs in (batch, summed)]
    (left, right), (over, under) = sides
    rest = [dim for axis, dim in enumerate(x.shape) if axis not in (*left, *over)]
    others = [dim for axis, dim in enumerate(y.shape) if axis not in (*right, *under)]
    shape = (*(x.shape[axis] for axis in left), *rest, *others)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {left}, rhs_batching_dimensions = {right}, "
        f"lhs_contracting_dimensions = {over}, rhs_contracting_dimensions = {under}>"
    )
    attributes = {"dot_dimension_numbers": numbers, "precision_config": f"[{_EXACT}, {_EXACT}]"}
    return Value(x.code, x.code.apply("dot_general", [x.tensor, y.tensor], shape, x.dtype, attributes))


def einsum(equation: str, operands: Sequence[Value]) -> Value:
    """An explicit Einstein sum, two operands at a time from the left."""
    left, _, result = equation.replace(" ", "").partition("->")
    terms = [_diagonals(term, x) for term, x in zip(left.split(","), operands, strict=True)]
    letters, x = terms[0]
    for place, (others, y) in enumerate(terms[1:], 2):
        later = result + "".join(term for term, _ in terms[place:])
        letters, x = _pair(letters, x, others, y, later)
    letters, x = _summed(letters, x, result)
    return x.transpose([letters.index(letter) for letter in result])


def _diagonals(term: str, x: Value) -> tuple[str, Value]:
    """An operand without repeated letters."""
    for letter in sorted(set(term)):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            x = x.iota(first).equals(x.iota(second)).where(x, 0).sum((second,))
            term = term[:second] + term[second + 1 :]
    return term, x


def _summed(letters: str, x: Value, kept: str) -> tuple[str, Value]:
    axes = [place for place, letter in enumerate(letters) if letter not in kept]
    return "".join(letter for letter in letters if letter in kept), x.sum(axes) if axes else x


def _pair(letters: str, x: Value, others: str, y: Value, later: str) -> tuple[str, Value]:
    letters, x = _summed(letters, x, others + later)
    others, y = _summed(others, y, letters + later)
    common = [letter for letter in letters if letter in others]
    batch = [(letters.index(letter), others.index(letter)) for letter in common if letter in later]
    summed = [(letters.index(letter), others.index(letter)) for letter in common if letter not in later]
    joint = "".join(letter for letter in common if letter in later)
    rest = "".join(letter for letter in letters if letter not in common) + "".join(
        letter for letter in others if letter not in common
    )
    return joint + rest, product(x, y, batch, summed)


def batched(x: Value, y: Value, rank: int) -> tuple[str, list[str], list[Value]]:
    """Letters for the batch axes of two operands, all but `rank` of each, which broadcast.

    Returns: the letters of the result, those of each operand, and the operands without axes that the other repeats.
    """
    shapes = [matrix.shape[: max(matrix.rank - rank, 0)] for matrix in (x, y)]
    letters = "abcdefghij"[: max(map(len, shapes))]
    terms, operands = [], []
    for value, shape, other in ((x, shapes[0], shapes[1]), (y, shapes[1], shapes[0])):
        repeated = [place for place, dim in enumerate(shape) if _is_repeated(dim, other, len(shape) - place)]
        mine = letters[len(letters) - len(shape) :]
        terms.append("".join(letter for place, letter in enumerate(mine) if place not in repeated))
        operands.append(value.drop(*repeated) if repeated else value)
    return letters, terms, operands


def _is_repeated(dim: Dim, other: Sequence[Dim], from_end: int) -> bool:
    return dim == 1 and from_end <= len(other) and other[-from_end] != 1


def _matmul(a: Value, b: Value) -> Value:
    letters, (left, right), operands = batched(a, b, 2)
    left += "k" if a.rank == 1 else "mk"
    right += "k" if b.rank == 1 else "kn"
    result = letters + ("m" if a.rank > 1 else "") + ("n" if b.rank > 1 else "")
    return einsum(f"{left},{right}->{result}", operands)


def _diagonal(x: Value, *, offset: int) -> Value:
    rows, columns = x.shape[-2:]
    places = x.iota(0, (diagonal_size(rows, columns, offset),))
    above, below = max(offset, 0), max(-offset, 0)
    vectors = joined([(places + below).expand(-1), (places + above).expand(-1)], -1)
    return x.read(vectors, [x.rank - 2, x.rank - 1], range(x.rank - 2))


LINALG: dict[str, Row] = {
    "diagonal": of(_diagonal),
    "einsum": of(lambda *operands, equation: einsum(equation, operands)),
    "matmul": of(_matmul),
}
