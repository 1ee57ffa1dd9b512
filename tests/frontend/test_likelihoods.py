"""Likelihoods of rows with holes, boxes and quantiles: values by enumeration, gradients, budgets and messages."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery, program
from plica.backend.torch.queries.values import log_total
from plica.errors import DTypeError, InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.learn import Adam, fit
from plica.queries import cdf, conditional_log_likelihood, log_likelihood, probability, quantile
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import normal
from plica.symbolic.scope import Scope
from tests.harness.circuits import CIRCUITS, chain, coin, constant, gaussians, product_then_sum, several_sizes
from tests.harness.oracle import Oracle, all_states, gradients, numbers
from tests.harness.own_layers import PAIRS, PAIRS_IN_PART, PairLayer
from tests.harness.pairwise import by_turns
from tests.harness.queries import QUERIED, evidence, one_unit

NAN = torch.nan


def compiled_of(circuit: Circuit, seed: int = 1, **settings: Any) -> Any:
    torch.manual_seed(seed)
    return TorchCompiler(**{"dtype": "float64", **settings}).compile(circuit)


def log_marginals(compiled: Any, x: np.ndarray) -> np.ndarray:
    """The logarithms of the normalized sums over all completions of rows, by enumeration."""
    oracle = Oracle(compiled.symbolic, numbers(compiled))
    with np.errstate(divide="ignore"):
        return np.log([float(oracle.marginal(row)[0, 0] / oracle.total()[0, 0]) for row in x])


@by_turns(name=list(QUERIED), semiring=["lse-sum", "sum-product"])
def test_rows_that_differ_in_what_they_hide(name: str, semiring: str) -> None:
    """Each row alone, all together, and in any order: nothing is taken from another row's evidence."""
    circuit = QUERIED[name]()
    compiled = compiled_of(circuit, semiring=semiring)
    x = evidence(circuit, 12, 2)
    given = np.random.default_rng(3).random(x.shape) < 0.5
    expected = log_marginals(compiled, x)
    conditional = expected - log_marginals(compiled, np.where(given, x, np.nan))
    rows, mask = torch.from_numpy(x), torch.from_numpy(given)
    with torch.no_grad():
        np.testing.assert_allclose(log_likelihood(compiled, rows), expected, atol=1e-9)
        np.testing.assert_allclose(conditional_log_likelihood(compiled, rows, mask), conditional, atol=1e-9)
        alone = [conditional_log_likelihood(compiled, rows[r : r + 1], mask[r : r + 1]) for r in range(len(x))]
        np.testing.assert_allclose(torch.cat(alone), conditional, atol=1e-9)
        for one in (given[0], given[0].tolist()):
            alike = conditional_log_likelihood(compiled, rows, one)
            known = log_marginals(compiled, np.where(given[0], x, np.nan))
            np.testing.assert_allclose(alike, expected - known, atol=1e-9)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_marginals_of_unnormalized_categoricals_at_any_batch_size(kind: str, fold: bool) -> None:
    """Of one row, and of as many as there are folds, units or states, where a wrong axis would fit."""
    settings: dict[str, Any] = {f"{kind}_factory": normal}
    layers = [CategoricalLayer([v], 3, num_categories=3, **settings) for v in range(3)]
    if kind == "probs":
        layers = [CategoricalLayer([v], 3, num_categories=3, probs=constant([[3, 1, 2]] * 3)) for v in range(3)]
    compiled = compiled_of(product_then_sum(HadamardLayer(3, 3), layers), fold=fold)
    x = evidence(compiled.symbolic, 8, 4)[1:]
    expected = log_marginals(compiled, x)
    integrate = IntegrateQuery(compiled)
    oracle = Oracle(compiled.symbolic, numbers(compiled))
    for size in (1, 2, 3, 4, 7):
        rows = torch.from_numpy(x[:size])
        np.testing.assert_allclose(log_likelihood(compiled, rows).detach(), expected[:size], atol=1e-9)
        found = integrate(torch.nan_to_num(rows), integrate_vars=rows.isnan())
        np.testing.assert_allclose(found.detach(), oracle.log(x[:size]).astype(float), atol=1e-9)


