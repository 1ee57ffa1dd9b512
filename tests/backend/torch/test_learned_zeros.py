"""Derivatives at learned numbers that are exactly 0: in `lse-sum` those of ordinary arithmetic, first and second.

A sum of logarithms has no derivative at 0, so such circuits compute in another number format (docs/adr/0004). Where a
row's total is exactly 0, derivatives are finite.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, hessian, jacrev, vmap
from torch.utils._pytree import tree_map

from plica.backend.torch import scoring
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    EmbeddingLayer,
    GeometricLayer,
    HadamardLayer,
    HistogramLayer,
    InputLayer,
    SumLayer,
)
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    HadamardParameter,
    KroneckerParameter,
    Parameter,
    SquareParameter,
)
from plica.symbolic.semirings import LSE_SUM
from tests.harness.circuits import chain, constant, product_then_sum, tensor
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.oracle import gradients
from tests.harness.zero_circuits import ZeroDraw, assert_close, by_key, check_reference, draw_zeros, slopes

ROUNDING = {"float64": 1e-8, "float32": 5e-3}
FULL = pytest.mark.full


def assert_derivatives(draw: ZeroDraw, dtype: str, **flags: Any) -> None:
    """Values and both derivatives, and that no row sends NaN or infinity."""
    model = draw.compile(dtype=dtype, **flags)
    found, rounding = model(draw.data(model)), ROUNDING[dtype]
    np.testing.assert_allclose(found.detach(), draw.totals.log(), rtol=rounding, atol=rounding)
    for one, other in zip(slopes(model, draw.loss(found)), draw.expected, strict=True):
        assert_close(one, other, rounding)
    for one in slopes(model, model(draw.data(model)).sum()):
        assert all(np.isfinite(array).all() for array in one.values())


def assert_in_all_ways(seed: int) -> None:
    draw = draw_zeros(seed)
    for number, (dtype, fold) in enumerate(itertools.product(ROUNDING, (True, False))):
        assert_derivatives(draw, dtype, fold=fold, optimize=bool((seed + number) // 2 % 2))


@pytest.mark.parametrize("seed", [0, 1])
def test_random_circuits(seed: int) -> None:
    assert_in_all_ways(seed)


@FULL
@pytest.mark.parametrize("seed", range(2, 62))
def test_more_random_circuits(seed: int) -> None:
    assert_in_all_ways(seed)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=FULL) for seed in range(1, 30))])
def test_the_reference_is_right(seed: int) -> None:
    check_reference(draw_zeros(seed))


def closer(found: Any, expected: Any) -> None:
    scale = max([1.0, *(float(one.detach().abs().max()) for one in _leaves(expected) if one.numel())])
    for one, other in zip(_leaves(found), _leaves(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8 * scale)


def _leaves(tree: Any) -> list[torch.Tensor]:
    leaves: list[torch.Tensor] = []
    tree_map(leaves.append, tree)
    return leaves


def assert_transforms(seed: int) -> None:
    """Gradients, Hessians and gradients of each row by `torch.func`."""
    draw = draw_zeros(seed)
    model, other = draw.compile(fold=False, optimize=False, dtype="float64"), draw.reference
    x = draw.data(model)

    own = dict(model.named_parameters())
    found = grad(lambda values: draw.loss(functional_call(model, values, (x,))))(own)
    assert_close(by_key(model, [found[name] for name in own]), draw.expected[0], 1e-8)

    def loss(values: Any) -> torch.Tensor:
        return draw.loss(model(x, parameters=values))

    def reference(values: Any) -> torch.Tensor:
        return draw.reference_loss(other(x, parameters=values))

    def of_row(values: Any, row: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return torch.where(counts, model(row[None], parameters=values)[0], 0.0).sum()

    def reference_of_row(values: Any, row: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        totals = other(row[None], parameters=values)[0]
        return torch.where(counts, torch.where(counts, totals, 1.0).log(), 0.0).sum()

    values = {key: value.detach() for key, value in other.state_dict().items()}
    closer(hessian(loss)(values), hessian(reference)(values))
    closer(jacrev(jacrev(loss))(values), jacrev(jacrev(reference))(values))
    closer(*(vmap(grad(fn), (None, 0, 0))(values, x, draw.positive) for fn in (of_row, reference_of_row)))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=FULL) for seed in range(1, 20))])
def test_function_transforms(seed: int) -> None:
    assert_transforms(seed)


def assert_given(seed: int) -> None:
    """Tensors given at the call, for all rows and for each row."""
    draw = draw_zeros(seed)
    model = draw.compile(dtype="float64", fold=bool(seed % 2))
    x = draw.data(model)
    for_all = {key: value.clone().requires_grad_() for key, value in model.state_dict().items()}
    for_each = {
        key: value.detach().expand(len(x), *value.shape).clone().requires_grad_() for key, value in for_all.items()
    }
    for given, total in ((for_all, lambda one: one), (for_each, lambda one: one.sum(0))):
        loss = draw.loss(model(x, parameters=given))
        found = torch.autograd.grad(loss, list(given.values()), materialize_grads=True)
        expected = draw.expected[0]
        assert_close({key: total(one).numpy() for key, one in zip(given, found, strict=True)}, expected, 1e-8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=FULL) for seed in range(2, 30))])
def test_parameters_given_at_the_call(seed: int) -> None:
    assert_given(seed)


@FULL
@pytest.mark.parametrize("seed", range(20))
def test_torch_compile(seed: int) -> None:
    """Without a call before, so that nothing has been lowered."""
    draw = draw_zeros(seed)
    model = draw.compile(dtype="float64")
    loss = draw.loss(torch.compile(model, backend="eager", fullgraph=True)(draw.data(model)))
    found = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    assert_close(by_key(model, found), draw.expected[0], 1e-8)
    torch._dynamo.reset()


def two_units(probs: Any, **how: Any) -> Any:
    """A mixture of two categorical units with equal weights."""
    layer = CategoricalLayer([0], 2, num_categories=2, probs=probs)
    mixture = chain(layer, SumLayer(2, 1, weight=constant([[0.5, 0.5]])))
    return TorchCompiler(dtype="float64", **how).compile(mixture)


def test_a_probability_of_zero_has_a_gradient() -> None:
    """1 / 0.3 at both probabilities of the state that is seen."""
    model = two_units(tensor([[0.0, 1.0], [0.3, 0.7]]))
    model(torch.tensor([[0]])).sum().backward()
    (parameter,) = model.parameters()
    torch.testing.assert_close(parameter.grad.flatten(), torch.tensor([1 / 0.3, 0, 1 / 0.3, 0]).double())


def test_a_total_of_zero_has_a_gradient_of_zero() -> None:
    model = two_units(tensor([[0.0, 1.0], [0.0, 1.0]]))
    result = model(torch.tensor([[0]]))
    result.sum().backward()
    (parameter,) = model.parameters()
    assert result.item() == -np.inf
    assert not parameter.grad.any()


def kronecker_of_a_square() -> Parameter:
    square = Parameter.from_unary(SquareParameter((1, 2)), tensor([[0.0, 2.0]]))
    return Parameter.from_binary(KroneckerParameter((1, 1), (1, 2)), tensor([[1.0]]), square)


def clamp_times_square() -> Parameter:
    shape = (1, 2)
    clamped = Parameter.from_unary(ClampParameter(shape, vmin=0.0, vmax=2.0), tensor([[-1.0, 1.0]]))
    square = Parameter.from_unary(SquareParameter(shape), tensor([[3.0, 0.5]]))
    return Parameter.from_binary(HadamardParameter(shape, shape), clamped, square)


def clamp_of_a_product() -> Parameter:
    """At its lower bound, where ordinary arithmetic takes half of the derivative."""
    shape = (1, 2)
    factor = Parameter.from_unary(ExpParameter(shape), tensor([[0.3, 0.2]]))
    product = Parameter.from_binary(HadamardParameter(shape, shape), tensor([[0.0, 0.5]]), factor)
    return Parameter.from_unary(ClampParameter(shape, vmin=0.0), product)


@pytest.mark.parametrize("weight", [kronecker_of_a_square, clamp_times_square, clamp_of_a_product])
def test_second_derivatives(weight: Any) -> None:
    layer = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.2, 0.8], [0.3, 0.7]]))
    circuit = chain(layer, SumLayer(2, 1, weight=weight()))
    x, found = torch.tensor([[0], [1]]), []
    for semiring in ("lse-sum", "sum-product"):
        model = TorchCompiler(semiring, dtype="float64").compile(circuit)

        def loss(values: Any, model: Any = model, semiring: str = semiring) -> torch.Tensor:
            result = model(x, parameters=values)
            return (result if semiring == "lse-sum" else result.log()).sum()

        found.append(hessian(loss)({key: value.detach() for key, value in model.state_dict().items()}))
    closer(*found)


@pytest.mark.parametrize("probs", [[[0.0, 1.0], [0.3, 0.7]], [[0.1, 0.9], [0.3, 0.7]]])
def test_gradcheck(probs: Any) -> None:
    """With a mixture's own weights, some of them 0."""
    layer = CategoricalLayer([0], 2, num_categories=2, probs=tensor(probs))
    model = TorchCompiler(dtype="float64").compile(chain(layer, SumLayer(2, 1, weight=tensor([[0.5, 0.25]]))))
    x = torch.tensor([[0], [1]])
    names = dict(model.named_parameters())

    def inner(*tensors: torch.Tensor) -> torch.Tensor:
        # away from the ends, where differences would ask for negative numbers
        shifted = [one.clamp(min=0.0) for one in tensors]
        return functional_call(model, dict(zip(names, shifted, strict=True)), (x,))

    given = [(one.detach() + 0.01).requires_grad_() for one in names.values()]
    assert torch.autograd.gradcheck(inner, given)
    assert torch.autograd.gradgradcheck(inner, given)


