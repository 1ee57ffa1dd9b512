"""Logarithms of densities: first, second and third derivatives against the plain formula and against differences."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from plica.backend.torch.densities import log_normal

SHAPES: list[tuple[tuple[int, ...], ...]] = [
    ((3, 1, 1), (1, 2), (1, 2)),
    ((2, 1), (1, 3), (1, 1)),
    ((2, 3), (2, 3), (2, 3)),
    ((), (2,), (2,)),
    ((4,), (), ()),
    ((2, 1), (3,), (2, 3)),
]


def plain(x: Tensor, mean: Tensor, log_stddev: Tensor) -> Tensor:
    standard = (x - mean) * torch.exp(-log_stddev)
    return -0.5 * standard * standard - log_stddev - 0.5 * math.log(2 * math.pi)


def drawn(shapes: tuple[tuple[int, ...], ...], shift: float = 0.0) -> list[Tensor]:
    """Data, means, and logarithms of spreads around `shift`."""
    generator = torch.Generator().manual_seed(0)
    x, mean, log = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [one.requires_grad_() for one in (3 * x, mean, log * 0.5 + shift)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_derivatives_are_limits_of_differences(shapes: Any) -> None:
    given = drawn(shapes)
    assert torch.autograd.gradcheck(log_normal, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(log_normal, given)


@pytest.mark.parametrize("shift", [-30.0, 0.0, 30.0])
@pytest.mark.parametrize("places", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_three_derivatives_are_those_of_the_formula(places: tuple[int, ...], shift: float) -> None:
    found: list[Tensor] = []
    expected: list[Tensor] = []
    for function, values in ((log_normal, found), (plain, expected)):
        given = [one.detach().requires_grad_(place in places) for place, one in enumerate(drawn(SHAPES[0], shift))]
        leaves = [given[place] for place in places]
        value = function(*given)
        for _ in range(3):
            values.append(value)
            if not value.requires_grad:
                break
            slopes = torch.autograd.grad(
                (value * torch.arange(1, value.numel() + 1).reshape(value.shape)).sum(), leaves, create_graph=True
            )
            value = torch.cat([slope.flatten() for slope in slopes])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * other.detach().abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nothing_is_nan_however_far_and_narrow(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    spread = math.log(largest)
    x = torch.tensor([0.0, 1.0, largest**0.49, largest**0.51, largest, math.inf, -math.inf], dtype=dtype)
    logs = torch.tensor([-1.1, -1.0, -0.5, 0.0, 0.5, 1.0], dtype=dtype) * spread
    given = [x[:, None, None].requires_grad_(), x[:, None].clone().requires_grad_(), logs.requires_grad_()]
    value = log_normal(*given)
    assert not value.isnan().any()
    for slope in torch.autograd.grad(torch.where(value.isfinite(), value, 0.0).sum(), given):
        assert not slope.isnan().any()