def test_holes_contribute_no_gradient() -> None:
    """Whatever they hold; gradients of what is known are those of the marginal."""
    circuit = gaussians(3, num_variables=3)
    compiled = compiled_of(circuit)
    integrate = IntegrateQuery(compiled)
    rows = torch.tensor([[0.3, -1.0, 0.5], [0.1, 2.0, -3.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    hidden = torch.tensor([[True, False, False], [False, True, True], [True, True, True]])
    found = []
    for garbage in (NAN, 1e300, -torch.inf, 0.0):
        compiled.zero_grad()
        x = torch.where(hidden, garbage, rows).requires_grad_()
        integrate(x, integrate_vars=hidden)[:2].sum().backward()
        assert x.grad is not None
        assert not x.grad[hidden].any()
        found.append({name: value.copy() for name, value in gradients(compiled).items()})
        assert all(np.isfinite(value).all() for value in found[-1].values())
    compiled.zero_grad()
    log_likelihood(compiled, torch.where(hidden, NAN, rows)).sum().backward()
    plain = gradients(compiled)
    for other in found:
        for name, value in other.items():
            np.testing.assert_array_equal(value, found[0][name])
            if not name.endswith("log_partition"):
                np.testing.assert_allclose(value, plain[name], atol=1e-12)


def test_a_circuit_trains_on_rows_with_holes() -> None:
    """A mixture of two clusters, most of whose entries are missing, is found; conditioned on one entry, too."""
    rng = np.random.default_rng(5)
    cluster = rng.integers(0, 2, 600)
    data = (4.0 * cluster[:, None] - 2 + rng.normal(size=(600, 3))).astype(np.float32)
    data[rng.random(data.shape) < 0.5] = np.nan
    circuit = product_then_sum(HadamardLayer(2, 3), [GaussianLayer([v], 2) for v in range(3)])
    compiled = compiled_of(circuit, seed=1, dtype="float32")
    x = torch.from_numpy(data)
    result = fit(compiled, x[:500], x[500:], learner=Adam(0.2), epochs=30)
    assert np.isfinite([epoch.valid for epoch in result.history]).all()
    means = np.sort(numbers(compiled)["0.mean"])
    np.testing.assert_allclose(means, [-2, 2], atol=0.4)
    optimizer = torch.optim.Adam(compiled.parameters(), 0.05)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = -conditional_log_likelihood(compiled, x, [True, False, False]).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(bool(one.grad.isfinite().all()) for one in compiled.parameters())
    assert losses[-1] < losses[0]


def test_gradients_of_unnormalized_circuits_are_those_of_the_logarithm_over_the_total() -> None:
    compiled = compiled_of(QUERIED["unnormalized"]())
    x = torch.from_numpy(evidence(compiled.symbolic, 5, 6))
    values = dict(compiled.named_parameters())
    log_likelihood(compiled, x).sum().backward()
    for parameter in values.values():
        place = tuple(0 for _ in parameter.shape)
        sides = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter[place] += step
                sides.append(float(log_likelihood(compiled, x).sum()))
                parameter[place] -= step
        assert float(parameter.grad[place]) == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)


def test_the_total_is_computed_once_in_eval_mode() -> None:
    compiled = compiled_of(QUERIED["unnormalized"]()).eval()
    x = torch.from_numpy(evidence(compiled.symbolic, 3, 6))
    with torch.no_grad():
        first = log_likelihood(compiled, x)
        program_of_total = compiled.queries[("log total", "lse-sum", torch.float64)]
        ready = program_of_total._run._ready(compiled)
        assert [value.shape for value in ready.values] == [(1, 1)]
        assert torch.equal(log_likelihood(compiled, x), first)
        for parameter in compiled.parameters():
            parameter.add_(0.5 * torch.rand_like(parameter))
        np.testing.assert_allclose(log_likelihood(compiled, x), log_marginals(compiled, x.numpy()), atol=1e-9)
    log_likelihood(compiled, x).sum().backward()
    assert all(parameter.grad is not None for parameter in compiled.parameters())


def test_what_is_impossible() -> None:
    """Minus infinity for a row; nothing follows from evidence that cannot be; no gradient is NaN."""
    table = [[0.0, 1.0], [0.0, 1.0]]
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant(table))
    compiled = compiled_of(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, NAN]])
    found = log_likelihood(compiled, x)
    assert found.isneginf().tolist() == [True, False, True]
    given = conditional_log_likelihood(compiled, x, torch.tensor([True, False]))
    assert given.isnan().tolist() == [True, False, True]
    given.nansum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in compiled.parameters() if one.grad is not None)
    with pytest.raises(InputError, match=r"row 2: .* nothing to say of the rest"):
        quantile(compiled, 1, 0.5, torch.tensor([[1.0, NAN], [NAN, NAN], [0.0, NAN]]))
    nothing = compiled_of(
        product_then_sum(HadamardLayer(2, 2), [coin([0], 2), coin([1], 2)], weight=constant([[0, 0]]))
    )
    with pytest.raises(InputError, match="total is -inf, so it describes no distribution"):
        log_likelihood(nothing, x[:1])


