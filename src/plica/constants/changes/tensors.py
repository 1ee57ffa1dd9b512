"""`Tensors`: what folding asks about tensors, which backends answer; torch is imported when it is first asked."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol, cast, runtime_checkable

SMALL = 2**16
"""An array of fewer bytes on the CPU is told from another one by its entries; reading these takes microseconds."""


class TensorWatch(Protocol):
    """Tensors as they were when this was made."""

    @property
    def states(self) -> Sequence[Hashable]:
        """For each tensor what differs once it has changed, or is another one."""

    def is_current(self, tensors: Sequence[Any]) -> bool:
        """Whether these are the same tensors, as they were."""


@runtime_checkable
class Tensors(Protocol):
    """A library of tensors; `plica.backend.torch.watch` is one."""

    def Watch(self, tensors: Sequence[Any], *, checksum: bool, before: TensorWatch | None) -> TensorWatch:  # noqa: N802
        """What watches tensors, which `can_watch`; entries that `before` has read are not read again."""

    def can_watch(self, tensor: Any) -> bool:
        """Whether a tensor has numbers that can be looked at."""

    def state_of(self, tensor: Any, *, checksum: bool) -> Hashable:
        """What differs once a tensor has changed."""

    def pin(self, tensor: Any) -> object:
        """What keeps the identity of a tensor's memory from being given to another one."""

    def doubt_all(self) -> None:
        """Say that any tensor may have been written to in a way that nothing counts."""

    def wants_gradient(self, tensors: Sequence[Any]) -> bool:
        """Whether derivatives of one of the tensors are asked for now, or a transform maps over it."""

    def owned(self, tensor: Any, sources: Sequence[Any]) -> Any:
        """A tensor without gradients that shares memory with no source."""

    def folding(self) -> AbstractContextManager[None]:
        """Where constants are folded: without gradients, in the dtypes of the Program."""


_LIBRARIES = {"torch": "plica.backend.torch.watch"}


@cache
def tensors() -> Tensors:
    """The library of torch's tensors."""
    return cast("Tensors", importlib.import_module(_LIBRARIES["torch"]))
