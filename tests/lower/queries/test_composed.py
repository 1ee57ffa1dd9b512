"""Queries that are compositions of operators, against tables of all states and quadrature."""

import copy
import gc
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import plica
from plica.errors import DTypeError, InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.lower.queries.composed import Composition
from plica.lower.queries.query import Composed, Query, ask
from plica.pipeline import PipelineContext
from plica.queries import (
    backdoor,
    cross_entropy,
    entropy,
    expectation,
    kullback_leibler,
    moment,
    mutual_information,
    overlap,
    probability_of,
    renyi,
)
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import condition, conjugate, marginal, multiply, normalize
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BinomialLayer,
    CategoricalLayer,
    EmbeddingLayer,
    GaussianLayer,
    HadamardLayer,
    KroneckerLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.operators import logarithms
from plica.symbolic.parameters import Parameter, TensorParameter, normal
from plica.templates.data_modalities import image_data
from plica.templates.logic import LogicalCircuit
from plica.templates.pgms import hmm
from tests.harness.circuits import chain, constant, tensor
from tests.harness.composed_queries import Asked, entropy_of, split
from tests.harness.enumerated_circuits import EnumeratedCircuit
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.oracle import Oracle, finite_differences, gradients, numbers

Array = Any


def context(semiring: str = "lse-sum", **settings: Any) -> PipelineContext:
    torch.manual_seed(2)
    return PipelineContext(semiring=semiring, dtype="float64", **settings)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(expected), rtol=1e-9, atol=1e-9)


def images(layer: str, inputs: str) -> Circuit:
    return image_data(
        (1, 2, 2),
        "quad-tree-2",
        input_layer=inputs,
        num_input_units=2,
        sum_product_layer=layer,
        num_sum_units=2,
        num_values=3,
    )


def chains(_: str = "") -> Circuit:
    return hmm([2, 0, 1], "categorical", 2, input_layer_kwargs={"num_categories": 3})


PAIRS: dict[str, Callable[[], Circuit]] = {
    "tree, binomial": lambda: images("cp", "binomial"),
    "tucker, categorical": lambda: images("tucker", "categorical"),
    "chain, categorical": chains,
}


@pytest.mark.parametrize("name", PAIRS)
def test_expectations_moments_and_overlaps(name: str) -> None:
    where = context()
    p, q = (Asked.of(where, PAIRS[name]()) for _ in range(2))
    close(overlap(p.compiled, q.compiled), (p.shares * q.shares).sum())
    close(expectation(p.compiled, q.compiled), (p.shares * q.worth).sum())
    x = p.assignments
    close(moment(p.compiled, {0: 2, 2: 1}), (p.shares * x[:, 0] ** 2 * x[:, 2]).sum())
    close(moment(p.compiled, {}), 1.0)


@pytest.mark.parametrize("semiring", ["sum-product", "max-sum"])
def test_algebras_in_which_circuits_are_compiled(semiring: str) -> None:
    """Whatever a context computes in, queries are about probabilities; and squares of signed circuits are some."""
    where = context(semiring)
    p = Asked.of(where, split([0, 1], [2]))
    f = Circuit([layer := EmbeddingLayer([1], 1, num_states=2, weight=constant([[-3.0, 0.5]]))], {}, [layer])
    close(expectation(p.compiled, f), (p.shares * np.where(p.assignments[:, 1] == 0, -3.0, 0.5)).sum())
    close(entropy(p.compiled), entropy_of(p.shares))


def test_expectations_of_functions_of_any_sign() -> None:
    where = context("signed-lse-sum")
    p = Asked.of(where, PAIRS["chain, categorical"]())
    layer = EmbeddingLayer([1], 1, num_states=3, weight_factory=normal)
    f = Asked.of(where, Circuit([layer], {}, [layer]))
    expected = sum(p.shares * f.worth[p.assignments[:, 1].astype(int)])
    close(expectation(p.compiled, f.compiled), expected)
    other = EmbeddingLayer([7], 1, num_states=3, weight=constant([[1.0, 2.0, 3.0]]))
    with pytest.raises(StructuralPropertyError, match=r"the expectation needs a function of .* f also has \{7\}"):
        expectation(p.compiled, Circuit([other], {}, [other]))
    few = EmbeddingLayer([1], 1, num_states=2, weight=constant([[1.0, 2.0]]))
    with pytest.raises(InputError, match="all values of variable 1, 3 states in the distribution, found 2 states"):
        expectation(p.compiled, Circuit([few], {}, [few]))


