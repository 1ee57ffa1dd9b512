"""Squares and what is made of them: values, likelihoods and gradients by definition, and refusals."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, InputError, ShapeError, StructuralPropertyError
from plica.pipeline import PipelineContext
from plica.queries import conditional_log_likelihood, log_likelihood
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import EmbeddingLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, SoftmaxParameter, TensorParameter, normal
from plica.templates import psd_mixture, squared, sum_of_squares
from plica.templates.data_modalities import image_data
from plica.templates.tensor_factorizations import cp
from tests.harness.squares import SIZES, SQUARES

NAN = float("nan")


def semirings(name: str) -> list[str]:
    """The semirings that carry the numbers of a case."""
    complex_numbers = name in ("complex", "sum")
    return ["complex-lse-sum"] if complex_numbers else ["signed-lse-sum", "sum-product", "complex-lse-sum"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "semiring"),
    [
        pytest.param(name, semiring, marks=() if (number + place) % 3 == 0 else pytest.mark.full)
        for number, name in enumerate(SQUARES)
        for place, semiring in enumerate(semirings(name))
    ],
)
def test_likelihoods_are_those_of_the_definition(name: str, semiring: str) -> None:
    case = SQUARES[name]
    compiled, joint = case.compile(semiring)
    with torch.no_grad():
        found = log_likelihood(compiled, torch.from_numpy(case.states))
    np.testing.assert_allclose(found.exp().numpy(), joint.ravel() / joint.sum(), rtol=1e-9, atol=1e-13)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SQUARES)
def test_what_is_missing_is_summed_out(name: str) -> None:
    case = SQUARES[name]
    compiled, joint = case.compile()
    x = torch.from_numpy(case.states[::5]).double()
    for axes in ((0,), (3,), (1, 2), (0, 1, 3), (0, 1, 2, 3)):
        rows = x.clone()
        rows[:, list(axes)] = NAN
        expected = np.broadcast_to(joint.sum(axes, keepdims=True) / joint.sum(), joint.shape).ravel()[::5]
        with torch.no_grad():
            np.testing.assert_allclose(log_likelihood(compiled, rows).exp().numpy(), expected, rtol=1e-9, atol=1e-13)
    given = torch.tensor([True, False, True, False])
    with torch.no_grad():
        found = conditional_log_likelihood(compiled, x, given).exp().numpy()
    expected = (joint / joint.sum((1, 3), keepdims=True)).ravel()[::5]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_integral_is_the_sum_of_all_squares() -> None:
    case = SQUARES["tree"]
    compiled, joint = case.compile("sum-product")
    assert compiled.integrate()().item() == pytest.approx(joint.sum(), rel=1e-12)


def ring(weights: Any) -> Circuit:
    """`c(x, y)`, a difference of two products, which is exactly 0 at (0, 0)."""
    first = np.array([[1.0, 2.0], [1.0, 1.0]])
    second = np.array([[1.0, 0.1], [1.0, 0.3]])
    arrays = [np.asarray(array, float) for array in (first, second, weights)]
    leaves = [TensorParameter(*array.shape, initializer=ConstantTensorInitializer(array)) for array in arrays]
    inputs = [EmbeddingLayer([v], 2, num_states=2, weight=leaf) for v, leaf in enumerate(leaves[:2])]
    product, total = HadamardLayer(2), SumLayer(2, 1, weight=leaves[2])
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


@pytest.mark.parametrize("semiring", ["signed-lse-sum", "complex-lse-sum", "sum-product"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_exact_zero_is_minus_infinity_and_sends_no_nan(semiring: str, dtype: str) -> None:
    compiled = PipelineContext(semiring=semiring, dtype=dtype).compile(squared(ring([[1.0, -1.0]])))
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    found = log_likelihood(compiled, x)
    values = np.array([0.0, 0.2, 1.0, 0.1]) ** 2
    np.testing.assert_allclose(found.detach().exp().numpy(), values / values.sum(), rtol=1e-5)
    assert found[0] == -torch.inf
    for gradient in torch.autograd.grad(found.sum(), list(compiled.parameters())):
        assert gradient.isfinite().all()
        assert gradient.any()


@pytest.mark.parametrize("name", ["chain", "complex", pytest.param("psd", marks=pytest.mark.full)])
def test_gradients_are_finite_differences(name: str) -> None:
    case = SQUARES[name]
    compiled, _ = case.compile()
    x = torch.from_numpy(case.states[3:30:4]).double()
    x[1, 2] = x[2, 0] = x[2, 1] = NAN
    parameters = list(compiled.parameters())
    torch.manual_seed(1)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    gradients = torch.autograd.grad(log_likelihood(compiled, x).sum(), parameters)
    pairs = zip(gradients, directions, strict=True)
    expected = sum((gradient.conj() * direction).sum().real.item() for gradient, direction in pairs)
    sides = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=step)
            sides.append(log_likelihood(compiled, x).sum().item())
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=step)
    assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(expected, rel=1e-5)


def test_a_square_of_densities_integrates_to_one() -> None:
    inputs = [GaussianLayer([variable], 3) for variable in range(2)]
    product, total = HadamardLayer(3), SumLayer(3, 1, weight_factory=normal)
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    torch.manual_seed(0)
    compiled = PipelineContext(semiring="signed-lse-sum", dtype="float64").compile(squared(circuit))
    side = torch.linspace(-12, 12, 601, dtype=torch.float64)
    with torch.no_grad():
        density = log_likelihood(compiled, torch.cartesian_prod(side, side)).exp()
    assert (density.sum() * 0.04**2).item() == pytest.approx(1.0, abs=1e-9)


# Tensors, operations, sizes


def test_tensors_are_shared_with_the_parts() -> None:
    first, second = cp(SIZES, 2), cp(SIZES, 3)
    context = PipelineContext(semiring="signed-lse-sum")
    form = context.compile(psd_mixture([first, second], rank=2))
    parts = [context.compile(part) for part in (first, second)]
    storage = {tensor.untyped_storage().data_ptr() for tensor in form.parameters()}
    for part in parts:
        assert all(tensor.untyped_storage().data_ptr() in storage for tensor in part.parameters())


def test_squares_know_how_they_were_made() -> None:
    first, second = cp(SIZES, 2), cp(SIZES, 3)
    assert squared(first).operation is not None
    assert squared(first).operation.operands == (first, first)
    complex_square = squared(SQUARES["complex"].parts[0])
    assert complex_square.operation is not None
    assert complex_square.operation.operands[1].operation.operator == "conjugate"
    assert sum_of_squares([first, second]).operation.operator == "mixture"


def test_inputs_that_circuits_share_are_multiplied_once() -> None:
    def layers(rank: int) -> int:
        return sum(isinstance(layer, EmbeddingLayer) for layer in psd_mixture([cp(SIZES, 2)] * 2, rank).layers)

    assert layers(1) == layers(4) == len(SIZES)


def test_a_weight_may_be_a_parameter() -> None:
    first, second = cp(SIZES, 2), cp(SIZES, 2)
    weight = Parameter.from_unary(SoftmaxParameter((1, 2)), normal((1, 2)))
    compiled = plica.compile(sum_of_squares([first, second], weight), semiring="signed-lse-sum")
    gradients = torch.autograd.grad(
        log_likelihood(compiled, torch.zeros(1, 4, dtype=torch.int64)).sum(), list(compiled.parameters())
    )
    assert all(gradient.any() for gradient in gradients)
    assert psd_mixture([first, second], weight_factory=normal).scope == first.scope


# Refusals


def several_units() -> Circuit:
    layer = EmbeddingLayer([0], 2, num_states=2)
    return Circuit([layer], {}, [layer])


@pytest.mark.parametrize("function", [squared, lambda c: sum_of_squares([c]), lambda c: psd_mixture([c])])
def test_circuits_of_one_output_of_one_unit_are_needed(function: Any) -> None:
    with pytest.raises(ShapeError, match=r"expected a circuit with one output of one unit, found 1 output\(s\) of 2"):
        function(several_units())
    with pytest.raises(DTypeError, match=r"expected a circuit of plica.symbolic.circuit, found 3 of type int"):
        function(3)


def test_quad_graphs_have_no_square() -> None:
    graph = image_data(
        (1, 3, 3),
        "quad-graph",
        input_layer="embedding",
        num_values=2,
        num_input_units=2,
        sum_product_layer="cp",
        num_sum_units=2,
    )
    with pytest.raises(StructuralPropertyError, match=r"multiply"):
        squared(graph)


@pytest.mark.parametrize("weights", [[1.0, -0.5], [1.0, 1j], [1.0, NAN]])
def test_weights_of_squares_are_not_negative(weights: list[Any]) -> None:
    with pytest.raises(InputError, match=r"sum_of_squares: expected weights that are real and not negative"):
        sum_of_squares([cp(SIZES, 2), cp(SIZES, 2)], weights)


def test_other_weights_are_refused() -> None:
    circuits = [cp(SIZES, 2), cp(SIZES, 2)]
    with pytest.raises(ShapeError, match=r"mixture: expected 2 weight"):
        sum_of_squares(circuits, [1.0])
    with pytest.raises(ShapeError, match=r"psd_mixture: expected a weight of shape \(R, 2\).*found \(2, 3\)"):
        psd_mixture(circuits, weight=np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"expected a weight of shape \(3, 2\)"):
        psd_mixture(circuits, 3, weight=np.ones((2, 2)))
    with pytest.raises(InputError, match=r"psd_mixture: expected an array of numbers or a parameter"):
        psd_mixture(circuits, weight="A")
    for function in (sum_of_squares, psd_mixture):
        with pytest.raises(InputError, match=r"there are no circuits"):
            function([])
