"""Scaled numbers against exact ones in extended precision: the error bound holds, and what is proven is right.

A value of the tests is what a rule may be given: mantissas, scale and depth, and what was lost, cap and rise of each
fold, as arrays, and exact mantissas within the bound, often as far away as it allows. Magnitudes go from the smallest
number to 1e10. The torch code is run in both precisions, with and without denormal numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plica.ir.types import spec
from plica.symbolic.semirings import Weight
from plica.symbolic.semirings.scaled import DELTA, SCALED, bound_holds
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import run_torch

Array = Any
WIDE = np.longdouble
F, B, K = 2, 4, 3
# Rounding beside the bound, which leaves it aside: a few operations of half a unit each, and the exponential of a
# difference of up to 750 (88 in float32), whose rounding is relative to the difference.
ROUNDING = 1000
# Where denormal numbers are flushed to zero, two terms of a bound may be, of which each is less than the third, t.
FLUSHED = 3
DTYPES = ["float32", "float64"]


@dataclass(frozen=True)
class Scaled:
    """A value as arrays, and the mantissas that it stands for."""

    arrays: tuple[Array, ...]
    exact: Array

    @property
    def number(self) -> Array:
        """The exact numbers."""
        return self.exact * np.exp2(np.asarray(self.arrays[1], WIDE))


class Numbers(np.random.Generator):
    """Draws for one dtype, with denormal numbers unless they are flushed to zero."""

    def __init__(self, seed: int, dtype: str, flush: bool = False) -> None:
        super().__init__(np.random.PCG64(seed))
        limits = np.finfo(dtype)
        self.dtype, self.least = dtype, float(limits.tiny if flush else limits.smallest_subnormal)


def magnitudes(rng: Numbers, shape: tuple[int, ...], largest: float = 10.0) -> Array:
    """Numbers from the smallest, or below, to 10**largest, some of ordinary size, and zeros."""
    lowest = np.log10(rng.least)
    exponent = np.where(rng.random(shape) < 0.4, rng.uniform(-3, 0.3, shape), rng.uniform(lowest, largest, shape))
    with np.errstate(under="ignore"):
        return np.where(rng.random(shape) < 0.1, 0.0, 10.0**exponent).astype(rng.dtype)


def scaled(rng: Numbers, units: int = K) -> Scaled:
    """A value that a rule may be given: the caps hold, and the exact mantissas are somewhere within the bound."""
    dtype = rng.dtype
    mantissa = magnitudes(rng, (F, B, units), rng.choice([0.0, 10.0]))
    apart = {"float32": 86, "float64": 577}[dtype]  # two to the difference of two underflows now and then
    scale = rng.integers(-apart, apart, (F, B, 1)).astype(dtype)
    tiny = np.finfo(dtype).tiny
    rise = rng.choice([1.0, 2.0, 100.0], (F, 1, 1)).astype(dtype)
    deepest = rng.choice([1.0, apart, 1.4 * apart])
    depth = np.where(rng.random((F, B, 1)) < 0.3, np.log2(rise), -deepest * rng.random((F, B, 1))).astype(dtype)
    lost = (tiny * rng.choice([1.0, 1e3, 1e6], (F, 1, 1))).astype(dtype)
    bound = lost * np.exp2(-depth.astype(WIDE)) * 0.99  # the depth is rounded
    largest = mantissa.max(axis=(1, 2), keepdims=True)
    cap = np.maximum(rng.choice([1, 2]) * largest, tiny / DELTA**2).astype(dtype)
    side = rng.choice([-1, 0, 1], mantissa.shape)
    exact = np.clip(mantissa.astype(WIDE) + side * bound, 0, cap.astype(WIDE) + bound)
    return Scaled((mantissa, scale, depth, lost, cap, rise), exact)


@cache
def torch_rule(name: str, dtype: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The Program of a rule on flat arguments, and of `bound_holds` on its result."""

    def run(*arrays):
        value = RULES[name].scaled(*arrays)
        return (*as_arrays(value), bound_holds(xp, value))

    kinds = ["int64" if name == "categorical" and place == 1 else dtype for place in range(len(shapes))]
    return trace(run, *[spec(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)])


def run(name: str, dtype: str, arrays: Sequence[Array], flush: bool) -> tuple[Array, ...]:
    """What the rule gives in torch: a value, and where it is proven."""
    program = torch_rule(name, dtype, tuple(array.shape for array in arrays))
    torch.set_flush_denormal(flush)  # what some devices always do
    try:
        return tuple(one.numpy() for one in run_torch(program, *map(torch.from_numpy, arrays)))
    finally:
        torch.set_flush_denormal(False)