def test_squares_of_complex_circuits() -> None:
    where = context("complex-lse-sum")
    layers = [EmbeddingLayer([v], 2, num_states=3, weight=unit_of(2, 3, seed=v)) for v in (0, 1)]
    product, top = HadamardLayer(2), SumLayer(2, 1, weight=unit_of(1, 2, seed=3))
    c = Circuit([*layers, product, top], {product: layers, top: [product]}, [top])
    square = multiply(c, conjugate(c))
    p = where.compile(square)
    x = np.stack(list(np.mgrid[:3, :3]), axis=-1).reshape(-1, 2)
    tables = [np.asarray(layer.weight.output.initializer.value) for layer in layers]
    weight = np.asarray(top.weight.output.initializer.value)
    amplitudes = (tables[0][:, x[:, 0]] * tables[1][:, x[:, 1]]).T @ weight[0]
    shares = np.abs(amplitudes) ** 2 / (np.abs(amplitudes) ** 2).sum()
    close(moment(p, {0: 1, 1: 2}), (shares * x[:, 0] * x[:, 1] ** 2).sum())
    close(overlap(p, p), (shares**2).sum())
    layer = EmbeddingLayer([1], 1, num_states=3, weight=constant([[1.0, 2j, -1.0]]))
    found = expectation(p, Circuit([layer], {}, [layer]))
    assert found.dtype == torch.complex128
    np.testing.assert_allclose(found.item(), (shares * np.array([1.0, 2j, -1.0])[x[:, 1]]).sum(), rtol=1e-9)


def test_imaginary_constants_are_not_zero() -> None:
    states = CategoricalLayer([0], 1, num_categories=2, probs=constant([[0.25, 0.75]]))
    p = context().compile(Circuit([states], {}, [states]))
    terms = [EmbeddingLayer([0], 1, num_states=2, weight=constant([row])) for row in ([1j, 2j], [1.0, 3.0])]
    top = SumLayer(1, 1, 2, weight=constant([[1.0, 1.0]]))
    mean = expectation(p, Circuit([*terms, top], {top: terms}, [top]))
    np.testing.assert_allclose(mean.item(), 0.25 * (1 + 1j) + 0.75 * (3 + 2j), rtol=1e-9)


