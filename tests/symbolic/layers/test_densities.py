"""Layers of densities at the ends of what they are asked: extreme data and parameters, tails, edges, hidden entries.

The rows run on torch tensors as they are; SciPy's distributions in float64 say what is right.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats
from scipy.integrate import quad
from torch import Tensor

import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.layers import (
    LAYER_ROWS,
    BetaLayer,
    ExponentialLayer,
    GammaLayer,
    GaussianLayer,
    LaplaceLayer,
    LogNormalLayer,
    ModuleLayer,
    StudentTLayer,
    VonMisesLayer,
)
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import SEMIRINGS, Params
from tests.harness.case_circuits import circuit_of
from tests.harness.layer_cases import CASES, InputCase
from tests.harness.oracle import evaluate
from tests.harness.spaces import WIDE

LOG = SEMIRINGS["lse-sum"]
PLACES = (-1e6, 0.0, 3.0, 1e6)
SCALES = (1e-6, 1e-3, 1.0, 1e3, 1e6)
SIZES = (1e-3, 0.3, 1.0, 2.5, 30.0, 1e3, 1e6)
POSITIVE = (1e-30, 1e-6, 0.3, 1.0, 2.5, 31.0, 999.0, 1e3, 9.99e5, 1.003e6, 1e30)
REAL = (*(-one for one in POSITIVE), 0.0, *POSITIVE)
UNIT = (0.0, 1e-30, 1e-6, 0.3, 0.5, 0.50003, 0.999, 1 - 1e-7, 1.0)
BOXES = (
    (-np.inf, np.inf),
    (-np.inf, 0.0),
    (0.0, np.inf),
    (1.0, 2.0),
    (2.0, 1.0),
    (3.0, 3.0),
    (12.0, np.inf),
    (-np.inf, -12.0),
    (30.0, 40.0),
    (1e30, np.inf),
    (0.0, 0.1),
    (0.9, 1.0),
    (np.inf, np.inf),
    (-np.inf, -np.inf),
)


@dataclass(frozen=True)
class Family:
    """A layer with a grid of parameters, data for it, and SciPy's distribution of the parameters of one unit."""

    layer: Any
    parameters: dict[str, tuple[float, ...]]
    x: tuple[float, ...]
    of_scipy: Callable[..., Any]
    inexact: float = 1e-6  # where its log-density cancels, by how many units at the largest parameters, in float32

    def __str__(self) -> str:
        return self.layer.__name__

    @cached_property
    def grid(self) -> Any:
        """Parameters by units."""
        return np.array(list(itertools.product(*self.parameters.values()))).T

    def params(self, dtype: Any) -> dict[str, Tensor]:
        return {
            name: torch.tensor(one[None], dtype=dtype, requires_grad=True)
            for name, one in zip(self.parameters, self.grid, strict=True)
        }

    def scipy(self, dtype: Any) -> list[Any]:
        """The distribution of each unit, of parameters rounded to a dtype."""
        rounded = torch.tensor(self.grid.T, dtype=dtype).double().numpy()
        return [self.of_scipy(*unit) for unit in rounded]


FAMILIES = (
    Family(GaussianLayer, {"mean": PLACES, "stddev": SCALES}, REAL, stats.norm),
    Family(LaplaceLayer, {"loc": PLACES, "scale": SCALES}, REAL, stats.laplace),
    Family(StudentTLayer, {"df": SIZES, "loc": PLACES, "scale": SCALES}, REAL, stats.t),
    Family(ExponentialLayer, {"rate": SCALES}, (0.0, *POSITIVE), lambda rate: stats.expon(scale=1 / rate)),
    Family(
        LogNormalLayer,
        {"loc": (-30.0, 0.0, 3.0, 30.0), "scale": (1e-3, 1.0, 30.0)},
        POSITIVE,
        lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
    ),
    Family(
        GammaLayer,
        {"concentration": SIZES, "rate": SCALES},
        (0.0, *POSITIVE),
        lambda a, rate: stats.gamma(a, scale=1 / rate),
        1e-4,
    ),
    Family(BetaLayer, {"alpha": SIZES, "beta": SIZES}, UNIT, stats.beta, 1e-4),
)
ANGLES = Family(
    VonMisesLayer,
    {"loc": (-3.1, 0.0, 2.0), "concentration": (*SCALES, 99.0, 101.0)},
    (-3.1415927410125732, -3.0, -1e-6, 0.0, 1e-30, 0.5, 2.0, 2.001, 3.1415927410125732),
    lambda loc, concentration: stats.vonmises(concentration, loc),
    1e-4,  # differences of angles across the end of the turn are rounded
)
EACH = pytest.mark.parametrize("family", [*FAMILIES, ANGLES], ids=str)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def run(family: Family, column: str, params: dict[str, Tensor], *arrays: Tensor) -> Tensor:
    """The logarithms of a column of the family's row, `(B, K)`."""
    layer, row = family.layer([0], family.grid.shape[1]), LAYER_ROWS[family.layer]
    value = getattr(row, column)(pnp, LOG, layer, Params.of(pnp, params), *arrays)
    return LOG.to_log(pnp, value)[0]


