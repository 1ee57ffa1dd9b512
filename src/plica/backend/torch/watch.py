"""`Watch`: tensors as they are now, and whether they still are so; asked at each call, so it takes microseconds.

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
    content_of,
    counts_versions,
    doubt_all,
    events,
    folding,
    is_read,
    owned,
    pin,
    place_of,
    stamps_of,
    state_of,
    wants_gradient,
)
from plica.constants.changes.tensors import SMALL

# what `constants.changes.tensors.Tensors` asks for
__all__ = ["Watch", "can_watch", "doubt_all", "folding", "owned", "pin", "state_of", "wants_gradient"]

_version, _layout = attrgetter("_version"), attrgetter("shape", "dtype")


def can_watch(tensor: Tensor) -> bool:
    """Whether a tensor has numbers that can be looked at: none of a transform, a subclass, or the meta device.

    Tensors of inference mode count no versions, and on other devices than the CPU to read them would wait.
    """
    if type(tensor) not in PLAIN or tensor.is_meta or is_abstract(tensor):
        return False
    return tensor.device.type == "cpu" or counts_versions(tensor)


@final
class Watch:
    """Tensors as they are now.

    Changes are noticed as `sources.state_of` says, by passes over all tensors that run in C. The entries of small
    tensors are compared with a copy. Their memory stays alive, so that no other takes its place.

    Args:
        tensors: The tensors, which `can_watch`.
        checksum: Whether all are told by their entries, however large they are.
        before: The watch of the state before: entries that it knows are not read again.
    """

    def __init__(self, tensors: Sequence[Tensor], *, checksum: bool = False, before: Watch | None = None) -> None:
        self.tensors = tuple(tensors)
        self._checksum, self._before = checksum, before
        self._events, self._stamps = events(), stamps_of(tensors)
        self._memory = [tensor.detach() for tensor in tensors]
        self._pointers = list(map(Tensor.data_ptr, tensors))
        self._layouts = list(map(_layout, tensors)), list(map(Tensor.stride, tensors))
        self._counting = [tensor for tensor in tensors if counts_versions(tensor)]
        self._versions = list(map(_version, self._counting))
        self._entries = [_entries_of(tensor) for tensor in self._read()]
        self._known: list[_Known] | None = None

    def _read(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors if is_read(tensor, checksum=self._checksum)]

    def is_current(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these are the same tensors, as they were."""
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
        """Whether no event was about the memory of a tensor; those about other memory are passed over once."""
        seen = events()
        if seen != self._events:
            if stamps_of(self.tensors) != self._stamps:
                return False
            self._events = seen
        return True

    @property
    def states(self) -> list[Hashable]:
        """For each tensor what differs once it has changed, or is another one.

        Whether a large tensor was written to while it was in doubt its entries tell. So a call of `eval()` costs a look
        at them; only on the CPU, as other devices would wait.
        """
        seen = self._known
        if seen is None:
            before = self._before
            told = {} if before is None else dict(zip(map(id, before.tensors), before._known or (), strict=False))
            pairs = zip(self.tensors, self._stamps, strict=True)
            self._known = seen = [self._told(tensor, *stamps, told.get(id(tensor))) for tensor, stamps in pairs]
            self._before = None
        return [(id(tensor), known.certain, known.content) for tensor, known in zip(self.tensors, seen, strict=True)]

    def _told(self, tensor: Tensor, written: int, doubted: int, before: _Known | None) -> _Known:
        if is_read(tensor, checksum=self._checksum):
            return _Known(place_of(tensor), doubted, content_of(tensor))
        certain = (place_of(tensor), tensor._version, written)
        if tensor.device.type != "cpu":
            return _Known(certain, doubted, doubted)
        if before is not None and (before.certain, before.doubted) == (certain, doubted):
            return before
        return _Known(certain, doubted, content_of(tensor))

    def pins(self, index: int) -> tuple[Tensor, Tensor]:
        """Objects whose life keeps another tensor from having this state: the tensor, and its memory as it was."""
        return self.tensors[index], self._memory[index]


class _Known(NamedTuple):
    """The state of a tensor, as far as it is known.

    Args:
        certain: A value that differs after any counted write.
        doubted: When it may have been written to uncounted last.
        content: A checksum of its entries.
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
        return partial(_has_content, tensor, content_of(tensor))
    # numpy would have its memory never resized again; a bytearray compares memory where it lies
    memory = (c_char * tensor.nbytes).from_address(tensor.data_ptr())
    return partial(eq, bytearray(memory), memory)


def _has_content(tensor: Tensor, content: int) -> bool:
    return content_of(tensor) == content
