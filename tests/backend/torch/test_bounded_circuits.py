"""Circuits in eval mode whose weights prove all rows right: no row is looked at, and each is right all the same."""

import copy
import pickle
from typing import Any, cast

import numpy as np
import pytest
import torch

from plica.backend.torch import scoring
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.constants.policy import FoldPolicy
from plica.ir.program import Program
from plica.lower import cascade
from plica.lower.queries.bottom_up import equations_of
from plica.pipeline import PipelineContext
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer
from plica.symbolic.semirings import Bound
from tests.harness.circuits import CIRCUITS, chain, constants, data, gaussians, pixels, tensor
from tests.harness.eval_circuits import operations, unfolded
from tests.harness.oracle import Oracle, numbers
from tests.harness.pairwise import flagged
from tests.harness.random_circuits import draw_circuit

BOUND = {"float32": 1e-5, "float64": 1e-13}


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setitem(cascade.FROM, Bound.OF_WEIGHTS, 0)


def colours(layer: str = "cp", graph: str = "quad-tree-2", units: int = 4) -> Circuit:
    return pixels(4, units, graph=graph, layer=layer, values=5)


def entries(circuit: TorchCircuit) -> dict[str, Program]:
    """The Programs of eval mode that were made, by carrier."""
    return {cast("Any", key)[0]: one.entry for key, one in circuit.constants._programs.items()}


def is_proven(circuit: TorchCircuit) -> bool:
    """Whether the calls before were answered by the weights alone."""
    return bool(circuit._verdicts) and all(verdict.ready is not None for verdict in circuit._verdicts.values())


X = torch.arange(48).reshape(3, 16) % 5


@pytest.mark.one_in(3)
@flagged(
    sum_product=["cp", "cp-t", "tucker"],
    graph=["quad-tree-2", "quad-graph", "random-binary-tree"],
    dtype=list(BOUND),
)
def test_images_are_proven_by_their_weights(sum_product, graph, dtype) -> None:
    circuit = TorchCompiler(dtype=dtype).compile(colours(sum_product, graph)).eval()
    expected = Oracle(circuit.symbolic, numbers(circuit)).log(X.numpy()).astype(float)
    with torch.no_grad():
        for rows in (3, 1, 0):
            np.testing.assert_allclose(circuit(X[:rows]), expected[:rows], rtol=BOUND[dtype], atol=BOUND[dtype])
    assert is_proven(circuit)
    with torch.no_grad():
        assert operations(circuit, X) == 0


@pytest.mark.parametrize("sum_product", ["cp", "tucker"])
def test_results_are_tensors_of_which_derivatives_can_be_asked(sum_product) -> None:
    circuit = TorchCompiler().compile(colours(sum_product, "quad-graph")).eval()
    with torch.no_grad():
        result = circuit(X)
    assert is_proven(circuit)
    assert not result.is_inference()
    scale = torch.ones((), requires_grad=True)
    (result.add_(1.0) * scale).sum().backward()
    (circuit.train()(X).sum() * scale).backward()  # nor did the call leave others behind
    assert scale.grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bounded_from", [0, 10**12])
def test_circuits_compute_in_their_own_dtype_under_autocast(bounded_from, dtype, monkeypatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_WEIGHTS, bounded_from)
    circuit = TorchCompiler().compile(colours())
    drawn = sample(circuit, 3, seed=0)
    for training in (True, False):
        with torch.no_grad():
            expected = circuit.train(training)(X)
            with torch.autocast("cpu", dtype=dtype):
                assert torch.equal(circuit(X), expected)
                assert torch.equal(sample(circuit, 3, seed=0), drawn)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=pytest.mark.full if (place + number) % 2 else [])  # they take turns
        for place, name in enumerate(CIRCUITS)
        for number, dtype in enumerate(BOUND)
    ],
)
def test_every_circuit_gives_in_eval_mode_what_it_gives_in_training(name, dtype) -> None:
    circuit = TorchCompiler(dtype=dtype).compile(CIRCUITS[name]())
    if not circuit.scope:
        return
    rows = torch.from_numpy(data(circuit.symbolic, 5))
    missing = rows.to(circuit.dtype).clone()
    missing[1], missing[2, 0], missing[3, -1] = torch.nan, torch.nan, torch.nan
    for x in (rows, missing):
        with torch.no_grad():
            expected = circuit.train()(x)
            found = circuit.eval()(x)
        torch.testing.assert_close(found, expected, rtol=BOUND[dtype], atol=BOUND[dtype], equal_nan=True)