def test_a_number_leaves_zero() -> None:
    """Gradient ascent of the likelihood, projected to numbers that are not negative, moves a probability that was 0."""
    model = two_units(tensor([[0.0, 1.0], [0.3, 0.7]]))
    (parameter,) = model.parameters()
    x = torch.tensor([[0]])
    before = model(x).item()
    optimizer = torch.optim.SGD([parameter], lr=0.01, maximize=True)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            parameter.clamp_(min=0.0)
    assert parameter.flatten()[0] > 0.05
    assert model(x).item() > before


def test_constants_of_a_first_call_in_a_transform_stay() -> None:
    """Calls after it read tensors, and not what stood for them in the transform."""
    layer = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.2, 0.8], [0.3, 0.7]]))
    model = TorchCompiler(dtype="float64").compile(chain(layer, SumLayer(2, 1, weight=tensor([[0.0, 1.0]]))))
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    grad(lambda values: functional_call(model, values, (x,)).sum())(dict(model.named_parameters()))
    assert not any(
        torch._C._functorch.is_functorch_wrapped_tensor(one)
        for one in vars(model.leaves).values()
        if isinstance(one, torch.Tensor)
    )


def formats(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the number formats in which calls run from now on."""
    names: list[str] = []
    run = scoring.ScoringModule._run

    def noting(self: Any, semiring: Any, *x: Any, **how: Any) -> Any:
        names.append(semiring.name)
        return run(self, semiring, *x, **how)

    monkeypatch.setattr(scoring.ScoringModule, "_run", noting)
    return names


def test_only_zeros_that_are_learned_change_the_number_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax weights and constants keep the ordinary one, and so do calls that ask for no gradient."""
    assert LSE_SUM.at_zeros is not None
    at_zeros = LSE_SUM.at_zeros.name
    x = torch.tensor([[0], [1]])
    zero, full = [[0.0, 1.0], [0.3, 0.7]], [[0.1, 0.9], [0.3, 0.7]]
    default = TorchCompiler(dtype="float64").compile(
        chain(CategoricalLayer([0], 2, num_categories=2), HadamardLayer(2, 1), SumLayer(2, 1))
    )
    cases = [
        (two_units(tensor(zero)), at_zeros),
        (two_units(tensor(full)), "lse-sum"),
        (two_units(constant(zero)), "lse-sum"),
        (default, "lse-sum"),
    ]
    for model, expected in cases:
        names = formats(monkeypatch)
        model(x)
        assert names == [expected]
        with torch.no_grad():
            model(x)
        assert names[1:] == ["lse-sum"]
    model = two_units(tensor(full))
    names = formats(monkeypatch)
    (parameter,) = model.parameters()
    with torch.no_grad():
        parameter.view(-1)[0] = 0.0
    model(x)
    assert names == [at_zeros]


def test_what_an_ordinary_circuit_lowers_has_no_other_program() -> None:
    """A circuit of softmax weights makes no second Program when it is trained."""
    circuit = chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1))
    model = TorchCompiler().compile(circuit)
    model(torch.tensor([[0]])).sum().backward()
    assert {key[0] for key in model.compiled.programs._lowered} == {"lse-sum"}
    assert isinstance(circuit, Circuit)


