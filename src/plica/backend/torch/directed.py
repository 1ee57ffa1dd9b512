"""Matrix products of numbers that are kept as a direction and a size: `direction * exp(size)`.

Sizes are constants: the derivative of a number is that of its direction, so that a number that is 0 has the derivative
that it has in ordinary arithmetic.

A product is one of matrices, of terms divided by the largest number of their row. Where that is so large that terms are
lost beside it, as where its weight is 0, the sum is made again of all its terms divided by the largest of them. On the
CPU a branch finds such sums; elsewhere all are made again (`exact.py`).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from plica.backend.torch.exact import least_right, limit_of, may_branch, nowhere_lost, of_all_rows
from plica.backend.torch.logs import headroom

_TERMS_AT_ONCE = 2**22


def directed_matmul(
    direction: Tensor, size: Tensor, weight: Tensor, given: Tensor | None = None, *, logs: str | None = None
) -> tuple[Tensor, Tensor]:
    """The directions and sizes of `(direction * exp(size)) @ weight.T`.

    Args:
        direction: The directions, real or complex.
        size: Their sizes, finite.
        weight: Ordinary numbers of the dtype of the directions.
        given: The source of the logarithms of a weight that is not negative, where the weight may underflow.
        logs: How they are computed from it: `"log"` or `"log_softmax"`.

    Shapes: direction and size (F, B, I), weight and given (F, O, I), results (F, B, O).
    """
    size = size.detach()
    if not size.shape[2]:
        nothing = direction.sum(2, keepdim=True).expand(-1, -1, weight.shape[1])
        return nothing, torch.zeros_like(nothing.real if nothing.is_complex() else nothing)
    counts = direction.detach() != 0
    shift = _largest(size, counts)
    total = torch.matmul(_shifted(direction, size - shift), weight.mT)
    shift = shift.expand(total.shape)
    if total.numel() and may_branch(total):
        total, shift = _with_lost(total, shift, (direction, size, counts), weight, given, logs)
    elif total.numel() and not nowhere_lost(weight, logs, given=given):
        total, shift = _in_both_ways(total, shift, (direction, size), weight, given, logs)
    length = log_length(total)
    return _directions(total, length), length + shift


def _largest(size: Tensor, counts: Tensor) -> Tensor:
    """The largest size along the last axis, `(..., 1)`, of numbers for which `counts` holds; of all if none does."""
    largest = size.masked_fill(~counts, -torch.inf).amax(-1, keepdim=True)
    return torch.where(
        largest > -torch.inf, largest, size.amax(-1, keepdim=True).clamp(min=torch.finfo(size.dtype).min)
    )


def _shifted(direction: Tensor, size: Tensor) -> Tensor:
    """Numbers whose sizes are at most 0, but for those of zeros, whose derivatives must not overflow."""
    return direction * size.clamp(max=math.log(torch.finfo(size.dtype).max) / 2).exp()


def log_length(x: Tensor, of_zero: float = 0.0) -> Tensor:
    """The logarithm of |x| as a constant; for subnormal numbers that of the smallest normal number."""
    length = x.detach().abs()
    return torch.where(length > 0, length.clamp(min=torch.finfo(length.dtype).tiny).log(), of_zero)


def _directions(x: Tensor, length: Tensor) -> Tensor:
    """The quotient x / |x|; there is no derivative where the sum of some would overflow."""
    least = math.log(torch.finfo(length.dtype).tiny * headroom(length.dtype))
    return torch.where(length < least, x.detach(), x) * (-length).exp()


def _with_lost(
    total: Tensor,
    shift: Tensor,
    numbers: tuple[Tensor, Tensor, Tensor],
    weight: Tensor,
    given: Tensor | None,
    logs: str | None,
) -> tuple[Tensor, Tensor]:
    """Sums and shifts, made again where terms were lost: where a sum is very small, and some term of it is not 0."""
    limits = torch.finfo(shift.dtype)
    length = total.detach().abs()
    right = (length >= min(least_right(weight, logs), limits.max)) & (length <= limits.max)
    if bool(right.all()):
        return total, shift
    direction, size, counts = numbers
    log_weight, turn = _parts_of(weight, given, logs)
    possible = torch.matmul(counts.to(size.dtype), (log_weight.detach() > -torch.inf).to(size.dtype).mT) > 0
    lost = ~right & possible
    if not bool((length <= limits.max).all()):  # a weight has overflowed, and would send NaN to the gradients of all
        lost, total = possible, torch.zeros_like(total)
    lost_sums = lost.any(-1).nonzero()
    for part in torch.split(lost_sums, max(1, _TERMS_AT_ONCE // weight[0].numel())):
        fold, row = part.unbind(1)
        sums, top = _of_terms(turn[fold], log_weight[fold], direction[fold, row], size[fold, row])
        chosen = lost[fold, row] & (sums.detach() != 0)
        total = total.index_put((fold, row), torch.where(chosen, sums, total[fold, row]))
        shift = shift.index_put((fold, row), torch.where(chosen, top, shift[fold, row]))
    return total, shift


def _in_both_ways(
    total: Tensor,
    shift: Tensor,
    numbers: tuple[Tensor, Tensor],
    weight: Tensor,
    given: Tensor | None,
    logs: str | None,
) -> tuple[Tensor, Tensor]:
    """`_with_lost` without a branch on values."""
    length = total.detach().abs()
    right = (length >= limit_of(weight, logs)) & (length <= torch.finfo(shift.dtype).max)
    log_weight, turn = _parts_of(weight, given, logs)
    wide = [x.expand(total.shape[0], -1, -1) for x in (turn, log_weight)]
    sums, top = of_all_rows(
        lambda turn, logs, *some: _of_terms(turn.unsqueeze(1), logs.unsqueeze(1), *some),
        [total.dtype, shift.dtype],
        ~right,
        wide,
        numbers,
    )
    chosen = ~right & (sums.detach() != 0)
    return torch.where(chosen, sums, total), torch.where(chosen, top, shift)


def _of_terms(turn: Tensor, log_weight: Tensor, direction: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of all their terms divided by the largest, and the logarithms of that.

    Shapes: turn and log_weight (..., O, I), direction and size (..., I), results (..., O).
    """
    phases = direction.unsqueeze(-2) * turn
    sizes = size.unsqueeze(-2) + log_weight
    top = _largest(sizes, (phases.detach() != 0) & (sizes > -torch.inf))
    return _shifted(phases, sizes - top).sum(-1), top.squeeze(-1)


def _parts_of(weight: Tensor, given: Tensor | None, logs: str | None) -> tuple[Tensor, Tensor]:
    """The logarithms of a weight's sizes, as constants, and its directions."""
    log_weight: Tensor = _LOGS[logs](weight if given is None else given)
    turn = _directions(weight, log_length(weight)) if given is None else _ones(log_weight)
    return log_weight.detach(), turn


_LOGS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda x: log_length(x, -torch.inf),
    "log": lambda x: x,
    "log_softmax": lambda x: torch.log_softmax(x, -1),
}


def _ones(logs: Tensor) -> Tensor:
    """Ones with the derivative of the exponential of some logarithms, divided by it."""
    known = torch.where(logs.detach() > -torch.inf, logs, 0.0)
    return (known - known.detach()).exp()
