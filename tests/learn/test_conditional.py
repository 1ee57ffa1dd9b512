"""Expectation maximization of a model that predicts a variable, against numbers computed one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import plica
from plica.errors import UnsupportedError
from plica.learn import FullEM, fit
from plica.learn.conditional import conditional_statistics, within_reach
from plica.learn.expectation import Expectation
from plica.learn.learners.base import Plan
from plica.learn.predicting import Predicting
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    DiagonalGaussianLayer,
    ExponentialLayer,
    GaussianLayer,
    GeometricLayer,
    HadamardLayer,
    LogNormalLayer,
    MultivariateGaussianLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.parameters import LogSoftmaxParameter, Parameter, SoftmaxParameter
from tests.harness.learned_circuits import leaf

COMPONENTS, STATES = 3, 2


def mixture(rng):
    """Components of two correlated reals and a class, and the numbers of their parameters."""
    numbers = {
        "mean": rng.normal(size=(COMPONENTS, 2)),
        "scale_tril": np.tril(rng.normal(size=(COMPONENTS, 2, 2)), -1) + np.eye(2),
        "classes": rng.dirichlet([1.0, 1.0], COMPONENTS),
        "weights": rng.dirichlet([2.0] * COMPONENTS),
    }
    vector = MultivariateGaussianLayer(
        [0, 1], COMPONENTS, mean=leaf(numbers["mean"]), scale_tril=leaf(numbers["scale_tril"])
    )
    logits = Parameter.from_unary(LogSoftmaxParameter((COMPONENTS, STATES)), leaf(np.log(numbers["classes"])))
    classes = CategoricalLayer([2], COMPONENTS, num_categories=STATES, logits=logits)
    weight = Parameter.from_unary(SoftmaxParameter((1, COMPONENTS)), leaf(np.log(numbers["weights"])[None]))
    product, total = HadamardLayer(COMPONENTS, 2), SumLayer(COMPONENTS, 1, weight=weight)
    circuit = plica.Circuit([vector, classes, product, total], {product: [vector, classes], total: [product]}, [total])
    return circuit, numbers


def counted(numbers, x):
    """The expected statistics of rows by the formulas, and their log-likelihood."""
    covariance = numbers["scale_tril"] @ numbers["scale_tril"].transpose(0, 2, 1)
    count, total, products = np.zeros(COMPONENTS), np.zeros((COMPONENTS, 2)), np.zeros((COMPONENTS, 2, 2))
    weights, states, log_likelihood = np.zeros(COMPONENTS), np.zeros((COMPONENTS, STATES)), 0.0
    for row in x:
        known = ~np.isnan(row[:2])
        logs, means, rests = [], [], []
        for k in range(COMPONENTS):
            mean, sigma, log = numbers["mean"][k].copy(), covariance[k], np.log(numbers["weights"][k])
            rest = np.zeros((2, 2))
            if known.any():
                part = sigma[np.ix_(known, known)]
                log += multivariate_normal(mean[known], part).logpdf(row[:2][known])
                gain = sigma[np.ix_(~known, known)] @ np.linalg.inv(part)
                mean[~known] += gain @ (row[:2][known] - mean[known])
                rest[np.ix_(~known, ~known)] = sigma[np.ix_(~known, ~known)] - gain @ sigma[np.ix_(known, ~known)]
            mean[known] = row[:2][known]
            if not np.isnan(row[2]):
                log += np.log(numbers["classes"][k, int(row[2])])
            logs.append(log)
            means.append(mean)
            rests.append(rest)
        flow = np.exp(logs - logsumexp(logs))
        log_likelihood += logsumexp(logs)
        weights += flow
        if not np.isnan(row[2]):
            states[:, int(row[2])] += flow
        if known.any():
            count += flow
            for k in range(COMPONENTS):
                total[k] += flow[k] * means[k]
                products[k] += flow[k] * (np.outer(means[k], means[k]) + rests[k])
    return {
        "count": count, "sum": total, "products": products, "weight": weights[None], "states": states
    }, log_likelihood  # fmt: skip


@pytest.mark.parametrize("target", [1, 2])
def test_statistics_are_differences_and_rows_that_units_draw(target):
    rng = np.random.default_rng(target)
    circuit, numbers = mixture(rng)
    model = plica.compile(circuit, dtype=torch.float64)
    x = np.concatenate([rng.normal(size=(12, 2)), rng.integers(0, STATES, (12, 1))], axis=1)
    x[rng.random(x.shape) < 0.25] = np.nan
    without = x.copy()
    without[:, target] = np.nan
    expectation = Expectation(model)
    predicting = Predicting(model, target)
    statistics = conditional_statistics(expectation, predicting, torch.as_tensor(x))

    (whole, whole_log), (others, others_log) = counted(numbers, x), counted(numbers, without)
    share = 1.0 - 1.0 / 3.0
    covariance = numbers["scale_tril"] @ numbers["scale_tril"].transpose(0, 2, 1)
    mean = numbers["mean"]
    number = others["count"]
    own = {
        "count": number,
        "sum": number[:, None] * mean,
        "products": number[:, None, None] * (covariance + mean[:, :, None] * mean[:, None, :]),
        "weight": others["weight"].sum() * numbers["weights"][None],
        "states": others["states"].sum(axis=1, keepdims=True) * numbers["classes"],
    }
    read = {name: value[0].numpy() for group in statistics.groups for name, value in group.items()}
    assert read.keys() == own.keys()
    for name, value in read.items():
        np.testing.assert_allclose(value, whole[name] - share * others[name] + own[name], atol=1e-9)
    objective = whole_log - share * others_log
    assert float(statistics.log_likelihood) == pytest.approx(objective, abs=1e-9)
    with torch.no_grad():
        assert float(predicting.train()(torch.as_tensor(x)).sum()) == pytest.approx(objective, abs=1e-9)
        assert float(predicting.eval()(torch.as_tensor(x)).sum()) == pytest.approx(whole_log - others_log, abs=1e-9)
    assert statistics.num_rows == 12


def test_what_the_rows_make_most_likely_changes_nothing():
    """Where components say nothing of the class, the gradient is that of the likelihood, which is 0 at its maximum."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(40, 1)), rng.integers(0, 2, (40, 1))], axis=1)
    mean, stddev, share = x[:, 0].mean(), x[:, 0].std(), x[:, 1].mean()
    number = GaussianLayer([0], 1, mean=leaf([mean]), stddev=leaf([stddev]))
    logits = Parameter.from_unary(LogSoftmaxParameter((1, 2)), leaf(np.log([[1 - share, share]])))
    label = CategoricalLayer([1], 1, num_categories=2, logits=logits)
    product = HadamardLayer(1, 2)
    circuit = plica.Circuit([number, label, product], {product: [number, label]}, [product])
    model = plica.compile(circuit, dtype=torch.float64)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    training = FullEM(0.0).training(Predicting(model, 1), Plan(40, 2, 1))
    for part in torch.as_tensor(x).split(20):
        training.step(part)
    training.end_epoch()
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(old, new.detach(), atol=1e-9, rtol=0.0)


