"""Learners that update after each batch."""

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError
from plica.learn.learners.anemone import Anemone
from plica.learn.learners.base import Plan
from plica.learn.learners.full_em import FullEM
from plica.learn.learners.stepwise_em import StepwiseEM
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.templates import hclt

LEARNERS = [StepwiseEM(), Anemone()]


def tree(dtype=torch.float32, seed=0):
    """A hidden tree, and rows of three groups of columns that agree."""
    rng = np.random.default_rng(seed)
    rows = (rng.integers(2, size=(400, 3)).repeat(3, 1) ^ (rng.random((400, 9)) < 0.1)).astype(np.int64)
    model = plica.compile(hclt(rows, 4)).to(dtype)
    model.reset_parameters(seed=seed)
    return model, torch.as_tensor(rows)


def train(learner, model, rows, epochs, size=50):
    batches = torch.split(rows, size)
    training = learner.training(model, Plan(len(rows), len(batches), epochs))
    history = []
    for _ in range(epochs):
        history.append(sum(float(training.step(batch)) * len(batch) for batch in batches) / len(rows))
        training.end_epoch()
    return history


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_a_few_epochs_go_beyond_as_many_of_full_updates(learner):
    model, rows = tree()
    before = model(rows).mean().item()
    history = train(learner, model, rows, epochs=4)
    other, _ = tree()
    full = train(FullEM(), other, rows, epochs=4)
    assert before < history[0] < history[-1]
    assert model(rows).mean().item() > other(rows).mean().item()
    assert full[0] == pytest.approx(before, abs=1e-4)


def test_a_share_of_1_and_one_batch_is_full_expectation_maximization():
    results = []
    for learner in (FullEM(), StepwiseEM(1.0, 1.0), Anemone(step=1.0)):
        model, rows = tree(torch.float64)
        train(learner, model, rows, epochs=1, size=400)
        results.append(model(rows))
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(results[2], results[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_training_goes_on_from_its_state(learner):
    results = []
    for interrupted in (False, True):
        model, rows = tree(torch.float64)
        plan = Plan(100, 4, 1)
        training = learner.training(model, plan)
        for number, batch in enumerate(torch.split(rows[:100], 25)):
            if interrupted and number == 2:
                state = training.state_dict()
                training = learner.training(model, plan)
                training.load_state_dict(state)
            training.step(batch)
        results.append(model.state_dict())
    for key, value in results[0].items():
        assert torch.equal(value, results[1][key])


@pytest.mark.parametrize("learner", [FullEM(), *LEARNERS], ids=lambda learner: learner.name)
def test_statistics_of_a_state_are_on_the_device_of_the_model(learner):
    """States are read onto the CPU; `meta` stands for a GPU here, since a sum with statistics of the CPU would fail."""
    model, rows = tree()
    training = learner.training(model, Plan(40, 2, 1))
    training.step(rows[:20])
    state = training.state_dict()
    resumed = learner.training(model, Plan(40, 2, 1))
    model.leaves.to("meta")
    resumed.load_state_dict(state)
    statistics = resumed._maximization.statistics
    tensors = [numbers for group in statistics.groups for numbers in group.values()]
    assert {str(tensor.device) for tensor in [*tensors, statistics.log_likelihood]} == {"meta"}


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_columns_with_holes(learner, dtype):
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(200, 2)) + 4 * rng.integers(2, size=(200, 1)), dtype=dtype)
    x[torch.as_tensor(rng.random((200, 2)) < 0.3)] = torch.nan
    inputs, product, mix = [GaussianLayer([v], 2) for v in (0, 1)], HadamardLayer(2, 2), SumLayer(2, 1)
    model = plica.compile(plica.Circuit([*inputs, product, mix], {product: inputs, mix: [product]}, [mix])).to(dtype)
    model.reset_parameters(seed=0)
    history = train(learner, model, x, epochs=5)
    assert history[-1] > history[0]
    assert all(value.isfinite().all() for value in model.state_dict().values())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepwiseEM(0.0), "StepwiseEM: start must be a finite number above 0"),
        (lambda: StepwiseEM(end=1.5), "StepwiseEM: end must be a finite number above 0 and at most 1, found 1.5"),
        (lambda: StepwiseEM(pseudocount=-1), "StepwiseEM: pseudocount must be a finite number at least 0"),
        (lambda: Anemone(step=2.0), "Anemone: step must be a finite number at least 1 and below 2, found 2.0"),
        (lambda: Anemone(step=0.5), "Anemone: step"),
        (lambda: Anemone(momentum=1.0), "Anemone: momentum must be a finite number at least 0.5 and below 1"),
        (lambda: Anemone(pseudocount=float("nan")), "Anemone: pseudocount"),
    ],
)
def test_settings_outside_their_ranges_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
