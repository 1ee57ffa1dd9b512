"""Products of circuits, and their integrals, compiled: the values that the oracle has."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.queries import log_likelihood
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.functional import condition, integrate, multiply, normalize
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    EmbeddingLayer,
    GaussianLayer,
    HadamardLayer,
    LaplaceLayer,
    Layer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import Parameter, TensorParameter
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
