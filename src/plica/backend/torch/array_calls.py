"""Calls a circuit, or a query of it, with arrays of NumPy, for callers that do without torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit


def call_with_array(
    circuit: TorchCircuit, call: Callable[[torch.Tensor], torch.Tensor], x: NDArray[Any]
) -> NDArray[Any]:
    """The result of `call` for a copy of `x` on the circuit's device, without gradients."""
    with torch.no_grad():
        result = call(torch.tensor(x, device=circuit.leaves.device)).cpu()
    array: NDArray[Any] = (result.double() if result.dtype == torch.bfloat16 else result).numpy()
    return array
