"""Logarithms of parameters: right where the number itself underflows, however it is made and whatever the flags."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plica.frontend.contexts import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ConcatParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    IndexParameter,
    LogParameter,
    Parameter,
    SoftmaxParameter,
    SumParameter,
    TensorParameter,
)
from tests.harness.together import grouped

LOGITS = np.array([[0.0, -300.0, -200.0], [-500.0, 0.0, -100.0]])
LOGS = LOGITS - np.logaddexp.reduce(LOGITS, axis=-1, keepdims=True)
SHAPE = LOGITS.shape


def softmax() -> Parameter:
    leaf = TensorParameter(*SHAPE, initializer=ConstantTensorInitializer(LOGITS))
    return Parameter.from_unary(SoftmaxParameter(SHAPE), leaf)


def product() -> Parameter:
    return Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), softmax(), softmax())


def mean() -> Parameter:
    both = Parameter.from_binary(SumParameter(SHAPE, SHAPE), softmax(), softmax())
    return Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), both, ConstantParameter(*SHAPE, value=0.5))


def beside_a_leaf() -> Parameter:
    """Rows of a softmax and of a tensor that may be negative."""
    leaf = TensorParameter(1, 3, initializer=ConstantTensorInitializer(np.exp(LOGS[1:] / 10)))
    first = Parameter.from_unary(IndexParameter(SHAPE, indices=[0], axis=0), softmax())
    return Parameter.from_binary(ConcatParameter((1, 3), (1, 3), axis=0), first, leaf)


def flat() -> Parameter:
    leaf = TensorParameter(2, 1, 3, initializer=ConstantTensorInitializer(LOGITS[:, None]))
    return Parameter.from_sequence(leaf, SoftmaxParameter((2, 1, 3)), FlattenParameter((2, 1, 3), start=0, end=1))


def root() -> Parameter:
    """The geometric mean of two softmaxes: a logarithm within a parameter, of a product that underflows."""
    logs = Parameter.from_unary(LogParameter(SHAPE), product())
    half = ConstantParameter(*SHAPE, value=0.5)
    return Parameter.from_unary(ExpParameter(SHAPE), Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), logs, half))


WEIGHTS: dict[str, tuple[Callable[[], Parameter], Any]] = {
    "softmax": (softmax, LOGS),
    "product": (product, 2 * LOGS),
    "mean": (mean, LOGS),
    "beside a leaf": (beside_a_leaf, np.stack([LOGS[0], LOGS[1] / 10])),
    "flat": (flat, LOGS),
    "root": (root, LOGS),
}
USES: dict[str, Callable[[Parameter], Any]] = {
    "probs": lambda weight: {"probs": weight},
    "logits": lambda weight: {"logits": Parameter.from_unary(LogParameter(SHAPE), weight)},
    "probs of logits": lambda weight: {
        "probs": Parameter.from_sequence(weight, LogParameter(SHAPE), ExpParameter(SHAPE))
    },
}


@grouped("optimize", [True, False])
@grouped("use", USES)
@grouped("weight", WEIGHTS)
def test_scores_of_tables_are_finite(weight: str, use: str, optimize: bool) -> None:
    make, logs = WEIGHTS[weight]
    layer = CategoricalLayer([0], 2, num_categories=3, **USES[use](make()))
    compiled = PipelineContext(optimize=optimize).compile(Circuit([layer], {}, [layer]))
    scores = compiled(torch.arange(3)[:, None])[:, 0].detach()
    torch.testing.assert_close(scores.double(), torch.tensor(logs.T), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_weights_of_sums_are_lost_nowhere(weight: str, optimize: bool) -> None:
    make, logs = WEIGHTS[weight]
    table = ConstantTensorInitializer(np.array([[0.0], [250.0], [-30.0]]))
    layer = CategoricalLayer([0], 3, num_categories=1, logits=TensorParameter(3, 1, initializer=table))
    total = SumLayer(3, 2, weight=make())
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    value = PipelineContext(optimize=optimize).compile(circuit)(torch.zeros(1, 1))[0, 0].detach()
    expected = np.logaddexp.reduce(logs + np.array([0.0, 250.0, -30.0]), axis=-1)
    torch.testing.assert_close(value.double(), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def signed_sum(*factors: Any, learnable: bool) -> Parameter:
    """Softmaxes of the same logits, each times numbers of any sign, added."""
    total = None
    for factor in np.asarray(factors, float):
        leaf = TensorParameter(*SHAPE, initializer=ConstantTensorInitializer(factor))
        times = leaf if learnable else ConstantParameter(*SHAPE, value=factor)
        term = Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), softmax(), times)
        total = term if total is None else Parameter.from_binary(SumParameter(SHAPE, SHAPE), total, term)
    assert total is not None
    return total


FIRST, SECOND = [[2.0, 0.0, 3.0], [1.0, 0.0, -1.0]], [[-2.0, 5.0, -2.0], [0.5, 0.0, 3.0]]
LEFT = np.add(FIRST, SECOND)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("learnable", [True, False])
@pytest.mark.parametrize("fold", [True, False])
def test_sums_of_terms_of_any_sign(fold: bool, learnable: bool, dtype: torch.dtype) -> None:
    """Terms that cancel, terms of 0, and what is left of others; in two layers that fold, beside a third of its own."""
    tables = [signed_sum(*both, learnable=learnable) for both in ((FIRST, SECOND), (SECOND, FIRST))]
    layers = [CategoricalLayer([at], 2, num_categories=3, probs=one) for at, one in enumerate([*tables, softmax()])]
    product = HadamardLayer(2, 3)
    compiled = PipelineContext(fold=fold, dtype=dtype).compile(
        Circuit([*layers, product], {product: layers}, [product])
    )
    scores = compiled(torch.arange(3)[:, None].expand(3, 3))[:, 0]
    with np.errstate(divide="ignore"):
        expected = 3 * LOGS + 2 * np.log(LEFT)
    torch.testing.assert_close(scores.detach().double(), torch.tensor(expected.T), rtol=1e-5, atol=1e-5)
    scores[scores.isfinite()].sum().backward()
    slopes = [one.grad for one in compiled.parameters() if one.grad is not None]
    assert all(bool(slope.isfinite().all()) for slope in slopes)
    if learnable:
        # d log(s x + s y) / dx = 1 / (x + y), of a factor of 0 too
        found = torch.cat([slope.flatten() for slope in slopes if slope.shape[-2:] == SHAPE])
        for place in np.argwhere(LEFT != 0):
            share = 1 / LEFT[tuple(place)]
            assert int(np.isclose(found, share, rtol=1e-4).sum()) >= 4, place


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_einstein_sum_that_sums_nothing_is_a_product_that_is_lost_nowhere(sign) -> None:
    leaves = [
        TensorParameter(2, 1, initializer=ConstantTensorInitializer(np.array([[sign * 1e-25], [sign]]))) for _ in "ab"
    ]
    product = Parameter.from_binary(EinsumParameter((2, 1), (2, 1), equation="ab,cb->acb"), *leaves)
    logs = Parameter.from_unary(LogParameter((2, 2, 1)), product)
    compiled = PipelineContext(dtype="float32").compile_parameter(logs)
    found = compiled()
    once = np.log(1e-25)
    np.testing.assert_allclose(
        found.detach().numpy()[0, :, :, 0], [[2 * once, once], [once, 0.0]], rtol=1e-6, atol=1e-6
    )
    found.sum().backward()
    for one in compiled.parameters():
        np.testing.assert_allclose(one.grad.numpy()[0, :, 0], [sign * 2e25, sign * 2.0], rtol=1e-5)


def test_a_negative_sum_that_underflows_has_no_logarithm() -> None:
    """In ordinary numbers it is 0, which nobody refuses."""
    probs = signed_sum(*[[[1.0, -1.0, 2.0], [-1.0, 1.0, 1.0]]] * 2, learnable=True)
    layer = CategoricalLayer([0], 2, num_categories=3, probs=probs)
    scores = PipelineContext().compile(Circuit([layer], {}, [layer]))(torch.arange(3)[:, None])[:, 0]
    assert scores.isnan().tolist() == [[False, True], [True, False], [False, False]]
