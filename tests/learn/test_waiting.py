"""Steps of expectation maximization on a device, which nobody waits for: what they read, and what they give."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import plica
from plica.errors import InputError
from plica.learn import Anemone, FullEM, StepwiseEM, fit, flows
from plica.learn.expectation import Expectation
from plica.symbolic.layers import BernoulliLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.templates import hclt
from tests.harness.circuits import constant
from tests.harness.devices import forbid_branches

READS = {"_local_scalar_dense", "nonzero", "item", "is_nonzero", "equal"}
PACKAGE = Path(plica.__file__).parent
COPIES = {"lift_fresh", "lift_fresh_copy"}


class Operations(TorchDispatchMode):
    """The names of operations that modules of `plica.learn` call; the circuit has branches of its own for the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        files = [Path(frame.filename) for frame in traceback.extract_stack()]
        if [file for file in files if file.is_relative_to(PACKAGE)][-1].parent.name == "learn":
            self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def model_and_rows() -> tuple[Any, torch.Tensor]:
    """A hidden tree of columns of two and of three states, so that groups have several places."""
    random = np.random.default_rng(0)
    rows = np.concatenate([random.integers(2, size=(60, 3)), random.integers(3, size=(60, 4))], axis=1)
    model = plica.compile(hclt(rows, 3, input_layer=["categorical"] * 7))
    model.reset_parameters(seed=0)
    return model, torch.as_tensor(rows)


@pytest.mark.parametrize("learner", [FullEM(), FullEM(0.0), StepwiseEM(), Anemone()], ids=str)
def test_a_device_learns_the_same(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    for is_device in (False, True):
        if is_device:
            forbid_branches(monkeypatch)
        model, rows = model_and_rows()
        model = model.double()
        fit(model, rows, learner=learner, epochs=2, batch=20)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pseudocount", [0.0, 1.0])
def test_a_step_reads_nothing_from_the_device(pseudocount: float, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_branches(monkeypatch)
    model, rows = model_and_rows()
    expectation = Expectation(model)
    for _ in range(2):  # the first one lowers the circuit and copies indices
        with Operations() as seen:
            statistics = expectation.of(rows)
            expectation.maximize(statistics, pseudocount)
    assert "div" in seen.names  # shares of counts
    assert seen.names.isdisjoint(READS | COPIES), seen.names & (READS | COPIES)


def impossible() -> Any:
    coins = BernoulliLayer([0], 1, probs=constant(np.ones(1)))
    normal, mix = GaussianLayer([1], 1), SumLayer(1, 1)
    both = HadamardLayer(1, 2)
    return plica.compile(plica.Circuit([coins, normal, both, mix], {both: [coins, normal], mix: [both]}, [mix]))


def test_a_row_that_nothing_explains_ends_the_epoch_before_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_branches(monkeypatch)
    model, rows = impossible(), torch.tensor([[1.0, 0.5], [0.0, 2.0]])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match="epoch 1, batch 1 of 1: the loss is inf, learned by full-em"):
        fit(model, rows, learner=FullEM(), epochs=1, batch=2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    with pytest.raises(InputError, match="1 of 2 rows have probability 0, the first one is row 1"):
        flows(model, rows)