@pytest.mark.parametrize("spread", [5.0, 20.0, 300.0])
@pytest.mark.parametrize("dtype", BOUND)
def test_sharper_weights_are_right_whether_they_are_proven_or_not(spread, dtype) -> None:
    circuit = TorchCompiler(dtype=dtype).compile(colours(units=3))
    with torch.no_grad():
        for one in circuit.parameters():
            one.mul_(spread)
        expected = Oracle(circuit.symbolic, numbers(circuit)).log(X.numpy()).astype(float)
        found = circuit.eval()(X)
    np.testing.assert_allclose(found, expected, rtol=BOUND[dtype], atol=BOUND[dtype])
    assert is_proven(circuit) == (spread < {"float32": 10, "float64": 50}[dtype])


def test_missing_pixels_are_proven_too() -> None:
    circuit = TorchCompiler().compile(colours()).eval()
    x = X.float()
    x[0, 3], x[1] = torch.nan, torch.nan
    with torch.no_grad():
        found = circuit(x)
    assert is_proven(circuit)
    assert "matmul" not in [one.op.name for one in entries(circuit)["bounded"].equations], "nor is the widest layer"
    torch.testing.assert_close(found, unfolded(circuit, x), rtol=1e-5, atol=1e-5)
    assert abs(float(found[1])) < 1e-5


def test_weights_that_change_are_asked_again() -> None:
    circuit = TorchCompiler().compile(colours()).eval()
    before = {key: one.clone() for key, one in circuit.state_dict().items()}
    with torch.no_grad():
        expected = circuit(X)
        for proven, factor in ((False, 200.0), (True, 0.005), (False, 1000.0)):
            for one in circuit.parameters():
                one.mul_(factor)
            found = circuit(X)
            torch.testing.assert_close(found, unfolded(circuit, X), rtol=1e-5, atol=1e-5)
            assert is_proven(circuit) == proven
        circuit.load_state_dict(before)
        assert torch.equal(circuit(X), expected)


def test_a_step_of_training_is_seen() -> None:
    circuit = TorchCompiler().compile(colours())
    optimizer = torch.optim.Adam(circuit.parameters(), lr=0.1)
    for _ in range(2):
        with torch.no_grad():
            before = circuit.eval()(X)
        circuit.train()
        optimizer.zero_grad()
        (-circuit(X).mean()).backward()
        optimizer.step()
        with torch.no_grad():
            after = circuit.eval()(X)
        assert (after > before).all()
        torch.testing.assert_close(after, unfolded(circuit, X), rtol=1e-5, atol=1e-5)


NOT_PROVEN = {
    "densities, whose bounds follow the rows": gaussians,
    "a probability of zero": lambda: chain(
        CategoricalLayer([0], 2, num_categories=3, probs=tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))
    ),
}


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_where_weights_prove_nothing_rows_are_looked_at(name) -> None:
    circuit = TorchCompiler().compile(NOT_PROVEN[name]()).eval()
    x = torch.from_numpy(data(circuit.symbolic, 4))
    with torch.no_grad():
        torch.testing.assert_close(circuit(x), unfolded(circuit, x))
    assert not is_proven(circuit)


def test_other_ways_to_run_are_as_they_were() -> None:
    circuit = TorchCompiler().compile(colours())
    circuit(X)
    assert not entries(circuit), "in training"
    circuit.eval()(X)
    assert not entries(circuit), "with gradients"
    linear = TorchCompiler("sum-product").compile(colours()).eval()
    with torch.no_grad():
        linear(X)
    assert list(entries(linear)) == ["sum-product"]


def test_copies_ask_for_themselves() -> None:
    circuit = TorchCompiler().compile(colours()).eval()
    with torch.no_grad():
        for one in circuit.parameters():
            one.mul_(200.0)
        expected = circuit(X)
        for other in (copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))):
            assert not other._verdicts
            assert torch.equal(other(X), expected)
            assert not is_proven(other)
            assert other._verdicts


def test_results_have_the_dtype_of_a_circuit_without_real_tensors() -> None:
    circuit = TorchCompiler().compile(constants()).eval()
    x = torch.tensor([[0], [1]])
    with torch.no_grad():
        for real in (torch.float32, torch.float64, torch.float32):
            found = circuit.to(real)(x)
            assert found.dtype == real
            torch.testing.assert_close(found.exp().flatten(), torch.tensor([0.375, 0.625], dtype=real))


