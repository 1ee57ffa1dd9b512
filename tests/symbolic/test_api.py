"""The names that users of this field expect: parameters, initializers, layers and semirings, as they are promised."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic import dtypes, initializers, layers, parameters, semirings
from plica.symbolic.initializers import DirichletInitializer, NormalInitializer
from plica.symbolic.parameters import ConstantParameter, Parameter, ReferenceParameter, TensorParameter
from tests.harness.together import grouped

Array = Any
X = np.arange(1.0, 7.0).reshape(2, 3) / 4
Y = X[::-1] * 2 + 0.25


def _softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def _of_gaussians(m: Array, s: Array, n: Array, t: Array) -> tuple[Array, Array, Array]:
    (m, n), (s, t) = np.meshgrid(m, n, indexing="ij"), np.meshgrid(s, t, indexing="ij")
    both = s**2 + t**2
    log_partition = -((m - n) ** 2) / (2 * both) - np.log(2 * np.pi * both) / 2
    return tuple(one.ravel() for one in ((m * t**2 + n * s**2) / both, s * t / np.sqrt(both), log_partition))


# Name and arguments of an operation beside shapes, its inputs, and its value.
OPERATIONS: list[tuple[str, dict[str, Any] | tuple[float, ...], tuple[Array, ...], Array]] = [
    ("IndexParameter", {"indices": [1, 1, 0], "axis": 0}, (X,), X[[1, 1, 0]]),
    ("IndexParameter", {"indices": [2, 0]}, (X,), X[:, [2, 0]]),
    ("SumParameter", {}, (X, Y), X + Y),
    ("HadamardParameter", {}, (X, Y), X * Y),
    ("KroneckerParameter", {}, (X, Y[:, :2]), np.kron(X, Y[:, :2])),
    ("OuterProductParameter", {"axis": 0}, (X, Y), (X[:, None] * Y[None]).reshape(4, 3)),
    ("OuterProductParameter", {}, (X, Y), (X[:, :, None] * Y[:, None]).reshape(2, 9)),
    ("OuterSumParameter", {"axis": 0}, (X, Y), (X[:, None] + Y[None]).reshape(4, 3)),
    ("OuterSumParameter", {}, (X, Y), (X[:, :, None] + Y[:, None]).reshape(2, 9)),
    ("ExpParameter", {}, (X,), np.exp(X)),
    ("LogParameter", {}, (X,), np.log(X)),
    ("SquareParameter", {}, (X,), X**2),
    ("SoftplusParameter", {}, (X,), np.log1p(np.exp(X))),
    ("SigmoidParameter", {}, (X,), 1 / (1 + np.exp(-X))),
    ("ScaledSigmoidParameter", (-1.0, 3.0), (X,), -1 + 4 / (1 + np.exp(-X))),
    ("ClampParameter", {"vmin": 0.5, "vmax": 1.0}, (X,), np.clip(X, 0.5, 1.0)),
    ("ClampParameter", {"vmax": 1.0}, (X,), np.minimum(X, 1.0)),
    ("ConjugateParameter", {}, (X,), X),
    ("ReduceSumParameter", {"axis": 0}, (X,), X.sum(0)),
    ("ReduceSumParameter", {}, (X,), X.sum(1)),
    ("ReduceProductParameter", {"axis": 0}, (X,), X.prod(0)),
    ("ReduceLSEParameter", {"axis": 0}, (X,), np.log(np.exp(X).sum(0))),
    ("SoftmaxParameter", {"axis": 0}, (X,), _softmax(X, 0)),
    ("SoftmaxParameter", {}, (X,), _softmax(X)),
    ("LogSoftmaxParameter", {"axis": 0}, (X,), np.log(_softmax(X, 0))),
    ("MixingWeightParameter", {}, (X,), np.concatenate([np.diag(X[:, h]) for h in range(3)], axis=1)),
    ("GaussianProductMean", {}, (X[0], Y[0], X[1], Y[1]), _of_gaussians(X[0], Y[0], X[1], Y[1])[0]),
    ("GaussianProductStddev", {}, (Y[0], Y[1]), _of_gaussians(X[0], Y[0], X[1], Y[1])[1]),
    ("GaussianProductLogPartition", {}, (X[0], Y[0], X[1], Y[1]), _of_gaussians(X[0], Y[0], X[1], Y[1])[2]),
    ("PolynomialProduct", {}, (X, Y[:, :2]), np.stack([np.convolve(a, b) for a in X for b in Y[:, :2]])),
    ("PolynomialDifferential", {"order": 2}, (X,), 2 * X[:, 2:]),
    ("PolynomialDifferential", {}, (X,), X[:, 1:] * [1, 2]),
]


@grouped(("name", "settings", "inputs", "expected"), OPERATIONS, ids=[one[0] for one in OPERATIONS])
@grouped("optimize", [True, False])
def test_operations_of_parameters(name: str, settings: Any, inputs: Any, expected: Array, optimize: bool) -> None:
    more, given = (settings, {}) if isinstance(settings, tuple) else ((), settings)
    op = getattr(parameters, name)(*(one.shape for one in inputs), *more, **given)
    assert op.shape == expected.shape
    for key, value in given.items():
        assert op.config[key] == (tuple(value) if isinstance(value, list) else value)
    leaves = [ConstantParameter(*one.shape, value=one) for one in inputs]
    compiled = TorchCompiler("sum-product", optimize=optimize, dtype="float64").compile_parameter(
        Parameter.from_nary(op, *leaves)
    )
    np.testing.assert_allclose(compiled().squeeze(0), expected, rtol=1e-12, atol=1e-14)


def test_leaves_and_graphs_of_parameters() -> None:
    leaf = TensorParameter(2, 3, initializer=NormalInitializer(), learnable=False, name="x")
    assert (leaf.shape, leaf.learnable, leaf.dtype, leaf.name) == ((2, 3), False, dtypes.DataType.REAL, "x")
    assert ReferenceParameter(leaf).deref() is leaf
    assert ConstantParameter(2).config == {"value": 0.0}
    whole = Parameter.from_sequence(leaf, parameters.ExpParameter((2, 3)), parameters.SquareParameter((2, 3)))
    assert (whole.shape, list(whole.inputs)) == ((2, 3), [leaf])
    (shared,) = whole.ref().inputs
    assert isinstance(shared, ReferenceParameter)
    assert shared.deref() is leaf
    assert Parameter.from_unary(parameters.ExpParameter((2, 3)), leaf).shape == (2, 3)
    assert Parameter.from_binary(parameters.SumParameter((2, 3), (2, 3)), leaf, whole).shape == (2, 3)
    mixing = parameters.mixing_weight_factory((2, 6), param_factory=lambda shape: ConstantParameter(*shape))
    assert mixing.shape == (2, 6)


SIGNATURES: dict[Callable[..., Any], tuple[str, ...]] = {
    initializers.ConstantTensorInitializer: ("value",),
    initializers.UniformInitializer: ("a=0.0", "b=1.0"),
    initializers.NormalInitializer: ("mean=0.0", "stddev=1.0"),
    initializers.DirichletInitializer: ("alpha=1.0", "*axis=-1"),
    layers.EmbeddingLayer: ("scope", "num_output_units", "*num_states=2", "*weight=None", "*weight_factory=None"),
    layers.CategoricalLayer: (
        *("scope", "num_output_units", "*num_categories", "*logits=None", "*probs=None", "*logits_factory=None"),
        "*probs_factory=None",
    ),
    layers.GaussianLayer: (
        *("scope", "num_output_units", "*mean=None", "*stddev=None", "*log_partition=None", "*mean_factory=None"),
        "*stddev_factory=None",
    ),
    layers.PolynomialLayer: ("scope", "num_output_units", "*degree", "*coeff=None", "*coeff_factory=None"),
    layers.ConstantValueLayer: ("num_output_units", "*log_space=False", "*value"),
    layers.EvidenceLayer: ("layer", "*observation"),
    layers.HadamardLayer: ("num_input_units", "arity=2"),
    layers.KroneckerLayer: ("num_input_units", "arity=2"),
    layers.SumLayer: ("num_input_units", "num_output_units", "arity=1", "weight=None", "weight_factory=None"),
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda one: one.__name__)
def test_arguments_by_name_and_place(function: Callable[..., Any]) -> None:
    found = []
    for name, one in inspect.signature(function).parameters.items():
        default = "" if one.default is one.empty else f"={one.default}"
        found.append(f"{'*' if one.kind is one.KEYWORD_ONLY else ''}{name}{default}")
    assert tuple(found) == SIGNATURES[function]


def test_an_initializer_has_an_axis() -> None:
    drawn = DirichletInitializer(axis=0).draw(np.random.default_rng(0), (4, 3))
    np.testing.assert_allclose(drawn.sum(axis=0), np.ones(3))
    assert DirichletInitializer([1.0, 2.0], axis=0).allows_shape((2, 5))
    assert not DirichletInitializer([1.0, 2.0], axis=0).allows_shape((5, 2))


def test_kinds_of_numbers_and_semirings() -> None:
    assert [one.name for one in dtypes.DataType] == ["INTEGER", "REAL", "COMPLEX"]
    for name in ("sum-product", "lse-sum", "complex-lse-sum", "signed-lse-sum"):
        row = semirings.Semiring.from_name(name)
        assert row.name == name
        x = row.map_from(torch.tensor([0.5, 2.0]), semirings.SUM_PRODUCT)
        for found, expected in (
            (row.sum(x), 2.5),
            (row.prod(x), 1.0),
            (row.add(x, x)[0], 1.0),
            (row.mul(x, x)[1], 4.0),
        ):
            assert semirings.SUM_PRODUCT.map_from(found, row).real.item() == pytest.approx(expected)
    assert tuple(plica.Scope([2, 0])) == (0, 2)
