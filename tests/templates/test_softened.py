"""Softened inputs, against tables by hand."""

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.learn import Adam, fit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, SumLayer
from plica.symbolic.parameters import LogSoftmaxParameter, Parameter, SoftmaxParameter
from plica.tables.build import build_circuit
from plica.tables.recipe import Recipe
from plica.templates import hclt
from plica.templates.softened import soften
from tests.harness.learned_circuits import leaf
from tests.tables.test_rules import bits


def coins(**params) -> plica.Circuit:
    coin = CategoricalLayer([0], 2, num_categories=4, **params)
    mix = SumLayer(2, 1, weight=leaf([[0.25, 0.75]]))
    return plica.Circuit([coin, mix], {mix: [coin]}, [mix])


LOGITS = np.array([[0.0, -50.0, 1.0, -1.0], [2.0, 0.0, 0.0, -800.0]])


@pytest.mark.parametrize("form", ["logits", "probs"])
def test_probabilities_are_mixed_with_even_ones(form: str) -> None:
    made = Parameter.from_unary(SoftmaxParameter((2, 4)), leaf(LOGITS))
    logits = Parameter.from_unary(LogSoftmaxParameter((2, 4)), leaf(LOGITS))
    circuit = coins(probs=made) if form == "probs" else coins(logits=logits)
    model = plica.compile(soften(circuit, 0.2), dtype=torch.float64)
    shares = np.exp(LOGITS - LOGITS.max(1, keepdims=True))
    expected = [0.25, 0.75] @ (0.8 * shares / shares.sum(1, keepdims=True) + 0.05)
    values = model(torch.arange(4)[:, None])
    np.testing.assert_allclose(values.exp().flatten().detach(), expected, rtol=1e-12)
    values.sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters() if parameter.grad is not None)


def test_a_state_that_no_row_has_keeps_its_share() -> None:
    rows = np.zeros((50, 2), dtype=np.int64)
    model = plica.compile(soften(hclt(rows, 2, input_layer_kwargs={"num_categories": 2}), 0.1), dtype=torch.float64)
    fit(model, rows, learner=Adam(0.3), epochs=50)
    least = float(model(torch.ones(1, 2, dtype=torch.int64)).exp().detach())
    assert 0.05**2 - 1e-9 <= least < 0.06**2


def test_nothing_is_nothing() -> None:
    circuit = coins()
    assert soften(circuit, 0) is circuit
    data = bits(30, 4)
    recipe = Recipe(structure="hidden-tree", units=2, softening=0.25)
    (first, *_) = build_circuit(recipe, data, seed=0, dtype="float32").input_layers
    assert list(first.params) == ["probs"]


@pytest.mark.parametrize(
    ("circuit", "share", "error", "message"),
    [
        (coins(), 1.0, InputError, "from 0 to below 1, found 1"),
        (coins(), float("nan"), InputError, "from 0 to below 1, found nan"),
        (coins(), "much", DTypeError, "share"),
        (coins(probs=leaf(np.ones((2, 4)))), 0.1, UnsupportedError, r"CategoricalLayer\(0.* is not categorical by"),
        (plica.Circuit([layer := GaussianLayer([0], 1)], {}, [layer]), 0.1, UnsupportedError, r"GaussianLayer\(0"),
    ],
)
def test_what_cannot_be_softened_is_refused(circuit, share, error, message) -> None:
    with pytest.raises(error, match=message):
        soften(circuit, share)
