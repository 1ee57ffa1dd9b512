"""The way out where linear numbers underflow or overflow: results that are lost are computed again in log space.

A sum of `weight * exp(x - shift)` is right while it is well above the smallest normal number (times the largest weight
if that is above 1), and finite. Below, terms have lost digits or all of themselves; it is infinite where a weight, such
as exp(100), has overflowed. Then terms are `log weight + x` each, at the price of an array of all of them.
On the CPU that is a plain branch. On other devices, under `torch.compile` and in function transforms it would wait for
the device, so there the result stays as it is: `-inf` where every term is below the smallest number.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from plica.backend.torch.logs import is_abstract, log_from, logsumexp, safe_log

_TERMS_AT_ONCE = 2**24


def log_of_sum(
    total: Tensor,
    shift: Tensor,
    factors: Callable[[], Sequence[Tensor]],
    weight: Tensor,
    given: Tensor | None,
    form: str | None,
    lost_each: float = 1.0,
) -> Tensor:
    """`log(total) + shift`, with the entries recomputed whose linear `total` lost precision.

    Args:
        total: The sums of weights times exponentials.
        shift: What was taken from the exponents.
        factors: Makes the values whose exponentials were multiplied; all products of their units are the terms.
        weight: The linear weight.
        given: What the weight's logarithms are computed from, if they are not those of `weight`.
        form: How: `"log"` or `"log_softmax"`.
        lost_each: How many smallest normal numbers an entry of the weight may lack.

    Shapes: total (..., B, O), shift broadcasts with it; factors (..., B, I) each; weight and given (..., O, N), N the
        product of the factors' I, that of the last factor fastest.
    """
    if is_abstract(total) or total.device.type != "cpu" or not total.numel() or not weight.numel():
        return safe_log(total).add_(shift)
    limits = torch.finfo(total.dtype)
    limit = min(least_right(weight, form) * lost_each, limits.max)
    least, most = torch.aminmax(total.detach())
    if bool(most <= limits.max):
        if bool(least >= limit):
            return torch.log(total).add_(shift)
        lost = total.detach() < limit
        result = (log_from(total, limit) if torch.is_grad_enabled() else torch.log(total)).add_(shift)
    else:  # a weight has overflowed, and would send NaN to the gradients of all: none of them goes this way
        lost = torch.ones_like(total, dtype=torch.bool)
        result = torch.zeros_like(total.detach() + shift.detach())
    folds, rows = result.shape[:-2], result.shape[-2:]
    flat = result.reshape(-1, *rows)
    values = [_of_folds(x, folds) for x in factors()]
    weights = _of_folds(weight if given is None else given, folds)
    is_lost = lost.reshape(-1, *rows)
    places = lost.any(-1).reshape(flat.shape[:2]).nonzero()
    for part in torch.split(places, max(1, _TERMS_AT_ONCE // weights[0].numel())):
        fold, row = part.unbind(1)
        logs = _LOGS[form](weights[fold])
        found = _in_log_space([x[fold, row] for x in values], logs)
        # others of the row stay: here, a weight of 0 has no derivative
        found = torch.where(is_lost[fold, row], found, flat[fold, row])
        flat = flat.index_put((fold, row), found)
    return flat.reshape(result.shape)


def least_right(weight: Tensor, form: str | None) -> float:
    """The least sum of weights times numbers of at most 1 whose digits cannot have been lost by small factors.

    Each of these lacks up to a smallest normal number, times its weight, which may be larger than 1.
    """
    limits = torch.finfo(weight.dtype)
    most = 1.0 if form == "log_softmax" else float(weight.detach().abs().amax())
    return limits.tiny / limits.eps * max(most, 1.0)


_LOGS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: safe_log,
    "log": lambda x: x,
    "log_softmax": lambda x: torch.log_softmax(x, -1),
}


def _of_folds(x: Tensor, folds: Sequence[int]) -> Tensor:
    """`x (..., B, I)` with the leading axes of the result as one."""
    return x.expand(*folds, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _in_log_space(factors: Sequence[Tensor], logs: Tensor) -> Tensor:
    """Shapes: factors (P, I) each, logs (P, O, N), result (P, O)."""
    terms = factors[0]
    for x in factors[1:]:
        terms = (terms.unsqueeze(2) + x.unsqueeze(1)).flatten(1)
    return logsumexp(logs + terms.unsqueeze(1), (2,), keepdims=False)
