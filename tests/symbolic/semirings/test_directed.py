"""Signs and phases in log space: one branch, no NaN from zeros, no floor, gradients as in ordinary arithmetic."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from plica.symbolic.semirings import COMPLEX_LSE_SUM, SEMIRINGS, SIGNED_LSE_SUM, SUM_PRODUCT, Semiring, Weight
from plica.tracing import namespace as tracing
from tests.harness.run_rule import run_rule

Array = Any
DIRECTED = [row for row in SEMIRINGS.values() if row.negative and row.logarithmic]
ROWS = pytest.mark.parametrize("row", DIRECTED, ids=lambda row: row.name)
INF, NAN = math.inf, math.nan


def logs(*numbers: complex, row: Semiring = COMPLEX_LSE_SUM, dtype: torch.dtype = torch.float64) -> Array:
    """Ordinary numbers in a carrier of logarithms."""
    kind = dtype.to_complex() if any(isinstance(one, complex) for one in numbers) else dtype
    return row.map_from(torch.tensor(numbers, dtype=kind), SUM_PRODUCT)


@ROWS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_are_principal_logarithms(row: Semiring, dtype: torch.dtype) -> None:
    found = logs(-2.0, 3.0, 0.0, row=row, dtype=dtype)
    assert found.dtype == dtype.to_complex()
    expected = torch.tensor([math.log(2), math.log(3), -INF], dtype=dtype)
    torch.testing.assert_close(found.real, expected)
    assert found.imag.tolist() == [torch.tensor(math.pi, dtype=dtype).item(), 0.0, 0.0]
    odd = row.prod(logs(*[-1.0] * 101, row=row, dtype=dtype))
    rounding = 1e3 * torch.finfo(dtype).eps
    assert odd.imag.item() == pytest.approx(math.pi, abs=rounding)
    assert row.prod(logs(*[-1.0] * 100, row=row, dtype=dtype)).imag.item() == pytest.approx(0, abs=rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arguments_of_long_products_keep_their_precision(dtype: torch.dtype) -> None:
    """A thousand phases of 2 radians each: the argument of the product is theirs, less whole turns."""
    one = torch.full((1000,), 2.0, dtype=dtype)
    found = COMPLEX_LSE_SUM.prod(torch.complex(torch.zeros_like(one), one))
    expected = math.remainder(2000.0, 2 * math.pi)
    assert found.imag.item() == pytest.approx(expected, abs=1e3 * torch.finfo(dtype).eps)
    assert found.real.item() == pytest.approx(0, abs=1e3 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rounds_to_minus_pi_is_pi(dtype: torch.dtype) -> None:
    below = torch.tensor(-math.pi, dtype=dtype)
    near = torch.stack([below, torch.nextafter(below, torch.zeros_like(below)), -below, below / 2])
    found = COMPLEX_LSE_SUM.mul(torch.complex(torch.zeros_like(near), near), logs(1.0, dtype=dtype)).imag
    np.testing.assert_allclose(found, [math.pi, math.pi, math.pi, -math.pi / 2], rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arguments_are_never_above_pi_and_keep_their_digits(dtype: torch.dtype) -> None:
    """Just below the negative axis: what rounds to it is on it, and has the derivatives of its neighbours."""
    steps = np.concatenate([[0.0], 10.0 ** np.arange(-17, 0)])
    pi = torch.tensor(math.pi, dtype=dtype)
    angles = torch.tensor(steps, dtype=dtype) - pi
    found = COMPLEX_LSE_SUM.mul(torch.complex(torch.zeros_like(angles), angles), logs(1.0, dtype=dtype))
    assert (found.imag > -pi).all()
    assert (found.imag <= pi).all()
    off = (found.exp() - torch.polar(torch.ones_like(angles), angles)).abs()
    assert (off <= (2e-5 if dtype == torch.float32 else 1e-11)).all()
    number = torch.tensor([-2.0], dtype=dtype.to_complex()).conj().resolve_conj().requires_grad_()
    assert torch.signbit(number.imag).all(), "a zero below the axis"
    COMPLEX_LSE_SUM.map_from(number, SUM_PRODUCT).imag.sum().backward()
    torch.testing.assert_close(number.grad, torch.tensor([-0.5j], dtype=dtype.to_complex()))


@pytest.mark.parametrize("argument", [0.0, 2.0, INF, -INF, NAN])
def test_zero_has_no_argument(argument: float) -> None:
    zero = torch.complex(torch.tensor([-INF], dtype=torch.float64), torch.tensor([argument], dtype=torch.float64))
    one = logs(-3.0)
    for row, other in ((COMPLEX_LSE_SUM, logs(1 + 2j)), (COMPLEX_LSE_SUM, one), (SIGNED_LSE_SUM, one)):
        torch.testing.assert_close(row.add(zero, other).exp(), other.exp())
        assert row.mul(zero, other).tolist() == [complex(-INF, 0.0)]
        assert row.add(zero, zero).tolist() == [complex(-INF, 0.0)]


def test_a_phase_is_no_sign() -> None:
    assert torch.isnan(SIGNED_LSE_SUM.add(torch.tensor([1j * 0.5]), torch.tensor([0j])).real).all()


@ROWS
def test_equal_numbers_of_unlike_signs_cancel_exactly(row: Semiring) -> None:
    for size in (1e-300, 1.0, 1e300):
        found = run_rule(
            lambda a, b: row.result(tracing, row.total(tracing, [row.from_linear(tracing, one) for one in (a, b)])),
            *(np.array([[[one]]]) for one in (size, -size)),
        )
        assert found.tolist() == [[[complex(-INF, 0.0)]]]


@ROWS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [-1e5, -800.0, 0.0, 800.0, 1e5])
def test_sums_far_outside_of_floats(row: Semiring, dtype: torch.dtype, level: float) -> None:
    """3 - 2 + 4i - 4i, all times e^level."""
    numbers = [3.0, -2.0, *([4j, -4j] if row.carries_complex else [4.0, -4.0])]
    x = logs(*numbers, row=row, dtype=dtype) + level
    assert row.sum(x).real.item() == pytest.approx(level, abs=8 * torch.finfo(dtype).eps * (1 + abs(level)))
    assert row.prod(x).real.item() == pytest.approx(
        4 * level + math.log(96), rel=1e-5 if dtype == torch.float32 else 1e-12
    )


def contracted(row: Semiring, x: Array, weight: Array) -> Array:
    """A sum layer in a Program: logarithms `(F, B, I)` and an ordinary weight `(F, O, I)`, to logarithms."""

    def rule(given: Any, numbers: Any) -> Any:
        return row.result(tracing, row.contract(tracing, [row.from_result(tracing, given)], Weight.of(numbers)))

    return run_rule(rule, x, weight)


@ROWS
def test_a_term_beside_a_larger_number_of_no_weight_is_not_lost(row: Semiring) -> None:
    x = np.array([[[0.0, -1200.0, -1201.0]]], complex)
    weight = np.array([[[0.0, 1.0, -2.0], [1e-300, 0.5, 1.0], [0.0, 0.0, 0.0]]])
    found = contracted(row, x, weight)[0, 0]
    expected = [-1200 + math.log(1 - 2 / math.e), math.log(1e-300), -INF]
    np.testing.assert_allclose(found.real, expected, rtol=1e-12)
    np.testing.assert_array_equal(found.imag, np.zeros(3))


def as_numbers(direction: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    return direction * size.exp()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives_are_those_of_ordinary_numbers(dtype: torch.dtype) -> None:
    """Also at numbers that are zero, and where a sum is."""
    from plica.backend.torch.directed import directed_matmul, log_length

    x = torch.tensor([[[1.0, -2.0, 0.0], [0.0, 0.0, 0.0], [2.0, 1.0, -1e-3]]], dtype=dtype)
    weight = torch.tensor([[[1.0, 0.5, -1.0], [0.0, 0.0, 3.0], [-2.0, 0.0, 0.5]]], dtype=dtype)
    if dtype.is_complex:
        x, weight = x * (0.6 + 0.8j), weight * (1 - 0.5j)

    def through_logs(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        size = log_length(x)
        return as_numbers(*directed_matmul(x * (-size).exp(), size, weight))

    given = [one.requires_grad_() for one in (x, weight)]
    torch.testing.assert_close(through_logs(*given), x @ weight.mT)
    expected, found = (
        torch.autograd.functional.jacobian(function, tuple(given))
        for function in (
            lambda x, weight: torch.view_as_real(x @ weight.mT + 0j),
            lambda x, w: torch.view_as_real(through_logs(x, w) + 0j),
        )
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@ROWS
def test_a_factor_of_zero_sends_no_nan(row: Semiring) -> None:
    x = torch.tensor([0.0, 3.0], dtype=torch.float64, requires_grad=True)
    a = row.map_from(x, SUM_PRODUCT)
    value = row.add(row.prod(a), logs(2.0, row=row)[0])  # log(x y + 2)
    value.real.backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


@ROWS
def test_gradients_of_logarithms(row: Semiring) -> None:
    """Of sums and products of several signs, against differences."""
    x = torch.tensor([0.5, -1.5, 2.0, 0.25], dtype=torch.float64, requires_grad=True)

    def value(x: torch.Tensor) -> torch.Tensor:
        a = row.map_from(x, SUM_PRODUCT)
        return row.add(row.prod(a[:2]), row.sum(a[2:])).real

    assert torch.autograd.gradcheck(value, (x,))