SHARES = [0.0, 1.0, 0.3]
WAYS = {1: [1, 1], 2: [1, 2, 1], 5: [1, 5, 10, 10, 5, 1]}


def binomial(count: int) -> Any:
    return lambda p, x: WAYS[count][x] * p**x * (1 - p) ** (count - x)


TRIALS: dict[str, tuple[Any, Any, list[int]]] = {
    "bernoulli": (lambda: BernoulliLayer([0], 3, probs=tensor(SHARES)), binomial(1), [0, 1]),
    "two trials": (lambda: BinomialLayer([0], 3, total_count=2, probs=tensor(SHARES)), binomial(2), [0, 1, 2]),
    "five trials": (lambda: BinomialLayer([0], 3, total_count=5, probs=tensor(SHARES)), binomial(5), [0, 1, 3, 4, 5]),
    "geometric": (lambda: GeometricLayer([0], 3, probs=tensor(SHARES)), lambda p, x: p * (1 - p) ** x, [0, 1, 2, 5]),
}


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product", "signed-lse-sum"])
@pytest.mark.parametrize("name", TRIALS)
def test_probabilities_of_0_and_1(name: str, semiring: str) -> None:
    """First and second derivatives are those of the formula."""
    build, formula, states = TRIALS[name]
    weights = [0.5, 0.25, 0.25]
    model = TorchCompiler(semiring, dtype="float64").compile(chain(build(), SumLayer(3, 1, weight=constant([weights]))))
    totals = model(torch.tensor(states)[:, None])
    logs = totals.log() if semiring == "sum-product" else totals.real
    shares = torch.tensor(SHARES, dtype=torch.float64, requires_grad=True)
    rows = [[weight * formula(p, x) for weight, p in zip(weights, shares, strict=True)] for x in states]
    expected = torch.stack([torch.stack(terms).sum().log() for terms in rows]).sum()
    found = [one["0.probs"] for one in slopes(model, logs.sum())]
    (first,) = torch.autograd.grad(expected, [shares], create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), [shares])
    for one, other in zip(found, (first, second), strict=True):
        np.testing.assert_allclose(one, other.detach(), rtol=1e-9, atol=1e-9)


