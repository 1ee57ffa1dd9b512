"""Samples of whole circuits against the probabilities of all their states: outer products, evidence and constants."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
)
from plica.symbolic.parameters import softmax_normal
from plica.templates.region_graph import RandomBinaryTree
from tests.harness.circuits import coin, constant, graph_circuit, product_then_sum
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.pairwise import by_turns

DRAWS = 20_000
LEAST = 1e-4


def kronecker() -> Circuit:
    return product_then_sum(KroneckerLayer(2, 3), [coin([v], 2, 3) for v in range(3)])


def tucker() -> Circuit:
    return graph_circuit(RandomBinaryTree(4), "tucker", units=3)


def embeddings() -> Circuit:
    """Tables that are not normalized, summed out in the shares of their totals."""
    tables = [EmbeddingLayer([v], 3, num_states=3, weight_factory=exp_normal) for v in range(3)]
    return product_then_sum(HadamardLayer(3, 3), tables, weight_factory=exp_normal)


def evidence() -> Circuit:
    """Units that are the likelier the better they explain what was observed: a state and a real number."""
    seen = EvidenceLayer(CategoricalLayer([5], 3, num_categories=4), observation=2)
    real = EvidenceLayer(GaussianLayer([6], 3), observation=0.7)
    return product_then_sum(HadamardLayer(3, 4), [coin([0], 3, 3), seen, coin([1], 3), real])


def evidence_in_an_outer_product() -> Circuit:
    seen = EvidenceLayer(CategoricalLayer([5], 3, num_categories=4), observation=0)
    return product_then_sum(KroneckerLayer(3, 3), [seen, coin([0], 3, 3), coin([1], 3)])


def constants() -> Circuit:
    numbers = ConstantValueLayer(3, value=constant([0.2, 0.0, 3.0]))
    logs = ConstantValueLayer(3, value=constant([-1.0, 4.0, 0.5]), log_space=True)
    return product_then_sum(HadamardLayer(3, 4), [coin([0], 3, 3), numbers, coin([1], 3, 4), logs])


def evidence_alone_under_a_sum() -> Circuit:
    """A part of the circuit of which no variable is left, with sums of its own."""
    seen = [EvidenceLayer(CategoricalLayer([v], 3, num_categories=2), observation=1) for v in (4, 5)]
    below, left, right = SumLayer(3, 3), KroneckerLayer(3, 2), SumLayer(9, 3, weight_factory=softmax_normal)
    variable, product, total = coin([0], 3, 4), HadamardLayer(3, 2), SumLayer(3, 1)
    edges: Any = {below: [seen[0]], left: [below, seen[1]], right: [left], product: [right, variable], total: [product]}
    return Circuit([*seen, variable, *edges], edges, [total])


CIRCUITS: dict[str, Callable[[], Circuit]] = {
    one.__name__: one
    for one in (
        kronecker,
        tucker,
        embeddings,
        evidence,
        evidence_in_an_outer_product,
        constants,
        evidence_alone_under_a_sum,
    )
}
WAYS = list(itertools.product(("lse-sum", "signed-lse-sum"), (True, False)))


@by_turns(name=list(CIRCUITS), way=WAYS)
def test_states_come_in_their_shares(name: str, way: tuple[str, bool]) -> None:
    semiring, fold = way
    torch.manual_seed(3)
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, fold=fold, dtype="float64").compile(circuit)
    states = all_states(circuit)
    shares = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0].astype(float)
    drawn = sample(compiled, DRAWS, seed=4).numpy()
    counts = np.array([(drawn == state).all(axis=1).sum() for state in states])
    assert counts.sum() == DRAWS, "a state was drawn that there is not"
    expected = shares / shares.sum() * DRAWS
    assert (counts[expected == 0] == 0).all()
    some = expected > 0
    assert stats.chisquare(counts[some], expected[some]).pvalue > LEAST


@pytest.mark.parametrize("name", CIRCUITS)
def test_given_values_stay_and_others_follow_them(name: str) -> None:
    torch.manual_seed(5)
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler("lse-sum", dtype="float64").compile(circuit)
    states = all_states(circuit)
    if states.shape[1] < 2:
        return
    shares = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0].astype(float)
    given = torch.full((1, states.shape[1]), torch.nan, dtype=torch.float64)
    given[0, 1] = 1
    drawn = sample(compiled, DRAWS, given=given, seed=6).numpy()
    assert (drawn[:, 1] == 1).all()
    possible = states[:, 1] == 1
    counts = np.array([(drawn == state).all(axis=1).sum() for state in states[possible]])
    expected = shares[possible] / shares[possible].sum() * DRAWS
    some = expected > 0
    assert stats.chisquare(counts[some], expected[some]).pvalue > LEAST


@pytest.mark.parametrize("name", CIRCUITS)
def test_the_most_probable_explanation_is_a_state_of_the_circuit(name: str) -> None:
    torch.manual_seed(7)
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler("lse-sum", dtype="float64").compile(circuit)
    width = all_states(circuit).shape[1]
    rows, value = mpe(compiled, torch.full((1, width), torch.nan, dtype=torch.float64))
    oracle = Oracle(circuit, numbers(compiled))
    best = oracle.largest(all_states(circuit)).max()
    assert value.item() == pytest.approx(float(best), rel=1e-9)
    assert oracle.largest(rows.numpy())[0, 0, 0] == pytest.approx(float(best), rel=1e-9)
