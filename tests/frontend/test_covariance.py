"""`covariance` against enumeration, for the distribution itself and given rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, ShapeError, UnsupportedError
from plica.queries import covariance, mean, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import chain, circuits, coin, constant, product_then_sum, several_sizes
from tests.harness.oracle import Oracle, all_states, numbers
from tests.harness.own_layers import PAIRS, PairLayer
from tests.harness.queries import QUERIED, evidence, one_unit


def expected(row: np.ndarray, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    share = np.where((np.isnan(row) | (states == row)).all(axis=1), weights, 0.0).astype(float)
    share /= share.sum()
    away = states - share @ states
    return np.asarray((share[:, None] * away).T @ away)


def assert_covariances(compiled: Any, circuit: Circuit, x: np.ndarray) -> None:
    states = all_states(circuit)
    weights = Oracle(circuit, numbers(compiled)).linear(states)[:, 0, 0]
    asked = sorted(circuit.scope, reverse=True)
    own = np.ix_(asked, asked)
    found = covariance(compiled, asked)
    nothing = np.full(states.shape[1], np.nan)
    np.testing.assert_allclose(found, expected(nothing, states, weights)[own], rtol=1e-9, atol=1e-9)
    for row, one in zip(x, covariance(compiled, asked, torch.from_numpy(x)), strict=True):
        np.testing.assert_allclose(one, expected(row, states, weights)[own], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "fold"), [("unnormalized", True), ("kronecker of 3", False), ("quad graph, mixing", True)]
)
def test_by_brute_force(name: str, fold: bool) -> None:
    circuit = QUERIED[name]()
    torch.manual_seed(1)
    compiled = TorchCompiler(fold=fold, dtype="float64").compile(circuit)
    assert_covariances(compiled, circuit, evidence(circuit, 3, 2))


@pytest.mark.parametrize("examples", [2, pytest.param(40, marks=pytest.mark.full)])
def test_random_circuits(examples: int) -> None:
    @settings(max_examples=examples)
    @given(circuits(finite=True))
    def check(circuit: Circuit) -> None:
        circuit = one_unit(circuit)
        torch.manual_seed(3)
        assert_covariances(TorchCompiler(dtype="float64").compile(circuit), circuit, evidence(circuit, 2, 4))

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_far_from_zero(dtype: str) -> None:
    """The means of both terms lie 0.25 and 0.5 apart, one million from zero."""
    inputs = [
        GaussianLayer([0], 2, mean=constant([1e6, 1e6 + 0.25]), stddev=constant([0.125, 0.5])),
        GaussianLayer([1], 2, mean=constant([-1e6, -1e6 - 0.5]), stddev=constant([0.25, 0.25])),
    ]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs, weight=constant([[0.25, 0.75]]))
    found = covariance(TorchCompiler(dtype=dtype).compile(circuit), [0, 1])
    apart = 0.25 * 0.75 * np.array([[0.25**2, -0.125], [-0.125, 0.5**2]])
    within = np.diag([0.25 * 0.125**2 + 0.75 * 0.5**2, 0.25**2])
    np.testing.assert_allclose(found, apart + within, rtol=1e-6)
    assert found.dtype == getattr(torch, dtype)


def test_the_diagonal_is_the_variance_and_what_is_known_does_not_vary() -> None:
    torch.manual_seed(5)
    compiled = TorchCompiler().compile(several_sizes())
    x = torch.tensor([[torch.nan] * 4, [1.0, torch.nan, 3.0, torch.nan], [0, 1, 0, 0.5]])
    found = covariance(compiled, [3, 0, 1], x)
    torch.testing.assert_close(found.diagonal(dim1=1, dim2=2), variance(compiled, x)[:, [3, 0, 1]])
    torch.testing.assert_close(found, found.transpose(1, 2))
    assert not found[1, 1].any()
    assert not found[2].any()
    assert covariance(compiled, [], x).shape == (3, 0, 0)
    assert covariance(compiled, [0], x[:0]).shape == (0, 1, 1)


STATES = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)


def _pair_mean(xp: Any, layer: PairLayer, params: Any) -> Any:  # noqa: ARG001
    shares = params["table"] / xp.sum(params["table"], axis=-1, keepdims=True)
    return xp.matmul(shares, xp.asarray(STATES))


def _pair_covariance(xp: Any, layer: PairLayer, params: Any) -> Any:
    shares = params["table"] / xp.sum(params["table"], axis=-1, keepdims=True)
    means = _pair_mean(xp, layer, params)
    products = xp.matmul(shares, xp.asarray((STATES[:, :, None] * STATES[:, None]).reshape(4, 4)))
    shape = (*means.shape[:2], 2, 2)
    return xp.reshape(products, shape) - xp.expand_dims(means, axis=3) * xp.expand_dims(means, axis=2)


def _pair_variance(xp: Any, layer: PairLayer, params: Any) -> Any:
    found = _pair_covariance(xp, layer, params)
    return xp.stack([found[:, :, 0, 0], found[:, :, 1, 1]], axis=-1)


def test_layers_of_several_variables() -> None:
    with_moments = replace(PAIRS, mean=_pair_mean, variance=_pair_variance)
    rng = np.random.default_rng(6)
    pair = PairLayer(Scope([0, 2]), 2, 2, Parameter.from_input(constant(rng.uniform(size=(2, 4)))))
    circuit = product_then_sum(HadamardLayer(2, 2), [pair, coin([1], 2)])
    compiler = TorchCompiler(dtype="float64")
    compiler.add_layer_rule(replace(with_moments, covariance=_pair_covariance))
    torch.manual_seed(7)
    compiled = compiler.compile(circuit)
    states = np.array([[a, b, c] for a in range(2) for b in range(2) for c in range(2)])
    weights = compiled(torch.from_numpy(states)).detach().exp().numpy()[:, 0, 0]
    x = torch.tensor([[torch.nan, 1.0, torch.nan], [0.0, torch.nan, 1.0]], dtype=torch.float64)
    np.testing.assert_allclose(
        covariance(compiled, range(3)), expected(np.full(3, np.nan), states, weights), atol=1e-12
    )
    for row, one in zip(x.numpy(), covariance(compiled, range(3), x), strict=True):
        np.testing.assert_allclose(one, expected(row, states, weights), atol=1e-12)
    means = mean(compiled, torch.full((1, 3), torch.nan, dtype=torch.float64))
    np.testing.assert_allclose(means[0], weights @ states / weights.sum(), atol=1e-12)
    other = TorchCompiler(dtype="float64")
    other.add_layer_rule(with_moments)
    compiled = other.compile(circuit)
    assert covariance(compiled, [0, 1]).shape == (2, 2)  # of two layers
    with pytest.raises(UnsupportedError, match=r"the covariance does not support PairLayer\(.*no 'covariance'"):
        covariance(compiled, [0, 2])


def test_what_cannot_be_asked() -> None:
    first = CategoricalLayer([0], 2, num_categories=2, probs=constant([[0.0, 1.0], [0.0, 1.0]]))
    compiled = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [first, coin([1], 2)]))
    with pytest.raises(InputError, match="row 1: the logarithm of the probability of the given values is -inf"):
        covariance(compiled, [1], torch.tensor([[1.0, torch.nan], [0.0, torch.nan]]))
    with pytest.raises(InputError, match=r"variable 2: the circuit has the variables \{0, 1\}"):
        covariance(compiled, [0, 2])
    with pytest.raises(ShapeError, match="the covariance needs one output of one unit"):
        covariance(TorchCompiler().compile(chain(coin([0], 2), SumLayer(2, 2))), [0])


@pytest.mark.parametrize("variable", [1.7, -1, "0"])
def test_covariances_are_of_variables(variable: Any) -> None:
    compiled = TorchCompiler().compile(chain(coin([0], 1)))
    with pytest.raises(InputError, match="the covariance of variable "):
        covariance(compiled, [0, variable])
