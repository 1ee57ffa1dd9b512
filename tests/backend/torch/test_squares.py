"""Queries of squares against enumeration: samples by chi-squared tests, conditional distributions to 1e-9."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import plica
from plica.backend.torch.queries import SamplingQuery
from plica.errors import InputError, StructuralPropertyError, UnsupportedError
from plica.pipeline import PipelineContext
from plica.queries import (
    cdf,
    covariance,
    latent_posterior,
    log_likelihood,
    mean,
    mpe,
    mpe_bounds,
    posterior,
    probability,
    quantile,
    sample,
    variance,
)
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import condition, marginal, multiply
from plica.symbolic.layers import (
    CategoricalLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    ExponentialLayer,
    GaussianLayer,
    GeometricLayer,
    HadamardLayer,
    SumLayer,
)
from plica.symbolic.parameters import normal
from plica.templates import squared
from plica.templates.pgms import hmm
from plica.templates.tensor_factorizations import cp
from tests.harness.circuits import constant
from tests.harness.pairwise import first_usual
from tests.harness.squares import SIGNED, SIZES, SQUARES
from tests.harness.statistics import assert_distribution, frequencies

NAN = float("nan")
SOME = ["chain", "tree", "tucker", "complex", "psd"]


def cases(names: Any) -> list[Any]:
    """Names of squares; those that are not among a few are for the full tests."""
    return [pytest.param(name, marks=() if name in SOME else pytest.mark.full) for name in names]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", cases(SQUARES))
def test_samples_have_the_distribution(name: str) -> None:
    case = SQUARES[name]
    compiled, joint = case.compile()
    drawn = sample(compiled, 20000, seed=0)
    assert drawn.dtype == torch.int64
    assert_distribution(frequencies(case.states, drawn.numpy()), joint.ravel())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", cases(SQUARES))
def test_completions_have_the_conditional_distribution(name: str) -> None:
    case = SQUARES[name]
    compiled, joint = case.compile()
    rows = torch.tensor([[1.0, NAN, 0.0, NAN], [NAN, 1.0, NAN, NAN], [NAN, NAN, NAN, 1.0]], dtype=torch.float64)
    drawn = sample(compiled, 8000, given=rows, seed=1).numpy().reshape(3, 8000, 4)
    for row, own in zip(rows.numpy(), drawn, strict=True):
        known = ~np.isnan(row)
        assert (own[:, known] == row[known]).all()
        agrees = (case.states[:, known] == row[known]).all(1)
        assert_distribution(frequencies(case.states, own), joint.ravel() * agrees)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", cases(SQUARES))
def test_posteriors_are_ratios(name: str) -> None:
    case = SQUARES[name]
    compiled, joint = case.compile()
    rows = torch.tensor([[1, NAN, 0, NAN], [NAN, NAN, NAN, NAN], [0, 1, NAN, 0]], dtype=torch.float64)
    found, means, variances = posterior(compiled, rows), mean(compiled, rows), variance(compiled, rows)
    for number, row in enumerate(rows.numpy()):
        part = joint[tuple(slice(None) if np.isnan(value) else slice(int(value), int(value) + 1) for value in row)]
        for variable, value in enumerate(row):
            table = part.sum(tuple(axis for axis in range(4) if axis != variable)) / part.sum()
            if not np.isnan(value):
                table = np.eye(joint.shape[variable])[int(value)]
            own = found.probabilities[number, variable].numpy()
            np.testing.assert_allclose(own[: len(table)], table, rtol=1e-9, atol=1e-12)
            assert not own[len(table) :].any()
            states = np.arange(len(table))
            assert means[number, variable].item() == pytest.approx(table @ states, abs=1e-9)
            expected = table @ states**2 - (table @ states) ** 2
            assert variances[number, variable].item() == pytest.approx(expected, abs=1e-9)
            if np.isnan(value):
                levels = [0.05, 0.5, 0.93]
                first = [int(np.searchsorted(table.cumsum(), level)) for level in levels]
                assert quantile(compiled, variable, levels, rows[number : number + 1]).tolist() == [first]
    assert means.isnan().sum() == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", cases(SQUARES))
def test_boxes_have_the_sums_of_their_states(name: str) -> None:
    compiled, joint = SQUARES[name].compile()
    shares = joint / joint.sum()
    below = shares
    for axis in range(shares.ndim):
        below = below.cumsum(axis)
    states = torch.from_numpy(SQUARES[name].states).double()
    np.testing.assert_allclose(cdf(compiled, states).numpy(), below.ravel(), rtol=0, atol=1e-9)
    low = torch.tensor([[1.0, NAN, 0.0, 1.0]], dtype=torch.float64)
    high = torch.tensor([[1.0, 1.0, NAN, 2.0]], dtype=torch.float64)
    inside = shares[1, :2, :, 1:].sum()
    np.testing.assert_allclose(probability(compiled, low, high).item(), inside, atol=1e-9)


@pytest.mark.parametrize("semiring", ["complex-lse-sum", "signed-lse-sum", "sum-product"])
def test_boxes_that_cancel_have_probability_zero(semiring: str) -> None:
    """Rounding makes some of these squares negative."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        table, weight = rng.normal(size=(4, 3)), rng.normal(size=4)
        weight[3] = -(weight[:3] @ table[:3, 0]) / table[3, 0]
        states, total = (
            EmbeddingLayer([0], 4, num_states=3, weight=constant(table)),
            SumLayer(4, 1, weight=constant([weight])),
        )
        square = squared(Circuit([states, total], {total: [states]}, [total]))
        compiled = plica.compile(square, semiring=semiring, dtype="float64")
        first, last = torch.zeros((1, 1), dtype=torch.float64), torch.full((1, 1), 2.0, dtype=torch.float64)
        assert 0 <= cdf(compiled, first).item() < 1e-12
        assert cdf(compiled, last).item() == pytest.approx(1.0)