def unit_of(*shape: int, seed: int) -> TensorParameter:
    """A complex tensor."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return TensorParameter(*shape, initializer=ConstantTensorInitializer(numbers), dtype=DataType.COMPLEX)


SPLITS: dict[str, tuple[Callable[[], Circuit], Callable[[], Circuit]]] = {
    "one order": (lambda: split([0, 1], [2]), lambda: split([0, 1], [2])),
    "factorized": (lambda: split([0, 1], [2]), lambda: split([], [0, 1, 2])),
    "three states": (lambda: split([1], [0, 2], 3), lambda: split([1], [0, 2], 3)),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name == "one order")) for name in SPLITS]
)
def test_entropies_and_divergences(name: str) -> None:
    where = context()
    p, q = (Asked.of(where, build()) for build in SPLITS[name])
    ratio = np.log(p.shares / q.shares)
    close(entropy(p.compiled), entropy_of(p.shares))
    close(cross_entropy(p.compiled, q.compiled), -(p.shares * np.log(q.shares)).sum())
    close(kullback_leibler(p.compiled, q.compiled), (p.shares * ratio).sum())
    close(renyi(p.compiled, q.compiled, 3), np.log((p.shares * np.exp(2 * ratio)).sum()) / 2)
    assert abs(kullback_leibler(p.compiled, p.compiled).item()) < 1e-12


def test_mixtures_are_compared_with_deterministic_circuits() -> None:
    """The first circuit of a cross entropy, and of a Renyi divergence, may be any."""
    where = context()
    p = Asked.of(where, chains())
    q = Asked.of(where, split([], [0, 1, 2], 3))
    close(cross_entropy(p.compiled, q.compiled), -(p.shares * np.log(q.shares)).sum())
    close(renyi(p.compiled, q.compiled, 2), np.log((p.shares**2 / q.shares).sum()))
    with pytest.raises(StructuralPropertyError, match=r"the entropy needs the circuit to be deterministic, .*SumLayer"):
        entropy(p.compiled)
    with pytest.raises(StructuralPropertyError, match=r"needs the second circuit to be deterministic, .*SumLayer\("):
        cross_entropy(q.compiled, p.compiled)
    with pytest.raises(StructuralPropertyError, match=r"needs the first circuit to be deterministic, .*SumLayer\("):
        kullback_leibler(p.compiled, q.compiled)


def masked(rows: Any) -> Circuit:
    """A table of one variable."""
    layer = CategoricalLayer([0], 1, num_categories=len(rows), probs=tensor([rows]))
    return Circuit([layer], {}, [layer])


def test_probability_outside_of_the_support() -> None:
    where = context()
    p, q, narrow = (where.compile(masked(rows)) for rows in ([1.0, 2.0, 0.0], [3.0, 1.0, 1.0], [1.0, 0.0, 3.0]))
    first, second = np.array([1, 2]) / 3, np.array([3, 1]) / 5
    close(kullback_leibler(p, q), (first * np.log(first / second)).sum())
    close(entropy(p), entropy_of(first))
    for query in (cross_entropy(p, narrow), kullback_leibler(p, narrow), renyi(p, narrow, 2)):
        assert query == math.inf
    for query in (kullback_leibler(p, q), entropy(p)):
        query.backward()
    grad = next(iter(p.parameters())).grad
    assert grad is not None
    assert torch.isfinite(grad).all()


def test_products_of_many_kinds() -> None:
    """Kronecker products, mixing layers and sums of one term, in logarithms and their means."""
    where = context()
    eye = constant(np.eye(2))
    x, y = CategoricalLayer([0], 2, num_categories=2, probs=eye), CategoricalLayer([1], 2, num_categories=2, probs=eye)
    z = CategoricalLayer([2], 4, num_categories=3, probs_factory=exp_normal)
    pairs, both, top = KroneckerLayer(2), HadamardLayer(4), SumLayer(4, 1, weight_factory=exp_normal)

    def build() -> Circuit:
        return Circuit([x, y, z, pairs, both, top], {pairs: [x, y], both: [pairs, z], top: [both]}, [top])

    p = Asked.of(where, build())
    q = Asked.of(where, normalize(split_over_two()))
    close(entropy(p.compiled), entropy_of(p.shares))
    close(entropy(q.compiled), entropy_of(q.shares))
    close(kullback_leibler(p.compiled, q.compiled), (p.shares * np.log(p.shares / q.shares)).sum())


def split_over_two() -> Circuit:
    """A circuit of the variables 0, 1 and 2, of 2, 2 and 3 states."""
    w = CategoricalLayer([2], 1, num_categories=3, probs_factory=exp_normal)
    rest = split([0, 1], [])
    product = HadamardLayer(1)
    edges: dict[Any, Any] = {
        **{layer: rest.layer_inputs(layer) for layer in rest.inner_layers},
        product: (rest.outputs[0], w),
    }
    return Circuit([*rest.layers, w, product], edges, [product])


def test_many_factors() -> None:
    """Products are taken apart in pairs: linear in the number of variables, far below what floats hold."""
    where = context()
    p, q = (where.compile(split([], range(40))) for _ in range(2))
    tables = [np.stack([value[:, 0] if value.ndim == 3 else value for value in numbers(c).values()]) for c in (p, q)]
    first, second = (np.exp(table.reshape(-1, 2)) for table in tables)
    assert first.shape == (40, 2)
    first, second = (table / table.sum(1, keepdims=True) for table in (first, second))
    close(entropy(p), -(first * np.log(first)).sum())
    close(cross_entropy(p, q), -(first * np.log(second)).sum())


def test_products_that_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logarithms of products of very many factors, here of more than two, are taken in pairs."""
    monkeypatch.setattr(logarithms._Logarithm, "most_factors", 2)
    where = context()
    p, q = (Asked.of(where, split([], range(5))) for _ in range(2))
    close(cross_entropy(p.compiled, q.compiled), -(p.shares * np.log(q.shares)).sum())
    assert cross_entropy(p.compiled, p.compiled).item() == pytest.approx(entropy(p.compiled).item(), rel=1e-12)


