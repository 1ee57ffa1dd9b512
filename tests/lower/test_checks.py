"""Negative weights are refused in log space, wherever they can be known."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import concatenate, evidence, integrate, multiply, rename, simplify, smooth
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    GaussianLayer,
    HadamardLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, MixingWeightParameter, Parameter, ReferenceParameter
from tests.harness.circuits import bag, chain, coin, constant, tensor
from tests.harness.oracle import Oracle, numbers

NEGATIVE = [[1.0, -0.25]]


def weighted(weight) -> Circuit:
    return chain(coin([0], 2), SumLayer(2, 1, weight=weight))


def mixing() -> Circuit:
    weight = Parameter.from_unary(MixingWeightParameter((1, 2)), constant(NEGATIVE))
    return bag(SumLayer(1, 1, 2, weight=weight), coin([0], 1), coin([0], 1))


CASES = {
    "constant": lambda: weighted(constant(NEGATIVE)),
    "number": lambda: weighted(constant(np.full((1, 2), -0.25))),
    "start of a tensor": lambda: weighted(tensor(NEGATIVE)),
    "reference": lambda: weighted(ReferenceParameter(constant(NEGATIVE))),
    "mixing": mixing,
    "probabilities": lambda: chain(CategoricalLayer([0], 1, num_categories=2, probs=constant(NEGATIVE))),
}


@pytest.mark.parametrize("case", CASES)
def test_negative_numbers_have_no_logarithm(case: str) -> None:
    circuit = CASES[case]()
    name = "CategoricalLayer" if case == "probabilities" else "SumLayer"
    message = rf"{name}\(\d.*has the entry -0.25, and lse-sum stores logarithms.*semiring='sum-product'"
    with pytest.raises(UnsupportedError, match=message):
        TorchCompiler("lse-sum").compile(circuit)
    compiled = TorchCompiler("sum-product", dtype="float64").compile(circuit)
    x = np.array([[0], [1]])
    expected = Oracle(circuit, numbers(compiled)).linear(x).astype(float)
    np.testing.assert_allclose(compiled(torch.from_numpy(x)).detach(), expected, rtol=1e-12)


def test_other_parameters_may_be_negative() -> None:
    gaussian = GaussianLayer([0], 1, mean=constant([-2.0]), stddev=constant([1.0]), log_partition=constant([-3.0]))
    compiled = TorchCompiler("lse-sum").compile(chain(gaussian))
    assert compiled(torch.tensor([[-2.0]])).item() == pytest.approx(-3 - np.log(2 * np.pi) / 2)


def test_complex_numbers_need_a_semiring_that_carries_them() -> None:
    leaf = CategoricalLayer([0], 2, num_categories=3)
    total = SumLayer(2, 1, weight=Parameter.from_input(ConstantParameter(1, 2, value=[[1.0 + 2.0j, 0.5]])))
    circuit = Circuit([leaf, total], {total: [leaf]}, [total])
    with pytest.raises(UnsupportedError, match=r"SumLayer\(1.*its weight has complex numbers, which lse-sum"):
        TorchCompiler("lse-sum").compile(circuit)
    compiled = TorchCompiler("sum-product").compile(circuit)
    assert compiled(torch.tensor([[1]])).is_complex()


@pytest.mark.parametrize("leaf", [constant, tensor])
def test_circuits_without_variables_are_looked_at_too(leaf) -> None:
    seen = EvidenceLayer(EmbeddingLayer([0], 1, num_states=2, weight=leaf([[1.0, -3.0]])), observation=0)
    for layer in (seen, ConstantValueLayer(2, value=leaf([0.5, -3.0]))):
        message = rf"{type(layer).__name__}\(0, scope={{}}.*has the entry -3, and lse-sum stores logarithms"
        with pytest.raises(UnsupportedError, match=message):
            TorchCompiler("lse-sum").compile(chain(layer))()
        found = TorchCompiler("signed-lse-sum").compile(chain(layer))()
        assert found.exp().real.flatten()[0].item() == pytest.approx(1.0 if layer is seen else 0.5)


@pytest.mark.parametrize("semiring", ["max-product", "max-sum", "min-plus", "boolean"])
@pytest.mark.parametrize(
    "derived",
    [
        lambda integral: rename(integral, {1: 3}),
        lambda integral: multiply(integral, integral),
        lambda integral: evidence(simplify(integral), {1: 0}),
        lambda integral: concatenate([integral, smooth(integral)]),
    ],
)
def test_what_is_made_of_an_integral_is_refused_where_nothing_is_added(derived: Any, semiring: str) -> None:
    leaves = [coin([0], 2), coin([1], 2)]
    product = HadamardLayer(2)
    circuit = Circuit([*leaves, product], {product: leaves}, [product])
    compiler = TorchCompiler(semiring)
    compiler.compile(circuit)
    with pytest.raises(UnsupportedError, match=r"integrate adds and integrates real numbers over \{0\}"):
        compiler.compile(derived(integrate(circuit, [0])))
    compiler.compile(derived(evidence(circuit, {0: 1})))