def test_seeds_decide_and_parts_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, _ = SQUARES["tree"].compile()
    drawn = sample(compiled, 300, seed=5)
    assert torch.equal(drawn, sample(compiled, 300, seed=5))
    assert not torch.equal(drawn, sample(compiled, 300, seed=6))
    monkeypatch.setattr("plica.backend.torch.queries.squares.BYTES_AT_ONCE", 2**16)
    assert torch.equal(drawn, sample(compiled, 300, seed=5))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("semiring", ["signed-lse-sum", "sum-product"])
@pytest.mark.parametrize("settings", [{"fold": False}, {"optimize": False}, {}])
def test_samples_do_not_depend_on_how_the_circuit_was_compiled(semiring: str, settings: dict[str, Any]) -> None:
    circuit, drawn = SQUARES["tree-tucker"].circuit, []
    for context in (
        PipelineContext(dtype="float64", semiring="complex-lse-sum"),
        PipelineContext(dtype="float64", semiring=semiring, **settings),
    ):
        torch.manual_seed(0)
        compiled = context.compile(circuit)
        compiled.reset_parameters(seed=3)
        drawn.append(sample(compiled, 50, seed=2))
    assert torch.equal(*drawn)


def test_no_rows() -> None:
    compiled, _ = SQUARES["chain"].compile()
    empty = torch.zeros((0, 4), dtype=torch.float64)
    assert sample(compiled, 0).shape == (0, 4)
    assert sample(compiled, 3, given=empty).shape == (0, 4)
    assert sample(compiled, 0, given=torch.zeros((2, 4))).shape == (0, 4)
    assert posterior(compiled, empty).probabilities.shape == (0, 4, 3)
    assert mean(compiled, empty).shape == (0, 4)


