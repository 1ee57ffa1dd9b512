"""Special functions: values on grids against SciPy's, up to extremes, and derivatives against differences."""

import sys
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import special
from torch import Tensor

import plica.numpy as pnp
from plica.errors import UnsupportedError

SIZES = np.asarray([1e-6, 1e-3, 0.1, 0.5, 1.0, 2.5, 10.0, 100.0, 1e4, 1e6])
ENDS = np.asarray([1e-30, 1e-8, 0.01, 0.2, 0.45, 0.55])
SHARES = np.concatenate([ENDS[:-1], 1 - ENDS[1:]])
POSITIVE = np.concatenate([np.logspace(-30, 30, 61), np.linspace(0.5, 3, 40)])
ANY = np.concatenate([-POSITIVE[30:], POSITIVE])
GRIDS: dict[str, tuple[Any, ...]] = {
    "lgamma": (POSITIVE,),
    "digamma": (POSITIVE,),
    "erfc": (ANY,),
    "log_ndtr": (ANY,),
    "i0e": (ANY,),
    "i1e": (ANY,),
    "gammainc": (SIZES, np.concatenate([SIZES * 1.2, [0.7, 9.0, 12.0, 99.0]])),
    "gammaincc": (SIZES, np.concatenate([SIZES * 0.9, [0.7, 9.0, 12.0, 99.0]])),
    "gammaincinv": (SIZES, SHARES),
    "betainc": (SIZES, SIZES, SHARES),
    "betaincc": (SIZES, SIZES, SHARES),
    "betaincinv": (SIZES[:-1], SIZES[:-1], SHARES),
}
# relative errors in float64; in float32 they are its last places
RIGHT = dict.fromkeys(GRIDS, 2e-13) | {
    # some 1e-15 times the square root of the largest parameter, and what the numbers themselves are rounded by
    "gammainc": 1e-11,
    "gammaincc": 1e-11,
    "gammaincinv": 1e-9,
    "betainc": 1e-8,
    "betaincc": 1e-8,
    "betaincinv": 1e-8,
}
OF_FLOAT32 = dict.fromkeys(GRIDS, 3e-7) | {"digamma": 1e-6, "log_ndtr": 1e-5, "i0e": 6e-7, "i1e": 1e-6}
IN_FLOAT64_INSIDE = ("gammainc", "gammaincc", "gammaincinv", "betainc", "betaincc", "betaincinv")


def of_scipy(name: str) -> Any:
    return getattr(special, {"lgamma": "gammaln"}.get(name, name))


