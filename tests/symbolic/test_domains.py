"""Domains against the plain meaning of their words, in every dtype of data."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, InputError
from plica.ir.dtypes import DType
from plica.symbolic.domains import (
    BOOLEANS,
    COUNTS,
    POSITIVE_REALS,
    REALS,
    UNIT_INTERVAL,
    Domain,
    finite,
    nearest,
    outside,
)
from tests.harness.together import grouped


def states(number: int) -> Callable[[float], bool]:
    """Whether a number is one of the integers 0 to `number` - 1."""
    return lambda v: 0 <= v < number and v == math.floor(v)


# name: the domain, and whether it holds a number
MEANINGS: dict[str, tuple[Domain, Callable[[float], bool]]] = {
    "booleans": (BOOLEANS, lambda v: v in (0, 1)),
    "one state": (finite(1), lambda v: v == 0),
    "256 states": (finite(256), states(256)),
    "257 states": (finite(257), states(257)),
    "2049 states": (finite(2049), states(2049)),
    "100000 states": (finite(100_000), states(100_000)),
    "2**24 + 2 states": (finite(2**24 + 2), states(2**24 + 2)),
    "counts": (COUNTS, states(2**63)),
    "reals": (REALS, lambda v: True),  # noqa: ARG005
    "positive": (POSITIVE_REALS, lambda v: v > 0),
    "unit interval": (UNIT_INTERVAL, lambda v: 0 <= v <= 1),
    "up to zero": (Domain("up to zero", "too large", "subtract", -2.0, 0.0), lambda v: -2 <= v <= 0),
}
NUMBERS = (
    *(0, 1, 2, 127, 128, 255, 256, 257, 2047, 2048, 2049, 65504, 99_999, 100_000, 2**24, 2**24 + 1, 2**24 + 2),
    *(-1, -128, 2**31 - 1, 2**53 + 1, 2**62, 2**63 - 1),
    *(0.5, -0.25, 1.0000001, 5e-324, 1e-45, 6e-8, -5e-324, 1e300, math.inf, -math.inf),
)
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "float16", "float32", "float64")


def column(dtype: str) -> np.ndarray:
    """The numbers that a dtype holds, or what it makes of them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray([kind.type(number) for number in NUMBERS])
    limits = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return np.asarray([n for n in NUMBERS if isinstance(n, int) and limits[0] <= n <= limits[1]], dtype=kind)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_mean_what_domains_say(dtype: str) -> None:
    """One domain alone, and all together, each on a row of its own."""
    x = column(dtype)
    rows = np.stack([x] * len(MEANINGS))
    together = outside(np, rows, [domain for domain, _ in MEANINGS.values()])
    for number, (name, (domain, holds)) in enumerate(MEANINGS.items()):
        expected = [not holds(value) for value in x.tolist()]
        alone = outside(np, x[None], [domain])
        assert (np.zeros(len(x), bool) if alone is None else alone[0]).tolist() == expected, name
        assert (np.zeros(len(x), bool) if together is None else together[number]).tolist() == expected, name


@grouped("dtype", [one for one in DTYPES if not one.startswith("float")])
@grouped("names", [*((name,) for name in MEANINGS), ("256 states", "counts", "reals"), ("positive", "one state")])
def test_the_nearest_number_stands_where_the_mask_is(names: tuple[str, ...], dtype: str) -> None:
    x = np.stack([column(dtype)] * len(names))
    domains = [MEANINGS[name][0] for name in names]
    found, wrong = nearest(np, x, domains), outside(np, x, domains)
    if found is None:
        assert wrong is None or not ((x < 0).any() and wrong[x > 0].any()), "numbers lie outside at one end at most"
        return
    near, replaced = found
    np.testing.assert_array_equal(replaced, wrong)
    np.testing.assert_array_equal(near[~replaced], x[~replaced])
    for row, name in zip(near.tolist(), names, strict=True):
        assert all(map(MEANINGS[name][1], row))


def test_a_missing_value_is_never_outside() -> None:
    for domain, _ in MEANINGS.values():
        wrong = outside(np, np.asarray([[np.nan, 0.5]]), [domain])
        assert wrong is None or not wrong[0, 0]


def test_domains_that_every_number_fits_need_no_mask() -> None:
    assert outside(np, np.zeros((2, 3)), [REALS, REALS]) is None
    assert outside(np, np.zeros((1, 3), np.uint8), [finite(256)]) is None
    assert outside(np, np.zeros((1, 3), bool), [BOOLEANS]) is None
    assert outside(np, np.zeros((1, 3), np.int64), [REALS]) is None
    assert outside(np, np.zeros((1, 3), np.uint32), [COUNTS]) is None


