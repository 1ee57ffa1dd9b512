"""What operators keep of their settings, which domains they integrate over, and how much they build."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import plica.symbolic.operators.normalizing as normalizing
from plica.errors import InputError, UnsupportedError
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.functional import condition, evidence, integrate, marginal, mixture, multiply, normalize
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    CategoricalLayer,
    GammaLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    Layer,
    LogNormalLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import Parameter
from tests.harness.circuits import product_then_sum


def mixed(*layers: InputLayer) -> Circuit:
    total = SumLayer(2, 1, len(layers))
    return Circuit([*layers, total], {total: layers}, [total])


def categorical(num_states: int, variable: int = 0) -> CategoricalLayer:
    return CategoricalLayer([variable], 2, num_categories=num_states)


def test_settings_are_copies_that_cannot_be_written_to() -> None:
    circuit = mixed(GaussianLayer([0], 2))
    weights, observed = np.array([0.25, 0.75]), torch.tensor([2.0])
    operations = [mixture([circuit, circuit], weights).operation, evidence(circuit, {0: observed}).operation]
    weights[0], observed[0] = 7.0, 7.0
    kept = []
    for operation in operations:
        assert isinstance(operation, CircuitOperation)
        kept.append(operation.metadata["weights" if operation.operator == "mixture" else "obs"])
    assert kept[0].tolist() == [0.25, 0.75]
    assert kept[1][0].tolist() == [2.0]
    for array in (kept[0], kept[1][0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    for other in (copy.deepcopy(operations[0]), pickle.loads(pickle.dumps(operations[0]))):
        assert other is not None
        assert other.metadata["weights"].tolist() == [0.25, 0.75]


def test_a_callers_containers_are_not_kept() -> None:
    settings: dict[str, Any] = {"order": [1, 2], "obs": {0: 1}}
    operation = CircuitOperation("own", (), settings)
    settings["order"].append(3)
    settings["obs"][1] = 2
    assert operation.metadata == {"order": [1, 2], "obs": {0: 1}}


def test_a_value_that_is_no_array_is_refused_by_the_operator() -> None:
    with pytest.raises(InputError, match=r"evidence: variable 0 is observed as tensor\("):
        evidence(mixed(GaussianLayer([0], 2)), {0: torch.tensor([2.0], requires_grad=True)})


NARROWED: list[tuple[InputLayer, InputLayer, str]] = [
    (categorical(3), categorical(5), "sums over 5 states, .* the domain 3 states"),
    (BernoulliLayer([0], 2), categorical(3), "sums over 3 states, .* the domain 2 states"),
    (PoissonLayer([0], 2), categorical(3), "sums over counts, .* the domain 3 states"),
    (GaussianLayer([0], 2), BetaLayer([0], 2), "sums over real numbers, .* the domain the unit interval"),
    (GaussianLayer([0], 2), categorical(2), "sums over real numbers, .* the domain 2 states"),
]


@pytest.mark.parametrize(("first", "second", "message"), NARROWED, ids=str)
def test_mass_outside_of_the_domain_of_the_circuit_is_refused(first: Any, second: Any, message: str) -> None:
    """Data lies in the domains of all layers of a variable; a layer's own integral is over more."""
    circuit = mixed(first, second)
    for operator in (integrate, normalize, lambda c: marginal(c, [])):
        with pytest.raises(UnsupportedError, match=message):
            operator(circuit)
    other = CategoricalLayer([1], 1, num_categories=2)
    whole = multiply(circuit, Circuit([other], {}, [other]))
    assert integrate(whole, [1]).scope == circuit.scope
    with pytest.raises(UnsupportedError, match=message):
        condition(whole, {1: 0})


def test_a_bound_alone_makes_no_difference() -> None:
    """Both integrate over the positive numbers, one of them with 0."""
    assert not integrate(mixed(GammaLayer([0], 2), LogNormalLayer([0], 2))).scope


def test_hundreds_of_outputs_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each output took a walk through the values of all: 400 of them took 48 seconds."""
    made: list[int] = []
    whole: Any = Parameter

    class Counted(whole):  # type: ignore[misc]
        def __init__(self, nodes: Any, *others: Any) -> None:
            made.append(len(list(nodes)))
            super().__init__(nodes, *others)

    circuits = [product_then_sum(HadamardLayer(2), [categorical(2, v) for v in range(2)]) for _ in range(9)]
    layers = [layer for circuit in circuits for layer in circuit.layers]
    edges: dict[Layer, Any] = {layer: one.layer_inputs(layer) for one in circuits for layer in one.inner_layers}
    outputs = [one.outputs[0] for one in circuits]
    monkeypatch.setattr(normalizing, "Parameter", Counted)
    result = normalize(Circuit(layers, edges, outputs))
    assert len(result.outputs) == 9
    assert len(made) == 1
