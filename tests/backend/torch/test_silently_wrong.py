"""Ways in which tools for circuits have been wrong without saying so, each against numpy.

Further ones have tests of their own: ladders in `templates/logic/test_queries.py`, probabilities of 0 in
`test_learned_zeros.py` and `test_products_of_circuits.py`, samples of outer products in `test_sampled_circuits.py`.
"""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import plica
from plica.errors import UnsupportedError
from plica.pipeline import PipelineContext
from plica.queries import sample
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import (
    concatenate,
    condition,
    conjugate,
    differentiate,
    evidence,
    integrate,
    marginal,
    mixture,
    multiply,
    normalize,
    power,
    rename,
)
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    Layer,
    MultivariateGaussianLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.parameters import ClampParameter, ConstantParameter, Parameter, TensorParameter, normal
from plica.templates import pgms
from tests.harness.circuits import tensor
from tests.harness.comparison import numbers
from tests.harness.native_circuits import native_file
from tests.harness.operator_circuits import close, products
from tests.harness.oracle import Oracle

STATES = 3
X = np.array(list(itertools.product(range(STATES), repeat=3)), float)


def complex_tensor(value: Any) -> TensorParameter:
    return TensorParameter(*value.shape, initializer=ConstantTensorInitializer(value), dtype=DataType.COMPLEX)


def table(variable: int, units: int = 2) -> EmbeddingLayer:
    return EmbeddingLayer([variable], units, num_states=STATES)


def categorical(variable: int, units: int = 2) -> CategoricalLayer:
    return CategoricalLayer([variable], units, num_categories=STATES)


def built(edges: dict[Layer, list[Layer]], *outputs: Layer) -> Circuit:
    layers = dict.fromkeys([*(child for inputs in edges.values() for child in inputs), *edges, *outputs])
    return Circuit(layers, edges, outputs)


def sums(order: tuple[int, ...], arity: int, units: int, kind: Any = HadamardLayer, leaf: Any = table) -> Circuit:
    """A sum of `arity` products over variables in an order."""
    edges: dict[Layer, list[Layer]] = {}
    terms: list[Layer] = []
    for _ in range(arity):
        product = kind(2, len(order))
        edges[product] = [leaf(variable) for variable in order]
        terms.append(product)
    total = SumLayer(terms[0].num_output_units, units, arity, weight_factory=normal if leaf is table else None)
    edges[total] = terms
    return built(edges, total)


def density(leaf: Any = categorical) -> Circuit:
    return sums((0, 1, 2), 2, 1, leaf=leaf)


class Values:
    """Circuits that are compiled together, and their values in numpy."""

    def __init__(self, *circuits: Circuit, semiring: str = "complex-lse-sum", **settings: Any) -> None:
        self.context = PipelineContext(semiring=semiring, dtype="float64", **settings)
        for circuit in circuits:
            self.context.compile(circuit)

    def __call__(self, circuit: Circuit, x: Any = X) -> Any:
        """Ordinary numbers `(B, outputs, units)` of the compiled circuit."""
        compiled: Any = self.context.compile(circuit)
        found = compiled(torch.from_numpy(np.asarray(x, float))) if circuit.scope else compiled()[None]
        return (found.exp() if compiled.semiring.logarithmic else found).detach().resolve_conj().numpy()

    def expected(self, circuit: Circuit, x: Any = X) -> Any:
        """The values of an operand by the oracle."""
        return Oracle(circuit, numbers(self.context.compile(circuit))).linear(np.asarray(x, float))


# Products.


@pytest.mark.parametrize(
    ("kinds", "arities", "flags"),
    [
        ((HadamardLayer, HadamardLayer), (2, 3), {}),
        ((KroneckerLayer, HadamardLayer), (3, 2), {"fold": False}),
        ((HadamardLayer, KroneckerLayer), (1, 3), {"optimize": False}),
        ((KroneckerLayer, KroneckerLayer), (2, 1), {}),
    ],
)
def test_columns_of_products_of_sums_of_several_inputs_and_units(kinds: Any, arities: Any, flags: Any) -> None:
    first, second = (
        sums((0, 1), arity, units, kind) for arity, units, kind in zip(arities, (2, 3), kinds, strict=True)
    )
    values, x = Values(first, second, **flags), X[:, :2]
    close(values(multiply(first, second), x), products(values.expected(first, x), values.expected(second, x)))


