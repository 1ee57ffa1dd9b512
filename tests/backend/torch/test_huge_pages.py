"""Large results in huge pages are those of torch."""

import gc
from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import plica
from plica.backend.torch import huge_pages
from plica.backend.torch.operations import reduce
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "LARGE", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products(dtype: torch.dtype) -> None:
    a, b = torch.rand(3, 4, 5, dtype=dtype), torch.rand(3, 5, 6, dtype=dtype)
    torch.testing.assert_close(huge_pages.matmul(a, b), a @ b)
    torch.testing.assert_close(huge_pages.matmul(a, b.mT.contiguous().mT), a @ b)


def test_memory_lives_as_long_as_its_views() -> None:
    a = torch.rand(2, 3, 4)
    part = huge_pages.matmul(a, a.mT)[1:, 1:]
    gc.collect()
    torch.testing.assert_close(part, (a @ a.mT)[1:, 1:])
    part += 1.0


def test_without_rows() -> None:
    assert huge_pages.matmul(torch.rand(2, 0, 4), torch.rand(2, 4, 3)).shape == (2, 0, 3)


def test_stacks_of_one_are_repeated() -> None:
    a, b = torch.rand(1, 3, 4), torch.rand(2, 4, 3)
    torch.testing.assert_close(huge_pages.matmul(a, b), a @ b)


def test_gradients() -> None:
    a, b = torch.rand(2, 3, 4, requires_grad=True), torch.rand(2, 4, 3)
    huge_pages.matmul(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.sum(2)[:, None].expand(2, 3, 4))


def test_no_such_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_HUGE", -1)  # which the system refuses
    a = torch.rand(2, 3, 4)
    torch.testing.assert_close(huge_pages.matmul(a, a.mT), a @ a.mT)


@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(axis: int) -> None:
    for x in (torch.rand(3, 4, 5).mT, torch.rand(3, 4, dtype=torch.float64), torch.rand(3, 0, 2)):
        torch.testing.assert_close(huge_pages.softmax(x, axis), torch.softmax(x, axis), rtol=0, atol=0)


@pytest.mark.parametrize(("least", "function"), [(4 * 2 * 8, "kernels.softmax"), (4 * 2 * 8 + 1, "torch.softmax")])
def test_softmaxes_of_large_parameters_are_asked_for_huge_pages(
    monkeypatch: pytest.MonkeyPatch, least: int, function: str
) -> None:
    monkeypatch.setattr(reduce, "LARGE", least)  # bytes
    x, total = CategoricalLayer([0], 8, num_categories=3), SumLayer(8, 2)
    circuit = plica.compile(Circuit([x, total], {total: [x]}, [total]), optimize=False).train()
    circuit(torch.tensor([[1]]))
    assert f"{function}(" in circuit.code


def test_memory_is_lent_to_one_result_at_a_time() -> None:
    huge_pages._cache.clear()
    x = torch.rand(2, 3, 4)
    first = huge_pages.matmul(x, x.mT)
    address, expected = first.data_ptr(), first.clone()
    view = first[1:]
    del first
    second = huge_pages.matmul(x + x, x.mT)
    torch.testing.assert_close(view, expected[1:], rtol=0, atol=0)
    assert second.data_ptr() != address
    del view
    assert huge_pages.matmul(x, x.mT).data_ptr() == address


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_what_is_recorded_has_memory_of_its_own() -> None:
    x = torch.rand(2, 3, 4)
    for record in (partial(torch.jit.trace, example_inputs=(x,), check_trace=False), lambda fn: make_fx(fn)(x)):
        recorded = record(lambda x: huge_pages.matmul(x, x.mT))
        first = recorded(x)
        recorded(x * 3)
        torch.testing.assert_close(first, x @ x.mT, rtol=0, atol=0)


def test_autocast() -> None:
    a = torch.rand(2, 3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert huge_pages.matmul(huge_pages.matmul(a, a.mT), a).dtype == torch.bfloat16


def test_the_cache_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_BUDGET", 3 * 4096)
    huge_pages._cache.clear()
    results = [huge_pages.matmul(torch.rand(1, 32, 2), torch.rand(1, 2, 32)) for _ in range(5)]
    expected = [result.clone() for result in results]
    del results[0]
    assert sum(map(len, huge_pages._cache)) == 4096
    torch.testing.assert_close(results, expected[1:], rtol=0, atol=0)
    results.clear()
    assert sum(map(len, huge_pages._cache)) == 3 * 4096
