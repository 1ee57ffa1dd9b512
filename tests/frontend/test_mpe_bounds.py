"""`mpe_bounds` against enumeration: exact where the circuit is deterministic, bounds everywhere."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, StructuralPropertyError
from plica.queries import mpe, mpe_bounds
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    BernoulliLayer,
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    PoissonLayer,
    SumLayer,
)
from tests.harness.circuits import chain, circuits, coin, constant, gaussians, product_then_sum, tensor
from tests.harness.decision_trees import decision_tree
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.queries import QUERIED, evidence, one_unit


def assert_bounds(compiled: Any, circuit: Circuit, x: np.ndarray) -> None:
    states = all_states(circuit)
    logs = Oracle(circuit, numbers(compiled)).log(states)[:, 0, 0].astype(float)
    found = mpe_bounds(compiled, torch.from_numpy(x))
    rows, log_values = mpe(compiled, torch.from_numpy(x))
    assert torch.equal(found.rows, rows)
    assert torch.equal(found.log_values, log_values)
    for number, row in enumerate(x):
        fits = (np.isnan(row) | (states == row)).all(axis=1)
        best, own = logs[fits].max(), logs[(states == rows[number].numpy()).all(axis=1)][0]
        value, upper, log_value = (float(one[number]) for one in (found.found, found.upper, log_values))
        assert value == pytest.approx(own, rel=1e-9, abs=1e-9)
        assert log_value <= value + 1e-9
        assert value <= best + 1e-9 <= upper + 2e-9
        assert float(found.gap[number]) == upper - value
        if found.is_exact:
            assert log_value == pytest.approx(best, rel=1e-9, abs=1e-9)
            assert upper == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("seed", "fold"), [(0, True), (1, False), (2, True), (3, False)])
def test_decision_trees_are_completed_by_the_most_probable_states(seed: int, fold: bool) -> None:
    circuit = decision_tree(4, 2, seed)
    torch.manual_seed(seed)
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(circuit)
    x = evidence(circuit, 8, seed)
    assert mpe_bounds(compiled, torch.from_numpy(x)).is_exact
    assert_bounds(compiled, circuit, x)


@pytest.mark.parametrize("name", ["unnormalized", "kronecker of 3", "quad graph, mixing"])
def test_bounds_elsewhere(name: str) -> None:
    circuit = QUERIED[name]()
    torch.manual_seed(1)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = evidence(circuit, 6, 2)
    x[1] = 1
    found = mpe_bounds(compiled, torch.from_numpy(x))
    assert not found.is_exact
    assert float(found.gap[1]) == pytest.approx(0, abs=1e-9)  # nothing is missing
    assert_bounds(compiled, circuit, x)


@pytest.mark.parametrize("examples", [3, pytest.param(50, marks=pytest.mark.full)])
def test_random_circuits(examples: int) -> None:
    @settings(max_examples=examples)
    @given(circuits(finite=True))
    def check(circuit: Circuit) -> None:
        circuit = one_unit(circuit)
        torch.manual_seed(3)
        compiled = TorchCompiler(dtype="float64").compile(circuit)
        assert_bounds(compiled, circuit, evidence(circuit, 4, 5))

    check()


def test_a_completion_that_several_choices_share_is_missed_and_the_gap_tells() -> None:
    """Max-product prefers the one peaked term; two terms agree on another state."""
    layer = CategoricalLayer([0], 3, num_categories=3, probs=constant([[1.0, 0, 0], [0, 0.8, 0.2], [0, 0.8, 0.2]]))
    circuit = chain(layer, SumLayer(3, 1, weight=constant([[0.36, 0.32, 0.32]])))
    found = mpe_bounds(TorchCompiler(dtype="float64").compile(circuit), torch.tensor([[torch.nan]]))
    assert not found.is_exact
    assert found.rows.tolist() == [[0]]
    assert float(found.found.exp()) == pytest.approx(0.36)
    assert 0.512 <= float(found.upper.exp()) == pytest.approx(0.36 + 0.32 * 0.8 * 2)


def test_normals() -> None:
    torch.manual_seed(4)
    compiled = TorchCompiler(dtype="float64").compile(gaussians(3))
    x = torch.tensor([[0.4, torch.nan], [torch.nan, torch.nan]], dtype=torch.float64)
    found = mpe_bounds(compiled, x)
    torch.testing.assert_close(found.found, compiled(found.rows)[:, 0, 0].detach())
    grid = torch.linspace(-4, 4, 81, dtype=torch.float64)
    points = torch.tensor(list(itertools.product(grid.tolist(), repeat=2)), dtype=torch.float64)
    values = compiled(points)[:, 0, 0].detach()
    assert float(values.max()) <= float(found.upper[1])
    assert float(values[(points[:, 0] - 0.4).abs() < 1e-9].max()) <= float(found.upper[0])


def test_modes_dtypes_and_what_is_refused() -> None:
    circuit = decision_tree(3, 2, 5)
    for dtype, train in itertools.product(("float32", "float64"), (True, False)):
        compiled = TorchCompiler(dtype=dtype).compile(circuit).train(train)
        for rows in (torch.zeros(0, 3), torch.zeros(2, 3, dtype=torch.int64)):
            found = mpe_bounds(compiled, rows)
            assert found.upper.shape == found.found.shape == (len(rows),)
            assert torch.equal(found.rows, rows.long())
            assert not found.upper.requires_grad
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    impossible = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    found = mpe_bounds(impossible, torch.tensor([[0.0, torch.nan]]))
    assert torch.isneginf(torch.cat([found.log_values, found.found, found.upper])).all()
    with pytest.raises(InputError, match="row 0, variable 1: the value 2 is none of the 2 states"):
        mpe_bounds(impossible, torch.tensor([[1.0, 2.0]]))
    negative = SumLayer(2, 1, weight=tensor([[1.0, -0.5]]))
    with pytest.raises(StructuralPropertyError, match="needs weights that are not negative"):
        mpe_bounds(TorchCompiler("sum-product").compile(chain(coin([0], 2), negative)), torch.zeros(1, 1))


@pytest.mark.parametrize("seed", range(4))
def test_variables_of_all_kinds_below_supports_that_do_not_meet(seed: int) -> None:
    """Each unit has states of its own of the first variable; exact where constants say so, bounded where learned."""
    rng = np.random.default_rng(seed)
    units, states = int(rng.integers(2, 5)), 6
    owner = rng.permutation([*range(units), *rng.integers(0, units, states - units)])
    table = rng.uniform(0.1, 1, (units, states)) * (owner == np.arange(units)[:, None])
    probs, means, spreads, rates, weight = rng.uniform(0.1, 0.9, (5, units)) * [[1], [9], [2], [9], [3]]
    make = constant if seed % 2 else tensor
    inputs = [
        CategoricalLayer([0], units, num_categories=states, probs=make(table)),
        BernoulliLayer([1], units, probs=tensor(probs)),
        GaussianLayer([2], units, mean=tensor(means), stddev=tensor(spreads)),
        PoissonLayer([3], units, rate=tensor(rates)),
    ]
    circuit = product_then_sum(HadamardLayer(units, 4), inputs, weight=tensor(weight[None]))
    modes = [table.argmax(axis=1), probs > 0.5, means, np.floor(rates)]
    full = np.stack([rng.integers(0, states, 7), rng.integers(0, 2, 7), rng.normal(4, 3, 7), rng.poisson(4, 7)], axis=1)
    x = np.where(rng.random(full.shape) < 0.6, np.nan, full)
    filled = [np.where(np.isnan(x[:, [v]]), modes[v], x[:, [v]]) for v in range(4)]  # (B, K)
    with np.errstate(divide="ignore"):
        logs = np.log(weight) + np.log(table[np.arange(units), filled[0].astype(int)])
    logs += stats.bernoulli.logpmf(filled[1], probs) + stats.norm.logpdf(filled[2], means, spreads)
    best = (logs + stats.poisson.logpmf(filled[3], rates)).max(axis=1)
    found = mpe_bounds(TorchCompiler(dtype="float64", fold=bool(seed & 2)).compile(circuit), torch.from_numpy(x))
    assert found.is_exact == bool(seed % 2)
    np.testing.assert_allclose(found.found, best, rtol=1e-12)
    assert (found.upper >= found.found).all()
    if found.is_exact:
        np.testing.assert_allclose(found.upper, best, rtol=1e-12)
