"""What every learner is: settings, from which the training of one model starts.

A learner is frozen and has no state, so that one may train several models. `training` makes what changes a model: its
`step` sees one batch, and its state is all that a later run needs to go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from plica.distributed.ranks import ALONE, Ranks


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a model will learn.

    Args:
        num_rows: Rows that it learns from in each epoch.
        steps_per_epoch: Batches of each epoch.
        epochs: The most epochs.
        ranks: The processes that learn together, each from its share of every batch.
    """

    num_rows: int
    steps_per_epoch: int
    epochs: int
    ranks: Ranks = ALONE


class Training(ABC):
    """Changes one model, a batch at a time; processes that learn together change it alike.

    Attributes:
        rate: The size of its next step; None if it has none.
    """

    rate: float | None = None

    @abstractmethod
    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        """Learn from a batch of rows.

        Args:
            batch: `(B, D)` the share of this process, which may have no rows.
            num_rows: The rows of all processes; by default B.

        Returns:
            The sum of the log-likelihoods of the share before the step, divided by `num_rows`: of shape `()`, on the
            device. The sum of these over processes is the mean of the batch.
        """

    @abstractmethod
    def end_epoch(self) -> None:
        """Called after the last batch of an epoch."""

    def log_prior(self) -> float:
        """The log-density of its prior per training row, but for a constant; 0 without a prior."""
        return 0.0

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, beside the model: tensors and plain values.

        All processes call it, and any number of them may go on from what the first one returns.
        """

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""


class Learner(ABC):
    """The settings of a way to learn; a frozen dataclass.

    Attributes:
        name: Its name on the command line.
        advice: What to try where its numbers are not finite.
    """

    name: ClassVar[str]
    advice: ClassVar[str] = "try float64, or rescale columns of very large numbers"

    @abstractmethod
    def training(self, model: nn.Module, plan: Plan) -> Training:
        """The training of a model.

        Raises:
            UnsupportedError: The learner cannot train the model; the message names the layer and the reason.
        """
