"""Kernels of indexing on other devices than the CPU, which are never waited for."""

import pytest
import torch

from plica.backend.torch import indexing
from plica.errors import BoundsError
from plica.ops.update import MODES

AT = ([(0, 2, 1), "at", "at"], ["at", None, (0, 4, 2)], ["at", "at", None])


def _values(at: list, x: torch.Tensor) -> torch.Tensor:
    return torch.full((2, 1), 2.5, device=x.device) if at[0] == (0, 2, 1) else torch.tensor(2.5, device=x.device)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", AT, ids=str)
def test_no_value_of_an_index_is_read(mode: str, at: list) -> None:
    x = torch.zeros(2, 3, 4, device="meta")  # has no values: reading one would be an error
    scalar, places = torch.zeros((), dtype=torch.int64, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta")
    assert indexing.index(x, 1, scalar).shape == (2, 4)
    assert indexing.gather(x, (1,), places).shape == (2, 2, 4)
    assert indexing.gather(x, (2, 0), places, scalar).shape == (2, 3)
    given = [scalar, places][-at.count("at") :]
    assert indexing.update(x, _values(at, x), mode, at, *given).shape == x.shape


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", AT, ids=str)
def test_scalars_that_stay_on_the_device(monkeypatch: pytest.MonkeyPatch, mode: str, at: list) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    given = [torch.tensor(-1), torch.tensor([0, -1])][-at.count("at") :]
    values = _values(at, x)
    known = indexing.update(x, values, mode, at, *given), indexing.index(x, 1, given[0].flatten()[-1])
    monkeypatch.setattr(indexing, "_on_host", lambda place: place)
    assert torch.equal(indexing.update(x, values, mode, at, *given), known[0])
    assert torch.equal(indexing.index(x, 1, given[0].flatten()[-1]), known[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.complex64])
@pytest.mark.parametrize("shape", [(4,), (4, 2), (4, 0)])
def test_rows_are_torchs_own(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    at = ["at", *[None] * (x.ndim - 1)]
    for rows in (torch.tensor([-1, 0, -1]), torch.tensor([1, 1]), torch.tensor([], dtype=torch.int64)):
        values = torch.ones(len(rows), *shape[1:], dtype=dtype)
        assert torch.equal(indexing.gather(x, (0,), rows), x[rows])
        assert torch.equal(indexing.update(x, values, "add", at, rows), x.index_put((rows,), values, accumulate=True))
    for rows in (torch.tensor([4]), torch.tensor([0, -5])):
        with pytest.raises(BoundsError, match="does not lie within axis 0 of size 4"):
            indexing.gather(x, (0,), rows)
        for mode in ("set", "add", *(["max"] if dtype != torch.complex64 else [])):
            with pytest.raises(BoundsError, match="does not lie within axis 0 of size 4"):
                indexing.update(x, torch.ones((), dtype=dtype), mode, at, rows)
    pair = torch.tensor([0, 4]), torch.tensor([0, 0])
    with pytest.raises(BoundsError, match="index 4 does not lie within axis 1 of size 4"):
        indexing.gather(x[None], (0, 1), pair[1], pair[0])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 65])
def test_complex_rows_are_multiplied_by_all_that_is_given_for_them(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    rows = torch.randint(5, (count,), generator=generator)
    x, given = (
        torch.randn(size, 2, dtype=torch.complex128, generator=generator, requires_grad=True) for size in (5, count)
    )
    found = indexing.update(x, given, "multiply", ["at", None], rows)
    by_row = list(x)
    for place, row in enumerate(rows.tolist()):
        by_row[row] = by_row[row] * given[place]
    expected = torch.stack(by_row)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(5, 2, dtype=torch.complex128, generator=generator)
    for one, wanted in zip(
        torch.autograd.grad(found, [x, given], weights),
        torch.autograd.grad(expected, [x, given], weights, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, torch.zeros_like(one) if wanted is None else wanted)