def test_boxes_of_a_gaussian_mixture() -> None:
    """By SciPy; ends that are infinite, missing, crossed, and far out."""
    circuit = gaussians(3, num_variables=2, log_partition=True)
    compiled = compiled_of(circuit, seed=4)
    oracle = Oracle(circuit, numbers(compiled))
    names = ("mean", "stddev", "log_partition")
    means, spreads, scales = (
        np.stack([oracle.parameter(layer.params[name]).astype(float) for layer in circuit.input_layers])
        for name in names
    )
    shares = np.ravel(oracle.parameter(circuit.sum_layers[0].weight)).astype(float) * np.exp(scales.sum(0))
    shares /= shares.sum()
    inf = np.inf
    low = np.array([[-1.0, -2.0], [-inf, 0.0], [np.nan, np.nan], [1.0, 0.0], [-1e300, -inf], [0.5, 0.5]])
    high = np.array([[2.0, 0.5], [0.0, inf], [0.7, np.nan], [0.0, 1.0], [1e300, 0.3], [0.5, inf]])
    ends = [np.where(np.isnan(one), side * inf, one) for one, side in ((low, -1), (high, 1))]
    within = [stats.norm.cdf((one[:, :, None] - means) / spreads) for one in ends]
    expected = (np.clip(within[1] - within[0], 0, 1).prod(axis=1) * shares).sum(axis=1)
    found = probability(compiled, torch.from_numpy(low), torch.from_numpy(high))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[3] == found[5] == 0
    expected = (within[1].prod(axis=1) * shares).sum(axis=1)
    np.testing.assert_allclose(cdf(compiled, torch.from_numpy(high)), expected, atol=1e-12)


def test_quantiles_undo_the_distribution_function() -> None:
    compiled = compiled_of(gaussians(3, num_variables=2), seed=4)
    levels = torch.tensor([1e-6, 0.01, 0.5, 0.9, 1 - 1e-6], dtype=torch.float64)
    for variable in (0, 1):
        found = quantile(compiled, variable, levels)
        ends = torch.full((5, 2), NAN, dtype=torch.float64)
        ends[:, variable] = found
        assert (found.diff() > 0).all()
        np.testing.assert_allclose(cdf(compiled, ends), levels, rtol=1e-9)
        before = ends.nextafter(torch.tensor(-torch.inf, dtype=torch.float64))
        assert (cdf(compiled, before) <= levels + 1e-15).all()
    assert quantile(compiled, 0, 0.5).shape == ()
    assert quantile(compiled, 0, 0.5, ends).shape == (5,)
    assert quantile(compiled, 0, [0.5], ends[:0]).shape == (0, 1)
    # what rows say of the variable itself is left out
    assert torch.equal(quantile(compiled, 1, 0.5, ends), quantile(compiled, 1, 0.5, torch.full_like(ends, NAN)))
    single = compiled_of(gaussians(3, num_variables=2), seed=4, dtype="float32")
    np.testing.assert_allclose(quantile(single, 0, [0.01, 0.5, 0.9]), quantile(compiled, 0, levels[1:4]), rtol=1e-4)


