"""`TorchFunction`: a traced function compiled to generated code, called with the leaves of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
from torch import Tensor

from plica.backend.torch.emit import emit, number_arguments, source
from plica.ir.program import Bound
from plica.passes.clean import clean
from plica.tracing.tracer import Reference

Converter = Callable[[Any], Any]


class TorchFunction:
    """Generated code with the arrays that it captures.

    Args:
        bound: The Program and what it captures; references are read at each call.
        name: What the generated function is called.
    """

    def __init__(self, bound: Bound, name: str) -> None:
        self.program = clean(bound.program)
        self._name = name
        self._run = emit(self.program, name, is_checked=True)
        self._numbers = number_arguments(self.program)
        named = zip((var.name for var in self.program.consts), bound.leaves, strict=True)
        leaves = dict(named)
        self._references = {key: leaf for key, leaf in leaves.items() if isinstance(leaf, Reference)}
        self._arrays = {key: leaf for key, leaf in leaves.items() if not isinstance(leaf, Reference)}
        self._kept: dict[torch.device | None, SimpleNamespace] = {}

    @property
    def code(self) -> str:
        """The generated Python."""
        return source(self.program, self._name, is_checked=True)

    def specialise(self, leaves: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        """The function of leaves of these kinds: torch tensors, numpy arrays, DLPack objects, Python numbers."""
        converters = [self._converter(place, leaf) for place, leaf in enumerate(leaves)]
        changed = [(place, one) for place, one in enumerate(converters) if one is not None]
        first = next(
            (place for place, leaf in enumerate(leaves) if not isinstance(leaf, bool | int | float | complex)), None
        )
        run, captured = self._run, self._captured

        def call(found: Sequence[Any]) -> Any:
            if changed:
                found = list(found)
                for place, convert in changed:
                    found[place] = convert(found[place])
            return run(captured(None if first is None else found[first].device), *found)

        return call

    def _captured(self, device: torch.device | None) -> SimpleNamespace:
        kept = self._kept.get(device)
        if kept is None:
            arrays = {key: _on_device(leaf, device) for key, leaf in self._arrays.items()}
            kept = self._kept[device] = SimpleNamespace(device=device, **arrays)
        if not self._references:
            return kept
        return SimpleNamespace(**vars(kept), **{key: one.read() for key, one in self._references.items()})

    def _converter(self, place: int, leaf: Any) -> Converter | None:
        """What makes of a leaf of this kind what the generated code takes."""
        if isinstance(leaf, Tensor):
            return None
        if isinstance(leaf, bool | int | float | complex):
            if place in self._numbers:
                return None
            dtype = getattr(torch, self.program.arguments[place].type.dtype.value)
            return lambda value: torch.full((), value, dtype=dtype)
        return from_numpy if isinstance(leaf, np.ndarray | np.generic) else torch.utils.dlpack.from_dlpack


def from_numpy(array: Any) -> Tensor:
    """A tensor of the memory of a numpy array, or of a copy where torch cannot have it."""
    found = np.asarray(array)
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    if not found.flags.writeable or any(step < 0 for step in found.strides):
        found = found.copy()
    return torch.from_numpy(found)


def to_numpy(tensor: Tensor) -> Any:
    """A numpy array of the memory of a tensor on the CPU."""
    return tensor.detach().resolve_conj().cpu().numpy()


def _on_device(leaf: Any, device: torch.device | None) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    tensor = (
        from_numpy(leaf).clone() if isinstance(leaf, np.ndarray | np.generic) else torch.utils.dlpack.from_dlpack(leaf)
    )
    return tensor if device is None else tensor.to(device)
