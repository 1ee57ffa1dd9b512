"""The least entry of learned weights on a device, which nobody waits for.

A training step changes weights, and a look at them would wait for the device at each step. Here a look is a copy to the
host that goes on by itself; a later call reads it when it has arrived. Weights that were large a few steps ago are
assumed not to have been divided by 2^30 since. Each look checks that assumption, and warns where it did not hold. It
does not see a weight that became small and large again between two looks.
"""

import warnings
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_EVERY = 16  # versions of a weight from one look to the next
_ROOM = 2.0**30  # what a weight may be divided by from a look to the last call that relies on it


@final
class _Looks:
    """The looks at one leaf.

    Attributes:
        least: The least weight at the last look that has arrived; 0 before.
    """

    def __init__(self) -> None:
        self.least = 0.0
        self._version: int | None = None
        self._versions = _EVERY  # since the last look
        self._arriving: tuple[Tensor, Any] | None = None

    def is_large(self, weight: Tensor, version: int, limit: float) -> bool:
        """Whether the weights are taken to be at least `limit`."""
        relied = self.least >= limit * _ROOM
        if self._arriving is not None and _has_arrived(self._arriving[1]):
            self.least, self._arriving = float(self._arriving[0]), None
            if relied and not self.least >= limit:
                warnings.warn(
                    f"a softmax weight fell below {limit:.1e} within {_EVERY} training steps; sums computed "
                    "in these steps may have lost terms that were not 0. Take smaller steps.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        if version != self._version:
            self._version, self._versions = version, self._versions + 1
        if self._arriving is None and self._versions >= _EVERY:
            self._arriving, self._versions = _begun(weight.detach().amin()), 0
        return self.least >= limit * _ROOM


_LOOKS: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def is_large(weight: Tensor, leaf: Tensor, limit: float) -> bool:
    """Whether all entries of a weight are known to be at least `limit`, without waiting for the device.

    Args:
        weight: The weight.
        leaf: The learned tensor that it is computed from, by which looks are kept.
        limit: The least entry that is large enough.
    """
    if not leaf.is_leaf or (leaf.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    looks = _LOOKS.get(leaf)  # type: ignore[no-untyped-call]
    if looks is None:
        looks = _LOOKS[leaf] = _Looks()
    large: bool = looks.is_large(weight, leaf._version, limit)
    return large


def _begun(least: Tensor) -> tuple[Tensor, Any]:
    """A copy of a number to the host that has begun, and what says when it has arrived."""
    if not least.is_cuda:
        return least.cpu(), None
    host = torch.empty((), dtype=least.dtype, pin_memory=True)
    host.copy_(least, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(least.device))
    return host, event


def _has_arrived(event: Any) -> bool:
    return event is None or bool(event.query())
