"""Products of runs: values, derivatives of all orders, and the memory that they are written to."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plica.backend.torch import runs
from plica.backend.torch.runs import multiply_runs

RUNS = ((0, 0, 0, 3, 3), (1, 0, 0, 1, 2), (0, 5, 0, 0, 1), (0, 2, 0, 2, 2))


@pytest.fixture(params=[0, 10**6], ids=["large", "small"])
def arrays(request: Any, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    monkeypatch.setattr(runs, "_SMALL", request.param)
    generator = torch.Generator().manual_seed(0)
    shapes = ((7, 3, 2), (2, 3, 2))
    return [torch.rand(one, generator=generator, dtype=torch.float64).requires_grad_() for one in shapes]


def plain(*arrays: torch.Tensor) -> torch.Tensor:
    return torch.cat([arrays[i][at : at + n] * arrays[j][to : to + n] for i, at, j, to, n in RUNS])


def test_derivatives_of_all_orders(arrays: list[torch.Tensor]) -> None:
    def product(*given: torch.Tensor) -> torch.Tensor:
        return multiply_runs(RUNS, *given)

    torch.testing.assert_close(product(*arrays), plain(*arrays), rtol=0.0, atol=0.0)
    assert torch.autograd.gradcheck(product, arrays)
    assert torch.autograd.gradgradcheck(product, arrays)


def test_only_what_asks_for_gradients_gets_them(arrays: list[torch.Tensor]) -> None:
    x, y = arrays[0].detach(), arrays[1]
    (found,) = torch.autograd.grad(multiply_runs(RUNS, x, y).sum(), y)
    torch.testing.assert_close(found, torch.autograd.grad(plain(x, y).sum(), y)[0])


def test_two_operands_may_be_one_tensor(arrays: list[torch.Tensor]) -> None:
    x = arrays[0]
    of_both = ((0, 0, 1, 1, 2), (1, 3, 0, 0, 2))
    assert torch.autograd.gradcheck(lambda one: multiply_runs(of_both, one, one), (x,))
    assert torch.autograd.gradgradcheck(lambda one: multiply_runs(of_both, one, one), (x,))


@pytest.mark.parametrize("gradient", ["contiguous", "transposed", "expanded"])
@pytest.mark.parametrize("arrays", [0], indirect=True)
def test_results_lie_in_memory_as_the_first_array_does(arrays: list[torch.Tensor], gradient: str) -> None:
    x, y = (one.detach().mT.contiguous().mT.requires_grad_() for one in arrays)
    result = multiply_runs(RUNS, x, y)
    assert result.stride() == x.stride()
    weights = {
        "contiguous": lambda: torch.arange(48.0, dtype=torch.float64).reshape(8, 3, 2),
        "transposed": lambda: torch.arange(48.0, dtype=torch.float64).reshape(8, 2, 3).mT,
        "expanded": lambda: torch.full((), 2.0, dtype=torch.float64).expand(8, 3, 2),
    }[gradient]()
    found = torch.autograd.grad(result, (x, y), weights)
    expected = torch.autograd.grad(plain(x, y), (x, y), weights)
    for one, other, array in zip(found, expected, (x, y), strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == array.stride()


@pytest.mark.parametrize("arrays", [0], indirect=True)
def test_arrays_with_gaps_are_read(arrays: list[torch.Tensor]) -> None:
    x, y = (torch.stack([one.detach(), one.detach()], 3)[..., 0].requires_grad_() for one in arrays)
    result = multiply_runs(RUNS, x, y)
    assert result.is_contiguous()
    for one, other in zip(
        torch.autograd.grad(result.sum(), (x, y)), torch.autograd.grad(plain(x, y).sum(), (x, y)), strict=True
    ):
        torch.testing.assert_close(one, other)


class Names(TorchDispatchMode):
    """Notes which operations run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found.add(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("arrays", [0], indirect=True)
def test_nothing_is_joined_or_added_up(arrays: list[torch.Tensor]) -> None:
    with Names() as names:
        result = multiply_runs(RUNS, *arrays)
        torch.autograd.grad(result, arrays, torch.ones_like(result))
    assert names.found.isdisjoint({"cat", "copy_", "add", "add_", "zeros", "slice_backward"})
    assert {"mul", "addcmul_", "zero_"} <= names.found  # the last fold of the first array is read by nobody


def test_transforms_see_joins(arrays: list[torch.Tensor]) -> None:
    given = [one.detach() for one in arrays]
    tangents = [one.square() for one in given]
    found = torch.func.jvp(lambda *these: multiply_runs(RUNS, *these), tuple(given), tuple(tangents))
    expected = torch.func.jvp(plain, tuple(given), tuple(tangents))
    torch.testing.assert_close(found, expected)
    rows = [torch.stack([one, 2 * one]) for one in given]
    torch.testing.assert_close(torch.func.vmap(lambda *these: multiply_runs(RUNS, *these))(*rows)[0], expected[0])


def test_what_is_kept_of_small_ones_serves_derivatives_too(arrays: list[torch.Tensor]) -> None:
    runs._places.cache_clear()
    with torch.inference_mode():
        multiply_runs(RUNS, *(one.detach() for one in arrays))
    torch.autograd.grad(multiply_runs(RUNS, *arrays).sum(), arrays)
