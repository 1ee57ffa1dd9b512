"""Products of stacks with what is done to them: whatever their size and layout, and whoever looks on."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from plica.backend.torch import contract, huge_pages, products
from plica.backend.torch.products import matmul_taken, multiply_matmul
from tests.harness.together import grouped

INDEX = torch.tensor([4, 0, 0, 2, 3])
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows first": lambda x: x,
    "columns first": lambda x: x.mT.contiguous().mT,
    "with gaps": lambda x: torch.cat([x, x], dim=2)[:, :, : x.shape[2]],
    "no copies": lambda x: x[:1].expand(x.shape),
}


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is large, and no more than two matrices at once fit a cache."""
    monkeypatch.setattr(huge_pages, "LARGE", 0)
    monkeypatch.setattr(products, "_AT_ONCE", 200)


def _stacks(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn((5, 3, 4), generator=generator, dtype=dtype)
    return a, torch.randn((5, 4, 2), generator=generator, dtype=dtype)


@pytest.mark.usefixtures("pieces")
@grouped("one", LAYOUTS)
@grouped("other", LAYOUTS)
@grouped("dtype", [torch.float32, torch.float64])
def test_matrices_that_are_taken(one: str, other: str, dtype: torch.dtype) -> None:
    a, b = _stacks(dtype)
    a, b = LAYOUTS[one](a), LAYOUTS[other](b)
    for index in (INDEX, INDEX[:1], INDEX[:0]):
        torch.testing.assert_close(matmul_taken(a, b, index), torch.matmul(a[index], b[index]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_times_an_array_lies_as_the_array(layout: str) -> None:
    a, b = _stacks()
    x = LAYOUTS[layout](torch.linspace(-1.0, 1.0, 30, dtype=torch.float64).reshape(5, 3, 2))
    before = x.clone()
    found = multiply_matmul(x, a, b)
    torch.testing.assert_close(found, x * torch.matmul(a, b))
    torch.testing.assert_close(x, before, rtol=0.0, atol=0.0)
    assert found.mT.is_contiguous() is (layout == "columns first")


@pytest.mark.usefixtures("pieces")
def test_derivatives_and_transforms() -> None:
    a, b = (one.requires_grad_() for one in _stacks())
    x = torch.ones(5, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: matmul_taken(a, b, INDEX), (a, b))
    assert torch.autograd.gradcheck(multiply_matmul, (x, a, b))
    with torch.no_grad():
        mapped = torch.func.vmap(lambda one: matmul_taken(one, b, INDEX))(torch.stack([a, 2 * a]))
        torch.testing.assert_close(mapped[1], 2 * matmul_taken(a, b, INDEX))
        tangent = torch.func.jvp(lambda one: multiply_matmul(one, a, b), (x,), (x,))[1]
        torch.testing.assert_close(tangent, torch.matmul(a, b))


@pytest.mark.usefixtures("pieces")
def test_stacks_without_matrices() -> None:
    for shapes in (((0, 3, 4), (0, 4, 2)), ((5, 0, 4), (5, 4, 2)), ((5, 3, 0), (5, 0, 2)), ((5, 3, 4), (5, 4, 0))):
        a, b = (torch.ones(shape) for shape in shapes)
        index = INDEX[: len(a)]
        torch.testing.assert_close(matmul_taken(a, b, index), torch.matmul(a[index], b[index]))


def _tucker(rows: int = 9) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = (5, rows, 2), (5, 2, 3, 4), (5, rows, 3), (5, rows, 4)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


def _plain(change: Tensor, core: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.einsum("fbo,foij,fbj->fbi", change, core, y), torch.einsum("fbo,foij,fbi->fbj", change, core, x)


@pytest.mark.parametrize("block", [1, 3000, 2**20])
@pytest.mark.parametrize("layout", ["rows first", "columns first"])
def test_derivatives_of_a_core(block: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    for rows in (0, 1, 9, 20):
        change, core, x, y = _tucker(rows)
        arrays = LAYOUTS[layout](change), core, LAYOUTS[layout](x), LAYOUTS[layout](y)
        torch.testing.assert_close(contract.tucker_derivatives(*arrays), _plain(*arrays))


def test_derivatives_of_derivatives_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "_BLOCK", 1)
    arrays = tuple(one.requires_grad_() for one in _tucker())
    assert torch.autograd.gradcheck(contract.tucker_derivatives, arrays)