def test_numbers_far_below_one_are_sampled() -> None:
    """Values of 1e-1000 and less: scales are kept beside mantissas."""
    chain = hmm(range(60), "embedding", 2, input_layer_kwargs={"num_states": 2}, weight_param=SIGNED)
    compiled = PipelineContext(semiring="signed-lse-sum", dtype="float32").compile(squared(chain))
    with torch.no_grad():
        for parameter in compiled.parameters():
            parameter.mul_(1e-9)
    drawn = sample(compiled, 2000, seed=0)
    expected = posterior(compiled, torch.full((1, 60), NAN)).probabilities[0, :, 1]
    error = (drawn.double().mean(0) - expected).abs()
    assert bool((error < 5 * (expected * (1 - expected) / 2000).sqrt() + 1e-4).all())


@pytest.mark.full
def test_a_long_chain_needs_no_recursion() -> None:
    chain = hmm(
        range(1500), "embedding", 1, input_layer_kwargs={"num_states": 2}, weight_param=SIGNED, homogeneous=True
    )
    compiled = plica.compile(squared(chain), semiring="signed-lse-sum", optimize=False)
    assert sample(compiled, 2, seed=0).shape == (2, 1500)


# Results of operators, and variables without states


def test_results_of_operators_are_sampled() -> None:
    case = SQUARES["tucker"]
    for make, axes, index in (
        (lambda c: marginal(c, [1, 3]), (0, 2), None),
        (lambda c: condition(c, {0: 1}), (), 1),
    ):
        result = type(case)(case.parts, lambda part, make=make: make(squared(part)), case.formula)
        compiled, joint = result.compile()
        drawn = sample(compiled, 5000, seed=0).numpy()
        if index is None:
            assert not drawn[:, [0, 2]].any()
            expected = np.where(
                (case.states[:, list(axes)] == 0).all(1),
                np.broadcast_to(joint.sum(axes, keepdims=True), joint.shape).ravel(),
                0,
            )
        else:
            expected = np.where(case.states[:, 0] == 0, np.broadcast_to(joint[1:], joint.shape).ravel(), 0)
        assert_distribution(frequencies(case.states, drawn), expected)


def mixture_of(*inputs: Any) -> Circuit:
    """A sum of products with weights of both signs."""
    units = inputs[0].num_output_units
    product, total = HadamardLayer(units, len(inputs)), SumLayer(units, 1, weight_factory=normal)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def grid(compiled: Any, first: torch.Tensor, second: torch.Tensor) -> np.ndarray:
    """The densities `(len(first), len(second))`."""
    with torch.no_grad():
        rows = torch.cartesian_prod(first.double(), second.double())
        return log_likelihood(compiled, rows).exp().reshape(len(first), len(second)).numpy()


@pytest.mark.parametrize("other", first_usual(["states", "counts", "positive"]))
def test_real_numbers_and_counts(other: str) -> None:
    """Marginals of samples against distribution functions by quadrature; conditional moments to 1e-6."""
    second: Any = {
        "states": CategoricalLayer([1], 3, num_categories=3),
        "counts": GeometricLayer([1], 3),
        "positive": ExponentialLayer([1], 3),
    }[other]
    torch.manual_seed(3)
    compiled = PipelineContext(semiring="signed-lse-sum", dtype="float64").compile(
        squared(mixture_of(GaussianLayer([0], 3), second))
    )
    x = torch.linspace(-14, 14, 1401, dtype=torch.float64)
    step = 0.005
    y = {"states": torch.arange(3), "counts": torch.arange(400), "positive": torch.arange(4000) * step + step / 2}[
        other
    ]
    density = grid(compiled, x, y) * 0.02 * (step if other == "positive" else 1)
    assert density.sum() == pytest.approx(1, abs=1e-4)
    drawn = sample(compiled, 1500, seed=1).numpy()
    assert stats.ks_1samp(drawn[:, 0], lambda v: np.interp(v, x.numpy() + 0.01, density.sum(1).cumsum())).pvalue > 1e-3
    own = density.sum(0)
    if other == "positive":
        assert stats.ks_1samp(drawn[:, 1], lambda v: np.interp(v, y.numpy() + step / 2, own.cumsum())).pvalue > 1e-3
    else:
        assert_distribution(np.bincount(drawn[:, 1].astype(int), minlength=len(own))[: len(own)], own)
    row = torch.tensor([[0.3, NAN]], dtype=torch.float64)
    given = grid(compiled, torch.tensor([0.3], dtype=torch.float64), y)[0]
    given = given / given.sum()
    expected = given @ y.numpy()
    assert mean(compiled, row)[0, 1].item() == pytest.approx(expected, rel=1e-4)
    assert variance(compiled, row)[0, 1].item() == pytest.approx(given @ (y.numpy() - expected) ** 2, rel=1e-3)
    answer = posterior(compiled, row)
    if other == "states":
        np.testing.assert_allclose(answer.probabilities[0, 1].numpy(), given, rtol=1e-9)
        assert answer.mean[0, 0] == 0.3
    else:
        assert answer.mean[0, 1].item() == pytest.approx(expected, rel=1e-4)
    middle = quantile(compiled, 0, 0.5)
    assert np.interp(middle.item(), x.numpy() + 0.01, density.sum(1).cumsum()) == pytest.approx(0.5, abs=1e-3)


