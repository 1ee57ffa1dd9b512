"""Large results in huge pages are those of torch."""

import gc
from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from plica.backend.torch import huge_pages


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


def test_empty() -> None:
    like = torch.rand(2, dtype=torch.float64)
    assert huge_pages.empty((3, 4), like).fill_(1.0).sum() == 12
    assert huge_pages.empty((0, 4), like).dtype == torch.float64


def test_taken() -> None:
    x, index = torch.rand(3, 4, 5), torch.tensor([2, 0, 2, 1, 3])
    torch.testing.assert_close(huge_pages.take(x, 1, index), x[:, index], rtol=0, atol=0)
    torch.testing.assert_close(huge_pages.take(x, 1, index[:0]), x[:, :0])


@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(axis: int) -> None:
    x = torch.rand(3, 4, 5).mT
    torch.testing.assert_close(huge_pages.softmax(x, axis), torch.softmax(x, axis), rtol=0, atol=0)


def test_memory_is_lent_to_one_result_at_a_time() -> None:
    huge_pages._kept.clear()
    x = torch.rand(3, 4)
    first = huge_pages.softmax(x, 0)
    place, expected = first.data_ptr(), first.clone()
    view = first[1:]
    del first
    second = huge_pages.softmax(x + x, 0)
    torch.testing.assert_close(view, expected[1:], rtol=0, atol=0)
    assert second.data_ptr() != place
    del view
    assert huge_pages.softmax(x, 0).data_ptr() == place


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_what_is_recorded_has_memory_of_its_own() -> None:
    x = torch.rand(3, 4)
    for record in (partial(torch.jit.trace, example_inputs=(x,), check_trace=False), lambda fn: make_fx(fn)(x)):
        recorded = record(lambda x: huge_pages.softmax(x, 0))
        first = recorded(x)
        recorded(x * 3)
        torch.testing.assert_close(first, torch.softmax(x, 0), rtol=0, atol=0)


def test_autocast() -> None:
    a = torch.rand(2, 3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert huge_pages.matmul(huge_pages.matmul(a, a.mT), a).dtype == torch.bfloat16


def test_little_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_KEPT", 3 * 4096)
    huge_pages._kept.clear()
    results = [huge_pages.softmax(torch.rand(1024), 0) for _ in range(5)]
    expected = [one.clone() for one in results]
    del results[0]
    assert sum(map(len, huge_pages._kept)) == 4096
    torch.testing.assert_close(results, expected[1:], rtol=0, atol=0)
    results.clear()
    assert sum(map(len, huge_pages._kept)) == 3 * 4096
