"""Signed and complex circuits on scaled numbers: every row is right, whichever way it was computed."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.scoring import Batch
from plica.lower import cascade
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import conjugate, integrate, multiply
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, HadamardLayer, KroneckerLayer, Layer, SumLayer
from plica.symbolic.parameters import ClampParameter, Parameter, TensorParameter
from plica.symbolic.semirings import Bound, Semiring
from tests.harness.pairwise import flagged

SEMIRINGS = ["signed-lse-sum", "complex-lse-sum"]
DTYPES = [torch.float32, torch.float64]
ROUNDING = {torch.float32: 3e-5, torch.float64: 1e-11}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled numbers for data of any size."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)


class Draw:
    """Draws the numbers of a circuit: of any sign or complex, some of them tiny or zero."""

    def __init__(self, seed: int, *, is_complex: bool, tiny: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.is_complex = is_complex
        self.tiny = tiny

    def __call__(self, shape: tuple[int, ...]) -> Parameter:
        numbers = self.rng.normal(size=shape)
        if self.is_complex:
            numbers = numbers + 1j * self.rng.normal(size=shape)
        if self.tiny < 1:
            numbers = numbers * np.where(self.rng.random(shape) < 0.3, self.tiny, 1.0)
            numbers = numbers * (self.rng.random(shape) > 0.1)
        dtype = DataType.COMPLEX if self.is_complex else DataType.REAL
        leaf = TensorParameter(*shape, initializer=ConstantTensorInitializer(numbers), dtype=dtype)
        return Parameter.from_input(leaf)


def circuit(draw: Draw, variables: int = 12, units: int = 3) -> Circuit:
    """A chain of sums, every third product a Kronecker product."""
    edges: dict[Layer, list[Layer]] = {}
    layers: list[Layer] = [EmbeddingLayer([0], units, num_states=2, weight_factory=draw)]
    below = layers[0]
    for variable in range(1, variables):
        read = EmbeddingLayer([variable], units, num_states=2, weight_factory=draw)
        product: Layer = KroneckerLayer(units) if variable % 3 == 0 else HadamardLayer(units)
        total = SumLayer(product.num_output_units, units if variable < variables - 1 else 1, weight_factory=draw)
        edges[product], edges[total] = [read, below], [product]
        layers += [read, product, total]
        below = total
    return Circuit(layers, edges, [below])


def exact(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = compiled._exact(compiled.semiring, Batch(x), None)
    return result


def proven(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    _, holds = compiled._run(compiled.semiring.faster[0].semiring, Batch(x))
    held: torch.Tensor = holds
    return held


def apart(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """How far apart logarithms are, where both are not -inf; arguments are compared on the circle."""
    gone = first.real == -torch.inf
    assert bool((gone == (second.real == -torch.inf)).all())
    difference = torch.where(gone, 0.0, first - torch.where(gone, first, second))
    turn = torch.remainder(difference.imag + np.pi, 2 * np.pi) - np.pi
    return difference.real.abs() + turn.abs()


@pytest.mark.one_in(3)
@flagged(
    semiring=SEMIRINGS,
    dtype=DTYPES,
    tiny=[1.0, 1e-12, 1e-20],
    seed=list(range(4)),
    optimize=[True, False],
    fold=[True, False],
)
def test_rows_are_as_exact_as_those_of_logarithms(
    semiring: str, dtype: torch.dtype, tiny: float, seed: int, optimize: bool, fold: bool
) -> None:
    draw = Draw(seed, is_complex=semiring.startswith("complex") and seed % 2 == 0, tiny=tiny)
    described = circuit(draw)
    compiled = TorchCompiler(semiring, fold, optimize, dtype=dtype).compile(described)
    x = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, (64, 12)))
    with torch.no_grad():
        found = compiled(x)
        reference = exact(copy.deepcopy(compiled).double(), x)
        others = exact(compiled, x)
    # what both lose is mostly rounding where terms cancel
    allowed = 8 * apart(others.to(reference.dtype), reference) + ROUNDING[dtype]
    error = apart(found.to(reference.dtype), reference)
    assert bool((error <= allowed.max()).all()), float((error / allowed.max()).max())
    if tiny == 1.0:
        assert float(proven(compiled, x).float().mean()) > 0.9


def test_some_rows_are_not_proven_and_are_right() -> None:
    shares = []
    for seed in range(6):
        compiled = TorchCompiler("signed-lse-sum", dtype="float32").compile(
            circuit(Draw(seed, is_complex=False, tiny=1e-20), 20)
        )
        x = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, (64, 20)))
        with torch.no_grad():
            shares.append(float(proven(compiled, x).float().mean()))
            unproven = ~proven(compiled, x)
            np.testing.assert_allclose(compiled(x)[unproven], exact(compiled, x)[unproven], rtol=1e-6)
    assert any(0 < share < 1 for share in shares)


def test_large_negative_numbers_below_a_known_bound_are_not_proven() -> None:
    """A factor of -1e30 makes up for one that underflows; all that is known of it is that it is not positive."""

    def tensor(numbers: Any) -> Parameter:
        leaf = TensorParameter(*np.shape(numbers), initializer=ConstantTensorInitializer(np.array(numbers)))
        return Parameter.from_input(leaf)

    clamped = Parameter.from_unary(ClampParameter((2, 1), vmax=0.0), tensor([[-1e30], [-1e-30]]))
    layers: list[Layer] = [
        EmbeddingLayer([0], 2, num_states=1, weight=clamped),
        CategoricalLayer([1], 2, num_categories=2, logits=tensor([[-101.3, 0.0], [0.0, 0.0]])),
    ]
    product, total = HadamardLayer(2), SumLayer(2, 1, weight=tensor([[1.0, 1.0]]))
    described = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    compiled = TorchCompiler("signed-lse-sum", dtype="float32").compile(described)
    x = torch.tensor([[0, 0]])
    np.testing.assert_allclose(compiled(x).real.item(), compiled.double()(x).real.item(), rtol=1e-5)


def cancelling() -> Circuit:
    """A number that is exactly zero for one state, and read by a sum that is not."""
    numbers = TensorParameter(2, 2, initializer=ConstantTensorInitializer(np.array([[1.0, 2.0], [1.0, 1.0]])))
    layer = EmbeddingLayer([0], 2, num_states=2, weight=Parameter.from_input(numbers))
    weights = [
        TensorParameter(*np.shape(rows), initializer=ConstantTensorInitializer(np.array(rows)))
        for rows in ([[1.0, -1.0], [0.5, 1.0]], [[2.0, 1.0]])
    ]
    inner, total = (SumLayer(2, len(weight.shape) - at, weight=weight) for at, weight in enumerate(weights))
    return Circuit([layer, inner, total], {inner: [layer], total: [inner]}, [total])


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_zeros_and_their_derivatives(semiring: str) -> None:
    compiled, linear = (
        TorchCompiler(name, fold=False, optimize=False, dtype="float64").compile(cancelling())
        for name in (semiring, "sum-product")
    )
    x = torch.tensor([[0], [1], [0]])
    logs = compiled(x)
    torch.testing.assert_close(logs.exp().real.flatten(), torch.tensor([1.5, 4.0, 1.5], dtype=torch.float64))
    gradients = torch.autograd.grad(logs.exp().real.sum(), list(compiled.parameters()))
    expected = torch.autograd.grad(linear(x).sum(), list(linear.parameters()))
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other)


@flagged(semiring=SEMIRINGS, optimize=[True, False], is_complex=[True, False])
def test_gradients_are_those_of_logarithms(semiring: str, optimize: bool, is_complex: bool) -> None:
    draw = Draw(5, is_complex=is_complex and semiring.startswith("complex"), tiny=1.0)
    compiled = TorchCompiler(semiring, optimize=optimize, dtype="float64").compile(circuit(draw))
    x = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (32, 12)))
    leaves = list(compiled.parameters())
    assert bool(proven(compiled, x).all())
    gradients = torch.autograd.grad(compiled(x).real.sum(), leaves)
    expected = torch.autograd.grad(exact(compiled, x).real.sum(), leaves)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_folds_of_two_groups_with_and_without_a_scale(dtype: torch.dtype) -> None:
    draw = Draw(0, is_complex=True, tiny=1.0)
    tables = [EmbeddingLayer([variable], 2, num_states=2, weight_factory=draw) for variable in (0, 1)]
    masses = [CategoricalLayer([variable], 2, num_categories=2) for variable in (0, 1)]
    products, total = [HadamardLayer(2), HadamardLayer(2)], SumLayer(2, 1, 2, weight_factory=draw)
    edges: dict[Layer, list[Layer]] = {
        products[0]: [tables[0], masses[1]],
        products[1]: [masses[0], tables[1]],
        total: list(products),
    }
    described = Circuit([*tables, *masses, *edges], edges, [total])
    compiled = TorchCompiler("complex-lse-sum", dtype=dtype).compile(described)
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert bool(proven(compiled, x).all())
    error = apart(compiled(x).detach().to(torch.complex128), exact(copy.deepcopy(compiled).double(), x).detach())
    assert float(error.max()) < ROUNDING[dtype]


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_a_total_is_tried_too(semiring: str) -> None:
    c = circuit(Draw(1, is_complex=semiring.startswith("complex"), tiny=1.0))
    total = integrate(multiply(c, conjugate(c)))
    compiler = TorchCompiler(semiring, dtype="float64")
    compiled = compiler.compile(total)
    seen: list[Semiring] = []
    run = type(compiled)._run

    def noting(self: Any, carrier: Semiring, *x: Any, **settings: Any) -> Any:
        seen.append(carrier)
        return run(self, carrier, *x, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(compiled), "_run", noting)
        value = compiled()
    assert [carrier.name for carrier in seen] == [f"scaled-{semiring.partition('-')[0]}"]
    reference = compiled._exact(compiled.semiring, Batch(), None)
    torch.testing.assert_close(value, reference, rtol=1e-10, atol=1e-10)
    assert float(value.detach().imag.abs().max()) < 1e-9