# Refusals


def test_impossible_rows_are_refused() -> None:
    table = np.array([[1.0, 0.0], [2.0, 0.0]])
    leaf = plica.symbolic.parameters.ConstantParameter(2, 2, value=table)
    compiled = plica.compile(
        squared(mixture_of(EmbeddingLayer([0], 2, num_states=2, weight=leaf), EmbeddingLayer([1], 2, num_states=2))),
        semiring="signed-lse-sum",
    )
    rows = torch.tensor([[0.0, NAN], [1.0, NAN]])
    for query in (sample, posterior, mean):
        with pytest.raises(InputError, match=r"row 1: the logarithm of the probability of the given values is"):
            query(compiled, *((1, rows) if query is sample else (rows,)))
    with pytest.raises(InputError, match=r"row 1, variable 0"):
        sample(compiled, given=torch.tensor([[0.0, NAN], [7.0, NAN]]))
    with pytest.raises(InputError, match=r"n is -1"):
        sample(compiled, -1)


@pytest.mark.parametrize("query", [mpe, latent_posterior])
def test_terms_of_squares_have_no_probabilities(query: Any) -> None:
    compiled, _ = SQUARES["chain"].compile("signed-lse-sum")
    with pytest.raises(UnsupportedError, match=r"made of squares, whose sums have terms of both signs"):
        query(compiled, torch.full((1, 4), NAN))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in SQUARES if SQUARES[name].sizes == SIZES])
def test_bounds_of_the_most_probable_completion(name: str) -> None:
    compiled, table = SQUARES[name].compile()
    given = [(NAN,) * 4, (1, NAN, NAN, NAN), (NAN, 2, 0, NAN), (0, 1, 1, 2)]
    bounds = mpe_bounds(compiled, torch.tensor(given, dtype=torch.float64))
    states = torch.cartesian_prod(*map(torch.arange, SIZES))
    logs = compiled(states).detach().real[:, 0, 0].numpy().reshape(SIZES)
    np.testing.assert_allclose(np.exp(logs - logs.max()), table / table.max(), atol=1e-9)
    for row, completed, found, upper in zip(given, bounds.rows, bounds.found, bounds.upper, strict=True):
        place = tuple(slice(None) if value != value else int(value) for value in row)
        assert float(found) == pytest.approx(logs[tuple(completed.long().tolist())], abs=1e-8)
        assert float(found) <= logs[place].max() + 1e-9 <= float(upper) + 2e-9
        assert all(value != value or value == int(state) for value, state in zip(row, completed, strict=True))
    assert not bounds.is_exact


