"""`Watch`: remembers the state of tensors, and says whether they still have it. It takes microseconds of each call.

>>> import torch
>>> tensors = [torch.zeros(3), torch.zeros(200, 200)]
>>> watch = Watch(tensors)
>>> watch.is_current(tensors)
True
>>> _ = tensors[0].data.add_(1.0)  # torch counts no version
>>> watch.is_current(tensors)
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from ctypes import c_char
from functools import partial
from operator import attrgetter, eq, is_
from typing import NamedTuple, final

from torch import Tensor

from plica.backend.torch.logs import is_abstract
from plica.backend.torch.sources import (
    PLAIN,
    content_hash,
    counts_versions,
    doubt_all,
    folding,
    is_compared_by_content,
    location_of,
    num_events,
    owned,
    pin,
    stamps_of,
    state_of,
    wants_gradient,
)
from plica.constants.changes.tensors import SMALL

# the protocol `constants.changes.tensors.Tensors`
__all__ = ["Watch", "can_watch", "doubt_all", "folding", "owned", "pin", "state_of", "wants_gradient"]

_version, _layout = attrgetter("_version"), attrgetter("shape", "dtype")


def can_watch(tensor: Tensor) -> bool:
    """Whether changes of a tensor can be noticed: not for a subclass, or under a transform, or on the meta device.

    A tensor of inference mode counts no versions, so its entries are read; this is done on the CPU alone, since other
    devices would make the call wait.
    """
    if type(tensor) not in PLAIN or tensor.is_meta or is_abstract(tensor):
        return False
    return tensor.device.type == "cpu" or counts_versions(tensor)


@final
class Watch:
    """The state of tensors when this was made.

    It notices the changes that `sources.state_of` lists, by passes over all tensors that run in C. The entries of small
    tensors are compared with a copy. It keeps their memory alive, so that no other tensor gets the same address.

    Args:
        tensors: The tensors, for each of which `can_watch` holds.
        checksum: Whether to compare the entries of all, however large they are.
        before: The previous watch, whose hashes of entries are used again where nothing can have changed.
    """

    def __init__(self, tensors: Sequence[Tensor], *, checksum: bool = False, before: Watch | None = None) -> None:
        self.tensors = tuple(tensors)
        self._checksum, self._before = checksum, before
        self._events, self._stamps = num_events(), stamps_of(tensors)
        self._memory = [tensor.detach() for tensor in tensors]
        self._pointers = list(map(Tensor.data_ptr, tensors))
        self._layouts = list(map(_layout, tensors)), list(map(Tensor.stride, tensors))
        self._counting = [tensor for tensor in tensors if counts_versions(tensor)]
        self._versions = list(map(_version, self._counting))
        self._entries = [_entries_of(tensor) for tensor in self._read()]
        self._known: list[_Known] | None = None

    def _read(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors if is_compared_by_content(tensor, checksum=self._checksum)]

    def is_current(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these are the same tensors, in the same state."""
        return (
            len(tensors) == len(self.tensors)
            and all(map(is_, tensors, self.tensors))
            and list(map(_version, self._counting)) == self._versions
            and list(map(Tensor.data_ptr, tensors)) == self._pointers
            and (list(map(_layout, tensors)), list(map(Tensor.stride, tensors))) == self._layouts
            and all(is_same() for is_same in self._entries)
            and self._is_untouched()
        )

    def _is_untouched(self) -> bool:
        """Whether no event was about the memory of these tensors. Events about other memory are looked at once."""
        count = num_events()
        if count != self._events:
            if stamps_of(self.tensors) != self._stamps:
                return False
            self._events = count
        return True

    @property
    def states(self) -> list[Hashable]:
        """For each tensor a value that differs once the tensor has changed, or is another one.

        Only the entries of a tensor say whether it was written to while in doubt. So after a call of `eval()` large
        tensors on the CPU are hashed once. On other devices, which would make the call wait, each doubt is a change.
        """
        known = self._known
        if known is None:
            before = self._before
            previous = {} if before is None else dict(zip(map(id, before.tensors), before._known or (), strict=False))
            pairs = zip(self.tensors, self._stamps, strict=True)
            self._known = known = [self._state(tensor, *stamps, previous.get(id(tensor))) for tensor, stamps in pairs]
            self._before = None
        return [(id(tensor), state.certain, state.content) for tensor, state in zip(self.tensors, known, strict=True)]

    def _state(self, tensor: Tensor, written: int, doubted: int, before: _Known | None) -> _Known:
        """The state of a tensor, given the last events that wrote to it or may have, and its previous state."""
        if is_compared_by_content(tensor, checksum=self._checksum):
            return _Known(location_of(tensor), doubted, content_hash(tensor))
        certain = (location_of(tensor), tensor._version, written)
        if tensor.device.type != "cpu":
            return _Known(certain, doubted, doubted)
        if before is not None and (before.certain, before.doubted) == (certain, doubted):
            return before
        return _Known(certain, doubted, content_hash(tensor))

    def pins(self, index: int) -> tuple[Tensor, Tensor]:
        """Objects whose life keeps another tensor from having this state: the tensor, and its memory as it was."""
        return self.tensors[index], self._memory[index]


class _Known(NamedTuple):
    """The state of a tensor.

    Args:
        certain: A value that differs after each write that is known.
        doubted: The last event that may have written to it.
        content: A hash of its entries; on other devices than the CPU, `doubted`.
    """

    certain: Hashable
    doubted: int
    content: int


def _entries_of(tensor: Tensor) -> Callable[[], bool]:
    """A function that tells whether a tensor still has its present entries: by a copy of few, by a checksum of many."""
    if (
        tensor.nbytes >= SMALL
        or tensor.device.type != "cpu"
        or not tensor.is_contiguous()
        or tensor.is_neg()
        or tensor.is_conj()
    ):
        return partial(_has_content, tensor, content_hash(tensor))
    # numpy would have its memory never resized again; a bytearray compares memory where it lies
    memory = (c_char * tensor.nbytes).from_address(tensor.data_ptr())
    return partial(eq, bytearray(memory), memory)


def _has_content(tensor: Tensor, content: int) -> bool:
    return content_hash(tensor) == content
