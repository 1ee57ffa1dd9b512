"""`grouped`: every value is checked, by tests that share what they cost."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.harness.together import grouped, in_parts

MARK = pytest.mark.filterwarnings("default")


def _params(test: Any) -> list[Any]:
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    return list(mark.args[1])


def _run(test: Any, **fixtures: Any) -> None:
    """What pytest does: one call for each choice of parameters of all decorators."""
    marks = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    for chosen in itertools.product(*([(mark.args[0], one.values[0]) for one in mark.args[1]] for mark in marks)):
        test(**dict(chosen), **fixtures)


def test_every_value_is_checked_once_by_few_tests() -> None:
    seen = []

    @grouped("number", range(45))
    def check(number: int) -> None:
        seen.append(number)

    _run(check)
    assert seen == list(range(45))
    assert [one.id for one in _params(check)] == ["0 to 19", "20 to 39", "40 to 44"]


@pytest.mark.parametrize("names", ["first, second", "first,second", ("first", "second")])
def test_several_parameters_and_fixtures_are_handed_on(names: Any) -> None:
    seen = []

    @grouped(names, [(1, 2), pytest.param(3, 4, id="others")])
    def check(fixture: str, first: int, second: int) -> None:
        seen.append((fixture, first, second))

    _run(check, fixture="f")
    assert seen == [("f", 1, 2), ("f", 3, 4)]
    assert [one.id for one in _params(check)] == ["1-2 to others"]


def test_values_of_one_parameter_may_be_tuples_and_of_several_arrays() -> None:
    seen: list[Any] = []

    @grouped("pair", [(1, 2)])
    @grouped("x, y", [(np.ones(2), None)])
    def check(pair: Any, x: Any, y: Any) -> None:
        seen.append((pair, x.tolist(), y))

    _run(check)
    assert seen == [((1, 2), [1.0, 1.0], None)]


def test_values_of_other_marks_are_tests_of_their_own() -> None:
    @grouped("number", [1, 2, pytest.param(3, marks=MARK), pytest.param(4, marks=[MARK]), 5])
    def check(number: int) -> None: ...

    shown = [(one.id, [mark.name for mark in one.marks]) for one in _params(check)]
    assert shown == [("1 to 2", []), ("3 to 4", [MARK.name]), ("5", [])]


def test_marks_of_a_test_stay() -> None:
    @MARK
    @grouped("one", [1])
    @pytest.mark.parametrize("other", [2])
    def check(one: int, other: int) -> None: ...

    assert [mark.name for mark in check.pytestmark] == ["parametrize", "parametrize", MARK.name]


def test_decorators_are_stacked() -> None:
    seen = []

    @grouped("a", range(21))
    @pytest.mark.parametrize("b", [pytest.param(0), pytest.param(1)])
    @grouped("c", range(21))
    def check(a: int, b: int, c: int) -> None:
        seen.append((a, b, c))

    _run(check)
    assert sorted(seen) == list(itertools.product(range(21), range(2), range(21)))


def test_an_error_names_its_value_whichever_it_is() -> None:
    @in_parts("a", [["x", "y"]])
    @grouped("number", range(20), ids=lambda number: f"number {number}")
    def check(a: str, number: int, wrong: tuple[str, int]) -> None:
        assert (a, number) != wrong

    _run(check, wrong=("z", 0))
    for wrong in itertools.product("xy", range(20)):
        with pytest.raises(AssertionError) as caught:
            _run(check, wrong=wrong)
        assert caught.value.__notes__ == [f"case: number {wrong[1]}", f"case: {wrong[0]}"]


def test_pytest_fail_fails_and_a_skip_does_too() -> None:
    @grouped("skip", [False, True])
    def check(skip: bool, wrong: bool) -> None:
        if skip is wrong:
            (pytest.skip if skip else pytest.fail)("now")

    with pytest.raises(pytest.fail.Exception, match="now"):
        _run(check, wrong=False)
    with pytest.raises(AssertionError, match="a skip of True would leave others unchecked"):
        _run(check, wrong=True)


@pytest.mark.parametrize("names", ["numbre", "number, other"])
def test_a_name_that_a_test_does_not_take_is_refused(names: str) -> None:
    with pytest.raises(TypeError, match=f"check takes no {names[-5:]}|check takes no numbre"):

        @grouped(names, [(1, 2)])
        def check(number: int) -> None: ...


@pytest.mark.parametrize(
    ("values", "ids", "expected"),
    [
        ([float, len], None, "float to len"),
        ([{1, 2}, object()], None, "set to object"),
        (["x" * 50], None, "x" * 40),
        ([1, 2], ["one", "two"], "one to two"),
        ([1, 2], {"one": 1, "two": 2}, "one to two"),
        ([1, 2], (f"n{number}" for number in itertools.count()), "n0 to n1"),
    ],
)
def test_names_are_alike_in_every_process(values: list[Any], ids: Any, expected: str) -> None:
    @grouped("value", iter(values), ids)
    def check(value: Any) -> None: ...

    assert [one.id for one in _params(check)] == [expected]


@pytest.fixture
def counted() -> Iterator[list[int]]:
    """A list that is as long as the values of a test are many, at its end."""
    seen: list[int] = []
    yield seen
    assert seen in ([*range(20)], [*range(20, 25)])


@grouped("number", range(25))
def test_pytest_runs_them_with_one_fixture(number: int, counted: list[int]) -> None:
    counted.append(number)