def gaussians(mean: float, stddev: float) -> Circuit:
    """A state, which chooses one of two normal densities that are not normalized."""
    x, y = (GaussianLayer([1], 1, mean=tensor([mean + at]), stddev=tensor([stddev]), log_partition=tensor([0.3 * at]))
            for at in (0.0, 2.0))  # fmt: skip
    low, high = (CategoricalLayer([0], 1, num_categories=2, probs=constant([row])) for row in np.eye(2))
    products = [HadamardLayer(1), HadamardLayer(1)]
    top = SumLayer(1, 1, 2, weight=tensor([[0.7, 1.1]]))
    edges: dict[Any, Any] = {products[0]: [low, x], products[1]: [high, y], top: products}
    return Circuit([x, y, low, high, *products, top], edges, [top])


def test_densities_by_quadrature() -> None:
    where = context()
    described = gaussians(0.5, 0.8), gaussians(-1.0, 1.7)
    p, q = map(where.compile, described)
    oracles = [Oracle(circuit, numbers(compiled)) for circuit, compiled in zip(described, (p, q), strict=True)]

    def mean_of(function: Callable[..., Any]) -> float:
        """The integral of a function of a state, a number, and both densities."""
        total = 0.0
        for state in (0, 1):

            def at(x: float, state: int = state) -> float:
                values = [float(one.linear(np.array([[state, x]]))[0, 0, 0]) for one in oracles]
                return float(function(state, x, *values))

            total += integrate.quad(at, -12, 16, limit=200, epsabs=1e-13, epsrel=1e-13)[0]
        return total

    z_p, z_q = mean_of(lambda s, x, a, b: a), mean_of(lambda s, x, a, b: b)  # noqa: ARG005
    close(moment(p, {1: 3, 0: 1}), mean_of(lambda s, x, a, b: s * x**3 * a) / z_p)  # noqa: ARG005
    close(overlap(p, q), mean_of(lambda s, x, a, b: a * b) / z_p / z_q)  # noqa: ARG005
    close(entropy(p), mean_of(lambda s, x, a, b: -a / z_p * np.log(a / z_p)))  # noqa: ARG005
    close(kullback_leibler(p, q), mean_of(lambda s, x, a, b: a / z_p * np.log(a / z_p * z_q / b)))  # noqa: ARG005
    square = PolynomialLayer([1], 1, degree=2, coeff=constant([[1.0, -2.0, -0.5]]))
    f = Circuit([square], {}, [square])
    close(expectation(p, f), mean_of(lambda s, x, a, b: (1 - 2 * x - x * x / 2) * a) / z_p)  # noqa: ARG005
    with pytest.raises(UnsupportedError, match=r"the Renyi divergence .*GaussianLayer.*its power 2 is no density"):
        renyi(p, q, 2)


def test_narrow_densities_far_from_zero() -> None:
    """No difference of squares cancels."""
    where = context()
    layers = [GaussianLayer([0], 1, mean=tensor([mean]), stddev=tensor([1.0])) for mean in (1e7, 1e7 + 1)]
    p, q = (where.compile(Circuit([layer], {}, [layer])) for layer in layers)
    close(kullback_leibler(p, q), 0.5)
    close(entropy(p), stats.norm(0, 1).entropy())


def test_conditions_of_deterministic_circuits() -> None:
    """An observed state leaves one term of a sum, and the others are the constant 0."""
    where = context()
    p = Asked.of(where, split([0, 1], [2]))
    shares = np.array([share for row, share in p.marginal([0, 1, 2]).items() if row[0] == 1])
    close(entropy(where.compile(condition(p.circuit, {0: 1}))), entropy_of(shares / shares.sum()))


def blocks() -> Circuit:
    """Variables 0 and 1, such that the marginals of both are deterministic: which half 1 is in tells 0."""
    top = SumLayer(1, 1, 2, weight_factory=exp_normal)
    edges: dict[Any, Any] = {top: []}
    for state in (0, 1):
        x = CategoricalLayer([0], 1, num_categories=2, probs=constant([np.eye(2)[state]]))
        inner, product = SumLayer(1, 1, 2, weight_factory=exp_normal), HadamardLayer(1)
        rows = np.eye(4)[[2 * state, 2 * state + 1]]
        ys = [CategoricalLayer([1], 1, num_categories=4, probs=constant([row])) for row in rows]
        edges |= {inner: ys, product: [x, inner]}
        edges[top].append(product)
    layers = dict.fromkeys([*(one for inputs in edges.values() for one in inputs), *edges])
    return Circuit(layers, edges, [top])


