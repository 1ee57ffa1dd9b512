"""The ways in which `sample` completes rows give the same samples: row by row, in scaled numbers, in logarithms."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery, choosing
from plica.errors import InputError, StructuralPropertyError
from plica.lower import cascade
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.semirings import Bound
from tests.harness.circuits import chain, circuits, coin, constant, gaussians, product_then_sum, several_sizes, tensor
from tests.harness.oracle import all_states
from tests.harness.own_layers import NEIGHBOURS, NeighbourSum
from tests.harness.queries import QUERIED, assert_conditional, evidence, one_unit

# From how many activations on rows are completed one by one, and in scaled numbers.
WAYS = {"row by row": (0, 2**60), "scaled": (2**60, 0), "logarithms": (2**60, 2**60)}


def in_each_way(ask: Any) -> list[torch.Tensor]:
    found = []
    for row_by_row, scaled in WAYS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choosing, "_ROW_BY_ROW_FROM", row_by_row)
            patch.setitem(cascade.FROM, Bound.OF_ROWS, scaled)
            found.append(ask())
    return found


def assert_alike(circuit: Circuit, compiled: Any) -> None:
    x = torch.from_numpy(evidence(circuit, 4, 1)) if all_states(circuit).size else None
    first, *others = in_each_way(lambda: sample(compiled, 25, x, seed=2))
    for other in others:
        assert torch.equal(other, first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing.TorchQuery, "rows_at_once", lambda _: 7)
        assert all(torch.equal(one, first) for one in in_each_way(lambda: sample(compiled, 25, x, seed=2)))


@pytest.mark.parametrize(
    "name",
    [
        "unnormalized",
        "quad graph, mixing",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("two trees", "quad graph, tucker")),
    ],
)
def test_the_same_samples(name: str) -> None:
    circuit = QUERIED[name]()
    torch.manual_seed(3)
    assert_alike(circuit, TorchCompiler(dtype="float64").compile(circuit).eval())


@pytest.mark.full
@settings(max_examples=50)
@given(circuits(finite=True))
def test_the_same_samples_of_random_circuits(circuit: Circuit) -> None:
    circuit = one_unit(circuit)
    torch.manual_seed(4)
    assert_alike(circuit, TorchCompiler(dtype="float64").compile(circuit))


def test_real_variables_and_several_kinds() -> None:
    for circuit in (gaussians(3), several_sizes()):
        torch.manual_seed(5)
        compiled = TorchCompiler(dtype="float64").compile(circuit)
        x = torch.full((2, max(circuit.scope) + 1), torch.nan, dtype=torch.float64)
        x[1, 0] = 1.0
        first, *others = in_each_way(lambda compiled=compiled, x=x: sample(compiled, 10, x, seed=6))
        for other in others:
            torch.testing.assert_close(other, first, rtol=1e-12, atol=1e-12)


def test_a_sum_whose_units_read_units_of_their_own() -> None:
    rng = np.random.default_rng(7)
    inputs = [coin([0], 3), coin([1], 3)]
    sums = [NeighbourSum(3, 1, Parameter.from_input(tensor(rng.normal(size=(3, 2))))) for _ in inputs]
    product, root = HadamardLayer(3, 2), SumLayer(3, 1)
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(NEIGHBOURS)
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    x = torch.tensor([[0.0, torch.nan], [torch.nan, torch.nan], [torch.nan, 1.0]])
    first, *others = in_each_way(lambda: sample(compiled, 40, x, seed=8))
    assert all(torch.equal(other, first) for other in others)


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_differ_in_what_they_hide(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row's own conditional distribution, by chi-squared tests."""
    monkeypatch.setattr(choosing, "_ROW_BY_ROW_FROM", WAYS[way][0])
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, WAYS[way][1])
    circuit, number = QUERIED["quad graph, tucker"](), 1500
    torch.manual_seed(9)
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    x = evidence(circuit, 4, 10)
    found = sample(compiled, number, torch.from_numpy(x), seed=11).numpy().reshape(len(x), number, -1)
    assert_conditional(compiled, x, found, 1e-4)


