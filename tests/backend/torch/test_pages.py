"""Large results in huge pages are those of torch."""

import gc

import pytest
import torch

from plica.backend.torch import pages


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_LARGE", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products(dtype: torch.dtype) -> None:
    a, b = torch.rand(3, 4, 5, dtype=dtype), torch.rand(3, 5, 6, dtype=dtype)
    torch.testing.assert_close(pages.matmul(a, b), a @ b)
    torch.testing.assert_close(pages.matmul(a, b.mT.contiguous().mT), a @ b)


def test_memory_lives_as_long_as_its_views() -> None:
    a = torch.rand(2, 3, 4)
    part = pages.matmul(a, a.mT)[1:, 1:]
    gc.collect()
    torch.testing.assert_close(part, (a @ a.mT)[1:, 1:])
    part += 1.0


def test_without_rows() -> None:
    assert pages.matmul(torch.rand(2, 0, 4), torch.rand(2, 4, 3)).shape == (2, 0, 3)


def test_stacks_of_one_are_repeated() -> None:
    a, b = torch.rand(1, 3, 4), torch.rand(2, 4, 3)
    torch.testing.assert_close(pages.matmul(a, b), a @ b)


def test_gradients() -> None:
    a, b = torch.rand(2, 3, 4, requires_grad=True), torch.rand(2, 4, 3)
    pages.matmul(a, b).sum().backward()
    torch.testing.assert_close(a.grad, b.sum(2)[:, None].expand(2, 3, 4))


def test_no_such_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_HUGE", -1)  # which the system refuses
    a = torch.rand(2, 3, 4)
    torch.testing.assert_close(pages.matmul(a, a.mT), a @ a.mT)


def test_joined() -> None:
    parts = [torch.rand(3, 2, 4).permute(1, 0, 2), torch.rand(5, 3, 4)]
    torch.testing.assert_close(pages.concat(parts, 0), torch.cat(parts), rtol=0, atol=0)
    torch.testing.assert_close(pages.concat(parts[1:] * 2, 1), torch.cat(parts[1:] * 2, 1), rtol=0, atol=0)
