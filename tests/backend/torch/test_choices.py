"""Choices that are written over an operand are those of torch, bit for bit."""

import pytest
import torch
from torch import Tensor

import plica
import plica.numpy as pnp
from plica.backend.torch import choices
from plica.backend.torch.choices import where_
from plica.backend.torch.emit import source

SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -3.5, 1.0]


def _bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.int32 if x.dtype == torch.float32 else torch.int64)


@pytest.mark.parametrize("large", [0, 2**16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bits_are_those_of_torch(dtype: torch.dtype, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "_LARGE", large)
    special = torch.tensor(SPECIAL, dtype=dtype)
    y = special[torch.arange(3 * 8 * 6) * 5 % 8].reshape(3, 8, 6)
    for array in (y, y.mT.contiguous().mT):
        for condition in (torch.tensor(True), torch.arange(8).reshape(1, 8, 1) % 3 == 0, y > 0):
            for x in (2.0, float("nan"), torch.tensor(-0.0, dtype=dtype), special[None, :, None], y.flip(0)):
                expected = torch.where(condition, x, array)
                found = where_(condition, x, array.clone())
                assert found.dtype == dtype
                assert torch.equal(_bits(found), _bits(expected))


def test_a_result_of_the_program_is_written_over() -> None:
    program = plica.trace(
        lambda x, missing: pnp.where(missing, 1.0, x * 2.0), plica.spec((4, 2)), plica.spec((4, 1), "bool")
    )
    assert "kernels.where_(missing, 1.0, " in source(program, reuses=True)
    other = plica.trace(lambda x, known: pnp.where(known, x * 2.0, 1.0), plica.spec((4, 2)), plica.spec((4, 1), "bool"))
    assert "kernels.where_(torch.logical_not(known), 1.0, " in source(other, reuses=True)
    argument = plica.trace(
        lambda x, missing: pnp.where(missing, 1.0, x), plica.spec((4, 2)), plica.spec((4, 1), "bool")
    )
    assert "where_" not in source(argument, reuses=True)
