"""Expectation maximization in small steps: the statistics of each batch replace a part of those before.

>>> StepwiseEM(start=0.5)
StepwiseEM(start=0.5, end=0.02, pseudocount=1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number


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

    def training(self, model: nn.Module, plan: Plan) -> Training:
        """The training of a model."""
        return StepwiseTraining(Maximization(model, plan), plan, self.pseudocount, (self.start, self.end))


@final
class StepwiseTraining(Training):
    """Replaces a share of the statistics per row by those of each batch, and learns what they say.

    Args:
        maximization: The steps for the model.
        plan: How long it learns.
        pseudocount: Imaginary rows for each distribution beside all rows of an epoch.
        shares: The share at the first step and at the last.
        length: The length of the first step, as of `Expectation.maximize`; it falls to 1 in equal ratios.
    """

    def __init__(
        self,
        maximization: Maximization,
        plan: Plan,
        pseudocount: float,
        shares: tuple[float, float],
        length: float = 1.0,
    ) -> None:
        self._maximization, self._shares, self._length = maximization, shares, length
        self._pseudocount = pseudocount / max(1, plan.num_rows)
        self._last = max(1, plan.epochs * plan.steps_per_epoch - 1)
        self._step, self._ranks = 0, plan.ranks

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        """See `Training.step`."""
        maximization, (first, last) = self._maximization, self._shares
        statistics = maximization.expectation.of(batch, wide=False).among(num_rows).summed(self._ranks)
        maximization.step_rest(statistics)
        part = min(self._step / self._last, 1.0)
        per_row, before = statistics.scaled(1.0 / statistics.num_rows), maximization.statistics
        now = per_row if before is None else before.moved_to(per_row, first * (last / first) ** part)
        maximization.expectation.maximize(now, self._pseudocount, self._length ** (1.0 - part))
        maximization.statistics = now
        self._step += 1
        return statistics.log_likelihood / statistics.num_rows

    def end_epoch(self) -> None:
        """Nothing is left to do."""

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and the state of `maximization`."""
        return {"step": self._step, **self._maximization.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._step = state["step"]
        self._maximization.load_state_dict(state)
