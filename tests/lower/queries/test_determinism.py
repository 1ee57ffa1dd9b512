"""What is called deterministic has one term above zero at each row; what is not known to be is not called so."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.lower.fold.groups import fold_circuit
from plica.lower.queries.determinism import is_deterministic
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import CIRCUITS, chain, coin, constant, gaussians, product_then_sum, tensor
from tests.harness.decision_trees import decision_tree
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import PAIRS, PairLayer


def indicators(scope: list[int], states: int = 2, **settings: Any) -> CategoricalLayer:
    return CategoricalLayer(scope, states, num_categories=states, **(settings or {"probs": constant(np.eye(states))}))


WEIGHTS = {
    "one for each": ([[0.5, 0.0, 0.0, 0.5]], True),
    "two for one": ([[0.5, 0.1, 0.0, 0.5]], False),
    "nothing": ([[0.0, 0.0, 0.0, 0.0]], True),
}
with np.errstate(divide="ignore"):
    CASES: dict[str, tuple[Circuit, bool]] = {
        "indicators": (product_then_sum(HadamardLayer(2, 2), [indicators([0]), coin([1], 2)]), True),
        "logits": (
            product_then_sum(HadamardLayer(2, 2), [indicators([0], logits=constant(np.log(np.eye(2)))), coin([1], 2)]),
            True,
        ),
        "learned": (
            product_then_sum(HadamardLayer(2, 2), [indicators([0], probs=tensor(np.eye(2))), coin([1], 2)]),
            False,
        ),
        "overlap": (
            product_then_sum(
                HadamardLayer(2, 2),
                [indicators([0], 2, probs=constant([[1.0, 0.0], [0.5, 0.5]])), coin([1], 2)],
            ),
            False,
        ),
        "every pair": (product_then_sum(KroneckerLayer(2, 2), [indicators([0]), indicators([1])]), True),
        "pairs of one": (product_then_sum(KroneckerLayer(2, 2), [indicators([0]), coin([1], 2)]), False),
        **{
            name: (
                product_then_sum(KroneckerLayer(2, 2), [indicators([0]), coin([1], 2)], weight=constant(weight)),
                expected,
            )
            for name, (weight, expected) in WEIGHTS.items()
        },
        "one term": (chain(coin([0], 1), SumLayer(1, 1)), True),
        "no sum": (chain(coin([0], 1)), True),
        "real": (gaussians(2), False),
        "shared": (CIRCUITS["shared"](), False),
    }


@pytest.mark.parametrize("name", CASES)
def test_as_constants_tell(name: str) -> None:
    circuit, expected = CASES[name]
    assert is_deterministic(fold_circuit(circuit)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_decision_trees(seed: int) -> None:
    circuit = decision_tree(3, 2 + seed % 2, seed)
    assert is_deterministic(fold_circuit(circuit))
    torch.manual_seed(seed)
    oracle = Oracle(circuit, numbers(TorchCompiler(dtype="float64").compile(circuit)))
    states = all_states(circuit)
    np.testing.assert_allclose(oracle.largest(states).astype(float), oracle.log(states).astype(float), rtol=1e-12)


def test_what_is_no_state_is_not_known() -> None:
    table = constant([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    pair = PairLayer(Scope([0, 1]), 2, 2, Parameter.from_input(table))
    circuit = chain(pair, SumLayer(2, 1))
    assert not is_deterministic(fold_circuit(circuit, rows={PairLayer: PAIRS}))
