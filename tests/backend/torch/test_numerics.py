"""Numbers at the edge: underflow, zeros, infinite and huge logarithms; and the kernels against plain formulas."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch import kernels
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import LogSoftmaxParameter, Parameter, SoftmaxParameter
from tests.harness.circuits import bag, chain, constant, data, pixels, product_then_sum, tensor
from tests.harness.devices import forbid_branches
from tests.harness.oracle import Oracle, finite_differences, gradients, numbers
from tests.harness.pairwise import flagged
from tests.harness.together import grouped

pytestmark = pytest.mark.usefixtures("may_branch")

INF = torch.inf
FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@flagged(sum_product=["cp", "tucker"], dtype=[torch.float32, torch.float64], may_branch=[True, False])
@pytest.mark.parametrize("side", [14, pytest.param(28, marks=pytest.mark.full)])
def test_many_variables_where_the_probability_underflows(
    side: int, sum_product: str, dtype: torch.dtype, may_branch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_branch:
        forbid_branches(monkeypatch)
    circuit = pixels(side, layer=sum_product, values=256)
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    x = data(circuit, 3)
    expected = Oracle(circuit, numbers(compiled)).log(x).astype(float)
    assert (np.exp(expected) == 0).all()
    found = compiled(torch.from_numpy(x))
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)
    found.sum().backward()
    through = gradients(compiled)
    assert all(np.isfinite(value).all() for value in through.values())
    # each row adds 1 to one logit and takes a distribution away, so that a unit that is never chosen alone has sum 0
    np.testing.assert_allclose(sum(value.sum() for key, value in through.items() if "logits" in key), 0, atol=1e-3)
    assert max(np.abs(value).max() for value in through.values()) > 0.1


def probs(rows: list[list[float]], variable: int = 0) -> CategoricalLayer:
    return CategoricalLayer([variable], len(rows), num_categories=len(rows[0]), probs=tensor(rows))


def logits(rows: list[list[float]], variable: int = 0) -> CategoricalLayer:
    start = tensor(rows)
    table = Parameter.from_unary(LogSoftmaxParameter(start.shape), start)
    return CategoricalLayer([variable], len(rows), num_categories=len(rows[0]), logits=table)


def summed(*inputs: CategoricalLayer, weight: list[list[float]]) -> Circuit:
    layer = SumLayer(inputs[0].num_output_units, len(weight), len(inputs), weight=tensor(weight))
    return bag(layer, *inputs)


HALF = [[0.5, 0.5]]
# Circuits with zeros, and a row of data: zero for the first kind, more than zero for the second.
ZEROS = {
    "a probability": (lambda: chain(probs([[0.0, 1.0]])), [[0]]),
    "a product": (lambda: product_then_sum(HadamardLayer(2, 2), [probs([[0, 1.0]] * 2), probs(HALF * 2, 1)]), [[0, 1]]),
    "kronecker": (
        lambda: product_then_sum(KroneckerLayer(2, 2), [probs([[0, 1.0]] * 2), probs(HALF * 2, 1)]),
        [[0, 1]],
    ),
    "all inputs": (lambda: summed(probs([[0.0, 1], [0, 1]]), probs([[0.0, 1], [0, 1]]), weight=[[0.25] * 4]), [[0]]),
    "a logit": (lambda: chain(logits([[-INF, 1.0]])), [[0]]),
    "all weights": (lambda: summed(probs(HALF * 2), weight=[[0.0, 0.0]]), [[0]]),
    "the matching weights": (lambda: summed(probs([[1.0, 0], [0, 1]]), weight=[[0.0, 1.0]]), [[0]]),
}
PARTLY = {
    "one probability": (lambda: summed(probs([[0.0, 1], [0.5, 0.5]]), weight=HALF), [[0]]),
    "one input": (lambda: summed(probs([[0.0, 1], [0.0, 1]]), probs(HALF * 2), weight=[[0.25] * 4]), [[0]]),
    "one weight": (lambda: summed(probs(HALF * 2), weight=[[0.0, 1.0]]), [[0]]),
    "one logit": (lambda: summed(logits([[-INF, 1.0], [0.0, 0.0]]), weight=HALF), [[0]]),
    "one unit of a layer": (
        lambda: chain(
            probs([[0.0, 1], [0.5, 0.5]]), SumLayer(2, 2, weight=tensor([[1.0, 0], [0.5, 0.5]])), SumLayer(2, 1)
        ),
        [[0]],
    ),
}


@grouped("name", ZEROS)
@FLOATS
def test_zeros_are_minus_infinity_with_gradient_zero(name: str, dtype: torch.dtype) -> None:
    build, row = ZEROS[name]
    compiled = TorchCompiler(dtype=dtype).compile(build())
    result = compiled(torch.tensor(row))
    assert (result == -INF).all()
    result.sum().backward()
    for key, value in gradients(compiled).items():
        assert np.isfinite(value).all(), key
        assert "logits" in key or not value.any(), key  # a logit of the zero itself may move the others


@pytest.mark.parametrize("name", PARTLY)
@pytest.mark.parametrize("grad", [True, False])
def test_zeros_beside_others(name: str, grad: bool) -> None:
    build, row = PARTLY[name]
    circuit = build()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    values = numbers(compiled)
    with torch.set_grad_enabled(grad):
        result = compiled(torch.tensor(row))
    np.testing.assert_allclose(result.detach(), Oracle(circuit, values).log(np.array(row)).astype(float), rtol=1e-12)
    if not grad:
        return
    result.sum().backward()
    found = gradients(compiled)

    def objective(shifted):
        return np.log(Oracle(circuit, shifted).linear(np.array(row))).sum()

    finite = {key: value for key, value in values.items() if np.isfinite(value).all()}
    expected = finite_differences(lambda some: objective({**values, **some}), finite)
    for key, value in found.items():
        assert np.isfinite(value).all(), key
        if key in expected:  # exact where the value is not zero; 0 is the convention through a zero
            away = values[key] != 0
            np.testing.assert_allclose(value[away], expected[key][away], rtol=1e-7, atol=1e-9, err_msg=key)


def test_zeros_do_not_disturb_other_rows() -> None:
    compiled = TorchCompiler(dtype="float64").compile(summed(probs([[0.0, 1.0], [0.0, 1.0]]), weight=HALF))
    alone = compiled(torch.tensor([[1]]))
    alone.sum().backward()
    expected = gradients(compiled)
    compiled.zero_grad()
    both = compiled(torch.tensor([[1], [0]]))
    torch.testing.assert_close(both[:1], alone)
    both[:1].sum().backward()
    assert all(np.allclose(value, expected[key]) for key, value in gradients(compiled).items())


@pytest.mark.parametrize("size", [1e4, -1e4, 1e30, -1e30])
@FLOATS
def test_extreme_logits_stay_finite(size: float, dtype: torch.dtype) -> None:
    circuit = chain(logits([[size, 0.0, 0.0], [size, size, -size], [0.0, 0.0, 0.0]]), SumLayer(3, 1))
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    x = np.array([[0], [1], [2]])
    result = compiled(torch.from_numpy(x))
    result.sum().backward()
    assert result.isfinite().all()
    assert all(np.isfinite(value).all() for value in gradients(compiled).values())
    expected = Oracle(circuit, numbers(compiled)).log(x).astype(float)
    np.testing.assert_allclose(result.detach(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("size", [1e4, -1e4, 1e30])
def test_extreme_weights_have_finite_gradients(size: float) -> None:
    """A softmax below the smallest number of the dtype is 0, but its logarithm is an ordinary number."""
    weight = Parameter.from_unary(SoftmaxParameter((1, 2)), tensor([[size, 0.0]]))
    compiled = TorchCompiler().compile(chain(probs([[0.0, 1.0], [1.0, 0.0]]), SumLayer(2, 1, weight=weight)))
    result = compiled(torch.tensor([[0], [1]]))
    assert sorted(result.flatten().tolist()) == pytest.approx([-abs(size), 0.0])
    result.sum().backward()
    assert all(np.isfinite(value).all() for value in gradients(compiled).values())


def test_huge_logits_of_single_units() -> None:
    compiled = TorchCompiler().compile(chain(logits([[1e30, -1e30], [-1e4, 1e4]])))
    result = compiled(torch.tensor([[0], [1]]))
    np.testing.assert_allclose(result.detach()[:, 0], [[0, -2e4], [-2e30, 0]], rtol=1e-6)


@pytest.mark.one_in(2)
def test_linear_space_underflows_where_log_space_does_not() -> None:
    circuit = fair_dice(784)
    x = torch.zeros(1, 784, dtype=torch.int64)
    log_space = TorchCompiler("lse-sum").compile(circuit)
    linear = TorchCompiler("sum-product").compile(circuit)
    assert linear(x).item() == 0
    assert log_space(x).item() == pytest.approx(784 * np.log(0.25), rel=1e-6)


def fair_dice(number: int) -> Circuit:
    inputs = [CategoricalLayer([v], 1, num_categories=4, probs=constant([[0.25] * 4])) for v in range(number)]
    return bag(HadamardLayer(1, number), *inputs)


# The kernels: random inputs, inputs with -inf, and rows of nothing but -inf.


def inputs_with_infinities(seed: int, rows: int = 4, units: int = 5) -> torch.Tensor:
    torch.manual_seed(seed)
    x = torch.randn(2, rows, units, dtype=torch.float64) * 5
    x[torch.rand(x.shape) < 0.3] = -INF
    x[0, 0] = -INF
    return x


def plain_log_matmul_exp(*arrays: torch.Tensor) -> np.ndarray:
    *xs, weight = (array.detach().numpy().astype(np.longdouble) for array in arrays)
    with np.errstate(divide="ignore"):
        terms = np.concatenate(xs, axis=-1)[..., :, None, :] + np.log(weight)[..., None, :, :]
    return np.logaddexp.reduce(terms, axis=-1).astype(float)


WEIGHTS = torch.tensor([[[0.2, 0.3, 0.5, 0.0, 0.1], [0.0, 1.0, 0.0, 0.0, 0.0], [0.0] * 5]] * 2, dtype=torch.float64)
# (kernel, inputs, plain formula)
KERNELS = {
    "log_matmul_exp": (
        kernels.log_matmul_exp,
        lambda: (inputs_with_infinities(0), WEIGHTS),
        plain_log_matmul_exp,
    ),
    "log_matmul_exp of 2": (
        kernels.log_matmul_exp,
        lambda: (inputs_with_infinities(1), inputs_with_infinities(2), torch.cat([WEIGHTS, WEIGHTS + 1], dim=-1)),
        plain_log_matmul_exp,
    ),
    "logaddexp": (
        kernels.logaddexp,
        lambda: tuple(inputs_with_infinities(seed) for seed in range(3)),
        lambda *xs: np.logaddexp.reduce([x.detach().numpy() for x in xs], axis=0),
    ),
    "logsumexp": (
        lambda x: kernels.logsumexp(x, (2,), False),
        lambda: (inputs_with_infinities(3),),
        lambda x: np.logaddexp.reduce(x.detach().numpy(), axis=2),
    ),
    "logsumexp of two axes": (
        lambda x: kernels.logsumexp(x, (0, 2), True),
        lambda: (inputs_with_infinities(4),),
        lambda x: np.logaddexp.reduce(np.logaddexp.reduce(x.detach().numpy(), axis=2, keepdims=True), 0, keepdims=True),
    ),
}
NAMES = pytest.mark.parametrize("name", KERNELS)
KERNEL_BOUND = {torch.float32: 2e-6, torch.float64: 4e-15}  # relative to 1 + the largest input: 16 roundings


@NAMES
@FLOATS
def test_kernels_are_the_plain_formulas(name: str, dtype: torch.dtype) -> None:
    kernel, make, plain = KERNELS[name]
    arrays = tuple(array.to(dtype) for array in make())
    expected = plain(*arrays)
    found = kernel(*arrays)
    assert found.dtype == dtype
    assert np.array_equal(found == -INF, expected == -INF)
    bound = KERNEL_BOUND[dtype] * (1 + max(float(x[x.isfinite()].abs().max()) for x in arrays))
    some = np.isfinite(expected)
    np.testing.assert_allclose(found.numpy()[some], expected[some], rtol=0, atol=bound)


@NAMES
def test_kernels_gradients(name: str) -> None:
    kernel, make, _ = KERNELS[name]
    arrays = tuple((array[:, :2].nan_to_num(neginf=-2.0) + 0.25).requires_grad_() for array in make())  # two rows
    assert torch.autograd.gradcheck(kernel, arrays)
    assert torch.autograd.gradgradcheck(kernel, arrays)


@NAMES
def test_kernels_gradients_through_infinities(name: str) -> None:
    kernel, make, _ = KERNELS[name]
    arrays = tuple(array.requires_grad_() for array in make())
    for array, gradient in zip(arrays, torch.autograd.grad(kernel(*arrays).sum(), arrays), strict=True):
        assert gradient.isfinite().all()
        assert not gradient[array == -INF].any()


def test_log_matmul_exp_loses_no_term() -> None:
    """One shift for a row would lose a term 103 (float32) or 745 (float64) below the largest input; it is restored."""
    for dtype, far in ((torch.float32, 80.0), (torch.float64, 700.0)):
        weight = torch.tensor([[0.0, 1.0]], dtype=dtype)
        for distance in (far, 2 * far, 1000 * far):
            x = torch.tensor([[0.0, -distance]], dtype=dtype)
            assert kernels.log_matmul_exp(x, weight).item() == pytest.approx(-distance, rel=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", ["eager", "compiled", "vmap"])
def test_a_sum_far_below_its_largest_input(way: str) -> None:
    """The largest input has a weight of e^-120, and the other lies at e^-300."""
    weight = Parameter.from_unary(SoftmaxParameter((1, 2)), tensor([[0.0, -120.0]]))
    inputs = CategoricalLayer([0], 2, num_categories=2, logits=tensor([[0.0, -300.0], [0.0, 0.0]]))
    compiled = TorchCompiler(dtype=torch.float32).compile(chain(inputs, SumLayer(2, 1, weight=weight)))
    torch._dynamo.reset()
    ways: dict[str, Any] = {
        "eager": compiled,
        "compiled": torch.compile(compiled, backend="eager", fullgraph=True),
        "vmap": torch.vmap(compiled),
    }
    x = torch.tensor([[1]])
    compiled(x)
    found = ways[way](x[None] if way == "vmap" else x)
    assert found.item() == pytest.approx(np.logaddexp(-300.0, -120.0), rel=1e-6)
    found.sum().backward()
    slopes = gradients(compiled)
    np.testing.assert_allclose(slopes["1.weight"], [[-1.0, 1.0]], atol=1e-6)
