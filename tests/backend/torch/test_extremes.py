"""Circuits whose weights and densities leave the range of floats: values and gradients against float64.

Softmax weights of scaled logits underflow in float32 where their logarithms are ordinary numbers; every finite value
has finite gradients, on scaled numbers, in log space and in rows that are computed again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.lower import cascade
from plica.lower.optimize.layers import _is_identity
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConcatParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    Parameter,
    ReduceSumParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    TensorParameter,
    mixing_weight_factory,
)
from plica.symbolic.parameters.nodes import Shape
from plica.symbolic.semirings import Bound
from plica.templates.region_graph import QuadTree
from tests.harness.circuits import chain, constant, product_then_sum, tensor
from tests.harness.devices import forbid_branches
from tests.harness.oracle import Oracle, gradients, numbers
from tests.harness.pairwise import by_turns, flagged

pytestmark = pytest.mark.usefixtures("may_branch")

STATES = 5


def scaled(scale: float, shape: Shape) -> Parameter:
    """Normal draws times a number."""
    leaf = Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer()))
    return Parameter.from_binary(HadamardParameter(shape, shape), leaf, ConstantParameter(*shape, value=scale))


def softmax(scale: float, shape: Shape) -> Parameter:
    return Parameter.from_unary(SoftmaxParameter(shape), scaled(scale, shape))


def log_softmax(scale: float, shape: Shape) -> Parameter:
    return Parameter.from_unary(LogSoftmaxParameter(shape), scaled(scale, shape))


def quad_tree(sum_product: str, scale: float, kind: str) -> Circuit:
    """A circuit of 4x4 pixels whose logits, of inputs and of weights, are scaled."""
    factory: dict[str, Any] = {f"{kind}_factory": partial(log_softmax if kind == "logits" else softmax, scale)}
    return QuadTree((1, 4, 4), num_patch_splits=2).build_circuit(
        input_factory=lambda scope, units: CategoricalLayer(scope, units, num_categories=STATES, **factory),
        sum_product=sum_product,
        sum_weight_factory=partial(softmax, scale),
        num_input_units=4,
        num_sum_units=4,
    )


@by_turns(
    sum_product=["cp", "cp-t", "tucker"],
    scale=[1.0, 30.0, 60.0, 1000.0],
    kind=["logits", "probs"],
    dtype=[torch.float32, torch.float64],
    may_branch=[True, False],
)
def test_values_and_gradients_at_all_scales(
    sum_product: str, scale: float, kind: str, dtype: torch.dtype, may_branch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_branch:
        forbid_branches(monkeypatch)
    circuit = quad_tree(sum_product, scale, kind)
    x = torch.randint(STATES, (40, 16))
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 10**12)
    exact = TorchCompiler(dtype=torch.float64, optimize=False).compile(circuit)
    expected = exact(x)
    expected.sum().backward()
    slopes = gradients(exact)
    largest = max(abs(slope).max() for slope in slopes.values())
    for first in (0, 10**12):  # with scaled numbers, and without
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, first)
        compiled = TorchCompiler(dtype=dtype).compile(circuit)
        compiled.load_state_dict({key: value.to(dtype) for key, value in exact.state_dict().items()})
        found = compiled(x)
        found.sum().backward()
        torch.testing.assert_close(found.double(), expected, rtol=4e-6 if dtype == torch.float32 else 1e-12, atol=1e-5)
        for key, slope in gradients(compiled).items():
            assert np.isfinite(slope).all(), key
            if dtype == torch.float64 or scale <= 60:  # above, float32 rounds logits to other choices
                np.testing.assert_allclose(slope, slopes[key], rtol=1e-3, atol=2e-3 * largest)


def merged() -> Circuit:
    """Sums of sums: the product of both weights is far below the smallest number."""
    inner = SumLayer(2, 2, weight=of_logits([[40.0, -40.0], [40.0, -40.0]]))
    outer = SumLayer(2, 2, weight=of_logits([[100.0, -100.0], [100.0, -100.0]]))
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), inner, outer)


def of_logits(rows: list[list[float]]) -> Parameter:
    return Parameter.from_unary(SoftmaxParameter(np.shape(rows)), tensor(rows))


def three_sums() -> Circuit:
    layers = [SumLayer(2, 2, weight=of_logits([[60.0, -60.0], [-60.0, 60.0]])) for _ in range(3)]
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), *layers)


def tiny_weights() -> Circuit:
    layers = [SumLayer(2, 2, weight=tensor(np.full((2, 2), 1e-30))) for _ in range(2)]
    return chain(CategoricalLayer([0], 2, num_categories=2), *layers)


def far_states() -> Circuit:
    return chain(CategoricalLayer([0], 1, num_categories=2, probs=of_logits([[2000.0, 0.0]])), SumLayer(1, 1))


def far_mixing() -> Circuit:
    weight = mixing_weight_factory((2, 4), param_factory=lambda _: of_logits([[200.0, 0.0], [200.0, 0.0]]))
    inputs = [CategoricalLayer([0], 2, num_categories=2, probs=constant([row, row])) for row in ([1, 0], [0, 1])]
    total = SumLayer(2, 2, 2, weight=weight)
    return Circuit([*inputs, total], {total: inputs}, [total])


def exponentials() -> Circuit:
    weight = Parameter.from_unary(ExpParameter((1, 2)), tensor([[-300.0, -200.0]]))
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), SumLayer(2, 1, weight=weight))


def large_exponentials() -> Circuit:
    """Weights that are infinite in float32, beside ordinary ones."""
    weights = [tensor([[100.0, -100.0], [3.0, 200.0]]), tensor([[95.0, -50.0]])]
    first, second = (Parameter.from_unary(ExpParameter(weight.shape), weight) for weight in weights)
    start = CategoricalLayer([0], 2, num_categories=2, probs=constant([[1.0, 0.5], [0.0, 0.5]]))
    return chain(start, SumLayer(2, 2, weight=first), SumLayer(2, 1, weight=second))


def constant_exponentials() -> Circuit:
    return chain(far_exponentials(constant), SumLayer(1, 1))


def far_exponentials(leaf: Callable[[Any], Any]) -> CategoricalLayer:
    """States of probability exp(-200) and exp(-150), each 0 in float32."""
    probs = Parameter.from_unary(ExpParameter((1, 2)), leaf([[-200.0, -150.0]]))
    return CategoricalLayer([0], 1, num_categories=2, probs=probs)


def large_factor() -> Circuit:
    """Weights whose softmax is subnormal and has lost digits, and whose product with a number is not small."""
    shape = (2, 2)
    factor = ConstantParameter(*shape, value=1e30)
    chosen = of_logits([[0.0, -100.0], [-98.0, 0.0]])
    weight = Parameter.from_binary(HadamardParameter(shape, shape), chosen, factor)
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), SumLayer(2, 2, weight=weight))


def sum_of_softmaxes() -> Circuit:
    """A weight both of whose terms are 0 in float32."""
    shape = (2, 2)
    terms = (of_logits([[0.0, -200.0], [-190.0, 0.0]]), of_logits([[0.0, -201.0], [-195.0, 0.0]]))
    weight = Parameter.from_binary(SumParameter(shape, shape), *terms)
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), SumLayer(2, 2, weight=weight))


STEEP = [[0.0, -200.0], [-190.0, 0.0]]
"""Logits whose softmax has two entries that are 0 in float32."""


def over_states(*weights: Parameter) -> Circuit:
    """Sums with these weights over two states."""
    sums = [SumLayer(2, 2, weight=weight) for weight in weights]
    return chain(CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2))), *sums)


def product(*factors: Any, kind: Any = HadamardParameter) -> Parameter:
    first, second = map(Parameter.from_input, factors)
    return Parameter.from_binary(kind(first.shape, second.shape), first, second)


def of_entries(op: Any, numbers_: Any = STEEP, **settings: Any) -> Parameter:
    return Parameter.from_unary(op(np.shape(numbers_), **settings), tensor(numbers_))


def of_numbers() -> Circuit:
    """Numbers that nothing bounds, and a softmax that underflows: Hadamard and Kronecker products."""
    numbers_, column = tensor([[3.0, 0.5], [1e30, 2.0]]), tensor([[-3.0], [-1e20]])
    beside = product(column, product(tensor([[-1.0, -0.5]]), of_logits([[0.0, -120.0]])), kind=KroneckerParameter)
    return over_states(product(numbers_, of_logits(STEEP)), beside)


def unbounded_factor() -> Circuit:
    """A weight of exp(-20) that is 0 in float32: one factor underflows, and nothing bounds the other."""
    return over_states(
        product(of_entries(ExpParameter, [[1.0, 80.0], [80.0, 1.0]]), of_logits([[0.0, -110], [-100, 0]]))
    )


def moved() -> Circuit:
    """Entries of a product of numbers of any sign, in other places."""
    weight = product(tensor([[-1e-30, -2.0], [3.0, 1e-20]]), tensor([[-1e-30, -1.0], [0.5, 1e-25]]))
    return over_states(Parameter.from_unary(IndexParameter((2, 2), indices=[1, 0]), weight))


def entries(*weights: Parameter) -> Circuit:
    """A sum with these weights, of one row each, over two states; each entry is read by itself."""
    weight = weights[0]
    for one in weights[1:]:
        weight = Parameter.from_binary(ConcatParameter(weight.shape, one.shape, axis=0), weight, one)
    eye = CategoricalLayer([0], 2, num_categories=2, probs=constant(np.eye(2)))
    return chain(eye, SumLayer(2, len(weights), weight=weight))


def plus(*terms: Parameter) -> Parameter:
    return product(*terms, kind=SumParameter)


FREE, LESS = [[0.0, 3.0]], [[2.0, -1.0]]
LOW, LOWER = [[0.0, -200.0]], [[0.0, -201.0]]


def hadamard_sums() -> Circuit:
    """Softmaxes times numbers of any sign, added: 0 in float32, but for what a factor of 0 leaves."""
    both = product(tensor(FREE), of_logits(LOW)), product(tensor(LESS), of_logits(LOWER))
    fixed = product(constant(FREE), of_logits(LOW)), product(constant(LESS), of_logits(LOWER))
    return entries(plus(*both), plus(*fixed))


def kronecker_sums() -> Circuit:
    terms = (
        product(of_logits(logits), tensor([[factor]]), kind=KroneckerParameter)
        for logits, factor in ((LOW, 2.0), (LOWER, -1.0))
    )
    return entries(plus(*terms))


def signed_matrices() -> Circuit:
    """Matrix products and Einstein sums whose terms are of either sign, and each 0 in float32."""
    first, second = product(tensor([[2.0, -1.0]]), of_logits([[0.0, -190.0]])), [[0.0, -200.0], [-5.0, -12.0]]
    matrices = product(first, of_entries(ExpParameter, second), kind=MatMulParameter)
    equation = EinsumParameter((1, 2), (2, 2), equation="mk,nk->mn")
    einsum = Parameter.from_binary(equation, first.ref(), of_entries(ExpParameter, np.transpose(second)))
    return entries(matrices, einsum)


def signed_reductions() -> Circuit:
    """Sums along an axis, squares of them, and clamps of them."""
    terms = product(
        tensor([[[2.0, -1.0], [3.0, -2.0]]]), of_entries(SoftmaxParameter, [[[0.0, -9], [-100, -120]]], axis=1)
    )
    total = Parameter.from_unary(ReduceSumParameter((1, 2, 2), axis=2), terms)
    square = Parameter.from_unary(SquareParameter((1, 2)), total.ref())
    clamps = (ClampParameter((1, 2), vmin=0.0), ClampParameter((1, 2), vmin=-1.0, vmax=3.0))
    return entries(square, *(Parameter.from_unary(clamp, total.ref()) for clamp in clamps), total)


CASES: dict[str, Callable[[], Circuit]] = {
    "sums of Hadamard products of any sign": hadamard_sums,
    "sums of Kronecker products of any sign": kronecker_sums,
    "matrix products of any sign": signed_matrices,
    "sums along an axis of any sign": signed_reductions,
    "numbers times a softmax": of_numbers,
    "an exponential times a softmax": unbounded_factor,
    "products of any sign, moved": moved,
    "sigmoids": lambda: over_states(of_entries(SigmoidParameter)),
    "softplus": lambda: over_states(of_entries(SoftplusParameter)),
    "a softmax under a clamp": lambda: over_states(
        Parameter.from_unary(ClampParameter((2, 2), vmin=-1.0, vmax=0.5), of_logits(STEEP))
    ),
    "a sum of softmaxes": sum_of_softmaxes,
    "a softmax times a large number": large_factor,
    "sums of sums": merged,
    "three sums": three_sums,
    "sums of tiny weights": tiny_weights,
    "probs of a softmax": far_states,
    "a mixing softmax": far_mixing,
    "weights that are exponentials": exponentials,
    "weights that overflow": large_exponentials,
    "exponentials of constants": constant_exponentials,
}


@pytest.mark.one_in(3)
@flagged(name=list(CASES), optimize=[True, False], scaled_first=[True, False], may_branch=[True, False])
def test_what_underflows_in_linear_space(
    name: str, optimize: bool, scaled_first: bool, may_branch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_branch:
        forbid_branches(monkeypatch)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    circuit = CASES[name]()
    compiled = TorchCompiler(optimize=optimize).compile(circuit)
    x = np.array([[0], [1]])
    found = compiled(torch.from_numpy(x))
    expected = Oracle(circuit, numbers(compiled)).log(x).astype(float)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-5, atol=1e-5)
    found.sum().backward()
    slopes = gradients(compiled)
    wide = TorchCompiler(dtype=torch.float64, optimize=False).compile(circuit)
    wide.load_state_dict({key: value.double() for key, value in compiled.state_dict().items()})
    wide(torch.from_numpy(x)).sum().backward()
    for key, slope in gradients(wide).items():
        np.testing.assert_allclose(slopes[key], slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max() + 1e-30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scaled_first", [True, False])
def test_exponentials_that_overflow_where_nobody_reads_them(
    dtype: torch.dtype, scaled_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that no row has; and sums whose weights are computed as one with others that do not overflow."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    inputs = CategoricalLayer([0], 2, num_categories=2, probs=of_entries(ExpParameter, [[1000.0, 1.0], [2.0, 3.0]]))
    far = SumLayer(2, 2, weight=of_entries(ExpParameter, [[1000.0, 2.0], [900.0, 1.0]]))
    near = SumLayer(2, 2, weight=of_entries(ExpParameter, [[1.0, 2.0], [0.5, -1.0]]))
    compiled = TorchCompiler(dtype=dtype).compile(chain(inputs, near, far, SumLayer(2, 1)))
    compiled(torch.tensor([[1], [1]])).sum().backward()
    slopes = gradients(compiled)
    assert all(np.isfinite(slope).all() for slope in slopes.values())
    # far: all of the first output, 1 for each row, comes of its first entry
    np.testing.assert_allclose(slopes["2.weight"], [[2.0, 0.0], [0.0, 0.0]], atol=1e-5)
    assert not slopes["0.probs"][:, 0].any()
    np.testing.assert_allclose(slopes["0.probs"][:, 1].sum(), 2.0, rtol=1e-5)


def test_states_whose_probabilities_underflow_are_summed_out_drawn_and_chosen() -> None:
    compiled = TorchCompiler().compile(chain(far_exponentials(tensor), SumLayer(1, 1)))
    missing = torch.tensor([[np.nan]])
    total = compiled(missing).sum()
    assert total.item() == pytest.approx(-150.0)
    total.backward()
    assert all(np.isfinite(slope).all() for slope in gradients(compiled).values())
    rows, log_values = mpe(compiled, missing)
    assert (rows.item(), log_values.item()) == (1, pytest.approx(-150.0))
    assert sample(compiled, 5, seed=0).flatten().tolist() == [1] * 5


def test_chains_of_softmax_weights_merge() -> None:
    compiled = TorchCompiler().compile(
        chain(CategoricalLayer([0], 4, num_categories=2), *[SumLayer(4, 4) for _ in range(3)], SumLayer(4, 1))
    )
    assert sum(group.num_folds for group in compiled.layers) == 2


@pytest.mark.parametrize("scaled_first", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_infinite_data_and_means_leave_the_gradients_of_others(
    scaled_first: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    mean = tensor([0.0, 1.0, -np.inf])
    inputs = [GaussianLayer([v], 3, mean=mean if v == 0 else tensor([0.5, 1.0, -1.0])) for v in range(2)]
    circuit = product_then_sum(HadamardLayer(3, 2), inputs)
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    x = torch.tensor([[0.5, -1.0], [np.inf, 0.0], [0.0, -np.inf], [1.0, 2.0]], dtype=dtype)
    found = compiled(x).flatten()
    assert found.isneginf().tolist() == [False, True, True, False]
    found[~found.isneginf()].sum().backward()
    together = gradients(compiled)
    compiled.zero_grad()
    compiled(x[[0, 3]]).sum().backward()
    for key, slope in gradients(compiled).items():
        assert np.isfinite(together[key]).all(), key
        np.testing.assert_allclose(together[key], slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scaled_first", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_data_too_far_for_the_dtype_leaves_the_gradients_of_others(
    scaled_first: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The distance in spreads overflows, or its square does; spreads are such that infinity is just as far."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    largest = torch.finfo(dtype).max
    layer = GaussianLayer([0], 3, mean=tensor([0.0, 1.0, np.inf]), stddev=tensor([1e-3, 1.0, largest**0.3]))
    compiled = TorchCompiler(dtype=dtype).compile(chain(layer, SumLayer(3, 1)))
    far = torch.tensor([[largest], [-largest], [np.inf], [-np.inf], [largest**0.9]], dtype=dtype)
    near = torch.tensor([[0.5], [1.0]], dtype=dtype)
    found = compiled(torch.cat([near, far])).flatten()
    assert found.isneginf().tolist() == [False] * 2 + [True] * 5
    torch.nan_to_num(found, neginf=0.0).sum().backward()
    together = gradients(compiled)
    compiled.zero_grad()
    compiled(near).sum().backward()
    for key, slope in gradients(compiled).items():
        assert np.isfinite(together[key]).all(), key
        np.testing.assert_allclose(together[key], slope, rtol=1e-4, atol=1e-6)


def test_a_mean_that_is_no_number_is_seen() -> None:
    compiled = TorchCompiler().compile(chain(GaussianLayer([0], 1, mean=tensor([np.nan])), SumLayer(1, 1)))
    assert compiled(torch.zeros(1, 1)).isnan().all()


def test_no_identity_is_made_to_recognise_one() -> None:
    """A dense identity of 40,000 rows would take 12 GiB."""
    size = 40_000
    assert not _is_identity(Parameter.from_input(ConstantParameter(size, size, value=0.0)))
    assert not _is_identity(Parameter.from_input(ConstantParameter(size, size, value=1.0)))
    assert _is_identity(Parameter.from_input(ConstantParameter(3, 3, value=np.eye(3))))
    assert not _is_identity(Parameter.from_input(ConstantParameter(3, 3, value=np.eye(3)[::-1])))