def test_mutual_information() -> None:
    where = context()
    p = Asked.of(where, blocks())
    close(mutual_information(p.compiled, [0], [1]), entropy_of(p.marginal([0]).values()))
    q = Asked.of(where, split([], [0, 1, 2]))
    assert abs(mutual_information(q.compiled, [0], [1, 2]).item()) < 1e-12
    r = where.compile(split([0, 1], []))
    with pytest.raises(StructuralPropertyError, match=r"needs the marginal of \{1\} to be deterministic, .*SumLayer\("):
        mutual_information(r, [0], [1])
    for first, second, message in (
        ([0], [0], r"\{0\} is in both sets"),
        ([], [0], "first has no variables"),
        ([0], [9], r"\{9\} is not in the scope"),
    ):
        with pytest.raises(InputError, match=message):
            mutual_information(r, first, second)


def adjusted(p: Asked, treatment: int, outcome: int, adjustment: int) -> Array:
    """`sum_z p(z) p(y | t, z)` for all t and y, from the table of shares."""
    shares = np.zeros((2, 2, 2))
    for row, share in zip(p.assignments[:, [treatment, outcome, adjustment]].astype(int), p.shares, strict=True):
        shares[tuple(row)] += share
    conditional = shares / shares.sum(1, keepdims=True)  # (t, y, z)
    return (conditional * shares.sum((0, 1))).sum(2)


def test_backdoor() -> None:
    where = context()
    p = Asked.of(where, split([0, 2], [1, 3]))  # 0 adjusts, 2 is treated, 1 is the outcome, 3 is hidden
    expected = adjusted(p, 2, 1, 0)
    observed = p.marginal([1, 2])
    assert abs(expected[1, 1] - observed[1, 1] / (observed[0, 1] + observed[1, 1])) > 1e-3, "there is confounding"
    close(backdoor(p.compiled, {2: 1}, {1: 0}, [0]), expected[1, 0])
    rows = torch.tensor([0, 1, 1, 0])
    close(backdoor(p.compiled, {2: rows}, {1: 1}, [0]), expected[rows, 1])
    assert backdoor(p.compiled, {2: rows[:0]}, {1: 1}, [0]).shape == (0,)
    with pytest.raises(StructuralPropertyError, match=r"marginal of treatment and adjustment, \{1, 3\}, to be det"):
        backdoor(p.compiled, {1: 1}, {0: 0}, [3])
    for arguments, error, message in (
        (({2: 1}, {2: 1}, [0]), InputError, r"\{2\} is in outcome and in treatment"),
        (({2: 1}, {1: 1}, []), InputError, "adjustment has no variables"),
        (({2: 5}, {1: 1}, [0]), InputError, "variable 2"),
        (({2: math.nan}, {1: 1}, [0]), InputError, "a value is NaN"),
        (({2: 1j}, {1: 1}, [0]), DTypeError, "values of variables are real numbers; found complex"),
        (({2: rows}, {1: rows[:3]}, [0]), ShapeError, r"found shapes \(4,\), \(3,\)"),
        (([2], {1: 1}, [0]), DTypeError, "expected values of variables as treatment"),
    ):
        with pytest.raises(error, match=message):
            backdoor(p.compiled, *arguments)


def test_an_outcome_that_is_not_known() -> None:
    """With z = 1 nobody is treated, so that p(y | t = 1, z = 1) is not known."""
    where = context()
    x, y = (CategoricalLayer([v], 2, num_categories=2, probs=constant(np.eye(2))) for v in (0, 1))
    z = CategoricalLayer([2], 4, num_categories=2, probs_factory=exp_normal)
    pairs, product = KroneckerLayer(2), HadamardLayer(4)
    top = SumLayer(4, 1, weight=constant([[0.25, 0.25, 0.5, 0.0]]))
    circuit = Circuit([x, y, z, pairs, product, top], {pairs: [x, y], product: [pairs, z], top: [product]}, [top])
    p = where.compile(circuit)
    found = backdoor(p, {1: torch.tensor([0, 1])}, {2: 1}, [0])
    assert found.isnan().tolist() == [False, True]


