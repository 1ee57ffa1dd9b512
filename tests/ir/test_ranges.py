"""Ranges: floats in their total order, so that a bound tells one zero from the other."""

from itertools import product
from math import copysign, inf, nan

import numpy as np
import pytest

from plica.ir import ranges
from plica.ir.ranges import ANYTHING, Range, excludes_negative, excludes_negative_zero, range_of_values

NUMBERS = (-inf, -2.0, -0.5, -0.0, 0.0, 0.25, 3.0, inf)
RANGES = [(low, high) for place, low in enumerate(NUMBERS) for high in NUMBERS[place:]]


def members(found: Range) -> list[float]:
    """The numbers of `NUMBERS` in a range, by their places there: -0.0 is below 0.0."""
    return list(NUMBERS[position(found[0]) : position(found[1]) + 1])


def position(number: float) -> int:
    return next(place for place, one in enumerate(NUMBERS) if key(one) == key(number))


def key(number: float) -> tuple[float, float]:
    return (number, copysign(1.0, number))


def holds(found: Range, numbers: np.ndarray) -> bool:
    """Whether all numbers but NaN lie in a range."""
    return all(key(found[0]) <= key(one) <= key(found[1]) for one in numbers[~np.isnan(numbers)].tolist())


UNARY = [
    (ranges.negated, np.negative),
    (ranges.inverse, np.reciprocal),
    (ranges.as_first, lambda x: x),
    (ranges.or_zero, lambda x: np.append(x, 0.0)),
]
BINARY = [
    (ranges.plus, np.add),
    (ranges.minus, np.subtract),
    (ranges.combined, np.multiply),
    (ranges.quotient, np.divide),
    (ranges.power, np.power),
    (ranges.larger, np.maximum),
    (ranges.smaller, np.minimum),
    (ranges.either, np.append),
]


@pytest.mark.parametrize(("rule", "function"), UNARY, ids=lambda one: one.__name__)
def test_rules_of_one_operand(rule, function) -> None:
    with np.errstate(all="ignore"):
        for x in RANGES:
            assert holds(rule(x), function(np.asarray(members(x)))), x


@pytest.mark.parametrize(("rule", "function"), BINARY, ids=lambda one: one.__name__)
def test_rules_of_two_operands(rule, function) -> None:
    with np.errstate(all="ignore"):
        for x, y in product(RANGES, RANGES):
            first, second = np.asarray(list(product(members(x), members(y)))).T
            assert holds(rule(x, y), function(first, second)), (x, y)


def test_a_maximum_of_two_zeros_may_be_either() -> None:
    assert ranges.larger((0.0, 1.0), (-1.0, 0.5)) == (-0.0, 1.0)
    assert not excludes_negative_zero(ranges.larger((0.0, 1.0), (-1.0, 0.5)))
    assert excludes_negative_zero(ranges.larger((0.0, 1.0), (0.0, 0.5)))


@pytest.mark.parametrize(
    ("found", "no_negative", "no_negative_zero"),
    [
        ((0.0, 1.0), True, True),
        ((-0.0, 1.0), True, False),
        ((-1.0, 1.0), False, False),
        ((-2.0, -1.0), False, True),
        ((-2.0, -0.0), False, False),
        ((-2.0, -1e-60), False, False),
        (None, False, False),
    ],
)
def test_what_a_range_excludes(found: Range | None, no_negative: bool, no_negative_zero: bool) -> None:
    assert excludes_negative(found) is no_negative
    assert excludes_negative_zero(found) is no_negative_zero


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, -2.0], (-2.0, 1.0)),
        ([0.0, -0.0, 3.0], (-0.0, 3.0)),
        ([0.0, 3.0], (0.0, 3.0)),
        ([-1.0, -0.0], (-1.0, -0.0)),
        ([-0.0, 0.0], (-0.0, 0.0)),
        ([nan, 1.0], ANYTHING),
        (2, (2.0, 2.0)),
        ([1j], None),
    ],
)
def test_the_range_of_known_numbers(values, expected) -> None:
    found = range_of_values(np.asarray(values))
    assert found == expected
    if found is not None and expected is not None:
        assert list(map(key, found)) == list(map(key, expected))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_sign_of_a_sum_is_that_of_fewer_digits_too(dtype: str) -> None:
    numbers = np.round(np.random.default_rng(0).uniform(-1, 1, (300, 2)), 2)
    for x, y in numbers.tolist():
        for number in (x + y, float(np.float32(x) + np.float32(y)), 0.5):
            low, high = ranges.minus((number, number), ranges.plus((x, x), (y, y)))
            found = number - (np.asarray(x, dtype) + np.asarray(y, dtype))
            assert np.sign(low) <= np.sign(found) <= np.sign(high), (number, x, y)


def test_bounds_that_have_few_digits_cancel_exactly() -> None:
    assert ranges.minus((1.0, 1.0), (0.0, 1.0)) == (0.0, 1.0)
    assert ranges.plus((-0.75, inf), (0.75, inf)) == (0.0, inf)
