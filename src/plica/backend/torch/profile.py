"""Where the time of a compiled circuit goes, group by group of its layers.

>>> import torch
>>> from plica.backend.torch.compiler import TorchCompiler
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer, SumLayer
>>> layer, total = CategoricalLayer([0], 4, num_categories=3), SumLayer(4, 1)
>>> circuit = TorchCompiler().compile(Circuit([layer, total], {total: [layer]}, [total]))
>>> [part.name.partition(":")[0] for part in profile(circuit, torch.tensor([[0], [2]]))]
['the data', 'group 0', 'group 1', 'the whole circuit']
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plica.backend.torch.emit import load, source

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

_PLACE = re.compile(r"^( +)# (.+)$")  # what emitted code says before the lines of a group
_START = "the data"


@dataclass(frozen=True, slots=True)
class PartTime:
    """One part of a Program.

    Attributes:
        name: A group of layers, or what comes before and after all groups.
        seconds: The least of several calls.
    """

    name: str
    seconds: float


class _Clock:
    """Adds up the time between marks; on a GPU it waits for what was asked before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.seconds: dict[str, float] = {}
        self._name, self._since = _START, 0.0

    def start(self) -> None:
        self.seconds = {}
        self._name, self._since = _START, self._now()

    def mark(self, name: str) -> None:
        """End one part and begin another."""
        now = self._now()
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, self._now()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


@torch.no_grad()
def profile(circuit: TorchCircuit, x: Tensor, *, rounds: int = 7) -> tuple[PartTime, ...]:
    """The least time that each part of `circuit.program` takes for some rows, in the order in which they run.

    The Program is that of the circuit's semiring, with weights as they are: what eval mode folds and what faster
    carriers try first is left out, so that each group of layers is timed as it stands in `circuit.code`.

    Args:
        circuit: A compiled circuit with variables.
        x: `(B, D)` data.
        rounds: How many calls; one more comes before them.
    """
    x = circuit.checked(x)
    program = circuit.prepared(x.dtype).program
    clock = _Clock(circuit.leaves.device)
    run = load(_marked(source(program)), "forward", clock=clock)
    least: dict[str, float] = {}
    for number in range(rounds + 1):
        clock.start()
        run(circuit.leaves, x)
        clock.mark("")
        if number:
            least = {name: min(least.get(name, seconds), seconds) for name, seconds in clock.seconds.items()}
    return tuple(PartTime(name, seconds) for name, seconds in least.items())


def code_parts(code: str) -> dict[str, list[str]]:
    """The lines of emitted code, by the names of the parts that `profile` times; a part may come in several pieces."""
    parts: dict[str, list[str]] = {}
    name = _START
    for line in code.splitlines():
        match = _PLACE.match(line)
        name = match[2] if match else name
        if not match:
            parts.setdefault(name, []).append(line)
    return parts


def _marked(code: str) -> str:
    """Emitted code that tells the clock where each part begins."""
    lines = []
    for line in code.splitlines():
        lines.append(line)
        match = _PLACE.match(line)
        if match:
            lines.append(f"{match[1]}clock.mark({match[2]!r})")
    return "\n".join(lines) + "\n"