def test_formulas() -> None:
    where = context()
    p = Asked.of(where, split([], [0, 1, 2, 3]))
    clauses = [[1, -2], [2, 4]]
    formula = LogicalCircuit.from_cnf(clauses, num_variables=4)
    x = p.assignments
    models = ((x[:, 0] == 1) | (x[:, 1] == 0)) & ((x[:, 1] == 1) | (x[:, 3] == 1))
    close(probability_of(p.compiled, formula), p.shares[models].sum())
    close(probability_of(p.compiled, LogicalCircuit.from_cnf([])), 1.0)
    with pytest.raises(StructuralPropertyError, match=r"a formula of variables of the circuit, \{0..3\}, found \{4\}"):
        probability_of(p.compiled, LogicalCircuit.from_cnf([[5]]))
    three = where.compile(split([], [0, 1], 3))
    with pytest.raises(InputError, match="needs variables of the states 0 and 1, but variable 0 has"):
        probability_of(three, LogicalCircuit.from_cnf([[1, 2]]))
    with pytest.raises(DTypeError, match="expected a LogicalCircuit"):
        probability_of(p.compiled, "x0 and x1")  # type: ignore[arg-type]


def overlapping() -> LogicalCircuit:
    """x0 or x1, as a disjunction of both."""
    from plica.templates.logic import DisjunctionNode, LiteralNode

    x, y, either = LiteralNode(0), LiteralNode(1), DisjunctionNode()
    return LogicalCircuit([x, y, either], {either: [x, y]}, [either])


def test_formulas_that_count_models_twice_are_refused() -> None:
    p = context().compile(split([], [0, 1]))
    with pytest.raises(StructuralPropertyError, match="needs a formula that is deterministic"):
        probability_of(p, overlapping())


# Random circuits


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 40))])
def test_random_circuits(seed: int) -> None:
    """Shared layers and tensors, weights of 0, Kronecker products; functions of any sign."""
    drawn = EnumeratedCircuit(seed)
    p = context().compile(drawn.circuit)
    joint = drawn.joint(p.state_dict())
    shares, x = joint.worth / joint.worth.sum(), drawn.assignments
    orders = {variable: int(drawn.rng.integers(0, 4)) for variable in drawn.circuit.scope}
    close(moment(p, orders), shares @ np.prod([x[:, v] ** n for v, n in orders.items()], axis=0))
    tables = [drawn.rng.normal(size=count) for count in drawn.num_states]
    layers = [
        EmbeddingLayer([v], 1, num_states=len(row), weight=constant([row.tolist()])) for v, row in enumerate(tables)
    ]
    product = HadamardLayer(1, len(layers))
    f = Circuit([*layers, product], {product: layers}, [product])
    values = np.prod([row[x[:, v].astype(int)] for v, row in enumerate(tables)], axis=0)
    close(expectation(p, f), shares @ values)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))])
def test_random_deterministic_circuits(seed: int) -> None:
    """Weights and tables that are 0 here and there, or learned to be: 0 log 0 is 0, and no gradient is NaN."""
    rng = np.random.default_rng(seed)

    def factory(shape: tuple[int, ...]) -> Parameter:
        numbers = rng.gamma(1.5, size=shape) * (rng.random(shape) < 0.7)
        numbers[..., 0] += 0.5
        return Parameter.from_input(tensor(numbers))

    where = context()
    order = [int(v) for v in rng.permutation(3)]
    p = Asked.of(where, split(order[:2], order[2:], 3, factory=factory))
    q = Asked.of(where, split(order[:1], order[1:], 3))
    kept = p.shares > 0
    ratio = np.log(p.shares[kept] / q.shares[kept])
    found = kullback_leibler(p.compiled, q.compiled)
    close(found, (p.shares[kept] * ratio).sum())
    close(entropy(p.compiled), entropy_of(p.shares))
    (found + entropy(p.compiled)).backward()
    for compiled in (p.compiled, q.compiled):
        assert all(torch.isfinite(parameter.grad).all() for parameter in compiled.parameters())
    if not kept.all():
        assert cross_entropy(q.compiled, p.compiled) == math.inf


