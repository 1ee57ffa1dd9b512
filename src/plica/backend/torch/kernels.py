"""What generated code calls beside torch's own functions: operations with a gradient or a memory cost of their own.

Every function works on any device and dtype, under autograd and `torch.compile`, and never synchronises with the host.
"""

from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import hardshrink


def safe_log(x: Tensor) -> Tensor:
    """The logarithm; its derivative at 0 is 0, so that a probability of zero sends no gradient instead of NaN.

    hardshrink with bound 0 changes no value, and its backward pass is a selection, which stops even an infinite
    gradient where x is 0. Measured against a mask in a hand-written backward, it is the cheaper of the two.
    """
    return torch.log(hardshrink(x, 0.0) if torch.is_grad_enabled() else x)


def _shift(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element along `axes`, kept finite, without gradient.

    A finite shift is all that `-inf` needs: exp(-inf - shift) is 0, and no NaN arises. It costs one clamp of an array
    that has lost its last axis, where masking would cost passes over the whole of `x`.
    """
    largest = x.detach().amax(axes, keepdim=True)
    return largest.clamp_(min=torch.finfo(x.dtype).min)


def log_matmul_exp(*arrays: Tensor) -> Tensor:
    """log(sum over h of exp(x_h) @ W_h.T) with one shift for all inputs.

    Shapes: x_h (..., B, I), the last array the weight (..., O, H*I), result (..., B, O).
    """
    *inputs, weight = arrays
    shift = reduce(torch.maximum, [_shift(x, (-1,)) for x in inputs])
    units = inputs[0].shape[-1]
    total = None
    for place, x in enumerate(inputs):
        columns = weight if len(inputs) == 1 else weight.narrow(-1, place * units, units)
        product = torch.matmul((x - shift).exp_(), columns.mT)
        total = product if total is None else total + product
    assert total is not None, "there is at least one input"
    return safe_log(total).add_(shift)


def logaddexp(*arrays: Tensor) -> Tensor:
    """log of the sum of exponentials of several arrays, entry by entry; `-inf` where all are, with gradient 0."""
    largest = reduce(torch.maximum, [x.detach() for x in arrays]).clamp(min=torch.finfo(arrays[0].dtype).min)
    total = reduce(torch.add, [(x - largest).exp_() for x in arrays])
    return safe_log(total).add_(largest)


def logsumexp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """log of the sum of exponentials over axes; `-inf` where all are, with gradient 0."""
    if any(x.shape[axis] == 0 for axis in axes):
        return torch.logsumexp(x, axes, keepdim=keepdims)
    shift = _shift(x, axes)
    result = safe_log((x - shift).exp_().sum(axes, keepdim=True)).add_(shift)
    return result if keepdims else result.squeeze(axes)


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Column `index[f, b]` of each fold's table.

    Shapes: table (F, K, C), index (F, B), result (F, B, K).
    """
    folds, units, _ = table.shape
    places = index.unsqueeze(1).expand(folds, units, index.shape[1])
    return table.gather(2, places).mT


def search_cumulative(table: Tensor, rows: Tensor, uniforms: Tensor) -> Tensor:
    """Binary search of uniform numbers in rows of cumulative weights, without gathering the rows.

    Each of the log2(C) steps reads one number for each (fold, row): the memory is O(F B), not O(F B C).

    Shapes: table (F, K, C), rows (F, B), uniforms (F, B), result (F, B).
    """
    folds, units, categories = table.shape
    flat = table.reshape(folds, units * categories)
    start = rows * categories
    target = uniforms * flat.gather(1, start + (categories - 1))
    low, high = torch.zeros_like(rows), torch.full_like(rows, categories - 1)
    for _ in range((categories - 1).bit_length()):
        middle = (low + high) // 2
        beyond = flat.gather(1, start + middle) <= target
        low, high = torch.where(beyond, middle + 1, low), torch.where(beyond, high, middle)
        low = torch.minimum(low, high)
    return low