def test_bounds_of_a_square_of_densities() -> None:
    torch.manual_seed(1)
    layers = [GaussianLayer([variable], 3) for variable in range(2)]
    product, total = HadamardLayer(3), SumLayer(3, 1, weight_factory=normal)
    c = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    compiled = plica.compile(squared(c), semiring="signed-lse-sum", dtype="float64")
    bounds = mpe_bounds(compiled, torch.full((1, 2), NAN, dtype=torch.float64))
    grid = torch.linspace(-4, 4, 201, dtype=torch.float64)
    most = log_likelihood(compiled, torch.cartesian_prod(grid, grid)).max()
    total_log = torch.logsumexp(log_likelihood(compiled, bounds.rows) - bounds.found, 0)
    found, upper, largest = (float(value.detach()) for value in (bounds.found[0], bounds.upper[0], most))
    shift = float(total_log.detach())
    assert found + shift <= largest + 1e-2
    assert upper + shift >= largest


def test_other_queries_of_terms_are_refused() -> None:
    compiled, _ = SQUARES["chain"].compile("signed-lse-sum")
    with pytest.raises(UnsupportedError, match=r"made of squares"):
        covariance(compiled, [0, 1])
    with pytest.raises(UnsupportedError, match=r"SamplingQuery gives the terms that sums choose"):
        SamplingQuery(compiled)


def test_layers_of_several_variables_are_refused() -> None:
    layer = DiagonalGaussianLayer([0, 1], 2)
    total = SumLayer(2, 1, weight_factory=normal)
    compiled = plica.compile(squared(Circuit([layer, total], {total: [layer]}, [total])), semiring="signed-lse-sum")
    with pytest.raises(UnsupportedError, match=r"sampling of a circuit with signs takes one variable after another"):
        sample(compiled, 2)


def test_circuits_that_may_be_negative_are_refused_and_their_squares_are_advised() -> None:
    circuit = cp(SIZES, 3, weight_param=SIGNED)
    torch.manual_seed(0)
    compiled = plica.compile(multiply(circuit, cp(SIZES, 2)), semiring="signed-lse-sum")
    for query, advice in ((sample, "or ask its square, plica.templates.squared"), (mpe, "softmax, for instance\\)\\.")):
        with pytest.raises(StructuralPropertyError, match=advice):
            query(compiled, *(() if query is sample else (torch.full((1, 4), NAN),)))


def test_answers_follow_the_tensors_in_eval_mode() -> None:
    compiled, _ = SQUARES["chain"].compile()
    compiled.eval()
    before = posterior(compiled, torch.full((1, 4), NAN)).probabilities
    with torch.no_grad():
        next(iter(compiled.parameters())).mul_(-0.5).add_(0.3)
    after = posterior(compiled, torch.full((1, 4), NAN)).probabilities
    assert not torch.allclose(before, after)


def test_a_model_file_keeps_that_a_square_is_never_negative(tmp_path: Path) -> None:
    compiled, table = SQUARES["psd"].compile()
    plica.save(compiled, tmp_path / "square.plica")
    loaded = plica.load(tmp_path / "square.plica")
    missing = torch.full((1, 4), NAN, dtype=torch.float64)
    torch.testing.assert_close(posterior(loaded, missing).probabilities, posterior(compiled, missing).probabilities)
    assert torch.equal(sample(loaded, 20, seed=3), sample(compiled, 20, seed=3))
    plica.save(loaded, tmp_path / "again.plica")
    assert torch.equal(sample(plica.load(tmp_path / "again.plica"), 20, seed=3), sample(compiled, 20, seed=3))
    product = multiply(cp(SIZES, 3, weight_param=SIGNED), cp(SIZES, 2, weight_param=SIGNED))
    plica.save(plica.compile(product, semiring="signed-lse-sum"), tmp_path / "signed.plica")
    with pytest.raises(StructuralPropertyError, match="or ask its square"):
        sample(plica.load(tmp_path / "signed.plica"))
    assert table.min() >= 0
