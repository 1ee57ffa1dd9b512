"""`posterior`, `latent_posterior`, `mean` and `variance` against brute force, on rows that differ in what they hide."""

import copy
import itertools
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery, expected
from plica.errors import InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.lower import cascade
from plica.queries import covariance, latent_posterior, mean, posterior, quantile, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    HistogramLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Bound
from tests.harness.circuits import (
    CIRCUITS,
    bag,
    chain,
    circuits,
    coin,
    constant,
    gaussians,
    product_then_sum,
    several_sizes,
    tensor,
)
from tests.harness.oracle import Oracle, all_num_states, all_states, numbers
from tests.harness.own_layers import (
    FIRST_UNITS,
    NEIGHBOURS,
    PAIRS,
    VALUES,
    FirstUnitSum,
    NeighbourSum,
    PairLayer,
    ValueLayer,
)
from tests.harness.queries import QUERIED, evidence, normals_of, one_unit


def shares(row: np.ndarray, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The probability of each state given what is known of a row."""
    found = np.where((np.isnan(row) | (states == row)).all(axis=1), weights, 0.0)
    return np.asarray(found / found.sum(), float)


def assert_expected(compiled: Any, x: np.ndarray, states: np.ndarray, weights: np.ndarray, known: set[int]) -> None:
    """All that is asked of variables, by enumerating `states` of the values `weights`."""
    rows = torch.from_numpy(x)
    found, means, variances = posterior(compiled, rows), mean(compiled, rows), variance(compiled, rows)
    for number, row in enumerate(x):
        share = shares(row, states, weights)
        expected_mean = share @ states
        expected_variance = share @ (states - expected_mean) ** 2
        for variable in known:
            table = np.bincount(states[:, variable], share, minlength=found.probabilities.shape[2])
            np.testing.assert_allclose(found.probabilities[number, variable], table, rtol=1e-9, atol=1e-9)
            assert float(means[number, variable]) == pytest.approx(expected_mean[variable], rel=1e-9, abs=1e-9)
            assert float(variances[number, variable]) == pytest.approx(expected_variance[variable], rel=1e-9, abs=1e-9)


def assert_terms(compiled: Any, circuit: Circuit, x: np.ndarray) -> None:
    """A term's probability is what the row's value loses without it: values are linear in the weights of a layer."""
    found = latent_posterior(compiled, torch.from_numpy(x))
    values = numbers(compiled)
    assert list(found) == [circuit.layer_index(layer) for layer in circuit.sum_layers]
    whole = [Oracle(circuit, values).marginal(row)[0, 0] for row in x]
    for layer in circuit.sum_layers:
        terms = found[circuit.layer_index(layer)]
        width = layer.weight.shape[1] // terms.shape[1]
        for term in range(terms.shape[1]):
            oracle = Oracle(circuit, values)
            weight = oracle.parameter(layer.weight).copy()
            weight[:, term * width : (term + 1) * width] = 0
            without = copy.copy(oracle)
            without._parameters = {**oracle._parameters, layer.weight.output: weight}
            expected_terms = [1 - without.marginal(row)[0, 0] / total for row, total in zip(x, whole, strict=True)]
            np.testing.assert_allclose(terms[:, term], np.asarray(expected_terms, float), rtol=1e-9, atol=1e-9)


PAIRS_OF_FLAGS = [(name, bool(n % 2), bool(n // 2 % 2)) for n, name in enumerate(QUERIED)]
OTHERS = [one for one in itertools.product(QUERIED, (False, True), (False, True)) if one not in PAIRS_OF_FLAGS]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "fold", "scaled"), [*PAIRS_OF_FLAGS, *(pytest.param(*one, marks=pytest.mark.full) for one in OTHERS)]
)
def test_by_brute_force(name: str, fold: bool, scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if scaled:
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    circuit = QUERIED[name]()
    torch.manual_seed(1)
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(circuit).train(scaled)
    x, states = evidence(circuit, 5, 2), all_states(circuit)
    weights = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0]
    assert_expected(compiled, x, states, weights, set(circuit.scope))
    assert_terms(compiled, circuit, x[:3])


@settings(max_examples=2)
@given(circuits(finite=True))
def test_random_circuits(circuit: Circuit) -> None:
    assert_random(circuit)


@settings(max_examples=2)
@given(circuits(finite=True))
def test_random_circuits_in_scaled_numbers(circuit: Circuit) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
        assert_random(circuit)


@pytest.mark.full
@settings(max_examples=50)
@given(circuits(finite=True))
def test_more_random_circuits(circuit: Circuit) -> None:
    assert_random(circuit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
        assert_random(circuit)


def assert_random(circuit: Circuit) -> None:
    circuit = one_unit(circuit)
    torch.manual_seed(3)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x, states = evidence(circuit, 3, 4), all_states(circuit)
    weights = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0]
    known = {variable for variable in circuit.scope if all_num_states(circuit)[variable] > 1}
    assert_expected(compiled, x, states, weights, known)
    assert_terms(compiled, circuit, x[:2])


@pytest.mark.parametrize("log_partition", [False, True])
def test_mixtures_of_normals(log_partition: bool) -> None:
    torch.manual_seed(5)
    circuit = gaussians(3, log_partition=log_partition)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    weight, centre, spread, scale = normals_of(compiled)
    x = np.array([[0.4, np.nan], [np.nan, -1.0], [np.nan, np.nan], [0.2, 0.1]])
    rows = torch.from_numpy(x)
    found, means, variances = posterior(compiled, rows), mean(compiled, rows), variance(compiled, rows)
    assert found.probabilities.shape == (4, 2, 0)
    torch.testing.assert_close(found.mean, means)
    torch.testing.assert_close(found.stddev, variances.sqrt())
    for number, row in enumerate(x):
        density = np.where(np.isnan(row)[:, None], 1.0, stats.norm.pdf(row[:, None], centre, spread)) * np.exp(scale)
        share = weight * density.prod(axis=0)
        share /= share.sum()
        for variable in range(2):
            expected_mean = share @ centre[variable]
            expected_variance = share @ (spread[variable] ** 2 + (centre[variable] - expected_mean) ** 2)
            if not np.isnan(row[variable]):
                expected_mean, expected_variance = row[variable], 0.0
            assert float(means[number, variable]) == pytest.approx(expected_mean, rel=1e-12)
            assert float(variances[number, variable]) == pytest.approx(expected_variance, rel=1e-12)
    responsibilities = latent_posterior(compiled, rows)[3]
    np.testing.assert_allclose(responsibilities.sum(1), 1, rtol=1e-12)


def test_a_variance_does_not_suffer_from_a_mean_far_from_zero() -> None:
    layer = GaussianLayer([0], 2, mean=constant([1e6, 1e6 + 0.125]), stddev=constant([1e-3, 2e-3]))
    circuit = chain(layer, SumLayer(2, 1, weight=constant([[0.25, 0.75]])))
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    within, between = 0.25 * 1e-6 + 0.75 * 4e-6, 0.25 * 0.75 * 0.125**2
    assert float(variance(compiled, torch.tensor([[torch.nan]]))) == pytest.approx(within + between, rel=1e-5)


@pytest.mark.parametrize("scaled", [False, True])
def test_units_without_mass_have_no_say(scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled else 2**60)
    probs = constant([[0.0, 0.0], [0.5, 1.5]])
    coins = CategoricalLayer([0], 2, num_categories=2, probs=probs)
    bins = HistogramLayer([1], 2, edges=[0.0, 1.0, 2.0], probs=probs)
    circuit = product_then_sum(HadamardLayer(2, 2), [coins, bins], weight=constant([[0.5, 0.5]]))
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.full((1, 2), torch.nan, dtype=torch.float64)
    np.testing.assert_allclose(mean(compiled, x)[0], [0.75, 1.25], rtol=1e-12)
    np.testing.assert_allclose(variance(compiled, x)[0], [0.1875, 0.1875 + 1 / 12], rtol=1e-12)


def test_variables_of_several_kinds() -> None:
    circuit = several_sizes()
    torch.manual_seed(6)
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    x = torch.tensor([[1.0, torch.nan, torch.nan, 0.1], [torch.nan, 3.0, 7.0, torch.nan]], dtype=torch.float64)
    found, means, variances = posterior(compiled, x), mean(compiled, x), variance(compiled, x)
    assert found.probabilities.shape == (2, 4, 4)
    assert found.probabilities.dtype == found.mean.dtype == means.dtype == torch.float32
    sums = found.probabilities.sum(2)
    torch.testing.assert_close(sums, torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0]]))
    assert found.probabilities[0, 0].tolist() == [0, 1, 0, 0]
    assert found.mean[:, 2].isnan().tolist() == [True, False]  # no layer reads it, so that nothing tells what it is
    assert found.mean[0, 3] == means[0, 3] == torch.tensor(0.1)
    assert found.mean[1, 2] == 7
    assert found.mean[:, 1].isnan().tolist() == [True, False]  # it has states
    states = torch.arange(4.0)
    torch.testing.assert_close(means[0, 1], found.probabilities[0, 1] @ states)
    torch.testing.assert_close(variances[0, 1], found.probabilities[0, 1] @ (states - means[0, 1]) ** 2)
    assert variances[1, 1:3].tolist() == [0, 0]
    assert float(found.stddev[1, 3]) > 0


@pytest.mark.parametrize("train", [False, True])
def test_rows_of_any_dtype_and_none(train: bool) -> None:
    compiled = TorchCompiler().compile(CIRCUITS["shared"]()).train(train)
    for dtype in (torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        rows = torch.tensor([[0, 2, 1]], dtype=dtype)
        found = posterior(compiled, rows)
        torch.testing.assert_close(found.probabilities[0], torch.eye(3)[[0, 2, 1]])
        assert mean(compiled, rows).tolist() == found.mean.tolist() == [[0, 2, 1]]
        assert found.stddev.tolist() == [[0, 0, 0]]
        assert not mean(compiled, rows).requires_grad
    none = torch.zeros(0, 3)
    assert posterior(compiled, none).probabilities.shape == (0, 3, 3)
    assert mean(compiled, none).shape == variance(compiled, none).shape == (0, 3)
    assert [terms.shape for terms in latent_posterior(compiled, none).values()] == [(0, 2)] * 4


def test_chunks_flags_and_modes_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = QUERIED["two trees"]()
    torch.manual_seed(7)
    first = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(evidence(circuit, 10, 8))

    def asked(compiled: Any) -> list[torch.Tensor]:
        found = posterior(compiled, x)
        return [found.probabilities, mean(compiled, x), variance(compiled, x), *latent_posterior(compiled, x).values()]

    wanted = asked(first)
    for fold, optimize in ((False, True), (True, False)):
        other = TorchCompiler(fold=fold, optimize=optimize, dtype="float64").compile(circuit).eval()
        other.load_state_dict(first.state_dict())
        for one, theirs in zip(asked(other), wanted, strict=True):
            torch.testing.assert_close(one, theirs, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr("plica.backend.torch.queries.program.BYTES_AT_ONCE", 1)
    for one, theirs in zip(asked(first), wanted, strict=True):
        torch.testing.assert_close(one, theirs, rtol=1e-12, atol=1e-12)


def underflowing() -> Circuit:
    """Two labels whose rows differ in likelihood by far more than float32 holds, and each way is as probable."""
    inputs = [
        CategoricalLayer([v], 2, num_categories=2, probs=constant([[1e-3, 1 - 1e-3], [0.5, 0.5]])) for v in range(200)
    ]
    product, total = HadamardLayer(2, 200), SumLayer(2, 1, weight=constant([[1.0, (1e-3 / 0.5) ** 7]]))
    label = CategoricalLayer([200], 1, num_categories=2, probs=constant([[0.5, 0.5]]))
    both = HadamardLayer(1, 2)
    return Circuit(
        [*inputs, product, total, label, both], {product: inputs, total: [product], both: [total, label]}, [both]
    )


@pytest.mark.parametrize("scaled_from", [0, pytest.param(2**60, marks=pytest.mark.full)])
def test_what_underflows_is_exact(scaled_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32, with values below 1e-500, from scaled numbers that prove less and from logarithms alone."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, scaled_from)
    circuit = underflowing()
    x = torch.zeros(3, 201)
    x[:, 0] = torch.nan
    x[1, :16] = 1.0
    x[2, 8:] = torch.nan
    narrow, wide = (TorchCompiler(dtype=dtype).compile(circuit) for dtype in ("float32", "float64"))
    found, exact = posterior(narrow, x).probabilities, posterior(wide, x.double()).probabilities
    torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-6)
    assert 0.01 < float(found[2, 10, 0]) < 0.99


def test_rows_that_scaled_numbers_do_not_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms of a sum that lie further apart than float32 reaches, which zeros of the weights tell apart."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    tiny = constant([[1.0, 0.0], [0.0, 1e-30]])
    inputs = [CategoricalLayer([v], 2, num_categories=2, probs=tiny) for v in range(2)]
    sums = [SumLayer(2, 2, weight=constant([[1.0, 0.0], [0.0, 1.0]])) for _ in inputs]
    product, root = HadamardLayer(2, 2), SumLayer(2, 1, weight=constant([[1e-30, 1.0]]))
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    circuit = Circuit([*inputs, *edges], edges, [root])
    narrow, wide = (TorchCompiler(dtype=dtype).compile(circuit) for dtype in ("float32", "float64"))
    x = torch.tensor([[torch.nan, torch.nan], [0.0, torch.nan], [1.0, torch.nan]])
    torch.testing.assert_close(
        posterior(narrow, x).probabilities, posterior(wide, x.double()).probabilities.float(), rtol=1e-5, atol=0
    )
    programs = {key: one for key, one in cast("Any", narrow.queries).items() if isinstance(one, expected.FlowProgram)}
    assert {semiring for _, semiring, *_ in programs} == {"lse-sum", "scaled"}


@pytest.mark.parametrize("rows", [1, 6000])
def test_two_negative_factors_are_refused_whatever_the_number_of_rows(rows: int) -> None:
    """Many rows are walked in scaled numbers, whose product of two negative ones is positive; logarithms know none."""
    factors = [PolynomialLayer([v], 1, degree=1, coeff=constant([[0.0, 1.0]])) for v in range(2)]
    product, total = HadamardLayer(1, 3), SumLayer(1, 1, weight=constant([[1.0]]))
    inputs = [*factors, coin([2], 1)]
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    compiled = TorchCompiler("signed-lse-sum", dtype="float64").compile(circuit)
    both = torch.tensor([[1.0, 2.0, torch.nan], [-1.0, -2.0, torch.nan]], dtype=torch.float64)
    good, bad = (row.expand(rows, 3) for row in both)
    assert (latent_posterior(compiled, good)[4] == 1).all()
    assert quantile(compiled, 2, 1e-9, good).shape == (rows,)
    for ask in (lambda: latent_posterior(compiled, bad), lambda: quantile(compiled, 2, 0.5, bad)):
        with pytest.raises(InputError, match="row 0: the logarithm of the probability of the given values is nan"):
            ask()


def test_sums_of_ones_own_that_all_read_one_unit() -> None:
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(FIRST_UNITS)
    rng = np.random.default_rng(10)
    inputs = [CategoricalLayer([v], 3, num_categories=2, probs=constant(rng.dirichlet([1.0, 1.0], 3))) for v in (0, 1)]
    sums = [FirstUnitSum(3, Parameter.from_input(tensor(rng.normal(size=(3, 1))))) for _ in inputs]
    product, root = HadamardLayer(3, 2), SumLayer(3, 1)
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    states = np.array(list(itertools.product(range(2), repeat=2)))
    weights = compiled(torch.from_numpy(states)).exp().detach().numpy()[:, 0, 0]
    x = np.array([[np.nan, np.nan], [np.nan, 1.0], [0.0, np.nan]])
    assert_expected(compiled, x, states, weights, {0, 1})


def test_layers_of_ones_own() -> None:
    """A sum whose units read units of their own, and a layer of two variables."""
    compiler = TorchCompiler(dtype="float64")
    for row in (NEIGHBOURS, PAIRS):
        compiler.add_layer_rule(row)
    rng = np.random.default_rng(9)
    inputs = [coin([0], 3), coin([1], 3)]
    sums = [NeighbourSum(3, 1, Parameter.from_input(tensor(rng.normal(size=(3, 2))))) for _ in inputs]
    product, root = HadamardLayer(3, 2), SumLayer(3, 1)
    edges: dict[Any, Any] = {sums[0]: [inputs[0]], sums[1]: [inputs[1]], product: sums, root: [product]}
    circuit = Circuit([*inputs, *edges], edges, [root])
    compiled = compiler.compile(circuit)
    states = np.array(list(itertools.product(range(2), repeat=2)))
    weights = compiled(torch.from_numpy(states)).exp().detach().numpy()[:, 0, 0]
    assert_expected(compiled, evidence(circuit, 5, 10), states, weights, {0, 1})
    for terms in latent_posterior(compiled, torch.full((1, 2), torch.nan)).values():
        assert float(terms.sum()) == pytest.approx(1)
    pair = PairLayer(Scope([0, 1]), 1, 2, Parameter.from_input(constant([[0.25] * 4])))
    with pytest.raises(UnsupportedError, match=r"the posterior does not support PairLayer\(0, .*'mean'"):
        posterior(compiler.compile(chain(pair)), torch.zeros(1, 2))
    assert latent_posterior(compiler.compile(chain(pair)), torch.zeros(1, 2)) == {}


def test_terms_are_the_choices_of_samples() -> None:
    circuit = QUERIED["quad graph, mixing"]()
    torch.manual_seed(11)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    found = latent_posterior(compiled, torch.full((1, 4), torch.nan, dtype=torch.float64))
    _, choices = SamplingQuery(compiled)(4000, generator=torch.Generator().manual_seed(12))
    assert list(found) == sorted(choices)
    for index, terms in found.items():
        counts = torch.bincount(choices[index] + 1, minlength=terms.shape[1] + 1)[1:]
        for count, probability in zip(counts.tolist(), terms[0].tolist(), strict=True):
            assert stats.binomtest(count, 4000, min(probability, 1.0)).pvalue > 1e-4


def test_what_cannot_be_asked() -> None:
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    rows = torch.tensor([[1.0, torch.nan], [0.0, torch.nan]])
    for ask in (posterior, mean, variance, latent_posterior):
        with pytest.raises(InputError, match="row 1: the logarithm of the probability of the given values is -inf"):
            ask(compiled, rows)
        with pytest.raises(InputError, match="row 0, variable 1: the value 2 is none of the 2 states"):
            ask(compiled, torch.tensor([[1.0, 2.0]]))
        with pytest.raises(UnsupportedError, match="takes a compiled circuit, found Circuit; compile it"):
            ask(compiled.symbolic, rows)
        with pytest.raises(ShapeError, match="needs one output of one unit"):
            ask(TorchCompiler().compile(chain(coin([0], 2))), torch.zeros(1, 1))
    negative = SumLayer(2, 1, weight=tensor([[1.0, -0.5]]))
    with pytest.raises(StructuralPropertyError, match="the posterior needs weights that are not negative"):
        posterior(TorchCompiler("sum-product").compile(chain(coin([0], 2), negative)), torch.zeros(1, 1))
    unsmooth = TorchCompiler().compile(bag(SumLayer(1, 1, 2), coin([0], 1), coin([1], 1)))
    with pytest.raises(StructuralPropertyError, match="the mean needs a smooth circuit"):
        mean(unsmooth, torch.zeros(1, 2))


@pytest.mark.parametrize("scaled", [False, True])
def test_layers_without_variables(scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As evidence leaves them: factors of units, which shift what is probable."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled else 2**60)
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(VALUES)
    seen = ValueLayer(2, Parameter.from_input(constant([0.25, 0.75])))
    hidden = CategoricalLayer([0], 2, num_categories=2, probs=constant([[1.0, 0.0], [0.5, 0.5]]))
    product, root = HadamardLayer(2, 2), SumLayer(2, 1, weight=constant([[0.4, 0.6]]))
    edges: dict[Any, Any] = {product: [seen, hidden], root: [product]}
    compiled = compiler.compile(Circuit([seen, hidden, *edges], edges, [root]))
    share = 0.6 * 0.75 / (0.6 * 0.75 + 0.4 * 0.25)
    x = torch.tensor([[torch.nan], [0.0]], dtype=torch.float64)
    table = posterior(compiled, x).probabilities
    np.testing.assert_allclose(table[:, 0], np.array([[1 - share / 2, share / 2], [1.0, 0.0]]), rtol=1e-12)
    np.testing.assert_allclose(mean(compiled, x)[0], share / 2, rtol=1e-12)
    np.testing.assert_allclose(covariance(compiled, [0]), share / 2 * (1 - share / 2), rtol=1e-12)
    np.testing.assert_allclose(latent_posterior(compiled, x)[3][0], [1 - share, share], rtol=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
def test_two_negative_factors_are_no_probability(scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their product is positive, and so is each of them times the derivative of its logarithm."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled else 2**60)
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(VALUES)
    factors = [ValueLayer(1, Parameter.from_input(constant([number]))) for number in (-1.0, -2.0)]
    inputs = [*factors, coin([0], 1)]
    product, root = HadamardLayer(1, 3), SumLayer(1, 1, weight=constant([[1.0]]))
    edges: dict[Any, Any] = {product: inputs, root: [product]}
    compiled = compiler.compile(Circuit([*inputs, *edges], edges, [root]))
    with pytest.raises(InputError, match="row 0: the logarithm of the probability of the given values is nan"):
        posterior(compiled, torch.tensor([[torch.nan]], dtype=torch.float64))
