"""Circuits in eval mode: some to try, their values without folding, and the work on parameters, counted."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plica.backend.torch.circuits import TorchCircuit
from plica.symbolic.circuit import Circuit
from tests.harness.circuits import pixels

X = torch.arange(18).reshape(2, 9) % 5


def image(units: int = 4, side: int = 3) -> Circuit:
    """The circuit of small images of five colours."""
    return pixels(side, units, graph="quad-graph", layer="cp-t", values=5)


def large() -> Circuit:
    """A circuit one of whose tensors has more than 64 KiB."""
    return image(units=40)


X = torch.arange(18).reshape(2, 9) % 5


def unfolded(circuit: TorchCircuit, x: Tensor = X) -> Tensor:
    """What the circuit's tensors say now, whatever it keeps."""
    with torch.no_grad():
        found: Tensor = copy.deepcopy(circuit).train()(x)
        return found


class ParameterOperations(TorchDispatchMode):
    """Counts the operations that read nothing but a circuit's tensors and what was computed from these."""

    def __init__(self, circuit: TorchCircuit) -> None:
        super().__init__()
        self.known: dict[int, Any] = {id(one): one for one in circuit.leaves.tensors()}
        self.count = 0

    def __torch_dispatch__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        found = function(*args, **(kwargs or {}))
        read = [one for one in tree_leaves(args) if isinstance(one, Tensor)]
        if read and all(id(one) in self.known for one in read) and "detach" not in str(function):
            self.count += 1
            for one in tree_leaves(found):
                self.known[id(one)] = one  # which keeps it alive, so that the number stays its own
        return found


def operations(circuit: TorchCircuit, x: Tensor) -> int:
    """How many such operations a call runs."""
    with torch.no_grad(), ParameterOperations(circuit) as mode:
        circuit(x)
    return mode.count


def edges(circuit: Circuit) -> dict[Any, Sequence[Any]]:
    """What each layer reads."""
    return {layer: circuit.layer_inputs(layer) for layer in circuit.inner_layers}