def test_quantiles_of_a_variable_whose_layers_differ_in_units() -> None:
    one, three = GaussianLayer([0], 1), GaussianLayer([0], 3)
    mixed, total = SumLayer(3, 1), SumLayer(1, 1, arity=2)
    circuit = Circuit([one, three, mixed, total], {mixed: [three], total: [one, mixed]}, [total])
    for fold in (True, False):
        compiled = compiled_of(circuit, fold=fold)
        levels = torch.tensor([0.01, 0.3, 0.8], dtype=torch.float64)
        np.testing.assert_allclose(cdf(compiled, quantile(compiled, 0, levels)[:, None]), levels, rtol=1e-12)


def test_quantiles_of_states_are_exact() -> None:
    circuit = CIRCUITS["shared"]()
    compiled = compiled_of(circuit)
    states, oracle = all_states(circuit), Oracle(circuit, numbers(compiled))
    weights = oracle.linear(states)[:, 0, 0].astype(float)
    x, levels = evidence(circuit, 6, 2), [0.1, 0.5, 0.77, 0.999]
    for variable in circuit.scope:
        found = quantile(compiled, variable, levels, torch.from_numpy(x))
        assert found.dtype == torch.int64
        for row, answers in zip(x, found.tolist(), strict=True):
            known = np.where(np.arange(len(row)) == variable, np.nan, row)
            fits = (np.isnan(known) | (states == known)).all(axis=1)
            masses = [weights[fits & (states[:, variable] == state)].sum() for state in range(3)]
            sums = np.cumsum(masses) / np.sum(masses)
            assert answers == [int(np.argmax(sums >= level)) for level in levels]


def test_categoricals_of_several_sizes_fold_under_intervals() -> None:
    layers = [CategoricalLayer([v], 2, num_categories=size) for v, size in enumerate((3, 5))]
    compiled = compiled_of(product_then_sum(HadamardLayer(2, 2), layers))
    assert len(compiled.layers) < 4
    masses = Oracle(compiled.symbolic, numbers(compiled)).linear(all_states(compiled.symbolic))[:, 0, 0]
    inside = (all_states(compiled.symbolic) <= [1, 3]).all(axis=1)
    found = cdf(compiled, torch.tensor([[1, 3], [1, 9]]))
    np.testing.assert_allclose(found[0], float(masses[inside].sum()), atol=1e-12)


FORMS: dict[str, Any] = {
    "mask": torch.tensor([[True, False, False], [True, False, False]]),
    "mask for all": torch.tensor([True, False, False]),
    "one row of a mask": torch.tensor([[True, False, False]]),
    "list": [[True, False, False]] * 2,
    "scope": Scope([0]),
    "scopes": [Scope([0]), Scope([0])],
    "one scope": (Scope([0]),),
}


