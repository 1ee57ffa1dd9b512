"""Lookups in a softmax: the same as both operations, with one array of the table's size for the derivative."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plica.backend.torch import tables
from plica.backend.torch.tables import lookup, lookup_softmax

INDEX = torch.tensor([[4, 0, 0, 2], [1, 1, 1, 3]])


@pytest.fixture
def logits(monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    monkeypatch.setattr(tables, "_LARGE", 0)
    return torch.linspace(-2.0, 3.0, 30, dtype=torch.float64).reshape(2, 3, 5).requires_grad_()


def plain(logits: torch.Tensor) -> torch.Tensor:
    return lookup(torch.softmax(logits, 2), INDEX)


def test_values_and_derivatives_of_all_orders(logits: torch.Tensor) -> None:
    torch.testing.assert_close(lookup_softmax(logits, INDEX), plain(logits), rtol=0.0, atol=0.0)
    assert torch.autograd.gradcheck(lookup_softmax, (logits, INDEX))
    assert torch.autograd.gradgradcheck(lookup_softmax, (logits, INDEX))


def test_float32_is_as_near_as_both_operations(logits: torch.Tensor) -> None:
    weights = torch.linspace(-1.0, 1.0, 24, dtype=torch.float64).reshape(2, 4, 3)
    single = logits.detach().float().requires_grad_()
    exact, found = (
        torch.autograd.grad((function(one, INDEX) * weights.to(one.dtype)).sum(), one)[0]
        for function, one in ((lambda one, _: plain(one), logits), (lookup_softmax, single))
    )
    torch.testing.assert_close(found.double(), exact, rtol=0.0, atol=4 * torch.finfo(torch.float32).eps)


class Sizes(TorchDispatchMode):
    """Counts the operations that make an array of the size of the table."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.made = size, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        memory = [one.data_ptr() for one in args if isinstance(one, torch.Tensor)]
        self.made += result.numel() == self.size and result.data_ptr() not in memory
        return result


def test_the_derivative_makes_one_array_of_the_size_of_the_table(logits: torch.Tensor) -> None:
    def made(result: torch.Tensor) -> int:
        with Sizes(logits.numel()) as sizes:
            torch.autograd.grad(result, logits, torch.ones_like(result))
        return sizes.made

    assert made(lookup_softmax(logits, INDEX)) == 1
    assert made(plain(logits)) > 1


def test_small_tables_stay_two_operations(logits: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "LookupSoftmax" in str(lookup_softmax(logits, INDEX).mT.grad_fn.next_functions[0][0].next_functions)
    monkeypatch.undo()
    assert "Gather" in str(lookup_softmax(logits, INDEX).mT.grad_fn.next_functions[0][0].next_functions)
    torch.testing.assert_close(lookup_softmax(logits, INDEX), plain(logits))


def test_logits_may_change_before_the_derivative_is_asked_for(logits: torch.Tensor) -> None:
    expected = torch.autograd.grad(plain(logits).sum(), logits)[0]
    result = lookup_softmax(logits, INDEX).sum()
    with torch.no_grad():
        logits.zero_()
    torch.testing.assert_close(torch.autograd.grad(result, logits)[0], expected)


def test_transforms_see_both_operations(logits: torch.Tensor) -> None:
    given, tangent = logits.detach(), logits.detach().square()
    expected = torch.func.jvp(plain, (given,), (tangent,))
    torch.testing.assert_close(torch.func.jvp(lambda one: lookup_softmax(one, INDEX), (given,), (tangent,)), expected)
    mapped = torch.func.vmap(lambda one: lookup_softmax(one, INDEX))(torch.stack([given, tangent]))
    torch.testing.assert_close(mapped[0], expected[0])
