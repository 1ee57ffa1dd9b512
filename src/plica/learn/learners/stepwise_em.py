"""Expectation maximization in small steps: the statistics of each batch replace a part of those before.

>>> StepwiseEM(start=0.5)
StepwiseEM(start=0.5, end=0.02, pseudocount=1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from plica.learn.expectation import Statistics
from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number, mean_log_likelihood

_RATE = 0.05  # of Adam, for leaves without a closed form


@final
@dataclass(frozen=True, slots=True)
class StepwiseEM(Learner):
    """Stepwise expectation maximization: an update for each batch.

    Step t replaces a share of the statistics per row, `s = (1 - r) s + r s_batch`, and gives every leaf the numbers
    that make `s` most likely. The share r falls from `start` to `end` in equal ratios over all steps that were planned.
    Leaves without a closed form take a step of Adam for each batch.

    Args:
        start: The share at the first step, above 0 and at most 1.
        end: The share at the last step, above 0 and at most 1.
        pseudocount: Imaginary rows for each distribution beside all rows of an epoch, as of `FullEM`.

    Raises:
        InputError: A setting is outside its range.

    Source: Cappe and Moulines, "On-line expectation-maximization algorithm for latent data models", 2009; Liang and
        Klein, "Online EM for unsupervised models", 2009.
    """

    name: ClassVar[str] = "stepwise-em"
    start: float = 0.5
    end: float = 0.02
    pseudocount: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            share = check_number("StepwiseEM", name, getattr(self, name), above=0.0, most=1.0)
            object.__setattr__(self, name, share)
        object.__setattr__(self, "pseudocount", check_number("StepwiseEM", "pseudocount", self.pseudocount))

    def share(self, step: int, steps: int) -> float:
        """The share of step number `step`, counted from 0, of so many steps."""
        part = min(step / max(1, steps - 1), 1.0)
        return float(self.start * (self.end / self.start) ** part)

    def training(self, model: nn.Module, plan: Plan) -> Training:
        """What trains a model."""
        return _Training(self, Maximization(model, plan, _RATE), plan)


@final
class _Training(Training):
    """The statistics per row so far, and the number of steps."""

    def __init__(self, learner: StepwiseEM, maximization: Maximization, plan: Plan) -> None:
        self._learner, self._maximization, self._plan = learner, maximization, plan
        self._statistics: Statistics | None = None
        self._step = 0

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        expectation = self._maximization.expectation
        statistics = expectation.of(batch, wide=False).among(num_rows).summed(self._plan.ranks)
        self._maximization.step_rest(statistics)
        per_row = statistics.scaled(1.0 / statistics.num_rows)
        steps = self._plan.epochs * self._plan.steps_per_epoch
        share = self._learner.share(self._step, steps)
        if self._statistics is None:
            self._statistics = per_row
        else:
            self._statistics = self._statistics.moved_to(per_row, share)
        expectation.maximize(self._statistics, self._learner.pseudocount / max(1, self._plan.num_rows))
        self._step += 1
        return mean_log_likelihood(statistics)

    def end_epoch(self) -> None:
        """Nothing is left to do."""

    def state_dict(self) -> dict[str, Any]:
        counted = None if self._statistics is None else self._statistics.state()
        return {"step": self._step, "statistics": counted, "rest": self._maximization.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        counted = state["statistics"]
        self._statistics = None if counted is None else Statistics.of_state(counted, self._maximization.device)
        self._step = state["step"]
        self._maximization.load_state_dict(state["rest"])
