"""Log-likelihoods of rows by a module, checked; its rows as tensors, and copies of its state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.arguments import integer
from plica.backend.torch.data import as_tensor
from plica.distributed.ranks import ALONE, Ranks
from plica.errors import InputError, UnsupportedError
from plica.symbolic.semirings import Semiring

_SUMS = Semiring.from_name("lse-sum").algebra

Rows = Tensor | np.ndarray[Any, np.dtype[Any]]


def mean_log_likelihood(
    model: nn.Module, rows: Rows, batch: int, ranks: Ranks = ALONE, on_batch: Callable[[], None] | None = None
) -> float:
    """The mean log-likelihood of rows `(N, D)`, summed in float64 without gradients and in eval mode.

    Args:
        model: Maps rows `(B, D)` to log-likelihoods `(B, 1, 1)`.
        rows: The rows.
        batch: The rows that a process computes together.
        ranks: Processes that have the same rows and call this together; each scores its share of every batch.
        on_batch: Called after each batch, as often on all processes.

    Raises:
        InputError: There are no rows, or the model has no learned parameter or several outputs.
        DTypeError: The rows are no numbers.
    """
    parameter = first_parameter(model)
    batch = integer("mean_log_likelihood", "batch", batch, least=1)
    rows = to_tensor(rows, parameter)
    if not rows.ndim or not len(rows):
        raise InputError(f"mean_log_likelihood: expected rows (N, D), at least one, found shape {tuple(rows.shape)}")
    total = torch.zeros((), dtype=torch.float64, device=parameter.device)
    with torch.no_grad(), _evaluated(model):
        for some in torch.split(rows, min(batch * ranks.size, len(rows))):  # torch counts sizes in 64 bits
            share = ranks.share(some)
            if len(share):
                total += log_likelihood(model, share).sum(dtype=torch.float64)
            if on_batch is not None:
                on_batch()
    (total,) = ranks.sum([total])
    return float(total) / len(rows)


def log_likelihood(model: nn.Module, batch: Tensor) -> Tensor:
    """The log-likelihood `(B,)` of each row of a batch `(B, D)`; NaN where a circuit of signed weights is negative.

    Raises:
        InputError: The model has several outputs or units.
        UnsupportedError: The model is a circuit of another semiring, whose results are no logarithms of sums.
    """
    semiring = getattr(model, "semiring", None)
    if isinstance(semiring, Semiring) and not (semiring.logarithmic and semiring.algebra == _SUMS):
        raise UnsupportedError(
            f"training needs log-likelihoods, found a circuit in the semiring {semiring.name!r}; compile it by default "
            "settings, or in 'signed-lse-sum' or 'complex-lse-sum'"
        )
    value: Tensor = model(batch)
    if value.shape != (len(batch), 1, 1):
        raise InputError(
            f"the model maps {len(batch)} rows to shape {tuple(value.shape)}, expected ({len(batch)}, 1, 1): "
            "training needs a circuit with one output of one unit"
        )
    value = value[:, 0, 0]
    if value.is_complex():  # the logarithm of the size, and the argument, which is 0 of a positive number
        return value.real.masked_fill(value.imag.detach().cos() < 0, torch.nan)
    return value


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


def first_parameter(model: nn.Module) -> Tensor:
    """The first parameter that is learned; its device and dtype are those of the model.

    Raises:
        InputError: There is none.
    """
    parameter = next((p for p in model.parameters() if p.requires_grad), None)
    if parameter is None:
        raise InputError("the model has no learnable parameters, so there is nothing to train")
    return parameter


def to_tensor(rows: Any, like: Tensor) -> Tensor:
    """Rows on the device of `like`, floats in its type.

    Raises:
        DTypeError: They are no numbers.
    """
    tensor = as_tensor(rows)
    if tensor.is_floating_point():
        real = like.real.dtype if like.is_complex() else like.dtype
        return tensor.to(like.device, real)
    return tensor.to(like.device)
