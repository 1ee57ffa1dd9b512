"""Normal densities of spreads near the ends of float32, beside a float64 recursion in logarithms."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from plica.backend.torch.compiler import TorchCompiler
from plica.lower import cascade
from plica.symbolic.layers import GaussianLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, Parameter, ParameterOp, SoftplusParameter
from plica.symbolic.parameters.nodes import Shape
from plica.symbolic.semirings import Bound
from tests.harness.circuits import chain, constant, tensor

FORMS: dict[str, tuple[Callable[[Shape], ParameterOp], Callable[[Tensor], Tensor]]] = {
    "exp": (ExpParameter, lambda leaf: leaf),
    "softplus": (SoftplusParameter, lambda leaf: torch.where(leaf < -40, leaf, torch.log(torch.log1p(leaf.exp())))),
}
PATHS = pytest.mark.parametrize("scaled_first", [True, False])


def slopes(means: list[float], logs: list[float], rows: list[float], form: str = "exp") -> list[Tensor]:
    """The values of an even mixture in float32, and the gradients of the means and the logarithms of the spreads."""
    units = len(logs)
    mean, leaf = tensor(means), tensor(logs)
    spread = Parameter.from_sequence(leaf, FORMS[form][0]((units,)))
    layer = GaussianLayer([0], units, mean=Parameter.from_input(mean), stddev=spread)
    weight = Parameter.from_input(constant(np.full((1, units), 1 / units)))
    compiler = TorchCompiler(dtype=torch.float32)
    compiled = compiler.compile(chain(layer, SumLayer(units, 1, weight=weight)))
    found = compiled(torch.tensor(rows)[:, None]).flatten()
    found[found.isfinite()].sum().backward()
    held = [compiler.tensor_of(one) for one in (mean, leaf)]
    return [found.detach(), *(one.grad[fold] for one, fold in held if one.grad is not None)]


def expected(means: list[float], logs: list[float], rows: list[float], form: str = "exp") -> list[Tensor]:
    """The same in float64, the logarithm of each term first."""
    mean, leaf = (torch.tensor(one).double().requires_grad_() for one in (means, logs))
    x, log = torch.tensor(rows).double()[:, None], FORMS[form][1](leaf)
    terms = -((torch.nan_to_num(x) - mean) * (-log).exp()).square() / 2 - log - math.log(2 * math.pi) / 2
    found = torch.logsumexp(torch.where(x.isnan(), 0.0, terms) - math.log(len(logs)), 1)
    found[found.isfinite() & (found.abs() < torch.finfo(torch.float32).max)].sum().backward()
    return [found.detach(), *(one.grad for one in (mean, leaf) if one.grad is not None)]


@PATHS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("log", [-30.0, -48.5, -60.0, -86.0, -100.0, -110.0])
def test_a_spread_too_narrow_for_its_inverse_squared(
    log: float, form: str, scaled_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivative of a quotient by the spread was 0 * inf where the density of the unit was 0."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    case = [0.0, 1.0, 0.25], [0.5, log, -3.0], [0.75, 1.0, -2.0, math.nan], form
    for found, wanted in zip(slopes(*case), expected(*case), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=3e-5, atol=1e-5)


def test_a_large_gradient_that_float32_holds() -> None:
    """The gradient of log s is 1.6e30, that of s itself is not in float32."""
    case = [0.0], [-35.0], [0.8]
    for found, wanted in zip(slopes(*case), expected(*case), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=0.0)


@PATHS
def test_gradients_too_large_for_float32_are_no_nan(scaled_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows on both sides of a mean, each of whose gradients is infinite, and a row that another unit explains."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    case = [0.0, 40.0], [-47.0, -46.5], [0.02, -0.01, np.nextafter(np.float32(40), np.float32(41)).item()]
    (values, mean, log), (wanted_values, wanted_mean, wanted_log) = slopes(*case), expected(*case)
    assert wanted_mean[0].abs() > torch.finfo(torch.float32).max
    torch.testing.assert_close(values.double(), wanted_values, rtol=1e-5, atol=0.0)
    assert not mean[0].isnan()
    assert mean[0].sign() == wanted_mean[0].sign()
    torch.testing.assert_close(mean[1].double(), wanted_mean[1], rtol=1e-5, atol=0.0)
    torch.testing.assert_close(log.double(), wanted_log, rtol=1e-5, atol=0.0)
