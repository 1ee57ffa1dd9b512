"""The laws of algebras on random values, for every row of the table: those that are listed hold, and no other does."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.symbolic.semirings import LSE_SUM, MAX_SUM, SCALED, SEMIRINGS, SUM_PRODUCT, Bound, Law, Semiring, Stage
from tests.harness.together import grouped

Array = Any
ROWS = pytest.mark.parametrize("row", list(SEMIRINGS.values()), ids=list(SEMIRINGS))


def weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Ordinary numbers that are not negative; some are 0, some 1, some alike."""
    drawn = np.where(rng.random(shape) < 0.3, rng.integers(0, 3, shape), rng.gamma(1.0, size=shape))
    return torch.from_numpy(drawn)


def of(row: Semiring, x: Array) -> Array:
    """Ordinary numbers in the semiring."""
    return row.map_from(x, SEMIRINGS["sum-product"])


def zero(row: Semiring, like: Array) -> Array:
    return row.sum(like.new_empty(*like.shape, 0))


def one(row: Semiring, like: Array) -> Array:
    return row.prod(like.new_empty(*like.shape, 0))


def phases(row: Semiring, rng: np.random.Generator, count: int) -> Array:
    """Signs or phases that the semiring carries: some of them 1, -1 and i."""
    if not row.negative:
        return torch.ones(count, dtype=torch.float64)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], count))
    if not row.carries_complex:
        return signs
    return signs * torch.exp(
        1j * torch.from_numpy(np.where(rng.random(count) < 0.5, np.pi / 2, rng.uniform(0, 3, count)))
    )


def alike(s: Semiring, a: Array, b: Array) -> Array:
    """The same number; where logarithms have signs or phases, what cancels leaves a rounding of its terms."""
    if s.negative and s.logarithmic:
        return torch.isclose(a.exp(), b.exp(), rtol=1e-12, atol=1e-13)
    dtype = torch.promote_types(a.dtype, b.dtype)
    return torch.isclose(a.to(dtype), b.to(dtype), rtol=1e-12, atol=1e-13 if a.is_complex() else 1e-300, equal_nan=True)


def negated(row: Semiring, a: Array) -> Array:
    """What is added to a number for zero, in the carriers that have one."""
    return row.mul(a, of(row, -torch.ones_like(a.real)))


# law: (semiring, its numbers a, b, c and the weights u, v) -> where it holds
LAWS: dict[Law, Callable[..., Array]] = {
    Law.ASSOCIATIVE_SUM: lambda s, n: alike(s, s.add(n.a, s.add(n.b, n.c)), s.add(s.add(n.a, n.b), n.c)),
    Law.COMMUTATIVE_SUM: lambda s, n: alike(s, s.add(n.a, n.b), s.add(n.b, n.a)),
    Law.ASSOCIATIVE_PRODUCT: lambda s, n: alike(s, s.mul(n.a, s.mul(n.b, n.c)), s.mul(s.mul(n.a, n.b), n.c)),
    Law.COMMUTATIVE_PRODUCT: lambda s, n: alike(s, s.mul(n.a, n.b), s.mul(n.b, n.a)),
    Law.DISTRIBUTIVE: lambda s, n: alike(s, s.mul(n.a, s.add(n.b, n.c)), s.add(s.mul(n.a, n.b), s.mul(n.a, n.c))),
    Law.ZERO: lambda s, n: alike(s, s.add(zero(s, n.a), n.a), n.a),
    Law.ONE: lambda s, n: alike(s, s.mul(one(s, n.a), n.a), n.a),
    Law.ZERO_ANNIHILATES: lambda s, n: alike(s, s.mul(zero(s, n.a), n.a), zero(s, n.a)),
    Law.IDEMPOTENT_SUM: lambda s, n: alike(s, s.add(n.a, n.a), n.a),
    Law.SELECTIVE_SUM: lambda s, n: alike(s, s.add(n.a, n.b), n.a) | alike(s, s.add(n.a, n.b), n.b),
    Law.NEGATIVES: lambda s, n: alike(s, s.add(n.a, negated(s, n.a)), zero(s, n.a)),
    Law.WEIGHTS_UNITS: lambda s, n: (
        alike(s, of(s, 0 * n.u), zero(s, n.a)) & alike(s, of(s, torch.ones_like(n.u)), one(s, n.a))
    ),
    Law.WEIGHTS_MULTIPLY: lambda s, n: alike(s, of(s, n.u * n.v), s.mul(of(s, n.u), of(s, n.v))),
    Law.WEIGHTS_ADD: lambda s, n: alike(s, of(s, n.u + n.v), s.add(of(s, n.u), of(s, n.v))),
}


@ROWS
@grouped("law", list(Law), ids=lambda law: law.name)
def test_the_laws_of_the_table_are_those_that_hold(row: Semiring, law: Law) -> None:
    if law is Law.NEGATIVES and not row.negative:
        return  # a carrier may keep fewer numbers than its algebra has
    rng = np.random.default_rng(0)
    numbers = [of(row, weights(rng, (400,)) * phases(row, rng, 400)) for _ in range(3)]
    drawn = dict(zip("abcuv", [*numbers, weights(rng, (400,)), weights(rng, (400,))], strict=True))
    holds = LAWS[law](row, SimpleNamespace(**drawn))
    assert bool(holds.all()) == (law in row.algebra.laws)


