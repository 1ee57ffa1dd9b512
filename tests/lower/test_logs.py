"""Logarithms of parameters: right where the number itself underflows, however it is made and whatever the flags."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plica.frontend.contexts import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import (
    ConcatParameter,
    ConstantParameter,
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


WEIGHTS: dict[str, tuple[Callable[[], Parameter], Any]] = {
    "softmax": (softmax, LOGS),
    "product": (product, 2 * LOGS),
    "mean": (mean, LOGS),
    "beside a leaf": (beside_a_leaf, np.stack([LOGS[0], LOGS[1] / 10])),
    "flat": (flat, LOGS),
}
USES: dict[str, Callable[[Parameter], Any]] = {
    "probs": lambda weight: {"probs": weight},
    "logits": lambda weight: {"logits": Parameter.from_unary(LogParameter(SHAPE), weight)},
    "probs of logits": lambda weight: {
        "probs": Parameter.from_sequence(weight, LogParameter(SHAPE), ExpParameter(SHAPE))
    },
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("weight", WEIGHTS)
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
