"""Leaves in torch: the folded tensors of a compiled circuit, and their unfolded names and shapes in a state dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.lower.leaves import Constant, Leaf
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import TensorParameter


class Leaves(nn.Module):
    """The tensors that a Program captures, as attributes named like its variables.

    Learnable leaves are parameters and the others buffers, `(F, *shape)` each. In a state dict each fold is an entry of
    its own: `3.weight` of shape `(*shape,)`. Constants are plain attributes that follow the module from device to device
    but never change their dtype.
    """

    def __init__(self) -> None:
        super().__init__()
        self._leaves: dict[str, Leaf] = {}
        self._constants: dict[str, Constant] = {}
        self.device = torch.get_default_device()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Leaves:
        super()._apply(fn, recurse)
        self.device = fn(torch.empty(0, device=self.device)).device
        for name, constant in self._constants.items():
            self.keep(name, constant)
        return self

    def keep(self, name: str, constant: Constant) -> None:
        """Hold one constant under the name of its variable, on the device of the module."""
        self._constants[name] = constant
        object.__setattr__(self, name, torch.from_numpy(np.array(constant.value)).to(self.device))

    def own(self, name: str, captured: Leaf, tensor: Tensor) -> None:
        """Register the tensor of one leaf under the name of its variable."""
        self._leaves[name] = captured
        if captured.learnable:
            self.register_parameter(name, tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor))
        else:
            self.register_buffer(name, tensor)

    def __len__(self) -> int:
        return len(self._leaves)

    def items(self) -> Iterator[tuple[Leaf, Tensor]]:
        """The leaves with their tensors."""
        return ((leaf, getattr(self, name)) for name, leaf in self._leaves.items())

    def unfold(self, state: dict[str, Any], prefix: str, folded_prefix: str) -> None:
        """In `state`, replace folded tensors by one entry for each fold."""
        for name, leaf in self._leaves.items():
            tensor = state.pop(f"{folded_prefix}{name}", None)
            if tensor is not None:
                state.update((f"{prefix}{key}", tensor[fold]) for fold, key in enumerate(leaf.keys))

    def fold(self, state: dict[str, Any], prefix: str, folded_prefix: str) -> None:
        """In `state`, replace entries for each fold by folded tensors; incomplete leaves stay as they are."""
        for name, leaf in self._leaves.items():
            keys = [f"{prefix}{key}" for key in leaf.keys]
            if all(key in state for key in keys):
                folds = [state.pop(key) for key in keys]
                stackable = len({fold.shape for fold in folds}) == 1
                state[f"{folded_prefix}{name}"] = torch.stack(folds) if stackable else folds[0]

    def key_of(self, name: str) -> str:
        """What a state dict calls a folded tensor: the key of its first fold, or `name` if it is no leaf."""
        leaf = self._leaves.get(name)
        return name if leaf is None else leaf.keys[0]


def torch_dtype(kind: DataType, real: torch.dtype) -> torch.dtype:
    """The dtype of a leaf of one kind beside real leaves of `real`."""
    kinds = {DataType.REAL: real, DataType.INTEGER: torch.int64, DataType.COMPLEX: real.to_complex()}
    return kinds[kind]


def new_tensor(leaf: Leaf, real: torch.dtype) -> Tensor:
    """An uninitialised tensor for a leaf."""
    return torch.empty(leaf.shape, dtype=torch_dtype(leaf.kind, real))


@torch.no_grad()
def initialize(leaves: Iterable[tuple[Leaf, Tensor]], numbers: Mapping[TensorParameter, int], seed: int) -> None:
    """Fill every fold from its own initializer (the seed's `foldwise_initializer_`).

    Draws depend on `seed` and on the number of the symbolic tensor alone, so they are alike whatever was folded and on
    every device.
    """
    for leaf, tensor in leaves:
        draws = [
            member.initializer.draw(np.random.default_rng([seed, numbers[member]]), member.shape)
            for member in leaf.members
        ]
        tensor.copy_(torch.from_numpy(np.stack(draws)))
