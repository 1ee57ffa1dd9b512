"""Averages of circuits: their value, and members that Adam trains as if each were alone."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.learn import Adam, FullEM, fit
from plica.learn.learners.base import Plan
from plica.symbolic.circuit import Circuit
from plica.templates import hclt
from plica.templates.averages import average

ROWS = np.random.default_rng(0).integers(0, 2, (60, 5))
HOLED = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.2, np.nan, ROWS)


def members() -> list[Circuit]:
    """Two members of other sizes and structures."""
    return [
        hclt(ROWS, 3, num_trees=2, start="clusters", seed=0),
        hclt(ROWS, 2, start="data", seed=2),
    ]


def compiled(circuit: Circuit) -> Any:
    return plica.compile(circuit).double()


def average_of(parts: list[Any], rows: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(torch.stack([part(rows) for part in parts]), 0) - np.log(len(parts))


@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_members_that_adam_trains_apart_learn_as_alone(pseudocount: float) -> None:
    rows = torch.as_tensor(HOLED)
    together, parts = compiled(average(members())), [compiled(member) for member in members()]
    torch.testing.assert_close(together(rows), average_of(parts, rows), rtol=1e-9, atol=1e-9)
    result = fit(together, rows, rows, learner=Adam(0.01, pseudocount=pseudocount, apart=True), epochs=3, batch=20)
    for part in parts:
        fit(part, rows, rows, learner=Adam(0.01, pseudocount=pseudocount), epochs=3, batch=20)
    expected = average_of(parts, rows)
    torch.testing.assert_close(together(rows), expected, rtol=1e-7, atol=1e-7)
    assert result.history[-1].valid == pytest.approx(float(expected.mean().detach()))
    shared = compiled(average(members()))
    fit(shared, rows, rows, learner=Adam(0.01, pseudocount=pseudocount), epochs=3, batch=20)
    assert float((shared(rows) - expected).abs().max().detach()) > 1e-3


def test_a_step_tells_the_log_likelihood_of_the_average() -> None:
    model, rows = compiled(average(members())), torch.as_tensor(ROWS)
    expected = float(model(rows).mean().detach())
    assert float(Adam(apart=True).training(model, Plan(60, 1, 1)).step(rows)) == pytest.approx(expected, abs=1e-12)


def test_a_run_apart_goes_on_from_its_checkpoint(tmp_path: Any) -> None:
    def stop(epoch: Any) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    def learned(**settings: Any) -> Any:
        return fit(compiled(average(members())), ROWS, learner=Adam(apart=True), epochs=4, batch=20, **settings)

    learned(checkpoint=tmp_path / "checkpoint", on_epoch=stop)
    resumed, whole = learned(checkpoint=tmp_path / "checkpoint", resume=True), learned()
    for name, value in whole.best_state.items():
        assert torch.equal(value, resumed.best_state[name])


@pytest.mark.parametrize("learner", [Adam(apart=True), FullEM(apart=True)])
def test_a_mixture_whose_weights_are_learned_has_no_members(learner: Any) -> None:
    model = compiled(hclt(ROWS, 1, num_trees=2))
    with pytest.raises(UnsupportedError, match="have a sum whose weights are not learned"):
        learner.training(model, Plan(60, 1, 1))


def test_members_belong_to_a_circuit() -> None:
    with pytest.raises(UnsupportedError):
        Adam(apart=True).training(torch.nn.Linear(1, 1), Plan(1, 1, 1))


def test_averages_of_other_things_are_refused() -> None:
    whole = hclt(ROWS, 2)
    with pytest.raises(InputError, match="average: expected at least one circuit, all of the same variables, found 0"):
        average([])
    with pytest.raises(InputError, match="all of the same variables, found 2"):
        average([whole, hclt(ROWS[:, :3], 2)])
    with pytest.raises(DTypeError, match=r"average: expected circuits .*found 1 of type int"):
        average([1])  # type: ignore[list-item]
    with pytest.raises(DTypeError, match="average: circuits must be a sequence"):
        average(whole)  # type: ignore[arg-type]
    several = whole.subgraph(*whole.layer_inputs(whole.outputs[0]))
    with pytest.raises(InputError, match="average: each circuit must have one output of one unit"):
        average([several, several])
