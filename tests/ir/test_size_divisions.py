"""Floor divisions and remainders of sizes: the normal form has the value, and decides what is equal."""

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plica.errors import ShapeError
from plica.ir.sizes import Dim, Size, evaluate, floor_divide, is_nonnegative, opaque, remainder, same, substitute
from plica.ir.types import DBIdx

N, M = Size.of(DBIdx(0)), Size.of(DBIdx(1))
VALUES = st.fixed_dictionaries({DBIdx(0): st.integers(-9, 12), DBIdx(1): st.integers(-9, 12)})
DIVISORS = st.integers(-7, 7).filter(bool)
POLYNOMIALS = st.builds(
    lambda a, b, c, d: a * N + b * M + c * N * M + d, *[st.integers(-6, 6)] * 3, st.integers(-20, 20)
)
APPLY: dict[str, Any] = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}


def _nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    applied = st.builds(opaque, st.sampled_from(["floordiv", "mod"]), inner, DIVISORS)
    return applied | st.builds(lambda a, b, c: c * a + b, inner, inner, st.integers(-3, 3))


SIZES = st.recursive(POLYNOMIALS, _nested, max_leaves=3)


def _at(size: Dim, values: Any) -> int:
    return evaluate(size, values.__getitem__)


@given(st.sampled_from(["floordiv", "mod"]), SIZES, DIVISORS, VALUES)
def test_the_normal_form_has_the_value(function: str, size: Dim, divisor: int, values: Any) -> None:
    """Also where differences are negative and divisors are."""
    assert _at(opaque(function, size, divisor), values) == APPLY[function](_at(size, values), divisor)


@given(st.sampled_from(["floordiv", "mod"]), SIZES, POLYNOMIALS, VALUES)
@example("mod", 2 * N + 1, -2 * M, {DBIdx(0): 3, DBIdx(1): 2})
def test_so_it_has_where_the_divisor_is_a_size(function: str, size: Dim, divisor: Dim, values: Any) -> None:
    assume(divisor != 0 and _at(divisor, values) != 0)
    assert _at(opaque(function, size, divisor), values) == APPLY[function](_at(size, values), _at(divisor, values))


@given(SIZES, SIZES, DIVISORS)
def test_whole_multiples_of_the_divisor_come_out(size: Dim, times: Dim, divisor: int) -> None:
    assert floor_divide(size + times * divisor, divisor) == floor_divide(size, divisor) + times
    assert remainder(size + times * divisor, divisor) == remainder(size, divisor)


@given(POLYNOMIALS, st.integers(1, 6), st.integers(1, 6), st.integers(0, 5))
def test_a_common_factor_is_cancelled(size: Dim, factor: int, divisor: int, rest: int) -> None:
    low = rest % factor
    assert floor_divide(size * factor + low, divisor * factor) == floor_divide(size, divisor)
    assert remainder(size * factor + low, divisor * factor) == remainder(size, divisor) * factor + low


@given(SIZES, st.integers(1, 6), st.integers(1, 6))
def test_divisions_of_divisions_are_one(size: Dim, first: int, second: int) -> None:
    assert floor_divide(floor_divide(size, first), second) == floor_divide(size, first * second)
    assert remainder(remainder(size, first * second), first) == remainder(size, first)


@given(SIZES, SIZES, st.lists(VALUES, min_size=1, max_size=8))
def test_what_is_decided_holds(first: Dim, second: Dim, points: list[Any]) -> None:
    answer = same(first, second)
    for values in points if answer is not None else ():
        assert (_at(first, values) == _at(second, values)) is answer


@given(SIZES, DIVISORS)
def test_the_normal_form_is_one(size: Dim, divisor: int) -> None:
    """What is normal stays as it is when it is built again from its parts."""
    for function in ("floordiv", "mod"):
        found = opaque(function, size, divisor)
        assert substitute(found, Size.of) == found


EQUAL = (
    (floor_divide(N + 2, 2), floor_divide(N, 2) + 1),
    (floor_divide(2 * N + 1, 2), N),
    (floor_divide(N * 4, 2), 2 * N),
    (floor_divide(N + M * 3, 3), floor_divide(N, 3) + M),
    (floor_divide(M + N * 3, N), floor_divide(M, N) + 3),
    (floor_divide(floor_divide(N, 2), 2), floor_divide(N, 4)),
    (floor_divide(floor_divide(N + 1, 2) + 1, 2), floor_divide(N + 3, 4)),
    (remainder(N + 2, 2), remainder(N, 2)),
    (remainder(M + N * 3, N), remainder(M, N)),
)


@pytest.mark.parametrize(("first", "second"), EQUAL, ids=range(len(EQUAL)))
def test_equalities_that_are_decided(first: Dim, second: Dim) -> None:
    assert same(first, second) is True


DIFFERENT = (
    # two sizes, whether it is known that they differ
    (floor_divide(N + 2, 2), floor_divide(N, 2), False),
    (floor_divide(N + 1, 2), floor_divide(N, 2), None),
    (floor_divide(2 * N + 2, 2), N, False),
    (remainder(N + 1, 2), remainder(N, 2), None),
)


@pytest.mark.parametrize(("first", "second", "answer"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_is_not_equal_is_not_said_to_be(first: Dim, second: Dim, answer: bool | None) -> None:
    assert same(first, second) is answer


def test_remainders_by_a_size_are_never_negative() -> None:
    assert is_nonnegative(remainder(N - M, 3))
    assert not is_nonnegative(remainder(N, -3))
    with pytest.raises(ShapeError, match=r"DBIdx\(0\) is divided by zero"):
        remainder(N, 0)
