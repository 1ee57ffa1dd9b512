"""Alike parameter graphs of groups that read one another: evaluated as one while they are small."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.ir.program import Program
from plica.lower.fold.groups import fold_circuit
from plica.lower.fold.joint import JOINED, joint_groups
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import ReferenceParameter, softmax_normal
from tests.harness.circuits import chain, constant, mixing
from tests.harness.folding import check_folding
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.oracle import all_states


def count(program: Program, name: str) -> int:
    return sum(equation.op.name == name for equation in program.equations)


def sums(length: int, units: int = 3, weight_factory: Any = None) -> Circuit:
    """A variable under a chain of sum layers, of which none can be computed with another."""
    layers = [SumLayer(units, units, 1, weight_factory=weight_factory) for _ in range(length)]
    return chain(variable(units), *layers)


def variable(units: int = 3, place: int = 0) -> CategoricalLayer:
    """Units without a parameter that is learnt."""
    return CategoricalLayer(
        [place], units, num_categories=2, probs=constant(np.linspace([0.1] * units, [0.9] * units, 2).T)
    )


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
@pytest.mark.parametrize("weights", [softmax_normal, exp_normal, mixing])
def test_alike_weights_of_several_groups_are_one_operation(semiring: str, weights: Any) -> None:
    """Three groups with `(3, 3)` weights, or `(3, 1)` where they mix."""
    circuit = sums(3, weight_factory=weights)
    compiled = check_folding(circuit, all_states(circuit), semiring, optimize=False)
    assert [group.num_folds for group in compiled.layers] == [1, 1, 1, 1]
    operations = {softmax_normal: ("softmax",), exp_normal: ("exp",), mixing: ("softmax", "log_softmax")}[weights]
    assert sum(count(compiled.program, name) for name in operations) == 1
    (leaf,) = [leaf for leaf, _ in compiled.leaves.items()]
    assert len(leaf.members) == 3
    assert list(compiled.state_dict()) == ["1.weight", "2.weight", "3.weight"]


def test_layers_of_several_classes_are_joined() -> None:
    """What matters is the graph of the parameter, not whose it is."""
    first, second = variable(), SumLayer(3, 3)
    last = SumLayer(3, 3, 1, weight_factory=softmax_normal)
    two = SumLayer(1, 3, 3)
    ends = [variable(1) for _ in range(3)]
    circuit = Circuit([first, second, *ends, two, last], {second: [first], two: ends, last: [second]}, [last, two])
    compiled = check_folding(circuit, all_states(circuit), optimize=False)
    assert [group.num_folds for group in compiled.layers if group.kind == "sum"] == [1, 1, 1]
    assert count(compiled.program, "softmax") == 1


def test_a_cost_rule_keeps_large_weights_apart() -> None:
    units = int((JOINED / 2) ** 0.5)
    circuit = sums(5, units)
    joint = joint_groups(fold_circuit(circuit).groups, {})
    assert sorted(len(one) for one in joint.values()) == [2, 2, 2, 2], "two fit, and the fifth is alone"
    assert not joint_groups(fold_circuit(sums(3, 2 * units)).groups, {})


def test_other_graphs_and_settings_stay_apart() -> None:
    weights = [softmax_normal((3, 3)), exp_normal((3, 3)), softmax_normal((3, 3))]
    layers = [SumLayer(3, 3, weight=weight) for weight in weights]
    circuit = chain(variable(), *layers)
    groups = fold_circuit(circuit).groups
    joint = joint_groups(groups, {})
    assert {name: [one.representative for one in joined] for (_, name), joined in joint.items()} == {
        "weight": [layers[0], layers[2]]
    }
    check_folding(circuit, all_states(circuit))


def test_unfolded_circuits_join_nothing() -> None:
    compiled = TorchCompiler(fold=False, optimize=False).compile(sums(3))
    assert count(compiled.program, "softmax") == 3
    assert all(len(leaf.members) == 1 for leaf, _ in compiled.leaves.items())


def test_tensors_of_other_circuits_are_not_copied_together() -> None:
    """Two circuits that were compiled on their own own a tensor each; a third that reads both evaluates them apart."""
    layers = [SumLayer(3, 3) for _ in range(2)]
    compiler = TorchCompiler(optimize=False, dtype="float64")
    for layer in layers:
        compiler.compile(chain(variable(), layer))
    copies = [layer.copyref() for layer in layers]
    compiled = compiler.compile(chain(variable(), *copies))
    assert count(compiled.program, "softmax") == 2
    assert count(compiled.program, "concat") == 0
    assert all(isinstance(node, ReferenceParameter) for one in copies for node in one.weight.leaves)


def test_queries_and_other_inputs_read_the_same_tensors() -> None:
    circuit = chain(variable(), SumLayer(3, 3), SumLayer(3, 3), SumLayer(3, 1))
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    states = compiled(torch.tensor([[0], [1]]))
    torch.testing.assert_close(compiled(torch.tensor([[0.0], [1.0]])), states)
    tensors = {id(tensor) for _, tensor in compiled.leaves.items()}
    drawn = sample(compiled, 2000, seed=0).double().mean()
    assert abs(float(drawn) - float(states[1].detach().exp())) < 0.05
    rows, log_values = mpe(compiled, torch.tensor([[np.nan]]))
    assert rows.shape == (1, 1)
    assert bool(log_values <= states.max())
    assert {id(tensor) for _, tensor in compiled.leaves.items()} == tensors