def test_few_activations_take_log_space(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = TorchCompiler().compile(colours()).eval()
    activations = sum(group.num_folds * group.representative.num_output_units for group in circuit.layers)
    monkeypatch.setitem(cascade.FROM, Bound.OF_WEIGHTS, 2 * activations)
    with torch.no_grad():
        circuit(X[:1])
        assert list(entries(circuit)) == ["lse-sum"]
        torch.testing.assert_close(circuit(X)[:1], circuit(X[:1]), rtol=1e-5, atol=1e-5)
    assert list(entries(circuit)) == ["lse-sum", "bounded"]


def test_nothing_of_the_bounds_is_computed_at_a_call() -> None:
    circuit = TorchCompiler().compile(pixels(8, 8, layer="cp-t", values=17)).eval()
    x = torch.arange(128).reshape(2, 64) % 17
    with torch.no_grad():
        circuit(x)
    entry = entries(circuit)["bounded"]
    names = [one.op.name for one in entry.equations]
    assert "divide" not in names
    assert names.count("einsum") == 6
    assert names.count("rescale") == 3, "of every second product"
    assert entry.results[1] in entry.arguments, "that all rows are right was found before"


@pytest.mark.parametrize("sum_product", ["cp", "cp-t"])
def test_what_is_only_mixed_is_rescaled_as_a_mixture(sum_product: str) -> None:
    circuit = TorchCompiler().compile(colours(sum_product, "quad-graph"))
    circuit.eval()(X)
    groups = circuit.folded.groups
    program = circuit._lower(("scaled", torch.int64, torch.float32, (), False)).program
    rescaled = [any(one.op.name == "rescale" for one in equations_of(program, place)) for place in range(len(groups))]
    is_mixture = [type(one.representative).__name__ == "SumLayer" and one.representative.arity > 1 for one in groups]
    found = 0
    for place, is_rescaled in enumerate(rescaled):
        readers = [
            other
            for other, one in enumerate(groups)
            if any(number == place for fold in one.in_fold_idx for number, _ in fold)
        ]
        if is_rescaled and readers and not is_mixture[place]:
            assert not all(is_mixture[other] for other in readers)
        elif not is_rescaled and readers and all(is_mixture[other] for other in readers):
            assert all(rescaled[other] for other in readers)
            found += 1
    assert found


@pytest.mark.parametrize(("graph", "sums"), [("quad-graph", 0), ("quad-tree-2", 1)])
def test_the_scales_of_a_tree_are_one_sum(graph: str, sums: int) -> None:
    circuit = TorchCompiler().compile(colours("cp-t", graph)).eval()
    with torch.no_grad():
        circuit(X)
    names = [one.op.name for one in entries(circuit)["bounded"].equations]
    assert (names.count("sum"), names.count("log2")) == (sums, sums or names.count("rescale"))
    assert names.count("rescale") == 2


def test_the_widest_layer_of_an_image_is_gone() -> None:
    """The sums over the units of 16 pixels, half of all weights, are in the table."""
    circuit = TorchCompiler().compile(colours(units=8)).eval()
    with torch.no_grad():
        circuit(X)
    entry = entries(circuit)["bounded"]
    sums = [one for one in entry.equations if one.op.name in ("matmul", "einsum")]
    assert [one.inputs[-1].type.shape for one in sums] == [(8, 8, 8), (4, 8, 8), (2, 8, 8), (1, 1, 8)]
    described = [layer for layer in circuit.symbolic.layers if type(layer).__name__ == "SumLayer"]
    assert sum(layer.num_input_units * layer.num_output_units for layer in described[:16]) == 16 * 64
    (table,) = [var for var in entry.arguments if var.type.shape == (16 * 5, 8)]
    (read,) = [one for one in entry.equations if table in one.inputs]
    assert read.op.name == "take"


def test_without_room_the_layer_stays() -> None:
    context = PipelineContext(policy=FoldPolicy(max_growth=0))
    circuit = context.compile(colours()).eval()
    with torch.no_grad():
        torch.testing.assert_close(circuit(X), unfolded(circuit, X), rtol=1e-5, atol=1e-5)
    assert circuit.constants.num_bytes == 0
    assert [verdict.ready for verdict in circuit._verdicts.values()] == [None], "bounds that are not kept do not count"
    assert "lse-sum" in entries(circuit)


@pytest.mark.parametrize("family", ["mild", "missing", "logits of 30", "tiny weights", "zeros"])
@pytest.mark.parametrize("seeds", [(41, 42), pytest.param((40, 43), marks=pytest.mark.full)], ids=str)
def test_random_circuits_in_parts_give_in_eval_mode_what_they_give_in_training(family, seeds, monkeypatch) -> None:
    monkeypatch.setattr(scoring, "_PART", 100)
    monkeypatch.setattr(scoring, "_LEAST_ROWS", 2)
    for seed in seeds:
        drawn = draw_circuit(family, seed)
        circuit = TorchCompiler(dtype=drawn.dtype, fold=seed % 3 > 0, optimize=seed % 2 > 0).compile(drawn.circuit)
        with torch.no_grad():
            expected = circuit.train()(drawn.x)
            found = circuit.eval()(drawn.x)
            before = found.clone()
            again = circuit(drawn.x.flip(0)).flip(0)
        bound = BOUND[str(drawn.dtype).removeprefix("torch.")]
        torch.testing.assert_close(found, expected, rtol=bound, atol=bound)
        torch.testing.assert_close(again, expected, rtol=bound, atol=bound)
        assert torch.equal(found, before), "a later call writes to no earlier result"
