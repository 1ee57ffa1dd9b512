"""The least and largest entries of weights on a device, which nobody waits for.

To ask a device for them would wait for it. Here a look is a copy to the host that goes on by itself; a later call reads
it when it has arrived. It holds for the version of the weight that it was made of. A training step makes a new version:
learned weights that were large a few steps ago are assumed not to have been divided by 2^30 since. Each look checks
that assumption, and warns where it did not hold. It does not see a weight that became small and large again between two
looks.
"""

import math
import warnings
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_EVERY = 16  # versions of a learned weight from one look to the next
_ROOM = 2.0**30  # what a learned weight may be divided by from a look to the last call that relies on it


@final
class _Looks:
    """The looks at one tensor."""

    def __init__(self) -> None:
        self._least, self._most = 0.0, math.inf  # at the last look that has arrived
        self._looked: int | None = None  # the version of which that was
        self._begun: int | None = None  # the version of the last look
        self._arriving: tuple[Tensor, Any] | None = None
        self._version: int | None = None  # of the last call
        self._versions = _EVERY  # since the last look

    def are_large(self, weight: Tensor, version: int, limit: float, *, learned: bool) -> bool:
        """Whether the weights are taken to be at least `limit`."""
        relied = learned and self._allow(limit * _ROOM)
        if self._arriving is not None and _has_arrived(self._arriving[1]):
            self._least, self._most = self._arriving[0].tolist()
            self._looked, self._arriving = self._begun, None
            if relied and not self._allow(limit):
                warnings.warn(
                    f"a softmax weight fell below {limit:.1e} within {_EVERY} training steps; sums computed "
                    "in these steps may have lost terms that were not 0. Take smaller steps.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        if version != self._version:
            self._version, self._versions = version, self._versions + 1
        is_due = self._begun != version and (not learned or self._versions >= _EVERY)
        if is_due and self._arriving is None:
            self._arriving, self._begun, self._versions = _begun(weight.detach()), version, 0
        return self.were_large(version, limit) or (learned and self._allow(limit * _ROOM))

    def were_large(self, version: int, limit: float) -> bool:
        """Whether the last look that has arrived was at this version, and found weights of at least `limit`."""
        return self._looked == version and self._allow(limit)

    def _allow(self, limit: float) -> bool:
        return self._least >= limit * max(self._most, 1.0) and self._most < math.inf


_LOOKS: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def are_large(weight: Tensor, limit: float, learned: Tensor | None = None) -> bool:
    """Whether all entries of a weight are known to be large enough, without waiting for the device.

    Args:
        weight: The weight, which several calls share, unless `learned` is given.
        limit: The least entry that is large enough, where the largest is at most 1; else it grows with that.
        learned: The leaf of which the weight is the softmax, computed anew for each call.
    """
    shared = weight if learned is None else learned
    is_captured = shared.is_cuda and torch.cuda.is_current_stream_capturing()
    if not shared.is_leaf or (is_captured and learned is not None):  # a replay may find other weights there
        return False
    looks = _LOOKS.get(shared)  # type: ignore[no-untyped-call]
    if looks is None:
        looks = _LOOKS[shared] = _Looks()
    version = 0 if shared.is_inference() else shared._version
    if is_captured:  # a graph holds no looks
        were_large: bool = looks.were_large(version, limit)
        return were_large
    large: bool = looks.are_large(weight, version, limit, learned=learned is not None)
    return large


def _begun(weight: Tensor) -> tuple[Tensor, Any]:
    """A copy of the least and largest sizes to the host that has begun, and what says when it has arrived."""
    ends = torch.stack(torch.aminmax(weight.abs()))
    if not ends.is_cuda:
        return ends.cpu(), None
    host = torch.empty((2,), dtype=ends.dtype, pin_memory=True)
    host.copy_(ends, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(weight.device))
    return host, event


def _has_arrived(event: Any) -> bool:
    return event is None or bool(event.query())
