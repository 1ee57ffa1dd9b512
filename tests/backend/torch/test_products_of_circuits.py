"""Products of circuits, and their integrals, compiled: the values that the oracle has."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import log_likelihood
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.functional import condition, integrate, multiply, normalize, power
from plica.symbolic.initializers import ConstantTensorInitializer, UniformInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    EmbeddingLayer,
    GaussianLayer,
    GeometricLayer,
    HadamardLayer,
    LaplaceLayer,
    Layer,
    NegativeBinomialLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from tests.harness.comparison import numbers
from tests.harness.operator_circuits import close, pair, rows
from tests.harness.oracle import Oracle
from tests.harness.pairwise import by_turns


@pytest.mark.one_in(3)
@by_turns(
    seed=[seed for seed in range(12) if are_compatible(*pair(seed))][:6], semiring=["sum-product", "complex-lse-sum"]
)
def test_products_are_compiled(seed: int, semiring: str) -> None:
    product = multiply(*pair(seed))
    for circuit in (product, integrate(product, list(product.scope)[:1])):
        compiled = TorchCompiler(semiring=semiring, dtype="float64").compile(circuit)
        x = rows(np.random.default_rng(seed), 6)
        columns = torch.from_numpy(x[:, : max([0, *circuit.scope]) + 1])
        found: Any = compiled(columns) if circuit.scope else compiled().expand(6, -1, -1)
        expected = Oracle(circuit, numbers(compiled)).linear(x)
        close(np.exp(found.detach().numpy()) if semiring == "complex-lse-sum" else found.detach().numpy(), expected)


def test_an_integral_that_underflows_has_its_logarithm() -> None:
    def small(shape: tuple[int, ...]) -> Parameter:
        return Parameter.from_input(TensorParameter(*shape, initializer=UniformInitializer(1e-8, 1e-7)))

    edges: dict[Layer, list[Layer]] = {}
    below: Layer | None = None
    for variable in range(20):
        reads: Layer = EmbeddingLayer([variable], 3, num_states=2, weight_factory=small)
        if below is not None:
            product = HadamardLayer(3)
            edges[product], reads = [reads, below], product
        below = SumLayer(3, 3 if variable < 19 else 1)
        edges[below] = [reads]
    assert below is not None
    inputs = [child for read in edges.values() for child in read if isinstance(child, EmbeddingLayer)]
    circuit = Circuit([*inputs, *edges], edges, [below])
    compiler = TorchCompiler(semiring="lse-sum", dtype="float32")
    compiled, quotient = compiler.compile(circuit), compiler.compile(normalize(circuit))
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (4, 20)))
    total = compiled(torch.full((1, 20), torch.nan))
    assert total < -200, "the integral is 0 in float32"
    torch.testing.assert_close(quotient(x), compiled(x) - total, rtol=1e-5, atol=1e-3)


@by_turns(
    observed=[{0: 0.3}, {1: 2}, {2: 7}, {3: -0.5}, {1: 0, 2: 1}, {0: -1.5, 3: 2.0}], semiring=["sum-product", "lse-sum"]
)
def test_conditioned_circuits(observed: dict[int, float], semiring: str) -> None:
    inputs = [GaussianLayer([0], 3), CategoricalLayer([1], 3, num_categories=4), PoissonLayer([2], 3)]
    product, total = HadamardLayer(3, arity=4), SumLayer(3, 1)
    layers = [*inputs, LaplaceLayer([3], 3)]
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    compiler = TorchCompiler(semiring=semiring, dtype="float64")
    compiled, conditioned = compiler.compile(circuit), compiler.compile(condition(circuit, observed))
    x = torch.tensor([[0.2, 1, 3, -1.5], [1.2, 0, 0, 0.0]], dtype=torch.float64)
    known, alone = x.clone(), torch.full((1, 4), torch.nan, dtype=torch.float64)
    for variable, value in observed.items():
        known[:, variable], alone[:, variable] = value, value
    expected = log_likelihood(compiled, known) - log_likelihood(compiled, alone)
    found = conditioned(x) if semiring == "lse-sum" else conditioned(x).log()
    torch.testing.assert_close(found.flatten(), expected.flatten(), rtol=1e-12, atol=1e-12)


TRIALS: dict[str, Any] = {
    "bernoulli": (lambda probs: BernoulliLayer([0], 2, probs=probs), lambda p, x: p**x * (1 - p) ** (1 - x), 2),
    "five trials": (
        lambda probs: BinomialLayer([0], 2, total_count=5, probs=probs),
        lambda p, x: math.comb(5, x) * p**x * (1 - p) ** (5 - x),
        6,
    ),
    "geometric": (lambda probs: GeometricLayer([0], 2, probs=probs), lambda p, x: p * (1 - p) ** x, None),
    "three successes": (
        lambda probs: NegativeBinomialLayer([0], 2, probs=probs, total_count=ConstantParameter(2, value=3.0)),
        lambda p, x: math.comb(x + 2, 2) * p**3 * (1 - p) ** x,
        None,
    ),
}
TABLE, WEIGHTS, SHARES = [[1.0, 2.0], [3.0, 4.0]], [0.25, 0.75], [0.125, 0.25, 0.5]


@pytest.mark.one_in(4)
@by_turns(
    case=[(name, operator) for name in TRIALS for operator in ("condition", "table")]
    + [(name, operator) for name in ("bernoulli", "five trials") for operator in ("square", "integral", "quotient")],
    semiring=["sum-product", "lse-sum", "complex-lse-sum"],
)
def test_probabilities_of_0_and_1_have_derivatives(case: tuple[str, str], semiring: str) -> None:
    name, operator = case
    build, mass, num_states = TRIALS[name]
    for first in (0.0, 1.0) if num_states or operator == "table" else (1.0,):  # counts need a probability above 0
        shares = torch.tensor([first, 0.5], dtype=torch.float64, requires_grad=True)

        def value(x: int, y: int) -> Any:
            return sum(WEIGHTS[k] * mass(shares[k], x) * TABLE[k][y] for k in range(2))  # noqa: B023

        def total(power: int) -> Any:
            return sum(value(x, y) ** power for x in range(num_states) for y in range(2))

        probs = TensorParameter(2, initializer=ConstantTensorInitializer(np.array([first, 0.5])))
        inputs = [build(probs), EmbeddingLayer([1], 2, num_states=2, weight=ConstantParameter(2, 2, value=TABLE))]
        product, sums = HadamardLayer(2), SumLayer(2, 1, weight=ConstantParameter(1, 2, value=[WEIGHTS]))
        circuit = Circuit([*inputs, product, sums], {product: inputs, sums: [product]}, [sums])
        table = CategoricalLayer([0], 1, num_categories=3, probs=ConstantParameter(1, 3, value=[SHARES]))
        for state in range(min(num_states or 3, 3)):
            made, expected = {
                "square": lambda: (power(circuit, 2), value(state, 1) ** 2),  # noqa: B023
                "integral": lambda: (integrate(power(circuit, 2)), total(2)),  # noqa: B023
                "quotient": lambda: (normalize(power(circuit, 2)), value(state, 1) ** 2 / total(2)),  # noqa: B023
                "condition": lambda: (
                    condition(circuit, {0: state}),  # noqa: B023
                    value(state, 1) / (value(state, 0) + value(state, 1)),  # noqa: B023
                ),
                "table": lambda: (
                    multiply(circuit, Circuit([table], {}, [table])),  # noqa: B023
                    value(state, 1) * SHARES[state],  # noqa: B023
                ),
            }[operator]()
            compiled = TorchCompiler(semiring=semiring, dtype="float64").compile(made)
            found: Any = compiled(torch.tensor([[state, 1]])) if compiled.scope else compiled()
            number = (found.exp() if compiled.semiring.logarithmic else found).real.sum()
            torch.testing.assert_close(number, expected.detach(), rtol=1e-9, atol=1e-12)
            (gradient,) = torch.autograd.grad(number, list(compiled.parameters()))
            (slope,) = torch.autograd.grad(expected, [shares])
            torch.testing.assert_close(gradient.flatten(), slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("semiring", ["lse-sum", "complex-lse-sum"])
def test_masses_of_many_trials_with_a_given_probability_do_not_underflow(semiring: str) -> None:
    """In float32, 0.01 to the power of 200 is 0, and the logarithm of the mass is -921."""
    layer = BinomialLayer([0], 1, total_count=200, probs=ConstantParameter(1, value=0.01))
    circuit = Circuit([layer], {}, [layer])
    expected = np.array([[200 * math.log(0.01)], [200 * math.log(0.99)]])
    compiled: Any = TorchCompiler(semiring=semiring, dtype="float32").compile(power(circuit, 2))
    found = compiled(torch.tensor([[200], [0]])).real[:, 0]
    np.testing.assert_allclose(found, 2 * expected, rtol=1e-5)
    learned = TensorParameter(1, initializer=ConstantTensorInitializer(np.array([0.01])))
    layer = BinomialLayer([0], 1, total_count=200, probs=learned)
    circuit = Circuit([layer], {}, [layer])
    compiled = TorchCompiler(semiring=semiring, dtype="float32").compile(power(circuit, 2))
    logs = compiled(torch.tensor([[200], [0]])).real[:, 0]
    np.testing.assert_allclose(logs.detach(), 2 * expected, rtol=1e-5)
    (slope,) = torch.autograd.grad(logs[0].sum(), list(compiled.parameters()))
    assert slope.item() == pytest.approx(400 / 0.01, rel=1e-5)
