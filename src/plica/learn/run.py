"""One training run: its loop, what it keeps, and how it goes on from a checkpoint."""

import math
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from signal import SIGINT
from typing import Any

import torch
from torch import Tensor, nn

from plica.backend.torch.divided import is_divided
from plica.distributed.ranks import Agreement, current_ranks
from plica.errors import FileFormatError, InputError, PlicaError, UnsupportedError
from plica.learn.checkpoints import Checkpoint, describe_model, random_state, set_random_state
from plica.learn.history import Epoch, FitResult, epochs_without_gain
from plica.learn.learners import learner_settings
from plica.learn.learners.base import Learner, Plan
from plica.learn.scores import copy_state, first_parameter, mean_of
from plica.learn.sources import Source
from plica.learn.stopping import ENDING, Signals

_WRITE, _STOP = 1, 256  # what processes agree on: to write a checkpoint, or to end for the signal above `_STOP`


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked settings of a run; `plica.learn.fit.fit` says what they mean."""

    learner: Learner
    epochs: int
    batch: int
    seed: int
    patience: int | None
    min_delta: float


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of an epoch: the mean log-likelihood `()` on the device, its rows, and the rate.

    Of several processes, each has a part of the mean, and they add up to it.
    """

    mean: Tensor
    rows: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class _Finished:
    """The finished epochs, and the best of them: one object, so that an interrupt finds it whole."""

    history: tuple[Epoch, ...]
    best_epoch: int
    best_state: dict[str, Tensor]


