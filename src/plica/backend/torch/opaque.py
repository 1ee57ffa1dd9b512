"""Calls of modules that circuits hold, from generated code."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plica.errors import DTypeError, ShapeError


def opaque(module: nn.Module, method: str, shape: tuple[int, ...], dtype: torch.dtype, *arrays: Tensor) -> Tensor:
    """The result of a method of a module, in memory of its own.

    Args:
        module: The module.
        method: The name of the method; `forward` is called as modules are, with their hooks.
        shape: The shape that the circuit expects.
        dtype: The dtype of the result.
        arrays: The arguments; floats are converted to the dtype of the module's parameters.

    Raises:
        DTypeError: It returns no tensor.
        ShapeError: It returns a tensor of another shape.
    """
    own = next((parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()), None)
    converted = [array.to(own) if own is not None and array.is_floating_point() else array for array in arrays]
    result = module(*converted) if method == "forward" else getattr(module, method)(*converted)
    name = f"{type(module).__name__}.{method}"
    if not isinstance(result, Tensor):
        raise DTypeError(f"{name}, of a ModuleLayer, returned {type(result).__name__}; expected a tensor.")
    if result.shape != shape:
        shapes = ", ".join(str(tuple(array.shape)) for array in converted)
        raise ShapeError(
            f"{name}, of a ModuleLayer, returned shape {tuple(result.shape)} for arguments of shape ({shapes}); "
            f"expected {tuple(shape)}: rows and units of the layer."
        )
    return result.to(dtype) if result.dtype != dtype else result.clone()