@by_turns(form=list(FORMS), dtype=[torch.int64, torch.uint8, torch.float32, torch.float64])
def test_forms_of_what_is_integrated(form: str, dtype: torch.dtype) -> None:
    """Integers have no NaN: garbage under the mask is hidden all the same."""
    layers = [coin([v], 2, 3) for v in range(3)]
    compiled = compiled_of(product_then_sum(HadamardLayer(2, 3), layers))
    rows = torch.tensor([[77, 1, 2], [99, 0, 1]]).to(dtype)
    expected = compiled(torch.tensor([[NAN, 1, 2], [NAN, 0, 1]]))
    query = IntegrateQuery(compiled)
    torch.testing.assert_close(query(rows, integrate_vars=FORMS[form]), expected, rtol=0, atol=1e-12)
    others = Scope([1, 2])
    torch.testing.assert_close(query(rows, observed=others), expected, rtol=0, atol=1e-12)
    per_row = query(rows.clamp(max=2), integrate_vars=[Scope([0, 1]), Scope([])])
    assert torch.equal(per_row[1], compiled(rows.clamp(max=2)[1:])[0])


def test_every_output_and_unit_is_integrated() -> None:
    coins, sums = [coin([v], 2) for v in range(2)], [SumLayer(2, 3), SumLayer(2, 3)]
    product = HadamardLayer(2, 2)
    edges: dict[Any, Any] = {product: coins, **{layer: [product] for layer in sums}}
    compiled = compiled_of(Circuit([*coins, *edges], edges, sums))
    rows = torch.tensor([[9, 1], [0, 9]])
    found = IntegrateQuery(compiled)(rows, integrate_vars=rows > 1)
    assert found.shape == (2, 2, 3)
    expected = compiled(torch.tensor([[0, 1], [0, 0]])).exp() + compiled(torch.tensor([[1, 1], [0, 1]])).exp()
    torch.testing.assert_close(found.exp(), expected)


def test_what_integration_refuses() -> None:
    compiled = compiled_of(product_then_sum(HadamardLayer(2, 2), [coin([v], 2) for v in range(2)]))
    query, x = IntegrateQuery(compiled), torch.tensor([[0, 1], [1, 1], [0, 0]])
    with pytest.raises(InputError, match=r"integrate_vars: \{5\} is not among the variables of the circuit, \{0, 1\}"):
        query(x, integrate_vars=Scope([0, 5]))
    with pytest.raises(InputError, match="integrate_vars has 2 scopes for 3 rows"):
        query(x, integrate_vars=[Scope([0]), Scope([1])])
    with pytest.raises(InputError, match=r"takes one of integrate_vars, .* found none"):
        query(x)
    with pytest.raises(InputError, match=r"found both"):
        query(x, integrate_vars=Scope([0]), observed=Scope([1]))
    with pytest.raises(DTypeError, match=r"integrate_vars is a mask of booleans, .* found torch.int64"):
        query(x, integrate_vars=x)
    with pytest.raises(DTypeError, match=r"found numbers: \[0, 1\]; try integrate_vars=Scope\(\[0, 1\]\)"):
        query(x, integrate_vars=[0, 1])
    with pytest.raises(DTypeError, match=r"integrate_vars is a mask of booleans, .* found \[Scope\(\{0\}\), 'one'\]"):
        query(x, integrate_vars=[Scope([0]), "one"])
    with pytest.raises(InputError, match=r"integrate_vars has shape \(3,\), expected \(3, 2\)"):
        query(x, integrate_vars=torch.ones(3, dtype=torch.bool))
    with pytest.raises(InputError, match=r"row 1, variable 0: the value 7 is none of the 2 states"):
        query(torch.tensor([[9, 0], [7, 1]]), integrate_vars=[Scope([0]), Scope([])])
    uneven = Circuit(
        [one := coin([0], 2), two := coin([1], 2), total := SumLayer(2, 1, 2)], {total: [one, two]}, [total]
    )
    with pytest.raises(StructuralPropertyError, match="losing variables needs a smooth"):
        IntegrateQuery(compiled_of(uneven))
    for ask in (lambda c: log_likelihood(c, x.double()), lambda c: cdf(c, x.double())):
        with pytest.raises(StructuralPropertyError, match="needs a smooth"):
            ask(compiled_of(uneven))