def grid(name: str, dtype: str) -> list[Any]:
    return [one.astype(dtype) for one in np.meshgrid(*GRIDS[name], indexing="ij")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_values_are_those_of_scipy(name: str, dtype: str) -> None:
    given = grid(name, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(of_scipy(name)(*(one.astype("float64") for one in given)))
        rounded = expected.astype(dtype)
    found = getattr(pnp, name)(*map(torch.from_numpy, given))
    assert found.dtype == getattr(torch, dtype)
    # SciPy itself gives up on some numbers in its tails
    asked = np.isfinite(rounded) & (np.abs(rounded) > np.finfo(dtype).tiny * 1e10)
    limit = RIGHT[name] if dtype == "float64" else OF_FLOAT32[name]
    if name.startswith("betainc"):
        asked &= np.abs(expected) > 1e-25
    assert asked.mean() > 0.3
    # beside zeros; and of concentrations near 0, whose upper tails are near 0
    near_zero = 100 * float(np.finfo(dtype).eps) if name in ("lgamma", "digamma", "gammaincc") else 0.0
    np.testing.assert_allclose(found.numpy()[asked], expected[asked], rtol=limit, atol=near_zero)
    assert not found[torch.from_numpy(np.isfinite(expected))].isnan().any()


@pytest.mark.parametrize("large", [1e3, 1e6, 1e9, 1e12, 1e15])
def test_one_large_parameter_costs_the_tails_no_digits(large: float) -> None:
    """I_x(a, b) of a whole a is the probability of a or more of a + b - 1 trials, which is a sum of a terms."""
    mean = torch.tensor([1e-6, 0.01, 0.5, 1.0, 1.1, 3.0, 9.0, 40.0], dtype=torch.float64)
    for few in (1, 3):
        x = mean / large
        fewer, trials = torch.arange(few, dtype=torch.float64)[:, None], large + few - 1
        ways = torch.log(trials - torch.arange(few, dtype=torch.float64)).cumsum(0)[:, None]
        terms = (
            torch.cat([0 * ways[:1], ways[:-1]])
            - torch.lgamma(fewer + 1)
            + fewer * torch.log(x)
            + (trials - fewer) * torch.log1p(-x)
        )
        expected = terms.logsumexp(0).exp()
        a, b = torch.tensor([float(few), large], dtype=torch.float64)
        torch.testing.assert_close(pnp.betaincc(a, b, x), expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(pnp.betainc(a, b, x), 1 - expected, rtol=0, atol=1e-12)
        inverse = pnp.betaincinv(a, b, 1 - expected[2:6])
        torch.testing.assert_close(inverse, x[2:6], rtol=1e-9, atol=0)


def test_integrals_lose_no_digits_by_their_nodes() -> None:
    with mp.workprec(100):
        expected = [
            float(mp.betainc(50, 30, 0, 0.5, regularized=True)),
            float(mp.betainc(5, 3, 0, 0.375, regularized=True)),
        ]
    found = pnp.betainc(*torch.tensor([[50.0, 5.0], [30.0, 3.0], [0.5, 0.375]], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=2e-15, atol=0)


@pytest.mark.parametrize("name", ["gammaincinv", "betaincinv"])
def test_inverses_lead_back(name: str) -> None:
    given = [torch.from_numpy(one) for one in grid(name, "float64")]
    *parameters, shares = given
    found = getattr(pnp, name)(*given)
    back = getattr(pnp, name.removesuffix("inv"))(*parameters, found)
    inside = (found > 1e-290) & (found < 1 - 1e-4 if name == "betaincinv" else found < 1e300)
    torch.testing.assert_close(back[inside], shares[inside], rtol=1e-9, atol=0)
    assert ((back <= shares * (1 + 1e-9)) | (found > 0)).all()


STIRLING = np.concatenate([np.logspace(-8, 8, 40), [9.999999, 10.0, 10.000001]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_the_formula_of_stirling_lacks(dtype: torch.dtype) -> None:
    mpmath = pytest.importorskip("mpmath")  # comes with torch
    x = torch.from_numpy(STIRLING).to(dtype)
    with mpmath.workdps(40):
        numbers = [mpmath.mpf(one) for one in x.tolist()]
        exact = [mpmath.loggamma(n) - ((n - 0.5) * mpmath.log(n) - n + mpmath.log(2 * mpmath.pi) / 2) for n in numbers]
    expected = torch.tensor([float(one) for one in exact], dtype=torch.float64)
    found = pnp.stirling_error(x)
    torch.testing.assert_close(found.double(), expected, rtol=3e-7 if dtype == torch.float32 else 1e-11, atol=0)
    slopes = torch.autograd.grad(pnp.stirling_error(x.requires_grad_()).sum(), x)[0]
    assert slopes.isfinite().all()
    assert (slopes < 0).all()


EDGES: dict[str, list[tuple[tuple[float, ...], float]]] = {
    "gammainc": [
        ((0.0, 1.0), 1.0),
        ((2.0, 0.0), 0.0),
        ((2.0, np.inf), 1.0),
        ((np.inf, 2.0), 0.0),
        ((0.0, 0.0), np.nan),
        ((-1.0, 1.0), np.nan),
        ((1.0, -1.0), np.nan),
        ((np.nan, 1.0), np.nan),
        ((1.0, np.nan), np.nan),
    ],
    "gammaincc": [((0.0, 1.0), 0.0), ((2.0, 0.0), 1.0), ((2.0, np.inf), 0.0), ((np.inf, 2.0), 1.0)],
    "gammaincinv": [
        ((2.0, 0.0), 0.0),
        ((2.0, 1.0), np.inf),
        ((0.0, 0.0), 0.0),
        ((0.0, 0.5), np.nan),
        ((0.0, 1.0), np.inf),
        ((2.0, 1.5), np.nan),
        ((-1.0, 0.5), np.nan),
    ],
    "betainc": [
        ((2.0, 3.0, 0.0), 0.0),
        ((2.0, 3.0, 1.0), 1.0),
        ((0.0, 3.0, 0.5), 1.0),
        ((2.0, 0.0, 0.5), 0.0),
        ((-1.0, 3.0, 0.5), np.nan),
        ((2.0, 3.0, 1.5), np.nan),
        ((2.0, np.nan, 0.5), np.nan),
    ],
    "betaincc": [((2.0, 3.0, 0.0), 1.0), ((2.0, 3.0, 1.0), 0.0), ((0.0, 3.0, 0.5), 0.0), ((2.0, 0.0, 0.5), 1.0)],
    "betaincinv": [((2.0, 3.0, 0.0), 0.0), ((2.0, 3.0, 1.0), 1.0), ((2.0, 3.0, -0.5), np.nan)],
    "lgamma": [((0.0,), np.inf), ((np.inf,), np.inf), ((-np.inf,), np.inf), ((np.nan,), np.nan)],
    "digamma": [((0.0,), -np.inf), ((np.inf,), np.inf), ((np.nan,), np.nan)],
    "erfc": [((np.inf,), 0.0), ((-np.inf,), 2.0), ((np.nan,), np.nan)],
    "log_ndtr": [((np.inf,), 0.0), ((-np.inf,), -np.inf), ((np.nan,), np.nan)],
    "i0e": [((np.inf,), 0.0), ((0.0,), 1.0), ((np.nan,), np.nan)],
    "i1e": [((np.inf,), 0.0), ((0.0,), 0.0), ((np.nan,), np.nan)],
    "stirling_error": [((0.0,), np.inf), ((np.inf,), 0.0), ((np.nan,), np.nan)],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EDGES)
def test_ends_of_domains_and_beyond(name: str, dtype: str) -> None:
    inputs, expected = zip(*EDGES[name], strict=True)
    given = [np.asarray(one, dtype) for one in zip(*inputs, strict=True)]
    wanted = np.asarray(expected, dtype)
    np.testing.assert_allclose(getattr(pnp, name)(*given), wanted, rtol=1e-6, err_msg="SciPy")
    np.testing.assert_allclose(getattr(pnp, name)(*map(torch.from_numpy, given)).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", IN_FLOAT64_INSIDE)
def test_derivatives_are_finite_beside_extremes(name: str, dtype: torch.dtype) -> None:
    """Zero beside what no number of the dtype could be the derivative of."""
    axes = [torch.tensor([0.0, 1e-3, 1.0, 1e6], dtype=dtype)] * (1 + name.startswith("beta"))
    axes = [*axes, torch.tensor([0.0, 1e-12, 0.3, 1 - 1e-7, 1.0], dtype=dtype)]
    given = [one.contiguous().requires_grad_() for one in torch.meshgrid(*axes, indexing="ij")]
    value = getattr(pnp, name)(*given)
    slopes = torch.autograd.grad(value[value.isfinite()].sum(), given)
    assert not any(slope.isnan().any() for slope in slopes)


def test_log_ndtr_has_derivatives_far_on_the_left() -> None:
    x = torch.tensor([-1e18, -1e6, -1001.0, -999.0, -10.0, 0.0, 10.0, 1e18], requires_grad=True)
    (slope,) = torch.autograd.grad(pnp.log_ndtr(x).sum(), x)
    torch.testing.assert_close(slope[:5], torch.tensor([1e18, 1e6, 1001.001, 999.001, 10.098093]), rtol=1e-5, atol=0)
    assert slope.isfinite().all()


POINTS: dict[str, tuple[list[float], ...]] = {
    "lgamma": ([0.3, 2.0, 30.0],),
    "digamma": ([0.3, 2.0, 30.0],),
    "stirling_error": ([0.3, 2.0, 30.0],),
    "erfc": ([-2.0, 0.3, 3.0],),
    "log_ndtr": ([-5.0, 0.3, 3.0],),
    "i0e": ([-2.0, 0.3, 3.0],),
    "i1e": ([-2.0, 0.3, 3.0],),
    "gammainc": ([0.05, 0.7, 4.0, 30.0], [0.4, 3.0, 3.5, 33.0]),
    "gammaincc": ([0.05, 0.7, 4.0, 30.0], [0.4, 3.0, 3.5, 33.0]),
    "gammaincinv": ([0.5, 0.7, 4.0, 30.0], [0.4, 0.03, 0.9, 0.7]),
    "betainc": ([0.05, 0.7, 4.0, 30.0], [2.0, 0.3, 5.0, 20.0], [0.2, 0.95, 0.3, 0.55]),
    "betaincc": ([0.05, 0.7, 4.0, 30.0], [2.0, 0.3, 5.0, 20.0], [0.2, 0.95, 0.3, 0.55]),
    "betaincinv": ([0.5, 0.7, 4.0, 30.0], [2.0, 0.3, 5.0, 20.0], [0.2, 0.35, 0.3, 0.95]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", POINTS)
def test_first_and_second_derivatives_are_limits_of_differences(name: str) -> None:
    given = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in POINTS[name]]
    apply = getattr(pnp, name)
    assert torch.autograd.gradcheck(apply, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(apply, given, fast_mode=True)


@pytest.mark.parametrize("name", IN_FLOAT64_INSIDE)
def test_transforms_of_torch(name: str) -> None:
    given = [torch.tensor(one, dtype=torch.float64) for one in POINTS[name]]
    apply = getattr(pnp, name)

    def slope(*values: Tensor) -> Any:
        return torch.func.grad(lambda *one: apply(*one).sum(), argnums=tuple(range(len(values))))(*values)

    leaves = [one.clone().requires_grad_() for one in given]
    expected = torch.autograd.grad(apply(*leaves).sum(), leaves)
    for one, other in zip(torch.vmap(slope)(*given), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_numpy_arrays_need_scipy_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(UnsupportedError, match="pip install scipy, or pass torch tensors"):
        pnp.lgamma(np.ones(2))
    assert pnp.lgamma(torch.ones(2)).tolist() == [0.0, 0.0]
