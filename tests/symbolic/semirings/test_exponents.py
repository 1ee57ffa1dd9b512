"""Logarithms as mantissas and exponents of two, against extended precision; scales that may be numbers of Python."""

import numpy as np
import pytest
import torch

from plica.ir.types import spec
from plica.symbolic.semirings.exponents import largest, least, of_logs, plus, times_power
from plica.tracing import namespace as xp
from plica.tracing.trace import trace
from tests.harness.programs import run_torch

WIDE = np.longdouble
DTYPES = ["float32", "float64"]


def taken_apart(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    program = trace(lambda one: of_logs(xp, one), spec(x.shape, str(x.dtype)))
    mantissa, exponent = (one.numpy() for one in run_torch(program, torch.from_numpy(x)))
    return mantissa, exponent


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_logarithms_lose_no_digits(dtype: str) -> None:
    """The product of 14,426 by the logarithm of two, rounded, would be wrong by 2**-12 in single precision."""
    x = np.random.default_rng(0).uniform(-1e4, 1e4, (2, 500, 1)) - np.arange(3.0)
    x = x.astype(dtype)
    mantissa, exponent = taken_apart(x)
    assert (exponent == np.round(exponent)).all()
    assert (mantissa.max(axis=2) > 0.35).all()
    assert mantissa.max() < 0.71
    ratio = mantissa / np.exp(x.astype(WIDE) - exponent.astype(WIDE) * np.log(WIDE(2)))
    np.testing.assert_allclose(ratio.astype(float), 1, rtol=0, atol=8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("first", "expected"),
    [(-np.inf, 0.0), ("least", 0.0), (3.0, np.exp(3.0)), ("largest", np.inf), (np.inf, np.inf), (np.nan, np.nan)],
)
def test_the_largest_of_a_row_may_be_no_ordinary_number(dtype: str, first: float | str, expected: float) -> None:
    limits = np.finfo(dtype)
    number = {"largest": limits.max, "least": limits.min}.get(str(first), first)
    mantissa, exponent = taken_apart(np.asarray([[[number, -np.inf]]], dtype))
    assert np.isfinite(exponent).all() != np.isnan(expected)
    size = np.clip(exponent, -100.0, 100.0).item()  # where it is larger, the mantissa is 0 or infinite
    np.testing.assert_allclose(float(mantissa[0, 0, 0]) * 2.0**size, expected, rtol=1e-6)


def test_the_exponent_has_no_gradient() -> None:
    x = torch.tensor([[[1.0, 2.5]]], requires_grad=True)
    mantissa, exponent = run_torch(trace(lambda one: of_logs(xp, one), spec((1, 1, 2), "float32")), x)
    assert not exponent.requires_grad
    mantissa.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, mantissa.detach())


def test_numbers_of_python_make_no_arrays() -> None:
    def function(x):
        assert plus(0.0, x) is x
        assert plus(x, 0.0) is x
        assert times_power(xp, x, 0.0) is x
        assert (plus(1.0, 2.0), largest(xp, [1.0, 2.0]), least(xp, [1.0, 2.0])) == (3.0, 2.0, 1.0)
        return largest(xp, [x, 0.0]), least(xp, [0.0, x, x]), times_power(xp, x, x)

    x = torch.tensor([-1.0, 2.0])
    found = run_torch(trace(function, spec(2, "float32")), x)
    assert [one.tolist() for one in found] == [[0.0, 2.0], [-1.0, 0.0], [-0.5, 8.0]]
