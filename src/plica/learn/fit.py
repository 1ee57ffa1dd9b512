"""Trains modules that map rows to log-likelihoods by maximum likelihood, and keeps the best state by validation.

>>> import torch
>>> from plica.learn.learners import Adam
>>> class Coin(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.logits = torch.nn.Parameter(torch.zeros(2))
...     def forward(self, x):
...         return self.logits.log_softmax(0)[x][:, :, None]  # (B, outputs, units)
>>> flips = torch.tensor([[1], [1], [1], [0]])
>>> result = fit(Coin(), flips, learner=Adam(rate=0.1), epochs=60, batch=4)
>>> round(float(result.best_state["logits"].softmax(0)[1]), 2)
0.75
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from torch import Tensor, nn

from plica.arguments import flag, found, integer, number
from plica.arguments import seed as checked_seed
from plica.distributed.ranks import current_ranks
from plica.errors import DTypeError, InputError
from plica.learn.checkpoints import Checkpoint
from plica.learn.history import Epoch as Epoch
from plica.learn.history import FitResult as FitResult
from plica.learn.learners import LEARNERS, Adam
from plica.learn.learners.base import Learner
from plica.learn.progress import Progress
from plica.learn.run import Run, Settings
from plica.learn.scores import Rows, as_source, first_parameter
from plica.learn.scores import copy_state as copy_state
from plica.learn.scores import mean_log_likelihood as mean_log_likelihood
from plica.learn.sources import Source, Stream, is_stream


def fit(
    model: nn.Module,
    rows: Rows | Stream,
    valid: Rows | Stream | float | None = None,
    *,
    learner: Learner | None = None,
    epochs: int = 40,
    batch: int = 100,
    seed: int = 0,
    patience: int | None = None,
    min_delta: float = 0.0,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    progress: bool = False,
    on_batch: Callable[[int], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Maximize the mean log-likelihood of rows, and keep the state that makes validation rows most likely.

    Training leaves the model in its mode. Validation runs in eval mode, in which circuits fold their parameters.
    However the run ends, by an error too, the model has the best state until then. `KeyboardInterrupt`, from the
    keyboard or a callback, ends the run, and its result is returned.

    Where `torch.distributed` has a default group, all its processes call this with the same arguments, as those that
    `torchrun` starts do. Each learns from its share of every batch, and results are those of one process, up to
    rounding. Callbacks are called on all; the first process writes checkpoints and shows the bar.

    With a checkpoint, or with several processes, SIGTERM ends the process when a step is done, and the checkpoint holds
    that step.

    Args:
        model: Maps rows (B, D) to log-likelihoods (B, 1, 1); trained in place.
        rows: (N, D) rows to learn from; NaN is a missing value where the model takes it. A stream of rows, such as
            `plica.data.NumberRows`, is read again for each pass and not held.
        valid: (M, D) rows or a stream that choose the best epoch; or a share of `rows`, between 0 and 1, that is drawn
            and held out for that. By default, the best epoch is that after which all training rows, together with the
            learner's prior, are most likely.
        learner: How the model learns; by default `Adam()`.
        epochs: The most passes over the rows.
        batch: Rows in one step.
        seed: The seed of the shuffling, and of the rows that are held out.
        patience: End the run after so many epochs in a row without a gain; by default never.
        min_delta: The gain in nats per row that an epoch must exceed for `patience`.
        checkpoint: A file that is written after each epoch with all that the run needs to go on.
        resume: Go on from the checkpoint if there is one. The end is that of a run without a break, to the bit on one
            machine.
        progress: Show a bar, in notebooks too; a file or a pipe gets a line for each epoch.
        on_batch: Called after each step with its number of rows.
        on_epoch: Called after each epoch, and once before the first; in a resumed run first for each earlier epoch.

    Raises:
        InputError: The loss is not finite; the message says where and what to try. Or there are no rows, or the
            checkpoint belongs to another run.
        DTypeError: An argument has a wrong type, or rows are no numbers.
        FileFormatError: The checkpoint is damaged.
        UnsupportedError: The learner cannot train the model.
        LostProcessError: Another process has ended, or hangs.
    """
    chosen = Adam() if learner is None else learner
    if not isinstance(chosen, Learner):
        kinds = ", ".join(f"{kind.__name__}()" for kind in LEARNERS.values())
        raise DTypeError(f"fit: learner must be one of {kinds}, {found(learner)}")
    settings = Settings(
        learner=chosen,
        epochs=integer("fit", "epochs", epochs, least=0),
        batch=integer("fit", "batch", batch, least=1),
        seed=checked_seed("fit", seed),
        patience=None if patience is None else integer("fit", "patience", patience, least=1),
        min_delta=_min_delta(min_delta),
    )
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    if flag("fit", "resume", resume) and checkpoint is None:
        raise InputError("fit: resume needs the checkpoint to go on from; pass checkpoint=path")
    for name, callback in (("on_batch", on_batch), ("on_epoch", on_epoch)):
        if callback is not None and not callable(callback):
            raise DTypeError(f"fit: {name} must be a function, {found(callback)}")
    train, scored = _parts(rows, valid, first_parameter(model), settings.seed)
    is_shown = flag("fit", "progress", progress) and current_ranks().is_first
    shown = Progress(len(train), settings.epochs) if is_shown else None
    with shown or nullcontext():
        run = Run(model, train, scored, settings, checkpoint, _all(shown.on_batch if shown else None, on_batch))
        return run.to_end(resume, _all(shown.on_epoch if shown else None, on_epoch))


def _all(*callbacks: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """A function that calls those that are there, in order."""
    present = [callback for callback in callbacks if callback is not None]

    def call(value: Any) -> None:
        for callback in present:
            callback(value)

    return call


def _min_delta(value: Any) -> float:
    least_gain = number("fit", "min_delta", value)
    if not 0 <= least_gain < math.inf:
        raise InputError(f"fit: min_delta must be finite and 0 or more, found {least_gain}")
    return least_gain


def _parts(rows: Any, valid: Any, like: Tensor, seed: int) -> tuple[Source, Source]:
    """The rows to learn from, and those by which epochs are scored."""
    train = as_source(rows, like, "fit: rows")
    if valid is None:
        return train, train
    if not isinstance(valid, float | np.floating):
        if np.ndim(valid) == 0 and not is_stream(valid):
            raise InputError(f"fit: valid must be rows (N, D), or a part of the rows such as 0.2, {found(valid)}")
        scored = as_source(valid, like, "fit: valid")
        if scored.row_shape != train.row_shape:
            raise InputError(f"fit: valid has rows of shape {scored.row_shape}, expected {train.row_shape} as in rows")
        return train, scored
    held_out = round(valid * len(train)) if 0 < valid < 1 else 0
    if 0 < held_out < len(train):
        scored, others = train.split(float(valid), seed)
        held_out = len(scored)  # of a stream, about as many
    if not 0 < held_out < len(train):
        raise InputError(
            f"fit: valid={valid} holds out {held_out} of {len(train)} rows; pass a number between 0 and 1 that leaves "
            "at least one row on either side, or rows"
        )
    return others, scored