@grouped("pair", list(itertools.combinations_with_replacement(MEANINGS, 2)), ids=lambda pair: " and ".join(pair))
def test_two_domains_meet_in_the_values_of_both(pair: tuple[str, str]) -> None:
    (first, in_first), (second, in_second) = (MEANINGS[name] for name in pair)
    common = [n for n in NUMBERS if in_first(n) and in_second(n)]
    if not common:
        with pytest.raises(InputError, match="no value is in both domains"):
            first.meet(second)
        return
    both = first.meet(second)
    assert both == second.meet(first)
    x = np.asarray(NUMBERS, np.float64)
    wrong = outside(np, x[None], [both])
    expected = [not (in_first(n) and in_second(n)) for n in x.tolist()]
    assert ([False] * len(x) if wrong is None else wrong[0].tolist()) == expected
    assert in_first(both.inside)
    assert in_second(both.inside)


def test_a_domain_that_holds_the_other_gives_way() -> None:
    assert finite(3).meet(finite(5)) is finite(3)
    assert REALS.meet(finite(5)) is finite(5)
    assert COUNTS.meet(finite(5)) is finite(5)
    assert REALS.meet(POSITIVE_REALS) is POSITIVE_REALS
    assert finite(2).meet(UNIT_INTERVAL) is finite(2)
    ones = POSITIVE_REALS.meet(finite(3))  # 1 and 2
    assert (ones.least, ones.most, ones.whole, ones.inside, ones.num_states) == (1, 2, True, 1, None)


def test_dtypes_and_numbers_of_states() -> None:
    assert [domain.dtype(DType.FLOAT32).value for domain in (finite(3), COUNTS, REALS, POSITIVE_REALS)] == [
        "int64",
        "int64",
        "float32",
        "float32",
    ]
    assert [domain.num_states for domain in (BOOLEANS, finite(7), COUNTS, REALS, UNIT_INTERVAL)] == [
        2,
        7,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("domain", [domain for domain, _ in MEANINGS.values()], ids=list(MEANINGS))
def test_a_value_inside_is_inside_in_every_dtype(domain: Domain) -> None:
    for dtype in DTYPES:
        wrong = outside(np, np.asarray([[domain.inside]]).astype(dtype), [domain])
        assert wrong is None or not wrong.any()


@pytest.mark.parametrize(
    ("bounds", "kind", "message"),
    [
        ((1, 0), InputError, "there is no value from 1 to 0"),
        ((1, 1, False, True), InputError, "there is no value"),
        ((0.25, 0.75, True), InputError, "there is no value from 1 to 0"),
        ((2**63, 2**64, True), InputError, "there is no value"),
        ((math.inf, math.inf), InputError, "there is no value"),
        ((math.nan, 1), DTypeError, "a bound is nan, expected a number or an infinity"),
        ((0, math.nan), DTypeError, "a bound is nan"),
        (("0", 1), DTypeError, "a bound is '0'"),
        ((0, 1j), DTypeError, "a bound is 1j"),
    ],
)
def test_domains_without_values_are_refused(bounds: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"Domain 'mine': {message}"):
        Domain("mine", "none of mine", "give mine", *bounds)


def test_bounds_of_whole_numbers_are_whole_numbers() -> None:
    assert Domain("a", "", "", 0, 3, whole=True, above=True) == Domain("b", "", "", 0.5, 3.9, whole=True)
    assert Domain("a", "", "", 0, 3, whole=True, above=True).num_states is None
    assert Domain("a", "", "", -0.5, 2.5, whole=True) == finite(3)
    assert Domain("a", "", "", 0.5, 2.5, whole=True).inside == 1
    assert Domain("a", "", "", 1e300, above=True).inside > 1e300
    assert Domain("a", "", "", 0, whole=True) == COUNTS  # as far as 64 bits go


def test_positive_numbers_that_are_read_as_zero_are_none() -> None:
    x = np.asarray([[1e-60, 1e-40, 1.0]])
    assert outside(np, x, [POSITIVE_REALS], real=DType.FLOAT32).tolist() == [[True, False, False]]
    assert not outside(np, x, [POSITIVE_REALS], real=DType.FLOAT64).any()
    assert outside(np, x[:, 1:], [POSITIVE_REALS], real=DType.FLOAT16).tolist() == [[True, False]]
