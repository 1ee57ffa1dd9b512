"""Exponents that are added up to one row become one sum: the same numbers to the last bit, or nothing is changed."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import plica
from plica.ir.program import Program
from plica.ir.types import spec
from plica.passes.clean import clean
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.exponents import sum_exponents
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import run_torch

Function = Callable[..., Any]
X = spec((8, "b", 3), "float32")


def exponent(x: Any) -> Any:
    return xp.log2(xp.rescale(x)[1])


def halves(x: Any) -> tuple[Any, Any]:
    size = int(x.dims[0]) // 2
    return x[:size], x[size:]


def tree(x: Any, scale: Any = 0.0) -> Any:
    """Products of halves, rescaled, down to one row, with their scales."""
    while int(x.dims[0]) > 1:
        x, power = xp.rescale(x)
        scale = scale + xp.log2(power)
        (a, b), (s, t) = halves(x), halves(scale)
        x, scale = a * b, s + t
    return x, scale


def summed(function: Function, *specs: Any) -> Program:
    """The Program of a function after the pass."""
    program = eliminate_dead_code(sum_exponents(trace(function, *specs)))
    plica.verify(program)
    return program


def is_changed(function: Function, *specs: Any) -> bool:
    return any(one.op.name == "sum" for one in summed(function, *specs).equations)


@cache
def both(function: Function, *types: tuple[tuple[int, ...], str]) -> tuple[Program, Program]:
    """The Program of a function before and after the pass."""
    specs = [spec(*one) for one in types]
    return trace(function, *specs), summed(function, *specs)


def assert_same_bits(function: Function, *arrays: Any) -> None:
    before, after = both(function, *[(one.shape, str(one.dtype)) for one in arrays])
    tensors = [torch.from_numpy(one) for one in arrays]
    for one, two in zip(run_torch(before, *tensors), run_torch(after, *tensors), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0, equal_nan=True)
    for first, second in zip(plica.interpret(before, *arrays), plica.interpret(after, *arrays), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_tree_has_one_sum() -> None:
    program = summed(tree, X)
    names = Counter(one.op.name for one in program.equations)
    assert names == {"rescale": 3, "slice": 6, "multiply": 3, "concat": 1, "log2": 1, "sum": 1}
    (joined,) = [one for one in program.equations if one.op.name == "concat"]
    assert [one.type.shape[0] for one in joined.inputs] == [8, 4, 2]


def test_logarithms_that_something_else_reads_are_summed_themselves() -> None:
    def function(x):
        first = exponent(x)
        second = exponent(x[:4] * 2.0)
        fours = (first[:4] + first[4:]) + second
        pairs = fours[:2] + fours[2:]
        return xp.minimum(first[:4], second), pairs[:1] + pairs[1:]

    names = Counter(one.op.name for one in summed(function, X).equations)
    assert (names["log2"], names["concat"], names["sum"], names["add"]) == (2, 1, 1, 0)
    assert_same_bits(function, np.linspace(1e-30, 1, 48, dtype="float32").reshape(8, 2, 3))


def test_splits_and_slices_are_the_same() -> None:
    """What was cleaned once is not changed again."""
    program = clean(trace(tree, X))
    assert any(one.op.name == "split" for one in program.equations)
    assert clean(program) == program


def irregular(x: Any) -> Any:
    """Rows in another order, some of which are read further down."""
    first = exponent(x)
    second = exponent(x[:3] * 0.125)
    pairs = xp.concat([first[6:7], first[1:2], first[7:]]) + first[:6:2] + second
    rest = pairs[2:] + pairs[1:2]
    return rest + first[3:4] + pairs[:1] + first[5:6]


SPECIAL = [0.0, 1e-45, 1e-38, 1.0, 3e38, np.inf, np.nan]


@pytest.mark.parametrize("function", [tree, irregular])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_the_sum_is_the_same_to_the_last_bit(function: Function, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype, digits in (("float32", 37), ("float64", 300)):
        x = (10.0 ** rng.uniform(-digits, 0, (8, 2, 3))).astype(dtype)
        x[rng.random(x.shape) < 0.05] = rng.choice(SPECIAL)
        with np.errstate(all="ignore"):
            assert_same_bits(function, x)


def mixed(x: Any) -> Any:
    return tree(x, xp.maximum(exponent(x), 0.0))[1]


def read_twice(x: Any) -> Any:
    scale = exponent(x)
    pairs = scale[:4] + scale[4:]
    fours = pairs[:2] + pairs[2:]
    return fours[:1] + fours[1:] + scale[:1]


def read_in_part(x: Any) -> Any:
    scale = exponent(x)
    pairs = scale[:3] + scale[3:6]
    return pairs[:1] + pairs[1:2] + pairs[2:]


def read_elsewhere(x: Any) -> Any:
    scale = exponent(x)
    pairs = scale[:4] + scale[4:]
    fours = pairs[:2] + pairs[2:]
    return scale, pairs, fours, fours[:1] + fours[1:]


def other_logarithms(x: Any) -> Any:
    return tree(x, xp.log2(xp.max(x, axis=2, keepdims=True)))[1]


def short(x: Any) -> Any:
    return exponent(x[:1]) + exponent(x[1:2])


def of_columns(x: Any) -> Any:
    scale = exponent(x[:1])
    pairs = scale[:, :2] + scale[:, 2:]
    return pairs[:, :1] + pairs[:, 1:]


UNCHANGED = {
    "a largest scale": (mixed, X),
    "a row that is read twice": (read_twice, X),
    "rows that are not read": (read_in_part, X),
    "sums that are read elsewhere": (read_elsewhere, X),
    "other logarithms": (other_logarithms, X),
    "a sum as short as its replacement": (short, X),
    "sums of columns": (of_columns, spec((8, 4, 3), "float32")),
    "numbers of eight bits": (tree, spec((8, "b", 3), "bfloat16")),
    "more than the dtype counts": (tree, spec((128, "b", 3), "float16")),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_is_no_exact_sum_of_all_rows_stays(name: str) -> None:
    function, *specs = UNCHANGED[name]
    assert not is_changed(function, *specs)
    if name in ("a row that is read twice", "rows that are not read"):
        assert_same_bits(function, np.full((8, 2, 3), 0.1, "float32"))


def test_as_many_rows_are_summed_as_the_dtype_counts() -> None:
    """64 and 32 and ... rows of exponents up to 16: 127 * 16 is below 2**11, 255 * 16 is not."""
    assert is_changed(tree, spec((64, "b", 3), "float16"))
    x = np.full((64, 1, 3), 2.0**-13, "float16")
    assert_same_bits(tree, x)


def test_a_number_of_rows_that_is_not_known_stays() -> None:
    def function(x):
        scale = exponent(x)
        return xp.sum(scale + scale, axis=0, keepdims=True)

    assert sum_exponents(trace(function, spec(("n", "b", 3)))) == trace(function, spec(("n", "b", 3)))


def test_gradients_pass_by() -> None:
    x = torch.rand(8, 2, 3, requires_grad=True)
    (mantissa, scale) = run_torch(summed(tree, spec((8, 2, 3), "float32")), x)
    assert not scale.requires_grad
    (torch.log2(mantissa).sum() + scale.sum()).backward()
    expected = 1 / (x.detach() * np.log(2))
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected, rtol=1e-5, atol=0)
