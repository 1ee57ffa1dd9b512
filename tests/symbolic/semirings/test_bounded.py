"""Numbers with bounds of all rows against exact ones in extended precision: bounds hold, what is proven is right."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plica.ir.types import spec
from plica.symbolic.semirings import Weight
from plica.symbolic.semirings.bounded import BOUNDED, bound_holds
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import run_torch

Array = Any
WIDE = np.longdouble
F, B, K = 2, 4, 3
ROUNDING = 1000  # beside the bound, which leaves it aside: in units of the last place
FLUSHED = 3  # as in test_scaled.py
DTYPES = ["float32", "float64"]
PARTS = 6  # arrays of a value


@dataclass(frozen=True)
class Numbers:
    """A value as arrays, and the exact mantissas."""

    arrays: tuple[Array, ...]
    exact: Array

    @property
    def number(self) -> Array:
        """The exact numbers."""
        return self.exact * np.exp2(np.asarray(self.arrays[1], WIDE))


def sizes(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Positive numbers, some of which are so small that products of them underflow."""
    digits = rng.choice([1.0, 4.0, {"float32": 20.0, "float64": 170.0}[dtype]])
    return (10.0 ** rng.uniform(-digits, 0.3, shape)).astype(dtype)


def bounded(rng: np.random.Generator, dtype: str, units: int = K) -> Numbers:
    """A value whose bounds are as tight as they may be, and whose mantissas are as wrong as they say."""
    exact = sizes(rng, dtype, (F, B, units)).astype(WIDE)
    error = rng.choice([0.0, 1e-3, 1e-30], (F, 1, 1)).astype(dtype)
    mantissa = (exact * (1 + error.astype(WIDE) * rng.choice([-1, 0, 1], exact.shape))).astype(dtype)
    least, most = mantissa.min(axis=(1, 2), keepdims=True), mantissa.max(axis=(1, 2), keepdims=True)
    ratio = (mantissa.min(axis=2, keepdims=True) / mantissa.max(axis=2, keepdims=True)).min(axis=1, keepdims=True)
    scale = rng.integers(-60, 60, (F, B, 1)).astype(dtype)
    return Numbers((mantissa, scale, least, most, ratio, error + np.finfo(dtype).eps), exact)


