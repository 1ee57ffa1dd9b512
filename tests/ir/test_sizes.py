"""Sizes: polynomials in normal form behave as integers do, whatever the integers are."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import ShapeError
from plica.ir.program import Var
from plica.ir.sizes import (
    Dim,
    Size,
    atoms,
    evaluate,
    floor_divide,
    is_nonnegative_by_cases,
    opaque,
    product,
    remainder,
    same,
    substitute,
    total,
)
from plica.ir.types import SCALAR_SIZE, DBIdx
from tests.harness.together import grouped

N, M, K = (Size.of(DBIdx(index)) for index in range(3))
VALUES = st.fixed_dictionaries({DBIdx(index): st.integers(-4, 9) for index in range(3)})
OPERATIONS: dict[str, Any] = {
    "+": (lambda a, b: a + b),
    "-": (lambda a, b: a - b),
    "*": (lambda a, b: a * b),
    "//": (lambda a, b: a // b),
    "%": (lambda a, b: a % b),
    "min": min,
    "max": max,
}
SYMBOLIC: dict[str, Any] = {
    **OPERATIONS,
    "//": floor_divide,
    **{name: (lambda a, b, name=name: opaque("mod" if name == "%" else name, a, b)) for name in ("%", "min", "max")},
}
LEAVES = st.sampled_from([DBIdx(0), DBIdx(1), DBIdx(2)]) | st.integers(-3, 4)


def _expressions(operations: tuple[str, ...]) -> st.SearchStrategy:
    return st.recursive(LEAVES, lambda inner: st.tuples(st.sampled_from(operations), inner, inner), max_leaves=6)


def _symbolic(expression) -> Dim:
    if isinstance(expression, tuple):
        operation, first, second = expression
        return SYMBOLIC[operation](_symbolic(first), _symbolic(second))
    return expression if isinstance(expression, int) else Size.of(expression)


def _number(expression, values) -> int:
    if isinstance(expression, tuple):
        operation, first, second = expression
        return OPERATIONS[operation](_number(first, values), _number(second, values))
    return expression if isinstance(expression, int) else values[expression]


@given(_expressions(("+", "-", "*")), VALUES)
def test_polynomials_are_their_values(expression, values) -> None:
    size = _symbolic(expression)
    assert evaluate(size, values.__getitem__) == _number(expression, values)
    assert isinstance(size, Size) == bool(list(atoms(size))), "a constant is an int, any other size has variables"


@given(_expressions(("+", "-", "*")), _expressions(("+", "-", "*")))
def test_exact_division_undoes_a_product(first, second) -> None:
    left, right = _symbolic(first), _symbolic(second)
    if right != 0:
        assert floor_divide(left * right, right) == left


@given(_expressions(tuple(OPERATIONS)), VALUES)
def test_opaque_functions_are_their_values(expression, values) -> None:
    try:
        expected = _number(expression, values)
        size = _symbolic(expression)
    except (ZeroDivisionError, ShapeError):
        return
    assert evaluate(size, values.__getitem__) == expected


@given(_expressions(("+", "-", "*")), _expressions(("+", "-", "*")))
def test_same_is_never_wrong(first, second) -> None:
    """Yes and no hold at every point of a grid; undecided sizes differ somewhere."""
    left, right = _symbolic(first), _symbolic(second)
    points: list[dict[Any, int]] = [
        {DBIdx(0): a, DBIdx(1): b, DBIdx(2): c} for a in (0, 1, 7) for b in (0, 2, 11) for c in (0, 3, 13)
    ]
    equal = [evaluate(left, point.__getitem__) == evaluate(right, point.__getitem__) for point in points]
    answer = same(left, right)
    if answer is not None:
        assert equal == [answer] * len(points)
    assert (answer is True) == (left == right)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (3, 3, True),
        (3, 4, False),
        (N, N, True),
        (N, N + 1, False),
        (N, M, None),
        (N, 3, None),
        (2 * N, N, None),
        ((N + 1) * (N - 1), N * N - 1, True),
        (N * M + 2, M * N, False),
        (opaque("max", N, M), opaque("max", N, M), True),
        (opaque("max", N, M), N, None),
    ],
)
def test_same(first: Dim, second: Dim, answer: bool | None) -> None:
    assert same(first, second) is answer
    assert same(second, first) is answer


@grouped(
    ("size", "text"),
    [
        (N + 1, "DBIdx(0)+1"),
        (1 - N, "-DBIdx(0)+1"),
        (N * N * 2 - M, "2*DBIdx(0)^2-DBIdx(1)"),
        (M * N, "DBIdx(0)*DBIdx(1)"),
        (N - N, "0"),
        (N * 0 + 5, "5"),
        (floor_divide(N, 2), "floordiv(DBIdx(0),2)"),
        (floor_divide(4 * N + 2, 2), "2*DBIdx(0)+1"),
        (floor_divide(4 * N + 1, 2), "2*DBIdx(0)"),
        (floor_divide(N + 2, 2), "floordiv(DBIdx(0),2)+1"),
        (floor_divide(1 - N, 2), "-DBIdx(0)+floordiv(DBIdx(0)+1,2)"),
        (floor_divide(N, -2), "-DBIdx(0)+floordiv(DBIdx(0),2)"),
        (floor_divide(2 * N + 3, 4), "floordiv(DBIdx(0)+1,2)"),
        (floor_divide(floor_divide(N, 2) + 1, 3), "floordiv(DBIdx(0)+2,6)"),
        (floor_divide(N + 3 * M, M), "floordiv(DBIdx(0),DBIdx(1))+3"),
        (floor_divide(remainder(N, 3), 3), "0"),
        (remainder(N + 2, 2), "mod(DBIdx(0),2)"),
        (remainder(2 * N + 1, 2), "1"),
        (remainder(6 * N + 7, 4), "2*mod(DBIdx(0)+1,2)+1"),
        (remainder(N, -3), "-mod(2*DBIdx(0),3)"),
        (remainder(remainder(N, 6) + 1, 3), "mod(DBIdx(0)+1,3)"),
        (remainder(remainder(N, 3), 5), "mod(DBIdx(0),3)"),
        (remainder(N + 3 * M, M), "mod(DBIdx(0),DBIdx(1))"),
        (floor_divide(N, -1), "-DBIdx(0)"),
        (floor_divide(N * M, N * M), "1"),
        (floor_divide(N, M), "floordiv(DBIdx(0),DBIdx(1))"),
        (floor_divide(7, 2), "3"),
        (floor_divide(N * M, N), "DBIdx(1)"),
        (floor_divide((N + 1) * (M + 2) * 3, M + 2), "3*DBIdx(0)+3"),
        (floor_divide(N * N - M * M, N - M), "DBIdx(0)+DBIdx(1)"),
        (floor_divide(N * N + 1, N), "DBIdx(0)+floordiv(1,DBIdx(0))"),
        (floor_divide(N, 2 * N), "floordiv(DBIdx(0),2*DBIdx(0))"),
        (floor_divide(0, N), "0"),
        (floor_divide(3, N), "floordiv(3,DBIdx(0))"),
        (opaque("min", 3, 2), "2"),
        (total([N, M, 1]), "DBIdx(0)+DBIdx(1)+1"),
        (product([N, 2, M]), "2*DBIdx(0)*DBIdx(1)"),
        (product([]), "1"),
        (substitute(N * N + M, lambda atom: M + 1 if atom == DBIdx(0) else 2), "DBIdx(1)^2+2*DBIdx(1)+3"),
        (substitute(floor_divide(N, M), lambda atom: 2 * K if atom == DBIdx(0) else 2), "DBIdx(2)"),
    ],
)
def test_text_of_normal_forms(size: Dim, text: str) -> None:
    assert str(size) == text


# sizes of axes, which are never negative
AXES = [Var(name, SCALAR_SIZE, is_size=True) for name in "nm"]
ROWS, COLUMNS = map(Size.of, AXES)


@given(_expressions(("+", "-", "*", "min", "max")), st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_what_is_said_to_be_nonnegative_is(expression, numbers) -> None:
    values: dict[Any, int] = dict(zip(AXES, numbers, strict=False))
    dims = {DBIdx(0): ROWS, DBIdx(1): COLUMNS, DBIdx(2): numbers[2]}
    size = substitute(_symbolic(expression), dims.__getitem__)  # type: ignore[arg-type]  # no other atoms are drawn
    if is_nonnegative_by_cases(size):
        assert evaluate(size, values.__getitem__) >= 0


CLIPPED = opaque("min", ROWS, 3) - opaque("min", ROWS, 1)  # as in x[1:3]


@pytest.mark.parametrize(
    ("size", "answer"),
    [
        (opaque("min", ROWS, 1), True),
        (CLIPPED, True),
        (ROWS - opaque("min", ROWS, 3), True),
        (opaque("max", ROWS, COLUMNS) - COLUMNS, True),
        (ROWS + COLUMNS - opaque("max", ROWS, COLUMNS), True),
        (ROWS - COLUMNS, False),
        (opaque("min", ROWS, COLUMNS) - 1, False),
        (1 - CLIPPED, False),
        (opaque("max", ROWS - 1, 0) * COLUMNS - 1, False),
    ],
    ids=str,
)
def test_minima_and_maxima_are_nonnegative_by_cases(size: Dim, answer: bool) -> None:
    assert is_nonnegative_by_cases(size) is answer


def test_atoms_are_found_within_opaque_functions_in_order() -> None:
    assert list(atoms(K * 2 + floor_divide(M, N + 1))) == [DBIdx(2), DBIdx(1), DBIdx(0)]


def test_equal_sizes_hash_alike_and_survive_pickling() -> None:
    first, second = N * M + N + 1, 1 + N * (1 + M)
    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == second


def test_a_size_is_no_number_of_python() -> None:
    with pytest.raises(ShapeError, match=r"whether the size DBIdx\(0\) is zero is not known"):
        bool(N)
    with pytest.raises(ShapeError, match="cannot be a Python integer"):
        range(N)
    with pytest.raises(ShapeError, match=r"DBIdx\(0\) is divided by zero"):
        floor_divide(N, 0)
    with pytest.raises(TypeError):
        N * 0.5  # type: ignore[operator]
