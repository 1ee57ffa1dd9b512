"""Logarithms have the derivative 1 / x in each dtype, in nearly all of its range."""

import math

import pytest
import torch

import plica.numpy as pnp
from plica.backend.torch.logs import power, safe_log

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_derivative_of_a_logarithm(dtype) -> None:
    """Down to a number of which eight derivatives have a sum, which float16 holds too."""
    limits = torch.finfo(dtype)
    least = max(min(limits.tiny * 2.0**10, 1e-30), 12 / limits.max)
    x = torch.logspace(math.log10(least), 0, 50, dtype=torch.float64)
    x = torch.cat([torch.zeros(1), x.clamp(min=least * 1.01)]).to(dtype).requires_grad_()
    safe_log(x).sum().backward()
    assert x.grad is not None
    assert x.grad[0] == 0
    torch.testing.assert_close(x.grad[1:].double(), 1 / x.detach()[1:].double(), rtol=4 * limits.eps, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_the_complex_zero_to_the_power_zero_is_one(dtype) -> None:
    bases, exponents = (torch.tensor(numbers, dtype=dtype) for numbers in ([0, 0, 1 + 1j, 2], [0, 2, 0, 1j]))
    expected = torch.from_numpy(pnp.pow(bases.numpy(), exponents.numpy()))
    torch.testing.assert_close(power(bases, exponents), expected)
    torch.testing.assert_close(power(0.0, exponents[:2]), expected[:2])
    torch.testing.assert_close(power(bases[:2], 0.0), torch.ones(2, dtype=dtype))
    x, y = bases.requires_grad_(), exponents.requires_grad_()
    power(x, y).real.sum().backward()
    for found in (x.grad, y.grad):
        assert found is not None
        assert found.isfinite().all()
