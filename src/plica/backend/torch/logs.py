"""Logarithms of sums that take zeros as they come: `-inf` in value, 0 in gradient, and no NaN."""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from plica.ir.dtypes import headroom_of

# It has no public name; where a version of torch lacks it, a transform may be active.
transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
"""Whether a transform of torch.func is: then no `autograd.Function` without `setup_context` runs, whatever it takes."""


def is_abstract(x: Tensor) -> bool:
    """Whether `x` stands for tensors that are not known yet: under torch.compile, and in a transform such as vmap."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x)


def safe_log(x: Tensor) -> Tensor:
    """The logarithm, with derivative 0 at 0, so that a probability of zero has gradient 0 instead of NaN.

    The derivative is 0 too below `headroom` times the smallest normal number, where a sum of several would overflow.
    """
    if not torch.is_grad_enabled():
        return torch.log(x)
    if x.is_complex():
        return torch.log(x.masked_fill(x == 0, 0))
    return log_from(x, torch.finfo(x.dtype).tiny * headroom(x.dtype))


def headroom(dtype: torch.dtype) -> float:
    """The least x at which `safe_log` has the derivative `1 / x`, in multiples of the smallest normal number."""
    return headroom_of(torch.finfo(dtype).max)


def log_from(x: Tensor, limit: float) -> Tensor:
    """The logarithm, whose derivative is taken to be 0 below `limit`."""
    small = x.detach() < limit
    if x.device.type == "cpu" and not is_abstract(x) and not bool(small.any()):
        return torch.log(x)
    # two choices: behind one alone, the second derivative at 0 is 0 / 0
    return torch.where(small, torch.log(x.detach()), torch.log(torch.where(small, 1.0, x)))


def shift_of(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element along `axes`, kept finite, without gradient; 0 where there are no elements.

    A finite shift is all that `-inf` needs: exp(-inf - shift) is 0, and no NaN arises. It costs one clamp of an array
    that has lost its last axis, where masking would cost passes over the whole of `x`.
    """
    if not axes:  # which torch takes for all of them
        return finite(x.detach())
    if any(x.shape[axis] == 0 for axis in axes):
        return x.detach().sum(axes, keepdim=True)
    return finite(x.detach().amax(axes, keepdim=True))


def finite(x: Tensor) -> Tensor:
    """`x` with infinities made the largest finite numbers: `inf - inf` would be NaN."""
    limits = torch.finfo(x.dtype)
    return x.clamp(limits.min, limits.max)


def logaddexp(*arrays: Tensor) -> Tensor:
    """Log of the sum of exponentials of several arrays, entry by entry; `-inf` where all are, with gradient 0."""
    largest = finite(reduce(torch.maximum, [x.detach() for x in arrays]))
    total = reduce(torch.add, [(x - largest).exp_() for x in arrays])
    return safe_log(total).add_(largest)


def hypot(x: Tensor, y: Tensor) -> Tensor:
    """The length of (x, y); its derivatives where both are 0 are 0, which are NaN in torch."""
    if not (torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)):
        return torch.hypot(x, y)
    nothing = (x == 0) & (y == 0)
    return torch.where(nothing, 0.0, torch.hypot(torch.where(nothing, 1.0, x), y))


def power(x: Tensor | float, y: Tensor | float) -> Tensor:
    """X to the power y; where y is 0, the derivative by x has one by y, which torch leaves out.

    The complex 0 to the power 0 is 1; torch's is NaN.
    """
    if any(isinstance(one, complex) or (isinstance(one, Tensor) and one.is_complex()) for one in (x, y)):
        return torch.pow(torch.where(torch.as_tensor((x == 0) & (y == 0)), 1.0, torch.as_tensor(x)), y)
    if not (torch.is_grad_enabled() and isinstance(y, Tensor) and y.requires_grad):
        return torch.pow(x, y)  # type: ignore[arg-type]
    base = torch.as_tensor(x, dtype=y.dtype, device=y.device)
    flat = (y == 0) & (base > 0)
    there = torch.exp(y * torch.log(torch.where(flat, base, 1.0)))
    return torch.where(flat, there, torch.pow(base, torch.where(flat, 1.0, y)))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), whose second derivative is right on both sides; that of torch's functions is 0 or NaN on one."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return torch.logaddexp(x, torch.zeros_like(x))
    right = x >= 0
    beyond = torch.nn.functional.softplus(torch.where(right, -x, x))
    return beyond + torch.where(right, x, 0.0)


def logsumexp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Log of the sum of exponentials over axes; `-inf` where all are, with gradient 0."""
    shift = shift_of(x, axes)
    result = safe_log((x - shift).exp_().sum(axes, keepdim=True)).add_(shift)
    return result if keepdims else result.squeeze(axes)