def test_factors_and_parts_in_any_order() -> None:
    orders = list(itertools.permutations(range(3)))
    for kind, order in zip((HadamardLayer, KroneckerLayer) * 3, orders, strict=True):
        first, second = sums((0, 1, 2), 2, 2, KroneckerLayer), sums(order, 1, 2, kind)
        values = Values(first, second)
        assert are_compatible(first, second)
        assert are_compatible(second, first)
        close(values(multiply(first, second)), products(values.expected(first), values.expected(second)))


def test_a_product_layer_that_two_sums_read_and_an_interior_output() -> None:
    product, other = HadamardLayer(2, 3), [SumLayer(2, 2, weight_factory=normal) for _ in range(2)]
    edges: dict[Layer, list[Layer]] = {product: [table(v) for v in range(3)], other[0]: [product], other[1]: [product]}
    total = SumLayer(2, 2, 2, weight_factory=normal)
    edges[total] = [*other]
    circuit = built(edges, total, product, other[1])
    choices: list[Any] = [{}, {"fold": False}, {"optimize": False}]
    for flags in choices:
        values = Values(circuit, **flags)
        assert values(circuit).shape[1] == 3
        close(values(circuit), values.expected(circuit))
        close(values(multiply(circuit, circuit)), products(values.expected(circuit), values.expected(circuit)))


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product", "complex-lse-sum"])
def test_what_is_missing_from_a_row_of_a_product_is_summed_out(semiring: str) -> None:
    circuit = density()
    values = Values(circuit, semiring=semiring)
    square = multiply(circuit, circuit)
    table_of_squares = (values.expected(circuit) ** 2).reshape(STATES, STATES, STATES)
    rows = np.array([[1, np.nan, 2], [np.nan, np.nan, 0], [np.nan, np.nan, np.nan]])
    expected = [table_of_squares[1, :, 2].sum(), table_of_squares[:, :, 0].sum(), table_of_squares.sum()]
    close(values(square, rows)[:, 0, 0], np.array(expected))


def test_powers_of_categorical_units_that_do_not_sum_to_1() -> None:
    layer = CategoricalLayer([0], 2, num_categories=STATES, logits=tensor([[0.5, 1.5, -2.0], [2.0, 0.0, 1.0]]))
    circuit = Circuit([layer], {}, [layer])
    values = Values(circuit, semiring="lse-sum")
    masses = np.exp(np.array([[0.5, 1.5, -2.0], [2.0, 0.0, 1.0]]))
    cube = np.einsum("is,js,ks->sijk", masses, masses, masses).reshape(STATES, 1, 8)
    states = np.arange(STATES)[:, None]
    close(values(power(circuit, 3), states), cube)
    close(values(integrate(power(circuit, 3))), cube.sum(0, keepdims=True))
    close(values(normalize(power(circuit, 3)), states), cube / cube.sum(0))


# Conjugates.


def test_the_conjugate_of_a_product_of_gaussians_keeps_its_constant() -> None:
    layer = GaussianLayer([0], 2, mean=tensor([0.0, 1.5]), stddev=tensor([1.0, 0.5]))
    circuit = Circuit([layer], {}, [layer])
    values = Values(circuit)
    square = multiply(circuit, circuit)
    x = np.array([[0.3], [-1.0], [2.0]])
    single = stats.norm.pdf(x, [0.0, 1.5], [1.0, 0.5])
    expected = np.einsum("bi,bj->bij", single, single).reshape(3, 1, 4)
    close(values(conjugate(square), x), expected)
    close(values(multiply(square, conjugate(square)), x), products(expected, expected))
    pairs = itertools.product([(0.0, 1.0), (1.5, 0.5)], repeat=2)
    overlaps = [stats.norm.pdf(a[0], b[0], np.hypot(a[1], b[1])) for a, b in pairs]
    close(values(integrate(conjugate(square))), np.array(overlaps).reshape(1, 1, 4))


