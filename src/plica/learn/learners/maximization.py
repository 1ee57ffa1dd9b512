"""What learners by expectation maximization share: the model's steps, and Adam for leaves without a closed form."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from plica.arguments import shown
from plica.errors import InputError, UnsupportedError
from plica.learn.expectation import Expectation, Statistics
from plica.learn.learners.base import Plan


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

    Args:
        model: The model.
        plan: How long it learns.
        rate: Adam's rate at the start, which falls to zero along a half cosine.
        apart: Whether each term of the output's sum learns as a circuit of its own.

    Raises:
        UnsupportedError: The model has no expected counts, or no leaf with a closed form.
    """

    def __init__(self, model: nn.Module, plan: Plan, rate: float, *, apart: bool = False) -> None:
        self.expectation, self._ranks = Expectation(model, apart=apart), plan.ranks
        if not self.expectation.groups:
            raise UnsupportedError(
                f"expectation maximization has no closed form for any leaf of the model; {self.reasons()}; learn it by "
                "Adam"
            )
        tensors = [self._tensor(leaf) for leaf in self.expectation.rest]
        self._distinct = list(dict.fromkeys(tensors))
        self._adam = torch.optim.Adam(self._distinct, lr=rate) if self._distinct else None
        steps = max(1, plan.epochs * plan.steps_per_epoch)
        self._schedule = (
            torch.optim.lr_scheduler.CosineAnnealingLR(self._adam, steps) if self._adam is not None else None
        )

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.expectation.model.leaves.device

    def reasons(self) -> str:
        """Why layers have no closed form, the first few."""
        circuit = self.expectation.model.symbolic
        refused = list(self.expectation.sites.refused.items())
        if not refused:
            return "no leaf is learned"
        return "; ".join(f"{circuit.layer_name(layer)}: {why}" for layer, why in refused[:2])

    def step_rest(self, statistics: Statistics) -> None:
        """One step of Adam on the leaves without a closed form, by the gradients of all processes."""
        if self._adam is None or self._schedule is None:
            return
        gradients = dict(zip(statistics.gradients, self._ranks.sum(list(statistics.gradients.values())), strict=True))
        with torch.no_grad():
            for tensor in self._distinct:
                tensor.grad = torch.zeros_like(tensor)
            for leaf, gradient in gradients.items():
                tensor, fold = self._place(leaf)
                tensor.grad[fold] -= gradient / statistics.num_rows  # type: ignore[index]  # set above
        self._adam.step()
        self._schedule.step()
        for tensor in self._distinct:
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The state of Adam and of its schedule; empty without them."""
        if self._adam is None or self._schedule is None:
            return {}
        return {"adam": self._adam.state_dict(), "schedule": self._schedule.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        if self._adam is not None and self._schedule is not None:
            self._adam.load_state_dict(state["adam"])
            self._schedule.load_state_dict(state["schedule"])

    def _place(self, leaf: Any) -> tuple[Tensor, int]:
        for name, folded in self.expectation.model.leaves.attributes():
            if leaf in folded.members:
                return getattr(self.expectation.model.leaves, name), folded.members.index(leaf)
        raise AssertionError("a leaf of the model")

    def _tensor(self, leaf: Any) -> Tensor:
        return self._place(leaf)[0]


def mean_log_likelihood(statistics: Statistics) -> Tensor:
    """The sum of the log-likelihoods of rows by their number, of shape `()`: what `Training.step` returns."""
    return statistics.log_likelihood / statistics.num_rows