def test_no_law_is_without_a_check() -> None:
    assert set(LAWS) == set(Law)


@ROWS
@grouped("other", list(SEMIRINGS.values()), ids=list(SEMIRINGS))
def test_conversions_keep_the_number(row: Semiring, other: Semiring) -> None:
    """From one carrier to another and back; truth values keep only whether it is zero."""
    x = of(row, weights(np.random.default_rng(1), (50,)))
    if x.is_complex() and row.carries_complex and not other.negative:
        with pytest.raises(
            UnsupportedError, match=f"{other.name} represents real numbers alone, found complex numbers of {row.name}"
        ):
            other.map_from(x, row)
        return
    there = other.map_from(x, row)
    back = of(row, other_linear := of_linear(other, there).real)
    expected = x if "boolean" not in (row.name, other.name) else of(row, (other_linear != 0).to(x.real.dtype))
    np.testing.assert_allclose(back, expected, rtol=1e-12)
    np.testing.assert_allclose(there, of(other, of_linear(row, x).real), rtol=1e-12)


@pytest.mark.parametrize("row", [row for row in SEMIRINGS.values() if row.negative], ids=lambda row: row.name)
@pytest.mark.parametrize("other", [row for row in SEMIRINGS.values() if row.negative], ids=lambda row: row.name)
def test_conversions_keep_signs_and_phases(row: Semiring, other: Semiring) -> None:
    rng = np.random.default_rng(2)
    few = row if other.carries_complex else other
    linear = weights(rng, (50,)) * phases(few, rng, 50)
    there = other.map_from(of(row, linear), row)
    assert alike(other, there, of(other, linear)).all()
    assert alike(row, row.map_from(there, other), of(row, linear)).all()


def of_linear(row: Semiring, x: Array) -> Array:
    return SEMIRINGS["sum-product"].map_from(x, row)


@pytest.mark.one_in(3)
@ROWS
@grouped("axis", [0, 1, -1])
@grouped("size", [0, 1, 2, 5])
def test_sums_and_products_along_an_axis(row: Semiring, axis: int, size: int) -> None:
    shape = [2, 3]
    shape[axis] = size
    x = of(row, weights(np.random.default_rng(2), tuple(shape)))
    for whole, pair, start in ((row.sum, row.add, zero), (row.prod, row.mul, one)):
        expected = start(row, x.select(axis, 0) if size else x.sum(axis))
        for part in x.unbind(axis):
            expected = pair(expected, part)
        np.testing.assert_allclose(whole(x, axis=axis), expected, rtol=1e-12)
        np.testing.assert_allclose(whole(x, axis=axis, keepdims=True), expected.unsqueeze(axis), rtol=1e-12)
        assert torch.equal(whole(x, dim=axis), whole(x, axis))
        assert torch.equal(whole(x, dim=axis, keepdim=True), whole(x, axis, True))
        assert torch.equal(whole(x, axis, keepdim=True), whole(x, axis, keepdims=True))


def test_numbers_of_numpy_and_gradients_of_torch() -> None:
    row = SEMIRINGS["lse-sum"]
    assert row.add(np.log(0.25), np.log(np.asarray([0.25, 0.75]))).round(12).tolist() == [-0.693147180560, 0.0]
    x = torch.tensor([-torch.inf, 0.0], requires_grad=True)
    row.sum(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0]


def test_illegal_neighbours() -> None:
    with pytest.raises(ShapeError, match=r"axis 2 is outside an array of shape \(3,\)"):
        SEMIRINGS["lse-sum"].sum(torch.zeros(3), axis=2)
    for operation in (SEMIRINGS["lse-sum"].sum, SEMIRINGS["lse-sum"].prod):
        with pytest.raises(DTypeError, match="axis and dim are one setting, found axis=0 and dim=1; give one of them"):
            operation(torch.zeros(3, 3), axis=0, dim=1)
        with pytest.raises(ShapeError, match=r"axis 2 is outside an array of shape \(3,\)"):
            operation(torch.zeros(3), dim=2)
    with pytest.raises(UnsupportedError, match="a number of scaled is several arrays"):
        SCALED.add(torch.zeros(3), torch.zeros(3))
    with pytest.raises(
        UnsupportedError, match="there is no semiring 'real'; there are sum-product, lse-sum, signed-lse-sum, "
    ):
        Semiring.from_name("real")


@pytest.mark.parametrize(
    "faster", [SUM_PRODUCT, replace(SCALED, name="lse-sum"), replace(SCALED, algebra=MAX_SUM.algebra)]
)
def test_what_cannot_be_tried_first_is_refused(faster: Semiring) -> None:
    with pytest.raises(UnsupportedError, match="lse-sum cannot try the number format"):
        replace(LSE_SUM, faster=(Stage(faster, Bound.OF_ROWS, devices=("cpu",)),))
