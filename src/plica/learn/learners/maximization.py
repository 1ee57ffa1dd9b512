"""What learners by expectation maximization share: the model's steps, and Adam for leaves without a closed form."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from numbers import Real
from typing import Any

import torch
from torch import nn
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

from plica.arguments import shown
from plica.errors import InputError, UnsupportedError
from plica.learn.expectation import Expectation, Statistics
from plica.learn.graphs import Tensors
from plica.learn.learners.base import Plan

_RATE = 0.05  # of Adam at the start, for leaves without a closed form


def check_number(
    owner: str,
    name: str,
    value: Any,
    *,
    least: float = 0.0,
    above: float | None = None,
    below: float = inf,
    most: float = inf,
) -> float:
    """A setting that is a number in a range, as a plain float.

    Args:
        owner: The class of the setting.
        name: The setting.
        value: Its value.
        least: The least number that it may be.
        above: What it must be above, in place of `least`.
        below: What it must be below.
        most: The largest number that it may be.

    Raises:
        InputError: It is none.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number and (value >= least if above is None else value > above) and value < below and value <= most:
        return float(value)
    lower = f"at least {least:g}" if above is None else f"above {above:g}"
    upper = f" and at most {most:g}" if most < below else f" and below {below:g}" if below < inf else ""
    raise InputError(f"{owner}: {name} must be a finite number {lower}{upper}, found {shown(value)}")


class Maximization:
    """The steps of expectation maximization for one model; leaves without a closed form take steps of Adam.

    Adam's rate falls to zero along a half cosine.

    Args:
        model: The model.
        plan: How long it learns.
        apart: Whether each term of the output's sum learns as a circuit of its own.

    Attributes:
        expectation: The expected statistics of its rows.
        statistics: What the learner has gathered so far; None before its first rows.

    Raises:
        UnsupportedError: The model has no expected counts, or no leaf with a closed form.
    """

    def __init__(self, model: nn.Module, plan: Plan, *, apart: bool = False) -> None:
        self.expectation, self._ranks = Expectation(model, apart=apart), plan.ranks
        self.statistics: Statistics | None = None
        if not self.expectation.groups:
            raise UnsupportedError(
                f"expectation maximization has no closed form for any leaf of the model; {self._reasons()}; learn it "
                "by Adam"
            )
        leaves, tensors = self.expectation.model.leaves, Tensors(model)
        places = {leaf: tensors.place(leaf) for leaf in self.expectation.rest}
        self._places: dict[Any, tuple[Any, int]] = {
            leaf: (getattr(leaves, name), fold) for leaf, (name, fold) in places.items()
        }
        self._tensors = list(dict.fromkeys(tensor for tensor, _ in self._places.values()))
        self._schedule: CosineAnnealingLR | None = None
        if self._tensors:
            self._schedule = CosineAnnealingLR(
                Adam(self._tensors, lr=_RATE), max(1, plan.epochs * plan.steps_per_epoch)
            )

    def _reasons(self) -> str:
        """Why layers have no closed form, the first two."""
        circuit = self.expectation.model.symbolic
        refused = list(self.expectation.sites.refused.items())
        if not refused:
            return "no leaf is learned"
        return "; ".join(f"{circuit.layer_name(layer)}: {why}" for layer, why in refused[:2])

    def step_rest(self, statistics: Statistics) -> None:
        """One step of Adam on the leaves without a closed form, by the gradients of all processes."""
        if self._schedule is None:
            return
        gradients = dict(zip(statistics.gradients, self._ranks.sum(list(statistics.gradients.values())), strict=True))
        with torch.no_grad():
            for tensor in self._tensors:
                tensor.grad = torch.zeros_like(tensor)
            for leaf, gradient in gradients.items():
                tensor, fold = self._places[leaf]
                tensor.grad[fold] -= gradient / statistics.num_rows
        self._schedule.optimizer.step()
        self._schedule.step()
        self._schedule.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """The statistics, and the states of Adam and of its schedule; without Adam no states."""
        counted = None if self.statistics is None else self.statistics.state()
        rest: dict[str, Any] = {}
        if self._schedule is not None:
            rest = {"adam": self._schedule.optimizer.state_dict(), "schedule": self._schedule.state_dict()}
        return {"statistics": counted, "rest": rest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        counted, rest = state["statistics"], state["rest"]
        device = self.expectation.model.leaves.device
        self.statistics = None if counted is None else Statistics.of_state(counted, device)
        if self._schedule is not None:
            self._schedule.optimizer.load_state_dict(rest["adam"])
            self._schedule.load_state_dict(rest["schedule"])
