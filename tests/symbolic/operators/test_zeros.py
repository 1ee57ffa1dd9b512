"""Terms that constants make 0 are left out of circuits, whose values stay the same."""

from typing import Any

import numpy as np
import pytest

from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.functional import multiply
from plica.symbolic.layers import CategoricalLayer, ConstantValueLayer, EmbeddingLayer, HadamardLayer, SumLayer
from plica.symbolic.operators.zeros import without_zeros, zero_layers
from plica.symbolic.parameters import mixing_weight_factory, normal
from tests.harness.circuits import constant
from tests.harness.composed_queries import split
from tests.harness.operator_circuits import numbers, values

OPERATION = CircuitOperation("test", ())


def check(circuit: Circuit) -> Circuit:
    """The circuit without zeros has the same values, and the same tensors."""
    simple = without_zeros(circuit, OPERATION)
    leaves = numbers(np.random.default_rng(0), circuit)
    x = np.random.default_rng(1).integers(0, 2, (20, max(circuit.scope) + 1))
    np.testing.assert_allclose(values(simple, leaves, x), values(circuit, leaves, x), rtol=1e-12)
    assert not zero_layers(simple)
    return simple


def test_the_square_of_a_decision_tree_is_no_larger_than_the_tree() -> None:
    tree = split([0, 1, 2], [3])
    square = multiply(tree, tree)
    simple = check(square)
    assert len(square.sum_layers) == 3 * len(tree.sum_layers)
    assert len(simple.sum_layers) == len(tree.sum_layers)
    assert all(layer.arity == 2 for layer in simple.sum_layers)


def mixed(kinds: Any, weight: Any) -> Circuit:
    """A sum of three inputs of two units, the second of which is 0."""
    layers = [kind([0], 2) for kind in kinds]
    top = SumLayer(2, 2, 3, weight_factory=weight)
    return Circuit([*layers, top], {top: layers}, [top])


def embedding(scope: list[int], units: int) -> EmbeddingLayer:
    return EmbeddingLayer(scope, units, num_states=2)


ZEROS = {
    "probs": lambda scope, units: CategoricalLayer(scope, units, num_categories=2, probs=constant(np.zeros((2, 2)))),
    "logits": lambda scope, units: CategoricalLayer(
        scope, units, num_categories=2, logits=constant(np.full((2, 2), -np.inf))
    ),
    "weight": lambda scope, units: EmbeddingLayer(scope, units, num_states=2, weight=constant(np.zeros((2, 2)))),
}


@pytest.mark.parametrize("is_mixing", [False, True])
@pytest.mark.parametrize("name", ZEROS)
def test_columns_of_terms_are_left_out(name: str, is_mixing: bool) -> None:
    weight = (lambda shape: mixing_weight_factory(shape, param_factory=normal)) if is_mixing else normal
    (total,) = check(mixed((embedding, ZEROS[name], embedding), weight)).sum_layers
    assert (total.arity, total.mixing) == (2, is_mixing)


def test_what_is_not_known_to_be_0_stays() -> None:
    """A table with one number that is not 0, one that is learned, and an output that is 0 as a whole."""
    some = CategoricalLayer([0], 1, num_categories=2, probs=constant([[0.0, 1e-300]]))
    learned = CategoricalLayer([0], 1, num_categories=2, probs_factory=normal)
    top = SumLayer(1, 1, 2, weight_factory=normal)
    circuit = Circuit([some, learned, top], {top: [some, learned]}, [top])
    assert without_zeros(circuit, OPERATION) is circuit
    nothing, factor = ConstantValueLayer(1, value=0.0), HadamardLayer(1, 2)
    whole = Circuit([nothing, learned, factor], {factor: [nothing, learned]}, [factor])
    assert list(zero_layers(whole)) == [nothing, factor]
    assert without_zeros(whole, OPERATION) is whole
