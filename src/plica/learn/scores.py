"""Log-likelihoods of rows by a module, checked; its rows as tensors, and copies of its state."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.arguments import found, integer
from plica.backend.torch.data import as_tensor
from plica.distributed.ranks import ALONE, Ranks
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.learn.sources import HeldRows, Source, Stream, StreamedRows, is_stream
from plica.symbolic.semirings import Semiring

_SUMS = Semiring.from_name("lse-sum").algebra

Rows = Tensor | np.ndarray[Any, np.dtype[Any]]


def mean_log_likelihood(model: nn.Module, rows: Rows | Stream, batch: int) -> float:
    """The mean log-likelihood of rows `(N, D)`, summed in float64 without gradients and in eval mode.

    Args:
        model: Maps rows `(B, D)` to log-likelihoods `(B, 1, 1)`.
        rows: The rows, or a stream of them such as `plica.data.NumberRows`.
        batch: The rows that are computed together.

    Raises:
        InputError: There are no rows, or the model has no learned parameter or several outputs.
        DTypeError: The rows are no numbers.

    >>> import plica
    >>> from plica.symbolic.initializers import ConstantTensorInitializer
    >>> from plica.symbolic.layers import BernoulliLayer
    >>> from plica.symbolic.parameters import TensorParameter
    >>> coin = BernoulliLayer([0], 1, logits=TensorParameter(1, initializer=ConstantTensorInitializer(0.0)))
    >>> model = plica.compile(plica.Circuit([coin], {}, [coin]))
    >>> round(mean_log_likelihood(model, torch.tensor([[1], [0], [0]]), batch=2), 4)  # log 0.5
    -0.6931
    """
    parameter = first_parameter(model)
    batch = integer("mean_log_likelihood", "batch", batch, least=1)
    return mean_of(model, as_source(rows, parameter, "mean_log_likelihood: rows"), batch)


def mean_of(
    model: nn.Module, rows: Source, batch: int, ranks: Ranks = ALONE, on_batch: Callable[[], None] | None = None
) -> float:
    """The mean log-likelihood of rows: see `mean_log_likelihood`.

    Args:
        model: Maps rows `(B, D)` to log-likelihoods `(B, 1, 1)`.
        rows: The rows.
        batch: The rows that a process computes together.
        ranks: Processes that have the same rows and call this together; each scores its share of every batch.
        on_batch: Called after each batch, as often on all processes.
    """
    total = torch.zeros((), dtype=torch.float64, device=first_parameter(model).device)
    with torch.no_grad(), _evaluated(model), closing(rows.in_order(batch * ranks.size, ranks=ranks)) as batches:
        for share, _ in batches:
            if len(share):
                total += log_likelihood(model, share).sum(dtype=torch.float64)
            if on_batch is not None:
                on_batch()
    (total,) = ranks.sum([total])
    return float(total) / len(rows)


def as_source(rows: Any, like: Tensor, name: str) -> HeldRows | StreamedRows:
    """Rows as a training run reads them.

    Args:
        rows: `(N, D)` as an array or a tensor, or a stream.
        like: A parameter of the model, whose device and dtype they get.
        name: What they are in messages.

    Raises:
        InputError: There are no rows.
        DTypeError: They are no numbers.
    """
    if is_stream(rows):
        source: HeldRows | StreamedRows = StreamedRows(rows, like)
    else:
        tensor = to_tensor(rows, like)
        if tensor.ndim < 2:
            raise InputError(f"{name} must be rows (N, D), found shape {tuple(tensor.shape)}")
        source = HeldRows(tensor)
    if not len(source):
        shape = (0, *source.row_shape)
        raise InputError(f"{name} has no rows, expected rows (N, D), at least one, found shape {shape}")
    return source


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
        DTypeError: The model is no module of torch.
    """
    if not isinstance(model, nn.Module):
        raise DTypeError(
            f"a model is a compiled circuit or another module of torch, {found(model)}; "
            "compile a circuit first: plica.compile(circuit)"
        )
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
