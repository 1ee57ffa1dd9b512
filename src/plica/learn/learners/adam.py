"""Adam with torch's schedules, and a Dirichlet prior on normalized weights.

Source: D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", 2015; weight decay as in I. Loshchilov,
F. Hutter, "Decoupled Weight Decay Regularization", 2019 (AdamW).

>>> Adam(rate=0.05, schedule="one-cycle")
Adam(rate=0.05, schedule='one-cycle', weight_decay=0.0, pseudocount=0.0, apart=False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
)

from plica.arguments import flag, found, number
from plica.errors import DTypeError, InputError
from plica.learn.expectation import with_terms
from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.prior import DirichletPrior
from plica.learn.scores import log_likelihood

Schedule: TypeAlias = Callable[[Optimizer, int], LRScheduler]
"""Makes a schedule of an optimizer for a number of steps; each step of training is a step of the schedule."""

SCHEDULES: Mapping[str, Schedule] = {
    "constant": lambda optimizer, steps: ConstantLR(optimizer, factor=1.0, total_iters=steps),
    "cosine": lambda optimizer, steps: CosineAnnealingLR(optimizer, steps),  # half a cosine, to 0
    "linear": lambda optimizer, steps: LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=steps),
    "one-cycle": lambda optimizer, steps: OneCycleLR(optimizer, _rate(optimizer), total_steps=steps + 1),
}


@dataclass(frozen=True, slots=True)
class Adam(Learner):
    """Adam on the mean log-likelihood of each batch.

    Args:
        rate: The step size: at first, and under `one-cycle` at its highest.
        schedule: How the rate changes: a name in `SCHEDULES`, or a function from an optimizer and the number of steps
            to a schedule of torch.
        weight_decay: The part of each parameter, times the rate, that a step takes away.
        pseudocount: Imaginary rows for each distribution of n weights or probabilities, spread evenly over them: a
            Dirichlet prior with all entries 1 + pseudocount / n, whose mode is learned. It holds for weights of sums
            and probabilities of categories.
        apart: Whether each term of the output's sum learns all rows by itself, as a circuit of its own, so that the sum
            is the average of an ensemble; else terms share the rows, as those of a mixture do.

    Raises:
        DTypeError: A setting has a wrong type.
        InputError: A setting is out of range, or there is no schedule of that name.
    """

    name: ClassVar[str] = "adam"
    advice: ClassVar[str] = "try a smaller learning rate, or float64"

    rate: float = 0.1
    schedule: str | Schedule = "cosine"
    weight_decay: float = 0.0
    pseudocount: float = 0.0
    apart: bool = False

    def __post_init__(self) -> None:
        for name in ("rate", "weight_decay", "pseudocount"):
            value = number("Adam", name, getattr(self, name))
            if not 0 <= value < math.inf or (name == "rate" and value == 0):
                least = "above 0" if name == "rate" else "0 or more"
                raise InputError(f"Adam: {name} must be finite and {least}, found {value}")
            object.__setattr__(self, name, value)
        if isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", str(self.schedule))
            if self.schedule not in SCHEDULES:
                raise InputError(
                    f"Adam: there is no schedule {self.schedule!r}; choose one of {', '.join(SCHEDULES)}, or pass a "
                    "function from an optimizer and a number of steps to a schedule of torch"
                )
        elif not callable(self.schedule):
            raise DTypeError(f"Adam: schedule must be a name or a function, {found(self.schedule)}")
        flag("Adam", "apart", self.apart)

    def training(self, model: nn.Module, plan: Plan) -> AdamTraining:
        """The training of a model.

        Raises:
            UnsupportedError: There are pseudocounts, and a weight of the model is not normalized by a softmax. Or terms
                are to learn apart, and the model is no compiled circuit whose output is a sum of them.
            DTypeError: The function `schedule` returns no schedule that steps alone.
        """
        return AdamTraining(self, model, plan)


class AdamTraining(Training):
    """A model, its optimizer and its schedule.

    Args:
        learner: The settings.
        model: The model, whose parameters change.
        plan: How long it will learn.
    """

    def __init__(self, learner: Adam, model: nn.Module, plan: Plan) -> None:
        learnable = [p for p in model.parameters() if p.requires_grad]
        fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in learnable)
        self._apart = with_terms(model) if learner.apart else None
        self._model, self._learnable, self._ranks = model, learnable, plan.ranks
        self._optimizer = AdamW(learnable, lr=learner.rate, weight_decay=learner.weight_decay, fused=fused)
        make = SCHEDULES[learner.schedule] if isinstance(learner.schedule, str) else learner.schedule
        self._schedule = make(self._optimizer, max(1, plan.epochs * plan.steps_per_epoch))
        if not isinstance(self._schedule, LRScheduler) or isinstance(self._schedule, ReduceLROnPlateau):
            raise DTypeError(
                "Adam: schedule must return a torch.optim.lr_scheduler.LRScheduler that steps without a metric, "
                f"{found(self._schedule)}; stop on a plateau by fit(..., patience=...)"
            )
        self._prior = DirichletPrior(model, learner.pseudocount, plan.num_rows) if learner.pseudocount else None
        self.rate = _rate(self._optimizer)

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        """Learn from rows `(B, D)`, by the gradient of all processes: `Training.step` says more."""
        count = len(batch) if num_rows is None else num_rows
        self._optimizer.zero_grad(set_to_none=True)
        mean = torch.zeros((), device=batch.device)
        if len(batch):
            mean, learned = self._means(batch, count)
            loss = -learned if self._prior is None else -learned - len(batch) / count * self._prior.per_row()
            loss.backward()  # type: ignore[no-untyped-call]
        if self._ranks.size > 1:
            self._add_gradients()
        self._optimizer.step()
        self._schedule.step()
        self.rate = _rate(self._optimizer)
        return mean.detach()

    def _means(self, batch: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The log-likelihood of rows by a number, and what is learned: this, or the sum of those of all terms."""
        if self._apart is None:
            mean = log_likelihood(self._model, batch).sum() / count
            return mean, mean
        means = self._apart(batch).sum(dim=(0, 2)) / count  # of the output, and of each term
        return means[0], means[1:].sum()

    def _add_gradients(self) -> None:
        """Give each parameter the sum of its gradients over processes; none where no process has one."""
        own = [parameter.grad for parameter in self._learnable]
        present = torch.tensor(
            [grad is not None for grad in own], dtype=torch.float32, device=self._learnable[0].device
        )
        filled = [torch.zeros_like(p) if grad is None else grad for p, grad in zip(self._learnable, own, strict=True)]
        *sums, counts = self._ranks.sum([*filled, present])
        for parameter, total, count in zip(self._learnable, sums, counts.tolist(), strict=True):
            parameter.grad = total if count else None

    def end_epoch(self) -> None:
        """Called after the last batch of an epoch."""

    def log_prior(self) -> float:
        """The log-density of the prior per training row, but for a constant."""
        return 0.0 if self._prior is None else float(self._prior.per_row().detach())

    def state_dict(self) -> dict[str, Any]:
        """The moments of the optimizer, and where the schedule is."""
        return {"optimizer": self._optimizer.state_dict(), "schedule": self._schedule.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        self.rate = _rate(self._optimizer)


def _rate(optimizer: Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])
