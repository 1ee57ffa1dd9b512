"""Sampling Programs: well-formed, pure functions of uniform numbers, the same under the interpreter as in torch."""

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import query_of
from plica.ir.dtypes import DType
from plica.lower.fold.groups import fold_circuit
from plica.lower.queries.choosing import lower_choices
from plica.lower.queries.sample import SAMPLING
from tests.harness.circuits import CIRCUITS

# The circuits of one output of one unit.
ONE = [
    name for name, build in CIRCUITS.items() if len(build().outputs) == 1 and build().outputs[0].num_output_units == 1
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("name", ONE)
def test_the_interpreter_agrees_with_torch(name: str, fold: bool) -> None:
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(CIRCUITS[name]())
    query = query_of(compiled, SAMPLING, None)
    program = query.lowered.program
    plica.verify(program)
    assert plica.parse(str(program)) == program
    leaves = query.leaves(compiled)
    consts = [getattr(leaves, var.name).detach().numpy() for var in program.consts]
    rows = query.lowered.num_uniforms
    for number in (0, 1, 200):
        uniforms = torch.rand(rows, number, dtype=torch.float64)
        with torch.no_grad():
            found = query.run.run(leaves, uniforms)
        expected = plica.interpret(program, uniforms.numpy(), consts=consts)
        assert len(found) == len(expected) == 4
        for ours, reference in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), reference, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ONE)
def test_one_uniform_number_for_each_sum_and_variable_of_an_input(name: str) -> None:
    circuit = CIRCUITS[name]()
    lowered = lower_choices(SAMPLING, fold_circuit(circuit), DType.FLOAT32)
    expected = len(circuit.sum_layers) + sum(layer.num_variables for layer in circuit.input_layers)
    assert lowered.num_uniforms == expected
    assert sorted(lowered.sums) == [circuit.layer_index(layer) for layer in circuit.sum_layers]
