"""Random circuits with leaves that calls give, against the oracle: all families, numbers for all rows and for each."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch import scoring
from plica.backend.torch.compiler import TorchCompiler
from plica.lower import cascade
from plica.queries import log_likelihood, sample
from plica.symbolic.semirings import Bound
from tests.harness.given_circuits import STATES, RandomCircuit, random_circuit
from tests.harness.statistics import assert_distribution, frequencies

FLAGS = tuple(itertools.product((True, False), repeat=2))
SEMIRINGS = ("lse-sum", "sum-product", "lse-sum", "signed-lse-sum", "lse-sum", "complex-lse-sum")
SEEDS = [pytest.param(seed, marks=() if seed in (0, 1, 2, 3, 53) else pytest.mark.full) for seed in range(60)]
FEW_SEEDS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.full) for seed in range(15)]


def made(seed: int, *families: str) -> tuple[RandomCircuit, Any, str]:
    """A circuit, and as it was compiled in one of all ways."""
    rng = np.random.default_rng(seed)
    found = random_circuit(rng, int(rng.integers(1, 4)), families)
    semiring, (fold, optimize) = SEMIRINGS[seed % len(SEMIRINGS)], FLAGS[seed % 4]
    compiled = TorchCompiler(semiring, fold, optimize, dtype="float64").compile(found.circuit).train(seed % 3 > 0)
    return found, compiled, semiring


def drawn(found: RandomCircuit, names: list[str], count: int | None = None) -> dict[str, Any]:
    """Numbers for leaves; with a count, those of each row."""
    rng, leaves = found.writer.rng, found.writer.leaves
    return {name: rng.normal(size=(*(() if count is None else (count,)), *leaves[name].shape)) for name in names}


def tensors(numbers: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(one) for name, one in numbers.items()}


def in_logs(values: torch.Tensor, semiring: str) -> Any:
    logs = values.detach().flatten()
    logs = logs.log() if semiring == "sum-product" else logs
    return (logs.real if logs.is_complex() else logs).numpy()


@pytest.mark.parametrize("seed", SEEDS)
def test_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # scaled numbers, and parts of batches
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
        monkeypatch.setattr(scoring, "_PART", 1)
    found, compiled, semiring = made(seed)
    state = {key: one.clone() for key, one in compiled.state_dict().items()}
    names = found.given()
    by_row = [name for name in names if found.writer.rng.random() < 0.5]
    for rows in (3, 0, 20):
        given = drawn(found, names) | drawn(found, by_row, rows)
        x = found.rows(rows)
        with torch.set_grad_enabled(rows == 3):
            values = compiled(torch.from_numpy(x), parameters=tensors(given))
        sets = [{name: one[row] if name in by_row else one for name, one in given.items()} for row in range(rows)]
        wanted = [found.log_values(one, row[None])[0] for one, row in zip(sets, x, strict=True)]
        assert np.allclose(in_logs(values, semiring), wanted, rtol=1e-8, atol=1e-8)
    assert all(torch.equal(one, state[key]) for key, one in compiled.state_dict().items())


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_gradients(seed: int) -> None:
    found, compiled, semiring = made(seed)
    names, x = found.given(), torch.from_numpy(found.rows(2))
    if not names:
        return
    by_row = [name for name in names if found.writer.rng.random() < 0.5]
    given = tensors(drawn(found, names) | drawn(found, by_row, 2))

    def value(*leaves: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = compiled(x, parameters=dict(zip(given, leaves, strict=True)))
        return made.real if made.is_complex() else made

    leaves = [one.requires_grad_() for one in given.values()]
    assert torch.autograd.gradcheck(value, leaves, fast_mode=True, rtol=1e-4, atol=1e-6), semiring


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_circuits_with_parameters(seed: int) -> None:
    """Given in two steps, after calls with others, and asked for probabilities."""
    found, compiled, semiring = made(seed)
    first, second = (drawn(found, found.given(least)) for least in (0.5, 0.3))
    x = found.rows(4)
    bound = compiled.with_parameters(tensors(first))
    more = bound.with_parameters(tensors(second))
    for numbers, circuit in ((first, bound), (first | second, more), (first, bound)):
        wanted = found.log_values(numbers, x)
        assert np.allclose(in_logs(circuit(torch.from_numpy(x)), semiring), wanted, rtol=1e-8, atol=1e-8)
        total = found.log_values(numbers, np.full((1, x.shape[1]), np.nan))
        shares = log_likelihood(circuit, torch.from_numpy(x)).detach().numpy()
        assert np.allclose(shares, wanted - total, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_completions_of_rows_that_hide_different_entries(seed: int) -> None:
    found, compiled, _ = made(seed, *STATES)
    numbers = drawn(found, found.given())
    sizes = [layer.domain.num_states for layer in found.variables]
    states = np.array(list(itertools.product(*map(range, sizes))))
    shares = np.exp(found.log_values(numbers, states.astype(float)))
    masks = np.array(list(itertools.product((False, True), repeat=len(sizes))))
    base = states[found.writer.rng.choice(len(states), len(masks), p=shares / shares.sum())]
    given, count = np.where(masks, np.nan, base), 500
    samples = sample(compiled.with_parameters(tensors(numbers)), count, torch.from_numpy(given), seed=seed).numpy()
    for place, (row, mask) in enumerate(zip(base, masks, strict=True)):
        possible = (states[:, ~mask] == row[~mask]).all(axis=1)
        counts = frequencies(states, samples[place * count : (place + 1) * count].astype(int))
        assert_distribution(counts, shares * possible, level=1e-6)
