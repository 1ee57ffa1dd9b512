"""The history of a training run, and its result.

>>> history = (Epoch(0, None, -3.0, True, 0.0), Epoch(1, -2.5, -2.0, True, 0.1))
>>> FitResult(history, best_epoch=1, best_state={}, interrupted=False)
FitResult(best epoch 1 of 1, valid -2.0000)
"""

from dataclasses import dataclass, field

from torch import Tensor

from plica.notebooks import folded_html, table_html


@dataclass(frozen=True, slots=True)
class Epoch:
    """The figures of one pass over the training rows; number 0 is the model before training.

    Attributes:
        number: Counted from 1.
        train: Mean log-likelihood of the training rows during the pass; None before training.
        valid: Mean log-likelihood of the validation rows after the pass. Without such rows, that of all training rows,
            plus the log-density of the learner's prior per row.
        best: Whether `valid` is the highest so far.
        seconds: Time of the pass, without the validation.
        rate: The learner's rate after the pass; None if it has none.
    """

    number: int
    train: float | None
    valid: float
    best: bool
    seconds: float
    rate: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """The history of a training run and the best state by validation, which the model also holds afterwards.

    Attributes:
        history: Finished epochs in order, number 0 first.
        best_epoch: The number of the epoch that `best_state` is from.
        best_state: A copy of the model's `state_dict`.
        interrupted: Whether Ctrl-C ended the run early.
        stopped_early: Whether the run ended since no epoch was better for `patience` epochs.
        seconds: Time of training and validation, also before the run was resumed.
    """

    history: tuple[Epoch, ...]
    best_epoch: int
    best_state: dict[str, Tensor] = field(repr=False)
    interrupted: bool
    stopped_early: bool = False
    seconds: float = 0.0

    @property
    def epochs_run(self) -> int:
        """Number of finished epochs."""
        return self.history[-1].number if self.history else 0

    def __repr__(self) -> str:
        if not self.history:
            return "FitResult(interrupted before the first epoch)"
        end = ", interrupted" if self.interrupted else ", stopped early" if self.stopped_early else ""
        best = self.history[self.best_epoch]
        return f"FitResult(best epoch {self.best_epoch} of {self.epochs_run}, valid {best.valid:.4f}{end})"

    def _repr_html_(self) -> str:
        """The result for notebooks: the line of `repr`, and a folded table with a row for each epoch."""
        rows = (
            (
                epoch.number,
                "" if epoch.train is None else f"{epoch.train:.4f}",
                f"{epoch.valid:.4f}",
                "yes" if epoch.best else "",
                f"{epoch.seconds:.2f}",
            )
            for epoch in self.history
        )
        return folded_html(repr(self), table_html(("epoch", "train", "valid", "best so far", "seconds"), rows))


def epochs_without_gain(history: tuple[Epoch, ...] | list[Epoch], min_delta: float) -> int:
    """The number of last epochs in a row that are at most `min_delta` above the best before them.

    >>> scores = [-3.0, -2.0, -1.99, -1.98]
    >>> history = [Epoch(number, None, score, True, 0.0) for number, score in enumerate(scores)]
    >>> epochs_without_gain(history, 0.0), epochs_without_gain(history, 0.1)
    (0, 2)
    """
    reference, count = float("-inf"), 0
    for epoch in history:
        if epoch.valid > reference + min_delta or epoch.number == 0:
            reference, count = epoch.valid, 0
        else:
            count += 1
    return count
