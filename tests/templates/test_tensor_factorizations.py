import string
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, InputError, ShapeError
from plica.lower.optimize.costs import layers_cost
from plica.passes.memory import plan_memory
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, SoftplusParameter
from plica.templates.parameterization import Parameterization
from plica.templates.tensor_factorizations import cp, tensor_train, tucker
from tests.harness.oracle import Oracle
from tests.harness.together import grouped

SHAPES = [(3,), (2, 3), (3, 1, 2), (2, 3, 4, 2), (3, 2, 2, 3, 2)]
COMPLEX = Parameterization(dtype="complex")
Array = Any


def compiled_of(circuit: Any, **settings: Any) -> Any:
    return plica.compile(circuit, **{"semiring": "sum-product", "dtype": torch.float64, **settings})


def parameters(circuit: Any, compiled: Any) -> Array:
    """The factor of each axis `(K, states)`, and the weights of the last sum layer, if any, from the state dict."""
    state = {key: one.numpy() for key, one in compiled.state_dict().items()}
    factors = [state[f"{circuit.layers.index(layer)}.weight"] for layer in circuit.input_layers]
    return factors, state.get(f"{len(circuit.layers) - 1}.weight")


def entries(compiled: Any, shape: tuple[int, ...]) -> Array:
    """The dense tensor, entry by entry."""
    rows = torch.as_tensor(np.indices(shape).reshape(len(shape), -1).T.copy())
    return compiled(rows).detach().numpy().reshape(shape)


def dense_cp(factors: list[Array], weights: Array | None, rank: int) -> Array:
    axes = string.ascii_lowercase[: len(factors)]
    terms = ",".join(f"r{axis}".replace("r", "R") for axis in axes)
    ones = np.ones(rank) if weights is None else weights[0]
    return np.einsum(f"R,{terms}->{axes}", ones, *factors)


def dense_tucker(factors: list[Array], core: Array, rank: int) -> Array:
    axes, ranks = string.ascii_lowercase[: len(factors)], string.ascii_uppercase[: len(factors)]
    terms = ",".join(f"{one}{axis}" for one, axis in zip(ranks, axes, strict=True))
    return np.einsum(f"{ranks},{terms}->{axes}", core.reshape([rank] * len(factors)), *factors)


def dense_train(sites: list[Array], _: Any, rank: int) -> Array:
    """The product of matrices: a site `(K, states)` is `(states, rows, columns)` of its matrices."""
    result = np.ones((1, 1))  # (indices so far, rank)
    for place, site in enumerate(sites):
        ends = (1 if place == 0 else rank, 1 if place == len(sites) - 1 else rank)
        result = np.einsum("nr,rsi->nis", result, site.reshape(*ends, -1)).reshape(-1, ends[1])
    return result.reshape([site.shape[1] for site in sites])


BUILDERS: dict[str, tuple[Any, Any]] = {
    "cp": (cp, dense_cp),
    "tucker": (tucker, dense_tucker),
    "tensor_train": (tensor_train, dense_train),
}


