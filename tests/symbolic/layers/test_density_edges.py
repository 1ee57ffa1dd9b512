"""Edges of densities: draws at the ends of uniform numbers, limits of parameters, empty boxes."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import plica.numpy as pnp
from plica.symbolic.layers import (
    LAYER_ROWS,
    BetaLayer,
    ExponentialLayer,
    GammaLayer,
    GeometricLayer,
    LaplaceLayer,
    LogNormalLayer,
    MultivariateGaussianLayer,
    NegativeBinomialLayer,
    StudentTLayer,
    VonMisesLayer,
)
from plica.symbolic.semirings import SEMIRINGS, Params

LOG = SEMIRINGS["lse-sum"]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def run(layer: Any, column: str, values: dict[str, Any], *arrays: Any, dtype: Any = torch.float64) -> Any:
    """A column of the row of a class, for units of these numbers, and the tensors of these."""
    units = len(next(iter(values.values())))
    tensors = {name: torch.tensor([one], dtype=dtype, requires_grad=True) for name, one in values.items()}
    row, params = LAYER_ROWS[layer], Params.of(pnp, tensors)
    rule = getattr(row, column)
    if column in ("sample", "mean", "variance"):
        return rule(pnp, layer([0], units), params, *arrays), tensors
    return LOG.to_log(pnp, rule(pnp, LOG, layer([0], units), params, *arrays)), tensors


SIZES = (1.0, 1.5, 3.0, 30.0, 1e3, 1e6)


@DTYPES
@pytest.mark.parametrize("layer", [GammaLayer, BetaLayer])
def test_draws_have_a_density(layer: Any, dtype: torch.dtype) -> None:
    """A uniform number of float32 is 0 once in 16 million draws; x that is nearly 1 may be rounded to 1."""
    first, second = np.array(list(itertools.product(SIZES, SIZES))).T
    names = ("concentration", "rate") if layer is GammaLayer else ("alpha", "beta")
    values = dict(zip(names, (first.tolist(), second.tolist()), strict=True))
    units = torch.arange(len(first))[None]
    for level in (0.0, 1e-6, 0.5, 0.999, 1 - float(torch.finfo(dtype).eps) / 2):
        drawn, _ = run(layer, "sample", values, units, torch.full((1, len(first), 1), level, dtype=dtype), dtype=dtype)
        found, _ = run(layer, "body", values, drawn.detach(), dtype=dtype)
        assert found[0].diagonal().isfinite().all(), level


@DTYPES
@pytest.mark.parametrize(
    ("layer", "values"),
    [
        (ExponentialLayer, {"rate": [1e-30, 2.0]}),
        (LaplaceLayer, {"loc": [0.0, 1.0], "scale": [1e30, 100.0]}),
        (GammaLayer, {"concentration": [0.5, 3.0], "rate": [1e-30, 2.0]}),
        (MultivariateGaussianLayer, {"mean": [[0.0], [1.0]], "scale_tril": [[[2.0]], [[1e30]]]}),
    ],
)
def test_infinity_has_density_zero(layer: Any, values: dict[str, Any], dtype: torch.dtype) -> None:
    """Where others have none, and send nothing back."""
    x = torch.tensor([[[torch.inf], [1.0]]], dtype=dtype)
    found, tensors = run(layer, "body", values, x, dtype=dtype)
    assert found[0, 0].isneginf().all()
    assert found[0, 1].isfinite().all()
    found.exp().sum().backward()
    assert all(one.grad.isfinite().all() for one in tensors.values())


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_laplace_densities_of_far_data_are_what_they_are(scale: float) -> None:
    x = torch.tensor([[[1e30], [-1e30], [-3e36]]], dtype=torch.float32)
    found, _ = run(LaplaceLayer, "body", {"loc": [0.5], "scale": [scale]}, x, dtype=torch.float32)
    torch.testing.assert_close(found[0, :, 0], -x[0, :, 0].abs() / scale)


@pytest.mark.parametrize("layer", [GammaLayer, BetaLayer])
def test_crossed_boxes_are_empty(layer: Any) -> None:
    sizes = {"concentration": [1e-18, 2.0], "rate": [1.0, 1.0]}
    values = sizes if layer is GammaLayer else {"alpha": [1e-18, 2.0], "beta": [1e-3, 1.0]}
    low, high = (torch.tensor(one, dtype=torch.float64)[None, :, None] for one in ([0.5, 0.9], [1e-30, 0.4]))
    found, _ = run(layer, "interval", values, low, high)
    assert (found == -np.inf).all()


def test_t_distributions_of_many_degrees_of_freedom_are_normal() -> None:
    sizes, levels = [1e3, 1e6, 1e8, 1e10, 1e12, 1e15, 1e18, 1e30], [1e-9, 0.1, 0.4, 0.5, 0.9]
    values = {"df": sizes, "loc": [0.0] * 8, "scale": [1.0] * 8}
    for level in levels:
        uniforms = torch.full((1, 8, 1), level, dtype=torch.float64)
        drawn, _ = run(StudentTLayer, "sample", values, torch.arange(8)[None], uniforms)
        expected = [stats.t(df).ppf(level) if df < 1e8 else stats.norm.ppf(level) for df in sizes]
        # as far as float64 holds the ratio of df and df + t^2; the t of 1e8 is nearly normal
        np.testing.assert_allclose(drawn.detach().flatten().numpy(), expected, rtol=5e-7, atol=1e-9)
    low, high = (
        torch.tensor(one, dtype=torch.float64)[None, :, None] for one in ([-1.0, 1.0, 5.0], [2.0, 3.0, np.inf])
    )
    found, tensors = run(StudentTLayer, "interval", values, low, high)
    normal = stats.norm.sf([-1.0, 1.0, 5.0]) - stats.norm.sf([2.0, 3.0, np.inf])
    np.testing.assert_allclose(found.detach().exp().numpy()[0, :, 3:], np.tile(normal[:, None], 5), rtol=3e-8)
    for slope in torch.autograd.grad(found.sum(), list(tensors.values())):
        assert slope.isfinite().all()


@DTYPES
def test_t_distributions_of_few_degrees_of_freedom_have_derivatives(dtype: torch.dtype) -> None:
    sizes = [1e-37, 1e-30, 1e-18, 1e-6, 0.0019, 0.0021]
    values = {"df": sizes, "loc": [0.0] * 6, "scale": [1.0] * 6}
    found, tensors = run(StudentTLayer, "body", values, torch.tensor([[[0.5]]], dtype=dtype), dtype=dtype)
    expected = [stats.t(df).logpdf(0.5) for df in sizes]
    np.testing.assert_allclose(found.detach().flatten().numpy(), expected, rtol=1e-6)
    (slope,) = torch.autograd.grad(found.sum(), [tensors["df"]])
    # the density is about df / (2 t) there
    np.testing.assert_allclose(slope[0, :4].numpy() * np.array(sizes[:4]), 1, rtol=1e-4)


def test_the_variance_of_a_log_normal_overflows_only_where_it_must() -> None:
    values = {"loc": [-1000.0, -890.0, 0.0, 3.0], "scale": [30.0, 30.0, 1e-8, 1.0]}
    found, tensors = run(LogNormalLayer, "variance", values)
    loc, scale = (np.array(one) for one in values.values())
    expected = -np.expm1(-(scale**2)) * np.exp(2 * loc + 2 * scale**2)
    np.testing.assert_allclose(found.detach().flatten().numpy(), expected, rtol=1e-12)
    for slope in torch.autograd.grad(found.sum(), list(tensors.values())):
        assert slope.isfinite().all()


def test_angles_without_concentration_and_locations_of_many_turns() -> None:
    values: dict[str, list[float]] = {"loc": [0.5, 1e30, -7.0], "concentration": [0.0, 2.0, 3.0]}
    for level in (0.0, 0.25, 0.5, 0.75):
        uniforms: Tensor = torch.full((1, 3, 1), level, dtype=torch.float64)
        drawn, _ = run(VonMisesLayer, "sample", values, torch.arange(3)[None], uniforms)
        assert drawn.isfinite().all()
        turned = 0.5 + 2 * np.pi * (level - 0.5)
        np.testing.assert_allclose(np.cos(drawn[0, 0].item()), np.cos(turned), atol=1e-6)
    ends = [torch.tensor([[[one]]], dtype=torch.float64) for one in (-np.inf, np.inf)]
    found, _ = run(VonMisesLayer, "interval", values, *ends)
    np.testing.assert_allclose(found.detach().flatten().numpy(), 0, atol=1e-9)


OVERFLOWING = {
    LogNormalLayer: {"loc": [0.0, 500.0, 0.0], "scale": [1e200, 30.0, 1.0]},
    GeometricLayer: {"logits": [-1e200, -720.0, 0.0]},
    NegativeBinomialLayer: {"total_count": [0.5, 2.0, 1.0], "logits": [-1e200, -720.0, 0.0]},
    StudentTLayer: {"df": [1e30, 2.5, 3.0], "loc": [0.0, 0.0, 0.0], "scale": [1e200, 1e200, 1.0]},
}


@DTYPES
@pytest.mark.parametrize("layer", OVERFLOWING)
def test_moments_that_overflow_have_derivatives_that_are_numbers(layer: Any, dtype: torch.dtype) -> None:
    values = OVERFLOWING[layer]
    limit = 1e38 if dtype == torch.float32 else 1e300
    values = {name: [min(max(one, -limit), limit) for one in row] for name, row in values.items()}
    for column in ("mean", "variance"):
        found, tensors = run(layer, column, values, dtype=dtype)
        assert not found.isnan().any()
        assert found[0, 2].isfinite()
        if (layer, column) != (StudentTLayer, "mean"):
            assert (found[0, :2] == np.inf).all()
        for slope in torch.autograd.grad(found.sum(), list(tensors.values()), allow_unused=True):
            assert slope is None or not slope.isnan().any(), (layer, column)
