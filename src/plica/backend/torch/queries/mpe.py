"""The most probable explanation: see `plica.queries.mpe`."""

from __future__ import annotations

from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.choosing import answer
from plica.backend.torch.queries.rows import whole_layers
from plica.lower.queries.mpe import MPE


def mpe(circuit: TorchCircuit, x: Tensor) -> tuple[Tensor, Tensor]:
    """See `plica.queries.mpe`."""
    x = whole_layers(circuit, MPE.name, x)
    found = answer(circuit, MPE, len(x), x)
    return found.rows, found.log_value
