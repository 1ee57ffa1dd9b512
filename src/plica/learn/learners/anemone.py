"""Mini-batch expectation maximization with long steps in the logarithms of weights, and a memory of statistics.

>>> Anemone(momentum=0.8)
Anemone(step=1.9, momentum=0.8, pseudocount=1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, final

from torch import Tensor, nn

from plica.learn.expectation import Statistics
from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number, mean_log_likelihood

_RATE = 0.05  # of Adam, for leaves without a closed form
_FIRST_SHARE = 0.5  # of the first batches in the statistics


@final
@dataclass(frozen=True, slots=True)
class Anemone(Learner):
    """Over-relaxed expectation maximization on batches: of these learners the fastest for hidden trees.

    Each batch moves the statistics per row, `s = m s + (1 - m) s_batch`. With w the shares that make `s` most likely,
    weights and states move along `log w_new = log w_old + a (log w - log w_old)`, normalized: a proximal step, in
    which a = 1 is the update of expectation maximization. `a` falls from `step` to 1, and `1 - m` from 0.5 to
    `1 - momentum`, both in equal ratios over all steps that were planned. Numbers of other distributions take a = 1,
    and leaves without a closed form a step of Adam.

    Args:
        step: `a` at the start, at least 1 and below 2, where expectation maximization no longer converges.
        momentum: `m` at the end, at least 0.5 and below 1.
        pseudocount: Imaginary rows for each distribution beside all rows of an epoch, as of `FullEM`.

    Raises:
        InputError: A setting is outside its range.

    Source: the view of mini-batch expectation maximization as a proximal step, with momentum, is that of Anemone
        (arXiv 2505.19982), which gave the name; the schedules here and what the momentum applies to are our own, and
        no figures of that paper are claimed. The long steps: Salakhutdinov and Roweis, "Adaptive overrelaxed bound
        optimization methods", 2003.
    """

    name: ClassVar[str] = "anemone"
    step: float = 1.9
    momentum: float = 0.9
    pseudocount: float = 1.0

    def __post_init__(self) -> None:
        ranges = {"step": (1.0, 2.0), "momentum": (1 - _FIRST_SHARE, 1.0), "pseudocount": (0.0, inf)}
        for name, (least, below) in ranges.items():
            value = check_number("Anemone", name, getattr(self, name), least=least, below=below)
            object.__setattr__(self, name, value)

    def training(self, model: nn.Module, plan: Plan) -> Training:
        """What trains a model."""
        return _Training(self, Maximization(model, plan, _RATE), plan)


@final
class _Training(Training):
    """The statistics per row so far, and the number of steps."""

    def __init__(self, learner: Anemone, maximization: Maximization, plan: Plan) -> None:
        self._learner, self._maximization, self._plan = learner, maximization, plan
        self._statistics: Statistics | None = None
        self._number = 0

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        expectation, learner = self._maximization.expectation, self._learner
        statistics = expectation.of(batch, wide=False).among(num_rows).summed(self._plan.ranks)
        self._maximization.step_rest(statistics)
        per_row = statistics.scaled(1.0 / statistics.num_rows)
        part = min(self._number / max(1, self._plan.epochs * self._plan.steps_per_epoch - 1), 1.0)
        share = _FIRST_SHARE * ((1.0 - learner.momentum) / _FIRST_SHARE) ** part
        self._statistics = per_row if self._statistics is None else self._statistics.moved_to(per_row, share)
        pseudocount = learner.pseudocount / max(1, self._plan.num_rows)
        expectation.maximize(self._statistics, pseudocount, step=learner.step ** (1.0 - part))
        self._number += 1
        return mean_log_likelihood(statistics)

    def end_epoch(self) -> None:
        """Nothing is left to do."""

    def state_dict(self) -> dict[str, Any]:
        counted = None if self._statistics is None else self._statistics.state()
        return {"number": self._number, "statistics": counted, "rest": self._maximization.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        counted = state["statistics"]
        self._statistics = None if counted is None else Statistics.of_state(counted, self._maximization.device)
        self._number = state["number"]
        self._maximization.load_state_dict(state["rest"])