# Tensors and modes


GRADIENTS: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], Array]]] = {
    "overlap": (overlap, lambda p, q: (p * q).sum()),
    "entropy": (lambda p, q: entropy(p), lambda p, q: -(p * np.log(p)).sum()),  # noqa: ARG005
    "kullback_leibler": (kullback_leibler, lambda p, q: (p * np.log(p / q)).sum()),
    "renyi": (lambda p, q: renyi(p, q, 2), lambda p, q: np.log((p * p / q).sum())),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    query, expected = GRADIENTS[name]
    where = context()
    p, q = (Asked.of(where, split([0], [1])) for _ in range(2))
    query(p.compiled, q.compiled).backward()
    for asked in (p, q):

        def function(values: Any, asked: Asked = asked) -> Any:
            shares = []
            for one in (p, q):
                given = values if one is asked else numbers(one.compiled)
                worth = Oracle(one.circuit, given).linear(p.assignments)[:, 0, 0]
                shares.append(worth / worth.sum())
            return expected(*shares)

        differences = finite_differences(function, numbers(asked.compiled))
        found = gradients(asked.compiled)
        for key, difference in differences.items():
            np.testing.assert_allclose(found[key], difference, atol=1e-8)


def test_answers_follow_the_tensors_in_both_modes() -> None:
    where = context()
    p, q = (Asked.of(where, split([0], [1])) for _ in range(2))
    before = kullback_leibler(p.compiled, q.compiled).detach()
    p.compiled.eval(), q.compiled.eval()
    with torch.no_grad():
        for _ in range(2):
            close(kullback_leibler(p.compiled, q.compiled), before.numpy())
        for parameter in (*p.compiled.parameters(), *q.compiled.parameters()):
            parameter.mul_(1.3)
        again = [Asked.of(where, one.circuit) for one in (p, q)]
        close(
            kullback_leibler(p.compiled, q.compiled),
            (again[0].shares * np.log(again[0].shares / again[1].shares)).sum(),
        )
    p.compiled.train()
    assert kullback_leibler(p.compiled, q.compiled).requires_grad


def test_a_query_shares_the_tensors_of_its_circuits() -> None:
    where = context()
    p = where.compile(split([0], [1]))
    count, keys = len(list(p.parameters())), list(p.state_dict())
    entropy(p), overlap(p, p)
    assert (len(list(p.parameters())), list(p.state_dict())) == (count, keys)


def test_dtypes() -> None:
    torch.manual_seed(3)
    where = PipelineContext(dtype="float32")
    p, q = (where.compile(split([0], [1])) for _ in range(2))
    found = kullback_leibler(p, q)
    assert found.dtype == torch.float32
    p.double()
    with pytest.raises(UnsupportedError, match=r"need one dtype and one device, found torch.float64 on cpu and"):
        kullback_leibler(p, q)
    q.double()
    np.testing.assert_allclose(kullback_leibler(p, q).item(), found.item(), rtol=1e-5)
    assert kullback_leibler(p, q).dtype == torch.float64


def test_saved_circuits_answer_like_the_ones_that_were_saved(tmp_path: Path) -> None:
    p = context().compile(split([0], [1]))
    expected = entropy(p).item()
    plica.save(p, tmp_path / "p.plica")
    loaded = plica.load(tmp_path / "p.plica")
    assert entropy(loaded).item() == pytest.approx(expected, rel=1e-12)


def test_parameters_of_a_call_are_refused() -> None:
    p = context().compile(split([0], [1]))
    other = p.with_parameters({key: 2 * value for key, value in p.state_dict().items()})
    with pytest.raises(UnsupportedError, match="the entropy: the circuit is a copy"):
        entropy(other)


def test_circuits_of_other_contexts_are_refused() -> None:
    where = context()
    p = where.compile(split([0], [1]))
    other = context().compile(split([0], [1]))
    with pytest.raises(UnsupportedError, match=r"the overlap: .* was compiled in another context"):
        overlap(p, other)
    with pytest.raises(UnsupportedError, match="the entropy: the circuit is a copy"):
        entropy(copy.deepcopy(p))
    with pytest.raises(UnsupportedError, match=r"the overlap: .* has tensors and is not compiled"):
        overlap(p, split([0], [1]))
    with pytest.raises(DTypeError, match="the overlap takes circuits, found"):
        overlap(p, 3)
    with pytest.raises(UnsupportedError, match="takes a compiled circuit, found Circuit"):
        entropy(split([0], [1]))


def test_circuits_that_do_not_fit_are_refused() -> None:
    where = context()
    p, small = where.compile(split([0], [1])), where.compile(split([], [0]))
    with pytest.raises(StructuralPropertyError, match=r"two circuits of the same variables, found \{0, 1\} and \{0\}"):
        kullback_leibler(p, small)
    two = where.compile(chain(CategoricalLayer([0], 3, num_categories=2), SumLayer(3, 2)))
    with pytest.raises(ShapeError, match="the entropy needs circuits of one output of one unit, found 1 of 2"):
        entropy(two)
    nothing = where.compile(masked([0.0, 0.0]))
    with pytest.raises(InputError, match="the entropy: the logarithm of a circuit's total is -inf"):
        entropy(nothing)
    with pytest.raises(InputError, match="renyi: n must be at least 2, found 1"):
        renyi(p, p, 1)
    for orders, error, message in (
        ({5: 1}, InputError, r"of \{5: 1\}: the circuit has the variables \{0, 1\}"),
        ({0: -1}, ShapeError, "the power of variable 0 must be at least 0"),
        ({0: 1.5}, DTypeError, "the power of variable 0 must be an integer"),
        ([0], DTypeError, "orders are powers of variables"),
    ):
        with pytest.raises(error, match=message):
            moment(p, orders)  # type: ignore[arg-type]


def test_layers_without_rules_are_refused_by_name() -> None:
    from plica.symbolic.layers import LaplaceLayer

    layer = LaplaceLayer([0], 1)
    p = context().compile(Circuit([layer], {}, [layer]))
    with pytest.raises(
        UnsupportedError, match=r"the entropy does not support LaplaceLayer\(.*no rule for the powers of its class"
    ):
        entropy(p)
    with pytest.raises(
        UnsupportedError, match=r"multiply: LaplaceLayer.* times PolynomialLayer.*: their product is no layer"
    ):
        moment(p, {0: 1})


def test_a_query_of_ones_own() -> None:
    def purity(p: Any) -> Any:
        """The probability that two draws are equal."""
        return ask(p, "purity")

    def compose(operands: Any, p: Circuit) -> Composition:
        total = operands.total(p)
        return Composition((total, operands.expectation(p, p)), 1, lambda z, square: square / (z * z))

    where = context()
    where.add_query_rule(Query(purity, "the purity", Composed(compose, "`integrate(power(p, 2))`")))
    p = Asked.of(where, chains())
    close(purity(p.compiled), (p.shares**2).sum())
    with pytest.raises(DTypeError, match="the purity: compose must be a function, found 3"):
        Query(purity, "the purity", Composed(3, ""))  # type: ignore[arg-type]


def test_marginals_of_circuits_are_asked_like_others() -> None:
    where = context()
    p = Asked.of(where, split([0, 1], [2]))
    part = where.compile(marginal(p.circuit, [0, 2]))
    found = p.marginal([0])
    close(moment(part, {0: 1}), found[(1.0,)])
    binomial = BinomialLayer([0], 1, total_count=4)
    q = Asked.of(where, Circuit([binomial], {}, [binomial]))
    close(entropy(q.compiled), entropy_of(q.shares))


def test_a_circuit_keeps_its_last_compositions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from plica.backend.torch.queries import composed

    monkeypatch.setattr(composed, "_KEPT", 3)
    layer = CategoricalLayer([0], 1, num_categories=2)
    p = plica.compile(Circuit([layer], {}, [layer]), dtype="float64")
    functions, answers = [], []
    for number in range(6):
        table = EmbeddingLayer([0], 1, num_states=2, weight=constant(np.array([[0.0, float(number)]])))
        described = Circuit([table], {}, [table])
        functions.append(weakref.ref(described))
        answers.append(float(expectation(p, described).detach()))
    np.testing.assert_allclose(answers, np.arange(6.0) * answers[1], rtol=1e-12)
    del described, table
    gc.collect()
    assert [function() is None for function in functions] == [True] * 3 + [False] * 3