def test_rows_that_scaled_numbers_do_not_prove() -> None:
    """What is given has a probability below 1e-500 under one of two labels, and 0 under the other, in float32."""
    layers = [
        CategoricalLayer([v], 2, num_categories=2, probs=constant([[1e-30, 1.0], [0.0, 1.0]])) for v in range(1, 20)
    ]
    label = CategoricalLayer([0], 2, num_categories=2, probs=constant([[1.0, 0.0], [0.0, 1.0]]))
    circuit = product_then_sum(HadamardLayer(2, 20), [label, *layers], weight=constant([[1e-3, 1.0]]))
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    x = torch.zeros(3, 20)
    x[:, 0] = torch.nan
    x[1] = 1.0
    for found in in_each_way(lambda: sample(compiled, 5, x, seed=12)):
        assert not found[:5].any()
        assert torch.equal(found[5:10], torch.ones(5, 20, dtype=torch.int64))
        assert not found[10:].any()


def test_errors_and_ends_are_the_same() -> None:
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    negative = TorchCompiler("sum-product").compile(chain(coin([0], 2), SumLayer(2, 1, weight=tensor([[1.0, -0.5]]))))

    def refused() -> torch.Tensor:
        with pytest.raises(InputError, match="row 1: the logarithm of the probability of the given values is -inf"):
            sample(compiled, 3, torch.tensor([[1.0, torch.nan], [0.0, torch.nan]]))
        with pytest.raises(StructuralPropertyError, match="sampling needs weights that are not negative"):
            sample(negative, 3, torch.tensor([[torch.nan]]))
        for n, rows in ((0, 2), (3, 0), (0, 0)):
            assert sample(compiled, n, torch.full((rows, 2), torch.nan)).shape == (0, 2)
        assert torch.equal(sample(compiled, 2, torch.tensor([[1, 0]])), torch.tensor([[1, 0]] * 2))
        return torch.zeros(0)

    in_each_way(refused)


def test_samples_without_data_and_explanations_take_no_other_way() -> None:
    circuit = QUERIED["two trees"]()
    torch.manual_seed(13)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(evidence(circuit, 6, 14))
    for ask in (lambda: mpe(compiled, x)[0], lambda: sample(compiled, 9, seed=15)):
        first, *others = in_each_way(ask)
        assert all(torch.equal(other, first) for other in others)
    samples, choices = SamplingQuery(compiled)(6, generator=torch.Generator().manual_seed(16))
    assert samples.shape == (6, 4)
    assert {len(one) for one in choices.values()} == {6}


COMPLETIONS = """
import re
from pathlib import Path
import torch
import plica
from plica.queries import sample
from plica.templates.data_modalities import image_data
circuit = image_data((1, 28, 28), "quad-tree-2", input_layer="categorical", num_input_units=32,
                     sum_product_layer="cp", num_sum_units=32)
compiled = plica.compile(circuit).eval()
x = torch.randint(256, (1000, 784)).float()
x[torch.rand(x.shape) < 0.5] = torch.nan
assert sample(compiled, 1, x).shape == sample(compiled, 1000, x[:1]).shape == (1000, 784)
print(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.full
def test_a_thousand_completions_of_784_variables_take_less_than_one_gib() -> None:
    """All of the process: of a thousand rows that differ in what they hide, and of one row a thousand times.

    Its own pages alone: the largest size that `getrusage` tells of a process was perhaps that of the one it came from.
    """
    result = subprocess.run([sys.executable, "-c", COMPLETIONS], capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 2**30


def test_seeds_are_integers_of_any_library_and_size() -> None:
    compiled = TorchCompiler().compile(chain(coin([0], 1)))
    assert torch.equal(sample(compiled, 9, seed=np.int64(3)), sample(compiled, 9, seed=3))  # type: ignore[arg-type]
    assert torch.equal(sample(compiled, 9, seed=2**64 + 3), sample(compiled, 9, seed=3))
    assert torch.equal(sample(compiled, 9, seed=-1), sample(compiled, 9, seed=2**64 - 1))
    with pytest.raises(InputError, match=r"seed is 1.5, expected an integer"):
        sample(compiled, seed=1.5)  # type: ignore[arg-type]
