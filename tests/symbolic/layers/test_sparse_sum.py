"""Sparse sums against sums with the dense weight, in every algebra."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.lower.optimize.sparse import is_sparse, terms_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SparseSumLayer, SumLayer, TensorDotLayer
from plica.symbolic.parameters import ConstantParameter, KroneckerParameter, Parameter, normal, softmax_normal
from plica.symbolic.semirings import SEMIRINGS

Array = Any


def sparse_weight(rng: Any, shape: tuple[int, int], count: int, *, uneven: bool = False) -> Array:
    """Up to `count` numbers in each row; if uneven, some rows have fewer or none."""
    value = np.zeros(shape)
    for row in value:
        here = int(rng.integers(0, count + 1)) if uneven else count
        row[rng.choice(shape[1], here, replace=False)] = rng.uniform(0.5, 2.0, here)
    return value


def over(layer: Any, units: int, arity: int = 1) -> Circuit:
    """A layer over inputs of 3 states, multiplied with another input, and summed."""
    inputs = [CategoricalLayer([0], units, num_categories=3) for _ in range(arity)]
    beside = CategoricalLayer([1], layer.num_output_units, num_categories=3)
    product, total = HadamardLayer(layer.num_output_units), SumLayer(layer.num_output_units, 2)
    edges: dict[Any, Any] = {layer: inputs, product: [layer, beside], total: [product]}
    return Circuit([*inputs, beside, *edges], edges, [total])


CIRCUITS: dict[str, Any] = {
    "permutation": lambda rng: over(
        SumLayer(40, 40, weight=ConstantParameter(40, 40, value=np.eye(40)[rng.permutation(40)])), 40
    ),
    "wide": lambda rng: over(
        SumLayer(400, 5, weight=ConstantParameter(5, 400, value=sparse_weight(rng, (5, 400), 2))), 400
    ),
    "rows of no number": lambda rng: over(
        SumLayer(40, 30, weight=ConstantParameter(30, 40, value=sparse_weight(rng, (30, 40), 1, uneven=True))), 40
    ),
    "two inputs": lambda rng: over(
        SumLayer(200, 20, 2, weight=ConstantParameter(20, 400, value=sparse_weight(rng, (20, 400), 1))), 200, 2
    ),
    "blocks": lambda rng: over(
        TensorDotLayer(2, 40, 3, 30, ConstantParameter(30, 40, value=sparse_weight(rng, (30, 40), 1))), 240
    ),
}


def values(circuit: Circuit, semiring: str, rows: Any, state: Any = None, **flags: Any) -> tuple[Any, Any, Any]:
    """Results, gradients and the compiled circuit, with the tensors of another one."""
    compiled = plica.compile(circuit, semiring=semiring, dtype=torch.float64, **flags)
    if state is not None:
        compiled.load_state_dict(state)
    result = compiled(rows)
    finite = torch.where(torch.isfinite(result.real if result.is_complex() else result), result, 0.0)
    if semiring != "boolean":  # which has no derivatives
        (finite.real if finite.is_complex() else finite).sum().backward()
    return result.detach(), [tensor.grad for tensor in compiled.parameters()], compiled


@pytest.mark.one_in(3)
@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("name", CIRCUITS)
def test_a_sparse_sum_is_the_dense_one(name: str, semiring: str) -> None:
    torch.manual_seed(0)
    circuit = CIRCUITS[name](np.random.default_rng(0))
    rows = torch.tensor([[0, 0], [1, 2], [2, 1], [2, 2]])
    sparse, gradients, compiled = values(circuit, semiring, rows)
    assert any(layer.layer_class is SparseSumLayer for layer in compiled.layers)
    dense, expected, _ = values(circuit, semiring, rows, compiled.state_dict(), optimize=False)
    torch.testing.assert_close(sparse, dense, rtol=1e-9, atol=1e-9)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-9)
    missing = torch.tensor([[float("nan"), 1.0], [float("nan"), float("nan")]], dtype=torch.float64)
    other = plica.compile(circuit, semiring=semiring, dtype=torch.float64, optimize=False)
    other.load_state_dict(compiled.state_dict())
    for module in (compiled.train(), compiled.eval()):
        with torch.no_grad():
            torch.testing.assert_close(module(missing), other(missing), rtol=1e-9, atol=1e-9)
            assert module(rows[:0]).shape == (0, 1, 2)


@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum"])
def test_a_constant_factor_of_a_kronecker_weight_is_sparse(semiring: str) -> None:
    """The states of an automaton beside those of a chain: no matrix of both is built."""
    torch.manual_seed(0)
    step = np.eye(30)[np.random.default_rng(0).integers(0, 30, 30)]
    factors = softmax_normal((4, 4)), ConstantParameter(30, 30, value=step)
    weight = Parameter.from_binary(KroneckerParameter((4, 4), (30, 30)), *factors)
    circuit = over(SumLayer(120, 120, weight=weight), 120)
    rows = torch.tensor([[0, 0], [1, 2]])
    result, gradients, compiled = values(circuit, semiring, rows)
    kinds = [layer.layer_class for layer in compiled.layers]
    assert kinds.count(SparseSumLayer) == kinds.count(TensorDotLayer) == 1
    dense, expected, _ = values(circuit, semiring, rows, compiled.state_dict(), optimize=False)
    torch.testing.assert_close(result, dense, rtol=1e-9, atol=1e-9)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-9)


def test_signed_weights_and_float32() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    value = sparse_weight(rng, (30, 40), 1, uneven=True) * rng.choice([-1.0, 1.0], (30, 40))
    circuit = over(SumLayer(40, 30, weight=ConstantParameter(30, 40, value=value)), 40)
    rows = torch.tensor([[0, 0], [1, 2], [2, 1]])
    exact = plica.compile(circuit, semiring="sum-product", dtype=torch.float64, optimize=False)
    for semiring in ("sum-product", "complex-lse-sum"):
        compiled = plica.compile(circuit, semiring=semiring, dtype=torch.float32)
        compiled.load_state_dict(exact.state_dict())
        assert any(layer.layer_class is SparseSumLayer for layer in compiled.layers)
        result = compiled(rows) if semiring == "sum-product" else compiled(rows).exp().real
        torch.testing.assert_close(result.double(), exact(rows), rtol=1e-4, atol=1e-6)


def test_terms_rebuild_the_weight() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        sums, units, arity = (int(number) for number in rng.integers(1, 5, 3))
        weight = rng.normal(size=(sums, units * arity)) * (rng.random((sums, units * arity)) < rng.random())
        terms, numbers = terms_of(weight, arity)
        rebuilt = np.zeros_like(weight)
        for number, term in enumerate(terms):
            for row, unit in enumerate(term.units):
                if unit >= 0:
                    rebuilt[row, term.input * units + unit] += numbers[row, number]
        np.testing.assert_array_equal(rebuilt, weight)
        assert max(term.input for term in terms) == arity - 1


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (ConstantParameter(2, 2, value=[[1, 0], [0, 0]]), True),
        (ConstantParameter(2, 2, value=[[1, 0], [0, 1]]), False),
        (ConstantParameter(3, 2, value=0.0), False),
        (ConstantParameter(1, 1, value=[[0.0]]), True),
        (normal((4, 4)), False),
    ],
)
def test_more_than_half_of_a_constant_is_zero(weight: Any, expected: bool) -> None:
    assert is_sparse(Parameter.from_input(weight)) is expected
