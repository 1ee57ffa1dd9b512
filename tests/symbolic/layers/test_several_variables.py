"""Normal densities of several variables: any of them missing in any row, extreme scales, derivatives."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, DiagonalGaussianLayer, MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.semirings import SEMIRINGS, Params

LOG = SEMIRINGS["lse-sum"]
EACH = pytest.mark.parametrize("layer", [DiagonalGaussianLayer, MultivariateGaussianLayer])
MEAN = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -0.5]])
FACTOR = np.array([[[1.0, 0, 0], [0.5, 2.0, 0], [-0.7, 0.3, 0.4]], [[0.3, 0, 0], [-2.0, 1.0, 0], [0.1, 0.2, 3.0]]])


def second(layer: Any) -> dict[str, Any]:
    """The parameter of spreads, by name."""
    if layer is DiagonalGaussianLayer:
        return {"stddev": np.abs(np.diagonal(FACTOR, axis1=1, axis2=2))}
    return {"scale_tril": FACTOR}


def constant(value: Any) -> Parameter:
    return Parameter.from_input(ConstantParameter(*np.shape(value), value=np.asarray(value)))


def covariance(layer: Any, unit: int) -> Any:
    (value,) = second(layer).values()
    return np.diag(value[unit] ** 2) if layer is DiagonalGaussianLayer else value[unit] @ value[unit].T


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_mask_of_a_row_gives_the_marginal_density_of_the_rest(layer: Any, dtype: str) -> None:
    one = layer([4, 0, 2], 2, mean=constant(MEAN), **{name: constant(x) for name, x in second(layer).items()})
    total = SumLayer(2, 1, weight=constant([[0.3, 0.7]]))
    compiled = TorchCompiler(dtype=dtype).compile(Circuit([one, total], {total: [one]}, [total]))
    masks = np.array(np.meshgrid(*[[False, True]] * 3)).reshape(3, -1).T
    x = np.full((8, 5), np.nan)
    x[:, [0, 2, 4]] = np.random.default_rng(0).normal(size=(8, 3))  # variables by number
    x[:, [0, 2, 4]] = np.where(masks, np.nan, x[:, [0, 2, 4]])
    found = compiled(torch.tensor(x)).flatten().double().detach().numpy()
    for row, mask, value in zip(x[:, [0, 2, 4]], masks, found, strict=True):
        known = ~mask
        densities = [
            stats.multivariate_normal(MEAN[unit][known], covariance(layer, unit)[np.ix_(known, known)]).pdf(row[known])
            if known.any()
            else 1.0
            for unit in range(2)
        ]
        np.testing.assert_allclose(value, np.log(np.dot([0.3, 0.7], densities)), rtol=1e-5, atol=1e-6)


def rule(layer: Any, column: str, *arrays: Tensor) -> Any:
    """A column of the row as a function of the parameters."""
    one = layer([0, 1, 2], 2)

    def apply(mean: Tensor, spread: Tensor) -> Tensor:
        params = Params.of(pnp, dict(zip(one.params, (mean, spread), strict=True)))
        return LOG.to_log(pnp, getattr(LAYER_ROWS[layer], column)(pnp, LOG, one, params, *arrays))

    return apply


@EACH
def test_derivatives_are_limits_of_differences(layer: Any) -> None:
    (spread,) = second(layer).values()
    leaves = [torch.tensor(one[None], requires_grad=True) for one in (MEAN, spread)]
    x = torch.tensor(np.random.default_rng(0).normal(size=(1, 5, 3)))
    missing = torch.tensor(np.random.default_rng(1).random((1, 5, 3)) < 0.5)
    assert torch.autograd.gradcheck(rule(layer, "body", x), leaves)
    assert torch.autograd.gradcheck(rule(layer, "partial", x, missing), leaves)
    assert torch.autograd.gradcheck(rule(layer, "partial_maximum", x, missing), leaves)
    assert torch.autograd.gradgradcheck(rule(layer, "partial", x, missing), leaves, fast_mode=True)


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_scales_apart_and_data_far_away(layer: Any, dtype: torch.dtype) -> None:
    scales = np.array([1e-6, 1.0, 1e6])
    (spread,) = second(layer).values()
    spread = spread * (scales if layer is DiagonalGaussianLayer else scales[:, None])
    mean = MEAN * scales
    leaves = [torch.tensor(one[None], dtype=dtype, requires_grad=True) for one in (mean, spread)]
    near = mean[:, None, :] + scales * np.random.default_rng(0).normal(size=(2, 3, 3))
    x = np.concatenate([near.reshape(-1, 3), np.full((1, 3), 1e30), np.full((1, 3), -np.inf), np.zeros((1, 3))])
    data = torch.tensor(x[None], dtype=dtype)
    missing = torch.zeros(data.shape, dtype=torch.bool)
    for column, arrays in (("body", ()), ("partial", (missing,)), ("partial_maximum", (missing,))):
        found = rule(layer, column, data, *arrays)(*leaves)
        assert not found.isnan().any()
        for slope in torch.autograd.grad(found[found.isfinite()].sum(), leaves):
            assert slope.isfinite().all()
        rounded = [one.detach().double().numpy()[0] for one in leaves]
        for unit in range(2):
            factor = np.diag(rounded[1][unit]) if layer is DiagonalGaussianLayer else rounded[1][unit]
            one = stats.multivariate_normal(np.zeros(3), (factor / scales[:, None]) @ (factor / scales[:, None]).T)
            exact = one.logpdf((data.double().numpy()[0] - rounded[0][unit]) / scales) - np.log(scales).sum()
            values = found.detach().double().numpy()[0, :, unit]
            np.testing.assert_allclose(values[:6], exact[:6], rtol=2e-5, atol=1e-5)
            assert (values[6:8] < -1e6).all()


@EACH
@pytest.mark.parametrize("hidden", [False, True])
def test_single_floats_tell_how_far_data_are_as_doubles_do(layer: Any, hidden: bool) -> None:
    """In values and derivatives; much farther, densities are 0 and derivatives finite."""
    (spread,) = second(layer).values()
    far = np.array([1e5, 3e9, 1e10, 1e12, 2e13])
    x = torch.tensor(np.concatenate([far[:, None] * [1.0, -0.5, 0.25], [[1e25, 0, 0], [0, 0, np.inf]]])[None])
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[..., 1] = hidden
    values, slopes = [], []
    for dtype in (torch.float64, torch.float32):
        leaves = [torch.tensor(one[None], dtype=dtype, requires_grad=True) for one in (MEAN, spread)]
        data = x.to(dtype).requires_grad_()
        found = rule(layer, "partial", data, missing)(*leaves)
        values.append(found.detach().double()[:, :-2])
        slopes.append([one.double() for one in torch.autograd.grad(found[:, :-2].sum(), [data, *leaves])])
    torch.testing.assert_close(*values, rtol=1e-5, atol=0)
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=0)
    assert found[:, -2:].isneginf().all()
    for one in torch.autograd.grad(rule(layer, "partial", data, missing)(*leaves)[:, -2:].sum(), [data, *leaves]):
        assert one.isfinite().all()


@pytest.mark.parametrize("small", [1e-2, 1e-5, 1e-9])
def test_variables_that_are_nearly_functions_of_others_may_be_missing(small: float) -> None:
    """Such are what a mixture learns of columns that depend on each other; squares of factors are singular there."""
    layer = MultivariateGaussianLayer([0, 1, 2, 3], 1)
    below = np.array([[0, 0, 0, 0], [0.7, 0, 0, 0], [-2.0, 1.5, 0, 0], [0.4, -3.0, 0.6, 0]])
    mean, factor = (
        torch.tensor(one[None, None], requires_grad=True) for one in (np.zeros(4), below + np.diag([1, small, 1, 2]))
    )
    params = Params.of(pnp, {"mean": mean, "scale_tril": factor})
    x = (factor.detach()[0, 0] @ torch.tensor([[0.3], [-1.2], [0.8], [0.5]], dtype=torch.float64)).T[None]
    row: Any = LAYER_ROWS[MultivariateGaussianLayer]
    whole = LOG.to_log(pnp, row.body(pnp, LOG, layer, params, x))
    for hidden, known in (([False] * 4, 4), ([False, False, False, True], 3), ([False, False, True, True], 2)):
        found = LOG.to_log(pnp, row.partial(pnp, LOG, layer, params, x, torch.tensor([[hidden]])))
        # in the order of the factor, what is missing last leaves the first numbers as they are
        scores = np.array([0.3, -1.2, 0.8, 0.5])[:known]
        volume = np.log(np.array([1, small, 1, 2])[:known]).sum()
        expected = -0.5 * scores @ scores - volume - 0.5 * known * np.log(2 * np.pi)
        # what rounding of x to float64 leaves of it
        np.testing.assert_allclose(found.item(), expected, rtol=0, atol=1e-14 + 1e-14 / small)
        for slope in torch.autograd.grad(found.sum(), [mean, factor]):
            assert slope.isfinite().all()
    np.testing.assert_allclose(whole.item(), -0.5 * 2.42 - np.log(2 * small) - 2 * np.log(2 * np.pi), atol=1e-5)


def test_a_box_of_correlated_variables_is_refused_by_name() -> None:
    row: Any = LAYER_ROWS[MultivariateGaussianLayer]
    with pytest.raises(UnsupportedError, match="no closed form; take a DiagonalGaussianLayer"):
        row.interval()


def test_what_is_above_the_diagonal_is_not_read() -> None:
    above = torch.tensor(FACTOR[None] + np.triu(np.full((3, 3), 9.0), 1))
    mean, x = torch.tensor(MEAN[None]), torch.zeros(1, 2, 3, dtype=torch.float64)
    for column, arrays in (("body", (x,)), ("partial", (x, x > 0)), ("partial_maximum", (x, x > 0)), ("maximum", ())):
        apply = rule(MultivariateGaussianLayer, column, *arrays)
        torch.testing.assert_close(apply(mean, above), apply(mean, torch.tensor(FACTOR[None])))