@EACH
@DTYPES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_densities_are_right_or_none_at_extremes(family: Family, dtype: torch.dtype) -> None:
    x = torch.tensor(family.x, dtype=dtype)[None, :, None].requires_grad_()
    params = family.params(dtype)
    found = run(family, "body", params, x)
    assert not found.isnan().any()
    assert (found < np.inf).all()
    data = x.detach().double().numpy()[0, :, 0]
    expected = np.stack([one.logpdf(data) for one in family.scipy(dtype)], axis=1)
    largest = float(torch.finfo(dtype).max) ** 0.5
    known = np.isfinite(expected) & (np.abs(expected) < largest)
    tolerance = 3 * family.inexact if dtype == torch.float32 else 1e-8
    values = found.detach().double().numpy()
    np.testing.assert_allclose(values[known], expected[known], rtol=2e-6 + 0.2 * family.inexact, atol=tolerance)
    np.testing.assert_array_less(values[~known & (expected < 0)], -600)  # of density 0, or as good as that
    for slope in torch.autograd.grad(found[found.isfinite()].sum(), [*params.values(), x]):
        assert not slope.isnan().any()
    for slope in torch.autograd.grad(run(family, "body", params, x)[found.isfinite()].sum(), list(params.values())):
        assert slope.isfinite().all()


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@DTYPES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_boxes_keep_their_digits_in_the_tails(family: Family, dtype: torch.dtype) -> None:
    low, high = (torch.tensor(ends, dtype=dtype)[None, :, None] for ends in zip(*BOXES, strict=True))
    params = family.params(dtype)
    found = run(family, "interval", params, low, high)
    assert not found.isnan().any()
    assert (found < 1e-6).all()
    least, most = (end.double().numpy()[0, :, 0] for end in (low, high))
    expected = []
    for one in family.scipy(dtype):
        right = one.cdf(least) > 0.5
        share = np.where(right, one.sf(least) - one.sf(most), one.cdf(most) - one.cdf(least))
        expected.append(np.where(least < most, share, 0))
    wanted, values = np.stack(expected, axis=1), found.detach().double().exp().numpy()
    exact = 1e-6 if dtype == torch.float32 else 1e-9
    np.testing.assert_allclose(values, wanted, rtol=0, atol=exact)
    # tails that reach to infinity, or end where there is as good as nothing left, are no differences
    tails = [place for place, (_, end) in enumerate(BOXES) if end in (np.inf, -12.0)]
    known = wanted[tails] > float(torch.finfo(dtype).tiny) * 1e6
    np.testing.assert_allclose(values[tails][known], wanted[tails][known], rtol=1e4 * exact)
    for slope in torch.autograd.grad(found[found.isfinite()].sum(), list(params.values())):
        assert slope.isfinite().all()


@DTYPES
def test_arcs_keep_their_digits_opposite_to_the_peak(dtype: torch.dtype) -> None:
    """By integrals, since SciPy's distribution function is a normal approximation where concentrations are large."""
    arcs = [(-np.pi, np.pi), (-9.0, 9.0), (0.1, 0.4), (-0.5, 3.0), (-3.1, -2.9), (2.5, 3.1), (2.9, -1.0), (9.0, 10.0)]
    low, high = (torch.tensor(ends, dtype=dtype)[None, :, None] for ends in zip(*arcs, strict=True))
    params = ANGLES.params(dtype)
    found = run(ANGLES, "interval", params, low, high)
    for unit, (loc, concentration) in enumerate(
        np.stack([one.detach().double().numpy()[0] for one in params.values()], 1)
    ):
        if concentration > 1e3:
            continue  # beyond what quadrature finds by itself
        for place in range(len(arcs)):
            least, most = (float(np.clip(end[0, place, 0].double(), -np.pi, np.pi)) for end in (low, high))
            peaks = [one for one in (loc, loc - 0.1, loc + 0.1, loc + 2 * np.pi) if least < one < most]

            def density(x: float, loc: float = loc, concentration: float = concentration) -> float:
                return float(np.exp(-2 * concentration * np.sin((x - loc) / 2) ** 2))

            share = quad(density, least, most, points=peaks or None, limit=200, epsabs=0)[0] if least < most else 0.0
            share /= 2 * np.pi * special.i0e(concentration)
            if share == 0 or share > float(torch.finfo(dtype).tiny):
                value = found[place, unit].double().exp().item()
                assert value == pytest.approx(share, rel=2e-4 if dtype == torch.float32 else 1e-8)
    assert not found.isnan().any()
    for slope in torch.autograd.grad(found[found.isfinite()].sum(), list(params.values())):
        assert slope.isfinite().all()


