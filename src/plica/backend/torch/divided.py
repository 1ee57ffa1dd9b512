"""Tensors that are divided among processes along one axis (`torch.distributed.tensor`), as leaves of circuits are.

>>> is_divided(torch.zeros(3)), part_of(5, 2, 1), part_of(2, 3, 2)
(False, slice(3, 5, None), slice(2, 2, None))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def is_divided(tensor: Any) -> bool:
    """Whether a tensor is a `DTensor`."""
    module = sys.modules.get("torch.distributed.tensor")  # which takes half a second to import, without need
    return module is not None and isinstance(tensor, module.DTensor)


def part_of(length: int, size: int, rank: int) -> slice:
    """The part of an axis that one of `size` processes has, as `torch.chunk` makes it."""
    most = -(-length // size)
    return slice(min(rank * most, length), min((rank + 1) * most, length))


def own_part(tensor: Any) -> tuple[int, slice]:
    """The axis along which a divided tensor is divided, and the part of this process; of copies the whole first axis.

    Assumes:
        Its mesh has one axis.
    """
    (placement,) = tensor.placements
    axis = placement.dim if placement.is_shard() else 0
    if not placement.is_shard():
        return axis, slice(0, tensor.shape[axis])
    return axis, part_of(tensor.shape[axis], tensor.device_mesh.size(), tensor.device_mesh.get_local_rank())


def folds_of(tensor: Any) -> Sequence[Tensor]:
    """The folds `(*shape,)` of a tensor `(F, *shape)`, each divided as it is.

    Of one that is divided along the axis of folds each process gets a copy: all call this together.
    """
    if not is_divided(tensor):
        sequence: Sequence[Tensor] = tensor
        return sequence
    from torch.distributed.tensor import DTensor, Replicate, Shard

    axis, _ = own_part(tensor)
    placement = Shard(axis - 1) if axis else Replicate()
    if not axis:
        tensor = tensor.redistribute(placements=[placement])
    mesh, shape, stride = tensor.device_mesh, tensor.shape[1:], tensor.stride()[1:]
    return [
        DTensor.from_local(_at_start(fold), mesh, [placement], run_check=False, shape=shape, stride=stride)
        for fold in tensor.to_local().unbind()
    ]


def _at_start(tensor: Tensor) -> Tensor:
    """The same memory as a tensor that begins where its storage does.

    Torch's `async_save` takes any other local tensor of a `DTensor` for one that has no storage (found in 2.13).
    """
    start = tensor.storage_offset() * tensor.element_size()
    if not start or tensor.is_meta:
        return tensor
    if not tensor.is_contiguous():
        return tensor.clone()
    storage = tensor.untyped_storage()[start : start + tensor.nbytes]
    return tensor.new_empty(0).set_(storage, 0, tensor.shape, tensor.stride())


def divided_like(own: Any, folds: Sequence[Any]) -> Tensor:
    """Folds as one tensor, divided as another one is.

    Args:
        own: The divided tensor `(F, *shape)`.
        folds: F tensors `(*shape,)`, divided or whole; whole ones are equal on all processes.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    axis, part = own_part(own)
    (placement,) = own.placements

    def local(fold: Any) -> Tensor:
        if is_divided(fold):
            if axis and tuple(fold.placements) == (Shard(axis - 1),):
                part_here: Tensor = fold.to_local()
                return part_here
            fold = fold.redistribute(placements=[Replicate()]).to_local()
        whole: Tensor = fold.detach().to(own.device)
        return whole.narrow(axis - 1, part.start, part.stop - part.start) if axis else whole

    chosen = folds if axis else folds[part]
    joined = torch.stack([local(fold) for fold in chosen]) if len(chosen) else own.to_local()
    divided: Tensor = DTensor.from_local(
        joined.contiguous(), own.device_mesh, [placement], run_check=False, shape=own.shape, stride=own.stride()
    )
    return divided


class Gathered:
    """An entry of a state dict whose numbers all processes read together; `files.model.Unread` is such an array.

    Args:
        tensor: The tensor, divided or whole.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor: Any = tensor.detach()
        self.shape = tuple(tensor.shape)
        self.dtype = as_array(torch.empty(0, dtype=tensor.dtype)).dtype
        self.is_read = False

    def read(self) -> NDArray[Any]:
        """The numbers, on every process."""
        self.is_read = True
        return as_array(self._tensor.full_tensor() if is_divided(self._tensor) else self._tensor)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array of numpy, which has no bfloat16: float32 stands for it."""
    on_cpu = tensor.detach().cpu()
    return np.asarray(on_cpu.float() if on_cpu.dtype == torch.bfloat16 else on_cpu)


def write_together(state: Mapping[str, Tensor], write: Callable[[Mapping[str, Gathered]], None]) -> None:
    """Write a state dict of divided tensors: the first process writes each entry when all have gathered it.

    Args:
        state: The state dict, with one divided tensor at least.
        write: Writes entries that it reads in the order of their keys; called on the first process alone. What it
            raises is raised on all.
    """
    import torch.distributed as dist

    divided: Any = next(tensor for tensor in state.values() if is_divided(tensor))
    group = divided.device_mesh.get_group()
    gathered = {name: Gathered(state[name]) for name in sorted(state)}
    told: list[Exception | None] = [None]
    if dist.get_rank(group) == 0:
        try:
            write(gathered)
        except Exception as error:
            told = [error]
    for entry in gathered.values():
        if not entry.is_read:  # by a process that does not write, or whose writing has failed
            entry.read()
    dist.broadcast_object_list(told, dist.get_global_rank(group, 0), group=group)
    if told[0] is not None:
        raise told[0]
