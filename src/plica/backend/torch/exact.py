"""The fallback where linear numbers underflow or overflow: lost results are computed again in log space.

A sum of `weight * exp(x - shift)` is right while it is well above the smallest normal number (times the largest weight
if that is above 1), and finite. Below, terms have lost digits or all of themselves; it is infinite where a weight, such
as exp(100), has overflowed. Then terms are `log weight + x` each, at the price of an array of all of them.
On the CPU that is a plain branch. On other devices, under `torch.compile` and in transforms a branch would wait for the
device. There, all sums are computed in both ways and a selection takes the right one, unless `nowhere_lost`
spares it. Compilers fuse the second way into one reduction; elsewhere it takes rows in blocks.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from plica.backend.torch.logs import headroom, is_abstract, log_from, logsumexp, safe_log
from plica.backend.torch.looks import are_large

_TERMS_AT_ONCE = 2**24


def may_branch(x: Tensor) -> bool:
    """Whether a branch may depend on the values of `x` without waiting for a device."""
    return x.is_cpu and not is_abstract(x)


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
        shift: The number that was subtracted from the exponents.
        factors: Makes the values whose exponentials were multiplied; all products of their units are the terms.
        weight: The linear weight.
        given: The source of the weight's logarithms, if they are not those of `weight`.
        form: How: `"log"` or `"log_softmax"`.
        lost_each: The error that underflow may have made in an entry of the weight, in smallest normal numbers; 0 where
            no entry is so small that a sum may be lost.

    Shapes: total (..., B, O), shift broadcasts with it; factors (..., B, I) each; weight and given (..., O, N), N the
        product of the factors' I, that of the last factor fastest.
    """
    if not lost_each or not total.numel() or not weight.numel():
        return safe_log(total).add_(shift)
    if not may_branch(total):
        return _in_both_ways(total, shift, factors, weight, given, form, lost_each)
    limits = torch.finfo(total.dtype)
    limit = min(least_right(weight, form) * lost_each, limits.max)
    if total.requires_grad:
        limit = max(limit, _least_square(total.dtype))
    least, most = torch.aminmax(total.detach())
    if bool(most <= limits.max):
        if bool(least >= limit):
            return torch.log(total).add_(shift)
        lost = total.detach() < limit
        result = (log_from(total, limit) if torch.is_grad_enabled() else torch.log(total)).add_(shift)
        if bool(least == 0):
            lost &= _have_terms(factors(), weight if given is None else given, form, total.shape)
            if not bool(lost.any()):
                return result
    else:  # a weight has overflowed, and would send NaN to the gradients of all: none of them goes this way
        lost = torch.ones_like(total, dtype=torch.bool)
        result = torch.zeros_like(total.detach() + shift.detach())
    folds, rows = result.shape[:-2], result.shape[-2:]
    flat = result.reshape(-1, *rows)
    values = [_of_folds(x, folds) for x in factors()]
    weights = _of_folds(weight if given is None else given, folds)
    is_lost = lost.reshape(-1, *rows)
    lost_sums = lost.any(-1).reshape(flat.shape[:2]).nonzero()
    for part in torch.split(lost_sums, max(1, _TERMS_AT_ONCE // weights[0].numel())):
        fold, row = part.unbind(1)
        logs = _LOGS[form](weights[fold])
        logs_of_sums = _in_log_space([x[fold, row] for x in values], logs)
        # others of the row stay: here, a weight of 0 has no derivative
        logs_of_sums = torch.where(is_lost[fold, row], logs_of_sums, flat[fold, row])
        flat = flat.index_put((fold, row), logs_of_sums)
    return flat.reshape(result.shape)


def _have_terms(factors: Sequence[Tensor], weight: Tensor, form: str | None, shape: Sequence[int]) -> Tensor:
    """Which sums have a term that is not 0: those without one, as constraints have many, have lost nothing."""
    folds = shape[:-2]
    present = _of_folds(weight.detach(), folds) > (0.0 if form is None else -torch.inf)
    terms = _terms([_of_folds(x.detach(), folds) for x in factors]) > -torch.inf
    return (torch.matmul(terms.to(weight.dtype), present.to(weight.dtype).mT) > 0).reshape(shape)


def least_right(weight: Tensor, form: str | None) -> float:
    """The least sum of weights times factors of at most 1 that is accurate although factors may have underflowed.

    Such a factor has an error of up to the smallest normal number, which its weight multiplies.
    """
    limits = torch.finfo(weight.dtype)
    most = 1.0 if form == "log_softmax" else float(weight.detach().abs().amax())
    return limits.tiny / limits.eps * max(most, 1.0)


def _in_both_ways(
    total: Tensor,
    shift: Tensor,
    factors: Callable[[], Sequence[Tensor]],
    weight: Tensor,
    given: Tensor | None,
    form: str | None,
    lost_each: float,
) -> Tensor:
    """`log_of_sum` without a branch on values."""
    if nowhere_lost(weight, form, lost_each, given):
        return safe_log(total).add_(shift)
    limits = torch.finfo(total.dtype)
    lost = (total.detach() < limit_of(weight, form, lost_each)) | (total.detach() > limits.max)
    if total.requires_grad:
        lost = lost | (total.detach() < _least_square(total.dtype))
    if form == "log":  # sums of weights that `bounded_exp` kept finite
        assert given is not None, "there are logarithms"
        lost = lost | (given.detach().amax(-1) > largest_log(given)).unsqueeze(-2)
    # two choices: behind one alone, the derivatives of what is lost are NaN
    usual = torch.where(lost, 1.0, total).log() + shift
    folds = usual.shape[:-2]
    logs = _of_folds(_LOGS[form](weight if given is None else given), folds)
    values = [_of_folds(x, folds) for x in factors()]
    (exact,) = of_all_rows(lambda *some: (_of_all(*some),), [total.dtype], lost, (logs,), values)
    return torch.where(lost, exact.reshape(usual.shape), usual)


def of_all_rows(
    sums: Callable[..., tuple[Tensor, ...]],
    dtypes: Sequence[torch.dtype],
    lost: Tensor,
    weights: Sequence[Tensor],
    rows: Sequence[Tensor],
) -> Sequence[Tensor]:
    """Sums `(F, B, O)` of all rows. Unless a compiler fuses their terms into the sum, rows are taken in blocks.

    Args:
        sums: Computes sums from the weights and some rows.
        dtypes: The dtypes of its results.
        lost: Which sums are needed. On the CPU a compiled function has a branch, with zeros if none is.
        weights: `(F, O, N)` each.
        rows: `(F, B, I)` each.
    """
    if torch.compiler.is_compiling() and lost.device.type == "cpu":
        shape = (*rows[0].shape[:2], weights[0].shape[1])

        def zeros(*some: Tensor) -> tuple[Tensor, ...]:
            return tuple(some[0].new_zeros(shape, dtype=dtype) for dtype in dtypes)

        # `cond` takes no two views of one tensor, as parts of a fold are
        operands = [operand.clone() if len(group) > 1 else operand for group in (weights, rows) for operand in group]
        results: Sequence[Tensor] = torch.cond(lost.any(), sums, zeros, tuple(operands))
        return results
    at_once = max(1, _TERMS_AT_ONCE // max(1, weights[0].numel()))
    if torch.compiler.is_compiling() or rows[0].shape[1] <= at_once:
        return list(sums(*weights, *rows))
    parts = zip(*(torch.split(x, at_once, 1) for x in rows), strict=True)
    if torch.is_grad_enabled() and not is_abstract(rows[0]):  # the backward pass makes the terms again
        again = partial(checkpoint, sums, *weights, use_reentrant=False, preserve_rng_state=False)
        blocks = [again(*some) for some in parts]
    else:
        blocks = [sums(*weights, *some) for some in parts]
    return [torch.cat(some, 1) for some in zip(*blocks, strict=True)]


def bounded_exp(logs: Tensor) -> Tensor:
    """The exponential, or e^-1 of the largest number where it is beyond: an infinite one sends NaN to all gradients."""
    return logs.clamp(max=largest_log(logs)).exp()


def largest_log(logs: Tensor) -> float:
    """The logarithm at which `bounded_exp` cuts."""
    return math.log(torch.finfo(logs.dtype).max) - 1.0


def nowhere_lost(weight: Tensor, form: str | None, lost_each: float = 1.0, given: Tensor | None = None) -> bool:
    """Whether a weight is known to have no entry so small that a sum may be lost, wherever the largest input lies.

    Known are weights that calls share, as folded ones and constants are, and the softmax of a circuit's leaf.
    """
    if is_abstract(weight) or weight.is_meta:
        return False
    limits = torch.finfo(weight.dtype)
    limit = limits.tiny / limits.eps * lost_each
    wanted = max(limit, _least_square(weight.dtype)) if torch.is_grad_enabled() else limit
    if form == "log_softmax" and given is not None and are_large(weight, wanted, given, limit):
        return True
    return not weight.requires_grad and are_large(weight, wanted)


def limit_of(weight: Tensor, form: str | None, lost_each: float = 1.0) -> float | Tensor:
    """The least sum whose digits cannot have been lost, without a look at the weight."""
    limits = torch.finfo(weight.dtype)
    least = limits.tiny / limits.eps * lost_each
    if form == "log_softmax":
        return min(least, limits.max)
    return (least * weight.detach().abs().amax().clamp(min=1.0)).clamp(max=limits.max)


def _least_square(dtype: torch.dtype) -> float:
    """The least sum by whose square its second derivatives can be divided."""
    return float(torch.finfo(dtype).tiny ** 0.5 * headroom(dtype))


def _of_all(logs: Tensor, *values: Tensor) -> Tensor:
    """Shapes: logs (F, O, N), values (F, B, I) each, result (F, B, O)."""
    return logsumexp(logs.unsqueeze(1) + _terms(values).unsqueeze(2), (3,), keepdims=False)


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
    return logsumexp(logs + _terms(factors).unsqueeze(1), (2,), keepdims=False)


def _terms(factors: Sequence[Tensor]) -> Tensor:
    """The sums of one unit of each factor, the last factor's fastest, along the last axis."""
    return reduce(lambda terms, x: (terms.unsqueeze(-1) + x.unsqueeze(-2)).flatten(-2), factors)
