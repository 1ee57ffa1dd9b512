"""How fast a forward pass could be: what a circuit multiplies and moves, over what the machine can do.

The roofline of a circuit is the larger of two times: of its arithmetic, 2 operations for each weight and row, at the
rate of a large matrix product; and of its traffic, the weights once and what input and sum layers give three times, at
the bandwidth of a large copy. Products are not counted: the sum above may multiply while it reads.

>>> Work(weights=1_000, activations=50).milliseconds(2, {"operations": 1e9, "bytes": 1e9})
0.0052
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmarks.harness import Settings, measure, summary

if TYPE_CHECKING:
    from plica import Circuit

_BYTES = 4  # of a float32
_TIMES = 3  # that an activation passes through memory
_SIDE = 1024  # of a matrix
_COPIED = 2**24  # float32 numbers: more than caches hold


@dataclass(frozen=True, slots=True)
class Work:
    """What the forward pass of a circuit does.

    Args:
        weights: The numbers of all sum layers.
        activations: The units of all input and sum layers: the numbers of a row.
    """

    weights: int
    activations: int

    def operations(self, rows: int) -> int:
        """Multiplications and additions."""
        return 2 * self.weights * rows

    def bytes(self, rows: int) -> int:
        """The traffic."""
        return _BYTES * (self.weights + _TIMES * self.activations * rows)

    def milliseconds(self, rows: int, rates: Mapping[str, float]) -> float:
        """The roofline at `operations` and `bytes` in a second."""
        return 1e3 * max(self.operations(rows) / rates["operations"], self.bytes(rows) / rates["bytes"])


def work_of(circuit: Circuit) -> Work:
    """Count the work of a symbolic circuit."""
    from plica.symbolic.parameters import TensorParameter

    weights = sum(
        math.prod(node.shape)
        for layer in circuit.sum_layers
        for node in layer.weight.nodes
        if isinstance(node, TensorParameter)
    )
    layers = (*circuit.input_layers, *circuit.sum_layers)
    return Work(weights, sum(layer.num_output_units for layer in layers))


def measure_rates(settings: Settings, side: int = _SIDE, copied: int = _COPIED) -> dict[str, float]:
    """What this machine does now: `operations` of a matrix product and `bytes` of a copy in a second, by medians.

    Args:
        settings: How long to measure.
        side: The rows and columns of the matrices.
        copied: The numbers that are copied.
    """
    x, y, product = (torch.rand(side, side, device=settings.device) for _ in range(3))
    source = torch.zeros(copied, device=settings.device)
    target = torch.empty_like(source)
    calls: dict[str, tuple[Callable[[], object], float]] = {
        "operations": (lambda: torch.mm(x, y, out=product), 2.0 * side**3),
        "bytes": (lambda: target.copy_(source), 2.0 * _BYTES * copied),  # read and written
    }
    samples = measure({name: call for name, (call, _) in calls.items()}, settings)
    return {name: summary([units / one for one in samples[name]])["median"] for name, (_, units) in calls.items()}
