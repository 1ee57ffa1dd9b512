import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import DTypeError, InputError
from plica.symbolic.scope import Scope

variables = st.sets(st.integers(0, 200))


@given(variables, variables)
def test_agrees_with_sets(a: set[int], b: set[int]) -> None:
    x, y = Scope(a), Scope(b)
    assert list(x) == sorted(a)
    assert len(x) == len(a)
    assert set(x | y) == a | b
    assert set(x & y) == a & b == set(x.intersection(y))
    assert set(x - y) == a - b == set(x.difference(y))
    assert (x <= y, x < y, x >= y, x > y, x == y) == (a <= b, a < b, a >= b, a > b, a == b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert all((v in x) == (v in a) for v in range(200))
    assert hash(x) == hash(Scope(sorted(a, reverse=True)))
    assert bool(x) == bool(a)


def test_union_of_any_number() -> None:
    assert Scope.union() == Scope()
    assert Scope.union(Scope([1]), Scope([2]), Scope([1])) == Scope([1, 2])
    assert Scope([1]).union(Scope([5])) == Scope([1, 5])


def test_unions_that_change_nothing_return_the_same_object() -> None:
    big, small = Scope(range(10)), Scope([3])
    assert (big | small) is big
    assert (small | big) is big
    assert (big - Scope([50])) is big
    assert (small & big) is small


def test_text_shows_runs() -> None:
    assert str(Scope([0, 1, 2, 3, 7, 9, 10])) == "{0..3, 7, 9, 10}"
    assert repr(Scope()) == "Scope({})"
    assert str(Scope(range(0, 40, 2))) == "{0, 2, 4, 6, 8, 10, ..., 38}"


def test_numpy_integers_and_copies() -> None:
    scope = Scope(np.array([4, 2]))
    assert scope == Scope([2, 4]) == pickle.loads(pickle.dumps(scope)) == copy.deepcopy(scope)
    assert np.int64(4) in scope
    assert "a" not in scope
    assert -1 not in scope


@pytest.mark.parametrize(
    ("variables", "error", "message"),
    [
        ([-1], InputError, "must not be negative, found -1"),
        ([1.5], DTypeError, r"must be an integer, found 1\.5 of type float"),
        (["x"], DTypeError, "must be an integer, found 'x'"),
        ([2**60], InputError, "must be at most 134217727, found one of 61 bits; .* number the columns without gaps"),
        (0, DTypeError, r"are a sequence of integers, found 0; write \[0\]"),
        ([True], DTypeError, "must be an integer, found True"),
    ],
)
def test_refuses(variables: list[int], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Scope(variables)


def test_is_immutable() -> None:
    with pytest.raises(AttributeError, match="a Scope is immutable"):
        Scope([1])._mask = 3
