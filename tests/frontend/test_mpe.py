"""`plica.queries.mpe` against brute force: over all completions, and over all choices of terms for each."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

from plica import queries
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import TorchQuery
from plica.errors import InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.queries import mpe
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import (
    CIRCUITS,
    chain,
    circuits,
    coin,
    constant,
    gaussians,
    product_then_sum,
    several_sizes,
    tensor,
)
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import BOXES, NEIGHBOURS, PAIRS, PAIRS_WITHOUT_MODE, BoxLayer, NeighbourSum, PairLayer
from tests.harness.queries import QUERIED, evidence, normals_of, one_unit


def assert_best(compiled, x: np.ndarray, values: np.ndarray, states: np.ndarray) -> None:
    """`values` are the largest values of `states` over all choices of terms."""
    rows, log_values = mpe(compiled, torch.from_numpy(x))
    assert rows.dtype == torch.int64
    assert log_values.shape == (len(x),)
    place = {tuple(state): number for number, state in enumerate(states.tolist())}
    for row, found, log_value in zip(x, rows.numpy(), log_values.numpy(), strict=True):
        fits = (np.isnan(row) | (states == row)).all(axis=1)
        assert fits[place[tuple(found.tolist())]]
        best = float(values[fits].max())
        assert float(log_value) == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert float(values[place[tuple(found.tolist())]]) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("name", QUERIED)
def test_completions_are_the_best_with_their_choices(name: str, fold: bool) -> None:
    circuit = QUERIED[name]()
    torch.manual_seed(1)
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(circuit)
    states = all_states(circuit)
    values = Oracle(circuit, numbers(compiled)).largest(states)[:, 0, 0]
    assert_best(compiled, evidence(circuit, 8, 2), values, states)


@settings(max_examples=10)
@given(circuits(finite=True))
def test_random_circuits(circuit: Circuit) -> None:
    circuit = one_unit(circuit)
    torch.manual_seed(3)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    states = all_states(circuit)
    values = Oracle(circuit, numbers(compiled)).largest(states)[:, 0, 0]
    assert_best(compiled, evidence(circuit, 5, 4), values, states)


def explanations(circuit: Circuit, oracle: Oracle, layer, unit: int, state: np.ndarray) -> list[float]:
    """The logarithm of every product of a choice of terms below one unit: one number for each induced tree."""
    inputs = circuit.layer_inputs(layer)
    if isinstance(layer, InputLayer):
        return [float(oracle.part(layer).log(state[None])[0, 0, unit])]
    if isinstance(layer, SumLayer):
        weight = oracle.parameter(layer.weight)[unit]
        found = []
        for column, number in enumerate(weight):
            place, below = divmod(column, layer.num_input_units)
            with np.errstate(divide="ignore"):
                log_weight = float(np.log(number))
            found += [log_weight + rest for rest in explanations(circuit, oracle, inputs[place], below, state)]
        return found
    digits: Any = (
        np.unravel_index(unit, (layer.num_input_units,) * layer.arity) if isinstance(layer, KroneckerLayer) else None
    )
    units = [unit] * layer.arity if digits is None else digits
    parts = [explanations(circuit, oracle, one, int(below), state) for one, below in zip(inputs, units, strict=True)]
    return [sum(chosen) for chosen in itertools.product(*parts)]


@pytest.mark.parametrize("name", ["unnormalized", "kronecker of 3", "shared"])
def test_every_choice_of_terms_is_tried(name: str) -> None:
    circuit = QUERIED[name]()
    torch.manual_seed(5)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle, states = Oracle(circuit, numbers(compiled)), all_states(circuit)[::2]
    values = [explanations(circuit, oracle, circuit.outputs[0], 0, state) for state in states]
    assert_best(compiled, states.astype(float), np.array([max(each) for each in values]), states)
    # and their sum is the circuit: the terms are all there are
    np.testing.assert_allclose(
        [np.logaddexp.reduce(each) for each in values], oracle.log(states)[:, 0, 0].astype(float)
    )


def test_a_deterministic_circuit_is_completed_by_the_most_probable_state() -> None:
    """Only one term of each sum is not zero at any state, so that the value is the probability itself."""
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2)))
    second = CategoricalLayer([1], 2, num_categories=3, probs=constant([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]))
    circuit = product_then_sum(HadamardLayer(2, 2), [first, second], weight=constant([[0.55, 0.45]]))
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.tensor([[torch.nan, torch.nan], [0.0, torch.nan], [torch.nan, 2.0]], dtype=torch.float64)
    rows, log_values = mpe(compiled, x)
    assert rows.tolist() == [[1, 1], [0, 2], [0, 2]]  # the larger weight belongs to the other state of variable 0
    torch.testing.assert_close(log_values, compiled(rows)[:, 0, 0].detach(), rtol=1e-12, atol=1e-12)


def test_gaussians_are_completed_by_means() -> None:
    torch.manual_seed(6)
    for circuit in (gaussians(3), gaussians(3, log_partition=True)):
        compiled = TorchCompiler(dtype="float64").compile(circuit)
        weight, mean, stddev, scale = normals_of(compiled)
        x = np.array([[0.4, np.nan], [np.nan, -1.0], [np.nan, np.nan], [0.2, 0.1]])
        rows, log_values = mpe(compiled, torch.from_numpy(x))
        for row, found, log_value in zip(x, rows.numpy(), log_values.numpy(), strict=True):
            completed = np.where(np.isnan(row)[:, None], mean, row[:, None])  # (2, 3): one for each unit
            values = np.log(weight) + (stats.norm.logpdf(completed, mean, stddev) + scale).sum(axis=0)
            assert log_value == pytest.approx(values.max(), rel=1e-9)
            np.testing.assert_allclose(found, completed[:, values.argmax()], rtol=1e-12)


def test_layers_of_ones_own() -> None:
    rng = np.random.default_rng(7)
    table = rng.uniform(size=(3, 9))
    pair = PairLayer(Scope([0, 2]), 3, 3, Parameter.from_input(tensor(table)))
    other = CategoricalLayer([1], 3, num_categories=2, probs=constant([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]]))
    root = rng.normal(size=(3, 2))
    neighbours, product, total = (
        NeighbourSum(3, 1, Parameter.from_input(tensor(root))),
        HadamardLayer(3, 2),
        SumLayer(3, 1),
    )
    edges: dict[Any, Any] = {neighbours: [pair], product: [neighbours, other], total: [product]}
    circuit = Circuit([pair, other, *edges], edges, [total])
    compiler = TorchCompiler(dtype="float64")
    for row in (NEIGHBOURS, PAIRS):
        compiler.add_layer_rule(row)
    compiled = compiler.compile(circuit)
    weight = torch.softmax(compiled.state_dict()["4.weight"], -1).numpy()[0]
    probs = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    states = np.array(list(itertools.product(range(3), range(2), range(3))))
    values = [
        max(
            weight[k] * probs[k, b] * root[k, place] ** 2 * table[(k + place) % 3, 3 * a + c]
            for k in range(3)
            for place in range(2)
        )
        for a, b, c in states
    ]
    x = np.array([[np.nan, np.nan, np.nan], [np.nan, 1, np.nan], [2, np.nan, 0], [1, 0, 2]])
    assert_best(compiled, x, np.log(values), states)


def test_a_layer_that_does_not_say_where_it_is_largest() -> None:
    compiler = TorchCompiler()
    compiler.add_layer_rule(PAIRS_WITHOUT_MODE)
    pair = PairLayer(Scope([0, 1]), 1, 2, Parameter.from_input(constant([[0.25] * 4])))
    with pytest.raises(
        UnsupportedError, match=r"the most probable explanation does not support PairLayer\(0, .*'maximum'"
    ):
        mpe(compiler.compile(chain(pair)), torch.zeros(1, 2))


def test_rows_and_dtypes() -> None:
    compiled = TorchCompiler(dtype="float32").compile(several_sizes())
    x = torch.tensor([[1.0, torch.nan, torch.nan, 0.1], [torch.nan, 3.0, 7.0, torch.nan]], dtype=torch.float64)
    rows, log_values = mpe(compiled, x)
    assert rows.dtype == torch.float64
    assert log_values.dtype == torch.float32
    assert torch.equal(rows[~x.isnan()], x[~x.isnan()])
    assert rows[0, 2] == 0  # no layer reads it
    assert not rows.requires_grad
    assert not log_values.requires_grad
    for number in (0, 1):
        rows, log_values = mpe(compiled, x[:number])
        assert (rows.shape, log_values.shape) == ((number, 4), (number,))
    half = TorchCompiler(dtype="float16").compile(gaussians())
    rows, log_values = mpe(half, torch.full((2, 2), torch.nan, dtype=torch.float16))
    assert (rows.dtype, log_values.dtype) == (torch.float16, torch.float32)
    assert torch.isfinite(rows).all()
    states = TorchCompiler().compile(CIRCUITS["shared"]())
    for dtype in (torch.uint8, torch.int64, torch.float16):
        assert torch.equal(mpe(states, torch.tensor([[0, 2, 1]], dtype=dtype))[0], torch.tensor([[0, 2, 1]]))


def test_states_and_counts_that_float16_rounds_are_answered_in_float32() -> None:
    """State 2049 and a count of 70001 beside a real number: 2048 and 65504, or infinity, in float16."""
    states = CategoricalLayer([0], 1, num_categories=3000, probs=constant(np.eye(3000)[[2049]]))
    counts = PoissonLayer([1], 1, rate=constant([70001.5]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(1, 3), [states, counts, GaussianLayer([2], 1)]))
    x = torch.full((1, 3), torch.nan, dtype=torch.float16)
    rows, drawn = mpe(compiled, x)[0], queries.sample(compiled, given=x, seed=0)
    assert rows.dtype == drawn.dtype == torch.float32
    assert rows[0, :2].tolist() == [2049, 70001]
    assert drawn[0, 0] == 2049
    assert abs(drawn[0, 1] - 70001) < 2000
    half = TorchCompiler(dtype="float16").compile(
        product_then_sum(HadamardLayer(1, 2), [states, GaussianLayer([1], 1)])
    )
    assert queries.sample(half, seed=0)[0, 0] == 2049


def test_the_value_is_at_most_the_probability_and_survives_underflow() -> None:
    """300 variables whose best state has probability 1e-3."""
    layers = [
        CategoricalLayer([v], 2, num_categories=3, probs=constant([[1e-3, 1e-4, 0], [0, 1e-4, 1e-3]]))
        for v in range(300)
    ]
    circuit = product_then_sum(HadamardLayer(2, 300), layers, weight=constant([[0.25, 0.75]]))
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    rows, log_values = mpe(compiled, torch.full((1, 300), torch.nan))
    assert (rows == 2).all()
    assert float(log_values) == pytest.approx(np.log(0.75) + 300 * np.log(1e-3), rel=1e-5)
    assert (log_values <= compiled(rows)[:, 0, 0] * (1 - 1e-6)).all()


def test_chunks_and_flags_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = QUERIED["quad graph, mixing"]()
    torch.manual_seed(8)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(evidence(circuit, 10, 9))
    expected = mpe(compiled, x)
    for fold, optimize in itertools.product((True, False), repeat=2):
        other = TorchCompiler(fold=fold, optimize=optimize, dtype="float64").compile(circuit)
        other.load_state_dict(compiled.state_dict())
        assert all(map(torch.equal, mpe(other, x), expected))
    monkeypatch.setattr(TorchQuery, "rows_at_once", lambda _: 3)
    assert all(map(torch.equal, mpe(compiled, x), expected))


def test_what_has_no_explanation() -> None:
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    rows, log_values = mpe(compiled, torch.tensor([[0.0, torch.nan], [1.0, torch.nan]]))
    assert torch.isneginf(log_values).tolist() == [True, False]
    assert rows[:, 0].tolist() == [0, 1]
    with pytest.raises(InputError, match="row 0, variable 1: the value 2 is none of the 2 states"):
        mpe(compiled, torch.tensor([[1.0, 2.0]]))
    with pytest.raises(ShapeError, match="the most probable explanation needs one output of one unit"):
        mpe(TorchCompiler().compile(chain(coin([0], 2))), torch.zeros(1, 1))
    negative = SumLayer(2, 1, weight=tensor([[1.0, -0.5]]))
    with pytest.raises(
        StructuralPropertyError, match="the most probable explanation needs weights that are not negative"
    ):
        mpe(TorchCompiler("sum-product").compile(chain(coin([0], 2), negative)), torch.zeros(1, 1))


def test_extreme_gaussians_have_finite_modes() -> None:
    layer = GaussianLayer([0], 1, mean=constant([3e38]), stddev=constant([1e38]))
    rows, log_values = mpe(TorchCompiler(dtype="float32").compile(chain(layer)), torch.tensor([[torch.nan]]))
    assert float(rows) == pytest.approx(3e38)
    assert torch.isfinite(log_values).all()


@pytest.mark.parametrize("fold", [True, False])
def test_parameters_that_only_queries_read(fold: bool) -> None:
    """They are tensors of the circuit, with keys in its state dict, though no density depends on them."""
    compiler = TorchCompiler(fold=fold, dtype="float64")
    compiler.add_layer_rule(BOXES)
    layers = [
        BoxLayer(Scope([v]), 1, Parameter.from_input(tensor([0.5])), Parameter.from_input(tensor([v - 1.0])))
        for v in range(3)
    ]
    circuit = compiler.compile(product_then_sum(HadamardLayer(1, 3), layers)).eval()
    keys = [f"{place}.{name}" for place in range(3) for name in ("height", "middle")]
    assert list(circuit.state_dict())[:6] == keys
    for _ in range(2):
        middles = torch.cat([circuit.state_dict()[key] for key in keys[1::2]])
        rows, _ = mpe(circuit, torch.tensor([[torch.nan, 7.0, torch.nan]]))
        assert torch.equal(rows[0], torch.stack([middles[0], torch.tensor(7.0), middles[2]]).to(rows.dtype))
        drawn = queries.sample(circuit, 100, seed=0)
        assert ((drawn - middles).abs() <= 0.5).all()
        (entry_program,) = entry_programs_of(circuit, ["mpe"])
        assert np.array_equal(entry_program.body(np.full((1, 3), np.nan))[0][0], middles.numpy())
        circuit.load_state_dict({key: torch.rand(1) + 1 for key in keys[1::2]}, strict=False)
