"""Circuits of every kind of layer, in every algebra that takes them, say the same bits after a model file."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.files.model import load_model, save_model
from plica.lower.leaves import opaque_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.directed_circuits import draw_directed
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.oracle import numbers
from tests.harness.random_weights import Weights

INPUTS = [case for case in LAYER_CASES if isinstance(case, InputCase)]


def bits(found: torch.Tensor) -> bytes:
    return found.detach().numpy().tobytes()


def assert_round_trip(path: Path, circuit: Circuit, semiring: str, dtype: str, x: torch.Tensor) -> None:
    """Results, keys, and the file that is written of what was read."""
    compiled = TorchCompiler(semiring, dtype=dtype).compile(circuit)
    found = compiled(x)
    save_model(path, circuit, numbers(compiled), {"semiring": semiring, "dtype": dtype})
    written = path.read_bytes()
    file = load_model(path, modules=copy.deepcopy(opaque_keys(circuit)))
    again = TorchCompiler(file.options["semiring"], dtype=file.options["dtype"]).compile(file.circuit)
    again.load_state_dict({key: torch.from_numpy(value) for key, value in file.tensors.items()})
    assert list(again.state_dict()) == list(compiled.state_dict())
    assert bits(again(x)) == bits(found)
    save_model(path, file.circuit, file.tensors, file.options)
    assert path.read_bytes() == written


@pytest.mark.full
@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("case", INPUTS, ids=lambda case: case.row.layer.__name__)
def test_input_layers(case: Any, semiring: str, tmp_path: Path) -> None:
    """In one dtype and the other by turns."""
    circuit = circuit_of(case)
    x = torch.as_tensor(data_of(circuit, [*LAYER_CASES, case], 6, 0.0))
    dtype = ("float32", "float64")[(INPUTS.index(case) + [*SEMIRINGS].index(semiring)) % 2]
    try:
        TorchCompiler(semiring, dtype=dtype).compile(circuit)(x)
    except UnsupportedError:
        assert case.signed, "what distributions are made of is carried by every semiring"
    else:
        assert_round_trip(tmp_path / "m.plica", circuit, semiring, dtype, x)


@pytest.mark.parametrize("seed", [3])
def test_complex_circuits(seed: int, tmp_path: Path) -> None:
    draw = draw_directed(seed, is_complex=bool(seed % 2))
    for semiring, dtype in (("complex-lse-sum", "float32"), ("sum-product", "float64")):
        assert_round_trip(tmp_path / "m.plica", draw.circuit, semiring, dtype, torch.from_numpy(draw.x))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_operations_on_parameters(seed: int, tmp_path: Path) -> None:
    layer, total = CategoricalLayer([0], 4, num_categories=3), SumLayer(4, 1, weight=Weights(seed).draw((1, 4)))
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    assert_round_trip(tmp_path / "m.plica", circuit, "signed-lse-sum", "float64", torch.tensor([[0], [2]]))
