"""The way out where linear numbers underflow: the few results that are lost are computed again in log space.

A sum of `weight * exp(x - shift)` is right while it is well above the smallest normal number. Below, terms have lost
digits or all of themselves; then terms are `log weight + x` each, at the price of an array of all of them.
On the CPU that is a plain branch. On other devices, under `torch.compile` and in function transforms it would wait for
the device, so there the result stays as it is: `-inf` where every term is below the smallest number.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from plica.backend.torch.logs import logsumexp, safe_log

_TERMS_AT_ONCE = 2**24


def is_abstract(x: Tensor) -> bool:
    """Whether `x` stands for tensors that are not known yet: under torch.compile, and in a transform such as vmap."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x)


def restore(result: Tensor, total: Tensor, factors: Sequence[Tensor], weight: Tensor) -> Tensor:
    """`result` with the entries recomputed where the linear `total` lost precision.

    Shapes: result and total (..., B, O); factors (..., B, I) each, all products of their units the terms; weight
        (..., O, N), N the product of the factors' I, that of the last factor fastest.
    """
    if is_abstract(total) or total.device.type != "cpu" or not total.numel() or not weight.numel():
        return result
    limits = torch.finfo(total.dtype)
    limit = limits.tiny / limits.eps
    if bool(total.detach().amin() >= limit):
        return result
    folds, rows = result.shape[:-2], result.shape[-2:]
    flat = result.reshape(-1, *rows)
    values = [x.expand(*folds, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in factors]
    weights = weight.expand(*folds, *weight.shape[-2:]).reshape(-1, *weight.shape[-2:])
    lost = (total.detach() < limit).any(-1).reshape(flat.shape[:2]).nonzero()
    for part in torch.split(lost, max(1, _TERMS_AT_ONCE // weights[0].numel())):
        fold, row = part.unbind(1)
        flat = flat.index_put((fold, row), _in_log_space([x[fold, row] for x in values], weights[fold]))
    return flat.reshape(result.shape)


def _in_log_space(factors: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Shapes: factors (P, I) each, weights (P, O, N), result (P, O)."""
    terms = factors[0]
    for x in factors[1:]:
        terms = (terms.unsqueeze(2) + x.unsqueeze(1)).flatten(1)
    return logsumexp(safe_log(weights) + terms.unsqueeze(1), (2,), keepdims=False)
