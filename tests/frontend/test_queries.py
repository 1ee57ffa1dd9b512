"""`plica.queries`: rows in, rows out, against brute force; seeds are fixed, so that tests are deterministic."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery, TorchQuery
from plica.errors import InputError, ShapeError, UnsupportedError
from plica.queries import log_likelihood, mean, mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer
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
)
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import PAIRS_IN_PART, PairLayer
from tests.harness.pairwise import by_turns
from tests.harness.queries import QUERIED, assert_conditional, evidence, one_unit
from tests.harness.statistics import assert_distribution, frequencies

FLAGS = [(True, True), (True, False), (False, True), (False, False)]


@by_turns(name=list(QUERIED), fold=[True, False])
def test_completions_follow_the_conditional_distribution(name: str, fold: bool) -> None:
    circuit, number = QUERIED[name](), 4000
    torch.manual_seed(1)
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(circuit)
    x = evidence(circuit, 4, 2)
    found = sample(compiled, number, torch.from_numpy(x), seed=3)
    assert found.dtype == torch.int64
    assert found.shape == (len(x) * number, x.shape[1])
    states = all_states(circuit)
    weights = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0].astype(float)
    for row, drawn in zip(x, found.numpy().reshape(len(x), number, -1), strict=True):
        fits = (np.isnan(row) | (states == row)).all(axis=1)
        assert_distribution(frequencies(states, drawn), np.where(fits, weights, 0.0))


def test_gaussian_completions_by_kolmogorov_and_smirnov() -> None:
    """A mixture whose shares depend on what is given."""
    torch.manual_seed(4)
    circuit = gaussians(3, num_variables=2)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle = Oracle(circuit, numbers(compiled))
    weight = np.ravel(oracle.parameter(circuit.sum_layers[0].weight)).astype(float)
    means, spreads = (
        np.stack([oracle.parameter(layer.params[name]).astype(float) for layer in circuit.input_layers])
        for name in ("mean", "stddev")
    )
    x = torch.tensor([[0.3, torch.nan], [-1.2, torch.nan]], dtype=torch.float64)
    found = sample(compiled, 10_000, x, seed=5).reshape(2, 10_000, 2)
    for row, drawn in zip(x, found, strict=True):
        assert (drawn[:, 0] == row[0]).all()
        shares = weight * stats.norm.pdf(float(row[0]), means[0], spreads[0])
        shares /= shares.sum()

        def distribution(y, shares=shares):
            return (shares * stats.norm.cdf(y[:, None], means[1], spreads[1])).sum(axis=1)

        assert stats.kstest(drawn[:, 1].numpy(), distribution).pvalue > 1e-3


def test_what_is_given_stays_as_it_is() -> None:
    compiled = TorchCompiler(dtype="float32").compile(several_sizes())
    x = torch.tensor([[1.0, torch.nan, torch.nan, 0.1], [torch.nan, 3.0, 7.0, torch.nan]], dtype=torch.float64)
    found = sample(compiled, 5, x, seed=6)
    assert found.dtype == torch.float64  # 0.1 is no float32
    repeated = x.repeat_interleave(5, 0)
    assert torch.equal(found[~repeated.isnan()], repeated[~repeated.isnan()])
    assert not found[:5, 2].any()  # no layer reads column 2
    assert torch.isfinite(found).all()
    complete = torch.tensor([[1, 2, 0, 5]])
    assert torch.equal(sample(compiled, 2, complete), complete.float().repeat(2, 1))
    states = TorchCompiler().compile(CIRCUITS["shared"]())
    for dtype in (torch.uint8, torch.int32, torch.float16, torch.float64):
        rows = torch.tensor([[0, 2, 1]], dtype=dtype)
        assert torch.equal(sample(states, 2, rows), torch.tensor([[0, 2, 1]] * 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.bool])
def test_rows_of_any_dtype(dtype: torch.dtype) -> None:
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [coin([v], 2) for v in range(2)]))
    rows = torch.tensor([[0, 1], [1, 1]])
    assert torch.equal(sample(compiled, 2, rows.to(dtype)), rows.repeat_interleave(2, 0))
    assert torch.equal(mpe(compiled, rows.to(dtype))[0], rows)


def test_layers_of_several_variables_are_filled_in_whole() -> None:
    """Whatever the row can sum out: a draw, or a mode, knows nothing of single variables."""
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(PAIRS_IN_PART)
    table = [[0.1, 0.0, 0.0, 0.9], [0.0, 0.5, 0.5, 0.0]]
    pair = PairLayer(Scope([0, 2]), 2, 2, Parameter.from_input(constant(table)))
    weight = constant([[1.0, 0.0]])
    compiled = compiler.compile(product_then_sum(HadamardLayer(2, 2), [pair, coin([1], 2)], weight=weight))
    x = torch.tensor([[0.0, torch.nan, 0.0], [torch.nan, 0.0, torch.nan]], dtype=torch.float64)
    for rows in (sample(compiled, 1, x, seed=15), sample(compiled, 200, x, seed=15), mpe(compiled, x)[0]):
        assert (rows[:, 0] == rows[:, 2]).all()
    assert mpe(compiled, x)[0][1].tolist() == [1, 0, 1]
    x[1, 0] = 1.0
    assert compiled(x[1:]).isfinite().all()  # the row sums out one of the two
    asked: tuple[tuple[str, Any], ...] = (("sampling", sample), ("the most probable explanation", mpe))
    for query, ask in asked:
        message = rf"row 1: {query} fills in all variables \{{0, 2\}} of PairLayer\(0, .*the row has some of them"
        with pytest.raises(InputError, match=message):
            ask(compiled, given=x) if ask is sample else ask(compiled, x)


def test_nothing_to_draw() -> None:
    for build in (CIRCUITS["shared"], several_sizes):
        compiled = TorchCompiler().compile(build())
        width = max(compiled.scope) + 1
        assert sample(compiled, 0).shape == (0, width)
        assert sample(compiled, 0, torch.full((3, width), torch.nan)).shape == (0, width)
        assert sample(compiled, 4, torch.full((0, width), torch.nan)).shape == (0, width)
        assert sample(compiled).shape == (1, width)


def assert_alike(circuit: Circuit) -> None:
    """Samples of one seed, whatever the flags and whatever is computed at once."""
    x = torch.full((3, max(circuit.scope) + 1), torch.nan, dtype=torch.float64)
    torch.manual_seed(7)
    first = TorchCompiler(dtype="float64").compile(circuit)
    x[1] = sample(first, seed=8)[0].double()
    expected = sample(first, 20, seed=9), sample(first, 20, x, seed=9)
    for fold, optimize in FLAGS[1:]:
        other = TorchCompiler(fold=fold, optimize=optimize, dtype="float64").compile(circuit)
        other.load_state_dict(first.state_dict())
        found = sample(other, 20, seed=9), sample(other, 20, x, seed=9)
        for one, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(one, theirs, rtol=1e-9, atol=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TorchQuery, "rows_at_once", lambda _: 7)
        for one, whole in zip((sample(first, 20, seed=9), sample(first, 20, x, seed=9)), expected, strict=True):
            # torch rounds the entries at the end of an array, too few for a vector, by other code than the rest
            torch.testing.assert_close(one, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["two trees", "quad graph, mixing", "gaussian"])
def test_a_seed_decides_whatever_the_flags(name: str) -> None:
    assert_alike({**QUERIED, "gaussian": gaussians}[name]())


@pytest.mark.full
@settings(max_examples=30)
@given(circuits())
def test_a_seed_decides_on_random_circuits(circuit: Circuit) -> None:
    assert_alike(one_unit(circuit))


@settings(max_examples=4)
@given(circuits(finite=True))
def test_completions_of_random_circuits(circuit: Circuit) -> None:
    assert_completed(circuit)


@pytest.mark.full
@settings(max_examples=8)
@given(circuits(finite=True))
def test_completions_of_more_random_circuits(circuit: Circuit) -> None:
    assert_completed(circuit)


def assert_completed(circuit: Circuit) -> None:
    circuit, number = one_unit(circuit), 500
    torch.manual_seed(12)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = evidence(circuit, 3, 13)
    found = sample(compiled, number, torch.from_numpy(x), seed=14).numpy().reshape(len(x), number, -1)
    assert_conditional(compiled, x, found, 1e-5)


def test_tensors_are_read_at_each_call() -> None:
    circuit = product_then_sum(HadamardLayer(2, 2), [coin([v], 2) for v in range(2)])
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    x = torch.tensor([[torch.nan, 0.0]])

    def always(state: int) -> dict[str, torch.Tensor]:
        logits = torch.zeros(2, 2)
        logits[:, state] = 1000.0
        return {**compiled.state_dict(), "0.logits": logits}

    for state, changed in itertools.product((0, 1), (compiled, copy.deepcopy(compiled))):
        changed.load_state_dict(always(state))
        assert (sample(changed, 20, x)[:, 0] == state).all()
        changed.load_state_dict({key: value.double() for key, value in always(1 - state).items()}, assign=True)
        assert (sample(changed, 20, x)[:, 0] == 1 - state).all()
        changed.float()
    named = {name: value.detach() for name, value in compiled.named_parameters()}
    swapped = {name: value.flip(-1) if "logits" in name else value for name, value in named.items()}
    before = sample(compiled, 20, x)

    class Asks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.circuit = compiled

        def forward(self) -> torch.Tensor:
            return sample(self.circuit, 20, x)

    after = torch.func.functional_call(Asks(), {f"circuit.{name}": value for name, value in swapped.items()}, ())
    assert torch.equal(after[:, 0], 1 - before[:, 0])


def test_what_cannot_be_given() -> None:
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    rows = torch.tensor([[1.0, torch.nan], [0.0, torch.nan]])
    with pytest.raises(InputError, match="row 1: the logarithm of the probability of the given values is -inf"):
        sample(compiled, 3, rows)
    with pytest.raises(InputError, match="row 0, variable 1: the value 2 is none of the 2 states"):
        sample(compiled, 3, torch.tensor([[1.0, 2.0]]))
    with pytest.raises(InputError, match=r"expects data of shape \(B, 2\)"):
        sample(compiled, 3, torch.zeros(2))
    with pytest.raises(InputError, match="n is -1, expected at least 0"):
        sample(compiled, -1)
    with pytest.raises(InputError, match=r"n is 1.5, expected an integer"):
        sample(compiled, 1.5)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="sample takes a compiled circuit, found Circuit; compile it"):
        sample(compiled.symbolic)
    with pytest.raises(ShapeError, match="sampling needs one output of one unit"):
        sample(plica.compile(chain(coin([0], 2))))


def test_completions_of_float16_circuits_are_drawn_in_float32() -> None:
    """A logarithm near -200 has steps of 1/8 in float16, and here adds 300 that differ by 1/100."""
    table, weight = (torch.tensor(values).half().double() for values in ([[0.5, 0.5], [0.505, 0.495]], [[0.95, 0.05]]))
    layers = [CategoricalLayer([0], 2, num_categories=2, probs=constant([[1.0, 0.0], [0.0, 1.0]]))]
    layers += [CategoricalLayer([v], 2, num_categories=2, probs=constant(table.numpy())) for v in range(1, 300)]
    circuit = product_then_sum(HadamardLayer(2, 300), layers, weight=constant(weight.numpy()))
    compiled = TorchCompiler(dtype="float16").compile(circuit)
    x = torch.zeros(1, 300, dtype=torch.float64)
    x[0, 0] = torch.nan
    found = sample(compiled, 4000, x, seed=11)
    first, second = (weight[0] * table[:, 0] ** 299).tolist()
    assert 0.3 < second / (first + second) < 0.7
    assert stats.binomtest(int(found[:, 0].sum()), 4000, second / (first + second)).pvalue > 1e-3


def test_torch_compile_runs_queries_as_they_are() -> None:
    compiled = TorchCompiler().compile(CIRCUITS["shared"]())
    x = torch.tensor([[0.0, torch.nan, 1.0], [1.0, 2.0, torch.nan]])

    def ask(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = IntegrateQuery(compiled)(2 * rows / 2, integrate_vars=Scope([0]))
        return log_likelihood(compiled, rows) + 1, 2 * mean(compiled, rows), mpe(compiled, rows)[1], hidden

    first, later = torch.compile(ask, backend="eager")(x), ask(x)
    for found, expected in zip(first, later, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    gradients = [torch.autograd.grad(one[0].sum(), list(compiled.parameters())) for one in (first, later)]
    assert all(map(torch.equal, *gradients))
