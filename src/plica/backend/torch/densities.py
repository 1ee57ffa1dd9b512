"""Logarithms of densities, whose gradients are finite wherever they are numbers that the dtype holds."""

import math
from typing import Any

import torch
from torch import Tensor

from plica.backend.torch.logs import finite, is_abstract, transforms_active


def log_normal(x: Tensor, mean: Tensor, log_stddev: Tensor) -> Tensor:
    """The logarithm of the normal density: `-((x - m) / s)**2 / 2 - log(s) - log(2 pi) / 2`.

    Where the square overflows, the derivatives by `x` and `m` are 0, and no gradient becomes NaN.

    Args:
        x: The data; infinities count as the largest numbers.
        mean: m.
        log_stddev: log(s): the derivative by s itself leaves the dtype long before s does.

    Shapes: three that broadcast, and what they broadcast to.
    """
    if not torch.is_grad_enabled() or any(map(is_abstract, (x, mean, log_stddev))) or transforms_active():
        return _density(_traced_standard(x, mean, _precision(log_stddev)), log_stddev)
    result: Tensor = _LogNormal.apply(x, mean, log_stddev)  # type: ignore[no-untyped-call]
    return result


def _far(dtype: torch.dtype) -> float:
    """A number whose square, halved, overflows."""
    return 1.45 * math.sqrt(torch.finfo(dtype).max)


def _most(dtype: torch.dtype) -> float:
    """A number whose exponential, and that of its negative, are neither infinite nor 0."""
    return math.log(torch.finfo(dtype).max) - 0.5


def _precision(log_stddev: Tensor) -> Tensor:
    """1 / s, neither infinite nor 0: with a derivative of 0, or with an infinite distance, either would be NaN."""
    bound = _most(log_stddev.dtype)
    return torch.exp(torch.clamp(-log_stddev, -bound, bound))


def _standard(x: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    """The distance in spreads, cut where its square overflows; in as little memory as there can be."""
    far, distance = _far(x.dtype), finite(x) - mean
    return (distance.mul_(precision) if _covers(distance, precision) else distance * precision).clamp_(-far, far)


def _covers(x: Tensor, y: Tensor) -> bool:
    """Whether both broadcast to the shape of the first."""
    sizes = x.shape[x.ndim - y.ndim :]
    return x.ndim >= y.ndim and all(own in (1, size) for own, size in zip(y.shape, sizes, strict=True))


def _traced_standard(x: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    """The same, for derivatives that others work out: a distance that is infinite would make them NaN."""
    far = _far(x.dtype)
    return torch.clamp(finite(finite(x) - mean) * precision, -far, far)


def _density(standard: Tensor, log_stddev: Tensor) -> Tensor:
    peak = -0.5 * math.log(2.0 * math.pi) - log_stddev
    return torch.addcmul(peak, standard, standard, value=-0.5)


class _LogNormal(torch.autograd.Function):
    """`log_normal` with gradients that are added over rows before they are divided by spreads.

    Divided first, those of two rows may be inf and -inf, and their sum NaN.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, log_stddev: Tensor) -> Tensor:
        precision = _precision(log_stddev)
        standard = _standard(x, mean, precision)
        ctx.save_for_backward(x, mean, log_stddev, standard, precision)
        ctx.save_for_forward(standard, precision)
        return _density(standard, log_stddev)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, log_stddev, standard, precision = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():  # this pass is differentiated too
            precision = _precision(log_stddev)
            standard = _traced_standard(x, mean, precision)
        far = _far(x.dtype)
        # d/dm = z / s, d/dx = -z / s, d/d log s = z^2 - 1
        by_standard = torch.ops.aten.hardtanh_backward(gradient * standard, standard, -far, far)
        to_x = (by_standard * -precision).sum_to_size(x.shape) if ctx.needs_input_grad[0] else None
        to_mean = None
        if ctx.needs_input_grad[1]:
            # a mean may meet several spreads
            spreads = torch.broadcast_shapes(mean.shape, precision.shape)  # type: ignore[no-untyped-call]
            to_mean = (by_standard.sum_to_size(spreads) * precision).sum_to_size(mean.shape)
        to_log = (by_standard * standard - gradient).sum_to_size(log_stddev.shape) if ctx.needs_input_grad[2] else None
        return to_x, to_mean, to_log

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        standard, precision = ctx.saved_tensors
        along_x, along_mean, along_log = tangents
        result = torch.zeros_like(standard)
        for tangent, slope in (
            (along_x, -standard * precision),
            (along_mean, standard * precision),
            (along_log, standard * standard - 1),
        ):
            if tangent is not None:
                result = result + tangent * slope
        return result
