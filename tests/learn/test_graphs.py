"""Parameters inverted: tensors get the numbers from which they have a value."""

import numpy as np
import pytest
import torch

import plica
from plica.learn.graphs import Graphs, Tensors
from plica.symbolic.layers import GaussianLayer, MultivariateGaussianLayer
from plica.symbolic.layers.starts import around, beyond, times
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    LogSigmoidParameter,
    LogSoftplusParameter,
    Parameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    normal,
)

SHAPE = (3,)
POSITIVE = [1e-6, 0.5, 20.0]


def graphs_of(layer, name):
    model = plica.compile(plica.Circuit([layer], {}, [layer])).double()
    model.reset_parameters(seed=0)
    return Graphs([layer.params[name]], Tensors(model))


def op(kind, *settings, **named):
    return lambda shape: Parameter.from_unary(kind(shape, *settings, **named), normal(shape))


@pytest.mark.parametrize(
    ("factory", "target"),
    [
        (normal, [-1.0, 0.0, 3.0]),
        (op(ExpParameter), POSITIVE),
        (op(SoftplusParameter), POSITIVE),
        (op(SquareParameter), POSITIVE),
        (op(SigmoidParameter), [1e-9, 0.5, 1 - 1e-9]),
        (op(ScaledSigmoidParameter, 0.5, 2.0), [0.6, 1.0, 1.99]),
        (op(ClampParameter, vmin=0.5), [0.5, 1.0, 7.0]),
        (op(LogSigmoidParameter), [-30.0, -0.5, -1e-9]),
        (op(LogSoftplusParameter), [-30.0, -0.5, 2.0]),
        (around(5.0, 2.0), [-1.0, 5.0, 7.0]),
        (beyond(0.1, 3.0), [0.2, 1.0, 50.0]),
        (times(2.0, 0.5), POSITIVE),
    ],
)
def test_parameters_get_the_value_that_they_are_given(factory, target):
    graph = graphs_of(GaussianLayer([0], 3, mean_factory=factory), "mean")
    assert graph.is_invertible
    graph.invert(torch.tensor([target], dtype=torch.float64))
    np.testing.assert_allclose(graph.value()[0].numpy(), target, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("factory", "target", "nearest"),
    [
        (op(ClampParameter, vmin=0.5, vmax=2.0), [0.1, 1.0, 3.0], [0.5, 1.0, 2.0]),
        (beyond(0.1, 3.0), [0.05, 0.0, -1.0], [0.1] * 3),
        (op(ExpParameter), [0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
        (op(SigmoidParameter), [0.0, 1.0, 0.5], [0.0, 1.0, 0.5]),
    ],
)
def test_values_that_no_number_gives_become_the_nearest_and_leaves_stay_finite(factory, target, nearest):
    graph = graphs_of(GaussianLayer([0], 3, mean_factory=factory), "mean")
    graph.invert(torch.tensor([target], dtype=torch.float64))
    np.testing.assert_allclose(graph.value()[0].numpy(), nearest, atol=1e-12)
    assert graph.slots[0].read(graph.leaves).isfinite().all()


def test_triangles_whose_diagonal_has_a_form_of_its_own():
    graph = graphs_of(MultivariateGaussianLayer([0, 1], 2), "scale_tril")
    target = torch.tensor([[[[2.0, 0.0], [-3.0, 0.5]], [[1e-3, 0.0], [4.0, 9.0]]]], dtype=torch.float64)
    graph.invert(target)
    torch.testing.assert_close(graph.value(), target, rtol=1e-9, atol=1e-12)


def test_sums_of_two_learned_tensors_have_no_inverse():
    def both(shape):
        return Parameter.from_binary(SumParameter(shape, shape), normal(shape), normal(shape))

    assert not graphs_of(GaussianLayer([0], 3, mean_factory=both), "mean").is_invertible
