"""What torch allocates on the CPU while something runs: the bytes alive at once, counted and not timed.

>>> import torch
>>> peak_bytes(lambda: (torch.zeros(4) + 1).reshape(2, 2) * 2)  # the zeros, then two sums of 16 bytes at once
32
"""

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Allocations(TorchDispatchMode):
    """Follows the memory of every result from the operation that makes it until nobody holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, Tensor)]
        before = {one.untyped_storage().data_ptr() for one in given}
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and one.untyped_storage().data_ptr() not in before:
                self._follow(one)
        return result

    def _follow(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        size, place = storage.nbytes(), storage.data_ptr()
        if not size or place in self._known:
            return
        self._known.add(place)
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.alive -= size


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes of results of torch operations that are alive at once during a call."""
    counted = _Allocations()
    with counted:
        call()
    return counted.peak
