"""Mini-batch expectation maximization with long steps in the logarithms of weights, and a memory of statistics.

>>> Anemone(momentum=0.8)
Anemone(step=1.9, momentum=0.8, pseudocount=1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, final

from torch import nn

from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number
from plica.learn.learners.stepwise_em import StepwiseTraining

_FIRST_SHARE = 0.5  # of the first batches in the statistics


@final
@dataclass(frozen=True, slots=True)
class Anemone(Learner):
    """Over-relaxed expectation maximization on batches: of these learners the fastest for hidden trees.

    Each batch moves the statistics per row, `s = m s + (1 - m) s_batch`, as of `StepwiseEM`. Be w the shares that make
    `s` most likely: weights and states become `log w_old + a (log w - log w_old)` in logarithms, normalized. That is a
    proximal step; with a = 1 it is the update of expectation maximization. `a` falls from `step` to 1, and `1 - m` from
    0.5 to `1 - momentum`, both in equal ratios over all steps that were planned. Numbers of other distributions take
    a = 1, and leaves without a closed form a step of Adam.

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
        """The training of a model."""
        shares = (_FIRST_SHARE, 1.0 - self.momentum)
        return StepwiseTraining(Maximization(model, plan), plan, self.pseudocount, shares, self.step)