@grouped("name", BUILDERS)
@grouped("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_entries_are_those_of_the_dense_tensor(name: str, shape: tuple[int, ...], rank: int) -> None:
    build, dense = BUILDERS[name]
    circuit = build(shape, rank)
    assert circuit.num_variables == len(shape)
    assert circuit.is_smooth
    assert circuit.is_decomposable
    compiled = compiled_of(circuit)
    expected = dense(*parameters(circuit, compiled), rank)
    np.testing.assert_allclose(entries(compiled, shape), expected, atol=1e-12)
    assert (expected < 0).any() or expected.size < 8, "factors have both signs"
    missing = torch.full((1, len(shape)), float("nan"), dtype=torch.float64)
    np.testing.assert_allclose(compiled(missing).item(), expected.sum(), atol=1e-11)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("fold", [True, False])
def test_flags_change_nothing(name: str, fold: bool, optimize: bool) -> None:
    build, dense = BUILDERS[name]
    circuit = build((2, 3, 2, 3), 2)
    compiled = compiled_of(circuit, fold=fold, optimize=optimize)
    np.testing.assert_allclose(entries(compiled, (2, 3, 2, 3)), dense(*parameters(circuit, compiled), 2), atol=1e-12)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_missing_index_is_summed_out(name: str) -> None:
    build, dense = BUILDERS[name]
    circuit = build((2, 3, 4), 2)
    compiled = compiled_of(circuit)
    expected = dense(*parameters(circuit, compiled), 2).sum(axis=1)
    rows = torch.tensor([[i, float("nan"), k] for i in range(2) for k in range(4)], dtype=torch.float64)
    np.testing.assert_allclose(compiled(rows).detach().numpy().reshape(2, 4), expected, atol=1e-12)


@pytest.mark.parametrize("name", BUILDERS)
def test_negative_numbers_in_log_space(name: str) -> None:
    build, dense = BUILDERS[name]
    circuit = build((2, 3, 2), 2)
    compiled = compiled_of(circuit, semiring="signed-lse-sum")
    linear = compiled_of(circuit)
    linear.load_state_dict(compiled.state_dict())
    expected = dense(*parameters(circuit, compiled), 2)
    np.testing.assert_allclose(entries(linear, (2, 3, 2)), expected, atol=1e-12)
    rows = torch.as_tensor(np.indices((2, 3, 2)).reshape(3, -1).T.copy())
    found = compiled(rows).detach()
    np.testing.assert_allclose(found.real.exp().numpy().ravel(), np.abs(expected).ravel(), rtol=1e-9)


@pytest.mark.parametrize("name", BUILDERS)
def test_complex_factors(name: str) -> None:
    build, dense = BUILDERS[name]
    circuit = build(
        (2, 3, 2), 2, **({"factor_param": COMPLEX} if name == "tensor_train" else {"input_params": {"weight": COMPLEX}})
    )
    compiled = compiled_of(circuit, semiring="complex-lse-sum")
    state = compiled.state_dict()
    assert [one.dtype for one in state.values() if one.is_complex()] == [torch.complex128] * 3
    compiled.load_state_dict({key: torch.randn_like(one) for key, one in state.items()})
    factors, weights = parameters(circuit, compiled)
    expected = dense(factors, weights, 2)
    assert (np.abs(expected.imag) > 1e-3).any()
    np.testing.assert_allclose(np.exp(entries(compiled, (2, 3, 2))), expected, atol=1e-9)


def test_terms_weigh_one_unless_described() -> None:
    plain, weighted = cp((2, 3), 4), cp((2, 3), 4, weight_param=Parameterization("uniform", "softplus"))
    (last,) = plain.outputs
    assert isinstance(last, SumLayer)
    assert isinstance(last.weight.output, ConstantParameter)
    assert len(compiled_of(plain).state_dict()) == 2
    assert isinstance(weighted.sum_layers[0].weight.output, SoftplusParameter)
    assert len(compiled_of(weighted).state_dict()) == 3
    core = tucker((2, 3), 4, core_param=Parameterization("uniform", "softplus"))
    assert isinstance(core.sum_layers[0].weight.output, SoftplusParameter)
    assert core.sum_layers[0].weight.shape == (1, 16)


def test_shapes_of_factors() -> None:
    assert [layer.params["weight"].shape for layer in cp((2, 5), 3).input_layers] == [(3, 2), (3, 5)]
    train = tensor_train((2, 5, 7, 3), 3)
    assert [layer.params["weight"].shape for layer in train.input_layers] == [(3, 2), (9, 5), (9, 7), (3, 3)]
    assert [layer.params["weight"].shape for layer in tensor_train((4,), 3).input_layers] == [(1, 4)]


def test_factors_may_be_distributions() -> None:
    """A CP factorization of weights that add up to one is a mixture of independent variables."""
    circuit = cp((2, 3), 4, input_layer="categorical", weight_param=Parameterization(activation="softmax"))
    assert all(isinstance(layer, CategoricalLayer) for layer in circuit.input_layers)
    compiled = compiled_of(circuit)
    found = entries(compiled, (2, 3))
    rows = np.indices((2, 3)).reshape(2, -1).T
    state = {key: one.numpy() for key, one in compiled.state_dict().items()}
    np.testing.assert_allclose(found.ravel(), Oracle(circuit, state).linear(rows).ravel().astype(float), atol=1e-12)
    assert found.sum() == pytest.approx(1)
    core = tucker((2, 3), 2, input_layer="categorical", core_param=Parameterization(activation="softmax"))
    assert entries(compiled_of(core), (2, 3)).sum() == pytest.approx(1)


def test_gradients_reach_every_factor() -> None:
    for build, _ in BUILDERS.values():
        compiled = compiled_of(build((3, 2, 4), 2))
        target = torch.randn(24, dtype=torch.float64)
        rows = torch.as_tensor(np.indices((3, 2, 4)).reshape(3, -1).T.copy())
        optimizer = torch.optim.Adam(compiled.parameters(), lr=0.05)
        losses = []
        for _ in range(60):
            loss = (compiled(rows).ravel() - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert all(bool((one.grad != 0).any()) for one in compiled.parameters())
        assert losses[-1] < 0.8 * losses[0]


def test_a_site_of_a_train_costs_the_square_of_the_rank() -> None:
    """Multiply-adds of layers and bytes of the memory plan, for each row: four times as many at twice the rank."""
    rows, work, memory = 1000, [], []
    for rank in (8, 16, 32):
        compiled = compiled_of(tensor_train((3,) * 6, rank))
        work.append(layers_cost(compiled.folded.circuit.layers).row)
        memory.append(plan_memory(compiled.program, rows).peak / rows)
    for one, other in pairwise(work):
        assert other[0] / one[0] < 4.01
        assert other[1] / one[1] < 4.01
    assert all(other / one < 4.01 for one, other in pairwise(memory))
    # 4 inner sites, each a lookup of rank ** 2 numbers that are multiplied and added once: 3 rank ** 2 with spreading
    assert work[-1][0] <= 4 * 3 * 32**2 + 4 * 32
    assert memory[-1] <= 8 * 7 * 32**2  # float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cp((), 2), ShapeError, r"cp: expected the shape of a tensor of at least one axis, found \(\)"),
        (lambda: cp((2, 0), 2), ShapeError, r"cp: shape\[1\] must be at least 1, found 0"),
        (lambda: tucker((2, 2), 0), ShapeError, "tucker: rank must be at least 1, found 0"),
        (
            lambda: BUILDERS["tensor_train"][0]((2, 2), 1.5),
            DTypeError,
            "tensor_train: rank must be an integer, found 1.5",
        ),
        (
            lambda: BUILDERS["tensor_train"][0]((2, "3"), 1),
            DTypeError,
            r"tensor_train: shape\[1\] must be an integer, found '3'",
        ),
        (lambda: tucker((2,) * 40, 3), ShapeError, "more than can be counted"),
        (lambda: cp((2,), 2, input_layer="table"), InputError, "unknown input layer 'table'; expected one of"),
        (
            lambda: cp((2,), 2, input_params={"logits": Parameterization()}),
            InputError,
            "input layer 'embedding' has no parameter 'logits'; .* are weight",
        ),
    ],
)
def test_refuses(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_what_the_caller_passes_is_never_changed() -> None:
    shape, params = [2, 3, 2], {"weight": Parameterization("uniform")}
    for build in (cp, tucker):
        build(shape, 2, input_params=params)
    tensor_train(shape, 2)
    assert shape == [2, 3, 2]
    assert params == {"weight": Parameterization("uniform")}
