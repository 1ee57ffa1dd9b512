"""Calls of modules that circuits hold, from generated code."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plica.errors import DTypeError, ShapeError


def opaque(module: nn.Module, method: str, shape: tuple[int, ...], dtype: torch.dtype, *arrays: Tensor) -> Tensor:
    """What a method of a module returns, in memory of its own.

    Args:
        module: The module.
        method: The name of the method; `forward` is called as modules are, with their hooks.
        shape: The shape that the circuit expects.
        dtype: The dtype of the result.
        arrays: What the method takes; floats are converted to the dtype of the module's parameters.

    Raises:
        DTypeError: It returns no tensor.
        ShapeError: It returns a tensor of another shape.
    """
    own = next((one.dtype for one in module.parameters() if one.is_floating_point()), None)
    taken = [one.to(own) if own is not None and one.is_floating_point() else one for one in arrays]
    found = module(*taken) if method == "forward" else getattr(module, method)(*taken)
    name = f"{type(module).__name__}.{method}"
    if not isinstance(found, Tensor):
        raise DTypeError(f"{name}, of a ModuleLayer, returned {type(found).__name__}; expected a tensor.")
    if found.shape != shape:
        given = ", ".join(str(tuple(one.shape)) for one in taken)
        raise ShapeError(
            f"{name}, of a ModuleLayer, returned shape {tuple(found.shape)} for arguments of shape ({given}); expected "
            f"{tuple(shape)}: rows and units of the layer."
        )
    return found.to(dtype) if found.dtype != dtype else found.clone()
