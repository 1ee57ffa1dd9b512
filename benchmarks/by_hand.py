"""Circuits as a person would write them in torch: plain Python over lists, calling the same kernels.

They read copies of a compiled circuit's parameters from their own attributes, and so must give the same numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plica.backend.torch import kernels
from plica.backend.torch.circuits import TorchCircuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, KroneckerLayer, Layer, SumLayer

_LEAF = {CategoricalLayer: "logits", SumLayer: "weight"}


class LayerByLayer(nn.Module):
    """One torch call after another for each layer, as nothing were folded.

    Args:
        compiled: A compiled circuit of categorical, sum, Hadamard and binary Kronecker layers with default parameters.
    """

    def __init__(self, compiled: TorchCircuit) -> None:
        super().__init__()
        circuit = compiled.symbolic
        place = {layer: number for number, layer in enumerate(circuit.layers)}
        self.tensors = nn.ParameterList(
            [_copies(compiled, [layer]) for layer in circuit.layers if type(layer) in _LEAF]
        )
        tensors = iter(self.tensors)
        self.steps = [
            (type(layer), next(tensors) if type(layer) in _LEAF else None, _reads(circuit, layer, place))
            for layer in circuit.layers
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Log-likelihoods `(B, 1, 1)`."""
        columns = x.mT.unsqueeze(1)  # (D, 1, B)
        values: list[Tensor] = []
        for kind, tensor, reads in self.steps:
            if tensor is None:
                values.append(_product(kind, values[reads[0]], values[reads[1]]))
            elif kind is CategoricalLayer:
                values.append(_categorical(tensor, columns[reads[0]]))
            else:
                values.append(_sum(tensor, values[reads[0]]))
        return values[-1].permute(1, 0, 2)


class Folded(nn.Module):
    """One torch call for all layers of a level of a complete binary tree, as a person folds by hand.

    The inputs of fold f are folds 2f and 2f + 1, so that a product reads two strided views.

    Args:
        compiled: A compiled circuit as above, whose region graph is a complete binary tree (a quad-tree of 2^n pixels).
    """

    order: Tensor

    def __init__(self, compiled: TorchCircuit) -> None:
        super().__init__()
        circuit = compiled.symbolic
        levels = [list(circuit.outputs)]
        while not isinstance(levels[-1][0], CategoricalLayer):
            levels.append([one for layer in levels[-1] for one in circuit.layer_inputs(layer)])
        levels.reverse()
        self.register_buffer("order", torch.tensor([next(iter(circuit.layer_scope(layer))) for layer in levels[0]]))
        self.tensors = nn.ParameterList([_copies(compiled, level) for level in levels if type(level[0]) in _LEAF])
        tensors = iter(self.tensors)
        self.steps = [(type(level[0]), next(tensors) if type(level[0]) in _LEAF else None) for level in levels]

    def forward(self, x: Tensor) -> Tensor:
        """Log-likelihoods `(B, 1, 1)`."""
        value = x.mT[self.order]  # (F, B)
        for kind, tensor in self.steps:
            if tensor is None:
                value = _product(kind, value[0::2], value[1::2])
            elif kind is CategoricalLayer:
                value = _categorical(tensor, value)
            else:
                value = _sum(tensor, value)
        return value.permute(1, 0, 2)


def _copies(compiled: TorchCircuit, layers: list[Layer]) -> nn.Parameter:
    """The parameters of alike layers, stacked."""
    state = compiled.state_dict()
    place = {layer: number for number, layer in enumerate(compiled.symbolic.layers)}
    name = _LEAF[type(layers[0])]
    return nn.Parameter(torch.stack([state[f"{place[layer]}.{name}"] for layer in layers]))


def _reads(circuit: Circuit, layer: Layer, place: dict[Layer, int]) -> tuple[int, ...]:
    if isinstance(layer, CategoricalLayer):
        return tuple(layer.scope)
    return tuple(place[one] for one in circuit.layer_inputs(layer))


def _categorical(logits: Tensor, index: Tensor) -> Tensor:
    return kernels.lookup(torch.log_softmax(logits, -1), index)


def _sum(weight: Tensor, x: Tensor) -> Tensor:
    return kernels.log_matmul_exp(x, torch.softmax(weight, -1))


def _product(kind: type[Layer], first: Tensor, second: Tensor) -> Tensor:
    if kind is HadamardLayer:
        return first + second
    assert kind is KroneckerLayer, "the layers of these circuits"
    return (first.unsqueeze(-1) + second.unsqueeze(-2)).flatten(-2)
