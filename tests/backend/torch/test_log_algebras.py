"""In every semiring of logarithms: zeros send no NaN, and numbers far below what floats hold keep their differences."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, SoftmaxParameter
from plica.symbolic.semirings import SEMIRINGS, SUM_PRODUCT, Semiring
from tests.harness.circuits import tensor
from tests.harness.oracle import Oracle, numbers
from tests.harness.together import grouped

ROWS = pytest.mark.parametrize("row", [row for row in SEMIRINGS.values() if row.logarithmic], ids=lambda row: row.name)
INTEGRATING = [row for row in SEMIRINGS.values() if row.logarithmic and row.algebra.name == "real"]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def logarithm(row: Semiring, found: torch.Tensor) -> torch.Tensor:
    """The real logarithms of positive numbers."""
    return -found if row.algebra.name == "min-plus" else found.real


def zeros(layer: Any) -> Circuit:
    """Two variables of tables with zeros, under a sum of which one weight is 0 and a sum that is 0 as a whole."""
    inputs = [layer(v) for v in range(2)]
    product, total = HadamardLayer(2, 2), SumLayer(2, 2, weight=tensor([[0.25, 0.0], [0.0, 0.0]]))
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


TABLE = [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]
ZEROS: dict[str, Any] = {
    "probs": lambda v: CategoricalLayer([v], 2, num_categories=3, probs=tensor(TABLE)),
    "logits": lambda v: CategoricalLayer([v], 2, num_categories=3, logits=tensor(np.log(np.maximum(TABLE, 1e-300)))),
    "infinite logits": lambda v: CategoricalLayer(
        [v], 2, num_categories=3, logits=tensor([[-math.inf, 0.0, 0.0], [-math.inf, 0.0, -math.inf]])
    ),
    "weight": lambda v: EmbeddingLayer([v], 2, num_states=3, weight=tensor(TABLE)),
}


@pytest.mark.one_in(3)
@ROWS
@DTYPES
@grouped("kind", ZEROS)
@grouped("flag", [True, False])
def test_what_is_impossible_sends_no_nan(row: Semiring, dtype: torch.dtype, kind: str, flag: bool) -> None:
    compiled = TorchCompiler(row, fold=flag, optimize=flag, dtype=dtype).compile(zeros(ZEROS[kind]))
    x = torch.tensor([[0, 0], [0, 1], [1, 1], [2, 1], [2, 2]])
    found = logarithm(row, compiled(x))
    assert not torch.isnan(found).any()
    assert (found[:, 0, 1] == -math.inf).all(), "the weights of the second unit are zero"
    finite = found[torch.isfinite(found)]
    assert len(finite) >= 3
    for loss in (finite.sum(), found.exp().sum(), torch.where(torch.isfinite(found), found, 0.0).sum()):
        compiled.zero_grad()
        loss.backward(retain_graph=True)
        for name, parameter in compiled.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), (name, parameter.grad)


def pixels(num_variables: int, units: int) -> Circuit:
    """Many variables, in most states of which every unit is very unlikely."""
    rng = np.random.default_rng(0)
    inputs = [
        CategoricalLayer([v], units, num_categories=4, logits=tensor(rng.normal(-100.0, 5.0, (units, 4))))
        for v in range(num_variables)
    ]
    product = HadamardLayer(units, num_variables)
    weight = Parameter.from_unary(SoftmaxParameter((1, units)), tensor(rng.normal(size=(1, units))))
    total = SumLayer(units, 1, weight=weight)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


@ROWS
@DTYPES
def test_rows_far_below_what_floats_hold_keep_their_differences(row: Semiring, dtype: torch.dtype) -> None:
    """Probabilities of e^-6000, where a floor would make all of them one number; also of parts of the rows."""
    circuit = pixels(60, 3)
    compiled = TorchCompiler(row, dtype=dtype).compile(circuit)
    x = torch.randint(4, (20, 60), generator=torch.Generator().manual_seed(1))
    oracle = Oracle(circuit, numbers(compiled))
    if row.algebra.name == "real":
        expected = oracle.log(x.numpy())
    else:
        largest = [
            oracle.parameter(layer.params["logits"])[:, x[:, v]].T for v, layer in enumerate(circuit.input_layers)
        ]
        expected = (sum(largest) + np.log(oracle.parameter(circuit.outputs[0].params["weight"]))).max(axis=1)[
            :, None, None
        ]
    found = logarithm(row, compiled(x)).detach().numpy()
    assert (expected < -5000).all()
    np.testing.assert_allclose(found, expected.astype(float), rtol=1e-6 if dtype == torch.float32 else 1e-13)
    assert len(np.unique(found)) == len(x)


@pytest.mark.parametrize("row", INTEGRATING, ids=lambda row: row.name)
@DTYPES
@pytest.mark.parametrize("level", [-2000.0, 0.0, 2000.0])
def test_a_term_is_not_lost_beside_a_larger_number_of_no_weight(
    row: Semiring, dtype: torch.dtype, level: float
) -> None:
    """A mixture that does not use its likeliest component."""
    logits = tensor([[level, level], [level - 500, level - 501]])
    layer, total = (
        CategoricalLayer([0], 2, num_categories=2, logits=logits),
        SumLayer(2, 1, weight=tensor([[0.0, 0.5]])),
    )
    compiled = TorchCompiler(row, dtype=dtype).compile(Circuit([layer, total], {total: [layer]}, [total]))
    found = logarithm(row, compiled(torch.tensor([[0], [1]]))).flatten()
    np.testing.assert_allclose(found.detach(), np.array([level - 500, level - 501]) + math.log(0.5), rtol=1e-6)
    found.sum().backward()
    assert torch.isfinite(next(iter(compiled.parameters())).grad).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("row", INTEGRATING, ids=lambda row: row.name)
@DTYPES
def test_a_large_weight_does_not_bring_back_digits_that_are_lost(row: Semiring, dtype: torch.dtype) -> None:
    """A term that is subnormal beside a larger one of no weight, times a weight that makes it an ordinary number."""
    level, weight = (-100.0, 1e14) if dtype == torch.float32 else (-740.0, 1e30)
    logits = tensor([[0.0, 0.0], [level, level + 1]])
    layer = CategoricalLayer([0], 2, num_categories=2, logits=logits)
    total = SumLayer(2, 1, weight=tensor([[0.0, weight]]))
    compiled = TorchCompiler(row, dtype=dtype).compile(Circuit([layer, total], {total: [layer]}, [total]))
    found = logarithm(row, compiled(torch.tensor([[0], [1]]))).flatten()
    np.testing.assert_allclose(found.detach(), np.array([level, level + 1]) + math.log(weight), rtol=1e-6)


@pytest.mark.parametrize("row", [row for row in INTEGRATING if row.negative], ids=lambda row: row.name)
def test_a_factor_of_zero_has_the_derivative_of_ordinary_numbers(row: Semiring) -> None:
    """f(x) g(y) - 1 where f(x) is 0, and a sum of two numbers that cancel."""
    gradients = []
    for semiring in (row, SUM_PRODUCT):
        tables = [
            EmbeddingLayer([v], 2, num_states=2, weight=tensor(values))
            for v, values in enumerate(([[0.0, 3.0], [1.0, 1.0]], [[-2.0, 0.5], [-1.0, 2.0]]))
        ]
        product, total = HadamardLayer(2, 2), SumLayer(2, 1, weight=tensor([[1.0, -1.0]]))
        circuit = Circuit([*tables, product, total], {product: tables, total: [product]}, [total])
        compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
        found = compiled(torch.tensor([[0, 0], [0, 1], [1, 0]]))
        value = found.exp().real if semiring.logarithmic else found
        torch.testing.assert_close(value.flatten(), torch.tensor([1.0, -2.0, -5.0], dtype=torch.float64))
        value.square().sum().backward()
        gradients.append([one.grad for one in compiled.parameters()])
    for found_one, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found_one, expected)


@pytest.mark.parametrize("row", [row for row in INTEGRATING if row.negative], ids=lambda row: row.name)
def test_narrow_circuits_have_results_of_complex64(row: Semiring) -> None:
    """There are no narrower complex numbers."""
    layer = EmbeddingLayer([0], 2, num_states=2, weight=tensor([[1.0, -2.0], [0.5, 3.0]]))
    total = SumLayer(2, 1, weight=tensor([[1.0, -1.0]]))
    compiled = TorchCompiler(row, dtype="float16").compile(Circuit([layer, total], {total: [layer]}, [total]))
    found = compiled(torch.tensor([[0], [1]]))
    assert found.dtype == torch.complex64
    torch.testing.assert_close(found.exp().real.flatten(), torch.tensor([0.5, -5.0]), rtol=1e-2, atol=1e-2)
    found.real.sum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in compiled.parameters() if one.grad is not None)