def test_conjugates_of_complex_logits() -> None:
    rng = np.random.default_rng(0)
    logits, weight = (rng.normal(size=(2, n)) + 1j * rng.normal(size=(2, n)) for n in (STATES, 2))
    layer = CategoricalLayer([0], 2, num_categories=STATES, logits=complex_tensor(logits))
    total = SumLayer(2, 2, weight=complex_tensor(weight))
    circuit = built({total: [layer]}, total)
    values = Values(circuit)
    x = np.arange(STATES)[:, None]
    expected = (weight @ np.exp(logits)).T[:, None]
    close(values(circuit, x), expected)
    close(values(conjugate(circuit), x), expected.conj())
    modulus = products(expected, expected.conj())
    close(values(multiply(circuit, conjugate(circuit)), x), modulus)
    close(values(integrate(multiply(circuit, conjugate(circuit)))), modulus.sum(0, keepdims=True))


# Derivatives, classes, and what a caller passes.


def test_derivatives_by_variables_of_large_numbers_come_in_ascending_order() -> None:
    variables = (11, 3, 8, 20)
    layers = [PolynomialLayer([variable], 1, degree=2) for variable in variables]
    product = HadamardLayer(1, 4)
    circuit = built({product: [*layers]}, product)
    values = Values(circuit, semiring="sum-product")
    x = np.random.default_rng(0).normal(size=(4, 21))
    leaves = numbers(values.context.compile(circuit))
    oracle = Oracle(circuit, leaves)
    step = 1e-4
    expected = []
    for variable in sorted(variables):
        moved = [x + sign * step * np.eye(21)[variable] for sign in (1, -1)]
        expected.append((oracle.linear(moved[0]) - oracle.linear(moved[1]))[:, 0] / (2 * step))
    found = values(differentiate(circuit), x)
    np.testing.assert_allclose(found[:, :4, 0], np.stack(expected, 1)[:, :, 0].astype(float), rtol=1e-6, atol=1e-7)
    close(found[:, 4:], oracle.linear(x))


class OwnTable(EmbeddingLayer):  # type: ignore[misc]
    """A class under one of Plica's own."""


def test_a_subclass_is_found_by_all_operators_and_compiled_by_its_own_row_alone() -> None:
    layer, total = OwnTable([0], 2, num_states=STATES), SumLayer(2, 1, weight_factory=normal)
    circuit = built({total: [layer]}, total)
    with pytest.raises(UnsupportedError, match="OwnTable has no row"):
        PipelineContext().compile(circuit)
    context = PipelineContext(semiring="sum-product", dtype="float64")
    row: Any = LAYER_ROWS[EmbeddingLayer]
    context.add_layer_compilation_rule(replace(row, layer=OwnTable))
    compiled = context.compile(circuit)
    x = torch.arange(STATES)[:, None]
    single = compiled(x).detach()
    for result, expected in (
        (multiply(circuit, circuit), single**2),
        (integrate(circuit), single.sum(0)),
        (conjugate(circuit), single),
        (normalize(power(circuit, 2)), single**2 / (single**2).sum()),
    ):
        derived: Any = context.compile(result)
        torch.testing.assert_close(derived(x) if derived.scope else derived(), expected, rtol=1e-9, atol=1e-12)


def test_nothing_that_a_caller_passes_is_changed() -> None:
    order, circuits, observed, names = [2, 0, 1], [density(), density()], {0: 1}, {0: 5}
    weights = [0.25, 0.75]
    before = [list(order), list(circuits), dict(observed), dict(names), list(weights)]
    pgms.hmm(order, "categorical", 2, input_layer_kwargs={"num_categories": 3})
    concatenate(circuits)
    multiply(*circuits)
    evidence(circuits[0], observed)
    condition(circuits[0], observed)
    rename(circuits[0], names)
    mixture(circuits, weights)
    assert [order, circuits, observed, names, weights] == before


# Samples of circuits that operators made.


