"""`Tensors`: the protocol through which folding asks a backend about tensors; torch is imported at the first call."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol, cast, runtime_checkable

SMALL = 2**16
"""Arrays of fewer bytes on the CPU are compared by their entries; reading these takes microseconds."""


class TensorWatch(Protocol):
    """The states of some tensors, as they were when the watch began."""

    @property
    def states(self) -> Sequence[Hashable]:
        """The state of each tensor, which differs once it has changed, or is another one."""

    def is_current(self, tensors: Sequence[Any]) -> bool:
        """Whether these are the same tensors, as they were."""


@runtime_checkable
class Tensors(Protocol):
    """A library of tensors; `plica.backend.torch.watch` is one."""

    def Watch(self, tensors: Sequence[Any], *, checksum: bool, before: TensorWatch | None) -> TensorWatch:  # noqa: N802
        """Watch tensors that `can_watch` accepts; entries that `before` has read are not read again."""

    def can_watch(self, tensor: Any) -> bool:
        """Whether the entries of a tensor can be read."""

    def state_of(self, tensor: Any, *, checksum: bool) -> Hashable:
        """A state that differs once a tensor has changed."""

    def pin(self, tensor: Any) -> object:
        """An object that keeps a tensor's memory from being used again."""

    def doubt_all(self) -> None:
        """Say that any tensor may have been written to in a way that nothing counts."""

    def wants_gradient(self, tensors: Sequence[Any]) -> bool:
        """Whether derivatives with respect to one of the tensors are wanted now, or a transform maps over it."""

    def owned(self, tensor: Any, sources: Sequence[Any]) -> Any:
        """A tensor without gradients that shares memory with no source."""

    def folding(self) -> AbstractContextManager[None]:
        """A context in which constants are folded: without gradients, in the dtypes of the Program."""


_LIBRARIES = {"torch": "plica.backend.torch.watch"}


@cache
def tensors() -> Tensors:
    """The library of torch's tensors."""
    return cast("Tensors", importlib.import_module(_LIBRARIES["torch"]))