def test_a_class_is_predicted_better_than_by_the_likelihood():
    """Two normal units cannot have the classes' shapes, so the likelihood draws the border in the wrong place."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 300)
    values = np.where(label == 0, rng.poisson(2.0, 300), 4 + 6 * rng.poisson(1.5, 300)).astype(np.float64)
    x = np.stack([values, label], axis=1)
    logits = Parameter.from_unary(LogSoftmaxParameter((2, 2)), leaf(np.log([[0.9, 0.1], [0.1, 0.9]])))
    numbers, labels = GaussianLayer([0], 2), CategoricalLayer([1], 2, num_categories=2, logits=logits)
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = plica.Circuit([numbers, labels, product, total], {product: [numbers, labels], total: [product]}, [total])
    model = plica.compile(circuit, dtype=torch.float64)
    model.reset_parameters(seed=0)
    fit(model, x, learner=FullEM(), epochs=30)
    result = fit(Predicting(model, 1), x, learner=FullEM(), epochs=20)
    generative, predicted = result.history[0].valid, result.history[result.best_epoch].valid
    assert predicted > generative + 0.01


def test_covariances_keep_a_tenth_in_every_direction():
    rng = np.random.default_rng(3)
    circuit, numbers = mixture(rng)
    model = plica.compile(circuit, dtype=torch.float64)
    expectation = Expectation(model)
    statistics = expectation.of(torch.as_tensor(np.concatenate([rng.normal(size=(9, 2)), np.ones((9, 1))], axis=1)))
    (place,) = (place for place, group in enumerate(statistics.groups) if "products" in group)
    vector, mean = dict(statistics.groups[place]), numbers["mean"]
    own = numbers["scale_tril"] @ numbers["scale_tril"].transpose(0, 2, 1)
    direction = np.array([2.0, -1.0])
    covariances = own.copy()
    covariances[1] -= 0.99 * np.outer(own[1] @ direction, own[1] @ direction) / (direction @ own[1] @ direction)
    covariances[2] -= 7.0 * np.outer(direction, direction)  # of no rows at all
    count = np.array([2.0, 3.0, 4.0])
    products = count[:, None, None] * (covariances + mean[:, :, None] * mean[:, None, :])
    vector |= {"count": torch.as_tensor(count)[None], "sum": torch.as_tensor(count[:, None] * mean)[None]}
    vector |= {"products": torch.as_tensor(products)[None]}
    groups = [vector if number == place else group for number, group in enumerate(statistics.groups)]
    bounded = within_reach(expectation, replace(statistics, groups=tuple(groups))).groups[place]
    left = bounded["products"][0].numpy() / count[:, None, None] - mean[:, :, None] * mean[:, None, :]
    np.testing.assert_allclose(left[0], own[0], atol=1e-9)
    least = [scipy.linalg.eigh(left[unit], own[unit], eigvals_only=True)[0] for unit in (1, 2)]
    np.testing.assert_allclose(least, 0.1, atol=1e-9)
    assert (
        scipy.linalg.eigh(left[2], covariances[2] + 7.0 * np.outer(direction, direction), eigvals_only=True)[1] > 0.99
    )


GRID = (np.arange(20_000) + 0.5) / 20_000  # evenly spaced levels of quantiles
VALUES: dict[type[Any], tuple[dict[str, Any], Any]] = {
    ExponentialLayer: ({"rate": [[0.5, 2.0]]}, lambda p: scipy.stats.expon.ppf(GRID[:, None], scale=1 / p["rate"])),
    PoissonLayer: ({"rate": [[0.5, 7.0]]}, lambda p: scipy.stats.poisson.ppf(GRID[:, None], p["rate"])),
    GaussianLayer: (
        {"mean": [[0.5, -2.0]], "stddev": [[1.0, 3.0]]},
        lambda p: scipy.stats.norm.ppf(GRID[:, None], p["mean"], p["stddev"]),
    ),
    LogNormalLayer: (
        {"loc": [[0.5, -2.0]], "scale": [[1.0, 0.3]]},
        lambda p: np.exp(scipy.stats.norm.ppf(GRID[:, None], p["loc"], p["scale"])),
    ),
    DiagonalGaussianLayer: (
        {"mean": [[[0.5], [-2.0]]], "stddev": [[[1.0], [3.0]]]},
        lambda p: scipy.stats.norm.ppf(GRID[:, None], p["mean"][..., 0], p["stddev"][..., 0]),
    ),
}


@pytest.mark.parametrize("layer", VALUES, ids=lambda layer: layer.__name__)
def test_units_draw_rows_of_the_statistics_that_they_say(layer):
    numbers, values = VALUES[layer]
    params = {name: np.array(value) for name, value in numbers.items()}
    form: Any = LAYER_ROWS[layer].closed_form
    own = form.own(np, params)
    for unit, column in enumerate(values(params).T):
        flows = np.zeros((1, len(GRID), 2))
        flows[:, :, unit] = 1.0 / len(GRID)
        expected = form.expected(np, None, params, column[None, :, None], np.zeros((1, len(GRID), 1), bool), flows)
        assert own.keys() == expected.keys()
        for name, value in own.items():
            np.testing.assert_allclose(value[0, unit], expected[name][0, unit], rtol=2e-3)


def test_a_layer_that_does_not_say_what_it_draws_is_refused():
    numbers, labels = GeometricLayer([0], 2), CategoricalLayer([1], 2, num_categories=2)
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    circuit = plica.Circuit([numbers, labels, product, total], {product: [numbers, labels], total: [product]}, [total])
    x = np.array([[1.0, 0.0], [3.0, 1.0]])
    with pytest.raises(UnsupportedError, match=r"cannot predict a variable with GeometricLayer.*by Adam"):
        fit(Predicting(plica.compile(circuit), 1), x, learner=FullEM(), epochs=1)