@pytest.mark.parametrize("made", ["integral", "evidence", "condition"])
def test_samples_of_marginals_and_of_evidence(made: str) -> None:
    circuit = density()
    values = Values(circuit, semiring="lse-sum")
    shares = values.expected(circuit)[:, 0, 0].reshape(STATES, STATES, STATES).astype(float)
    result, expected, kept = {
        "integral": lambda: (integrate(circuit, [1]), shares.sum(1), (0, 2)),
        "evidence": lambda: (evidence(circuit, {1: 2}), shares[:, 2], (0, 2)),
        "condition": lambda: (condition(circuit, {0: 1}), shares[1], (1, 2)),
    }[made]()
    compiled = values.context.compile(result)
    drawn = sample(compiled, 20_000, seed=1).numpy()[:, kept].astype(int)
    counts = np.zeros((STATES, STATES))
    np.add.at(counts, (drawn[:, 0], drawn[:, 1]), 1)
    assert stats.chisquare(counts.ravel(), (expected / expected.sum()).ravel() * 20_000).pvalue > 1e-4


@pytest.mark.parametrize("kind", [DiagonalGaussianLayer, MultivariateGaussianLayer])
def test_samples_of_a_part_of_gaussian_variables(kind: Any) -> None:
    layer = kind([0, 1, 2], 1)
    circuit = Circuit([layer], {}, [layer])
    context = PipelineContext(dtype="float64")
    mean, spread = (np.asarray(one, float)[0] for one in numbers(context.compile(circuit)).values())
    compiled = context.compile(marginal(circuit, [0, 2]))
    drawn = sample(compiled, 20_000, seed=2).numpy()[:, [0, 2]]
    deviations = drawn.std(0) / np.sqrt(20_000)
    assert (np.abs(drawn.mean(0) - mean[[0, 2]]) < 5 * deviations).all()
    if kind is DiagonalGaussianLayer:
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.05
    else:
        parameter = context.compile(circuit)
        one = sample(parameter, 20_000, seed=3).numpy()[:, [0, 2]]
        assert np.allclose(np.cov(one.T), np.cov(drawn.T), rtol=0.1, atol=0.05 * np.cov(one.T).max())
    assert spread.shape[-1] == 3


# Z: its gradient, its constants, its files.


@pytest.mark.parametrize("semiring", ["lse-sum", "signed-lse-sum", "sum-product"])
def test_the_gradient_of_z_by_tensors_that_its_operands_share(semiring: str) -> None:
    circuit = density(table if semiring != "lse-sum" else categorical)
    context = PipelineContext(semiring=semiring, dtype="float64")
    z: Any = context.compile(integrate(power(circuit, 2)))
    found = z() if semiring == "sum-product" else z().real.exp()
    leaves = dict(z.named_parameters())
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()))
    compiled = context.compile(circuit)

    def total() -> float:
        return float((Oracle(circuit, numbers(compiled)).linear(X) ** 2).sum())

    assert found.item() == pytest.approx(total(), rel=1e-9)
    step, generator = 1e-5, np.random.default_rng(1)
    for parameter, gradient in zip(leaves.values(), gradients, strict=True):
        direction = torch.from_numpy(generator.normal(size=parameter.shape))
        with torch.no_grad():
            parameter.add_(step * direction)
            above = total()
            parameter.sub_(2 * step * direction)
            below = total()
            parameter.add_(step * direction)
        slope = (above - below) / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_z_in_eval_mode_follows_an_optimizer_step_of_its_operand() -> None:
    circuit = density()
    context = PipelineContext(semiring="lse-sum", dtype="float64")
    square, z, quotient = (
        context.compile(one).eval()
        for one in (power(circuit, 2), integrate(power(circuit, 2)), normalize(power(circuit, 2)))
    )
    compiled = context.compile(circuit)
    x = torch.from_numpy(X)
    optimizer = torch.optim.Adam(compiled.parameters(), lr=0.3)
    before = None
    for _ in range(3):
        squares = Oracle(circuit, numbers(compiled)).linear(X) ** 2
        with torch.no_grad():
            for _ in range(2):
                close(z().exp().numpy()[None], squares.sum(0, keepdims=True))
                close(square(x).exp().numpy(), squares)
                close(quotient(x).exp().numpy(), squares / squares.sum())
            assert before is None or abs(z().item() - before) > 1e-3
            before = z().item()
        optimizer.zero_grad()
        (-compiled(x[:4]).sum()).backward()
        optimizer.step()


