"""Mixtures of normal vectors whose components belong to the classes of a column."""

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError
from plica.learn import FullEM, fit
from plica.learn.predicting import Predicting
from plica.templates.normal_mixtures import normal_mixtures

CLASSES = {"name": "categorical", "args": {"num_categories": 3}}


def rows(count=60):
    """Two numbers and one of three classes; the last class has a single row."""
    rng = np.random.default_rng(0)
    label = np.arange(count) % 2
    label[-1] = 2
    return np.column_stack([rng.normal(size=(count, 2)) + 4.0 * label[:, None], label])


def posterior(model, x):
    """`(N, 3)`: the probability of each class, from the joint densities."""
    joint = []
    for label in range(3):
        x = x.copy()
        x[:, 2] = label
        with torch.no_grad():
            joint.append(model(torch.as_tensor(x))[:, 0, 0])
    return torch.stack(joint, 1).softmax(1).numpy()


def fitted(x, members=(1, 2)):
    model = plica.compile(
        normal_mixtures(x, [0, 1], members=members, input_layers=CLASSES, target=2), dtype=torch.float64
    )
    model.reset_parameters(seed=0)
    fit(model, x, learner=FullEM(apart=True), epochs=5)
    return model


def test_classes_have_components_of_their_own_and_keep_them():
    x = rows()
    model = fitted(x)
    # two of each class with rows enough, and one of the class of a single row
    assert [layer.num_output_units for layer in model.symbolic.input_layers] == [3, 3, 5, 5]
    probabilities = posterior(model, x)
    assert (probabilities.argmax(1) == x[:, 2])[:-1].mean() > 0.9
    assert probabilities.min() > 0.0
    # the share of classes is that of rows, whatever the numbers of their components
    nothing = posterior(model, np.array([[np.nan, np.nan, 0.0]]))[0]
    np.testing.assert_allclose(nothing, [30 / 60, 29 / 60, 1 / 60], atol=0.02)


def test_predicting_keeps_probabilities_and_predicts_better():
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 200)
    x = np.column_stack([rng.normal(size=(200, 2)) + label[:, None] * rng.exponential(3.0, 200)[:, None], label])
    x[rng.random(x.shape) < 0.1] = np.nan
    model = fitted(x, (1,))
    result = fit(Predicting(model, 2), x, learner=FullEM(apart=True), epochs=10)
    assert result.history[result.best_epoch].valid > result.history[0].valid + 0.005
    np.testing.assert_allclose(posterior(model, x).sum(1), 1.0)


def test_rows_without_their_class_count_for_any():
    x = rows()
    x[::3, 2] = np.nan
    model = fitted(x)
    assert (posterior(model, x).argmax(1) == rows()[:, 2])[:-1].mean() > 0.9


def test_wrong_targets_are_refused():
    x = rows()
    for target in (0, 7, -1):
        with pytest.raises(InputError, match=r"target=.* must be a column of states .* such columns are \[2\]"):
            normal_mixtures(x, [0, 1], input_layers=CLASSES, target=target)
    x[:, 2] = np.nan
    with pytest.raises(InputError, match="column 2, has no known cell"):
        normal_mixtures(x, [0, 1], input_layers=CLASSES, target=2)
