"""Random nests of operators, compiled: values, missing variables, derivatives and files, against tables of all states.

Scaled numbers are tried for half of the seeds, though circuits are small.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import plica
from plica.lower import cascade
from plica.symbolic.semirings import Bound
from tests.harness.nested_operators import Nest, Table

SEMIRINGS = ["sum-product", "signed-lse-sum", "complex-lse-sum", "lse-sum", "max-product", "max-sum", "min-plus"]
BOUNDS = {torch.float64: 1e-8, torch.float32: 1e-3}
"""The largest error, as a share of the largest number."""


def ordinary(compiled: Any, x: Tensor | None) -> Tensor:
    """The values as ordinary numbers."""
    result: Tensor = compiled() if x is None else compiled(x)
    match compiled.semiring.name:
        case "sum-product" | "max-product":
            return result
        case "min-plus":
            return (-result).exp()
        case _:
            return result.exp()


def error(found: Tensor, expected: Tensor, scale: float = 0.0) -> float:
    """The largest error, as a share of the largest number, or of a larger scale."""
    assert found.shape == expected.shape
    if not found.numel():
        return 0.0
    found, expected = found.detach().to(torch.complex128), expected.detach().to(torch.complex128)
    return float((found - expected).abs().max()) / max(float(expected.abs().max()), scale, 1e-300)


def data(rng: np.random.Generator, table: Table, columns: Any, dtype: torch.dtype) -> list[Tensor | None]:
    """Rows of integers, of floats, and of floats some of which are missing; columns that are not read hold anything."""
    if not table.scope:
        return [None]
    whole = rng.integers(-50, 50, (5, max(columns) + 1)).astype(float)
    for variable, states in table.sizes.items():
        whole[:, variable] = rng.integers(0, states, len(whole))
    floats = whole.copy()
    floats[:, [at for at in range(whole.shape[1]) if at not in table.scope]] = rng.choice([np.nan, np.inf, 7.0])
    lacking = floats.copy()
    lacking[rng.random(lacking.shape) < 0.4] = np.nan
    lacking[-1] = np.nan
    return [torch.from_numpy(whole).long(), torch.from_numpy(floats).to(dtype), torch.from_numpy(lacking).to(dtype)]


def check_gradients(nest: Nest, found: Tensor, expected: Tensor, bound: float) -> None:
    """Derivatives of a random combination of the values, with respect to all tensors."""
    if not found.requires_grad:
        return
    weights = torch.from_numpy(nest.rng.normal(size=expected.shape)).to(torch.complex128)
    for values in (found, expected):
        (values * weights).sum().real.backward()
    scale = max(float(expected.detach().abs().max()), 1e-3)
    compiler, plain = nest.context._compiler, nest.plain._compiler
    pairs = []
    for leaf in compiler._owners:
        both = [of.tensor_of(leaf) for of in (compiler, plain)]
        pairs.append([torch.zeros_like(held[at]) if held.grad is None else held.grad[at] for held, at in both])
    scale = max(scale, *(float(other.abs().max()) for _, other in pairs))
    assert max(error(gradient, other, scale) for gradient, other in pairs) < 10 * bound


def check(seed: int, path: Path) -> None:
    rng = np.random.default_rng([seed, 7])
    dtype = torch.float32 if rng.random() < 0.3 else torch.float64
    fold, optimize = bool(rng.random() < 0.7), bool(rng.random() < 0.8)
    nest = Nest(seed, SEMIRINGS[seed % len(SEMIRINGS)], 1 + seed % 4, dtype, fold, optimize)
    described, table = nest.result
    compiled = nest.context.compile(described).train(bool(rng.random() < 0.7))
    rows = data(rng, table, described.data_scope, dtype)
    plica.save(compiled, path)
    loaded = plica.load(path)
    for x in rows:
        expected = table.values if x is None else table.at(x)
        for circuit in (compiled, loaded):
            assert error(ordinary(circuit, x), expected) < BOUNDS[dtype], nest.steps
        assert x is None or compiled(x[:0]).shape == (0, *expected.shape[1:])
    x = rows[int(rng.integers(len(rows)))]
    check_gradients(nest, ordinary(compiled, x), table.values if x is None else table.at(x), BOUNDS[dtype])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 300))])
def test_nests_have_the_values_of_their_tables(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    check(seed, tmp_path / "nest.plica")
