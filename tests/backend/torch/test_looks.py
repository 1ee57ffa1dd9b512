"""Looks at learned weights that nobody waits for: what they allow, when, and what they warn of."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from plica.backend.torch import exact, kernels, looks
from tests.harness.devices import forbid_branches


@pytest.fixture
def arrival(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether copies arrive, as its last entry says; of devices, on the CPU."""
    forbid_branches(monkeypatch)
    arrives = [True]
    monkeypatch.setattr(looks, "_has_arrived", lambda _: arrives[-1])
    return arrives


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often sums were computed in both ways."""
    calls = [0]
    of_all_rows: Callable[..., Any] = exact.of_all_rows

    def counted(*arguments: Any) -> Any:
        calls[0] += 1
        return of_all_rows(*arguments)

    monkeypatch.setattr(exact, "of_all_rows", counted)
    return calls


def _logits(least: float) -> Tensor:
    return torch.tensor([[[0.0, least]]], requires_grad=True)


def _sum(logits: Tensor, x: Tensor) -> Tensor:
    return kernels.log_matmul_exp(x, torch.softmax(logits, -1), logits, logs="log_softmax")


def _step(logits: Tensor, change: float = 0.0) -> None:
    with torch.no_grad():
        logits[..., 1] += change


X = torch.tensor([[[-300.0, 0.0]]])


@pytest.mark.usefixtures("arrival")
def test_large_weights_are_summed_in_one_way_from_the_second_call_on(both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    for _ in range(40):
        found = _sum(logits, X)
        assert found.item() == pytest.approx(torch.log_softmax(logits, -1)[..., 1].item(), rel=1e-6)
        _step(logits, -0.01)
    assert both_ways == [1]


@pytest.mark.usefixtures("arrival")
def test_large_weights_are_known_where_nothing_is_learned_too(both_ways: list[int]) -> None:
    """As in a validation between two steps."""
    logits = _logits(-5.0)
    with torch.no_grad():
        for _ in range(5):
            _sum(logits, X)
    assert both_ways == [1]


@pytest.mark.usefixtures("arrival")
def test_small_weights_are_summed_in_both_ways(both_ways: list[int]) -> None:
    logits = _logits(-120.0)
    for _ in range(40):
        assert _sum(logits, X).item() == pytest.approx(-120.0)
        _step(logits)
    assert both_ways == [40]


@pytest.mark.usefixtures("arrival")
def test_weights_that_become_small_step_by_step_lose_nothing(both_ways: list[int]) -> None:
    """By a factor of e in each step, to far below what a sum keeps."""
    logits = _logits(0.0)
    for _ in range(150):
        found = _sum(logits, X)
        assert found.item() == pytest.approx(torch.log_softmax(logits, -1)[..., 1].item(), rel=1e-5)
        _step(logits, -1.0)
    assert 50 < both_ways[0] < 150


def test_nothing_is_relied_on_before_a_copy_has_arrived(arrival: list[bool], both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    arrival.append(False)
    for _ in range(5):
        _sum(logits, X)
    assert both_ways == [5]
    arrival.append(True)
    _sum(logits, X)
    assert both_ways == [5]


@pytest.mark.usefixtures("arrival")
def test_a_leap_is_told() -> None:
    logits = _logits(-5.0)

    def train() -> None:
        for step in range(40):
            _sum(logits, X)
            _step(logits, -200.0 if step == 20 else 0.0)

    with pytest.warns(RuntimeWarning, match="a softmax weight fell below .* within 16 training steps"):
        train()
    assert _sum(logits, X).item() == pytest.approx(-205.0)


@pytest.mark.usefixtures("arrival")
def test_weights_of_no_leaf_are_summed_in_both_ways(both_ways: list[int]) -> None:
    logits = _logits(-5.0)
    for _ in range(3):
        _sum(logits * 1.0, X)
    assert both_ways == [3]


@pytest.mark.usefixtures("arrival")
def test_a_weight_of_nan_is_never_large(both_ways: list[int]) -> None:
    logits = _logits(float("nan"))
    for _ in range(3):
        _sum(logits, X)
    assert both_ways == [3]
