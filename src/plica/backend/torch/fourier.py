"""Fourier transforms, of arrays without elements too."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from plica.backend.torch.indexing import located
from plica.errors import InputError
from plica.ops.fourier import NO_POINTS
from plica.ops.rules import normal_axes


def transform(name: str, x: Tensor, sizes: Sequence[int], axes: Sequence[int], norm: str) -> Tensor:
    """A transform of `torch.fft`, which refuses an array that is empty along an axis which it does not transform.

    Such an array is transformed with one row of zeros more, which is then left out.

    Raises:
        InputError: There are no points along an axis.
    """
    if min(sizes) < 1:
        raise InputError(located(NO_POINTS.format(name)))
    function: Callable[..., Tensor] = getattr(torch.fft, f"{name}n")
    if x.numel():
        return function(x, sizes, axes, norm)
    transformed = normal_axes(axes, x.ndim)
    empty = [axis for axis, size in enumerate(x.shape) if not size and axis not in transformed]
    padding = [int(side and axis in empty) for axis in reversed(range(x.ndim)) for side in (0, 1)]
    result = function(torch.nn.functional.pad(x, padding), sizes, axes, norm)
    for axis in empty:
        result = result.narrow(axis, 0, 0)
    return result