class Run:
    """A training run, of this process or of several that do the same: each learns from its share of every batch.

    The first process alone reads and writes checkpoints, and the model starts as it has it.

    Args:
        model: The model, which changes.
        train: The rows to learn from.
        valid: The rows by which epochs are scored; the same object if these are those that are learned from.
        settings: The settings.
        checkpoint: Where to keep what is needed to go on.
        on_batch: Called after each step with its number of rows.

    Raises:
        InputError: There are more processes than rows, or processes have other models, rows or settings.
        UnsupportedError: The learner cannot train the model, it adds up gradients itself, or is divided.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Source,
        valid: Source,
        settings: Settings,
        checkpoint: Checkpoint | None,
        on_batch: Callable[[int], None],
    ) -> None:
        if is_divided(first_parameter(model)):
            raise UnsupportedError(
                "fit adds up the gradients of processes itself, and the tensors of this model are divided among them; "
                "learn them by an optimizer of torch in a loop of your own: docs/training.md shows one"
            )
        self._model, self._train, self._valid = model, train, valid
        self._settings, self._checkpoint, self._on_batch = settings, checkpoint, on_batch
        self._batch = min(settings.batch, len(train))  # torch counts sizes in 64 bits
        self._device = first_parameter(model).device
        self._ranks = current_ranks()
        self._agreement = Agreement(self._ranks)
        alike = self._ranks.size > 1
        self._signals = Signals((*(ENDING if alike or checkpoint is not None else ()), *((SIGINT,) if alike else ())))
        self._identity = self._described() if alike or checkpoint is not None else {}
        if alike:
            self._make_alike()
        plan = Plan(len(train), math.ceil(len(train) / self._batch), settings.epochs, self._ranks)
        self._training = settings.learner.training(model, plan)
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._shuffling = self._generator.get_state()  # as the epoch began
        self._steps: list[_Step] = []  # of the epoch so far
        self._epoch_seconds = 0.0  # of the epoch so far, before the run was resumed
        self._finished = _Finished((), 0, copy_state(model))
        self._earlier_seconds, self._began = 0.0, time.perf_counter()
        self._written = -math.inf  # when the checkpoint was; never

    def to_end(self, resume: bool, on_epoch: Callable[[Epoch], None]) -> FitResult:
        """Train until the last epoch, or until patience or an interrupt ends the run; the model gets its best state.

        Args:
            resume: Whether to go on from the checkpoint if there is one.
            on_epoch: Called for each epoch.

        Raises:
            InputError: A number is not finite, or the checkpoint belongs to another run.
            FileFormatError: The checkpoint is damaged.
        """
        interrupted = False
        try:
            with self._signals:
                if self._checkpoint is not None:
                    self._resume(self._checkpoint, resume)
                for epoch in self._finished.history:
                    self._tell(on_epoch, epoch)
                while len(self._finished.history) <= self._settings.epochs and not self._is_stale():
                    self._next_epoch()
                    self._tell(on_epoch, self._finished.history[-1])
                self._heed()
                self._obey(self._agreement.last())
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._model.load_state_dict(self._finished.best_state)
        finished = self._finished
        stopped_early = not interrupted and len(finished.history) <= self._settings.epochs
        return FitResult(
            finished.history, finished.best_epoch, finished.best_state, interrupted, stopped_early, self._seconds()
        )

    def _is_stale(self) -> bool:
        patience = self._settings.patience
        if patience is None:
            return False
        return epochs_without_gain(self._finished.history, self._settings.min_delta) >= patience

    def _seconds(self) -> float:
        return self._earlier_seconds + time.perf_counter() - self._began

    def _next_epoch(self) -> None:
        """Learn from all rows once, but for epoch 0; score the state, and keep it if it is the best."""
        before = self._finished
        number = len(before.history)
        start = time.perf_counter() - self._epoch_seconds
        mean = self._learn(number, start) if number else None
        seconds = self._epoch_seconds = time.perf_counter() - start
        score = mean_of(self._model, self._valid, self._batch, self._ranks, self._heed)
        if self._valid is self._train:
            score += self._training.log_prior()  # or an epoch that overfits would be the best
        if math.isnan(score):
            raise InputError(f"epoch {number}: the likelihood of the validation rows is NaN; {self._advice()}")
        better = not number or score > before.history[before.best_epoch].valid
        history = (*before.history, Epoch(number, mean, score, better, seconds, self._training.rate))
        best_epoch, best_state = (number, copy_state(self._model)) if better else (before.best_epoch, before.best_state)
        self._finished, self._steps = _Finished(history, best_epoch, best_state), []
        self._epoch_seconds = 0.0
        self._shuffling = self._generator.get_state()
        self._write()

    def _learn(self, number: int, start: float) -> float:
        """Take the steps of an epoch that are left; the mean log-likelihood of all.

        Figures stay on the device, so that no step waits for it.
        """
        self._generator.set_state(self._shuffling)
        seen = len(self._steps)
        with closing(self._train.shuffled(self._generator, self._batch, skip=seen, ranks=self._ranks)) as batches:
            for share, rows in batches:
                rate = self._training.rate
                self._steps.append(_Step(self._training.step(share, rows), rows, rate))
                self._epoch_seconds = time.perf_counter() - start
                self._heed()
                self._tell(self._on_batch, rows)
        mean = self._checked_mean(number)  # before an update by rows that nothing explains
        self._training.end_epoch()
        return mean

    def _checked_mean(self, epoch: int) -> float:
        """The mean log-likelihood of the epoch; all figures are fetched from the device at once.

        Raises:
            InputError: One is not finite.
        """
        means = self._means().cpu()
        bad = (~means.isfinite()).nonzero()
        if len(bad):
            first = int(bad[0])
            rate = self._steps[first].rate
            with_rate = "" if rate is None else f" with a rate of {rate:.3g}"
            raise InputError(
                f"epoch {epoch}, batch {first + 1} of {len(means)}: the loss is {-float(means[first])}, learned by "
                f"{self._settings.learner.name}{with_rate}; {self._advice()}"
            )
        sizes = torch.tensor([step.rows for step in self._steps], dtype=torch.float64)
        return float((means * sizes).sum() / sizes.sum())

    def _means(self) -> Tensor:
        """The mean log-likelihoods of the steps so far, `(steps,)`, from their parts."""
        if not self._steps:
            return torch.zeros(0, dtype=torch.float64)
        return self._ranks.sum([torch.stack([step.mean.double() for step in self._steps])])[0]

    def _tell(self, callback: Callable[[Any], None], value: Any) -> None:
        """Call a function; where it ends the run, as Ctrl-C does, all processes end it after the same step."""
        try:
            callback(value)
        except KeyboardInterrupt:
            if self._ranks.size == 1:
                raise
            self._signals.asked = SIGINT

    def _heed(self) -> None:
        """Do what a process wants done: end for a signal, or write the checkpoint since the last one is old."""
        is_due = (
            self._checkpoint is not None
            and self._ranks.is_first
            and time.perf_counter() - self._written > self._checkpoint.seconds
        )
        self._obey(self._agreement.on(_STOP + self._signals.asked if self._signals.asked else _WRITE * is_due))

    def _obey(self, agreed: int) -> None:
        """Write the checkpoint, and end for a signal, as all processes do now."""
        if agreed and self._finished.history:
            self._write()
        if agreed == _STOP + SIGINT:
            raise KeyboardInterrupt
        if agreed > _STOP:
            self._signals.pass_on(agreed - _STOP)

    def _make_alike(self) -> None:
        """Have all processes start from the model of the first one.

        Raises:
            InputError: They are more than rows, or have other models, rows or settings.
            UnsupportedError: The model adds up gradients itself.
        """
        size = self._ranks.size
        if isinstance(self._model, nn.parallel.DistributedDataParallel):
            raise UnsupportedError(
                "fit adds up the gradients of processes itself; pass the module that DistributedDataParallel wraps"
            )
        if size > len(self._train):
            raise InputError(f"{size} processes for {len(self._train)} rows; start at most as many as there are rows")
        first, *others = self._ranks.gather(self._identity)
        for rank, other in enumerate(others, 1):
            for name, value in other.items():
                if value != first[name]:
                    raise InputError(
                        f"processes of one run do the same, but the {name} of process {rank} is {value}, and that of "
                        f"process 0 {first[name]}; start all with the same arguments and the same files"
                    )
        self._model.load_state_dict(self._ranks.copy_first(self._model.state_dict()))

    def _advice(self) -> str:
        return self._settings.learner.advice

    def _described(self) -> dict[str, Any]:
        """The identity of the run; a checkpoint of another one is refused."""
        settings = self._settings
        return {
            "model": describe_model(self._model),
            "dtype": str(first_parameter(self._model).dtype),
            "data": self._train.description(),
            "validation data": self._valid.description(),
            "learner": learner_settings(settings.learner),
            "seed": settings.seed,
            "epochs": settings.epochs,
            "batch": self._batch,
            "patience": settings.patience,
            "min_delta": settings.min_delta,
        }

    def _write(self) -> None:
        """Write the checkpoint. If a later one cannot be written, the former one stays and training goes on."""
        if self._checkpoint is None:
            return
        training, means = self._training.state_dict(), self._means()  # of all processes
        if not self._ranks.is_first:
            return
        state = {
            "model": self._model.state_dict(),
            "best": (self._finished.best_epoch, self._finished.best_state),
            "training": training,
            "shuffling": self._shuffling,
            "random": random_state(self._device),
            "history": [(e.number, e.train, e.valid, e.best, e.seconds, e.rate) for e in self._finished.history],
            "steps": [(mean, step.rows, step.rate) for mean, step in zip(means, self._steps, strict=True)],
            "epoch_seconds": self._epoch_seconds,
            "seconds": self._seconds(),
        }
        try:
            self._checkpoint.write(self._identity, state)
        except (PlicaError, OSError, RuntimeError) as error:  # torch raises RuntimeError where a disk is full
            if self._written == -math.inf:
                raise
            warnings.warn(f"a checkpoint was not written, the former one stays: {error}", stacklevel=2)
        self._written = time.perf_counter()

    def _resume(self, checkpoint: Checkpoint, resume: bool) -> None:
        """Go on from a checkpoint, if there is one and that is asked for."""

        def read() -> dict[str, Any] | None:
            checkpoint.remove_leftovers()
            return checkpoint.read(self._identity) if resume and checkpoint.exists() else None

        state = self._ranks.of_first(read)
        if state is not None:
            self._load(checkpoint, state)

    def _load(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        """Go on from the state of a checkpoint; if it is refused, nothing has changed.

        Raises:
            InputError: It belongs to another run.
            FileFormatError: It is damaged.
        """
        before = self._finished.best_state  # of a run that has not begun
        try:
            number, best = state["best"]
            best = {name: best[name].to(value.device) for name, value in before.items()}
            finished = _Finished(tuple(Epoch(*figures) for figures in state["history"]), number, best)
            if finished.history[number].number != number:
                raise LookupError(number)
            is_first = self._ranks.is_first  # whose part of a mean is all of it now
            steps = [_Step(mean.to(self._device) * is_first, rows, rate) for mean, rows, rate in state["steps"]]
            self._training.load_state_dict(state["training"])
            self._model.load_state_dict(state["model"])
            self._generator.set_state(state["shuffling"])
            self._epoch_seconds, self._earlier_seconds = float(state["epoch_seconds"]), float(state["seconds"])
            set_random_state(state["random"], self._device)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            self._model.load_state_dict(before)
            raise FileFormatError(
                f"{checkpoint.path}: its contents do not fit the run that it names ({type(error).__name__}); leave "
                "resume out to start anew"
            ) from error
        self._finished, self._steps, self._shuffling = finished, steps, state["shuffling"]
        self._written = time.perf_counter()
