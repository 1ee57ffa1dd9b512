"""Logarithms have the derivative 1 / x in each dtype, in nearly all of its range."""

import math

import pytest
import torch

from plica.backend.torch.logs import safe_log

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
