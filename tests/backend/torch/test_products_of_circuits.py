"""Products of circuits, and their integrals, compiled: the values that the oracle has."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit, are_compatible
from plica.symbolic.functional import integrate, multiply, normalize
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import EmbeddingLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from tests.harness.comparison import numbers
from tests.harness.operator_circuits import RULES, close, pair, rows
from tests.harness.oracle import Oracle


@pytest.mark.parametrize("seed", [seed for seed in range(12) if are_compatible(*pair(seed))][:6])
@pytest.mark.parametrize("semiring", ["sum-product", "complex-lse-sum"])
def test_products_are_compiled(seed: int, semiring: str) -> None:
    product = multiply(*pair(seed), registry=RULES)
    for circuit in (product, integrate(product, list(product.scope)[:1], registry=RULES)):
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
    compiled, quotient = compiler.compile(circuit), compiler.compile(normalize(circuit, registry=RULES))
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (4, 60)))
    total = compiled(torch.full((1, 60), torch.nan))
    assert total < -200, "the integral is 0 in float32"
    torch.testing.assert_close(quotient(x), compiled(x) - total, rtol=1e-5, atol=1e-3)
