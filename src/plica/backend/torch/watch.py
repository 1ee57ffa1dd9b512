"""`Watch`: tensors as they are now, and whether they still are so; asked at each call, so it takes microseconds.

>>> tensors = [torch.zeros(3), torch.zeros(200, 200)]
>>> watch = Watch(tensors, epoch=0)
>>> watch.is_current(tensors, 0)
True
>>> _ = tensors[0].data.add_(1.0)  # torch counts no version
>>> watch.is_current(tensors, 0)
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import attrgetter, is_
from typing import final

import torch
from torch import Tensor, nn

from plica.backend.torch.logs import is_abstract
from plica.backend.torch.sources import SMALL, counts_versions, entries_of, epochs_of, events, state_of

_version, _shape = attrgetter("_version"), attrgetter("shape")
_PLAIN = (Tensor, nn.Parameter)


def can_watch(tensor: Tensor) -> bool:
    """Whether a tensor has numbers that can be looked at: none of a transform, a subclass, or the meta device.

    Tensors of inference mode count no versions, and on other devices than the CPU to read them would wait.
    """
    if type(tensor) not in _PLAIN or tensor.is_meta or is_abstract(tensor):
        return False
    return tensor.device.type == "cpu" or counts_versions(tensor)


@final
class Watch:
    """Tensors as they are now.

    What may have changed them is noticed as `sources.state_of` says, by passes over all of them that run in C; the
    entries of small tensors are compared with a copy. Their memory stays alive, so that no other takes its place.

    Args:
        tensors: The tensors, which `can_watch`.
        epoch: A number that is raised where their owner knows of a change.
        checksum: Whether all are told by their entries, however large they are.
    """

    def __init__(self, tensors: Sequence[Tensor], epoch: int, *, checksum: bool = False) -> None:
        self.tensors = tuple(tensors)
        self._epoch, self._checksum = epoch, checksum
        self._events, self._epochs = events(), epochs_of(tensors)
        self._memory = [tensor.detach() for tensor in tensors]
        self._pointers = list(map(Tensor.data_ptr, tensors))
        self._shapes = list(map(_shape, tensors)), list(map(Tensor.stride, tensors))
        self._counting = [tensor for tensor in tensors if counts_versions(tensor)]
        self._versions = list(map(_version, self._counting))
        read = [
            _reader(tensor)
            for tensor in tensors
            if checksum or not counts_versions(tensor) or (tensor.device.type == "cpu" and tensor.nbytes < SMALL)
        ]
        self._entries = [(one, one()) for one in read]

    def is_current(self, tensors: Sequence[Tensor], epoch: int) -> bool:
        """Whether these are the same tensors, as they were."""
        return (
            epoch == self._epoch
            and len(tensors) == len(self.tensors)
            and all(map(is_, tensors, self.tensors))
            and list(map(_version, self._counting)) == self._versions
            and list(map(Tensor.data_ptr, tensors)) == self._pointers
            and (list(map(_shape, tensors)), list(map(Tensor.stride, tensors))) == self._shapes
            and all(read() == entries for read, entries in self._entries)
            and self._is_untouched()
        )

    def _is_untouched(self) -> bool:
        """Whether no event was about the memory of a tensor; those about other memory are passed over once."""
        seen = events()
        if seen != self._events:
            if epochs_of(self.tensors) != self._epochs:
                return False
            self._events = seen
        return True

    def pinned(self, place: int) -> tuple[Tensor, Tensor]:
        """One of the tensors, and the memory that it had: while both are alive nothing else has their numbers."""
        return self.tensors[place], self._memory[place]

    def state(self, place: int) -> Hashable:
        """What differs once one of the tensors has changed, or is another one."""
        tensor = self.tensors[place]
        return id(tensor), self._epoch, state_of(tensor, checksum=self._checksum)


def _reader(tensor: Tensor) -> Callable[[], Hashable]:
    """What reads the entries of a tensor: bytes where these are few, else a number that stands for them."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or not tensor.numel():
        return partial(_told, partial(entries_of, tensor))
    alias = tensor.data.reshape(-1).view(torch.uint8).numpy()
    return alias.tobytes if tensor.nbytes < SMALL else partial(_told, alias.tobytes)


def _told(read: Callable[[], bytes]) -> int:
    return hash(read())
