"""What is called deterministic has one term above zero at each row; what is not known to be is not called so."""

import itertools
import random
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
from plica.templates.logic import LogicalCircuit
from plica.templates.logic.nodes import ConjunctionNode, DisjunctionNode, LiteralNode, NegatedLiteralNode
from tests.harness.circuits import CIRCUITS, chain, coin, constant, gaussians, product_then_sum, tensor
from tests.harness.decision_trees import decision_tree
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import PAIRS, PairLayer

_VARIABLES = 4


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


def _formula(variables: range, values: dict[Any, np.ndarray], in_nodes: dict[Any, Any], rng: random.Random) -> Any:
    """A random decomposable and smooth formula whose conjunctions split variables alike, with its truth table."""
    rows = np.array(list(itertools.product([False, True], repeat=_VARIABLES)))
    if len(variables) == 1:
        (variable,) = variables
        node: Any = (LiteralNode if rng.random() < 0.5 else NegatedLiteralNode)(variable)
        values[node] = rows[:, variable] == isinstance(node, LiteralNode)
        return node
    half = len(variables) // 2
    terms = []
    for _ in range(rng.randint(1, 3)):
        parts = [_formula(some, values, in_nodes, rng) for some in (variables[:half], variables[half:])]
        terms.append(ConjunctionNode())
        in_nodes[terms[-1]] = parts
        values[terms[-1]] = values[parts[0]] & values[parts[1]]
    node = DisjunctionNode()
    in_nodes[node] = terms
    values[node] = np.any([values[one] for one in terms], axis=0)
    return node


def test_formulas_whose_conjunctions_split_variables_alike() -> None:
    """Just those are recognised in which no row makes two inputs of a disjunction true."""
    found = {True: 0, False: 0}
    for seed in range(60):
        values: dict[Any, np.ndarray] = {}
        in_nodes: dict[Any, Any] = {}
        root = _formula(range(_VARIABLES), values, in_nodes, random.Random(seed))
        gates = [node for node in in_nodes if isinstance(node, DisjunctionNode)]
        expected = all(np.sum([values[one] for one in in_nodes[gate]], axis=0).max() <= 1 for gate in gates)
        circuit = LogicalCircuit(values, in_nodes, [root]).build_circuit()
        assert is_deterministic(fold_circuit(circuit)) == expected, seed
        found[expected] += 1
    assert min(found.values()) > 5


def test_the_most_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parity is told apart factor by factor; where that takes too long, nothing is claimed."""
    parity: list[Any] = [LiteralNode(0), NegatedLiteralNode(0)]
    in_nodes: dict[Any, Any] = {}
    for variable in range(1, 40):
        literals, gates = (LiteralNode(variable), NegatedLiteralNode(variable)), []
        for wanted in (0, 1):
            terms = [ConjunctionNode(), ConjunctionNode()]
            in_nodes[terms[0]] = [literals[0], parity[1 - wanted]]
            in_nodes[terms[1]] = [literals[1], parity[wanted]]
            gates.append(DisjunctionNode())
            in_nodes[gates[-1]] = terms
        parity = gates
    root = DisjunctionNode()
    in_nodes[root] = parity
    nodes = [*in_nodes, *(one for inputs in in_nodes.values() for one in inputs)]
    circuit = LogicalCircuit(dict.fromkeys(nodes), in_nodes, [root]).build_circuit()
    assert is_deterministic(fold_circuit(circuit))
    monkeypatch.setattr("plica.lower.queries.determinism._MAX_COMPARISONS", 20)
    assert not is_deterministic(fold_circuit(circuit))


def test_what_is_no_state_is_not_known() -> None:
    table = constant([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    pair = PairLayer(Scope([0, 1]), 2, 2, Parameter.from_input(table))
    circuit = chain(pair, SumLayer(2, 1))
    assert not is_deterministic(fold_circuit(circuit, rows={PairLayer: PAIRS}))