def as_arrays(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """A value whose numbers of Python are arrays too."""
    return tuple(xp.full((1, 1, 1), one, dtype=value[0].dtype) if isinstance(one, float) else one for one in value)


PARTS = 6


def value(arrays: Sequence[Any], place: int) -> tuple[Any, ...]:
    """The value number `place` among flat arguments."""
    return tuple(arrays[PARTS * place : PARTS * (place + 1)])


def normalized(table: Any) -> Weight:
    """The weight that a log-softmax is: no number above 1."""
    return Weight(lambda: xp.softmax(table), lambda: xp.log_softmax(table), most=1.0)


@dataclass(frozen=True)
class Rule:
    """A rule of the semiring, what it is given, and what it stands for in ordinary numbers."""

    scaled: Callable[..., Any]
    inputs: Callable[[Numbers], tuple[list[Scaled], list[Array]]]
    exact: Callable[..., Array]


def some(count: int, *shapes: tuple[int, ...], units: int = K):
    """`count` values, and weights of the given shapes."""
    return lambda rng: (
        [scaled(rng, units) for _ in range(count)],
        [magnitudes(rng, shape) for shape in shapes],
    )


def contract(*arrays: Array) -> Array:
    *values, weight = arrays
    return np.einsum("fbi,foi->fbo", np.concatenate(values, axis=2), weight)


def tucker(*arrays: Array) -> Array:
    letters = "ijk"[: len(arrays) - 1]
    return np.einsum(",".join(f"fb{one}" for one in letters) + f",fo{letters}->fbo", *arrays)


def laid_out(value: Any, *sizes: int) -> Any:
    return (xp.reshape(value[0], (F, B, *sizes)), *value[1:])


def logits(rng: Numbers) -> Array:
    return (rng.normal(size=(F, K, 5)) * rng.choice([1.0, 30.0, 300.0])).astype(rng.dtype)


def log_softmax(x: Array) -> Array:
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def looked_up(table: Array, index: Array) -> Array:
    return np.stack([table[fold][:, index[fold]].T for fold in range(F)])


EINSUM = {2: "fbi,fbj,foij->fbo", 3: "fbi,fbj,fbk,foijk->fbo"}
RULES = {
    "mul": Rule(lambda *a: SCALED.product(xp, value(a, 0), value(a, 1)), some(2), np.multiply),
    "outer": Rule(
        lambda *a: SCALED.outer(xp, value(a, 0), value(a, 1)),
        some(2),
        lambda a, b: (a[..., :, None] * b[..., None, :]).reshape(F, B, K * K),
    ),
    "sum": Rule(
        lambda *a: SCALED.total(xp, [value(a, place) for place in range(3)]), some(3), lambda *numbers: sum(numbers)
    ),
    "contract of 1": Rule(lambda *a: SCALED.contract(xp, [value(a, 0)], a[PARTS]), some(1, (F, 2, K)), contract),
    "contract of 2": Rule(
        lambda *a: SCALED.contract(xp, [value(a, 0), value(a, 1)], a[2 * PARTS]), some(2, (F, 2, 2 * K)), contract
    ),
    "tucker of 2": Rule(
        lambda *a: SCALED.einsum(xp, EINSUM[2], [value(a, 0), value(a, 1)], a[2 * PARTS]), some(2, (F, 2, K, K)), tucker
    ),
    "tucker of 3": Rule(
        lambda *a: SCALED.einsum(xp, EINSUM[3], [value(a, place) for place in range(3)], a[3 * PARTS]),
        some(3, (F, 2, K, K, K)),
        tucker,
    ),
    "tensor-dot": Rule(
        lambda *a: laid_out(
            SCALED.einsum(xp, "fblir,foi->fblor", [laid_out(value(a, 0), 2, 3, 2)], a[PARTS]), 2 * 4 * 2
        ),
        some(1, (F, 4, 3), units=12),
        lambda x, w: np.einsum("fblir,foi->fblor", x.reshape(F, B, 2, 3, 2), w).reshape(F, B, 16),
    ),
    "normalize": Rule(lambda *a: SCALED.normalize(xp, value(a, 0)), some(1), lambda x: x),
    "from_linear": Rule(
        lambda x: SCALED.from_linear(xp, x), lambda rng: ([], [magnitudes(rng, (F, B, K))]), lambda x: x
    ),
    "from_log": Rule(
        lambda x: SCALED.from_log(xp, x),
        lambda rng: ([], [(rng.normal(size=(F, B, K)) * rng.choice([1.0, 100.0, 3000.0])).astype(rng.dtype)]),
        np.exp,
    ),
    "categorical": Rule(
        lambda table, index: SCALED.from_weight(xp, normalized(table).map(lambda one: xp.lookup(one, index))),
        lambda rng: ([], [logits(rng), rng.integers(0, 5, (F, B))]),
        lambda table, index: np.exp(looked_up(log_softmax(table), index)),
    ),
}


def assert_sound(found: tuple[Array, ...], expected: Array, dtype: str, factor: int = 1) -> None:
    """`found` is within its bound, where that is one, of the numbers `expected`, and right where it is proven."""
    mantissa, scale, depth, lost, cap, rise, mask = found
    bound = lost * np.exp2(-depth.astype(WIDE))
    bound = np.where(bound * rise <= DELTA * cap, bound, np.inf)
    eps = float(np.finfo(dtype).eps)
    finite = np.isfinite(mantissa)
    assert not mask[~finite].any()
    exact = expected * np.exp2(-np.asarray(scale, WIDE))
    error = np.abs(np.where(finite, mantissa, 0) - np.where(finite, exact, 0))
    slack = ROUNDING * eps * (exact + bound)
    assert (error <= factor * bound + slack)[finite & np.isfinite(slack)].all()
    limit = (cap + factor * bound) * (1 + ROUNDING * eps)
    assert (mantissa <= limit)[finite & np.isfinite(limit)].all()
    assert (error <= (ROUNDING + factor) * eps * exact)[mask].all()
    assert not mask[(mantissa == 0)].any()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flush", [False, True], ids=["", "flush"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_rule_keeps_its_bound(name: str, dtype: str, flush: bool) -> None:
    rule = RULES[name]

    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        values, others = rule.inputs(Numbers(seed, dtype, flush))
        found = run(name, dtype, [*(array for one in values for array in one.arrays), *others], flush)
        wide = [other.astype(WIDE) if other.dtype.kind == "f" else other for other in others]
        assert_sound(found, rule.exact(*[one.number for one in values], *wide), dtype, FLUSHED if flush else 1)

    check()


def chain(rng: Numbers, length: int) -> tuple[Callable[..., Any], list[Array], Array]:
    """A random expression over inputs of rows that differ in size: its rule, its inputs, its logarithms."""
    far = {"float32": 40.0, "float64": 300.0}[rng.dtype]
    leaves = [rng.normal(size=(F, B, K)) * rng.choice([1.0, far], (F, B, 1)) for _ in range(length)]
    kinds = rng.choice(["mul", "sum", "contract", "tucker"], length - 1)
    weights = [magnitudes(rng, (F, K, K * K), 0.0) for _ in kinds]
    leaves = [leaf.astype(rng.dtype) for leaf in leaves]

    def rule(*arrays):
        result = SCALED.from_log(xp, arrays[0])
        for place, kind in enumerate(kinds):
            other, weight = SCALED.from_log(xp, arrays[1 + place]), arrays[length + place]
            if kind == "mul":
                result = SCALED.product(xp, result, other)
            elif kind == "sum":
                result = SCALED.total(xp, [result, other])
            elif kind == "contract":
                result = SCALED.contract(xp, [result, other], weight[:, :, : 2 * K])
            else:
                result = SCALED.einsum(xp, EINSUM[2], [result, other], xp.reshape(weight, (F, K, K, K)))
            result = SCALED.normalize(xp, result)
        return (*as_arrays(result), bound_holds(xp, result))

    total = leaves[0].astype(WIDE)
    for kind, leaf, weight in zip(kinds, leaves[1:], weights, strict=True):
        with np.errstate(divide="ignore"):
            log_weight = np.log(weight.astype(WIDE))[:, None]
        if kind == "mul":
            total = total + leaf
        elif kind == "sum":
            total = np.logaddexp(total, leaf)
        elif kind == "contract":
            total = np.logaddexp.reduce(
                np.concatenate([total, leaf], axis=2)[:, :, None] + log_weight[..., : 2 * K], axis=-1
            )
        else:
            pairs = (total[..., :, None] + leaf[..., None, :]).reshape(F, B, 1, K * K)
            total = np.logaddexp.reduce(pairs + log_weight, axis=-1)
    return rule, [*leaves, *weights], total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_chains_of_rules_keep_their_bound(dtype: str) -> None:
    num_proven, rows = 0, 0
    for seed in range(12):
        rng = Numbers(seed, dtype)
        rule, arrays, expected = chain(rng, int(rng.integers(2, 25)))
        program = trace(rule, *[spec(array.shape, dtype) for array in arrays])
        found = (one.numpy() for one in run_torch(program, *map(torch.from_numpy, arrays)))
        mantissa, scale, depth, lost, cap, rise, mask = found
        bound = lost * np.exp2(-depth.astype(WIDE))
        bound = np.where(bound * rise <= DELTA * cap, bound, np.inf)
        eps = float(np.finfo(dtype).eps)
        assert (scale == np.round(scale)).all(), "exponents are whole numbers"
        scale = scale * np.log(WIDE(2))
        # the inputs are logarithms, and round relative to their size
        slack = ROUNDING * eps * (1 + np.abs(scale) + np.abs(np.where(np.isfinite(expected), expected, 0)))
        exact = np.exp(expected - scale)
        assert (np.abs(mantissa - exact) <= (bound + slack * (exact + bound))).all(), seed
        logs = np.log(mantissa) + scale
        assert (np.abs(logs - expected) <= slack)[mask].all(), seed
        num_proven, rows = num_proven + mask.sum(), rows + mask.size
    assert 0.2 * rows < num_proven < rows


def test_a_factor_that_underflows_is_counted() -> None:
    """1e10 2^-151 is 4e-36, though 2^-151 is 0 in float32."""

    def rule(a, b):
        large = (a, xp.full((1, 1, 1), -151.0, dtype=a.dtype), 0.0, 2.0**-126, a, 1.0)
        return as_arrays(SCALED.total(xp, [large, SCALED.from_linear(xp, b)]))

    arrays = [torch.full((1, 1, 1), number) for number in (1e10, 1e-30)]
    mantissa, scale, depth, lost, *_ = run_torch(trace(rule, *[spec((1, 1, 1), "float32")] * 2), *arrays)
    assert (float(mantissa), float(scale)) == (pytest.approx(1e-30), 0)
    assert 4e-36 < float(lost * torch.exp2(-depth)) < 1e-26


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_overflows_is_not_proven(dtype: str) -> None:
    """Sums whose mantissas pass the largest number are ordinary logarithms in log space."""
    large = float(np.sqrt(np.finfo(dtype).max)) * 10

    def rule(x, w):
        first = SCALED.contract(xp, [SCALED.from_log(xp, x)], w)
        second = SCALED.contract(xp, [first], w)
        return [bound_holds(xp, one) for one in (first, second, SCALED.normalize(xp, second))]

    program = trace(rule, spec((1, 1, 2), dtype), spec((1, 2, 2), dtype))
    arrays = np.zeros((1, 1, 2), dtype), np.full((1, 2, 2), large, dtype)
    first, *others = run_torch(program, *map(torch.from_numpy, arrays))
    assert first.all()
    assert not any(one.any() for one in others)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_nan_and_infinities_are_never_proven(dtype: str) -> None:
    def rule(x):
        return bound_holds(xp, SCALED.normalize(xp, SCALED.from_log(xp, x)))

    (mask,) = run_torch(
        trace(rule, spec((1, 5, 2), dtype)),
        torch.tensor(
            [[[-torch.inf, -torch.inf], [0, -torch.inf], [torch.nan, 0], [0, torch.inf], [0, 0]]],
            dtype=getattr(torch, dtype),
        ),
    )
    assert mask[0].tolist() == [[False] * 2, [True, False], [False] * 2, [False] * 2, [True] * 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_and_one_are_neutral(dtype: str) -> None:
    x = magnitudes(Numbers(0, dtype), (F, B, K))

    def rule(array):
        a = SCALED.from_linear(xp, array)
        one, zero = (make(xp, (F, 1, K), array.dtype) for make in (SCALED.one, SCALED.zero))
        return [SCALED.to_linear(xp, result) for result in (SCALED.product(xp, a, one), SCALED.total(xp, [a, zero]))]

    for found in run_torch(trace(rule, spec(x.shape, dtype)), torch.from_numpy(x)):
        np.testing.assert_array_equal(found, x)
