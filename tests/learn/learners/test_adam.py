"""Adam: its schedules are torch's, and pseudocounts give the mode of the posterior."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

import plica
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.learn import Adam, FullEM, fit
from plica.learn.learners import LEARNERS, learner_settings, parse_learner
from plica.learn.learners.adam import SCHEDULES
from plica.learn.learners.base import Plan
from plica.learn.learners.prior import DirichletPrior
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, TensorParameter
from plica.templates import hclt
from tests.harness.circuits import pixels

FLOAT64 = torch.float64


def compiled(circuit: plica.Circuit) -> Any:
    model = plica.compile(circuit, dtype=FLOAT64)
    model.reset_parameters(seed=0)
    return model


def mixture(**categories: Any) -> plica.Circuit:
    """Three components of two columns: one of four categories, one real."""
    inputs = [CategoricalLayer([0], 3, num_categories=4, **categories), GaussianLayer([1], 3)]
    product, total = HadamardLayer(3, 2), SumLayer(3, 1)
    return plica.Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.slope * x)[:, :, None]


def rates(learner: Adam, steps: int) -> list[float]:
    model = Line()
    training = learner.training(model, Plan(steps, steps, 1))
    found = [training.rate]
    for _ in range(steps):
        training.step(torch.ones(1, 1))
        found.append(training.rate)
    return [float(rate) for rate in found if rate is not None]


def test_schedules_go_where_their_names_say() -> None:
    steps = np.arange(11)
    np.testing.assert_allclose(rates(Adam(0.2, "constant"), 10), 0.2)
    np.testing.assert_allclose(rates(Adam(0.2, "linear"), 10), 0.2 * (1 - steps / 10), atol=1e-12)
    np.testing.assert_allclose(rates(Adam(0.2, "cosine"), 10), 0.1 * (1 + np.cos(np.pi * steps / 10)), atol=1e-12)
    cycle = rates(Adam(0.2, "one-cycle"), 100)
    assert max(cycle) == pytest.approx(0.2, rel=1e-3)
    assert cycle[0] == pytest.approx(0.2 / 25)
    assert cycle[-1] < 1e-5


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_schedules_of_any_length(schedule: str, steps: int) -> None:
    assert len(rates(Adam(0.2, schedule), steps)) == steps + 1


def test_a_schedule_of_torch_is_a_function() -> None:
    decay = Adam(0.2, lambda optimizer, _: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
    np.testing.assert_allclose(rates(decay, 3), [0.2, 0.1, 0.05, 0.025])
    plateau = Adam(0.2, lambda optimizer, _: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    for wrong in (plateau, Adam(0.2, lambda *_: 0.1)):  # type: ignore[arg-type]
        with pytest.raises(DTypeError, match=r"schedule must return a torch.optim.lr_scheduler.LRScheduler"):
            rates(wrong, 1)


def test_steps_are_those_of_torch() -> None:
    rows = torch.tensor(np.random.default_rng(0).integers(0, 3, (60, 4)))
    model, other = compiled(pixels(2, 3)), compiled(pixels(2, 3))
    training = Adam(0.1, "constant", weight_decay=0.1).training(model, Plan(60, 3, 2))
    optimizer = torch.optim.AdamW(other.parameters(), lr=0.1, weight_decay=0.1)
    for batch in torch.split(rows, 20):
        optimizer.zero_grad()
        mean = other(batch).mean()
        (-mean).backward()
        optimizer.step()
        assert float(training.step(batch)) == pytest.approx(float(mean.detach()), abs=1e-12)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "circuit", [mixture(), pixels(2, 3), hclt(np.eye(4, dtype=int), 2)], ids=["mixture", "image", "tree"]
)
def test_the_prior_is_the_sum_of_logarithms_of_weights(circuit: plica.Circuit) -> None:
    model = compiled(circuit)
    names = [name for name in model.state_dict() if name.rpartition(".")[2] in ("weight", "logits", "probs")]
    assert names
    logs = [log_softmax(model.state_dict()[name].numpy(), axis=-1).mean(-1).sum() for name in names]
    expected = 2.5 / 40 * sum(logs)
    assert float(DirichletPrior(model, 2.5, 40).per_row().detach()) == pytest.approx(expected, rel=1e-12)


def test_learning_with_pseudocounts_finds_the_mode_of_the_posterior() -> None:
    """The mode of a Dirichlet posterior with entries count + 1 + pseudocount / 4 is known."""
    layer = CategoricalLayer([0], 1, num_categories=4)
    rows = np.repeat([0, 1, 2], [10, 5, 1])[:, None]  # category 3 is never seen
    model = compiled(plica.Circuit([layer], {}, [layer]))
    result = fit(model, rows, learner=Adam(0.1, "linear", pseudocount=2.0), epochs=300, batch=16)
    (logits,) = model.state_dict().values()
    mode = np.array([10.5, 5.5, 1.5, 0.5]) / 18
    np.testing.assert_allclose(logits.softmax(-1).numpy()[0], mode, atol=1e-5)
    expected = (np.log(mode) * [10, 5, 1, 0]).sum() / 16 + 0.5 / 16 * np.log(mode).sum()
    assert result.history[result.best_epoch].valid == pytest.approx(expected, abs=1e-9)


def test_pseudocounts_mean_the_same_to_all_learners() -> None:
    rows = np.repeat([0, 1, 2], [10, 5, 1])[:, None]
    logits = []
    for learner in (Adam(0.1, "linear", pseudocount=2.0), FullEM(pseudocount=2.0)):
        layer = CategoricalLayer([0], 1, num_categories=4)
        model = compiled(plica.Circuit([layer], {}, [layer]))
        fit(model, rows, learner=learner, epochs=300, batch=16)
        logits.append(next(iter(model.state_dict().values())).softmax(-1).numpy())
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)


def test_weights_that_are_zero_for_good_stay_zero() -> None:
    model = compiled(mixture())
    with torch.no_grad():
        leaf = next(tensor for _, tensor in model.leaves.items() if tensor.shape[1:] == (3, 4))
        leaf[0, 0, 2] = -torch.inf
    training = Adam(0.1, pseudocount=1.0).training(model, Plan(2, 1, 1))
    rows = torch.tensor([[0.0, 0.5], [1.0, -0.5]], dtype=FLOAT64)
    for _ in range(2):
        assert bool(training.step(rows).isfinite())
    assert float(leaf[0, 0, 2].detach()) == -torch.inf
    assert int(leaf.isfinite().sum()) == 11


def test_shared_weights_count_once() -> None:
    first = CategoricalLayer([0], 2, num_categories=3)
    second = CategoricalLayer([1], 2, num_categories=3, logits=first.params["logits"].ref())
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    model = compiled(
        plica.Circuit([first, second, product, total], {product: [first, second], total: [product]}, [total])
    )
    state = model.state_dict()
    assert len(state) == 2
    expected = sum(log_softmax(value.numpy(), axis=-1).mean(-1).sum() for value in state.values())
    assert float(DirichletPrior(model, 1.0, 1).per_row().detach()) == pytest.approx(expected, rel=1e-12)


def _unnormalized() -> plica.Circuit:
    return mixture(logits=TensorParameter(3, 4, initializer=NormalInitializer()))


def _fixed() -> plica.Circuit:
    probs = ConstantParameter(1, 4, value=0.25)
    layer = CategoricalLayer([0], 1, num_categories=4, probs=probs)
    return plica.Circuit([layer], {}, [layer])


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (
            _unnormalized(),
            r"the parameter logits of CategoricalLayer\(0, scope=\{0\}, 3\) is learned and is not the softmax",
        ),
        (_fixed(), "no weight of the circuit is learned and normalized"),
    ],
    ids=["unnormalized", "fixed"],
)
def test_a_prior_on_other_weights_is_refused(circuit: plica.Circuit, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Adam(pseudocount=1.0).training(compiled_with_a_parameter(circuit), Plan(1, 1, 1))


def compiled_with_a_parameter(circuit: plica.Circuit) -> Any:
    model = compiled(circuit)
    model.further = nn.Parameter(torch.zeros(()))
    return model


def test_a_prior_needs_a_circuit() -> None:
    with pytest.raises(UnsupportedError, match="on the weights of a compiled circuit, found Linear"):
        Adam(pseudocount=1.0).training(nn.Linear(1, 1), Plan(1, 1, 1))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"rate": 0}, InputError, "rate must be finite and above 0, found 0"),
        ({"rate": float("nan")}, InputError, "rate must be finite and above 0, found nan"),
        ({"rate": "fast"}, DTypeError, "rate must be a number, found 'fast'"),
        ({"weight_decay": -1}, InputError, "weight_decay must be finite and 0 or more, found -1"),
        ({"pseudocount": float("inf")}, InputError, "pseudocount must be finite and 0 or more"),
        ({"apart": "yes"}, DTypeError, "apart"),
        ({"schedule": "step"}, InputError, "there is no schedule 'step'; choose one of constant, cosine"),
        ({"schedule": 3}, DTypeError, "schedule must be a name or a function, found 3"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Adam(**settings)


def test_learners_are_read_and_described() -> None:
    for name, learner in LEARNERS.items():
        assert parse_learner(name) == learner()
        assert learner_settings(learner())["name"] == name
    assert parse_learner("adam: weight-decay = 0.1", rate=0.5, schedule=None) == Adam(0.5, weight_decay=0.1)
    described = learner_settings(Adam(schedule=torch.optim.lr_scheduler.StepLR))
    assert described["schedule"] == "torch.optim.lr_scheduler.StepLR"