def test_files_and_native_code_of_products_and_of_z(tmp_path: Path) -> None:
    circuit = sums((0, 1), 2, 1, leaf=categorical)
    context = PipelineContext(semiring="lse-sum", dtype="float64")
    described = {
        "square": power(circuit, 2),
        "integral": integrate(power(circuit, 2)),
        "quotient": normalize(power(circuit, 2)),
    }
    models = {name: context.compile(one).eval() for name, one in described.items()}
    states = X[X[:, 2] == 0, :2]
    squares = Oracle(circuit, numbers(context.compile(circuit))).linear(states)[:, 0, 0].astype(float) ** 2
    module = native_file(tmp_path / "models.plicab", models, ["log-likelihood"])
    expected = {"square": squares, "integral": squares.sum()[None], "quotient": squares / squares.sum()}
    for name, model in models.items():
        plica.save(model, tmp_path / f"{name}.plica")
        loaded: Any = plica.load(tmp_path / f"{name}.plica").eval()
        rows = [states] if model.scope else []
        found = [
            model(*map(torch.from_numpy, rows)).detach().numpy(),
            loaded(*map(torch.from_numpy, rows)).detach().numpy(),
            module[f"{name}_log_likelihood"](*[one.astype(np.int64) for one in rows]),
        ]
        for logs in found:
            np.testing.assert_allclose(np.exp(np.asarray(logs).ravel()), expected[name], rtol=1e-9)


# Found here.


def test_a_traced_function_calls_a_circuit_with_a_tensor_of_its_own_anew() -> None:
    """The result was a constant of the trace: later data and later parameters were ignored."""
    circuit = density()
    compiled = PipelineContext(semiring="lse-sum", dtype="float64").compile(circuit)
    rows = torch.from_numpy(X[:4].copy())
    traced = plica.jit(lambda weight: weight * compiled(rows).sum())
    weight = torch.tensor(2.0, dtype=torch.float64)
    for change in (lambda: None, lambda: rows.fill_(2), lambda: [one.data.mul_(1.5) for one in compiled.parameters()]):
        change()
        expected = 2 * Oracle(circuit, numbers(compiled)).log(rows.numpy()).sum()
        assert traced(weight).item() == pytest.approx(float(expected), rel=1e-9)
        gradients = [
            torch.autograd.grad(result, list(compiled.parameters()))
            for result in (traced(weight), weight * compiled(rows).sum())
        ]
        for found, eager in zip(*gradients, strict=True):
            torch.testing.assert_close(found, eager)


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
def test_a_clamped_probability_of_zero_has_its_derivative_in_a_quotient(semiring: str) -> None:
    """The derivative of the integral was lost, so that only that of the numerator was left.

    At 0 the clamp has the derivative 0.5, as a sum of the two sides; the numbers above it have 1.
    """
    start = np.array([[0.0, 0.4, 0.6], [0.2, 0.3, 0.5]])
    probs = Parameter.from_unary(ClampParameter((2, STATES), vmin=0.0), tensor(start))
    layer = CategoricalLayer([0], 2, num_categories=STATES, probs=probs)
    total = SumLayer(2, 1, weight=ConstantParameter(1, 2, value=[[0.25, 0.75]]))
    circuit = built({total: [layer]}, total)
    compiled: Any = PipelineContext(semiring=semiring, dtype="float64").compile(normalize(power(circuit, 2)))
    for state in range(STATES):
        found = compiled(torch.tensor([[state]]))
        found = found.exp() if semiring == "lse-sum" else found
        (gradient,) = torch.autograd.grad(found.sum(), list(compiled.parameters()))
        masses = np.array([0.25, 0.75]) @ start
        inner = (np.arange(STATES) == state) * 2 * masses[state] / (masses**2).sum()
        inner = inner - 2 * masses * masses[state] ** 2 / (masses**2).sum() ** 2
        expected = np.outer([0.25, 0.75], inner) * np.where(start == 0, 0.5, 1.0)
        np.testing.assert_allclose(gradient.reshape(2, STATES), expected, rtol=1e-9, atol=1e-12)
