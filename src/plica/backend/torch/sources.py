"""Constants in torch: what says that one has changed, whether gradients are asked for, and buffers of their own."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor, no_grad
from torch.nn import Parameter
from torch.optim.optimizer import register_optimizer_step_post_hook

__all__ = ["no_grad", "owned", "state_of", "steps", "wants_gradient"]

_STEPS = [0]  # how often any optimizer has made a step


def _count_step(*_: object) -> None:
    _STEPS[0] += 1


register_optimizer_step_post_hook(_count_step)


def steps() -> int:
    """How often any optimizer has made a step."""
    return _STEPS[0]


SMALL = 2**16
"""A tensor of fewer bytes on the CPU is told from another one by its entries; reading these takes microseconds."""


def state_of(tensor: Tensor, *, checksum: bool = False) -> Hashable:
    """What differs once a tensor has changed.

    Small tensors on the CPU, and inference tensors, which count no versions, are told by their entries. Parameters may
    have changed after each step of any optimizer: fused ones write without counting. Other writes to a large tensor
    that torch does not count (through `.data`, or through a numpy array of its memory) are not seen, unless all
    tensors are told by their entries.

    Args:
        tensor: The tensor.
        checksum: Whether it is told by its entries however large it is.
    """
    place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
    is_small = tensor.device.type == "cpu" and tensor.nbytes < SMALL
    version = None if tensor.is_inference() else tensor._version
    if checksum or is_small or version is None:
        flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return (*place, version, hash(flat.view(torch.uint8).numpy().tobytes()))
    return (*place, version, _STEPS[0] if tensor.requires_grad or isinstance(tensor, Parameter) else None)


def wants_gradient(tensors: Sequence[object]) -> bool:
    """Whether gradients are recorded now, and one of the tensors asks for them."""
    return torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in tensors)


def owned(tensor: Tensor, sources: Sequence[object]) -> Tensor:
    """A tensor without gradients that shares memory with no source, and keeps no more memory alive than it has."""
    found = tensor.detach()
    storage = found.untyped_storage()
    taken = [one.untyped_storage().data_ptr() for one in sources if isinstance(one, Tensor)]
    taken += [one.__array_interface__["data"][0] for one in sources if hasattr(one, "__array_interface__")]
    if storage.nbytes() != found.nbytes or storage.data_ptr() in taken:
        return found.clone()
    return found