def test_bins_whose_masses_are_products() -> None:
    """The density of a bin is its mass by its width, and so are its derivatives."""
    masses = Parameter.from_binary(
        HadamardParameter((2, 2), (2, 2)),
        tensor([[0.0, 1.0], [0.5, 0.5]]),
        Parameter.from_unary(ExpParameter((2, 2)), tensor([[0.1, 0.0], [0.0, 0.0]])),
    )
    layer = HistogramLayer([0], 2, edges=[0.0, 0.5, 2.0], probs=masses)
    model = TorchCompiler(dtype="float64").compile(chain(layer, SumLayer(2, 1, weight=constant([[0.5, 0.5]]))))
    model(torch.tensor([[0.2]])).sum().backward()
    found = gradients(model)
    np.testing.assert_allclose(found["0.probs.0"], [[2 * np.exp(0.1), 0], [2, 0]])
    np.testing.assert_allclose(found["0.probs.1"], [[0, 0], [1, 0]], atol=1e-15)


LOGITS = [
    case
    for case in LAYER_CASES
    if isinstance(case, InputCase) and not case.signed and "logits" in case.build([0], 2).all_params
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("semiring", ["lse-sum", "signed-lse-sum", "complex-lse-sum"])
@pytest.mark.parametrize("case", LOGITS, ids=str)
def test_logits_whose_exponentials_underflow_beside_a_number_that_may_be_zero(case: InputCase, semiring: str) -> None:
    """Values with gradients are those without; the number beside them is a learned one of an EmbeddingLayer."""
    layer = case.build([0], 2)
    logits = np.random.default_rng(0).normal(-1000.0, 1.0, layer.all_params["logits"].shape)
    layer = layer.with_params({**layer.params, "logits": Parameter.from_input(tensor(logits))})
    beside = EmbeddingLayer([1], 2, num_states=2, weight=tensor([[0.3, 0.6], [0.0, 0.5]]))
    circuit = product_then_sum(HadamardLayer(2, 2), [layer, beside], weight=constant([[0.5, 0.5]]))
    model = TorchCompiler(semiring, dtype="float64").compile(circuit)
    x = np.stack([case.draw(layer, np.random.default_rng(1), 4)[:, 0], [0, 1, 0, 1]], axis=1)
    scores = TorchCompiler("lse-sum", dtype="float64").compile(circuit)
    scores.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = scores(torch.from_numpy(x))
    assert (expected.isfinite() & (expected < -400)).any()
    found = model(torch.from_numpy(x))
    torch.testing.assert_close(found.real if found.is_complex() else found, expected)


_CLAMPED: dict[str, Callable[[Parameter], InputLayer]] = {
    "categorical": lambda probs: CategoricalLayer([0], 2, num_categories=2, probs=probs),
    "embedding": lambda probs: EmbeddingLayer([0], 2, num_states=2, weight=probs),
    "histogram": lambda probs: HistogramLayer([0], 2, edges=[0, 0.5, 2], probs=probs),
}


@pytest.mark.parametrize("family", _CLAMPED)
def test_entries_that_a_clamp_holds_at_zero(family: str) -> None:
    """They have no logarithms of their own; ordinary numbers have the same gradients."""
    found = []
    for semiring in ("sum-product", "lse-sum"):
        probs = Parameter.from_unary(ClampParameter((2, 2), vmin=0.0), tensor([[0.0, 1.0], [0.3, 0.7]]))
        total = SumLayer(2, 1, weight=tensor([[0.5, 0.5]]))
        model = TorchCompiler(semiring, dtype="float64").compile(chain(_CLAMPED[family](probs), total))
        values = model(torch.zeros(1, 1, dtype=torch.float64)).sum()
        loss = values.log() if semiring == "sum-product" else values
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    torch.testing.assert_close(found[1], found[0])
    assert found[0][0].flatten()[0] > 0