def as_arrays(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """A value whose numbers of Python are arrays too."""
    return tuple(xp.full((1, 1, 1), one, dtype=value[0].dtype) if isinstance(one, float) else one for one in value)


def value(arrays: Any, place: int) -> tuple[Any, ...]:
    """The value number `place` among flat arguments."""
    return tuple(arrays[PARTS * place : PARTS * place + PARTS])


@dataclass(frozen=True)
class Rule:
    """A rule of the carrier, of how many values, the shapes of its weights, and what it stands for."""

    run: Callable[..., Any]
    count: int
    exact: Callable[..., Array]
    shapes: tuple[tuple[int, ...], ...] = ()


def choose(*a: Any) -> Any:
    mask = xp.greater(a[2 * PARTS], 0.5)
    return BOUNDED.choose(xp, mask, value(a, 0), value(a, 1))


EINSUM = "fbi,fbj,foij->fbo"
RULES = {
    "product": Rule(lambda *a: BOUNDED.product(xp, value(a, 0), value(a, 1)), 2, np.multiply),
    "outer": Rule(
        lambda *a: BOUNDED.outer(xp, value(a, 0), value(a, 1)),
        2,
        lambda a, b: (a[..., :, None] * b[..., None, :]).reshape(F, B, K * K),
    ),
    "total": Rule(
        lambda *a: BOUNDED.total(xp, [value(a, place) for place in range(3)]), 3, lambda *numbers: sum(numbers)
    ),
    "contract": Rule(
        lambda *a: BOUNDED.contract(xp, [value(a, 0)], a[PARTS]),
        1,
        lambda x, w: np.einsum("fbi,foi->fbo", x, w),
        ((F, 2, K),),
    ),
    "contract of 2": Rule(
        lambda *a: BOUNDED.contract(xp, [value(a, 0), value(a, 1)], a[2 * PARTS]),
        2,
        lambda x, y, w: np.einsum("fbi,foi->fbo", np.concatenate([x, y], axis=2), w),
        ((F, 2, 2 * K),),
    ),
    "einsum": Rule(
        lambda *a: BOUNDED.einsum(xp, EINSUM, [value(a, 0), value(a, 1)], a[2 * PARTS]),
        2,
        lambda x, y, w: np.einsum(EINSUM, x, y, w),
        ((F, 2, K, K),),
    ),
    "einsum of one product": Rule(
        lambda *a: BOUNDED.einsum(xp, "fbi,fbi,foi->fbo", [value(a, 0), value(a, 1)], a[2 * PARTS]),
        2,
        lambda x, y, w: np.einsum("fbi,fbi,foi->fbo", x, y, w),
        ((F, 2, K),),
    ),
    "normalize": Rule(lambda *a: BOUNDED.normalize(xp, value(a, 0)), 1, lambda x: x),
    "choose": Rule(choose, 2, lambda x, y, mask: np.where(mask > 0.5, y, x), ((F, B, 1),)),
    "from_linear": Rule(lambda x: BOUNDED.from_linear(xp, x), 0, lambda x: x, ((F, B, K),)),
    "from_log": Rule(lambda x: BOUNDED.from_log(xp, xp.log(x)), 0, lambda x: x, ((F, B, K),)),
}


def assert_sound(found: tuple[Array, ...], expected: Array, dtype: str, factor: int) -> None:
    mantissa, scale, low, high, ratio, error, mask = found
    eps = float(np.finfo(dtype).eps)
    usable = np.isfinite(error.astype(WIDE)) & (error < 0.5) & np.isfinite(high)
    slack = ROUNDING * eps
    exact = expected * np.exp2(-np.asarray(scale, WIDE))
    wrong = np.abs(mantissa - exact) / exact
    assert (wrong <= factor * error.astype(WIDE) + slack)[usable & (wrong == wrong)].all()
    assert not np.isnan(wrong[usable & np.ones_like(wrong, bool)]).any()
    assert ((mantissa >= low * (1 - slack)) & (mantissa <= high * (1 + slack)))[usable & (wrong == wrong)].all()
    assert (mantissa >= ratio * (1 - slack) * mantissa.max(axis=2, keepdims=True))[usable & (wrong == wrong)].all()
    assert (wrong <= slack)[mask & (wrong == wrong)].all()
    assert not mask[~usable].any()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flush", [False, True], ids=["", "flush"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_rule_keeps_its_bounds(name: str, dtype: str, flush: bool) -> None:
    rule = RULES[name]
    programs: dict[Any, Any] = {}

    def of(*arrays):
        found = rule.run(*arrays)
        return (*as_arrays(found), bound_holds(xp, found))

    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        values = [bounded(rng, dtype) for _ in range(rule.count)]
        others = [sizes(rng, dtype, shape) for shape in rule.shapes]
        arrays = [*(array for one in values for array in one.arrays), *others]
        if not programs:
            programs[0] = trace(of, *[spec(array.shape, dtype) for array in arrays])
        torch.set_flush_denormal(flush)
        try:
            found = tuple(one.numpy() for one in run_torch(programs[0], *map(torch.from_numpy, arrays)))
        finally:
            torch.set_flush_denormal(False)
        expected = rule.exact(*[one.number for one in values], *[other.astype(WIDE) for other in others])
        assert_sound(found, expected, dtype, FLUSHED if flush else 1)

    check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_of_looked_up_rows_are_those_of_the_table(dtype: str) -> None:
    def looked_up(table, index):
        weight = Weight(lambda: table, most=1.0, lost=4.0)
        return as_arrays(BOUNDED.from_weight(xp, weight.looked_up(lambda one: xp.lookup(one, index))))

    table = np.asarray([[[0.5, 0.25, 0.75], [0.125, 0.5, 0.75]]], dtype)
    program = trace(looked_up, spec(table.shape, dtype), spec((1, 2), "int64"))
    arguments = torch.from_numpy(table), torch.tensor([[2, 1]])
    mantissa, _, low, high, ratio, error = (one.numpy() for one in run_torch(program, *arguments))
    assert mantissa.tolist() == [[[0.75, 0.75], [0.25, 0.5]]]
    assert (low.item(), high.item(), ratio.item()) == (0.125, 0.75, 0.25)
    assert error.item() == pytest.approx(4 * float(np.finfo(dtype).tiny) / 0.125)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_other_tables_or_of_none_have_bounds_of_their_own(dtype: str) -> None:
    """A table whose axes are not units and states says nothing of the units of a row."""
    weight = Weight(lambda: xp.full((1, 2, 3), 0.5, dtype=dtype), most=1.0)
    assert weight.looked_up(lambda one: one).source_table is not None
    assert weight.looked_up(lambda one: one).map(lambda one: one).source_table is None
    assert weight.looked_up(lambda one: one).total(xp).source_table is None


def test_zeros_are_never_proven() -> None:
    def rule(x, w):
        first = BOUNDED.from_linear(xp, x)
        after = BOUNDED.normalize(xp, BOUNDED.contract(xp, [first], w))
        return [bound_holds(xp, one) for one in (first, after)]

    program = trace(rule, spec((1, 1, 2)), spec((1, 2, 2)))
    ones = torch.ones(1, 2, 2)
    for x, expected in (([1.0, 1.0], [True, True]), ([0.0, 1.0], [False, False]), ([float("inf"), 1.0], [False] * 2)):
        found = run_torch(program, torch.tensor([[x]]), ones)
        assert [bool(one) for one in found] == expected
    zero = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # a unit of either input is none of the other output
    assert bool(run_torch(program, torch.ones(1, 1, 2), zero)[1]), "a weight of zero may do no harm"
    nothing = torch.tensor([[[0.0, 0.0], [0.0, 1.0]]])
    assert not bool(run_torch(program, torch.ones(1, 1, 2), nothing)[1])


FAR_APART = {"float32": (1e-28, 1e18, 1e20, 151.0), "float64": (1e-174, 1e150, 1e150, 1076.0)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_another_scale_has_lost_is_weighted_by_large_weights_too(dtype: str) -> None:
    """The larger mantissa has the smaller scale, whose power of two is zero, and is most of the sum."""
    low, high, weight, scale = FAR_APART[dtype]

    def rule(mantissas, scales, bounds, weights):
        one = xp.ones_like(bounds[:1])
        values = [
            (mantissas[place : place + 1], scales[place : place + 1], bounds[:1], bounds[1:], one, one * 0.0)
            for place in range(2)
        ]
        found = BOUNDED.contract(xp, values, weights)
        return found[0], bound_holds(xp, found)

    arrays = [
        np.asarray(one, dtype).reshape(-1, 1, 1) for one in ([low, high], [0.0, -scale], [low, high], [weight] * 2)
    ]
    arrays[3] = arrays[3].reshape(1, 1, 2)
    program = trace(rule, *[spec(one.shape, dtype) for one in arrays])
    found, is_proven = run_torch(program, *map(torch.from_numpy, arrays))
    exact = weight * (WIDE(low) + WIDE(high) * np.exp2(-WIDE(scale)))
    assert abs(found.item() - exact) > 0.1 * exact
    assert not is_proven.item()