def points(family: Family) -> tuple[dict[str, Tensor], Tensor]:
    """Parameters of three units and four rows between the extremes."""
    rng = np.random.default_rng(0)
    signed = ("loc", "mean")
    params = {
        name: torch.tensor(rng.normal(size=(1, 3)) if name in signed else rng.uniform(0.4, 4, (1, 3)))
        for name in family.parameters
    }
    return params, torch.tensor(rng.uniform(0.05, 0.95, (1, 4, 1)))


@EACH
def test_derivatives_are_limits_of_differences(family: Family) -> None:
    params, x = points(family)
    layer = family.layer([0], 3)
    row: Any = LAYER_ROWS[family.layer]

    def body(data: Tensor, *values: Tensor) -> Tensor:
        given = Params.of(pnp, dict(zip(params, values, strict=True)))
        return LOG.to_log(pnp, row.body(pnp, LOG, layer, given, data))

    def interval(*values: Tensor) -> Tensor:
        given = Params.of(pnp, dict(zip(params, values, strict=True)))
        return LOG.to_log(pnp, row.interval(pnp, LOG, layer, given, x, x + 0.7))

    leaves = [one.requires_grad_() for one in params.values()]
    assert torch.autograd.gradcheck(body, [x.clone().requires_grad_(), *leaves], fast_mode=True)
    assert torch.autograd.gradgradcheck(body, [x.clone().requires_grad_(), *leaves], fast_mode=True)
    assert torch.autograd.gradcheck(interval, leaves, fast_mode=True)


ALL = [case for case in CASES if isinstance(case, InputCase) and case.row.layer in LAYER_ROWS]
# which have variables to hide, and parameters of their own: those of a module are its own
INPUTS = [
    case for case in ALL if case.num_variables and not case.signed and not issubclass(case.row.layer, ModuleLayer)
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", INPUTS, ids=str)
def test_hidden_entries_give_neither_value_nor_gradient(case: InputCase, dtype: str) -> None:
    """A row of which everything is hidden has the total as its value, and its gradient, whatever the layer reads.

    With known entries beside hidden ones, `check_circuit` of the conformance checks compares the gradients.
    """
    circuit = circuit_of(case)
    torch.manual_seed(0)
    compiler = TorchCompiler(dtype=dtype)
    compiled = compiler.compile(circuit)
    x = torch.full((3, max(circuit.scope) + 1), float("nan"), dtype=torch.float64)
    for layer in circuit.input_layers:
        x[0, list(layer.scope)] = torch.tensor(case.draw(layer, np.random.default_rng(0), 1)[0], dtype=x.dtype)
    first = circuit.input_layers[0]
    own = [leaf for one in first.all_params.values() for leaf in one.leaves if isinstance(leaf, TensorParameter)]

    def slopes(rows: list[int]) -> list[Tensor]:
        compiled.zero_grad()
        compiled(x[rows]).sum().backward()
        found = []
        for leaf in own:
            held, fold = compiler.tensor_of(leaf)
            found.append(torch.zeros_like(held[fold]) if held.grad is None else held.grad[fold].clone())
        return found

    known, both, hidden = slopes([0]), slopes([0, 1, 2]), slopes([1, 2])
    for one, other, rest in zip(known, both, hidden, strict=True):
        assert rest.isfinite().all()
        torch.testing.assert_close(one + rest, other)
    if np.allclose(np.asarray(case.totals(first, _numbers(compiler, first)), float), 1):
        assert all(rest.abs().max() < 1e-6 for rest in hidden if rest.numel())


def _numbers(compiler: TorchCompiler, layer: Any) -> dict[str, Any]:
    values = {}
    for one in layer.all_params.values():
        for leaf in one.leaves:
            if isinstance(leaf, TensorParameter):
                held, fold = compiler.tensor_of(leaf)
                values[leaf] = held[fold].detach().double().numpy().astype(WIDE)
    return {name: evaluate(one, values) for name, one in layer.all_params.items()}
