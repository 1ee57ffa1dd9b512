"""Products of circuits, and their integrals, compiled: the values that the oracle has."""

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
    CategoricalLayer,
    EmbeddingLayer,
    GaussianLayer,
    HadamardLayer,
    LaplaceLayer,
    Layer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from tests.harness.comparison import numbers
from tests.harness.operator_circuits import close, pair, rows
from tests.harness.oracle import Oracle


@pytest.mark.parametrize("seed", [seed for seed in range(12) if are_compatible(*pair(seed))][:6])
@pytest.mark.parametrize("semiring", ["sum-product", "complex-lse-sum"])
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
        return Parameter.from_input(TensorParameter(*shape, initializer=UniformInitializer(1e-3, 1e-2)))

    edges: dict[Layer, list[Layer]] = {}
    below: Layer | None = None
    for variable in range(60):
        reads: Layer = EmbeddingLayer([variable], 3, num_states=2, weight_factory=small)
        if below is not None:
            product = HadamardLayer(3)
            edges[product], reads = [reads, below], product
        below = SumLayer(3, 3 if variable < 59 else 1)
        edges[below] = [reads]
    assert below is not None
    inputs = [child for read in edges.values() for child in read if isinstance(child, EmbeddingLayer)]
    circuit = Circuit([*inputs, *edges], edges, [below])
    compiler = TorchCompiler(semiring="lse-sum", dtype="float32")
    compiled, quotient = compiler.compile(circuit), compiler.compile(normalize(circuit))
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (4, 60)))
    total = compiled(torch.full((1, 60), torch.nan))
    assert total < -200, "the integral is 0 in float32"
    torch.testing.assert_close(quotient(x), compiled(x) - total, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("observed", [{0: 0.3}, {1: 2}, {2: 7}, {3: -0.5}, {1: 0, 2: 1}, {0: -1.5, 3: 2.0}])
@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum"])
def test_conditioned_circuits(semiring: str, observed: dict[int, float]) -> None:
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


@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum", "complex-lse-sum"])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (lambda c: power(c, 2), 0.5625),
        (lambda c: integrate(power(c, 2)), -0.625),
        (lambda c: condition(c, {0: 1}), 0.25 / 2.625 - 1.125 * 0.75 / 2.625**2),
    ],
    ids=["square", "integral", "condition"],
)
def test_a_probability_of_zero_has_its_derivative(operator: Any, expected: float, semiring: str) -> None:
    """The circuit is sum_k w_k p_k(x) y_k(z), with p = (0, 0.5) and w = (0.25, 0.75)."""
    probs = TensorParameter(2, initializer=ConstantTensorInitializer(np.array([0.0, 0.5])))
    inputs = [
        BernoulliLayer([0], 2, probs=probs),
        EmbeddingLayer([1], 2, num_states=2, weight=ConstantParameter(2, 2, value=[[1.0, 2.0], [3.0, 4.0]])),
    ]
    product, total = HadamardLayer(2), SumLayer(2, 1, weight=ConstantParameter(1, 2, value=[[0.25, 0.75]]))
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    compiled = TorchCompiler(semiring=semiring, dtype="float64").compile(operator(circuit))
    found: Any = compiled(torch.tensor([[1, 0]])) if compiled.scope else compiled()
    value = found.exp() if compiled.semiring.logarithmic else found
    (gradient,) = torch.autograd.grad(value.real.sum(), list(compiled.parameters()))
    assert gradient.flatten()[0].item() == pytest.approx(expected, rel=1e-9)
