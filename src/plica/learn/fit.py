"""Trains modules that map rows to log-likelihoods by maximum likelihood, and keeps the best state by validation.

>>> import torch
>>> class Coin(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.logits = torch.nn.Parameter(torch.zeros(2))
...     def forward(self, x):
...         return self.logits.log_softmax(0)[x][:, :, None]  # (B, outputs, units)
>>> flips = torch.tensor([[1], [1], [1], [0]])
>>> result = fit(Coin(), flips, flips, epochs=60, batch_size=4, learning_rate=0.1, seed=0)
>>> round(float(result.best_state["logits"].softmax(0)[1]), 2)
0.75
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.errors import InputError

Rows = Tensor | np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The figures of one pass over the training rows; number 0 is the model before training.

    Attributes:
        number: Counted from 1.
        train: Mean log-likelihood of the training rows during the pass; None before training.
        valid: Mean log-likelihood of the validation rows after the pass.
        best: Whether `valid` is the highest so far.
        seconds: Time of the pass, without the validation.
    """

    number: int
    train: float | None
    valid: float
    best: bool
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """The history of a training run and the best state by validation, which the model also holds afterwards.

    Attributes:
        history: Finished epochs in order, number 0 first.
        best_epoch: The number of the epoch that `best_state` is from.
        best_state: A copy of the model's `state_dict`.
        interrupted: Whether Ctrl-C ended the run early.
    """

    history: tuple[Epoch, ...]
    best_epoch: int
    best_state: dict[str, Tensor]
    interrupted: bool

    @property
    def epochs_run(self) -> int:
        """Number of finished epochs."""
        return self.history[-1].number if self.history else 0


def fit(
    model: nn.Module,
    train: Rows,
    valid: Rows,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    on_batch: Callable[[int], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Maximize the mean log-likelihood of `train` with Adam, whose rate falls to zero along a half cosine.

    Training leaves the model in its mode. Validation runs in eval mode, in which circuits fold their parameters.

    `KeyboardInterrupt`, from the keyboard or a callback, ends the run; the best state until then is returned.

    Args:
        model: Maps rows (B, D) to log-likelihoods (B, 1, 1); trained in place, left with the best state.
        train: (N, D) rows to learn from.
        valid: (N, D) rows to choose the best epoch by.
        epochs: Passes over `train`.
        batch_size: Rows in one step.
        learning_rate: Adam's step size at the start.
        seed: The seed of the shuffling.
        on_batch: Called after each step with its number of rows.
        on_epoch: Called after each epoch, and once before the first.

    Raises:
        InputError: The loss is not finite; the message says where and what to try.
    """
    parameter = _first_parameter(model)
    train, valid = _to_tensor(train, parameter), _to_tensor(valid, parameter)
    batch_size = min(batch_size, max(len(train), 1))  # torch counts sizes in 64 bits
    optimizer = _adam(model, learning_rate)
    steps = max(1, epochs * math.ceil(len(train) / batch_size))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(seed)
    history: list[Epoch] = []
    best, interrupted = (0, copy_state(model)), False
    try:
        for number in range(epochs + 1):
            start = time.perf_counter()
            losses = _learn(model, train, batch_size, optimizer, schedule, generator, on_batch) if number else None
            mean = None if losses is None else _check_finite(losses, number)
            seconds = time.perf_counter() - start
            score = mean_log_likelihood(model, valid, batch_size)
            if math.isnan(score):
                raise InputError(f"epoch {number}: the likelihood of the validation rows is NaN; {_ADVICE}")
            better = not history or score > history[best[0]].valid
            history.append(Epoch(number, mean, score, better, seconds))
            if better:
                best = (number, copy_state(model))  # one assignment: an interrupt leaves the pair whole
            if on_epoch is not None:
                on_epoch(history[-1])
    except KeyboardInterrupt:
        interrupted = True
    model.load_state_dict(best[1])
    return FitResult(tuple(history), *best, interrupted)


def mean_log_likelihood(model: nn.Module, rows: Rows, batch_size: int) -> float:
    """The mean log-likelihood of `rows`, summed in float64 without gradients and in eval mode."""
    parameter = _first_parameter(model)
    rows = _to_tensor(rows, parameter)
    total = torch.zeros((), dtype=torch.float64, device=parameter.device)
    with torch.no_grad(), _evaluated(model):
        for batch in torch.split(rows, min(batch_size, max(len(rows), 1))):
            total += _log_likelihood(model, batch).sum(dtype=torch.float64)
    return float(total) / len(rows)


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """A context in which a model is in eval mode; afterwards each module has its former mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def copy_state(model: nn.Module) -> dict[str, Tensor]:
    """The model's `state_dict`, cloned."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


_ADVICE = "try a smaller learning rate, or float64"


def _learn(
    model: nn.Module,
    train: Tensor,
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    generator: torch.Generator,
    on_batch: Callable[[int], None] | None,
) -> list[tuple[Tensor, int]]:
    """Train on all rows once, in shuffled order; returns the mean loss and the number of rows of each step.

    The losses stay on the device, so that no step waits for it.
    """
    losses = []
    for batch in _shuffled_batches(train, batch_size, generator):
        optimizer.zero_grad(set_to_none=True)
        loss = -_log_likelihood(model, batch).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        losses.append((loss.detach(), len(batch)))
        if on_batch is not None:
            on_batch(len(batch))
    return losses


def _shuffled_batches(rows: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    order = torch.randperm(len(rows), generator=generator).to(rows.device)
    for chosen in torch.split(order, batch_size):
        yield rows[chosen]


def _check_finite(losses: list[tuple[Tensor, int]], epoch: int) -> float:
    """The mean log-likelihood of the epoch; all losses are fetched from the device at once."""
    values = torch.stack([loss for loss, _ in losses]).double().cpu()
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        first = int(bad[0])
        raise InputError(
            f"epoch {epoch}, batch {first + 1} of {len(losses)}: the loss is {float(values[first])}; {_ADVICE}"
        )
    sizes = torch.tensor([size for _, size in losses], dtype=torch.float64)
    return -float((values * sizes).sum() / sizes.sum())


def _log_likelihood(model: nn.Module, batch: Tensor) -> Tensor:
    value: Tensor = model(batch)
    if value.shape != (len(batch), 1, 1):
        raise InputError(
            f"the model maps {len(batch)} rows to shape {tuple(value.shape)}, expected ({len(batch)}, 1, 1): "
            "training needs a circuit with one output of one unit"
        )
    return value[:, 0, 0]


def _first_parameter(model: nn.Module) -> Tensor:
    parameter = next((p for p in model.parameters() if p.requires_grad), None)
    if parameter is None:
        raise InputError("the model has no learnable parameters, so there is nothing to train")
    return parameter


def _adam(model: nn.Module, learning_rate: float) -> torch.optim.Adam:
    learnable = [p for p in model.parameters() if p.requires_grad]
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in learnable)
    return torch.optim.Adam(learnable, lr=learning_rate, fused=fused)


def _to_tensor(rows: Rows, like: Tensor) -> Tensor:
    """Rows on the device of `like`, floats in its type."""
    tensor = torch.as_tensor(rows)
    if tensor.is_floating_point():
        real = like.real.dtype if like.is_complex() else like.dtype
        return tensor.to(like.device, real)
    return tensor.to(like.device)