def test_layers_of_several_variables() -> None:
    """Whole or not at all, unless the row sums out a part of them."""
    table = [[0.1, 0.0, 0.0, 0.9], [0.0, 0.5, 0.5, 0.0]]
    pair = PairLayer(Scope([0, 2]), 2, 2, plica.symbolic.parameters.Parameter.from_input(constant(table)))
    circuit = product_then_sum(HadamardLayer(2, 2), [pair, coin([1], 2)], weight=constant([[0.25, 0.75]]))
    x = torch.tensor([[0.0, 1.0, 0.0], [1.0, NAN, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    given = torch.tensor([[True, False, True], [False, True, False], [True, False, False]])
    for row, is_whole in ((PAIRS, True), (PAIRS_IN_PART, False)):
        compiler = TorchCompiler(dtype="float64")
        compiler.add_layer_rule(row)
        torch.manual_seed(0)
        compiled = compiler.compile(circuit)
        if is_whole:
            for grad in (True, False):
                with torch.set_grad_enabled(grad), pytest.raises(InputError, match="row 2: variable 2 is missing, but"):
                    conditional_log_likelihood(compiled, x, given)
        else:
            found = conditional_log_likelihood(compiled, x, given)
            nothing = torch.full((1, 3), NAN, dtype=torch.float64)
            known = torch.where(given[2], x[2:], nothing)
            expected = compiled(x[2:]) - compiled(known)
            assert found[2].isneginf() == expected[0, 0, 0].isneginf()
            # the first variable of the pair alone: 0.25 * 0.1 + 0.75 * 0.5
            torch.testing.assert_close(compiled(known).exp().item(), 0.4)
        with pytest.raises(UnsupportedError, match=r"the distribution function .* PairLayer\(0.*has no 'interval'"):
            cdf(compiled, x)
        ends = torch.tensor([[NAN, 0.0, torch.inf]], dtype=torch.float64)  # no end of the pair: it is summed out
        expected = log_likelihood(compiled, torch.tensor([[NAN, 0.0, NAN]], dtype=torch.float64)).exp()
        torch.testing.assert_close(cdf(compiled, ends), expected.detach())
        with pytest.raises(UnsupportedError, match=r"the quantile does not support PairLayer"):
            quantile(compiled, 0, 0.5)


@pytest.mark.parametrize("build", [lambda: CIRCUITS["shared"](), several_sizes])
def test_sizes_of_batches_and_dtypes_of_data(build: Any) -> None:
    circuit = one_unit(build())
    compiled = compiled_of(circuit, dtype="float32")
    rows = plica.queries.sample(compiled, 5, seed=1)
    whole = not rows.is_floating_point()
    width = rows.shape[1]
    given = torch.arange(width) < 2
    kinds = (torch.int32, torch.uint8, torch.int64, torch.float64, torch.float32) if whole else (torch.float64,)
    expected = log_likelihood(compiled, rows), conditional_log_likelihood(compiled, rows, given)
    for dtype in kinds:
        for size in (0, 1, 5):
            x = rows[:size].to(dtype)
            found = log_likelihood(compiled, x), conditional_log_likelihood(compiled, x, given)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other[:size], rtol=1e-5, atol=1e-5)
            assert cdf(compiled, x).shape == probability(compiled, x, x).shape == (size,)
            assert IntegrateQuery(compiled)(x, integrate_vars=given).shape == (size, 1, 1)
            assert quantile(compiled, 0, [0.2, 0.5], x).shape == (size, 2)


def test_parts_answer_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory budget cuts rows into parts where no gradients are asked for."""
    for semiring, build in itertools.product(
        ("lse-sum", "sum-product"), (QUERIED["two trees"], QUERIED["unnormalized"])
    ):
        compiled = compiled_of(build(), semiring=semiring)
        x = torch.from_numpy(evidence(compiled.symbolic, 9, 2))
        given = torch.arange(x.shape[1]) < 2

        def ask(compiled: Any = compiled, x: Any = x, given: Any = given) -> list[torch.Tensor]:
            with torch.no_grad():
                return [
                    log_likelihood(compiled, x),
                    conditional_log_likelihood(compiled, x, given),
                    cdf(compiled, x),
                    IntegrateQuery(compiled)(x, integrate_vars=given),
                    quantile(compiled, 0, [0.3, 0.6], x).double(),
                ]

        whole = ask()
        compiled.queries.clear()
        with monkeypatch.context() as patch:
            patch.setattr(program, "BYTES_AT_ONCE", 1)
            assert program.rows_within_budget(compiled.lowered(torch.float64).program) == 1
            for one, other in zip(ask(), whole, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_float16_circuits_are_scored_in_float32() -> None:
    layers = [CategoricalLayer([v], 2, num_categories=2) for v in range(200)]
    circuit = product_then_sum(HadamardLayer(2, 200), layers)
    compiled = compiled_of(circuit, dtype="float16")
    found = log_likelihood(compiled, torch.zeros(1, 200))
    assert found.dtype == torch.float32
    expected = Oracle(circuit, numbers(compiled)).log(np.zeros((1, 200)))
    np.testing.assert_allclose(found.detach(), expected[:, 0, 0].astype(float), rtol=1e-4)
    assert log_total(compiled).abs() < 0.1  # weights of float16 sum to 1 up to a thousandth each


def test_messages() -> None:
    compiled = compiled_of(product_then_sum(HadamardLayer(2, 2), [coin([v], 2) for v in range(2)]))
    x = torch.tensor([[0.0, 1.0]])
    for ask in (log_likelihood, cdf, lambda c, x: conditional_log_likelihood(c, x, [True, False])):
        with pytest.raises(InputError, match=r"expects data of shape \(B, 2\), .* found \(1, 3\)"):
            ask(compiled, torch.zeros(1, 3))
        with pytest.raises(DTypeError, match=r"rows must be numbers, .* found array.*of type ndarray"):
            ask(compiled, np.array([["heads", "tails"]]))
    with pytest.raises(InputError, match="row 0, variable 1: the value 5 is none of the 2 states"):
        log_likelihood(compiled, torch.tensor([[0, 5]]))
    with pytest.raises(DTypeError, match=r"given is a mask of booleans, .* found torch.float32"):
        conditional_log_likelihood(compiled, x, x)
    with pytest.raises(InputError, match=r"given has shape \(1,\), expected \(1, 2\)"):
        conditional_log_likelihood(compiled, x, torch.tensor([True]))
    with pytest.raises(InputError, match="low has 1 rows and high has 2"):
        probability(compiled, x, x.expand(2, 2))
    for level in (0.0, 1.0, -0.1, NAN, [[0.5]]):
        with pytest.raises(InputError, match="expected a number above 0 and below 1"):
            quantile(compiled, 0, level)
    with pytest.raises(InputError, match=r"7 is not among the variables of the circuit, \{0, 1\}"):
        quantile(compiled, 7, 0.5)
    with pytest.raises(UnsupportedError, match="log_likelihood takes a compiled circuit, found Circuit"):
        log_likelihood(compiled.symbolic, x)
    with pytest.raises(ShapeError, match="the log-likelihood needs one output of one unit"):
        log_likelihood(compiled_of(chain(coin([0], 2))), torch.zeros(1, 1))
    negative = compiled_of(product_then_sum(HadamardLayer(2, 2), [coin([0], 2), coin([1], 2)], weight_factory=normal))
    with torch.no_grad():
        next(one for one in negative.parameters() if one.shape[-1] == 2 and one.shape[-2] == 1).fill_(-1.0)
    with pytest.raises(UnsupportedError, match="stores logarithms, which negative numbers do not have"):
        log_likelihood(negative, x)
    meta = compiled_of(compiled.symbolic).to("meta")
    for ask in (log_likelihood, cdf):
        with pytest.raises(UnsupportedError, match="the circuit is on the device meta"):
            ask(meta, x)
